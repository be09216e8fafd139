%% What programs do, one kind of it at a time, so that a profiler's cost can be seen.
%%
%% Each keeps the normal schedulers busy and counts units of finished work; beside it
%% requests come at their own times (bench_requests). Around it are a thousand
%% processes of which a hundred move every eight milliseconds, so that a profiler of
%% the busiest 100 or 1000 finds as many.
-module(bench_workloads).

-export([names/0, start/1, stop/1, work/1, workers/1, processes/1, requests/1]).

-export_type([name/0, workload/0]).

%% `allocate' does nothing else; it is not one of names/0.
-type name() :: cpu | messages | gc | ets | spawn | idle | allocate.
-opaque workload() :: #{
    owner := pid(),
    counter := counters:counters_ref(),
    workers := [pid()],
    requests := bench_requests:client()
}.

-define(BYSTANDERS, 1000).
-define(FRAMES, 20).
-define(MOVING, 100).
-define(MOVE_MS, 8).
-define(IDLE, 100000).
-define(KEYS, 10000).

-spec names() -> [name()].
names() -> [cpu, messages, gc, ets, spawn, idle].

-spec start(name()) -> workload().
start(Name) ->
    Starter = self(),
    Owner = spawn(fun() -> own(Name, Starter) end),
    Monitor = monitor(process, Owner),
    receive
        {Owner, Workload} ->
            demonitor(Monitor, [flush]),
            Workload;
        {'DOWN', Monitor, _, _, Reason} ->
            error({workload, Name, Reason})
    end.

%% Answers when all its processes are gone. Its tables go with the owner, and workers that still ran
%% would tell of that.
-spec stop(workload()) -> ok.
stop(#{owner := Owner, workers := Workers}) ->
    Monitor = monitor(process, Owner),
    _ = [true = erlang:suspend_process(Worker) || Worker <- Workers],
    exit(Owner, kill),
    receive {'DOWN', Monitor, _, _, _} -> ok end,
    settled(erlang:system_info(process_count)).

settled(Count) ->
    timer:sleep(200),
    case erlang:system_info(process_count) of
        Fewer when Fewer < Count -> settled(Fewer);
        _ -> ok
    end.

%% Units finished until now.
-spec work(workload()) -> non_neg_integer().
work(#{counter := Counter}) -> counters:get(Counter, 1).

%% Those that do the work.
-spec workers(workload()) -> [pid()].
workers(#{workers := Workers}) -> Workers.

%% And the requests: for profilers that have to be told.
-spec processes(workload()) -> [pid()].
processes(#{workers := Workers, requests := Requests}) ->
    Workers ++ bench_requests:processes(Requests).

-spec requests(workload()) -> bench_requests:client().
requests(#{requests := Requests}) -> Requests.

%% All are linked to their owner, which does nothing but die when it is told to.
own(Name, Starter) ->
    Counter = counters:new(1, [write_concurrency]),
    Bystanders = [spawn_link(fun() -> wait(?FRAMES - 2) end) || _ <- lists:seq(1, ?BYSTANDERS)],
    _ = spawn_link(fun() -> move(list_to_tuple(Bystanders), 1) end),
    Unit = unit(Name),
    Workers = [spawn_link(fun() -> work(Unit, Unit(begin_), Counter) end)
               || _ <- lists:seq(1, how_many(Name))],
    Requests = bench_requests:start_link(fun request/1),
    Starter ! {self(), #{owner => self(), counter => Counter, workers => Workers,
        requests => Requests}},
    receive never -> ok end.

how_many(spawn) -> erlang:system_info(schedulers_online);
%% Few pairs would be fast or slow by which of them share a scheduler.
how_many(messages) -> 16 * erlang:system_info(schedulers_online);
how_many(_) -> 2 * erlang:system_info(schedulers_online).

work(Unit, State, Counter) ->
    Next = Unit(State),
    counters:add(Counter, 1, 1),
    work(Unit, Next, Counter).

request(Id) ->
    Map = maps:from_list([{K, Id + K} || K <- lists:seq(1, 20)]),
    maps:fold(fun(_, V, Sum) -> V + Sum end, 0, Map).

%% A unit of work takes 10 to 50 microseconds, most of it in functions of some depth.

-spec unit(name()) -> fun((term()) -> term()).
unit(cpu) ->
    fun(begin_) -> 16; (N) -> _ = fibonacci(N), N end;
unit(messages) ->
    fun(begin_) -> spawn_link(fun echo/0); (Echo) -> rounds(10, Echo) end;
unit(gc) ->
    fun(begin_) -> []; (Kept) -> garbage(Kept) end;
unit(allocate) ->
    fun(begin_) -> none; (none) -> _ = [{N, [N]} || N <- lists:seq(1, 500)], none end;
unit(ets) ->
    Table = ets:new(bench, [public, {write_concurrency, true}, {read_concurrency, true}]),
    true = ets:insert(Table, [{K, 0, [K]} || K <- lists:seq(1, ?KEYS)]),
    fun(begin_) -> 1; (N) -> tables(Table, N) end;
unit(spawn) ->
    fun(begin_) -> none; (none) -> born() end;
unit(idle) ->
    Idle = list_to_tuple([spawn_link(fun idle/0) || _ <- lists:seq(1, ?IDLE)]),
    fun(begin_) -> Idle; (_) -> wake(10, Idle) end.

fibonacci(N) when N < 2 -> N;
fibonacci(N) -> fibonacci(N - 1) + fibonacci(N - 2).

echo() ->
    receive {From, Message} -> From ! {self(), Message} end,
    echo().

rounds(0, Echo) ->
    Echo;
rounds(N, Echo) ->
    Echo ! {self(), lists:seq(1, 10)},
    receive {Echo, _} -> rounds(N - 1, Echo) end.

%% Lists, maps and binaries on and off the heap; the last ten outlive a collection.
garbage(Kept) ->
    Terms = [{N, integer_to_binary(N), [N]} || N <- lists:seq(1, 200)],
    Large = iolist_to_binary([Binary || {_, Binary, _} <- Terms]),
    Parts = binary:split(<<Large/binary, Large/binary>>, <<"9">>, [global]),
    lists:sublist([{Parts, maps:from_list([{N, L} || {N, _, L} <- Terms])} | Kept], 10).

tables(Table, N) ->
    lists:foldl(fun(_, K) ->
        [{K, Count, _}] = ets:lookup(Table, K),
        true = ets:update_element(Table, K, {3, [Count, K]}),
        _ = ets:update_counter(Table, K, 1),
        1 + (K * 7919) rem ?KEYS
    end, N, lists:seq(1, 20)).

born() ->
    {_, Monitor} = spawn_monitor(fun() -> lists:sum(lists:seq(1, 100)) end),
    receive {'DOWN', Monitor, _, _, _} -> none end.

idle() ->
    receive {From, Message} -> From ! {self(), Message} end,
    idle().

wake(0, Idle) ->
    Idle;
wake(N, Idle) ->
    Pid = element(rand:uniform(tuple_size(Idle)), Idle),
    Pid ! {self(), N},
    receive {Pid, N} -> wake(N - 1, Idle) end.

%% Bystanders: servers that wait at a depth of ?FRAMES.

wait(0) -> serve();
wait(N) when N rem 2 =:= 0 -> [wait(N - 1)];
wait(N) -> {wait(N - 1)}.

serve() ->
    receive work -> _ = lists:sum(lists:seq(1, 100)) end,
    serve().

move(Bystanders, I) ->
    _ = [element(1 + (I + K) rem tuple_size(Bystanders), Bystanders) ! work
        || K <- lists:seq(1, ?MOVING)],
    timer:sleep(?MOVE_MS),
    move(Bystanders, I + ?MOVING).
