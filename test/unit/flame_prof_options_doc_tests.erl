%% What is made of the table of options says what the table says.
-module(flame_prof_options_doc_tests).

-include_lib("eunit/include/eunit.hrl").

-define(MAKE, "out of date: make options").

the_page_of_the_options_is_current_test() ->
    Made = unicode:characters_to_binary(flame_prof_options_doc:markdown()),
    ?assertEqual({ok, Made}, file:read_file(checkout:path("doc/options.md")), ?MAKE).

the_comment_of_the_type_is_current_test() ->
    {ok, Source} = file:read_file(checkout:path("src/flame_prof.erl")),
    Made = unicode:characters_to_binary(flame_prof_options_doc:edoc()),
    Type = <<"-type options() :: flame_prof_options:given().\n">>,
    ?assertMatch({_, _}, binary:match(Source, <<Type/binary, Made/binary, "\n">>), ?MAKE).

the_type_has_the_keys_of_the_table_test() ->
    ?assertEqual(lists:sort(flame_prof_options:names()), keys_of_type(flame_prof_options, given)),
    ?assertEqual(names(flame_prof_options:process_rows()),
        keys_of_type(flame_prof_options, process_given)),
    ?assertEqual(names(flame_prof_selection:rows()), keys_of_type(flame_prof_selection, ranking)),
    ?assertEqual(names(flame_prof_trigger:rows()), keys_of_type(flame_prof_trigger, given)).

names(Rows) -> lists:sort(flame_prof_schema:names(Rows)).

keys_of_type(Module, Type) ->
    {ok, {Module, [{abstract_code, {_, Forms}}]}} =
        beam_lib:chunks(code:which(Module), [abstract_code]),
    [Fields] = [F || {attribute, _, type, {Name, {type, _, map, F}, []}} <- Forms, Name =:= Type],
    lists:sort([Key || {type, _, _, [{atom, _, Key}, _]} <- Fields]).

every_row_has_one_line_of_text_test_() ->
    [{atom_to_list(Key), ?_assertEqual(nomatch, re:run(Doc, "^$|\n|\\.$"))}
     || Rows <- [flame_prof_options:rows(), flame_prof_options:process_rows(),
            flame_prof_options:limit_rows(), flame_prof_selection:rows(),
            flame_prof_trigger:rows()],
        #{key := Key, doc := Doc} <- Rows].

the_help_of_set_describes_each_option_in_lines_that_fit_test() ->
    Text = unicode:characters_to_list(flame_prof_options_doc:help([dir])),
    Lines = string:split(string:trim(Text), "\n", all),
    ?assertEqual([], [Line || Line <- Lines, length(Line) > 100]),
    Described = [hd(string:lexemes(Line, " ")) || "  " ++ [C | _] = Line <- ["  " ++ hd(Lines)
        | tl(Lines)], C =/= $\s],
    ?assertEqual([atom_to_list(Key) || Key <- flame_prof_options:keys() -- [dir]], Described).
