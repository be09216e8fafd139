%% Names of C++ as binutils reads them, and where a person sees them.
-module(flame_prof_demangle_tests).

-include_lib("eunit/include/eunit.hrl").

names_of_cxx_are_those_of_binutils_test() ->
    Pairs = pairs(),
    ?assert(length(Pairs) > 150),
    ?assertEqual([{Symbol, plain(Name)} || {Symbol, Name} <- Pairs],
        [{Symbol, demangled(Symbol)} || {Symbol, _} <- Pairs]).

pairs() ->
    {ok, Text} = file:read_file("viewer/test/model/cxx_names.txt"),
    pairs([Line || <<C, _/binary>> = Line <- binary:split(Text, <<"\n">>, [global]), C =/= $#]).

pairs([Symbol, Name | Lines]) -> [{Symbol, Name} | pairs(Lines)];
pairs([]) -> [].

%% Without the arguments of templates and tags of the ABI.
plain(Name) ->
    {match, [Scope, Operator]} = re:run(Name, "^(.*?)(operator(?:[<>=-]+|.*)|)$",
        [{capture, all_but_first, binary}]),
    Untagged = re:replace(Scope, "\\[abi:\\w+\\]", "", [global, {return, binary}]),
    <<(without_templates(Untagged))/binary, Operator/binary>>.

without_templates(Name) ->
    case re:replace(Name, "<[^<>]*>", "", [global, {return, binary}]) of
        Name -> Name;
        Less -> without_templates(Less)
    end.

what_follows_a_name_stays_and_rusts_hash_does_not_test() ->
    ?assertEqual(<<"foo::bar.cold">>, demangled(<<"_ZN3foo3barEv.cold">>)),
    ?assertEqual(<<"memcpy@GLIBC">>, demangled(<<"memcpy@GLIBC">>)),
    ?assertEqual(<<"core::fmt::write">>, demangled(<<"_ZN4core3fmt5write17h0123456789abcdefE">>)).

what_is_no_name_of_cxx_stays_as_it_is_test() ->
    Deep = [iolist_to_binary([Begin, binary:copy(Nested, N)])
        || {Begin, Nested} <- [{"_Z", <<"N">>}, {"_Z1fI", <<"I">>}, {"_Z", <<"Z">>},
            {"_Z1fI", <<"J">>}, {"_Z1fI", <<"M">>}, {"_Z1fIX", <<"1a">>}, {"_ZN1a", <<"C1">>}],
           N <- [300, 2000, 100000]],
    Long = iolist_to_binary(["_Z1100", binary:copy(<<"a">>, 1100)]),
    [?assertEqual(Symbol, demangled(Symbol))
     || Symbol <- [<<"lists:map/2">>, <<>>, <<"_Z">>, <<"_Zed">>, <<"_ZN">>, <<"_ZN3foE">>,
            <<"malloc">>, <<"_ZTV3foo">>, <<"_ZN99999999999foo">>, <<"_ZNS_3fooE">>,
            <<"_ZN3fooC">>, <<"[gc]">>, <<"_ZNE">>, <<"_ZNC1E">>, <<"_ZND1E">>, Long] ++ Deep].

%% No byte of it makes a reader go wrong: most lose their name.
damaged_names_are_harmless_test() ->
    [begin
        Cut = binary:part(Symbol, 0, N),
        <<_, Rest/binary>> = binary:part(Symbol, N, byte_size(Symbol) - N),
        [?assert(is_binary(demangled(Text)))
            || Text <- [Cut, <<Cut/binary, Rest/binary>>, <<Cut/binary, "E", Rest/binary>>,
                <<Cut/binary, 0, Rest/binary>>, <<Cut/binary, "S_", Rest/binary>>]]
    end || {Symbol, _} <- pairs(), N <- lists:seq(0, byte_size(Symbol) - 1)].

%% Two functions of one name are one frame; a file keeps the symbols.
a_person_sees_names_test_() ->
    Mangled = [<<"_ZN3foo3barEi">>, <<"_ZN3foo3barEv">>],
    Text = [["beam 7/1 [001] 100.00000", integer_to_list(N), ": erl_pid=<0.1.0> cpu-clock:\n"
        "\tffffffff ", Symbol, " (beam.smp)\n\tffffffff a:b/0:1 (a.erl)\n"
        "\tffffffff running (status)\n\n"] || {N, Symbol} <- lists:enumerate(Mangled)],
    Exported = fun(Format, Options) ->
        text_file:with(Text, fun(File) ->
            {ok, Profile} = flame_prof_profile:read(File),
            text_file:with("", fun(Path) ->
                {ok, _} = flame_prof_profile:export(Profile, Format, Path, Options),
                element(2, {ok, _} = file:read_file(Path))
            end)
        end)
    end,
    [{"collapsed", ?_assertEqual([{[<<"running">>, <<"a:b/0">>, <<"foo::bar">>], 2}],
            foreign_formats:collapsed(Exported(collapsed, #{lines => false})))},
        {"collapsed, with lines", ?_assertEqual(
            [{[<<"running">>, <<"a:b/0:1">>, <<"foo::bar">>], 1}],
            lists:usort(foreign_formats:collapsed(Exported(collapsed, #{lines => true}))))},
        {"speedscope", fun() ->
            #{<<"shared">> := #{<<"frames">> := Frames}} =
                foreign_formats:json(Exported(speedscope, #{})),
            ?assertEqual([<<"a:b/0">>, <<"foo::bar">>, <<"running">>],
                lists:sort([Name || #{<<"name">> := Name} <- Frames]))
        end},
        {"firefox", fun() ->
            #{threads := #{<<"<0.1.0>">> := #{samples := Samples}}} =
                foreign_formats:firefox(Exported(firefox, #{})),
            ?assertEqual([{<<"foo::bar">>, <<"beam.smp">>, null}],
                lists:usort([lists:last(Stack) || {_, _, {Stack, _}} <- Samples]))
        end},
        {"pprof", fun() ->
            #{samples := Samples} = foreign_formats:pprof(Exported(pprof, #{})),
            ?assertMatch({match, _}, re:run(io_lib:format("~p", [Samples]), "foo::bar"))
        end},
        {"perf", fun() ->
            Perf = Exported(perf, #{by => samples}),
            [?assertNotEqual(nomatch, binary:match(Perf, Symbol)) || Symbol <- Mangled]
        end},
        {"hot", fun() ->
            text_file:with(Text, fun(File) ->
                {ok, Report} = flame_prof_tree:report(File, #{idle => true}),
                Shown = unicode:characters_to_binary(flame_prof_tree:format(Report, 100)),
                ?assertNotEqual(nomatch, binary:match(Shown, <<"a:b/0  (foo::bar 100.0%)">>)),
                ?assertEqual(nomatch, binary:match(Shown, <<"_ZN">>))
            end)
        end}].

demangled(Symbol) -> flame_prof_report_nif:demangled(Symbol).
