%% Exports of flame_prof_profile as their consumers find them: each test has a file whose samples
%% it knows.
-module(flame_prof_export_tests).

-include_lib("eunit/include/eunit.hrl").

-define(CORPUS, "test/corpus/").
%% Two processes over two seconds.
-define(FOUR, [
    sample(#{us => 1, tid => 1, name => "shop%20%281%29"}),
    sample(#{us => 500000, tid => 2, status => "running", frames => ["r:r/0:1"]}),
    sample(#{us => 1000001, tid => 1, name => "shop%20%281%29", status => "running"}),
    sample(#{us => 2000001, tid => 2, call => "Elixir.Shop:init/1"})]).

%%% perf

init_keeps_its_own_thread_test() ->
    Text = [sample(#{tid => 0, pid => "<0.0.0>", us => 1}), sample(#{tid => 1, us => 1}),
        sample(#{tid => 0, pid => "<0.0.0>", us => 2}), sample(#{tid => 2, us => 2})],
    exported(perf, Text, #{by => samples}, fun(Path) ->
        {ok, Tids, _} = flame_prof:fold(fun(#{tid := Tid}, Tids) -> [Tid | Tids] end, [], Path),
        ?assertEqual([2, 0, 1, 0], Tids),
        ?assertMatch({ok, #{}}, perf_script_grammar:check(Path))
    end).

%% Schedulers of a session, and the CPUs of perf.
perf_keeps_the_cpu_test() ->
    Text = [re:replace(sample(#{us => Us}), "\\[000\\]", ["[", Cpu, "]"])
        || {Us, Cpu} <- [{1, "000"}, {2, "001"}, {3, "023"}, {4, "1023"}]],
    [exported(perf, Given, #{by => By}, fun(Path) ->
        {match, Cpus} = re:run(plain(Path), "\\[([0-9]+)\\]",
            [global, {capture, all_but_first, list}]),
        ?assertEqual(Expected, [Cpu || [Cpu] <- Cpus])
    end)
     || {Given, By, Expected} <- [{Text, samples, ["000", "001", "023", "1023"]},
            {Text, {value, reductions}, ["000", "001", "023", "1023"]},
            {"a.out     7/8     [002]     1.000001:          1 cycles: \n\t    7f08 main (a.out)\n\n", samples, ["002"]}
        ]].

%% A name of another program.
a_command_is_at_most_31_characters_test() ->
    Long = lists:duplicate(40, $x),
    Text = [re:replace(sample(#{us => Us}), "^beam", Long) || Us <- [1, 2]],
    exported(perf, Text, #{by => samples}, fun(Path) ->
        {ok, Comms, _} = flame_prof:fold(fun(#{comm := Comm}, All) -> [Comm | All] end, [], Path),
        ?assertEqual([binary:copy(<<"x">>, 31)], lists:usort(Comms)),
        ?assertMatch({ok, #{}}, perf_script_grammar:check(Path))
    end).

%% doc/format.md has a rule for the 17th byte from the end: behind another end it is another byte.
the_rule_of_the_17th_byte_is_kept_without_lines_test() ->
    Two = fun(Frame) ->
        unicode:characters_to_binary([sample(#{us => Us, frames => [Frame]}) || Us <- [1, 2]])
    end,
    [exported(perf, Two(Symbol ++ ":123"), #{lines => false}, fun(Path) ->
            ?assertMatch({ok, #{}}, perf_script_grammar:check(Path)),
            {ok, Symbols, _} = flame_prof:fold(
                fun(#{frames := [{Read, _}]}, All) -> [Read | All] end, [], Path),
            [Read] = lists:usort(Symbols),
            ?assertEqual(unicode:characters_to_binary(Symbol), flame_prof_frames:decode(Read)),
            ?assert(binary:at(Read, byte_size(Read) - 17) < 128)
        end)
     || Symbol <- ["m:\x{fc}bcdefghijklmn/1", "m:\x{6f22}bcdefghijklmn/1",
            "m:\x{fc}abcdefghijklm/1"]].

the_size_is_that_of_the_file_test_() ->
    [{lists:concat([Format, Suffix]), fun() ->
        with_file(?FOUR, fun(File) ->
            {ok, Profile} = flame_prof_profile:read(File),
            Path = File ++ Suffix,
            {ok, #{bytes := Bytes}} = flame_prof_profile:export(Profile, Format, Path),
            ?assertEqual(filelib:file_size(Path), Bytes)
        end)
    end}
     || {Format, Suffix} <- [{pprof, ".pb.gz"}, {firefox, ".json.gz"}, {firefox, ".json"},
            {perf, ".txt"}]].

%% A sample of the profiler itself may stand first.
times_count_from_the_first_sample_of_a_process_test() ->
    exported(collapsed, [own("ticks=1/1", "", 0) | ?FOUR], #{from => 0, to => 600}, fun(Path) ->
        ?assertEqual(2, lists:sum([N || {_, N} <- foreign_formats:collapsed(plain(Path))]))
    end),
    exported(collapsed, [own("ticks=1/1", "", -50000000) | ?FOUR], #{to => 600}, fun(Path) ->
        ?assertEqual(2, lists:sum([N || {_, N} <- foreign_formats:collapsed(plain(Path))]))
    end).

%%% pprof

the_profilers_counters_are_no_types_of_pprof_test() ->
    Text = [sample(#{metrics => "reductions=5/0 memory=0/0"}),
        sample(#{metrics => "reductions=9/4 memory=0/0", us => 2}), own("ticks=10/5 missed=1/0")],
    exported(pprof, Text, #{}, fun(Path) ->
        {ok, Gzip} = file:read_file(Path),
        #{types := Types, samples := Samples} = foreign_formats:pprof(Gzip),
        %% Also what was always 0: profiles of other types cannot be compared.
        ?assertEqual([<<"samples">>, <<"period">>, <<"reductions_delta">>, <<"reductions">>,
            <<"memory_delta">>, <<"memory">>], [Type || {Type, _} <- Types]),
        ?assertMatch([{_, [2, 2, 4, 14, 0, 0], _}], Samples)
    end).

%%% speedscope

a_function_is_one_frame_of_speedscope_test() ->
    Text = [sample(#{us => N, frames => ["b:f/1:" ++ integer_to_list(N rem 3 + 1), "a:a/0:7"]})
        || N <- lists:seq(1, 6)],
    exported(speedscope, Text, #{by => [samples, {value, reductions}]}, fun(Path) ->
        #{<<"shared">> := #{<<"frames">> := Frames}, <<"profiles">> := Profiles} = json(Path),
        ?assertEqual([<<"a:a/0">>, <<"b:f/1">>, <<"waiting">>],
            lists:sort([Name || #{<<"name">> := Name} <- Frames])),
        [?assertEqual([[<<"waiting">>, <<"a:a/0">>, <<"b:f/1">>]],
                [[maps:get(<<"name">>, lists:nth(I + 1, Frames)) || I <- Stack] || Stack <- Stacks])
         || #{<<"samples">> := Stacks} <- Profiles],
        ?assertEqual([[6], [6]], [Weights || #{<<"weights">> := Weights} <- Profiles])
    end).

lines_of_speedscope_can_be_told_apart_test() ->
    Text = [sample(#{us => N, frames => ["b:f/1:" ++ integer_to_list(N)]}) || N <- [1, 2]],
    exported(speedscope, Text, #{lines => true}, fun(Path) ->
        #{<<"shared">> := #{<<"frames">> := Frames}} = json(Path),
        ?assertMatch([#{<<"name">> := <<"b:f/1:1">>, <<"line">> := 1},
            #{<<"name">> := <<"b:f/1:2">>, <<"line">> := 2}, #{<<"name">> := <<"waiting">>}],
            Frames)
    end).

lines_can_be_left_out_of_every_export_test_() ->
    Text = [sample(#{us => N, frames => ["b:f/1:" ++ integer_to_list(N)]}) || N <- [1, 2]],
    [{atom_to_list(Format), fun() ->
        exported(Format, Text, #{lines => false}, fun(Path) ->
            ?assertNotEqual(nomatch, binary:match(plain(Path), <<"b:f/1">>)),
            ?assertEqual(nomatch, binary:match(plain(Path), <<"b:f/1:">>))
        end)
    end} || Format <- [collapsed, perf, speedscope, pprof, firefox]].

%%% The Firefox Profiler

%% Against the reader in Erlang.
firefox_has_every_sample_test_() ->
    [{File ++ " " ++ Suffix, fun() ->
        {ok, Text} = file:read_file(?CORPUS ++ File),
        exported(firefox, Suffix, Text, #{}, fun(Path) ->
            #{threads := Threads} = foreign_formats:firefox(plain(Path)),
            {ok, Bytes} = file:read_file(Path),
            ?assertEqual(Suffix =:= ".gz", binary:part(Bytes, 0, 2) =:= <<16#1f, 16#8b>>),
            {ok, Samples, _} = reader_oracle:fold(fun(S, All) -> [S | All] end, [],
                [?CORPUS ++ File]),
            Expected = lists:foldl(fun firefox_sample/2, #{}, lists:reverse(Samples)),
            [First | _] = lists:sort([Us || #{time_us := Us} <- Samples]),
            ?assertEqual(maps:map(fun(_, All) -> lists:reverse(All) end, Expected),
                maps:map(fun(_, #{samples := All}) ->
                    [{First + round(1000 * Time), Weight, Stack} || {Time, Weight, Stack} <- All]
                end, Threads))
        end)
    end} || {File, Suffix} <- [{"ours.log", ""}, {"nasty_names.log", ".gz"}, {"changes.log", ""}]].

firefox_sample(#{time_us := Us, period := Weight, status := Status, frames := Frames} = Sample,
        Threads) ->
    #{words := #{<<"erl_pid">> := Pid}} = Sample,
    Stack = {[{Status, <<"status">>, null} | lists:reverse([shown(Frame) || Frame <- Frames])],
        Status},
    maps:update_with(Pid, fun(All) -> [{Us, Weight, Stack} | All] end, [{Us, Weight, Stack}],
        Threads).

shown({Symbol, Dso}) ->
    {Name, Line} =
        case re:run(Symbol, "^(.*/[0-9]+):([0-9]+)$", [{capture, all_but_first, binary}]) of
            {match, [Function, Number]} -> {Function, binary_to_integer(Number)};
            nomatch -> {Symbol, null}
        end,
    {flame_prof_frames:decode(Name), flame_prof_frames:decode(Dso), Line}.

tracks_of_firefox_have_names_and_the_busiest_is_first_test() ->
    Third = #{tid => 3, call => none},
    Text = ?FOUR ++ [sample(Third#{us => 2500000, status => "garbage_collecting"}),
        sample(Third#{us => 2500001, status => "runnable"})],
    exported(firefox, Text, #{}, fun(Path) ->
        #{threads := Threads, order := Order, meta := Meta} = foreign_formats:firefox(plain(Path)),
        ?assertEqual([<<"<0.3.0>">>, <<"<0.1.0>">>, <<"<0.2.0>">>], Order),
        ?assertEqual([<<"shop (1)">>, <<"Elixir.Shop:init/1">>, <<"<0.3.0>">>],
            [Name || {_, #{name := Name}} <- lists:sort(maps:to_list(Threads))]),
        ?assertMatch(#{<<"startTime">> := 100000.001, <<"profilingEndTime">> := 2500.0,
            <<"initialVisibleThreads">> := [0, 1, 2], <<"initialSelectedThreads">> := [0]}, Meta)
    end).

statuses_and_collections_are_markers_of_firefox_test() ->
    Text = [sample(#{us => Us, status => Status, metrics => "minor_gcs=9/" ++ Gcs})
        || {Us, Status, Gcs} <- [{1, "waiting", "0"}, {1001, "waiting", "0"},
            {2001, "running", "3"}, {3001, "running", "0"}, {4001, "waiting", "1"}]],
    exported(firefox, Text, #{}, fun(Path) ->
        #{threads := #{<<"<0.1.0>">> := #{markers := Markers}}} =
            foreign_formats:firefox(plain(Path)),
        Status = #{<<"type">> => <<"flame_prof_status">>},
        Gc = #{<<"type">> => <<"flame_prof_gc">>},
        ?assertEqual([{<<"GC">>, 2.0, 2.0, 0, Gc#{<<"minor_gcs">> => 3}},
                {<<"GC">>, 4.0, 4.0, 0, Gc#{<<"minor_gcs">> => 1}},
                {<<"running">>, 2.0, 4.0, 1, Status}, {<<"waiting">>, 0.0, 2.0, 1, Status},
                {<<"waiting">>, 4.0, 4.0, 1, Status}],
            lists:sort(Markers))
    end).

%% A process that ran at 1 s and at 4 s did not run for 3 s. Ticks of 10 ms; two in a row.
a_process_of_schedulers_has_its_status_for_a_tick_test() ->
    Text = [own("ticks=100/100", " mode=schedulers", 0),
        sample(#{us => 1000001, status => "running"}),
        own("ticks=200/100", " mode=schedulers", 1000002),
        sample(#{us => 4000001, status => "running"}),
        sample(#{us => 4010101, status => "running"}),
        sample(#{us => 4020001, status => "garbage_collecting"}),
        sample(#{us => 4040001, status => "garbage_collecting"})],
    exported(firefox, Text, #{}, fun(Path) ->
        #{threads := #{<<"<0.1.0>">> := #{markers := Markers}}} =
            foreign_formats:firefox(plain(Path)),
        ?assertEqual([{<<"garbage_collecting">>, 4020.0, 4030.0},
                {<<"garbage_collecting">>, 4040.0, 4050.0}, {<<"running">>, 1000.0, 1010.0},
                {<<"running">>, 4000.0, 4020.0}],
            lists:sort([{Name, float(round(Begin)), float(round(End))}
                || {Name, Begin, End, 1, _} <- Markers]))
    end).

weights_of_firefox_are_those_of_the_metric_test() ->
    Text = [sample(#{us => Us, metrics => ["memory=", Memory], period => Period})
        || {Us, Memory, Period} <- [{1, "100/0", ""}, {2, "300/200", ""}, {3, "50/-250", ""},
            {4, "50/0", "7 "}]],
    [exported(firefox, Text, Options, fun(Path) ->
        #{threads := #{<<"<0.1.0>">> := #{samples := Samples, unit := Unit}}} =
            foreign_formats:firefox(plain(Path)),
        ?assertEqual(Expected, {Unit, [Weight || {_, Weight, _} <- Samples]})
    end)
     || {Options, Expected} <- [{#{}, {<<"samples">>, [1, 1, 1, 1]}},
            {#{by => {value, memory}}, {<<"bytes">>, [100, 300, 50, 50]}},
            {#{by => memory}, {<<"bytes">>, [200, -250]}},
            {#{by => period}, {<<"samples">>, [1, 1, 1, 7]}}]].

lines_of_firefox_can_be_left_out_and_files_be_empty_test() ->
    exported(firefox, ?FOUR, #{lines => false}, fun(Path) ->
        #{threads := Threads} = foreign_formats:firefox(plain(Path)),
        ?assertEqual([null], lists:usort([Line || #{samples := Samples} <- maps:values(Threads),
            {_, _, {Stack, _}} <- Samples, {_, _, Line} <- Stack]))
    end),
    exported(firefox, "", #{}, fun(Path) ->
        ?assertMatch(#{threads := None} when map_size(None) =:= 0,
            foreign_formats:firefox(plain(Path)))
    end).

%% In a file whose times go back.
samples_of_a_track_of_firefox_are_in_order_test() ->
    Two = [[sample(#{us => 2000001}), sample(#{us => 3000001})], [sample(#{us => 1})]],
    exported(firefox, Two, #{}, fun(Path) ->
        #{threads := #{<<"<0.1.0>">> := #{samples := Samples}}} =
            foreign_formats:firefox(plain(Path)),
        ?assertEqual([0.0, 2000.0, 3000.0], [Time || {Time, _, _} <- Samples])
    end).

idle_schedulers_have_a_name_test() ->
    {ok, Text} = file:read_file(?CORPUS "schedulers.log"),
    exported(collapsed, Text, #{group_by => [process]}, fun(Path) ->
        ?assertMatch([{[<<"erlang:apply/2">> | _], 1}, {[<<"scheduler=2">>, <<"[idle]">>], 2}],
            lists:sort(foreign_formats:collapsed(plain(Path))))
    end),
    exported(firefox, Text, #{}, fun(Path) ->
        #{threads := Threads} = foreign_formats:firefox(plain(Path)),
        ?assertEqual([<<"erlang:apply/2">>, <<"scheduler=2">>],
            lists:sort([Name || #{name := Name} <- maps:values(Threads)]))
    end).

stacks_of_perf_have_no_category_in_firefox_test() ->
    {ok, Text} = file:read_file(?CORPUS "perf.txt"),
    exported(firefox, Text, #{}, fun(Path) ->
        #{threads := Threads} = foreign_formats:firefox(plain(Path)),
        All = [Sample || #{samples := Samples} <- maps:values(Threads), Sample <- Samples],
        ?assertEqual(6, length(All)),
        ?assertEqual([<<"Other">>], lists:usort([Category || {_, _, {_, Category}} <- All])),
        ?assertEqual([], [M || #{markers := Markers} <- maps:values(Threads), M <- Markers])
    end).

%%% Only some samples

samples_are_chosen_by_time_status_and_process_test_() ->
    [{lists:flatten(io_lib:format("~tp, ~p", [Options, Format])), fun() ->
        exported(Format, ?FOUR, Options, fun(Path) ->
            ?assertEqual(Expected, count(Format, Path))
        end)
    end} || Format <- [collapsed, perf, speedscope, pprof, firefox],
        {Options, Expected} <- [{#{}, 4},
            %% A time is that of the sample, and the end is not included.
            {#{from => 499}, 3}, {#{from => 500}, 2}, {#{from => 0, to => 1000}, 2},
            {#{to => 1001}, 3}, {#{from => 499, to => 1000}, 1}, {#{status => running}, 2},
            {#{status => active}, 2}, {#{status => waiting, from => 1}, 1},
            {#{status => exiting}, 0}, {#{process => "<0.1.0>"}, 2}, {#{process => 'shop (1)'}, 2},
            {#{process => <<"shop (1) <0.1.0>">>}, 2}, {#{process => <<"Shop.init/1">>}, 2},
            {#{process => <<"Elixir.Shop:init/1">>, status => running}, 1},
            {#{process => <<"a:a/0">>}, 2}]].

tables_are_of_the_same_samples_test() ->
    with_file(?FOUR, fun(File) ->
        {ok, Profile} = flame_prof_profile:read(File, #{event => all}),
        ?assertMatch(
            {ok, #{samples := 1, stacks := [{[<<"running">>], [{<<"r:r/0:1">>, _}], 1, 1}]}},
            flame_prof_profile:stacks(Profile, #{status => running, to => 1000}))
    end).

what_chooses_nothing_by_mistake_is_refused_test_() ->
    [{lists:flatten(io_lib:format("~tp", [Options])), fun() ->
        with_file(?FOUR, fun(File) ->
            {ok, Profile} = flame_prof_profile:read(File, #{event => all}),
            {error, {bad_option, #{option := Option}} = Reason} =
                flame_prof_profile:export(Profile, collapsed, File ++ ".never", Options),
            Sentence = unicode:characters_to_list(flame_prof:format_error(Reason)),
            ?assertNotEqual(nomatch, string:find(Sentence, Accepted)),
            ?assertNot(filelib:is_file(File ++ ".never"))
        end)
    end}
     || {Option, Options, Accepted} <- [
            {from, #{from => 2001}, "at most 2000 ms"}, {from, #{from => -1}, "whole milliseconds"},
            {from, #{from => "1s"}, "whole milliseconds"}, {to, #{to => 0}, "whole milliseconds"},
            {to, #{from => 5, to => 5}, "after"}, {status, #{status => asleep}, "active"},
            {process, #{process => "<0.9.0>"}, "of a process in these files"},
            {process, #{process => "shop"}, "of a process in these files"},
            {process, #{process => <<255>>}, "as text"}, {process, #{process => ""}, "as text"},
            {by, #{by => [samples, reductions]}, "speedscope takes several"}]].

count(collapsed, Path) ->
    lists:sum([Weight || {_, Weight} <- foreign_formats:collapsed(plain(Path))]);
count(perf, Path) ->
    {ok, Count, _} = flame_prof:fold(fun(_, N) -> N + 1 end, 0, Path),
    Count;
count(speedscope, Path) ->
    #{<<"profiles">> := [#{<<"weights">> := Weights}]} = json(Path),
    lists:sum(Weights);
count(firefox, Path) ->
    #{threads := Threads} = foreign_formats:firefox(plain(Path)),
    lists:sum([length(Samples) || #{samples := Samples} <- maps:values(Threads)]);
count(pprof, Path) ->
    {ok, Gzip} = file:read_file(Path),
    #{samples := Samples} = foreign_formats:pprof(Gzip),
    lists:sum([Count || {_, [Count | _], _} <- Samples]).

%%% Names

%% A file of another profiler, or of an older flame_prof, has them as they are.
what_turns_a_line_is_encoded_everywhere_test_() ->
    Turned = <<"m:a", 16#202e/utf8, "b", 16#2066/utf8, "c/0">>,
    Written = <<"m:a%E2%80%AEb%E2%81%A6c/0">>,
    Text = [sample(#{name => Turned, frames => [Turned]})],
    [{atom_to_list(Format), fun() ->
        exported(Format, Text, #{group_by => [process]}, fun(Path) ->
            Bytes = plain(Path),
            ?assertNotEqual(nomatch, binary:match(Bytes, Written)),
            ?assertEqual(nomatch, binary:match(Bytes, <<16#202e/utf8>>))
        end)
    end} || Format <- [collapsed, perf, speedscope, pprof, firefox]
    ] ++ [{"hot", fun() ->
        with_file(Text, fun(File) ->
            {ok, Report} = flame_prof_tree:report(File, #{idle => true}),
            Shown = unicode:characters_to_binary(flame_prof_tree:format(Report, 100)),
            ?assertNotEqual(nomatch, binary:match(Shown, <<"m:a?b?c/0">>)),
            ?assertEqual(nomatch, binary:match(Shown, <<16#202e/utf8>>))
        end)
    end}].

%%% Files

exported(Format, Text, Options, Test) -> exported(Format, "", Text, Options, Test).

exported(Format, Suffix, Text, Options, Test) ->
    with_file(Text, fun(File) ->
        {ok, Profile} = flame_prof_profile:read(File, #{event => all}),
        Path = File ++ ".export" ++ Suffix,
        {ok, _} = flame_prof_profile:export(Profile, Format, Path, Options),
        Test(Path)
    end).

with_file(Text, Test) -> text_file:with(Text, Test).
json(Path) -> foreign_formats:json(plain(Path)).

plain(Path) ->
    {ok, Bytes} = file:read_file(Path),
    case Bytes of <<16#1f, 16#8b, _/binary>> -> zlib:gunzip(Bytes); _ -> Bytes end.

%% A sample of a session; times are microseconds behind a second.
sample(Given) ->
    Tid = maps:get(tid, Given, 1),
    Default = #{us => 1, pid => io_lib:format("<0.~b.0>", [Tid]), status => "waiting",
        metrics => "reductions=1/0", frames => ["a:a/0:1"], period => "", call => "a:a/0"},
    #{us := Us, pid := Pid, status := Status, metrics := Metrics, frames := Frames,
        period := Period, call := Call} = maps:merge(Default, Given),
    [io_lib:format("beam 7/~b [000] ~b.~6..0b: ~scpu-clock:\n",
            [Tid, 100 + Us div 1000000, Us rem 1000000, Period]),
        ["# ", Metrics, " erl_pid=", Pid], [[" name=", Name] || #{name := Name} <- [Given]],
        [[" initial_call=", Call] || Call =/= none], " (metrics)\n",
        [["\tffffffff ", Frame, " (", dso(Frame), ")\n"] || Frame <- Frames],
        ["\tffffffff ", Status, " (status)\n\n"]].

dso({Frame, Dso}) when is_list(Frame) -> Dso;
dso(_) -> "a.erl".

own(Fields) -> own(Fields, "", 9000001).

own(Fields, Words, Us) ->
    [io_lib:format("beam 7/2147483647 [000] ~b.~6..0b: cpu-clock:\n",
            [100 + Us div 1000000, Us rem 1000000]),
        ["# ", Fields, " name=flame_prof", Words, " (metrics)\n"],
        "\tffffffff flame_prof_self (flame_prof)\n\tffffffff waiting (status)\n\n"].
