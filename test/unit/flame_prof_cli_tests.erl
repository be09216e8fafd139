%% The words of a command line, JSON, and the tree that hot prints.
-module(flame_prof_cli_tests).

-include_lib("eunit/include/eunit.hrl").

parse(Text) -> flame_prof_cli_args:parse(string:lexemes(Text, " ")).
text(Chardata) -> unicode:characters_to_list(Chardata).

every_command_has_help_with_an_example_test() ->
    {help, All} = parse("--help"),
    Looks = [list_to_atom(lists:flatten(string:replace(atom_to_list(Look), "_", "-")))
        || Look <- flame_prof_look:names()],
    Commands = Looks ++ [attach, mcp, check, export, report, view, info, start, flush, stop],
    [begin
        {help, Help} = flame_prof_cli_args:parse([atom_to_list(Command), "--help"]),
        ?assertMatch({match, _}, re:run(text(Help), "Example:\n  \\$ flame_prof " ++
            atom_to_list(Command))),
        ?assertMatch({match, _}, re:run(text(All), "\n  " ++ atom_to_list(Command) ++ " "))
    end || Command <- Commands],
    ?assertMatch({match, _}, re:run(text(All), "flame_prof --version ")).

a_node_is_an_argument_or_an_option_of_each_command_test_() ->
    [?_assertEqual(parse(Command ++ " n " ++ Rest), parse(Command ++ " --node n " ++ Rest))
     || {Command, Rest} <- [{"attach", ""}, {"doctor", ""}, {"mcp", ""}, {"top", ""},
            {"pstack", "p q"}, {"waits", "p"}, {"mailbox", "p"}, {"xray", "p"}, {"memory", ""},
            {"tables", ""}, {"binaries", ""}, {"trace", "m:f"}, {"latency", "m:f"},
            {"allocations", ""}, {"info", ""}, {"start", ""}, {"flush", ""}, {"stop", ""}]].

help_of_a_command_is_its_help_test() ->
    ?assertEqual(parse("waits --help"), parse("help waits")),
    ?assertMatch({usage, _}, parse("help nix")).

options_may_stand_anywhere_and_be_joined_test() ->
    {ok, #{by := <<"memory">>, top := 3, arguments := ["a", "b"]}} =
        parse("hot a --by=memory b --top 3"),
    {ok, #{arguments := ["a", "--by"]}} = parse("hot a -- --by"),
    {ok, #{node := ["a@b", "c@d", "e@f"]}} = parse("info --node a@b,c@d --node e@f").

%% A session that ends by itself would take its last samples with it.
attach_offers_no_duration_of_the_session_test() ->
    {help, Help} = parse("attach --help"),
    ?assertEqual(nomatch, string:find(text(Help), "\n  duration ")),
    {ok, Parsed} = parse("attach n --set duration=1000"),
    ?assertMatch({error, {usage, "--set duration: use --for"}}, flame_prof_cli_attach:do(Parsed)).

values_are_what_they_say_test() ->
    {ok, #{by := {value, <<"memory">>}}} = parse("hot f --by value:memory"),
    {ok, #{port := {host, 9100}}} = parse("info --node n --port 9100"),
    {ok, #{port := {"127.0.0.1", 9101}}} = parse("info --node n --port 127.0.0.1:9101"),
    {ok, #{port := {"::1", 9101}}} = parse("info --node n --port [::1]:9101"),
    {ok, #{group_by := [status, process]}} =
        parse("export f --as perf --group-by status,process"),
    {ok, #{from := 0, to := 30000, status := active, process := "<0.1.0>", lines := false}} =
        parse("export f --as perf --from 0s --to 30s --status active --process <0.1.0>"
            " --lines false"),
    {ok, #{time_limit := 5000}} = parse("mailbox n my_server --time-limit 5s"),
    {ok, #{node := ["n"], arguments := [], json := true}} = parse("memory n --json"),
    {ok, #{node := ["n"], arguments := [], for := 5000, by := growth, top := 3}} =
        parse("tables n --for 5s --by growth --top 3"),
    {ok, #{node := ["n"], arguments := ["my_server"], time_limit := 60000, max_memory := 256}} =
        parse("xray n my_server --time-limit 1m --max-memory 256"),
    {ok, #{node := ["n"], arguments := [], for := 5000, max_memory := 256, json := true}} =
        parse("binaries n --for 5s --max-memory 256 --json"),
    {ok, #{arguments := ["n"], for := 30000, threshold := [{limit_warning, 0.5}, {<<"nix">>, 3}]}} =
        parse("doctor n --for 30s --threshold limit_warning=0.5 --threshold nix=3"),
    {ok, #{top := {top, 10, 200}, for := 90000}} = parse("attach n --top 10:200 --for 90s"),
    {ok, #{set := [{mode, schedulers}, {select, {top, 1}}]}} =
        parse("attach n --set mode=schedulers --set select={top,1}"),
    {ok, #{set := [{auto_select, {top, 1}}]}} = parse("attach n --set auto_select={top,1}").

older_names_of_options_do_the_same_test_() ->
    [?_assertEqual(parse(New), parse(Old))
     || {Old, New} <- [{"top n --sort memory --rows 3", "top n --by memory --top 3"},
            {"tables n --sort growth", "tables n --by growth"},
            {"trace n m:f --events 1 --rate 2 --cpu 3",
                "trace n m:f --max-events 1 --max-rate 2 --max-cpu 3"},
            {"latency n m:f --max-calls 7", "latency n m:f --max-events 7"},
            {"export f --as perf --levels status", "export f --as perf --group-by status"}]].

%% What a command takes is what its look accepts: here complete, with the look's own check.
a_command_line_is_options_of_its_look_test_() ->
    [{Line, fun() ->
        {ok, #{command := Command} = Parsed} = parse(Line),
        {ok, Look} = flame_prof_cli_look_options:module(Command),
        Given = flame_prof_cli_look_options:given(Look, Parsed),
        {ok, Options} = flame_prof_look:checked(Look, Given),
        ?assertEqual(Wanted, maps:with(maps:keys(Wanted), Options))
    end}
     || {Line, Wanted} <- [
            {"top n --by memory --filter a", #{by => memory, filter => <<"a">>, every => 1000}},
            {"pstack n a <0.0.0>", #{process => [<<"a">>, whereis(init)]}},
            {"blame n gc --for 3s", #{function => gc, for => 3000}},
            {"blame n lists:seq/2", #{function => <<"lists:seq/2">>, for => 5000}},
            {"waits n a --for 2s --nodes b@h", #{process => <<"a">>, for => 2000, top => 10}},
            {"mailbox n a --oldest 0", #{process => <<"a">>, oldest => 0, time_limit => 2000}},
            {"xray n a --max-memory 256", #{process => <<"a">>, max_memory => 256 bsl 20}},
            {"binaries n --for 10s --walked 0", #{for => 10000, walked => 0}},
            {"memory n --explain false", #{explain => false}},
            {"tables n --top infinity", #{top => infinity, by => memory}},
            {"latency n m:f --max-cpu infinity --groups false",
                #{functions => [<<"m:f">>], max_cpu => infinity, groups => false}},
            {"trace n m:f --process a,b", #{process => [<<"a">>, <<"b">>], max_events => 1000}},
            {"allocations n --bytes 4096", #{bytes => 4096, for => 10000}},
            {"hot f --files --by delta:memory", #{node => true, by => {delta, <<"memory">>},
                files => ["f"]}},
            {"slow-calls f --ticks 5 --top all", #{ticks => 5, top => all}}]].

what_is_wrong_is_named_with_what_is_accepted_test_() ->
    [{Line, fun() ->
        {usage, Said} = parse(Line),
        ?assertMatch({match, _}, re:run(text(Said), Wanted))
    end}
     || {Line, Wanted} <- [{"", "a command is missing"},
            {"nix", "unknown command \"nix\"\\nCommands:"},
            {"hot", "too few arguments; usage: flame_prof hot FILE"},
            {"top a@b c", "unexpected argument \"c\"; usage: flame_prof top NODE"},
            {"hot f --nix 3", "--nix: unknown option; there are: --by"},
            {"hot f --top", "--top takes N"},
            {"hot f --top 0", "--top: \"0\"; it takes a whole number from 1"},
            {"hot f --json=1", "--json takes no value"},
            {"export f", "--as is missing: one of: collapsed"},
            {"export f --as pdf", "one of: collapsed, perf, speedscope, pprof, firefox"},
            {"export f --as perf --from soon", "--from: \"soon\"; it takes a time such as"},
            {"export f --as perf --to 0", "--to: \"0\"; it takes a time such as"},
            {"export f --as perf --status asleep", "one of: all, active, waiting"},
            {"export f --as perf --lines no", "one of: true, false"},
            {"info", "a node is missing; usage: flame_prof info NODE"},
            {"info --node n --port 0", "--port: \"0\"; it takes a port, or HOST:PORT"},
            {"info --node n --port :9100", "it takes a port, or HOST:PORT"},
            {"info --node n --port host:ssh", "it takes a port, or HOST:PORT"},
            {"attach n --for 30q", "a time such as"},
            {"attach n --set nix=1", "KEY=TERM, KEY being one of: dir"},
            {"doctor", "too few arguments; usage: flame_prof doctor NODE"},
            {"doctor n --for 1ms", "--for: \"1ms\"; it takes a time from 1s to 1m"},
            {"latency n m:f --max-cpu 101", "a number from 0.01 to 100, or infinity"},
            {"doctor n --threshold limit_warning", "it takes NAME=N"},
            {"memory", "a node is missing; usage: flame_prof memory NODE"},
            {"memory n more", "unexpected argument"},
            {"trace --node a,b m:f", "trace looks at one node"},
            {"tables n --by name", "one of: memory, objects, growth"},
            {"binaries n more", "unexpected argument"},
            {"xray n", "too few arguments; usage: flame_prof xray NODE PROCESS"},
            {"mailbox n", "too few arguments; usage: flame_prof mailbox NODE PROCESS"},
            {"stop --node", "--node takes NODE"}]].

json(Term) -> unicode:characters_to_binary(flame_prof_json:encode(Term)).

json_is_json_test() ->
    ?assertEqual(<<"{\"a\":[1,-2.5,\"x\",true,null],\"b\":{\"c\":\"d\"}}">>,
        json(#{a => [1, -2.5, <<"x">>, true, undefined], b => #{<<"c">> => d}})),
    ?assertEqual(<<"\"\\\"\\\\\\u000a\\u007f\"">>, json(<<"\"\\\n", 127>>)),
    ?assertEqual(<<"[", 34, 16#e4/utf8, 16#fffd/utf8, 34, "]">>, json([<<16#e4/utf8, 255>>])),
    ?assertEqual(<<"\"{1,2}\"">>, json({1, 2})),
    ?assertMatch(<<"\"<0.", _/binary>>, json(self())).

%% OTP's own reader, where there is one.
json_is_read_by_otp_test() ->
    Term = #{<<"a">> => [1, 2.5e100, <<"x\n\"\\", 16#20ac/utf8>>], <<"b">> => #{}},
    case erlang:function_exported(json, decode, 1)
        orelse code:ensure_loaded(json) =:= {module, json} of
        true -> ?assertEqual(Term, apply(json, decode, [json(Term)]));
        false -> ok
    end.

%% hot

corpus(Name) ->
    filename:join([filename:dirname(command_line:script()), "..", "test", "corpus", Name]).

report(Options) ->
    {ok, Report} = flame_prof_tree:report(corpus("ours.log"), Options),
    Report.

%% Whatever is looked at, nothing is lost and nothing counted twice.
sums_are_those_of_the_samples_test_() ->
    [fun() ->
        #{weight := Weight, tree := Tree, functions := Functions} =
            report(#{by => By, idle => true, min => 0, top => 1000}),
        {Total, Count} = counted(By),
        ?assertEqual(Total, Weight),
        ?assertEqual(Total, lists:sum([W || #{weight := W} <- Tree])),
        ?assertEqual(Total, lists:sum([W || #{weight := W} <- Functions])),
        [?assertEqual(W, selves(Branch)) || #{weight := W} = Branch <- Tree],
        By =:= samples andalso ?assertEqual(Count, Total)
    end || By <- [samples, {value, memory}, reductions]].

counted(By) ->
    {ok, Sums, _} = flame_prof:fold(
        fun(#{metrics := Metrics}, {Sum, N}) -> {Sum + weight(By, Metrics), N + 1} end,
        {0, 0}, corpus("ours.log")),
    Sums.

weight(samples, _) -> 1;
weight({value, Metric}, Metrics) -> element(1, maps:get(atom_to_binary(Metric), Metrics));
weight(Metric, Metrics) -> abs(element(2, maps:get(atom_to_binary(Metric), Metrics))).

selves(#{self := Self, children := Children}) ->
    Self + lists:sum([selves(Child) || Child <- Children]).

%% A sample that waited at 50 looks, as `coalesce_idle => true' and the budget write
%% it, is 50 samples.
a_sample_is_as_many_as_its_looks_test() ->
    File = filename:join("/tmp", "flame_prof_cli_tests_" ++ os:getpid() ++ ".log"),
    Sample = fun(Us, Period, Status) ->
        ["beam 1/71 [000] 1795237782.", integer_to_list(Us), ": ", Period, "cpu-clock:\n",
            "# reductions=9/0 memory=1000/0 erl_pid=<0.71.0> (metrics)\n",
            "\tffffffff shop:price/1:31 (shop.erl)\n\tffffffff ", Status, " (status)\n\n"]
    end,
    ok = file:write_file(File, [Sample(100000, "50 ", "waiting"), Sample(200000, "", "running")]),
    try
        {ok, #{samples := 51, weight := 51, tree := Tree}} =
            flame_prof_tree:report(File, #{min => 0, idle => true}),
        ?assertMatch([#{name := <<"running">>, weight := 1, samples := 1},
            #{name := <<"waiting">>, weight := 50, samples := 50}
        ], Tree),
        {ok, #{weight := 51000} = ByMemory} =
            flame_prof_tree:report(File, #{by => {value, memory}}),
        ?assertMatch("51 samples\n1 process, 0.1 s, 1 file\n"
            "51,000 value of memory in 51 samples\n" ++ _,
            text(flame_prof_tree:format(ByMemory, 100))),
        {ok, Profile} = flame_prof_profile:read(File),
        #{files := [#{samples := 2, observations := 51}]} = flame_prof_profile:info(Profile),
        Out = File ++ ".export",
        {ok, #{total := 51}} = flame_prof_profile:export(Profile, collapsed, Out),
        {ok, #{samples := 2}} = flame_prof_profile:export(Profile, perf, Out,
            #{by => {value, memory}}),
        {ok, Text} = file:read_file(Out),
        ?assertMatch({match, _}, re:run(Text, ": 50000 cpu-clock:\n# memory=1000/0 ")),
        %% There the period is memory, and no number of looks.
        {ok, #{samples := 2, weight := 2000}} =
            flame_prof_tree:report(Out, #{by => {value, memory}}),
        ok = file:delete(Out)
    after file:delete(File)
    end.

c_functions_are_a_detail_of_their_caller_test() ->
    File = filename:join("/tmp", "flame_prof_cli_tests_" ++ os:getpid() ++ ".log"),
    Stack = "\tffffffff db_get_hash (beam.smp)\n\tffffffff [beam.smp] (beam.smp)\n"
        "\tffffffff ets:lookup/2 (bif)\n\tffffffff shop:price/1:31 (shop.erl)\n",
    Gc = "\tffffffff erts_gc (beam.smp)\n\tffffffff [gc] (flame_prof)\n\tffffffff shop:price/1:31 (shop.erl)\n",
    ok = file:write_file(File, [
        ["beam 1/71 [000] 1795237782.", integer_to_list(900000 + N), ": cpu-clock:\n",
            "# reductions=1/0 erl_pid=<0.71.0> (metrics)\n", Frames,
            "\tffffffff running (status)\n\n"]
     || {N, Frames} <- [{1, Stack}, {2, Stack}, {3, Gc}]]),
    try
        {ok, #{functions := Functions} = Report} = flame_prof_tree:report(File, #{}),
        ?assertMatch([
            #{name := <<"ets:lookup/2">>, samples := 2, detail := [{<<"db_get_hash">>, _}]},
            #{name := <<"[gc]">>, samples := 1, detail := [{<<"erts_gc">>, _}]}
        ], Functions),
        Text = text(flame_prof_tree:format(Report, 100)),
        ?assertMatch({match, _}, re:run(Text, "66.7% .*ets:lookup/2 +\\(db_get_hash 66.7%\\)")),
        ?assert(lists:all(fun(Line) -> length(Line) =< 100 end, string:split(Text, "\n", all)))
    after file:delete(File)
    end.

a_status_alone_is_a_part_of_all_test() ->
    #{samples := All} = report(#{idle => true}),
    #{samples := Waiting, tree := [#{name := <<"waiting">>}]} = report(#{status => waiting}),
    ?assert(Waiting > 0 andalso Waiting < All).

bad_options_are_named_test() ->
    {error, {bad_option, #{option := nix}}} = flame_prof_tree:report("x", #{nix => 1}),
    {error, {bad_option, #{option := min}}} = flame_prof_tree:report("x", #{min => 101}),
    {error, {bad_option, #{option := status}}} = flame_prof_tree:report("x", #{status => asleep}),
    {error, {bad_option, #{option := sort}}} = flame_prof:top(#{sort => nix}).
