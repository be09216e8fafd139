%% A session for a while, and what its counters say of that while.
-module(bench_session).

-export([options/2, measure/2, during/2, remove/1, interval/1]).

-export_type([window/0]).

%% By how much each of the counters has grown, and in how long.
-type window() :: #{ms := pos_integer(), atom() => integer()}.

-define(SETTLE_MS, 1500).

%% Without a budget: what it costs is what is asked.
-spec options(Processes :: non_neg_integer(), Hz :: pos_integer()) -> flame_prof_options:given().
options(Processes, Hz) ->
    #{
        dir => filename:join(["_build", "bench", "files"]),
        engine => native,
        sample_interval => interval(Hz),
        cpu_budget => infinity,
        memory_budget => 256 bsl 20,
        select => {top, Processes, 1000}
    }.

%% Whole milliseconds, the next ones.
-spec interval(Hz :: pos_integer()) -> pos_integer().
interval(Hz) -> round(1000 / Hz).

%% The steady state: without the first selections and the first sight of every stack.
-spec measure(flame_prof_options:given(), pos_integer()) -> window().
measure(Options, Ms) ->
    during(Options, fun() -> timer:sleep(Ms) end).

-spec during(flame_prof_options:given(), fun(() -> term())) -> window().
during(Options, Fun) ->
    {ok, _} = flame_prof:start(Options),
    timer:sleep(?SETTLE_MS),
    #{counters := Before} = flame_prof:info(),
    {Us, _} = timer:tc(Fun),
    #{counters := After} = flame_prof:info(),
    {ok, #{files := Files}} = flame_prof:stop(),
    ok = remove(Files),
    Counters = maps:filter(fun(_, V) -> is_integer(V) end, After),
    Grown = maps:map(fun(Key, V) -> V - maps:get(Key, Before) end, Counters),
    Grown#{ms => max(1, Us div 1000)}.

-spec remove([file:name_all()]) -> ok.
remove(Files) ->
    lists:foreach(fun(File) -> ok = file:delete(File) end, Files).
