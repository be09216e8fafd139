%% Each problem of examples/trouble says what the doctor has to find, in words that it has. That it
%% is there, and ends: test/proof/trouble_proof_tests.
-module(trouble_tests).

-include_lib("eunit/include/eunit.hrl").

all_have_their_truths_test_() ->
    {setup, fun trouble_modules:load/0, fun trouble_modules:unload/1, fun(_) ->
        {timeout, 60, fun have_truths/0}
    end}.

have_truths() ->
    [begin
        #{problem := Problem, process := Process, sentence := <<_, _/binary>>, kind := Kinds} =
            trouble:truth(Problem),
        ?assert(lists:all(fun is_atom/1, lists:flatten([Process]))),
        IsFault = lists:member(Problem, trouble:faults()),
        ?assertEqual({Problem, IsFault}, {Problem, Kinds =/= []}),
        ?assertEqual([], Kinds -- flame_prof_doctor:kinds()),
        ?assertEqual(IsFault, lists:member(maps:get(severity, trouble:truth(Problem), none),
            [critical, warning, note]))
     end || Problem <- trouble:faults() ++ trouble:healthy()].
