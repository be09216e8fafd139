%% Files of allocations, read, printed, exported and listed. The oracle is the story that
%% made_allocations has written.
-module(flame_prof_alloc_files_tests).

-include_lib("eunit/include/eunit.hrl").

-define(NAME, "2026-11-21@0154.07.shop@host.erl_alloc.log").
-define(SAMPLES, "2026-11-21@0154.07.shop@host.erl_perf.log").

made(Test) ->
    {ok, _} = application:ensure_all_started(flame_prof),
    text_file:folder(fun(Dir) ->
        File = filename:join(Dir, ?NAME),
        Story = made_allocations:write(File),
        try Test(File, Story)
        after ok = applications:stop([flame_prof, inets])
        end
    end).

words(Story, Is) ->
    #{samples := Samples} = Story,
    lists:sum([Words || #{words := Words} = One <- Samples, Is(One)]).

all(_) -> true.

the_grammar_is_kept_test() ->
    made(fun(File, #{samples := Samples}) ->
        {ok, #{event := <<"alloc-words">>, samples := Count}} = perf_script_grammar:check(File),
        ?assertEqual(length(Samples) + 1, Count)
    end).

hot_tells_words_and_what_became_of_them_test() ->
    made(fun(File, #{samples := Samples} = Story) ->
        {ok, Report} = flame_prof_tree:report(File, #{}),
        #{unit := words, by := <<"words">>, weight := Weight, tree := Roots, samples := Count,
            by_process := Processes} = Report,
        ?assertEqual(words(Story, fun all/1), Weight),
        ?assertEqual(length(Samples), Count),
        ?assertEqual(maps:from_list([
                {atom_to_binary(Fate), words(Story, fun(#{fate := F}) -> F =:= Fate end)}
             || Fate <- [kept, garbage, not_known]]),
            maps:from_list([{Name, W} || #{name := Name, weight := W} <- Roots])),
        ?assertEqual(words(Story, fun(#{who := {Name, _, _}}) -> Name =:= "cache" end),
            hd([W || #{name := <<"cache ", _/binary>>, weight := W} <- Processes])),
        Text = unicode:characters_to_list(flame_prof_tree:format(Report, 100)),
        ?assertMatch({match, _}, re:run(Text, "76M bytes allocated \\(10,012,289 words\\)")),
        ?assertEqual(nomatch, re:run(Text, "running|garbage_collecting|idle"))
    end).

samples_can_still_be_asked_for_test() ->
    made(fun(File, #{samples := Samples}) ->
        {ok, #{by := <<"samples">>, weight := Weight}} =
            flame_prof_tree:report(File, #{by => samples}),
        ?assertEqual(length(Samples), Weight)
    end).

every_format_weighs_words_test() ->
    made(fun(File, Story) ->
        {ok, Profile} = flame_prof_profile:read(File),
        Out = fun(Format) -> File ++ "." ++ atom_to_list(Format) end,
        Export = fun(Format) ->
            {ok, Facts} = flame_prof_profile:export(Profile, Format, Out(Format)),
            {ok, Bytes} = file:read_file(Out(Format)),
            {Facts, Bytes}
        end,
        Words = words(Story, fun all/1),
        {#{total := Total}, Collapsed} = Export(collapsed),
        ?assertMatch({match, _}, re:run(Collapsed, "^kept;", [multiline])),
        ?assertEqual(Words, Total),
        {_, Speedscope} = Export(speedscope),
        ?assertNotEqual(nomatch, binary:match(Speedscope, <<"\"unit\":\"bytes\"">>)),
        End = <<"\"endValue\":", (integer_to_binary(8 * Words))/binary>>,
        ?assertNotEqual(nomatch, binary:match(Speedscope, End)),
        {_, Pprof} = Export(pprof),
        ?assertNotEqual(nomatch, binary:match(zlib:gunzip(Pprof), <<"alloc_space">>)),
        {_, Firefox} = Export(firefox),
        ?assertNotEqual(nomatch, binary:match(Firefox, <<"\"weightType\":\"bytes\"">>)),
        {_, _} = Export(perf),
        ?assertMatch({ok, #{event := <<"alloc-words">>}}, perf_script_grammar:check(Out(perf))),
        {ok, #{weight := Again}} = flame_prof_tree:report(Out(perf), #{}),
        ?assertEqual(Words, Again)
    end).

long_collections_are_words_of_their_samples_test() ->
    made(fun(File, #{samples := Samples}) ->
        Told = fun
            (#{words := #{<<"collection_us">> := Us, <<"collection">> := Kind,
                <<"cause">> := Cause}}, Found) ->
                [{binary_to_integer(Us), binary_to_atom(Kind), binary_to_atom(Cause)} | Found];
            (_, Found) -> Found
        end,
        {ok, Found, #{bad := 0, samples := Count}} = flame_prof:fold(Told, [], File),
        ?assertEqual([Long || #{long := Long} <- Samples], lists:reverse(Found)),
        ?assertEqual(length(Samples), Count)
    end).

both_kinds_are_not_one_profile_test() ->
    made(fun(File, _) ->
        Other = filename:join(filename:dirname(File), ?SAMPLES),
        ok = file:write_file(Other, samples()),
        [begin
            {error, Reason} = flame_prof_profile:read(Files),
            ?assertMatch({file, _}, Reason),
            Text = unicode:characters_to_list(flame_prof:format_error(Reason)),
            ?assertMatch({match, _}, re:run(Text, "erl_perf.*erl_alloc.*one kind"))
        end || Files <- [[File, Other], [Other, File]]],
        {ok, Twice} = flame_prof_profile:read([File, File]),
        ok = flame_prof_profile:close(Twice)
    end).

a_directory_shows_samples_first_and_pairs_them_with_allocations_test() ->
    made(fun(File, _) ->
        Dir = filename:dirname(File),
        ok = file:write_file(filename:join(Dir, ?SAMPLES), samples()),
        ok = file:write_file(filename:join(Dir, "other.perf"), samples()),
        {ok, Root} = flame_prof_view_files:root(Dir),
        Entries = flame_prof_view_series:paired(flame_prof_view_files:list(Root)),
        Others = maps:from_list([{Name, maps:get(other, Entry, none)}
            || #{name := Name} = Entry <- Entries]),
        ?assertEqual(#{<<?NAME>> => <<?SAMPLES>>, <<?SAMPLES>> => <<?NAME>>,
            <<"other.perf">> => none}, Others),
        ?assertEqual([allocations], [K || #{name := <<?NAME>>, kind := K} <- Entries])
    end).

%% Nothing is said of a file that is right.
what_is_in_step_or_not_told_is_said_test() ->
    made(fun(File, Story) ->
        Told = fun(From, To) ->
            Text = iolist_to_binary(made_allocations:text(Story)),
            ok = file:write_file(File, binary:replace(Text, From, To)),
            {ok, Profile} = flame_prof_profile:read(File),
            Texts = flame_prof_file_losses:texts(flame_prof_profile:info(Profile)),
            [unicode:characters_to_list(One) || One <- Texts]
        end,
        ?assertEqual([], Told(<<"looks">>, <<"looks">>)),
        [InStep] = Told(<<"in_step_words=0/0">>, <<"in_step_words=2000000/0">>),
        ?assertMatch("2,000,000 of 10,012,289 words are of processes" ++ _, InStep),
        [NotTold] = Told(<<"dropped_words=0/0">>, <<"dropped_words=300000/0">>),
        ?assertMatch("the sessions missed 300,000 of 10,012,289 words" ++ _, NotTold)
    end).

%% As the page follows a session that writes: a piece has the collections that the one before lacks.
a_growing_file_is_indexed_in_pieces_test() ->
    made(fun(File, #{samples := Samples} = Story) ->
        Part = File ++ ".part",
        {Before, Behind} = lists:split(length(Samples) div 2, Samples),
        Text = fun(Some) -> iolist_to_binary(made_allocations:text(Story#{samples := Some})) end,
        {ok, Profile} = flame_prof_profile:new(),
        Pieces = [begin
            ok = file:write_file(Part, Text(Some), [append]),
            {ok, _} = flame_prof_profile:open(Profile, Part, {How, part}),
            ok = flame_prof_profile:add(Profile, fun(_) -> ok end),
            {ok, _} = flame_prof_profile:index_piece(Profile, File ++ ".piece"),
            {ok, Piece} = file:read_file(File ++ ".piece"),
            {match, [Count]} = re:run(Piece, "\"collection\":.\"type\":\"sparse\",\"count\":[0-9]+"
                "\n*,\"rows\":.\"count\":([0-9]+)", [{capture, [1], binary}]),
            binary_to_integer(Count)
        end || {How, Some} <- [{start, Before}, {continue, Behind}]],
        ?assertEqual([length([1 || #{long := _} <- Some]) || Some <- [Before, Behind]], Pieces)
    end).

%% Of the files of a session, the series is the other one.
a_series_is_paired_with_a_series_test() ->
    Entry = fun(Name) -> #{name => Name, state => file} end,
    Names = [<<"2026-11-21@0154.07.a@b.erl_perf.log.zst+">>,
        <<"2026-11-21@0154.07.a@b.erl_perf.log.zst">>,
        <<"2026-11-21@0155.07.a@b.erl_perf.log.zst">>,
        <<"2026-11-21@0154.07.a@b.erl_alloc.log.zst">>,
        <<"2026-11-21@0154.07.c@b.erl_alloc.log.zst">>],
    Paired = flame_prof_view_series:paired([Entry(Name) || Name <- Names]),
    ?assertEqual([lists:nth(4, Names), lists:nth(4, Names), none, hd(Names), none],
        [maps:get(other, One, none) || One <- Paired]).

samples() ->
    [["cache 4242/102 [001] 1795237782.", N, ": reductions=5/0 erl_pid=<0.102.0> cpu-clock:\n"
        "\tffffffff a:b/1 (a.erl)\n\tffffffff running (status)\n\n"] || N <- ["100001", "200001"]].
