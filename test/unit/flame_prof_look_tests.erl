%% The list of looks, and what is made of it.
-module(flame_prof_look_tests).

-include_lib("eunit/include/eunit.hrl").

%% What a sixteenth look touches: its module, the list in flame_prof_look, and the folder of its C
%% code. Here it has none, and the functions that `make options' writes are looked at as text.
a_sixteenth_look_touches_its_module_and_the_list_test() ->
    {ok, _, Sixteenth} = compile:forms(sixteenth(), []),
    {module, _} = code:load_binary(flame_prof_sixteenth, "", Sixteenth),
    {flame_prof_look, List, File} = code:get_object_code(flame_prof_look),
    {ok, {_, [{abstract_code, {_, Forms}}]}} = beam_lib:chunks(List, [abstract_code]),
    {ok, _, Longer} = compile:forms(longer(Forms), []),
    try
        {module, _} = code:load_binary(flame_prof_look, File, Longer),
        has_all_surfaces()
    after
        _ = [code:purge(Module) || Module <- [flame_prof_look, flame_prof_sixteenth]],
        {module, _} = code:load_binary(flame_prof_look, File, List),
        _ = code:delete(flame_prof_sixteenth)
    end.

has_all_surfaces() ->
    Has = fun(Text, Part) -> ?assertMatch({Part, {match, _}},
        {Part, re:run(unicode:characters_to_binary(Text), Part)}) end,
    ?assertEqual({ok, #{answer => 3}}, flame_prof:look(sixteenth, #{top => 3})),
    Has(flame_prof_look_doc:help(), "  sixteenth\\(\\) +how it is\n"),
    Has(flame_prof_look_doc:exports(), "sixteenth/0,\\s+sixteenth/1"),
    Has(flame_prof_look_doc:functions(), "sixteenth\\(\\) -> flame_prof_shell:print\\("),
    Has(flame_prof_cli_args:help(), "\n  sixteenth +Looks\\."),
    {help, Help} = flame_prof_cli_args:parse(["sixteenth", "--help"]),
    [Has(Help, Part) || Part <- ["flame_prof sixteenth NODE \\[options\\]",
        "--top N +how many \\(7\\)", "\\$ flame_prof sixteenth n@h", "Costs nothing.", "--cookie-file"]],
    {ok, Parsed} = flame_prof_cli_args:parse(["sixteenth", "--node", "n@h", "--top", "2"]),
    ?assertEqual(#{top => 2},
        flame_prof_cli_look_options:given(flame_prof_sixteenth, Parsed)),
    ?assertMatch([#{title := <<"A sixteenth">>,
            'inputSchema' := #{properties := #{<<"top">> := _}}}],
        [Tool || #{name := sixteenth} = Tool <- flame_prof_mcp_tools:list([])]),
    ?assertEqual({bare, [flame_prof_sixteenth, flame_prof_look]},
        flame_prof_look:lent(flame_prof_sixteenth)),
    {ok, [Json]} = flame_prof_look:seen(flame_prof_sixteenth, #{}, [json]),
    ?assertMatch({ok, #{<<"version">> := 1, <<"command">> := <<"sixteenth">>, <<"answer">> := 7}},
        flame_prof_json_reader:decode(Json)).

longer({cons, At, {atom, _, flame_prof_allocations} = Last, {nil, _} = End}) ->
    {cons, At, Last, {cons, At, {atom, At, flame_prof_sixteenth}, End}};
longer([Head | Tail]) -> [longer(Head) | longer(Tail)];
longer(Tuple) when is_tuple(Tuple) -> list_to_tuple(longer(tuple_to_list(Tuple)));
longer(Term) -> Term.

sixteenth() ->
    [begin
        {ok, Tokens, _} = erl_scan:string(Form),
        {ok, Parsed} = erl_parse:parse_form(Tokens),
        Parsed
    end || Form <- ["-module(flame_prof_sixteenth).",
        "-export([about/0, takes/0, run/2, text/2, json/1]).",
        "about() -> #{name => sixteenth, group => memory, asks => \"how it is\", "
            "sentence => \"Looks.\", cost => \"Costs nothing.\", shows => \"Nothing.\", "
            "argument => {node, optional, \"node()\", \"NODE\"}, runs => there, "
            "assistant => #{title => \"A sixteenth\", tells => [], options => [top]}, "
            "examples => [\"sixteenth n@h\"]}.",
        "takes() -> [#{key => top, type => {whole, count, 1, 9}, default => 7, "
            "doc => \"how many\"}].",
        "run(_, #{top := N}) -> {ok, #{answer => N}}.",
        "text(_, _) -> \"text\".", "json(Answer) -> Answer."]].

every_look_has_its_functions_test() ->
    Exports = [Name || {Name, _} <- flame_prof:module_info(exports)],
    ?assertEqual([], flame_prof_look:names() -- Exports).

the_looks_of_the_issue_are_listed_test() ->
    ?assertEqual([allocations, binaries, blame, doctor, hot, latency, mailbox, memory, pstack,
        slow_calls, tables, top, trace, waits, xray], lists:sort(flame_prof_look:names())).

the_first_option_is_the_argument_test() ->
    [?assert(lists:member(Key, [K || #{key := K} <- flame_prof_look:rows(Module)]), {Module, Key})
     || Module <- flame_prof_look:modules(),
        #{argument := {Key, _, _, _}} <- [flame_prof_look:about(Module)]].

an_argument_and_options_are_one_map_test() ->
    Given = fun flame_prof_look:given/2,
    ?assertEqual({ok, #{process => init}}, Given(flame_prof_waits, [init])),
    ?assertEqual({ok, #{process => init, top => 3}}, Given(flame_prof_waits, [init, [{top, 3}]])),
    ?assertEqual({ok, #{for => 100}}, Given(flame_prof_waits, [[{for, 100}]])),
    ?assertEqual({ok, #{function => gc, for => 100}}, Given(flame_prof_blame, [gc, 100])),
    ?assertEqual({ok, #{process => [init, {global, x}]}},
        Given(flame_prof_pstack, [[init, {global, x}]])),
    ?assertMatch({error, {badarg, #{argument := process}}}, Given(flame_prof_waits, [undefined])),
    ?assertMatch({error, {badarg, #{argument := process}}}, Given(flame_prof_xray, [#{}])).

older_names_are_accepted_but_not_beside_the_new_one_test() ->
    {ok, #{for := 2000, max_cpu := 3}} = flame_prof_look:checked(flame_prof_latency,
        #{functions => "lists:seq/2", seconds => 2, max_cpu_percent => 3}),
    ?assertMatch({error, {bad_option, _}}, flame_prof_look:checked(flame_prof_tables,
        #{by => memory, sort => memory})).
