%% What flame_prof:hot/2 shows of files whose shares are known.
-module(flame_prof_tree_tests).

-include_lib("eunit/include/eunit.hrl").

-define(CORPUS, "test/corpus/").

%% Count, status, change of reductions, stack with the leaf first.
-define(STACKS, [
    {6, "running", 100, ["lists:map/2:10", "foo:bar/1:7", "proc_lib:init_p_do_apply/3:240"]},
    %% The same functions in other lines.
    {2, "running", 50, ["lists:map/2:11", "foo:bar/1:8", "proc_lib:init_p_do_apply/3:240"]},
    {3, "waiting", 0, ["gen_server:loop/7:871", "proc_lib:init_p_do_apply/3:240"]},
    {1, "waiting", -40, ["lists:map/2:10", "gen_server:loop/7:871"]}]).

%% What is shown.

what_waits_is_left_out_and_counted_in_the_first_line_test() ->
    Report = hot(#{}),
    ?assertMatch(#{status := active, samples := 8, weight := 8, all_samples := 12}, Report),
    ?assertMatch([#{name := <<"running">>}], maps:get(tree, Report)),
    ?assertEqual([{<<"lists:map/2">>, 8}], weights(functions, Report)),
    ?assertEqual("8 of 12 samples active (66.7%); 4 waiting, not shown (idle => true)",
        first_line(Report)),
    ?assertEqual("8 of 12 samples active (66.7%); 4 waiting, not shown (--idle)",
        first_line(flame_prof_tree:format(Report, 100, "--idle"))).

what_waits_is_one_option_away_test() ->
    Report = hot(#{idle => true}),
    ?assertMatch(#{status := all, samples := 12}, Report),
    ?assertEqual([{<<"running">>, 8}, {<<"waiting">>, 4}], weights(tree, Report)),
    ?assertEqual("12 samples", first_line(Report)),
    ?assertEqual(Report, hot(#{status => all})).

a_status_is_shown_although_it_waits_test() ->
    Report = hot(#{status => waiting}),
    ?assertMatch(#{samples := 4}, Report),
    ?assertEqual("4 of 12 samples waiting (33.3%)", first_line(Report)),
    ?assertEqual([{<<"gen_server:loop/7">>, 3}, {<<"lists:map/2">>, 1}],
        weights(functions, Report)),
    ?assertEqual([{<<"<0.3.0> proc_lib:init_p/5">>, 3}, {<<"<0.4.0>">>, 1}],
        weights(by_process, Report)).

every_status_is_active_or_counted_test_() ->
    [{Status, fun() ->
        Report = hot([{1, Status, 0, ["a:a/1"]}, {1, "running", 0, ["a:a/1"]}], #{}),
        ?assertMatch(#{samples := Shown, all_samples := 2}, Report),
        ?assertEqual([{list_to_binary(Status), 1}],
            weights(by_status, Report) -- [{<<"running">>, 1}]),
        Shown =:= 1 andalso
            ?assertMatch({match, _}, re:run(first_line(Report), "; 1 " ++ Status ++ ","))
    end}
     || {Status, Shown} <- [{"runnable", 2}, {"garbage_collecting", 2}, {"waiting", 1},
            {"suspended", 1}, {"exiting", 1}]].

%% A step of the clock, or a day between two sessions, is no time of samples.
seconds_are_those_of_files_test() ->
    Sample = fun(S) -> io_lib:format("a 1 ~b.500000: e: \n\tff main (a)\n\n", [S]) end,
    [text_file:several([lists:map(Sample, Times) || Times <- Files], fun(Paths) ->
        {ok, #{seconds := Seconds}} = flame_prof_tree:report(Paths, #{}),
        ?assertEqual({Files, Expected}, {Files, round(Seconds)})
    end) || {Files, Expected} <- [{[[10, 12, 15], [3615, 3620]], 10}, {[[3600, 3605], [5, 9]], 9},
        {[[]], 0}, {[[10, 15], [17, 20]], 10}, {[[10, 15], [18, 20]], 7},
        {[[10, 20], [12, 15]], 10}]].

functions_of_perf_are_those_of_c_test() ->
    {ok, Report} = flame_prof_tree:report(?CORPUS "perf.txt", #{min => 0, event => all}),
    ?assertEqual(
        [{<<"do_idle">>, 1}, {<<"main">>, 1}, {<<"native_safe_halt">>, 1}, {<<"no_frames">>, 2},
            {<<"operator new(unsigned long)">>, 1}],
        lists:sort(weights(functions, Report))),
    [#{name := <<>>, children := Children}] = maps:get(tree, Report),
    ?assertEqual(5, length(Children)),
    ?assertMatch({match, _}, re:run(text(Report), "100.0% +6  \\(no status\\)\n")),
    ?assertMatch({match, _}, re:run(text(Report), "\\$lists:map/2 > erts_schedule > operator new")).

where_nothing_is_active_the_first_line_says_so_test() ->
    Report = hot([{3, "waiting", 0, ["a:a/1"]}], #{}),
    ?assertMatch(#{samples := 0, tree := [], functions := [], by_process := []}, Report),
    ?assertEqual("0 of 3 samples active (0.0%); 3 waiting, not shown (idle => true)",
        first_line(Report)).

%% The change was before the sample.
by_a_metric_what_waits_is_shown_test() ->
    ?assertMatch(#{status := all, samples := 9}, hot(#{by => reductions})),
    ?assertMatch(#{status := active, samples := 8}, hot(#{by => reductions, idle => false})),
    ?assertMatch(#{status := all, samples := 12}, hot(#{by => {value, memory}})).

samples_of_perf_have_no_status_and_are_shown_test() ->
    {ok, Report} = flame_prof_tree:report(?CORPUS "perf.txt", #{event => all}),
    ?assertMatch(#{samples := 6, all_samples := 6}, Report).

%% CPU

shares_of_schedulers_are_shares_of_cpu_test() ->
    {ok, Report} = flame_prof_tree:report(?CORPUS "schedulers.log", #{}),
    ?assertMatch(#{unit := cpu, samples := 1}, Report),
    ?assertMatch([#{share := 100.0}], maps:get(functions, Report)),
    ?assertEqual("1 of 3 samples active (33.3% CPU); 2 idle, not shown (idle => true)",
        first_line(Report)),
    ?assertMatch({_, _}, binary:match(text(Report), <<"    CPU         samples">>)).

%% No idle scheduler is in the file of a node that is busy all the time.
a_busy_node_has_shares_of_cpu_test() ->
    Own = ["beam 4242/2147483647 [000] 9.000000: cpu-clock:\n# ticks=1/1 name=flame_prof",
        " engine=native mode=schedulers (metrics)\n\tffffffff flame_prof_self (flame_prof)\n",
        "\tffffffff waiting (status)\n\n"],
    Busy = [{1, "running", 0, ["a:a/1"]}],
    {ok, Report} = text_file:with([samples(Busy), Own], fun(File) ->
        flame_prof_tree:report(File, #{}) end),
    ?assertMatch(#{unit := cpu, processes := 1}, Report),
    ?assertMatch(#{unit := samples}, hot(Busy, #{})),
    %% Of both kinds, a share is one of samples.
    {ok, Both} = text_file:with(samples(Busy), fun(File) ->
        flame_prof_tree:report([File, ?CORPUS "schedulers.log"], #{}) end),
    ?assertMatch(#{unit := samples}, Both).

schedulers_are_no_processes_test() ->
    {ok, Report} = flame_prof_tree:report(?CORPUS "schedulers.log", #{}),
    ?assertMatch(#{processes := 1, by_process := [#{name := <<"<0.171.0> ", _/binary>>}]}, Report).

%% Shares

shares_of_a_metric_that_falls_are_shares_of_its_growth_test() ->
    Stacks = [{1, "running", 100, ["a:grows/0"]}, {1, "running", -900, ["a:falls/0"]},
        {1, "waiting", 300, ["a:grows_more/0"]}],
    #{functions := Functions} = Report = hot(Stacks, #{by => reductions}),
    ?assertMatch(#{weight := 1300, growth := 400}, Report),
    ?assertMatch([#{name := <<"a:grows_more/0">>, weight := 300, share := 75.0},
        #{name := <<"a:grows/0">>, weight := 100, share := 25.0}
    ], Functions),
    ?assertMatch([#{share := 75.0}, #{share := 25.0}], maps:get(by_process, Report)),
    [?assert(Share >= 0 andalso Share =< 100) || Share <- shares(maps:get(tree, Report))],
    ?assertMatch({_, _}, binary:match(text(Report),
        <<"\n1,300 reductions in 3 samples: 400 grown, 900 released\n">>)).

shares(Branches) ->
    lists:append([[Share | shares(Children)]
        || #{share := Share, children := Children} <- Branches]).

a_metric_that_only_falls_has_no_hot_function_test() ->
    Report = hot([{1, "waiting", -40, ["a:a/1"]}], #{by => reductions}),
    ?assertMatch(#{weight := 40, growth := 0, functions := [], by_process := []}, Report),
    ?assert(is_binary(text(Report))).

%% Processes

processes_go_by_their_names_test() ->
    ?assertEqual([{<<"some body <0.1.0>">>, 6}, {<<"<0.3.0> proc_lib:init_p/5">>, 3},
            {<<"<0.2.0> foo:start/0">>, 2}, {<<"<0.4.0>">>, 1}],
        weights(by_process, hot(#{idle => true}))).

the_same_pid_in_two_nodes_is_two_processes_test() ->
    Text = samples([{3, "running", 0, ["a:a/1"]}]),
    Other = binary:replace(Text, <<"4242/">>, <<"777/">>, [global]),
    {ok, Report} = text_file:with([Text, Other],
        fun(File) -> flame_prof_tree:report(File, #{}) end),
    ?assertMatch(#{processes := 2, by_process := [#{samples := 3}, #{samples := 3}]}, Report).

no_more_rows_than_wanted_test() ->
    Report = hot(#{top => 1, idle => true}),
    ?assertMatch(#{functions := [_], more_functions := 1, by_process := [_],
        more_processes := 3}, Report),
    ?assertMatch({_, _}, binary:match(text(Report), <<"  3 more\n">>)).

the_profiler_is_no_process_test() ->
    {ok, Report} = text_file:with([samples(?STACKS), own()], fun(File) ->
        flame_prof_tree:report(File, #{idle => true}) end),
    ?assertMatch(#{processes := 4, all_samples := 12}, Report),
    ?assertMatch({_, _}, binary:match(text(Report), <<"\n4 processes, ">>)).

own() ->
    ["beam 4242/2147483647 [000] 9.000000: cpu-clock:\n# ticks=978/122 node_ports=3/0",
        " name=flame_prof engine=native (metrics)\n\tffffffff flame_prof_self (flame_prof)\n",
        "\tffffffff waiting (status)\n\n"].

%% Text

elixirs_names_are_as_elixir_has_them_test() ->
    Stack = ["Elixir.Enum:map/2:10", "Elixir.Shop.Cart:-total/2-fun-0-/1:7", "erlang:apply/2"],
    Report = hot([{1, "running", 0, Stack}], #{}),
    ?assertMatch([#{name := <<"Enum.map/2">>}], maps:get(functions, Report)),
    ?assertMatch({_, _}, binary:match(text(Report),
        <<"erlang:apply/2 > anonymous fn/1 in Shop.Cart.total/2 > Enum.map/2\n">>)).

a_process_that_is_waited_for_has_its_name_of_elixir_test() ->
    Sample = fun(Pid, Words, Name) ->
        [io_lib:format("beam 42/~b [000] 1.000001: reductions=~b/0 erl_pid=<0.~b.0>",
                [Pid, Pid, Pid]),
            Name, Words, " cpu-clock:\n\tffffffff a:a/0 (x.erl)\n\tffffffff waiting (status)\n\n"]
    end,
    Text = [Sample(1, " waits_for=<0.2.0>", ""), Sample(2, "", " name=Elixir.Shop.Stock")],
    {ok, Report} = text_file:with(Text, fun(File) ->
        flame_prof_tree:report([File], #{chains => true}) end),
    ?assertMatch({Report, {_, _}}, {Report, binary:match(text(Report),
        <<"waits for Shop.Stock <0.2.0>">>)}),
    ?assertEqual(nomatch, binary:match(text(Report), <<"Elixir.">>)).

bad_samples_are_counted_test() ->
    {ok, Report} = text_file:with(["nonsense\n\n", samples(?STACKS), "beam 4242/7"], fun(File) ->
        flame_prof_tree:report([File], #{}) end),
    ?assertMatch(#{all_samples := 12, bad := 2}, Report),
    ?assertMatch({_, _}, binary:match(text(Report), <<", 2 damaged samples left out\n">>)).

an_empty_file_has_empty_tables_test() ->
    {ok, Report} = text_file:with("", fun(File) -> flame_prof_tree:report([File], #{}) end),
    ?assertMatch(#{all_samples := 0, tree := [], functions := [], by_process := []}, Report),
    ?assert(is_binary(text(Report))).

%% Names and callers of any length, in every table.
text_keeps_to_100_columns_test_() ->
    Long = lists:duplicate(300, $é),
    Deep = [io_lib:format("module_~b:function_~b/3:~b", [N, N, N]) || N <- lists:seq(1, 200)],
    Stacks = [{1, "garbage_collecting", 1 bsl 62, [[Long, ":f/1:3"], "a:b/2"]},
        {1, "suspended", 1 bsl 62, Deep},
        {1, "running", -(1 bsl 60), ["a:b/1", [Long, ":f/1"]]},
        {1, "running", 1, [["a:", Long, "/1"]]}],
    [fun() ->
        Report = hot(Stacks, Options),
        ?assertMatch(#{bad := 0}, Report),
        Widths = [string:length(Line) || Line <- string:split(text(Report), "\n", all)],
        ?assert(lists:max(Widths) =< 100)
    end || Options <- [#{}, #{idle => true}, #{by => reductions}, #{depth => 1}, #{depth => 1000}]].

%% Reading finds room, what is made of the profile may find none.
memory_that_ends_is_an_error_test() ->
    Stacks = [{1, "running", N, [io_lib:format("m:f~b/1", [N])]} || N <- lists:seq(1, 5000)],
    text_file:with(samples(Stacks), fun(File) ->
        {ok, Profile} = flame_prof_profile:read(File),
        #{memory := Memory} = flame_prof_profile:info(Profile),
        ok = flame_prof_profile:close(Profile),
        Answers = [element(1, kind(flame_prof_tree:report(File,
                #{max_memory => max(1 bsl 20, Memory + Step * 65536), by => reductions})))
         || Step <- lists:seq(-2, 40)],
        ?assertEqual([error, ok], lists:usort(Answers))
    end).

kind({ok, #{all_samples := 5000}} = Ok) -> Ok;
kind({error, {memory, #{reason := _}}} = Error) -> Error.

bad_options_are_named_test_() ->
    [?_assertMatch({error, _}, flame_prof_tree:report("/nowhere", Options))
     || Options <- [#{idle => 1}, #{status => asleep}, #{top => 0}, #{depth => all},
            #{sort => by}, []]].

hot(Options) -> hot(?STACKS, Options).

hot(Stacks, Options) ->
    {ok, Report} = text_file:with(samples(Stacks), fun(File) ->
        flame_prof_tree:report(File, Options) end),
    Report.

weights(Table, Report) ->
    [{Name, Weight} || #{name := Name, weight := Weight} <- maps:get(Table, Report)].

text(Report) -> unicode:characters_to_binary(flame_prof_tree:format(Report, 100)).

first_line(Report) when is_map(Report) -> first_line(flame_prof_tree:format(Report, 100));
first_line(Text) ->
    [Line | _] = string:split(unicode:characters_to_list(Text), "\n"),
    Line.

samples(Stacks) ->
    Numbered = lists:zip(lists:seq(1, length(Stacks)), Stacks),
    unicode:characters_to_binary([sample(N, Time, Stack)
     || {N, {Count, _, _, _} = Stack} <- Numbered, Time <- lists:seq(1, Count)]).

sample(N, Time, {_, Status, Reductions, Symbols}) ->
    [io_lib:format("beam 4242/~b [000] ~b.~6..0b: cpu-clock:\n", [N, Time, N]),
        io_lib:format("# reductions=9/~b memory=1/1 erl_pid=<0.~b.0>~s (metrics)\n",
            [Reductions, N, words(N)]),
        [["\tffffffff ", Symbol, " (x.erl)\n"] || Symbol <- Symbols],
        ["\tffffffff ", Status, " (status)\n\n"]].

words(1) -> " name=some%20body initial_call=a:b/0";
words(2) -> " initial_call=foo:start/0";
words(3) -> " initial_call=proc_lib:init_p/5 proc_lib_initial_call=proc_lib:init_p/5";
words(_) -> "".
