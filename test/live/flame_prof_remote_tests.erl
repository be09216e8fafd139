%% What a call of another node that fails tells a person.
-module(flame_prof_remote_tests).

-include_lib("eunit/include/eunit.hrl").

-export([raise/2, waits/1]).
%% In a VM of its own.
-export([held_up/0]).

a_failure_is_told_without_its_terms_test_() ->
    [fun() ->
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
            {throw, {secret, 1}, "an internal error"}]].

raise(error, Term) -> error(Term);
raise(exit, Term) -> exit(Term);
raise(throw, Term) -> throw(Term).

a_function_that_is_missing_is_told_by_its_name_test() ->
    {error, Reason} = flame_prof_remote:call(node(), flame_prof, nonsuch, [], 5000),
    ?assertEqual(lists:concat([node(), ": it has no flame_prof:nonsuch/0: it has no flame_prof, "
        "or another version"]), lists:flatten(io_lib:format("~ts",
            [flame_prof:format_error(Reason)]))).

a_node_that_is_late_and_whose_files_do_not_hang_is_only_late_test() ->
    {error, Reason} = flame_prof_remote:call(node(), timer, sleep, [infinity], 100),
    ?assertMatch({match, _}, re:run(flame_prof:format_error(Reason), "\\(--timeout\\)$")).

a_node_whose_calls_wait_for_its_files_is_told_as_that_test() ->
    Text = peer_vm:value(?MODULE, held_up, ["+SDio", "1"]),
    ?assertMatch({match, _}, re:run(Text,
        "\\(--timeout\\); 2 calls wait for its dirty I/O schedulers")).

held_up() ->
    hung_files:with(3, [flame_prof, flame_prof_error, flame_prof_remote, flame_prof_text], fun() ->
        {error, Reason} = flame_prof_remote:call(node(), timer, sleep, [infinity], 100),
        unicode:characters_to_binary(flame_prof:format_error(Reason))
    end).

waits(To) ->
    To ! {waits, self()},
    receive done -> ok end.

a_call_that_is_late_is_ended_and_leaves_no_message_test() ->
    [{error, {node, _}} = flame_prof_remote:at_once(node(), ?MODULE, waits, [self()], Ms)
        || Ms <- lists:duplicate(200, 0) ++ [100]],
    Begun = begun(),
    ?assertNotEqual([], Begun),
    waiting:eventually(fun() -> not lists:any(fun is_process_alive/1, Begun) end),
    ?assertEqual([], [Message || Message <- element(2, process_info(self(), messages)),
        element(1, Message) =/= waits]).

begun() ->
    receive {waits, Pid} -> [Pid | begun()]
    after 0 -> []
    end.

a_file_is_read_or_is_not_there_test() ->
    ?assertMatch({ok, {ok, <<_, _/binary>>}},
        flame_prof_remote:read_file(node(), "/proc/self/comm")),
    ?assertEqual({ok, {error, enoent}}, flame_prof_remote:read_file(node(), "/nonsuch")).

%% No connection is no sign of files that hang.
a_node_that_is_gone_lacks_nothing_test() ->
    ?assertMatch({error, {node, _}}, flame_prof_remote:read_file('nonsuch@nohost', "/nonsuch")),
    ?assertMatch({error, {node, _}}, flame_prof_remote:lacks('nonsuch@nohost', lists, 1000)).
