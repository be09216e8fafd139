%% Functions as a person writes them.
-module(flame_prof_mfa_tests).

-include_lib("eunit/include/eunit.hrl").

functions_are_parsed_test() ->
    _ = ['Elixir.MyApp.Repo', 'Elixir.Enum', '-map/2-fun-0-'],
    [?assertEqual({Text, {ok, Mfa}}, {Text, flame_prof_mfa:parse(Text)}) || {Text, Mfa} <- [
        {"lists:seq/2", {lists, seq, 2}},
        {<<" lists:seq/2 ">>, {lists, seq, 2}},
        {"lists:seq", {lists, seq, '_'}},
        {"lists:seq/_", {lists, seq, '_'}},
        {"lists:_", {lists, '_', '_'}},
        {"'lists':'seq'/2", {lists, seq, 2}},
        {"lists:-map/2-fun-0-/1", {lists, '-map/2-fun-0-', 1}},
        {"erlang://2", {erlang, '/', 2}},
        {"erlang:+/2", {erlang, '+', 2}},
        {"Enum.map/2", {'Elixir.Enum', map, 2}},
        {"MyApp.Repo.all", {'Elixir.MyApp.Repo', all, '_'}},
        {"MyApp.Repo._", {'Elixir.MyApp.Repo', '_', '_'}},
        {"Elixir.Enum:map/2", {'Elixir.Enum', map, 2}},
        {"Elixir.Enum.map/2", {'Elixir.Enum', map, 2}},
        {"Enum:map/2", {'Elixir.Enum', map, 2}},
        {"&Enum.map/2", {'Elixir.Enum', map, 2}},
        {"&:lists.seq/2", {lists, seq, 2}},
        {":lists.seq/2", {lists, seq, 2}},
        {fun lists:seq/2, {lists, seq, 2}},
        {fun 'Elixir.Enum':map/2, {'Elixir.Enum', map, 2}}]].

what_is_none_is_refused_test() ->
    [?assertMatch({Text, {error, <<_, _/binary>>}}, {Text, flame_prof_mfa:parse(Text)})
        || Text <- ["", "lists", "lists:", ":seq/2", "lists:seq/256", "lists:seq/999",
            <<255, 254>>, "&", ":lists", fun() -> ok end, [a], 17]].

functions_that_are_there_are_found_test() ->
    [?assertEqual({Given, {ok, [{lists, seq, 2}]}}, {Given, flame_prof_mfa:find(Given)})
        || Given <- [{lists, seq, 2}, "lists:seq/2", <<"&:lists.seq/2">>, fun lists:seq/2]],
    ?assertEqual({ok, [{lists, seq, 2}, {lists, seq, 3}]}, flame_prof_mfa:find({lists, seq, '_'})),
    [?assertEqual({Given, {error, {lists, seq, 7}}}, {Given, flame_prof_mfa:find(Given)})
        || Given <- [{lists, seq, 7}, "lists:seq/7", fun lists:seq/7]],
    [?assertMatch({Given, {error, <<_, _/binary>>}}, {Given, flame_prof_mfa:find(Given)})
        || Given <- [{a, b}, {'_', seq, 2}, 17]].

no_atom_is_made_test() ->
    Module = "no_module_" ++ integer_to_list(erlang:unique_integer([positive])),
    {error, Why} = flame_prof_mfa:parse(Module ++ ":seq/2"),
    ?assertMatch({_, _}, binary:match(Why, list_to_binary(Module))),
    ?assertError(badarg, list_to_existing_atom(Module)),
    ?assertMatch({error, _}, flame_prof_mfa:parse("lists:" ++ Module ++ "/2")).
