%% Processes for a profiler to look at. Each function runs Fun while they live.
-module(bench_processes).

-export([waiting/3, moving/3, with_idle/2, saturated/1, saturated/2, demo/1]).
-export([spawn_idle/1, kill/1]).

-define(MOVE_MS, 8).

%% They wait at a depth of so many frames.
-spec waiting(Count :: pos_integer(), Depth :: pos_integer(), fun(() -> T)) -> T.
waiting(Count, Depth, Fun) ->
    crowd(Count, Depth, fun(_) -> Fun() end).

%% Half of them are woken every ?MOVE_MS, each time to do a little.
-spec moving(Count :: pos_integer(), Depth :: pos_integer(), fun(() -> T)) -> T.
moving(Count, Depth, Fun) ->
    crowd(Count, Depth, fun(Pids) ->
        Driver = spawn_link(fun() -> drive(list_to_tuple(Pids), 1) end),
        Result = Fun(),
        ok = kill([Driver]),
        Result
    end).

crowd(Count, Depth, Fun) ->
    Pids = [spawn_link(fun() -> dig(Depth - 2) end) || _ <- lists:seq(1, Count)],
    timer:sleep(200),
    Result = Fun(Pids),
    ok = kill(Pids),
    timer:sleep(100),
    Result.

%% By two functions: neighbouring frames of one would be written as one.
dig(N) when N =< 0 -> serve();
dig(N) -> [delve(N - 1)].

delve(N) when N =< 0 -> serve();
delve(N) -> {dig(N - 1)}.

serve() ->
    receive work -> _ = lists:sum(lists:seq(1, 100)) end,
    serve().

drive(Pids, I) ->
    Half = tuple_size(Pids) div 2,
    _ = [element(1 + (I + K) rem tuple_size(Pids), Pids) ! work || K <- lists:seq(1, Half)],
    timer:sleep(?MOVE_MS),
    drive(Pids, I + Half).

%% Until there are so many processes in all, by some that never do anything.
-spec with_idle(Count :: pos_integer(), fun(() -> T)) -> T.
with_idle(Count, Fun) ->
    Before = erlang:system_info(process_count),
    Pids = spawn_idle(Count - Before),
    timer:sleep(500),
    Result = Fun(),
    ok = kill(Pids),
    settle(Before + 100),
    Result.

-spec spawn_idle(integer()) -> [pid()].
spawn_idle(Count) ->
    spawn_idle(Count, []).

spawn_idle(Count, Pids) when Count =< 0 -> Pids;
spawn_idle(Count, Pids) -> spawn_idle(Count - 1, [spawn_link(fun() -> receive never ->
    ok end end) | Pids]).

settle(Most) ->
    timer:sleep(200),
    case erlang:system_info(process_count) =< Most of
        true -> ok;
        false -> settle(Most)
    end.

%% Every scheduler has more to do than it can; the counter goes up with the work done.
-spec saturated(fun(() -> T)) -> T.
saturated(Fun) ->
    saturated(counters:new(1, [write_concurrency]), Fun).

-spec saturated(counters:counters_ref(), fun(() -> T)) -> T.
saturated(Counter, Fun) ->
    Pids = [spawn_link(fun() -> count(Counter) end)
            || _ <- lists:seq(1, erlang:system_info(schedulers_online))],
    Result = Fun(),
    ok = kill(Pids),
    Result.

count(Counter) ->
    counters:add(Counter, 1, spin(2000, 0)),
    count(Counter).

spin(0, _) -> 1;
spin(N, Acc) -> spin(N - 1, Acc bxor N).

%% examples/demo's shop: what a real node does.
-spec demo(fun(() -> T)) -> T.
demo(Fun) ->
    {ok, _} = demo_workload:start(),
    timer:sleep(1000),
    Result = Fun(),
    ok = demo_workload:stop(),
    Result.

-spec kill([pid()]) -> ok.
kill(Pids) ->
    lists:foreach(fun(Pid) -> unlink(Pid), exit(Pid, kill) end, Pids).
