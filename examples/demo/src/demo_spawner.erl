%% About a thousand workers a second, each alive for a millisecond or so: half of
%% them bare processes, half with proc_lib's ancestors and initial call.
-module(demo_spawner).

-export([start_link/0, init/0, work/1]).

-define(PAUSE_MS, 8).
-define(WORKERS, 10).

start_link() ->
    proc_lib:start_link(?MODULE, init, []).

init() ->
    register(?MODULE, self()),
    proc_lib:init_ack({ok, self()}),
    loop(0).

loop(Round) ->
    Monitors = [start(Round, N) || N <- lists:seq(1, ?WORKERS)],
    %% Never more than one round at a time.
    [receive {'DOWN', Monitor, process, _, _} -> ok end || Monitor <- Monitors],
    timer:sleep(?PAUSE_MS),
    loop(Round + 1).

start(Round, N) when N rem 2 =:= 0 ->
    {_, Monitor} = spawn_monitor(?MODULE, work, [Round + N]),
    Monitor;
start(Round, N) ->
    erlang:monitor(process, proc_lib:spawn(?MODULE, work, [Round + N])).

work(Seed) ->
    Numbers = [erlang:phash2({Seed, N}) || N <- lists:seq(1, 200)],
    Sorted = lists:usort(Numbers),
    exit({shutdown, lists:sum(Sorted) + fibonacci(15)}).

fibonacci(N) when N < 2 -> N;
fibonacci(N) -> fibonacci(N - 1) + fibonacci(N - 2).
