%% Everything that could hurt a profiler at once, beside a session that samples
%% it and asks schedulers for the stacks of running processes: spawning and
%% exiting, garbage collection, code loaded and purged, messages, suspended and
%% hibernating processes, binaries, ETS, call tracing switched on and off,
%% schedulers taken offline and online. Workers check their own results; a wrong
%% result is a death.
-module(storm).

-export([run/1, main/1]).
-export([worker/2, chain/2, wake/1]).

%% #{seconds, hz, directory} -> #{books, deaths, checks, files}
run(#{seconds := Seconds, hz := Hz, directory := Directory}) ->
    Self = self(),
    %% The workers' failures are messages, not crash reports.
    Counter = counters:new(2, [write_concurrency]),
    {ok, _} = flame_prof:start(#{
        basename => filename:join(Directory, "storm"),
        sample_interval => max(1, 1000 div Hz),
        cpu_budget => infinity,
        auto_select => {top, 100, 250},
        engine => native
    }),
    Online = erlang:system_info(schedulers_online),
    Kinds = [spawner, collector, loader, mailer, suspender, hibernator, binary, table,
             tracer, scheduler],
    Workers = [
        spawn_opt(?MODULE, worker, [Kind, {Self, Counter}], [link, monitor])
     || Kind <- Kinds
    ],
    erlang:process_flag(trap_exit, true),
    Deaths = watch(erlang:monotonic_time(millisecond) + Seconds * 1000, 0),
    {ok, Books} = flame_prof:stop(),
    [begin unlink(Pid), exit(Pid, kill) end || {Pid, _} <- Workers],
    timer:sleep(50),
    flush(),
    %% As it was, whatever moment they were killed in.
    _ = erlang:system_flag(schedulers_online, Online),
    _ = erlang:trace_pattern({?MODULE, '_', '_'}, false, [local]),
    _ = erlang:trace_pattern({?MODULE, '_', '_'}, false, [call_count]),
    #{
        books => maps:with(
            [taken, written, lost, torn, dropped, gone, missed, ticks, retried, recoded,
             stacks, unresolved, selections, sampler_cpu_ns, writer_cpu_ns,
             signals, captures, handler_ns, torn_moved, torn_unfound, torn_late, torn_changed],
            Books
        ),
        files => maps:get(files, Books),
        deaths => Deaths,
        checks => counters:get(Counter, 1)
    }.

%% For the command line: erl -s storm main SECONDS HZ DIRECTORY
main([Seconds, Hz, Directory]) ->
    Result = run(#{
        seconds => list_to_integer(atom_to_list(Seconds)),
        hz => list_to_integer(atom_to_list(Hz)),
        directory => atom_to_list(Directory)
    }),
    #{books := B, deaths := Deaths} = Result,
    #{taken := T, written := W, torn := N, dropped := D, gone := G} = B,
    Balanced = T =:= W + N + D + G,
    io:format("OTP ~s: ~0tp~nbooks balance: ~w~n",
              [erlang:system_info(otp_release), Result, Balanced]),
    halt(case {Balanced, Deaths} of {true, 0} -> 0; _ -> 1 end).

watch(End, Deaths) ->
    Left = End - erlang:monotonic_time(millisecond),
    receive
        {'DOWN', _, process, Pid, Reason} ->
            io:format(user, "worker ~w died: ~0tP~n", [Pid, Reason, 20]),
            watch(End, Deaths + 1);
        _ ->
            watch(End, Deaths)
    after max(0, Left) ->
        Deaths
    end.

flush() ->
    receive
        _ -> flush()
    after 0 -> ok
    end.

worker(Kind, {Parent, Counter}) ->
    process_flag(trap_exit, false),
    loop(Kind, Parent, Counter, 0).

loop(Kind, Parent, Counter, N) ->
    ok = step(Kind, N),
    counters:add(Counter, 1, 1),
    loop(Kind, Parent, Counter, N + 1).

step(spawner, N) ->
    Self = self(),
    Pids = [spawn(fun() -> Self ! {self(), lists:sum(lists:seq(1, K))} end) || K <- lists:seq(1, 50)],
    [receive {Pid, Sum} -> Sum = K * (K + 1) div 2 end || {K, Pid} <- lists:zip(lists:seq(1, 50), Pids)],
    N rem 10 =:= 0 andalso timer:sleep(1),
    ok;
step(collector, N) ->
    Keep = [lists:seq(1, 2000) || _ <- lists:seq(1, 10)],
    erlang:garbage_collect(self(), [{type, case N rem 3 of 0 -> major; _ -> minor end}]),
    10 = length(Keep),
    2001000 = lists:sum(hd(Keep)),
    ok;
step(loader, N) ->
    Module = storm_generated,
    {module, Module} = code:load_binary(Module, "storm_generated.erl", generated(N rem 7)),
    Pid = spawn(fun() -> Module:answer() end),
    Expected = N rem 7,
    Expected = Module:answer(),
    erlang:monitor(process, Pid),
    receive {'DOWN', _, process, Pid, normal} -> ok end,
    code:purge(Module),
    code:delete(Module),
    code:purge(Module),
    ok;
step(mailer, _) ->
    Self = self(),
    Pid = spawn_link(fun() -> echo(Self, 500) end),
    [Pid ! {number, K, lists:seq(1, K rem 20)} || K <- lists:seq(1, 500)],
    receive {sum, 125250} -> ok end;
step(suspender, _) ->
    Pid = spawn(?MODULE, chain, [30, self()]),
    [begin
        true = erlang:suspend_process(Pid),
        {status, suspended} = {status, await_suspended(Pid)},
        true = erlang:resume_process(Pid)
     end || _ <- lists:seq(1, 20)],
    Pid ! go,
    receive {chain, 465} -> ok end;
step(hibernator, _) ->
    Self = self(),
    Pid = spawn(fun() -> erlang:hibernate(?MODULE, wake, [Self]) end),
    Pid ! up,
    receive {Pid, up} -> ok end;
step(binary, _) ->
    Big = binary:copy(<<"x">>, 200000),
    Parts = [binary:part(Big, K * 1000, 1000) || K <- lists:seq(0, 99)],
    100000 = iolist_size(Parts),
    Joined = lists:foldl(fun(P, Acc) -> <<Acc/binary, P/binary>> end, <<>>, Parts),
    100000 = byte_size(Joined),
    ok;
step(table, _) ->
    Table = ets:new(storm, [public, {write_concurrency, true}]),
    true = ets:insert(Table, [{K, lists:seq(1, 10)} || K <- lists:seq(1, 1000)]),
    1000 = length(ets:select(Table, [{{'$1', '_'}, [], ['$1']}])),
    true = ets:delete(Table),
    ok;
%% The workers' own functions have breakpoints while they run; one process is
%% traced, and says what it must.
step(tracer, N) ->
    Self = self(),
    true = erlang:trace_pattern({?MODULE, '_', '_'}, true, [call_count]) > 0,
    true = erlang:trace_pattern({?MODULE, sum, 1}, [{'_', [], [{return_trace}]}], [local]) > 0,
    Pid = spawn(fun() -> receive go -> Self ! {self(), sum(5 + N rem 3)} end end),
    1 = erlang:trace(Pid, true, [call, return_to]),
    Pid ! go,
    Expected = (5 + N rem 3) * (6 + N rem 3) div 2,
    receive {Pid, Expected} -> ok end,
    receive {trace, Pid, return_from, {?MODULE, sum, 1}, Expected} -> ok end,
    drop_traces(Pid),
    true = erlang:trace_pattern({?MODULE, sum, 1}, false, [local]) > 0,
    true = erlang:trace_pattern({?MODULE, '_', '_'}, false, [call_count]) > 0,
    timer:sleep(5),
    ok;
step(scheduler, N) ->
    All = erlang:system_info(schedulers),
    _ = erlang:system_flag(schedulers_online, 1 + N rem All),
    timer:sleep(20),
    _ = erlang:system_flag(schedulers_online, All),
    true = erlang:system_info(schedulers_online) =:= All,
    timer:sleep(30),
    ok.

%% None comes any more once those that were sent are delivered.
drop_traces(Pid) ->
    Delivered = erlang:trace_delivered(Pid),
    drop_until(Pid, Delivered).

drop_until(Pid, Delivered) ->
    receive
        {trace, Pid, _, _} -> drop_until(Pid, Delivered);
        {trace, Pid, _, _, _} -> drop_until(Pid, Delivered);
        {trace_delivered, Pid, Delivered} -> ok
    end.

await_suspended(Pid) ->
    case erlang:process_info(Pid, status) of
        {status, suspended} -> suspended;
        {status, _} -> await_suspended(Pid)
    end.

echo(To, Count) ->
    To ! {sum, lists:sum([receive {number, K, _} -> K end || _ <- lists:seq(1, Count)])}.

chain(0, To) ->
    receive go -> To ! {chain, To}, 0 end;
chain(N, To) when N =:= 30 ->
    receive go -> ok end,
    To ! {chain, sum(N)};
chain(N, To) ->
    N + chain(N - 1, To).

sum(0) -> 0;
sum(N) -> N + sum(N - 1).

wake(To) ->
    receive up -> To ! {self(), up} end.

%% A module whose code differs in size and lines from one generation to the
%% next, so that purged memory is used again for something else.
generated(Generation) ->
    case get({generated, Generation}) of
        undefined ->
            Padding = [helper(K) || K <- lists:seq(1, 20 * Generation)],
            L = 10 + Generation,
            Forms = [
                {attribute, 1, module, storm_generated},
                {attribute, 2, export, [{answer, 0} | [{name(K), 1} || K <- lists:seq(1, 20 * Generation)]]}
                | Padding
            ] ++ [{function, L, answer, 0, [{clause, L, [], [], [{integer, L, Generation}]}]}],
            {ok, storm_generated, Code} = compile:forms(Forms, []),
            put({generated, Generation}, Code),
            Code;
        Code ->
            Code
    end.

helper(K) ->
    L = 100 + K,
    {function, L, name(K), 1, [
        {clause, L, [{var, L, 'X'}], [], [
            {op, L, '+', {var, L, 'X'}, {call, L, {atom, L, length}, [{nil, L}]}}
        ]}
    ]}.

name(K) -> list_to_atom("helper_" ++ integer_to_list(K)).
