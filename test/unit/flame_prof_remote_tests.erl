%% What a call of another node that fails tells a person.
-module(flame_prof_remote_tests).

-include_lib("eunit/include/eunit.hrl").

-export([raise/2]).

a_failure_is_told_without_its_terms_test_() ->
    [
        fun() ->
            {error, {attach, #{node := Node, cause := refused}} = Reason} =
                flame_prof_remote:call(node(), ?MODULE, raise, [Class, Term], 5000),
            ?assertEqual(node(), Node),
            Sentence = unicode:characters_to_list(flame_prof:format_error(Reason)),
            ?assertEqual(nomatch, string:find(Sentence, "secret")),
            ?assertEqual(nomatch, re:run(Sentence, "[{}\\[<]|badmatch|function_clause")),
            Said = lists:concat([Node, ": ", ?MODULE, ":raise/2 failed there: "]),
            {match, _} = re:run(string:prefix(Sentence, Said), "^" ++ Expected)
        end
     || {Class, Term, Expected} <- [
            {error, {badmatch, secret}, "an internal error in flame_prof_remote_tests:raise/2"},
            {error, function_clause, "an internal error in flame_prof_remote_tests:raise/2"},
            {exit, killed, "it was killed$"},
            {exit, {secret, [{flame_prof_session, call, [secret], []}]},
                "an internal error in flame_prof_session:call/1$"},
            {throw, {secret, 1}, "an internal error"}
        ]
    ].

raise(error, Term) -> error(Term);
raise(exit, Term) -> exit(Term);
raise(throw, Term) -> throw(Term).

a_function_that_is_missing_is_told_by_its_name_test() ->
    {error, Reason} = flame_prof_remote:call(node(), flame_prof, nonsuch, [], 5000),
    ?assertEqual(lists:concat([node(), ": it has no flame_prof:nonsuch/0: it has no flame_prof, "
        "or another version"]), lists:flatten(io_lib:format("~ts",
            [flame_prof:format_error(Reason)]))).
