%% That a soak (test/soak) would notice: a worker that gets a wrong result, and what
%% stays behind.
-module(soak_tests).

-include_lib("eunit/include/eunit.hrl").

%% A storm of one kind
-export([open/1, step/3, close/2]).

a_wrong_result_is_a_death_and_the_storm_goes_on_test() ->
    %% The deaths are wanted, their reports are not.
    #{level := Level} = logger:get_primary_config(),
    ok = logger:set_primary_config(level, none),
    {ok, Storm} = storm:start([{?MODULE, wrong_at_3}]),
    ok = waiting:eventually(fun() -> length(maps:get(deaths, storm:report(Storm))) >= 2 end),
    #{deaths := [{wrong_at_3, Reason} | _], steps := #{wrong_at_3 := Steps}} = storm:stop(Storm),
    ok = logger:set_primary_config(level, Level),
    ?assertMatch({{badmatch, 4}, _}, Reason),
    ?assert(Steps >= 6).

a_paused_storm_takes_no_step_test() ->
    {ok, Storm} = storm:start([{?MODULE, right}]),
    Steps = fun() -> maps:get(right, maps:get(steps, storm:report(Storm))) end,
    ok = waiting:eventually(fun() -> Steps() > 0 end),
    ok = storm:pause(Storm),
    Before = Steps(),
    timer:sleep(50),
    ?assertEqual(Before, Steps()),
    ok = storm:resume(Storm),
    ok = waiting:eventually(fun() -> Steps() > Before end),
    ?assertMatch(#{deaths := []}, storm:stop(Storm)).

open(Kind) -> Kind.

step(wrong_at_3, N, State) ->
    timer:sleep(20),
    3 = case N of 3 -> 4; _ -> 3 end,
    State;
step(right, _, State) -> State.

close(_, _) -> ok.

what_a_session_leaves_behind_is_found_test() ->
    ?assertEqual([descriptors], leaking(fun(S) -> #{descriptors => 20 + S div 10} end)),
    ?assertEqual([threads], leaking(fun(S) -> #{threads => 20 + S} end)),
    ?assertEqual([rss_kib], leaking(fun(S) -> #{rss_kib => 40000 + 300 * S + noise(S, 20000)} end)).

what_comes_and_goes_is_no_leak_test() ->
    ?assertEqual([], leaking(fun(S) -> #{descriptors => 20 + S rem 7} end)),
    ?assertEqual([], leaking(fun(S) -> #{rss_kib => 40000 + noise(S, 30000)} end)),
    %% Once, at the beginning.
    ?assertEqual([], leaking(fun(S) -> #{rss_kib => case S of 0 -> 10000; _ -> 200000 end} end)),
    ?assertEqual([], leaking(fun(S) -> #{atoms => min(S, 30)} end)).

of_too_few_checkpoints_nothing_is_said_test() ->
    Few = [checkpoint(S, #{threads => S}) || S <- [0, 100, 200]],
    ?assertMatch(#{threads := #{slope := unknown, leaks := false}}, soak_leaks:judge(Few)).

noise(S, Most) -> erlang:phash2(S, Most).

leaking(Figures) ->
    Verdicts = soak_leaks:judge([checkpoint(S, Figures(S)) || S <- lists:seq(0, 390, 17)]),
    [What || {What, #{leaks := true}} <- lists:sort(maps:to_list(Verdicts))].

checkpoint(Sessions, Figures) ->
    maps:merge(maps:from_list([{sessions, Sessions} | [{What, 10}
        || {What, _, _} <- soak_leaks:limits()]]), Figures).
