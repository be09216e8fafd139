%% What the shell's h/1,2 and ht/2 have to say: the chunk "Docs" of the beams.
-module(flame_prof_docs_tests).

-include_lib("eunit/include/eunit.hrl").

the_module_is_described_test() ->
    {docs_v1, _, erlang, _, #{<<"en">> := Text}, _, _} = docs(flame_prof),
    ?assertNotEqual([], Text).

every_exported_function_of_the_facade_is_described_test() ->
    Described = [{Name, Arity} || {{function, Name, Arity}, _, _, #{<<"en">> := _}, _}
                                      <- entries(flame_prof)],
    Exported = flame_prof:module_info(exports) -- [{module_info, 0}, {module_info, 1}
        | flame_prof_original:module_info(exports)],
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

%% A quote that ends too early shows as one.
no_text_has_a_broken_quote_test() ->
    ?assertEqual([], [{Module, Text} || Module <- documented(), Docs <- [docs(Module)],
        Text <- texts([element(5, Docs) | [element(4, Entry) || Entry <- element(7, Docs)]]),
        nomatch =/= re:run(Text, "`|''")]).

texts(#{<<"en">> := Text}) -> texts(Text);
texts([Head | Tail]) -> texts(Head) ++ texts(Tail);
texts({Tag, _, _}) when Tag =:= code; Tag =:= pre -> [];
texts({_, _, Content}) -> texts(Content);
texts(Text) when is_binary(Text) -> [Text];
texts(_) -> [].

documented() ->
    _ = application:load(flame_prof),
    {ok, Modules} = application:get_key(flame_prof, modules),
    [Module || Module <- Modules, lists:prefix("flame_prof", atom_to_list(Module)),
        is_map(element(5, docs(Module)))].

public_functions() ->
    [{Module, Function} || Module <- documented(),
        {{function, Name, Arity}, _, _, Text, _} <- entries(Module), Text =/= hidden,
        Function <- [{Name, Arity}]].

%% What nobody types is not public.
public_functions_are_few_test() ->
    ?assert(length(public_functions()) =< 100).

%% h/2 prints the specification of a function, and ht/2 each type that it names, and their types.
each_type_of_a_public_specification_is_shown_test() ->
    Public = public_functions(),
    Specs = [Spec || Module <- documented(),
        {attribute, _, spec, {Function, Spec}} <- forms(Module),
        lists:member({Module, Function}, Public)],
    Missing = shown_types(types(Specs), []),
    ?assertEqual([], [Type || {Module, Name, Arity} = Type <- Missing,
        not lists:keymember({type, Name, Arity}, 1, entries(Module))]).

shown_types([], Shown) -> Shown;
shown_types([{Module, Name, _} = Type | Types], Shown) ->
    More = [Of || {attribute, _, type, {N, Of, _}} <- forms(Module), N =:= Name],
    shown_types((types(More) -- [Type | Shown]) ++ Types, [Type | Shown -- [Type]]).

types({remote_type, _, [{atom, _, Module}, {atom, _, Name}, Args]}) ->
    [{Module, Name, length(Args)} || lists:prefix("flame_prof", atom_to_list(Module))]
        ++ types(Args);
types([Head | Tail]) -> types(Head) ++ types(Tail);
types(Tuple) when is_tuple(Tuple) -> types(tuple_to_list(Tuple));
types(_) -> [].

forms(Module) ->
    {ok, {_, [{abstract_code, {_, Forms}}]}} =
        beam_lib:chunks(code:which(Module), [abstract_code]),
    Forms.
