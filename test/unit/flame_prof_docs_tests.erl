%% What the shell's h/1,2 and ht/2 have to say: the chunk "Docs" of the beams.
-module(flame_prof_docs_tests).

-include_lib("eunit/include/eunit.hrl").

the_module_is_described_test() ->
    {docs_v1, _, erlang, _, #{<<"en">> := Text}, _, _} = docs(flame_prof),
    ?assertNotEqual([], Text).

every_exported_function_of_the_facade_is_described_test() ->
    Described = [{Name, Arity} || {{function, Name, Arity}, _, _, #{<<"en">> := _}, _}
                                      <- entries(flame_prof)],
    Exported = flame_prof:module_info(exports) -- [{module_info, 0}, {module_info, 1}],
    ?assertEqual([], Exported -- Described).

local_functions_are_not_described_test() ->
    Described = [{Name, Arity} || {{function, Name, Arity}, _, _, _, _} <- entries(flame_prof)],
    ?assertEqual([], Described -- flame_prof:module_info(exports)).

the_type_of_the_options_describes_each_option_test() ->
    Text = shown(fun(Docs) -> shell_docs:render_type(flame_prof, options, Docs) end),
    [?assertMatch({Key, {_, _}}, {Key, binary:match(Text, atom_to_binary(Key))})
     || Key <- maps:keys(defaults())].

the_shell_shows_a_function_with_its_text_test() ->
    Text = shown(fun(Docs) -> shell_docs:render(flame_prof, start, Docs) end),
    ?assertMatch({_, _}, binary:match(Text, <<"-spec start(">>)),
    ?assertEqual(nomatch, binary:match(Text, <<"There is no documentation">>)).

%% shell_docs asks the group leader for its encoding; eunit's does not answer that.
shown(Render) ->
    Previous = group_leader(),
    true = group_leader(whereis(user), self()),
    try unicode:characters_to_binary(Render(docs(flame_prof)))
    after group_leader(Previous, self())
    end.

defaults() ->
    {ok, Defaults} = flame_prof_options:validate(#{}),
    Defaults.

entries(Module) -> element(7, docs(Module)).

docs(Module) ->
    {ok, Docs} = code:get_doc(Module),
    Docs.

%% The sentence that they contain no messages was true once, and stood in three pages.
the_pages_agree_on_what_files_contain_test() ->
    Root = filename:dirname(filename:dirname(command_line:script())),
    [begin
        {ok, Text} = file:read_file(filename:join(Root, Page)),
        ?assertMatch({Page, {_, _}},
            {Page, binary:match(Text, <<"safety.md#what-files-contain">>)}),
        ?assertEqual({Page, nomatch}, {Page, re:run(Text, "but no (messages|terms)")})
    end || Page <- ["README.md", "doc/guide/production.md", "doc/sampling.md"]].
