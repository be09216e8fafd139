-module(flame_prof_samples_tests).

-include_lib("eunit/include/eunit.hrl").

-define(CORPUS, "test/corpus/").

a_sample_is_taken_apart_test() ->
    #{metrics := Metrics} = Sample = lists:nth(2, read("ours.log")),
    ?assertEqual(16, map_size(Metrics)),
    ?assertEqual(#{time_us => 1795237782923952, comm => <<"beam">>, pid => 4242, tid => 72,
            event => <<"cpu-clock">>, period => 1, status => <<"waiting">>,
            frames => [{<<"timer:sleep/1:219">>, <<"timer.erl">>},
                {<<"erlang:apply/2">>, <<"erlang.erl">>}],
            metrics => #{<<"memory">> => {54944, 0}, <<"reductions">> => {500, 0}},
            words => #{<<"erl_pid">> => <<"<0.72.0>">>, <<"initial_call">> => <<"erlang:apply/2">>}
        },
        Sample#{metrics := maps:with([<<"memory">>, <<"reductions">>], Metrics)}).

%% What is remembered moves as it grows; make asan sees it where it is looked at
%% after that.
a_known_stack_with_a_new_status_each_time_test() ->
    Statuses = [<<"status", (integer_to_binary(N))/binary>> || N <- lists:seq(1, 300)],
    text_file:with([
        [Status, "\t0.71.0 [000] 1795237782.011367: cpu-clock:\n\tffffffff a:b/1;8 (a.erl)\n\n"]
     || Status <- Statuses], fun(File) ->
        {ok, Read, _} = fold([File], #{}),
        ?assertEqual(Statuses, [Status || #{status := Status} <- Read]),
        ?assertMatch([_], lists:usort([Frames || #{frames := Frames} <- Read]))
    end).

the_original_files_are_read_test() ->
    ?assertMatch([#{comm := <<"0.71.0">>, status := <<"waiting">>,
                metrics := #{<<"reductions">> := {123, 4}, <<"memory">> := {2640, -8}},
                frames := [{<<"gen_server:loop/7:871">>, <<"gen_server.erl">>} | _]},
            #{status := <<"running">>, frames := [_, {<<"native">>, <<"flame_prof">>}]},
            #{comm := <<"0.71.0">>}],
        read("original.log")).

perf_scripts_of_linux_are_read_test() ->
    ?assertMatch([#{comm := <<"swapper">>, status := <<>>, period := 250000,
                event := <<"cpu-clock:pppH">>},
            #{frames := [_, _, {<<"$lists:map/2">>, <<"/tmp/perf-4242.map">>}], tid := 4250},
            #{comm := <<"Chrome Thread">>},
            #{frames := []},
            #{frames := [{<<"do_idle">>, _}]},
            #{comm := <<":99">>}],
        read("perf.txt")).

compressed_files_are_the_same_files_test() ->
    Plain = read("ours.log"),
    ?assertEqual(Plain, read("ours.log.gz")),
    ?assertEqual(Plain ++ read("nasty_names.log"), read("two_frames.log.zst")).

%% What the reader in Erlang says of the same bytes.
both_readers_agree_test_() ->
    [?_assertEqual(element(2, reader_oracle:fold(fun collect/2, [], ?CORPUS ++ File)),
            [maps:without([comm, event], S) || S <- lists:reverse(read(File))])
     || File <- ["ours.log", "edges.log", "schedulers.log", "changes.log", "format1.log.zst",
            "format3.log.zst"]].

%% Whichever sample is damaged, the numbers of each other one are right or absent.
damage_makes_no_number_wrong_test() ->
    {ok, Text} = file:read_file(?CORPUS "changes.log"),
    Pieces = binary:split(Text, <<"\n\n">>, [global, trim]),
    True = numbers(read("changes.log")),
    [text_file:with([[P, "\n\n"] || P <- Before ++ [["x ", Damaged] | Behind]], fun(File) ->
        {ok, Samples, #{bad := 1}} = fold([File], #{}),
        Got = numbers(Samples),
        ?assertEqual(length(Pieces) - 2, map_size(Got)),
        maps:foreach(fun(Key, Numbers) ->
            ?assert(Numbers =:= #{} orelse Numbers =:= maps:get(Key, True))
        end, Got),
        ?assertEqual(length(Before), length([1 || M <- maps:values(Got), M =/= #{}]))
    end) || N <- lists:seq(5, length(Pieces) - 1),
        {Before, [Damaged | Behind]} <- [lists:split(N - 1, Pieces)]].

more_than_one_empty_line_is_no_damage_test() ->
    {ok, Text} = file:read_file(?CORPUS "changes.log"),
    Samples = read("changes.log"),
    Spread = binary:replace(Text, <<"\n\n">>, <<"\n\n\n">>, [global]),
    text_file:with(Spread, fun(File) ->
        ?assertMatch({ok, Samples, #{bad := 0}}, fold([File], #{})),
        {ok, Expected, #{bad := 0}} = reader_oracle:fold(fun collect/2, [], File),
        ?assertEqual(length(Samples), length(Expected))
    end).

numbers(Samples) ->
    maps:from_list([{{Tid, Us}, Numbers}
        || #{tid := Tid, time_us := Us, metrics := Numbers} <- Samples]).

a_newer_format_is_an_error_test() ->
    {ok, Text} = file:read_file(?CORPUS "changes.log"),
    Newer = binary:replace(Text, <<" format=2 ">>, <<" format=4 ">>),
    ?assertNotEqual(Text, Newer),
    [text_file:with(Texts, fun(File) ->
        {error, Reason} = flame_prof_samples:fold(fun collect/2, [], File),
        {file, #{file := File}} = Reason,
        {error, Reason} = flame_prof_profile:read(File),
        ?assertMatch({match, _}, re:run(flame_prof:format_error(Reason), "format is newer than 3")),
        ?assertEqual({error, {File, newer_format}}, reader_oracle:fold(fun collect/2, [], File))
    end) || Texts <- [[Newer], [Newer, Newer]]].

%% A bit in the first sample of the profiler itself, or in a later one.
a_damaged_format_costs_a_block_test_() ->
    {ok, Text} = file:read_file(?CORPUS "changes.log"),
    [Own] = [P || P <- binary:split(Text, <<"\n\n">>, [global]),
        nomatch =/= binary:match(P, <<" format=2 ">>)],
    Flipped = binary:replace(Text, <<" format=2 ">>, <<" format=6 ">>),
    Alone = binary:replace(Own, <<" format=2 ">>, <<" format=6 ">>),
    {ok, Samples, #{samples := Count}} = fold([?CORPUS "changes.log"], #{}),
    True = numbers(Samples),
    [{Name, fun() ->
        text_file:with(Texts, fun(File) ->
            {ok, Got, #{samples := Count, bad := 1}} = fold([File], #{}),
            maps:foreach(fun(Key, Numbers) ->
                ?assert(Numbers =:= #{} orelse Numbers =:= maps:get(Key, True))
            end, numbers(Got)),
            {ok, Profile} = flame_prof_profile:read(File),
            ?assertMatch(#{samples := Count, bad := 1}, flame_prof_profile:info(Profile)),
            ok = flame_prof_profile:close(Profile),
            {ok, Expected, #{samples := Count, bad := 1}} =
                reader_oracle:fold(fun collect/2, [], File),
            ?assertEqual(numbers(lists:reverse(Expected)), numbers(Got)),
            {ok, [_], #{bad := 1}} = flame_prof_samples:own(File)
        end)
    end}
     || {Name, Texts} <- [{"first", [Flipped, Own, "\n\n"]}, {"before all", [Alone, "\n\n", Text]},
            {"last", [Text, Alone, "\n\n"]}]].

the_profilers_own_samples_are_read_apart_test() ->
    {ok, Ours} = file:read_file(?CORPUS "ours.log"),
    Own = fun(Second, More) ->
        ["beam 4242/2147483647 [000] ", integer_to_list(Second), ".500000: cpu-clock:\n# ticks=",
            integer_to_list(Second), "/1 node_ports=3/-1 name=flame_prof engine=native", More,
            " (metrics)\n\tffffffff flame_prof_self (flame_prof)\n",
            "\tffffffff waiting (status)\n\n"]
    end,
    Words = " mode=schedulers trigger=run_queue%209",
    text_file:with([Own(1, Words), Ours, Own(2, "")], fun(File) ->
        {ok, Samples, Counts} = flame_prof_samples:own(File),
        Metrics = #{<<"ticks">> => {1, 1}, <<"node_ports">> => {3, -1}},
        ?assertMatch([#{time_us := 1500000, engine := <<"native">>, mode := <<"schedulers">>,
                trigger := <<"run_queue 9">>, metrics := Metrics},
            #{time_us := 2500000, metrics := #{<<"ticks">> := {2, 1}}}
        ], Samples),
        ?assertMatch(#{samples := 2, bad := 0}, Counts),
        ?assertMatch({ok, _, #{samples := 6, bad := 0}}, fold([File], #{})),
        {ok, Told, _} = reader_oracle:own(File),
        ?assertEqual([{T, M} || #{time_us := T, figures := M} <- Told],
            [{T, M} || #{time_us := T, metrics := M} <- Samples])
    end).

the_size_of_a_chunk_does_not_show_test() ->
    Plain = read("nasty_names.log"),
    [?assertMatch(
            {ok, Plain, #{samples := 14}}, fold([?CORPUS "nasty_names.log"], #{chunk => Chunk}))
     || Chunk <- [1, 2, 13, 14, 15, 100000]].

damage_is_counted_and_named_test() ->
    File = ?CORPUS "damaged.log",
    {ok, Samples, Counts} = fold([File, ?CORPUS "cut.log.gz"], #{}),
    #{samples := Count, bad := Bad, warnings := Warnings} = Counts,
    ?assertEqual(length(Samples), Count),
    ?assertEqual({File, 8, <<"no time in the header">>}, hd(Warnings)),
    ?assert(Bad > 6),
    ?assertMatch([{?CORPUS "cut.log.gz", 0, <<"the compressed file is cut off", _/binary>>}, _],
        [W || {?CORPUS "cut.log.gz", _, _} = W <- Warnings]).

damage_can_be_an_error_test() ->
    ?assertEqual({error,
            {file, #{file => ?CORPUS "damaged.log", reason => <<"line 8: no time in the header">>
            }}},
        fold([?CORPUS "damaged.log"], #{bad => stop})),
    ?assertMatch({ok, [_, _, _, _, _, _], #{bad := 0}}, fold([?CORPUS "ours.log"], #{bad => stop})).

one_file_needs_no_list_test() ->
    ?assertMatch({ok, _, #{samples := 6}}, fold(?CORPUS "ours.log", #{})),
    ?assertMatch({ok, _, #{samples := 6}}, fold(<<?CORPUS "ours.log">>, #{})).

bad_options_are_named_test_() ->
    [?_assertMatch({error, {bad_option, #{option := Key}}}, fold("/nowhere", Options))
     || {Key, Options} <- [
            {chunk, #{chunk => 0}}, {bad, #{bad => no}}, {chunks, #{chunks => 1}}, {options, [x]}]].

%% A second process that reads with the first one's reader is refused, and does
%% no harm; so is what is no reader.
a_reader_is_one_processs_test() ->
    {ok, Reader} = flame_prof_report_nif:reader_open(<<?CORPUS "ours.log">>, processes),
    ?assertError(badarg, flame_prof_report_nif:reader_next(make_ref(), 1)),
    ?assertError(badarg, flame_prof_report_nif:reader_next(Reader, -1)),
    ?assertError(badarg, flame_prof_report_nif:reader_open(<<"a", 0, "b">>, processes)),
    ?assertMatch({more, [_]}, flame_prof_report_nif:reader_next(Reader, 1)),
    ?assertMatch({done, [_, _, _, _, _]}, flame_prof_report_nif:reader_next(Reader, 100)).

read(File) ->
    {ok, Samples, _} = fold([?CORPUS ++ File], #{}),
    Samples.

fold(Files, Options) ->
    case flame_prof:fold(fun collect/2, [], Files, Options) of
        {ok, Samples, Counts} -> {ok, lists:reverse(Samples), Counts};
        {error, _} = Error -> Error
    end.

collect(Sample, Samples) -> [Sample | Samples].
