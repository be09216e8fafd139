%% Exports against what the reader in Erlang says of the same files, added up
%% here in the plainest way.
-module(flame_prof_profile_tests).

-include_lib("eunit/include/eunit.hrl").
-include_lib("kernel/include/file.hrl").

-define(CORPUS, "test/corpus/").
-define(OURS, ?CORPUS "ours.log").

%%% Reading

a_profile_says_what_it_holds_test() ->
    {ok, Profile} = flame_prof_profile:read([?OURS, ?CORPUS "damaged.log", ?CORPUS "perf.txt"],
        #{event => all}),
    Info = flame_prof_profile:info(Profile),
    ?assertMatch(#{samples := 14, bad := Bad, is_ordered := false,
            files := [#{dialect := flame_prof, compression := plain, samples := 6, bad := 0},
                #{dialect := flame_prof, samples := 2, bad := Bad},
                #{dialect := perf, samples := 6, bad := 0}],
            warnings := [{<<?CORPUS "damaged.log">>, 8, <<"no time in the header">>} | _],
            metrics := [<<"reductions">>, <<"message_queue_len">>, <<"memory">> | _]
        } when Bad > 6,
        Info),
    #{memory := Memory, max_memory := Most, metrics := Metrics} = Info,
    ?assertEqual(16, length(Metrics)),
    ?assert(Memory > 0 andalso Memory < Most).

%% Also of a damaged sample of the profiler itself, which fold/3 leaves out anyway.
both_readers_count_losses_alike_test() ->
    {ok, Ours} = file:read_file(?OURS),
    Own = ["beam 1/2147483647 [000] 9.000001: cpu-clock:\n# ticks=1/x engine=native (metrics)\n",
           "\tffffffff flame_prof_self (flame_prof)\n\tffffffff waiting (status)\n\n"],
    with_file([Ours, Own, Ours], fun(Path) ->
        ?assertMatch(#{samples := 12, bad := 1}, losses_of(Path)),
        ?assertMatch(#{bad := 0, damaged := 1, cut_off := 0, lost_text := Lost} when Lost > 0,
            losses_of(?CORPUS "damaged_frame.log.zst")),
        ?assertMatch(#{bad := 0, damaged := 0, cut_off := 1}, losses_of(?CORPUS "cut.log.zst")),
        ?assertMatch(#{bad := 1, damaged := 0, cut_off := 1}, losses_of(?CORPUS "cut.log.gz"))
    end).

losses_of(Path) ->
    Keys = [samples, bad, damaged, cut_off, lost_text],
    {ok, Profile} = flame_prof_profile:read(Path),
    {ok, _, Counts} = flame_prof:fold(fun(_, Acc) -> Acc end, none, Path),
    Losses = maps:with(Keys, flame_prof_profile:info(Profile)),
    ?assertEqual(Losses, maps:with(Keys, Counts)),
    Losses.

processes_have_their_names_test() ->
    {ok, Profile} = flame_prof_profile:read(?OURS),
    ?assertMatch([#{erl_pid := <<"<0.71.0>">>, name := <<"worker">>,
                proc_lib_initial_call := <<"worker:init/1">>, pid := 4242, tid := 71, samples := 3},
            #{erl_pid := <<"<0.72.0>">>, name := <<>>, initial_call := <<"erlang:apply/2">>}],
        flame_prof_profile:processes(Profile)).

many_processes_are_listed_test() ->
    with_file([[io_lib:format("beam 1/~b [000] ~b.000001: cpu-clock:\n", [N, N]),
                io_lib:format("# reductions=1/0 erl_pid=<0.~b.0> (metrics)\n", [N]),
                "\tffffffff a:a/0 (a.erl)\n\tffffffff waiting (status)\n\n"]
         || N <- lists:seq(1, 2500)],
        fun(File) ->
            {ok, Profile} = flame_prof_profile:read(File),
            Tids = [Tid || #{tid := Tid} <- flame_prof_profile:processes(Profile)],
            ?assertEqual(lists:seq(1, 2500), Tids)
        end).

a_file_that_does_not_fit_is_refused_test() ->
    Text = [io_lib:format("beam 1/1 [000] ~b.000001: cpu-clock:\n\tffffffff f~b:f/0 (f.erl)\n"
            "\tffffffff waiting (status)\n\n", [N, N]) || N <- lists:seq(1, 20000)],
    with_file(Text, fun(File) ->
        ?assertMatch({error,
                {memory, #{file := File, reason := <<"the profile does not fit into max_memory">>
                }}},
            flame_prof_profile:read(File, #{max_memory => 1 bsl 20})),
        ?assertMatch({ok, _}, flame_prof_profile:read(File))
    end).

progress_is_told_test() ->
    Self = self(),
    with_file(lists:duplicate(20000, element(2, file:read_file(?OURS))), fun(File) ->
        Size = filelib:file_size(File),
        Tell = fun(F, Read, S) -> Self ! {F, Read, S} end,
        {ok, _} = flame_prof_profile:read(File, #{progress => Tell}),
        receive
            {File, Read, Size} -> ?assert(Read >= 33554432 andalso Read < Size)
        after 0 -> error(no_progress)
        end
    end).

what_is_no_file_is_named_test() ->
    ?assertMatch({error, {file, #{file := "/nowhere", reason := enoent}}},
        flame_prof_profile:read(["/nowhere"])),
    ?assertMatch({error, {file, #{file := "/tmp", reason := <<"not a regular file">>}}},
        flame_prof_profile:read("/tmp")),
    {ok, Profile} = flame_prof_profile:read(?OURS),
    [begin
        ?assertMatch({error, {file, #{file := File}}}, flame_prof_profile:read([File])),
        ?assertMatch({error, {file, #{file := File}}},
            flame_prof:fold(fun(_, A) -> A end, 0, [File])),
        ?assertMatch({error, {file, #{file := File}}}, flame_prof_profile:index(Profile, File))
    end || File <- [<<>>, <<"a", 0>>, {file}, {7}, [a, {b}], lists:duplicate(5000, $x)]].

bad_options_are_named_test_() ->
    {ok, Profile} = flame_prof_profile:read(?OURS),
    [?_assertMatch({error, {bad_option, #{option := Key}}}, flame_prof_profile:read(?OURS, Options))
     || {Key, Options} <- [{max_memory, #{max_memory => 1000}},
            {progress, #{progress => fun() -> ok end}},
            {memory, #{memory => 1}},
            {options, no}]
    ] ++
        [?_assertMatch({error, {bad_option, #{option := Key}}},
                flame_prof_profile:export(Profile, Format, "/nowhere/x", Options))
         || {Key, Format, Options} <- [{format, svg, #{}},
                {by, collapsed, #{by => reduction}},
                {by, collapsed, #{by => 7}},
                {group_by, collapsed, #{group_by => [status, status]}},
                {group_by, collapsed, #{group_by => [colour]}},
                {group_by, collapsed, #{group_by => [status | process]}},
                {by, collapsed, #{by => [samples | period]}},
                {by, speedscope, #{by => []}},
                {lines, collapsed, #{lines => maybe_not}},
                {status, perf, #{status => busy}},
                {process, perf, #{process => 7}},
                {options, perf, [perf]}]].

%% What the profiler says of itself is no sample, but is told.
its_own_samples_are_kept_apart_test() ->
    Own = "ticks=978/122 missed=0/0 name=flame_prof engine=native",
    Text = [
        %% Enough rows that what one alone has is sparse.
        [element(2, file:read_file(?OURS)) || _ <- [1, 2, 3, 4]],
        "beam 4242/2147483647 [000] 1795237784.900000: cpu-clock:\n# ", Own, " (metrics)\n",
        "\tffffffff flame_prof_self (flame_prof)\n\tffffffff waiting (status)\n\n"],
    with_file(Text, fun(File) ->
        {ok, Profile} = flame_prof_profile:read(File),
        OwnText = list_to_binary(Own),
        ?assertMatch(#{samples := 24, bad := 0, files := [#{samples := 24, own := OwnText}],
                processes := 2, own_metrics := [<<"ticks">>, <<"missed">>]},
            flame_prof_profile:info(Profile)),
        #{metrics := OfProcesses} = flame_prof_profile:info(Profile),
        ?assertEqual(16, length(OfProcesses)),
        ?assertMatch({error, _}, flame_prof_profile:stacks(Profile, #{by => ticks})),
        ?assertEqual([false, false, true],
            [IsOwn || #{is_own := IsOwn} <- flame_prof_profile:processes(Profile)]),
        ?assertEqual(collapsed([?OURS, ?OURS, ?OURS, ?OURS], #{}), collapsed(File, #{})),
        ?assertMatch({ok, 24, #{samples := 24, bad := 0}},
                     flame_prof:fold(fun(_, N) -> N + 1 end, 0, File)),
        with_export(pprof, File, #{}, fun(Path, _) ->
            {ok, Gzip} = file:read_file(Path),
            #{samples := Samples} = foreign_formats:pprof(Gzip),
            ?assertEqual(24, lists:sum([hd(Values) || {_, Values, _} <- Samples]))
        end),
        with_index(File, fun(#{rows := Rows, header := #{<<"metrics">> := Metrics}}) ->
            ?assertEqual(25, length(Rows)),
            ?assertMatch([#{<<"type">> := <<"sparse">>}],
                [V || #{<<"name">> := <<"ticks">>, <<"value">> := V} <- Metrics]),
            ?assertMatch(#{<<"ticks">> := {978, 122}}, maps:get(metrics, lists:last(Rows)))
        end)
    end).

%%% Files that are written

an_export_is_its_owners_and_whole_test() ->
    {ok, Profile} = flame_prof_profile:read(?OURS),
    with_directory(fun(Dir) ->
        Path = filename:join(Dir, "out.txt"),
        ok = file:write_file(Path, "what was there"),
        ok = file:make_symlink("/nowhere", Path ++ ".link"),
        {ok, #{bytes := Bytes}} = flame_prof_profile:export(Profile, collapsed, Path),
        {ok, #file_info{mode = Mode, size = Size}} = file:read_file_info(Path),
        ?assertEqual(8#600, Mode band 8#777),
        ?assertEqual(Bytes, Size),
        %% A link is replaced, not written through.
        {ok, _} = flame_prof_profile:export(Profile, collapsed, Path ++ ".link"),
        ?assertEqual(file:read_file(Path), file:read_file(Path ++ ".link")),
        ?assertEqual(["out.txt", "out.txt.link"], filelib:wildcard("*", Dir)),
        ?assertMatch({error, {file, #{reason := enoent}}},
            flame_prof_profile:export(Profile, pprof, filename:join([Dir, "no", "x"]))),
        ok = file:make_dir(filename:join(Dir, "dir")),
        ?assertMatch({error, {file, _}},
            flame_prof_profile:export(Profile, pprof, filename:join(Dir, "dir"))),
        ?assertEqual(["dir", "out.txt", "out.txt.link"], filelib:wildcard("*", Dir))
    end).

%%% Collapsed

collapsed_stacks_add_up_test_() ->
    Measures = [samples, reductions, {value, memory}, {delta, <<"memory">>}, minor_gcs],
    Levels = [[], [status], [status, process, pid], [memory, queue, status], [sign, node], [file]],
    [?_assertEqual(expected_stacks(?OURS, Measure, Order, Lines),
            collapsed(?OURS, #{by => Measure, group_by => Order, lines => Lines}))
     || Measure <- Measures, Order <- Levels, Lines <- [true, false]].

names_do_not_break_a_line_test() ->
    Stacks = collapsed(?CORPUS "nasty_names.log", #{group_by => [process]}),
    ?assertEqual(14, lists:sum(maps:values(Stacks))),
    ?assert(maps:is_key([<<"5/6">>, <<"root:f/0">>, <<"a%20b%3Bc:a%20b%3Bc/0">>], Stacks)).

stacks_of_perf_have_no_status_test() ->
    ?assertEqual(#{[<<"[no_frames]">>] => 8, [<<"main">>] => 1, [<<"do_idle">>] => 1},
        maps:filter(fun(_, Weight) -> Weight < 250000 end,
            collapsed(?CORPUS "perf.txt", #{by => period}))).

%%% Stacks as terms

stacks_are_those_of_the_export_test_() ->
    [?_test(begin
        {ok, Profile} = flame_prof_profile:read(?OURS),
        Options = #{by => Measure, group_by => [process, status], lines => Lines},
        {ok, #{weight := Weight, samples := Samples, count := Count, stacks := Stacks}} =
            flame_prof_profile:stacks(Profile, Options),
        Sums = maps:from_list([{L ++ symbols(S), W} || {L, S, W, _} <- Stacks]),
        ?assertEqual(expected_stacks(?OURS, Measure, [process, status], Lines), Sums),
        ?assertEqual(Weight, lists:sum(maps:values(Sums))),
        ?assertEqual(Samples, lists:sum([N || {_, _, _, N} <- Stacks])),
        ?assertEqual(Count, length(Stacks)),
        Weights = [W || {_, _, W, _} <- Stacks],
        ?assertEqual(lists:reverse(lists:sort(Weights)), Weights),
        ?assertMatch({ok, #{count := Count, weight := Weight, stacks := [First]}} when
                First =:= hd(Stacks), flame_prof_profile:stacks(Profile, Options#{top => 1}))
    end) || Measure <- [samples, reductions, {value, memory}, memory], Lines <- [true, false]].

earlier_names_of_options_are_accepted_test() ->
    {ok, Profile} = flame_prof_profile:read(?OURS),
    Stacks = flame_prof_profile:stacks(Profile, #{by => memory, group_by => [process]}),
    ?assertMatch({ok, #{count := 2}}, Stacks),
    ?assertEqual(Stacks, flame_prof_profile:stacks(Profile,
        #{measure => memory, levels => [process]})),
    ?assertEqual(Stacks, flame_prof_profile:stacks(Profile,
        #{measures => [memory], levels => [process]})).

symbols(Frames) -> lists:reverse([Symbol || {Symbol, _} <- Frames]).

%% As fold/3 has them.
frames_have_their_library_or_source_test_() ->
    [?_test(begin
        {ok, Profile} = flame_prof_profile:read(?CORPUS ++ File, #{event => all}),
        {ok, #{stacks := Stacks}} = flame_prof_profile:stacks(Profile, #{}),
        {ok, Expected, _} = flame_prof:fold(
            fun(#{frames := Frames}, All) -> [Frames | All] end, [], ?CORPUS ++ File),
        ?assertEqual(lists:usort(Expected), lists:usort([Frames || {_, Frames, _, _} <- Stacks])),
        {ok, #{stacks := Plain}} = flame_prof_profile:stacks(Profile, #{lines => false}),
        ?assertEqual(lists:usort([[without_lines(Frame) || Frame <- Frames] || Frames <- Expected]),
            lists:usort([Frames || {_, Frames, _, _} <- Plain]))
    end) || File <- ["ours.log", "schedulers.log", "original.log", "perf.txt"]].

without_lines({Symbol, Dso}) -> {element(1, without_line(Symbol)), Dso}.

groups_are_summed_without_stacks_test_() ->
    [?_test(begin
        {ok, Profile} = flame_prof_profile:read(?OURS),
        Query = #{by => Measure, group_by => [status, node, pid]},
        {ok, #{stacks := Stacks}} = flame_prof_profile:stacks(Profile, Query),
        {ok, #{stacks := Groups} = Answer} =
            flame_prof_profile:stacks(Profile, Query#{stacks => false}),
        ?assertEqual(sums([{L, W} || {L, _, W, _} <- Stacks]),
            maps:from_list([{L, W} || {L, [], W, _} <- Groups])),
        ?assertEqual(length(Groups), maps:get(count, Answer))
    end) || Measure <- [samples, memory, {value, memory}]].

a_profile_in_use_by_another_process_is_busy_test() ->
    {ok, Profile} = flame_prof_profile:read(?OURS),
    User = spawn_link(fun() -> use(Profile) end),
    waiting:eventually(fun() -> flame_prof_profile:info(Profile) =:= {error, {busy, #{}}} end),
    unlink(User),
    exit(User, kill),
    waiting:eventually(fun() -> flame_prof_profile:close(Profile) =:= ok end).

use(Profile) ->
    _ = flame_prof_profile:stacks(Profile, #{}),
    use(Profile).

a_closed_profile_is_of_no_use_test() ->
    {ok, Profile} = flame_prof_profile:read(?OURS),
    ok = flame_prof_profile:close(Profile),
    Closed = {error, {closed, #{}}},
    ?assertEqual(Closed, flame_prof_profile:info(Profile)),
    ?assertEqual(Closed, flame_prof_profile:processes(Profile)),
    ?assertEqual(Closed, flame_prof_profile:stacks(Profile, #{})),
    ?assertEqual(Closed, flame_prof_profile:export(Profile, pprof, "/tmp/never")),
    ?assertEqual(Closed, flame_prof_profile:index(Profile, "/tmp/never")),
    ?assertEqual(Closed, flame_prof_tree:of_profile(Profile, #{})),
    ?assertEqual(Closed, flame_prof_profile:close(Profile)),
    ?assertError(badarg, flame_prof_profile:info(make_ref())).

%%% perf

a_weighted_export_is_read_back_test_() ->
    [{atom_to_list(Kind), fun() ->
        with_export(perf, ?OURS, #{by => {Kind, memory}}, fun(Path, Facts) ->
            ?assertMatch({ok, #{}}, perf_script_grammar:check(Path)),
            {ok, Written, #{bad := 0}} = flame_prof:fold(
                fun(S, L) -> [perf_row(S) | L] end, [], Path),
            ?assertEqual(expected_perf(?OURS, Kind), lists:reverse(Written)),
            ?assertMatch(#{moved := 0, samples := N} when N =:= length(Written), Facts)
        end)
    end} || Kind <- [value, delta]].

a_perf_of_the_original_keeps_the_grammar_test() ->
    with_export(perf, ?CORPUS "original.log", #{by => {value, reductions}}, fun(Path, _) ->
        ?assertMatch({ok, #{}}, perf_script_grammar:check(Path))
    end).

times_are_put_in_order_test() ->
    with_export(perf, [?OURS, ?OURS], #{by => samples}, fun(Path, Facts) ->
        ?assertMatch(#{samples := 12, moved := M} when M >= 5, Facts),
        {ok, Times, _} = flame_prof:fold(fun(#{time_us := T}, L) -> [T | L] end, [], Path),
        ?assertEqual(12, length(Times)),
        ?assertEqual(lists:reverse(lists:sort(Times)), Times)
    end).

%%% speedscope

speedscope_adds_up_test() ->
    Measures = [samples, {value, memory}, {delta, reductions}],
    with_export(speedscope, ?OURS, #{by => Measures}, fun(Path, _) ->
        {ok, Text} = file:read_file(Path),
        #{<<"$schema">> := <<"https://www.speedscope.app/file-format-schema.json">>,
            <<"shared">> := #{<<"frames">> := Frames}, <<"profiles">> := Profiles
        } = foreign_formats:json(Text),
        ?assertEqual([<<"samples">>, <<"memory">>, <<"reductions delta">>],
            [Name || #{<<"name">> := Name} <- Profiles]),
        ?assert(lists:member(
                #{<<"name">> => <<"gen_server:loop/7">>, <<"file">> => <<"gen_server.erl">>}, Frames
            )),
        [?assertEqual(
                expected_stacks(?OURS, Measure, [status], false), speedscope_stacks(Profile, Frames)
            ) || {Measure, Profile} <- lists:zip(Measures, Profiles)]
    end).

names_are_decoded_for_people_test() ->
    with_export(speedscope, ?CORPUS "nasty_names.log", #{}, fun(Path, _) ->
        {ok, Text} = file:read_file(Path),
        #{<<"shared">> := #{<<"frames">> := Frames}} = foreign_formats:json(Text),
        Names = [Name || #{<<"name">> := Name} <- Frames],
        Expected = [<<"a b;c:a b;c/0">>, <<"<script>alert(1):\"/1">>, <<"é:é/0"/utf8>>,
            <<"m:-f/1-fun-0-/2">>,
            %% Neither UTF-8 nor printable: as it is in the file.
            <<"%FF%1B:f/0">>],
        ?assertEqual([], Expected -- Names),
        %% HTML in a name is no HTML in the file.
        ?assertEqual(nomatch, binary:match(Text, <<"<script">>))
    end).

speedscope_stacks(#{<<"samples">> := Samples, <<"weights">> := Weights} = Profile, Frames) ->
    Names = list_to_tuple([Name || #{<<"name">> := Name} <- Frames]),
    ?assertEqual(lists:sum(Weights), maps:get(<<"endValue">>, Profile)),
    sums([{[element(I + 1, Names) || I <- Stack], Weight}
     || {Stack, Weight} <- lists:zip(Samples, Weights)]).

%%% pprof

pprof_adds_up_test() ->
    with_export(pprof, ?OURS, #{}, fun(Path, _) ->
        {ok, Gzip} = file:read_file(Path),
        #{types := Types, samples := Samples} = Pprof = foreign_formats:pprof(Gzip),
        ?assertMatch(#{time_nanos := 1795237782923952000, duration_nanos := 1017049000,
                default := <<"samples">>},
            Pprof),
        ?assertEqual([{<<"samples">>, <<"count">>}, {<<"period">>, <<"count">>},
                {<<"reductions_delta">>, <<"count">>}, {<<"reductions">>, <<"count">>}],
            lists:sublist(Types, 4)),
        ?assertEqual(<<"bytes">>, proplists:get_value(<<"memory">>, Types)),
        ?assertEqual(<<"words">>, proplists:get_value(<<"heap_size">>, Types)),
        [?assertEqual(
                expected_pprof(?OURS, Type), sums([{{F, L}, V} || {F, L, V} <- taken(N, Samples)]))
         || {N, {Type, _}} <- lists:zip(lists:seq(1, length(Types)), Types)]
    end).

taken(N, Samples) ->
    [{Frames, Labels, lists:nth(N, Values)} || {Frames, Values, Labels} <- Samples].

expected_pprof(File, Type) ->
    sums([{{[pprof_frame(F) || F <- Frames], labels(Sample)}, pprof_value(Type, Sample)}
     || #{frames := Frames} = Sample <- samples(File)]).

pprof_frame({Symbol, Dso}) ->
    {Name, Line} = without_line(Symbol),
    {Name, Dso, Line}.

pprof_value(<<"samples">>, _) -> 1;
pprof_value(<<"period">>, #{period := Period}) -> Period;
pprof_value(Type, #{metrics := Metrics}) ->
    case Metrics of
        #{Type := {Value, _}} -> Value;
        _ -> element(2, maps:get(binary:part(Type, 0, byte_size(Type) - 6), Metrics))
    end.

labels(#{words := #{<<"erl_pid">> := Pid}, status := Status} = Sample) ->
    #{<<"pid">> => Pid, <<"name">> => process(Sample), <<"status">> => Status}.

%%% The index

the_index_is_the_file_test_() ->
    [{File, fun() ->
        with_index(?CORPUS ++ File, fun(#{rows := Rows, processes := Pids, own_rows := Own}) ->
            Names = list_to_tuple(Pids),
            Numbered = lists:zip(lists:seq(0, length(Rows) - 1), Rows),
            Got = [(maps:remove(scheduler, R))#{process := element(P + 1, Names)}
                || {Number, #{process := P} = R} <- Numbered, not lists:member(Number, Own)],
            ?assertEqual([index_row(S) || S <- samples(?CORPUS ++ File)], Got)
        end)
    end} || File <- ["ours.log", "nasty_names.log", "changes.log"]].

a_packed_index_is_the_index_test_() ->
    [{File, fun() ->
        with_index(?CORPUS ++ File, fun(Index) ->
            with_packed_index(?CORPUS ++ File, fun(Packed) ->
                #{rows := Rows, processes := Processes, names := Names} = Index,
                ?assertMatch(#{processes := Processes, names := Names}, Packed),
                ?assertEqual(by_time_and_process(Index), maps:get(rows, Packed)),
                ?assertEqual(length(Rows), length(maps:get(rows, Packed)))
            end)
        end)
    end}
     || File <- ["ours.log", "nasty_names.log", "original.log", "perf.txt", "edges.log",
            "changes.log"]].

%% Weights of perf may be none.
a_period_of_0_is_in_an_index_and_a_packed_one_test() ->
    Text = [io_lib:format("a 1 1.~6..0b: ~b cycles: \n\tff main (a)\n\n", [1000 * N, Period])
        || {N, Period} <- [{1, 0}, {2, 7}, {3, 0}, {4, 1}, {5, 300000}, {6, 0}]],
    with_file(Text, fun(File) ->
        [With(File, fun(#{rows := Rows}) ->
            ?assertEqual([0, 7, 0, 1, 300000, 0], [Period || #{period := Period} <- Rows])
        end) || With <- [fun with_index/2, fun with_packed_index/2]]
    end).

%% In which packed rows are: consecutive rows of one time by their processes.
by_time_and_process(#{rows := Rows}) ->
    {Keyed, _} = lists:mapfoldl(fun(#{time_us := Time, process := P} = Row, {Run0, Last}) ->
        Run = case Time of Last -> Run0; _ -> Run0 + 1 end,
        {{{Run, P}, Row}, {Run, Time}}
    end, {0, none}, Rows),
    [Row || {_, Row} <- lists:keysort(1, Keyed)].

the_index_of_an_empty_file_has_no_rows_test() ->
    with_file("", fun(File) ->
        with_index(File, fun(#{rows := Rows, header := Header}) ->
            ?assertEqual([], Rows),
            ?assertMatch(#{<<"files">> := [#{<<"dialect">> := <<"none">>}]}, Header)
        end)
    end).

%% Metrics that come and go, deltas that are not the difference.
the_index_tells_what_a_sample_did_not_have_test() ->
    Sample = fun(N, Metrics) ->
        [io_lib:format("beam 1/~b [000] ~b.000001: cpu-clock:\n", [N rem 3, N]),
            ["# ", Metrics, io_lib:format("erl_pid=<0.~b.0> (metrics)\n", [N rem 3])],
            "\tffffffff a:a/0 (a.erl)\n\tffffffff waiting (status)\n\n"]
    end,
    Kinds = ["a=1/0 b=-5/7 ", "b=70000/1 ", "c=1/1 a=300/3 ", "", "a=5000000000/-1 "],
    Texts = [Sample(N, lists:nth(N * 7 rem 5 + 1, Kinds)) || N <- lists:seq(1, 60)],
    with_file(Texts, fun(File) ->
        with_index(File, fun(#{rows := Rows}) ->
            ?assertEqual([M || #{metrics := M} <- samples(File)], [M || #{metrics := M} <- Rows])
        end)
    end).

%% By the brackets of each header; perf counts its CPUs from 0, the original writes 0 always.
the_index_tells_which_scheduler_ran_a_process_test_() ->
    Sample = fun(N) ->
        [io_lib:format("worker.loop 1/~b [~3..0b] ~b.000001: ", [N rem 3, N * 7 rem 5, N]),
            [io_lib:format("reductions=~b/0 erl_pid=<0.~b.0> ", [N, N rem 3]) || N =< 3],
            "cpu-clock:\n\tffffffff a:a/0 (a.erl)\n\tffffffff running (status)\n\n"]
    end,
    {ok, Perf} = file:read_file(?CORPUS "perf.txt"),
    {ok, Original} = file:read_file(?CORPUS "original.log"),
    Cases = [{"ours", [Sample(N) || N <- lists:seq(1, 40)], 0}, {"perf", Perf, 1},
        {"the original", Original, 0}],
    [{Name, fun() -> with_file(Text, fun(File) -> schedulers_are_read(File, More) end) end}
        || {Name, Text, More} <- Cases].

schedulers_are_read(File, More) ->
    {ok, Text} = file:read_file(File),
    {match, Headers} = re:run(Text, "^(?![#\t ])[^\n]*?( \\[([0-9]+)\\])? *[0-9]+\\.[0-9]{6,}:",
        [multiline, global, {capture, [2], binary}]),
    Expected = [case Cpu of [<<>>] -> 0; [Digits] -> binary_to_integer(Digits) + More end
        || Cpu <- Headers],
    ?assert(length(Expected) > 2),
    with_index(File, fun(#{rows := Rows}) ->
        ?assertEqual(Expected, [S || #{scheduler := S} <- Rows])
    end),
    with_packed_index(File, fun(#{rows := Rows}) ->
        ?assertEqual(lists:sort(Expected), lists:sort([S || #{scheduler := S} <- Rows]))
    end).

what_was_damaged_is_in_the_index_test() ->
    with_index(?CORPUS "damaged.log", fun(#{header := Header}) ->
        ?assertMatch(#{<<"warning_count">> := Count,
                <<"warnings">> := [#{<<"line">> := 8, <<"file">> := 0} | _]
            } when Count > 6,
            Header)
    end).

%% Twenty seconds, in one of which a mailbox grows. By the samples of the text.
merged_rows_add_up_and_have_true_values_test() ->
    with_file([busy_sample(N) || N <- lists:seq(0, 1999)], fun(File) ->
        Samples = [index_row(S) || S <- samples(File)],
        with_merged_index(File, [100000, 1000000], fun(#{rows := Rows, processes := Pids,
            header := Header}) ->
            Names = list_to_tuple(Pids),
            Got = [maps:remove(scheduler, R#{process := element(P + 1, Names)})
                || #{process := P} = R <- Rows],
            ?assert(length(Got) < 600),
            ?assertMatch(#{<<"coarse_us">> := 1000000, <<"fine">> := [[7000000, 8000000]]}, Header),
            ?assertEqual(added_up(Samples), added_up(Got)),
            Values = maps:from_list([{where(S), values(S)} || S <- Samples]),
            [?assertEqual(maps:get(where(R), Values), values(R)) || R <- Got],
            Fine = fun(All) -> lists:sort([S || #{time_us := T} = S <- All,
                T - 1795237000000001 >= 7000000, T - 1795237000000001 < 8000000]) end,
            ?assertEqual(100, length(Fine(Samples))),
            ?assertEqual(Fine(Samples), Fine(Got)),
            Times = [T || #{time_us := T} <- Got],
            ?assertEqual(lists:sort(Times), Times)
        end)
    end).

busy_sample(N) ->
    Us = N * 10000 + 1,
    Growth = case Us div 1000000 of 7 -> N; _ -> 700 end,
    [io_lib:format("beam 1/~b [000] ~b.~6..0b: ~b cpu-clock:\n",
            [N rem 3, 1795237000 + Us div 1000000, Us rem 1000000, 1 + N rem 2]),
        io_lib:format("# reductions=~b/~b memory=~b/~b message_queue_len=~b/~b erl_pid=<0.~b.0> "
            "(metrics)\n", [N * N, N, 900 + N rem 7 * 8, N rem 5 - 2, Growth, Growth - 700,
            N rem 3]),
        io_lib:format("\tffffffff a:f~b/0 (a.erl)\n\tffffffff ~ts (status)\n\n",
            [N rem 4, lists:nth(N div 50 rem 2 + 1, ["waiting", "running"])])].

added_up(Rows) ->
    lists:foldl(
        fun(#{process := P, status := S, frames := F, period := Period, metrics := M}, Sums) ->
            One = {Period, maps:map(fun(_, {_, Delta}) -> Delta end, M)},
            maps:update_with({P, S, F}, fun(Sum) -> both(Sum, One) end, One, Sums)
        end, #{}, Rows).

both({P1, D1}, {P2, D2}) ->
    {P1 + P2, maps:map(fun(Key, Delta) -> Delta + maps:get(Key, D2) end, D1)}.

where(#{time_us := Time, process := P, status := S, frames := F}) -> {Time, P, S, F}.
values(#{metrics := Metrics}) -> maps:map(fun(_, {Value, _}) -> Value end, Metrics).

index_row(#{frames := Frames, words := #{<<"erl_pid">> := Pid} = Words} = Sample) ->
    Own = maps:with([<<"message">>, <<"waits_for">>, <<"request">>], Words),
    maps:merge(maps:with([time_us, period, status, metrics], Sample),
        maps:from_list([{process, Pid}, {frames, [Symbol || {Symbol, _} <- Frames]}] ++
                [{binary_to_atom(Key), Word} || {Key, Word} <- maps:to_list(Own)])).

%%% A file that a session wrote

a_session_s_file_is_read_whole_test() ->
    with_directory(fun(Dir) ->
        %% The VM's own loader has functions of C++.
        Workers = [spawn_link(Work) || Work <- [fun() -> work(0) end, fun load/0]],
        {ok, _} = flame_prof:start(#{dir => Dir}),
        waiting:eventually(fun() -> maps:get(written,
            maps:get(counters, flame_prof:info())) > 2000 end),
        {ok, #{files := [File0], written := Written, merged := Merged}} = flame_prof:stop(),
        [begin unlink(Worker), exit(Worker, kill) end || Worker <- Workers],
        File = unicode:characters_to_list(File0),
        {ok, Profile} = flame_prof_profile:read(File),
        #{samples := Samples, bad := Bad} = flame_prof_profile:info(Profile),
        ?assertEqual({Written - Merged, 0}, {Samples, Bad}),
        [?assertEqual(expected_stacks(File, Measure, Levels, true),
                collapsed(File, #{by => Measure, group_by => Levels}))
         || Measure <- [samples, reductions, {value, memory}],
            Levels <- [[status, process], [memory, queue]]],
        with_index(File, fun(#{rows := Rows, own_rows := OwnRows}) ->
            {Own, Others} = lists:partition(fun({Number, _}) -> lists:member(Number, OwnRows) end,
                lists:zip(lists:seq(0, length(Rows) - 1), Rows)),
            ?assertEqual([maps:remove(process, index_row(S)) || S <- samples(File)],
                [maps:without([process, scheduler], R) || {_, R} <- Others]),
            {ok, Told, _} = reader_oracle:own(File),
            ?assertEqual([{T, F} || #{time_us := T, figures := F} <- Told],
                [{T, M} || {_, #{time_us := T, metrics := M}} <- Own])
        end)
    end).

load() ->
    {_, Code, _} = code:get_object_code(orddict),
    load(Code).

%% One of these takes 0.1 ms and is one reduction: 4,000 would keep the code server waiting for each
%% module.
load(Code) ->
    _ = erlang:prepare_loading(orddict, Code),
    true = erlang:yield(),
    load(Code).

%% Now and then it waits for another process.
work(N) ->
    _ = lists:sum(lists:seq(1, 1000)),
    timer:sleep(1),
    _ = supervisor:which_children(kernel_sup),
    work(N + 1).

%%% What is expected: by the reader in Erlang

samples(File) ->
    {ok, Samples, #{bad := _}} =
        reader_oracle:fold(fun(S, L) -> [S | L] end, [], [File]),
    [told_by_key(Sample) || Sample <- lists:reverse(Samples)].

%% That reader tells numbers from words by their observations: a process of the corpus is
%% registered as '5/6'.
told_by_key(#{metrics := #{<<"name">> := {A, B}} = Metrics, words := Words} = Sample) ->
    Name = iolist_to_binary(io_lib:format("~b/~b", [A, B])),
    Sample#{metrics := maps:remove(<<"name">>, Metrics), words := Words#{<<"name">> => Name}};
told_by_key(Sample) -> Sample.

expected_stacks(File, Measure, Levels, Lines) ->
    sums([{levels(Signed, Sample, File, Weight) ++ stack(Sample, Lines), abs(Weight)}
     || Sample <- samples(File), Weight <- [weight(Measure, Sample)], Weight =/= 0,
        Signed <- [with_sign(Measure, Levels)]]).

weight(samples, _) -> 1;
weight({Kind, Metric}, Sample) when is_atom(Metric) ->
    weight({Kind, atom_to_binary(Metric)}, Sample);
weight({value, Metric}, #{metrics := Metrics}) -> element(1, maps:get(Metric, Metrics));
weight({delta, Metric}, #{metrics := Metrics}) -> element(2, maps:get(Metric, Metrics));
weight(Metric, Sample) -> weight({delta, Metric}, Sample).

with_sign(samples, Levels) -> Levels;
with_sign({value, _}, Levels) -> Levels;
with_sign(_, Levels) -> Levels ++ [sign || not lists:member(sign, Levels)].

%% Names of C++ have tests of their own, flame_prof_demangle_tests.
stack(#{frames := Frames}, HasLines) ->
    Names = [flame_prof_report_nif:demangled(Symbol) || {Symbol, _} <- lists:reverse(Frames)],
    case HasLines of
        true -> Names;
        false -> [element(1, without_line(Name)) || Name <- Names]
    end.

without_line(Symbol) ->
    case re:run(Symbol, "^(.*/[0-9]+):([0-9]+)$", [{capture, all_but_first, binary}]) of
        {match, [Name, Line]} -> {Name, binary_to_integer(Line)};
        nomatch -> {Symbol, 0}
    end.

levels(Levels, Sample, File, Weight) -> [level(Level, Sample, File, Weight) || Level <- Levels].

level(status, #{status := Status}, _, _) -> Status;
level(process, Sample, _, _) -> process(Sample);
level(pid, #{words := #{<<"erl_pid">> := Pid}}, _, _) -> Pid;
level(node, #{pid := Pid}, _, _) -> <<"os_pid_", (integer_to_binary(Pid))/binary>>;
level(file, _, File, _) -> unicode:characters_to_binary(File);
level(sign, _, _, Weight) when Weight < 0 -> <<"negative">>;
level(sign, _, _, _) -> <<"positive">>;
level(memory, #{metrics := #{<<"memory">> := {Bytes, _}}}, _, _) ->
    class(<<"memory">>, Bytes, 1024, [<<"_B">>, <<"_KiB">>, <<"_MiB">>, <<"_GiB">>]);
level(queue, #{metrics := #{<<"message_queue_len">> := {Count, _}}}, _, _) ->
    class(<<"queue">>, Count, 1000, [<<>>, <<"_k">>, <<"_M">>]).

class(What, 0, _, _) -> <<What/binary, "_0">>;
class(What, N, Base, [_ | Units]) when N >= Base -> class(What, N div Base, Base, Units);
class(What, N, _, [Unit | _]) when N >= 100 -> <<What/binary, "_100s", Unit/binary>>;
class(What, N, _, [Unit | _]) when N >= 10 -> <<What/binary, "_10s", Unit/binary>>;
class(What, _, _, [Unit | _]) -> <<What/binary, "_1s", Unit/binary>>.

process(#{words := Words}) ->
    hd([maps:get(Word, Words)
     || Word <- [<<"name">>, <<"proc_lib_initial_call">>, <<"initial_call">>, <<"erl_pid">>],
        maps:is_key(Word, Words)]).

sums(Pairs) ->
    lists:foldl(fun({Key, Weight}, Sums) ->
        maps:update_with(Key, fun(Sum) -> Sum + Weight end, Weight, Sums)
    end, #{}, Pairs).

expected_perf(File, Kind) ->
    [{Time, Tid, abs(Weight), sign(Kind, Weight), [Symbol || {Symbol, _} <- Frames], Status}
     || #{time_us := Time, tid := Tid, frames := Frames, status := Status} =
         Sample <- samples(File), Weight <- [weight({Kind, memory}, Sample)], Weight =/= 0].

perf_row(#{time_us := Time, tid := Tid, period := Period, frames := Frames, status := Status}) ->
    {Signs, Rest} = lists:partition(fun({_, Dso}) -> Dso =:= <<"sign">> end, Frames),
    {Time, Tid, Period, [Sign || {Sign, _} <- Signs], [Symbol || {Symbol, _} <- Rest], Status}.

sign(value, _) -> [];
sign(delta, Weight) when Weight < 0 -> [<<"negative">>];
sign(delta, _) -> [<<"positive">>].

%%% Files

collapsed(File, Options) ->
    with_export(collapsed, File, Options, fun(Path, #{total := Total, bytes := Bytes}) ->
        {ok, Text} = file:read_file(Path),
        Stacks = foreign_formats:collapsed(Text),
        ?assertEqual(Total, lists:sum([Weight || {_, Weight} <- Stacks])),
        ?assertEqual(Bytes, byte_size(Text)),
        %% Each stack has one line.
        Sums = maps:from_list(Stacks),
        ?assertEqual(length(Stacks), map_size(Sums)),
        Sums
    end).

with_export(Format, Files, Options, Test) ->
    with_directory(fun(Dir) ->
        Path = filename:join(Dir, "export"),
        {ok, Profile} = flame_prof_profile:read(Files, #{event => all}),
        {ok, Facts} = flame_prof_profile:export(Profile, Format, Path, Options),
        Test(Path, Facts)
    end).

with_index(File, Test) -> with_index(index, File, [], Test).
with_packed_index(File, Test) -> with_merged_index(File, [], Test).
with_merged_index(File, IntervalsUs, Test) -> with_index(packed_index, File, IntervalsUs, Test).

with_index(Write, File, IntervalsUs, Test) ->
    with_directory(fun(Dir) ->
        Path = filename:join(Dir, "index"),
        {ok, Profile} = flame_prof_profile:read(File, #{event => all}),
        [ok = flame_prof_profile:thin(Profile, Us) || Us <- IntervalsUs],
        {ok, #{bytes := Bytes}} = flame_prof_profile:Write(Profile, Path),
        {ok, Index} = file:read_file(Path),
        ?assertEqual(Bytes, byte_size(Index)),
        Test(foreign_formats:index(case Write of
            index -> Index;
            packed_index -> foreign_formats:unpacked(Index)
        end))
    end).

with_file(Text, Test) -> text_file:with(Text, Test).
with_directory(Test) -> text_file:folder(Test).
