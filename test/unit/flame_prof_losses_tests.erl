%% What a session logs of its losses.
-module(flame_prof_losses_tests).

-include_lib("eunit/include/eunit.hrl").

a_session_reports_its_losses_once_test() ->
    Steps = [{0, 0}, {200, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {300, 0}, {0, 300}],
    [{Level, Report, Text}] = logged(fun() -> steps(Steps) end),
    ?assertEqual(notice, Level),
    ?assertMatch(#{what := sampling_loss, samples_percent := 20.0, ticks_percent := 0.0}, Report),
    ?assertNotEqual(nomatch, string:find(Text, "20.0 % of its samples")).

missed_ticks_are_a_loss_test() ->
    ?assertMatch([{notice, #{ticks_percent := 75.0}, _}],
        logged(fun() -> steps([{0, 300}, {0, 300}]) end)).

a_hundredth_is_no_loss_test() ->
    ?assertEqual([], logged(fun() -> steps([{10, 1}, {10, 1}, {0, 0}]) end)).

missed_ticks_are_told_of_all_that_were_due_test() ->
    ?assertEqual(<<"150 of 1,126 ticks missed">>,
        iolist_to_binary(flame_prof_losses:missed_ticks(#{ticks => 976, missed => 150}))),
    ?assertEqual(<<"0 of 0 ticks missed">>, iolist_to_binary(flame_prof_losses:missed_ticks(#{}))).

%% Who reads the log of a node that was attached to finds no flame_prof there.
a_node_that_was_lent_it_does_not_name_what_is_gone_test() ->
    Named = fun() ->
        [{notice, _, Text}] = logged(fun() -> steps([{200, 0}]) end),
        string:find(Text, "flame_prof:info()") =/= nomatch
    end,
    ?assert(Named()),
    true = register(flame_prof_agent, self()),
    try ?assertNot(Named()) after unregister(flame_prof_agent) end.

%% Of 1000 samples and 100 ticks, so many dropped and missed, from one call to the next.
steps(Steps) ->
    Empty = #{attempted => 0, inconsistent => 0, dropped => 0, ticks => 0, missed => 0},
    lists:foldl(fun({Dropped, Missed}, {Before, IsLogged}) ->
        Grown = #{attempted => 1000, inconsistent => 0, dropped => Dropped, ticks => 100,
            missed => Missed},
        Now = maps:map(fun(Key, N) -> N + maps:get(Key, Grown) end, Before),
        {Now, flame_prof_losses:log(Before, Now, IsLogged)}
    end, {Empty, false}, Steps).

logged(Fun) ->
    [{Level, Report, lists:flatten(apply(io_lib, format, tuple_to_list(Callback(Report))))}
        || {Level, #{what := sampling_loss} = Report, #{report_cb := Callback}}
            <- logged:during(Fun)].
