%% What of files is not in a table or an export of them.
-module(flame_prof_file_losses_tests).

-include_lib("eunit/include/eunit.hrl").

-define(CORPUS, "test/corpus/").

what_is_no_profile_is_refused_test_() ->
    Gzip = zlib:gzip(<<0:800000>>),
    [{Name, fun() ->
        with_file(Name, Text, fun(File) ->
            Path = list_to_binary(File),
            Reason = <<"no sample of it can be read: ", Why/binary>>,
            [?assertMatch({error, {file, #{file := Path, reason := Reason}}}, Try(File))
             || Try <- [fun(F) -> flame_prof_tree:report(F, #{}) end,
                    fun(F) -> flame_prof:hot([F, F], #{}) end,
                    fun(F) -> flame_prof:report(F, F ++ ".html") end]],
            ?assertNot(filelib:is_file(File ++ ".html"))
        end)
    end}
     || {Name, Text, Why} <- [
            {"b.txt", "Dear all,\n\nno samples.\n", <<"it is no profile, or damaged">>},
            {"c.gz", binary:part(Gzip, 0, 60),
                <<"the compressed file is cut off before its first sample ends">>},
            %% Another checksum.
            {"d.gz", [binary:part(Gzip, 0, byte_size(Gzip) - 8), <<0:64>>],
                <<"the compressed file is damaged">>}]].

%% A session may have nothing to sample.
a_file_without_samples_is_a_profile_test() ->
    Own = "beam 7/2147483647 [000] 109.000001: cpu-clock:\n# ticks=9/9 name=flame_prof (metrics)\n"
        "\tffffffff flame_prof_self (flame_prof)\n\tffffffff waiting (status)\n\n",
    [with_file("empty.log", Text, fun(File) ->
        ?assertMatch({ok, #{samples := 0}}, flame_prof_tree:report(File, #{}))
    end) || Text <- ["", Own]].

damage_is_told_by_file_test() ->
    ?assertEqual([], texts([?CORPUS "ours.log"])),
    ?assertEqual([<<?CORPUS "damaged.log: 11 damaged samples left out">>,
            <<?CORPUS "cut.log.gz: 1 damaged sample left out, its end is cut off">>],
        texts([?CORPUS "damaged.log", ?CORPUS "ours.log", ?CORPUS "cut.log.gz"])),
    with_file("a.json", "{}\n", fun(File) ->
        ?assertEqual([<<(list_to_binary(File))/binary,
            ": no sample of it can be read: it is no profile, or damaged">>],
            texts([?CORPUS "ours.log", File]))
    end).

%% Two events count different things: their samples are no sum.
of_two_events_one_is_shown_and_both_are_named_test() ->
    Sample = fun(Us, Event) ->
        io_lib:format("a 1 1.~6..0b: 7 ~s: \n\tff main (a)\n\n", [Us, Event])
    end,
    Text = [Sample(1, "cycles"), Sample(2, "instructions:u"), Sample(3, "cycles")],
    with_file("two.txt", Text, fun(File) ->
        Shown = fun(Options) ->
            {ok, Profile} = flame_prof_profile:read(File, Options),
            #{samples := Samples} = Info = flame_prof_profile:info(Profile),
            {Samples, [iolist_to_binary(Line) || Line <- flame_prof_file_losses:texts(Info)]}
        end,
        ?assertEqual({2, [<<"only 2 samples of the event cycles are read; the option event selects "
            "another one, or all: 1 of instructions:u">>]}, Shown(#{})),
        ?assertMatch({1, [<<"only 1 sample of the event instructions:u is read; ", _/binary>>]},
            Shown(#{event => "instructions:u"})),
        ?assertEqual({3, [<<"samples of different events are added up: 2 of cycles, 1 of "
            "instructions:u">>]}, Shown(#{event => all})),
        ?assertMatch({error, {bad_option, #{option := event, value := <<"faults">>,
                accepted := <<"first, all, or an event of these files: cycles, instructions:u">>}}},
            flame_prof_profile:read(File, #{event => <<"faults">>})),
        [?assertMatch({error, {bad_option, #{option := event}}},
            flame_prof_profile:read(File, #{event => Bad})) || Bad <- [cycles, 7, "", {all}]],
        {ok, #{samples := 2, notes := [<<"only 2 samples", _/binary>>]} = Report} =
            flame_prof_tree:report(File, #{}),
        ?assertMatch({_, _}, binary:match(
            unicode:characters_to_binary(flame_prof_tree:format(Report, 200)),
            <<"only 2 samples of the event cycles are read">>))
    end),
    with_file("one.txt", Sample(1, "cycles"), fun(File) ->
        ?assertEqual([], texts([File])),
        ?assertMatch({ok, #{notes := []}}, flame_prof_tree:report(File, #{}))
    end).

%% As those of cycles do; those of cpu-clock are all the same. No number of a metric is one.
periods_that_differ_and_are_not_used_are_noted_test() ->
    Text = fun(Periods) -> [io_lib:format("a 1 1.00000~b: ~b e: \n\tff main (a)\n\n", [N, Period])
        || {N, Period} <- lists:zip(lists:seq(1, length(Periods)), Periods)] end,
    [?assertMatch({_, {ok, #{notes := Notes}}}, {Periods, with_file("p.txt", Text(Periods),
        fun(File) -> flame_prof_tree:report(File, Options) end)})
     || {Periods, Options, Notes} <- [{[7, 1, 7], #{}, [<<"periods differ: a sample is weighed as "
            "one, with the option by period as its period">>]},
        {[7, 1, 7], #{by => period}, []}, {[7, 7], #{}, []}]].

what_perf_could_not_record_is_told_test() ->
    Text = "a 1 1.000001: cycles: \n\tff main (a)\n\na 1 1.000002: PERF_RECORD_LOST lost 1200\n",
    with_file("lost.txt", Text, fun(File) ->
        ?assertEqual([<<(list_to_binary(File))/binary, ": perf has lost 1,200 events">>],
            texts([File]))
    end).

%% The counters of a session are in each of its files; the last one has all.
what_sessions_missed_is_told_once_test() ->
    File = fun(Name, First, Own) ->
        #{path => Name, first_us => First, own => Own, bad => 0, damaged => 0, cut_off => false,
            dialect => flame_prof}
    end,
    One = <<"a/2026-11-21@0154.07.n@h.erl_perf.log">>,
    Two = <<"a/2026-11-21@0154.08.n@h.erl_perf.log">>,
    Other = <<"a/2026-11-21@0154.08.m@h.erl_perf.log">>,
    Next = <<"a/2026-11-21@0154.09.n@h.erl_perf.log">>,
    Counters = fun(Ticks, Missed) ->
        iolist_to_binary(io_lib:format("ticks=~b/1 missed=~b/0 attempted=5000/5 inconsistent=40/1"
            " dropped=0/0 x=1", [Ticks, Missed]))
    end,
    Files = [File(Two, 2, Counters(1800, 200)), File(One, 1, Counters(900, 100)),
        File(Other, 2, Counters(90, 10)), File(Next, 3, Counters(95, 5))],
    ?assertEqual([<<"the sessions missed 215 of 2,200 ticks">>],
        text(flame_prof_file_losses:texts(#{files => Files}))),
    ?assertEqual([<<"5 of 100 ticks">>, <<"40 of 5,000 samples, which were inconsistent">>],
        text(flame_prof_file_losses:counted(lists:last(Files)))),
    %% As files of earlier versions have it, and too little to be told.
    Older = File(One, 1, <<"ticks=1000/1 missed=9/0 taken=100/5 torn=7/1">>),
    ?assertEqual([<<"the sessions missed 7 of 100 samples, which were inconsistent">>],
        text(flame_prof_file_losses:texts(#{files => [Older]}))).

%% Of each, from one in a hundred on; of ticks both those that came and those that did not are all.
what_is_a_hundredth_is_told_test() ->
    Of = fun(Own) ->
        File = #{path => <<"a.log">>, first_us => 1, own => Own, bad => 0, damaged => 0,
            cut_off => false, dialect => flame_prof},
        length(flame_prof_file_losses:texts(#{files => [File]}))
    end,
    [?assertEqual({Own, Told}, {Own, Of(Own)}) || {Own, Told} <- [
        {<<"ticks=990/1 missed=10/1">>, 1}, {<<"ticks=991/1 missed=10/1">>, 0},
        {<<"ticks=9/1 attempted=1000/1 inconsistent=10/1">>, 1},
        {<<"ticks=9/1 attempted=1001/1 inconsistent=10/1">>, 0},
        {<<"ticks=9/1 attempted=1000/1 dropped=4/1 lost=6/1">>, 1},
        {<<"ticks=9/1 attempted=1000/1 dropped=4/1 lost=5/1">>, 0},
        {<<"ticks=9/1 words=1000/1 dropped_words=10/1">>, 1},
        {<<"ticks=9/1 words=1001/1 dropped_words=10/1">>, 0},
        {<<"ticks=9/1 words=1000/1 in_step_words=10/1">>, 1},
        {<<"ticks=9/1 words=1001/1 in_step_words=10/1">>, 0}]].

texts(Files) ->
    {ok, Profile} = flame_prof_profile:read(Files),
    text(flame_prof_file_losses:texts(flame_prof_profile:info(Profile))).

text(Sentences) -> [unicode:characters_to_binary(Sentence) || Sentence <- Sentences].
with_file(Name, Text, Test) -> text_file:with(Name, Text, Test).
