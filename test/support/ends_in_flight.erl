%% Nodes that end, one in each way, while captures are on their way.
-module(ends_in_flight).

-export([not_clean/2]).
%% In those nodes.
-export([session/2]).

%% The ends with another status than 0, each with the node's output. Their files are in Directory.
not_clean(Directory, Times) ->
    [End || How <- [stop, purge, upgrade, halt, abrupt_halt, init_stop], _ <- lists:seq(1, Times),
        {Status, _} = End <- [peer_vm:output(node(How, Directory))], Status =/= 0].

node(How, Directory) ->
    peer_vm:start([flame_prof, ?MODULE],
        lists:flatten(io_lib:format("~s:session(~s, ~0p).", [?MODULE, How, Directory]))).

session(How, Directory) ->
    {ok, Pid} = flame_prof:start(#{dir => Directory, sample_interval => 1, cpu_budget => infinity}),
    %% When captures are on their way: calibration is not held up by these.
    [spawn(fun burn/0) || _ <- lists:seq(1, erlang:system_info(schedulers_online))],
    waiting:eventually(fun() -> maps:get(captures, maps:get(counters, flame_prof:info())) > 0 end),
    timer:sleep(erlang:phash2(os:getpid(), 40)),
    end_by(How, Pid).

burn() ->
    _ = lists:sum(lists:seq(1, 1000)),
    burn().

end_by(stop, _) ->
    {ok, #{attempted := T, written := W, inconsistent := N, dropped := D, exited := G}} =
        flame_prof:stop(),
    T = W + N + D + G,
    erlang:halt(0);
end_by(purge, Pid) ->
    true = code:delete(flame_prof_nif),
    _ = code:purge(flame_prof_nif),
    exit(Pid, kill),
    timer:sleep(20),
    erlang:halt(0);
end_by(upgrade, _) ->
    {error, on_load_failure} = code:load_file(flame_prof_nif),
    {ok, _} = flame_prof:stop(),
    erlang:halt(0);
end_by(halt, _) -> erlang:halt(0);
end_by(abrupt_halt, _) -> erlang:halt(0, [{flush, false}]);
end_by(init_stop, _) ->
    init:stop(),
    timer:sleep(infinity).
