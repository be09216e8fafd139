%% What a session says of its captures, by its counters.
-module(flame_prof_schedulers_tests).

-include_lib("eunit/include/eunit.hrl").

refusals_in_a_row_are_a_loss_test() ->
    ?assertEqual(on, state(#{refused_in_a_row => 0})),
    %% A few, in a burst of another program of the user, are not.
    ?assertEqual(on, state(#{refused_in_a_row => 3})),
    {lost, Why} = state(#{refused_in_a_row => 685}),
    [?assertNotEqual(nomatch, string:find(Why, Part))
     || Part <- ["the last 685 signals", "RLIMIT_SIGPENDING"]].

a_signal_that_another_library_has_is_named_first_test() ->
    {lost, Why} = state(#{lost_signal => 34, refused_in_a_row => 685}),
    ?assertNotEqual(nomatch, string:find(Why, "for signal 34")).

what_is_off_stays_off_test() ->
    ?assertEqual({off, <<"no">>},
        flame_prof_schedulers:state({off, <<"no">>}, #{refused_in_a_row => 685})).

state(Counters) ->
    None = #{lost_signal => 0, lost_schedulers => 0, refused_in_a_row => 0},
    flame_prof_schedulers:state({on, 2}, maps:merge(None, Counters)).
