%% When a trigger fires, by a clock of the test's.
-module(flame_prof_trigger_tests).

-include_lib("eunit/include/eunit.hrl").

-define(HOUR, 3600000).

a_trigger_fires_at_its_bound_test() ->
    ?assertEqual([rest, rest, fire], run(#{}, [{0, 0}, {1, 49}, {2, 50}])).

it_has_to_fall_below_the_lower_bound_first_test() ->
    ?assertEqual([fire, rest, rest, rest, rest, fire],
        run(#{below => 30, cooldown => 0}, [{0, 60}, {1, 60}, {2, 30}, {3, 60}, {4, 29}, {5, 60}])).

without_a_lower_bound_it_is_four_fifths_test() ->
    ?assertEqual([fire, rest, rest, rest, fire],
        run(#{cooldown => 0}, [{0, 50}, {1, 40}, {2, 50}, {3, 39}, {4, 50}])).

it_is_quiet_after_its_profile_test() ->
    {fire, T0} = step(60, 0, new(#{cooldown => 1000})),
    T1 = flame_prof_trigger:ended(500, T0),
    {rest, T2} = step(0, 600, T1),
    {rest, T3} = step(60, 1499, T2),
    ?assertMatch(#{suppressed := #{cooldown := 1}, fired := 1}, flame_prof_trigger:info(T3)),
    %% It still holds when the time is over.
    {fire, T4} = step(60, 1500, T3),
    ?assertMatch(#{fired := 2}, flame_prof_trigger:info(T4)).

so_often_in_any_hour_and_no_more_test() ->
    T0 = new(#{cooldown => 0, max_per_hour => 2}),
    {fire, T1} = step(60, 0, T0),
    {rest, T2} = step(0, 1, T1),
    {fire, T3} = step(60, 1000, T2),
    {rest, T4} = step(0, 1001, T3),
    {rest, T5} = step(60, ?HOUR - 1, T4),
    ?assertMatch(#{suppressed := #{maximum := 1}}, flame_prof_trigger:info(T5)),
    {fire, T6} = step(60, ?HOUR, T5),
    {rest, T7} = step(0, ?HOUR + 1, T6),
    {rest, _} = step(60, ?HOUR + 999, T7),
    {fire, _} = step(60, ?HOUR + 1000, T7).

it_may_fire_exactly_where_it_would_if_its_condition_held_test() ->
    Fires = fun(Ms, IsFree, T) ->
        {What, _} = flame_prof_trigger:step(60, Ms, IsFree, T),
        ?assertEqual(What =:= fire, flame_prof_trigger:may_fire(Ms, IsFree, T)),
        What =:= fire
    end,
    T0 = new(#{cooldown => 1000, max_per_hour => 1}),
    ?assert(Fires(0, true, T0)),
    ?assertNot(Fires(0, false, T0)),
    {fire, T1} = step(60, 0, T0),
    ?assertNot(Fires(1, true, T1)),
    {rest, T2} = step(0, 2, flame_prof_trigger:ended(2, T1)),
    ?assertEqual([false, false, true], [Fires(Ms, true, T2) || Ms <- [1001, ?HOUR - 1, ?HOUR]]),
    T3 = flame_prof_trigger:ended(?HOUR, T2),
    ?assertEqual([false, true], [Fires(Ms, true, T3) || Ms <- [?HOUR + 999, ?HOUR + 1000]]).

while_another_profile_runs_it_waits_test() ->
    {rest, T1} = flame_prof_trigger:step(60, 0, false, new(#{})),
    ?assertMatch(#{suppressed := #{profiling := 1}, fired := 0}, flame_prof_trigger:info(T1)),
    {fire, _} = step(60, 1, T1).

true_and_false_are_high_and_low_test() ->
    T0 = new(#{on => {m, f}, cooldown => 0}),
    {rest, T1} = step(false, 0, T0),
    {fire, T2} = step(true, 1, T1),
    {rest, T3} = step(true, 2, T2),
    {rest, T4} = step(false, 3, T3),
    {fire, _} = step(true, 4, T4).

what_the_vm_tells_has_been_quiet_for_a_look_before_it_fires_again_test() ->
    T0 = new(#{on => long_gc, above => 100, cooldown => 0}),
    {fire, T1} = step(150, 0, T0),
    {rest, T2} = step(150, 1, T1),
    {rest, T3} = step(false, 2, T2),
    {fire, _} = step(100, 3, T3).

run(Given, Looks) ->
    {Whats, _} = lists:mapfoldl(fun({Ms, Value}, T) -> step(Value, Ms, T) end, new(Given), Looks),
    Whats.

step(Value, Ms, Trigger) -> flame_prof_trigger:step(Value, Ms, true, Trigger).

new(#{on := _} = Given) ->
    {ok, [Spec]} = flame_prof_trigger:validate(Given),
    flame_prof_trigger:new(Spec);
new(Given) -> new(Given#{on => run_queue, above => 50}).
