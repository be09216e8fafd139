%% What looks at the memory cost, how long they take, and how true they are: a reading of the
%% allocators for a file, ten thousand tables, a hundred thousand binaries, a heap of a gigabyte, of
%% which the process answers messages meanwhile.
%%
%% CPU time is that of the whole VM, which does nothing else, and whose schedulers do not spin
%% (bench/run.sh). Memory is the most resident memory of the OS process during a look less that
%% before it. With many schedulers only the reading is measured,
%% as nothing else has a part for each.
-module(bench_memory).

-export([run/1]).
%% In a process of its own.
-export([echo/1]).

-define(MANY, 16).
-define(TABLES, 10000).
-define(BINARIES, 100000).
-define(HOLDERS, 100).
-define(BINARY_BYTES, 1000).
%% Of a list, with seven words for each.
-define(RECORDS, 19000000).
-define(PINGS, 100000).
-define(READINGS, 500).
-define(MB, 1000000).

-spec run(pos_integer()) -> [bench_results:result()].
run(_Seconds) ->
    {ok, _} = flame_prof_memory:look(),
    case erlang:system_info(schedulers) of
        Many when Many >= ?MANY -> reading();
        _ -> reading() ++ explained() ++ truth() ++ tables() ++ binaries() ++ xray()
    end.

%% One of a session's file. Its first part has found the counters and asked the kernel for the
%% resident pages, which is once in five seconds.
reading() ->
    {_, Source} = flame_prof_node_memory:figures(flame_prof_node_memory:new(native)),
    Schedulers = integer_to_binary(erlang:system_info(schedulers)),
    {Ns, _} = cpu(fun() ->
        lists:foldl(fun(_, S) -> element(2, flame_prof_node_memory:figures(S)) end, Source,
            lists:seq(1, ?READINGS))
    end),
    [told(<<"a reading of the node's memory a second, ", Schedulers/binary, " schedulers">>,
        Ns / ?READINGS / 1.0e7, <<"% of a core">>, #{bar => {at_most, 0.05}})].

explained() ->
    {Ns, {ok, #{explained := Kinds, process := #{rss := Rss}}}} =
        cpu(fun() -> flame_prof_memory:look() end),
    #{other := Other} = Kinds,
    Sum = lists:sum(maps:values(maps:without([walked, counted], Kinds))),
    [
        told(<<"CPU time of a look at the memory">>, Ns / 1.0e6, <<"ms">>,
            #{counted => #{rss_mb => Rss / ?MB}}),
        told(<<"resident memory that is explained">>, 100 * (Sum - Other) / Sum, <<"%">>,
            #{bar => {at_least, 98}})
    ].

%% Best of some comparisons: to be asked takes memory itself.
truth() ->
    Allocators = lists:min([allocators_that_differ() || _ <- lists:seq(1, 50)]),
    Table = ets:new(truth, []),
    true = ets:insert(Table, [{N, lists:seq(1, 10)} || N <- lists:seq(1, 100000)]),
    Ets = lists:min([ets_differs() || _ <- lists:seq(1, 20)]),
    true = ets:delete(Table),
    [
        told(<<"instances of allocators that differ from system_info at rest">>, Allocators,
            <<"">>, #{bar => {at_most, 3}}),
        told(<<"memory of tables, off that of memory(ets)">>, Ets, <<"%">>,
            #{bar => {at_most, 1}}),
        told(<<"what a process holds, off flat_size">>, flat_differs(), <<"%">>,
            #{bar => {at_most, 1}})
    ].

allocators_that_differ() ->
    {ok, Read} = flame_prof_allocators:look(),
    length([x || #{allocator := Name, instance := N, carriers_bytes := Carriers} <- Read,
        Carriers =/= said(Name, N)]).

said(Name, N) ->
    [Facts] = [F || {instance, I, F} <- erlang:system_info({allocator, Name}), I =:= N],
    lists:sum([element(2, Fact) || {Kind, In} <- Facts,
        lists:member(Kind, [mbcs, sbcs, mbcs_pool]), Fact <- In,
        element(1, Fact) =:= carriers_size]).

ets_differs() ->
    {ok, #{all := #{memory := Told}}} = flame_prof_tables:look(#{top => 1}),
    Said = erlang:memory(ets),
    100 * abs(Told - Said) / Said.

flat_differs() ->
    Term = {state, maps:from_list([{N, {N, lists:seq(1, N rem 7)}} || N <- lists:seq(1, 200000)])},
    Pid = spawn_link(fun() -> wait(Term) end),
    timer:sleep(500),
    {ok, #{reached := Bytes}} = flame_prof_xray:look(Pid, #{memory_budget => 256 bsl 20}),
    unlink(Pid),
    exit(Pid, kill),
    Said = 8 * erts_debug:flat_size(Term),
    100 * abs(Bytes - Said) / Said.

wait(Term) ->
    erlang:garbage_collect(),
    receive stop -> Term end.

tables() ->
    Tables = [ets:new(bench, []) || _ <- lists:seq(1, ?TABLES)],
    {ok, _} = flame_prof_tables:look(),
    {Grown, {Ns, {ok, #{all := #{tables := Count}}}}} =
        most(fun() -> cpu(fun() -> flame_prof_tables:look() end) end),
    true = Count >= ?TABLES,
    _ = [ets:delete(Table) || Table <- Tables],
    [
        told(<<"CPU time of a look at 10,000 tables">>, Ns / 1.0e6, <<"ms">>,
            #{bar => {at_most, 50}}),
        told(<<"memory that a look at 10,000 tables took">>, Grown / ?MB, <<"MB">>, #{})
    ].

binaries() ->
    Each = ?BINARIES div ?HOLDERS,
    Holders = [spawn_link(fun() ->
        wait([binary:copy(<<N>>, ?BINARY_BYTES) || N <- lists:seq(1, Each)])
    end) || _ <- lists:seq(1, ?HOLDERS)],
    timer:sleep(3000),
    {ok, _} = flame_prof_binaries:look(),
    Began = erlang:monotonic_time(),
    {Grown, {Ns, {ok, #{found := Found, memory := Memory}}}} =
        most(fun() -> cpu(fun() -> flame_prof_binaries:look() end) end),
    Ms = since(Began),
    _ = [begin unlink(Pid), exit(Pid, kill) end || Pid <- Holders],
    [
        told(<<"a look at 100,000 binaries of 100 processes">>, Ms, <<"ms">>,
            #{counted => #{cpu_ms => Ns / 1.0e6}}),
        told(<<"memory that a look at 100,000 binaries took">>, Grown / ?MB, <<"MB">>, #{}),
        told(<<"bytes that have a holder">>, min(100.0, 100 * Found / Memory), <<"%">>,
            #{bar => {at_least, 99}})
    ].

%% It stands still for the one look; then it answers, with and without looks at it.
xray() ->
    Pid = spawn_opt(?MODULE, echo, [self()], [link, {fullsweep_after, 65535}]),
    receive {ready, Pid} -> ok end,
    timer:sleep(1000),
    {memory, Heap} = process_info(Pid, memory),
    Began = erlang:monotonic_time(),
    {Grown, {ok, #{reached := Reached}}} =
        most(fun() -> flame_prof_xray:look(Pid, #{time_limit => 120000}) end),
    Ms = since(Began),
    Without = pings(Pid),
    Looker = spawn_link(fun Loop() ->
        _ = flame_prof_xray:look(Pid, #{time_limit => 1000}),
        Loop()
    end),
    timer:sleep(100),
    With = pings(Pid),
    _ = [begin unlink(P), exit(P, kill) end || P <- [Looker, Pid]],
    [
        told(<<"a look at one process">>, Ms, <<"ms">>, #{bar => {at_most, 10000},
            counted => #{heap_mb => Heap / ?MB, reached_mb => Reached / ?MB}}),
        told(<<"memory that a look at one process took">>, Grown / ?MB, <<"MB">>,
            #{bar => {at_most, 67.1}})
    ] ++ [
        told(<<"round trip to it ", How/binary, " a look at it, ", Which/binary>>,
            bench_stats:quantile(Q, Values), <<"us">>, #{})
     || {How, Values} <- [{<<"without">>, Without}, {<<"during">>, With}],
        {Which, Q} <- [{<<"median">>, 0.5}, {<<"p99">>, 0.99}, {<<"most">>, 1.0}]
    ].

echo(Parent) ->
    State = records(?RECORDS, []),
    erlang:garbage_collect(),
    Parent ! {ready, self()},
    echo(Parent, State).

echo(Parent, State) ->
    receive
        ping -> Parent ! pong, echo(Parent, State)
    end.

records(0, Records) -> Records;
records(N, Records) -> records(N - 1, [{record, N, N, N} | Records]).

pings(Pid) ->
    [begin
        Began = erlang:monotonic_time(),
        Pid ! ping,
        receive pong -> ok end,
        1000 * since(Began)
    end || _ <- lists:seq(1, ?PINGS)].

since(Began) ->
    erlang:convert_time_unit(erlang:monotonic_time() - Began, native, nanosecond) / 1.0e6.

%% The kernel forgets the peak: proc(5), clear_refs.
most(Fun) ->
    garbage_collect(),
    ok = file:write_file("/proc/self/clear_refs", "5"),
    #{rss := Before} = flame_prof_memory:process(),
    Answer = Fun(),
    #{peak := Peak} = flame_prof_memory:process(),
    {Peak - Before, Answer}.

cpu(Fun) ->
    {_, Before} = bench_threads:cpu_ns([]),
    Answer = Fun(),
    {_, After} = bench_threads:cpu_ns([]),
    {After - Before, Answer}.

told(Name, Value, Unit, More) ->
    bench_results:tell(More#{section => memory, name => Name, value => Value, unit => Unit}).
