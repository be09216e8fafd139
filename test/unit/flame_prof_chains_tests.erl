%% Stacks of those waited for below the waiting ones, against chains that this module makes of the
%% samples that reader_oracle has read, in the plainest way.
-module(flame_prof_chains_tests).

-include_lib("eunit/include/eunit.hrl").

-define(WAITS, <<"waits_for">>).

chains_are_those_of_the_samples_at_the_same_tick_test_() ->
    [{timeout, 120, {lists:concat(["seed ", Seed]), fun() ->
        Run = made_calls:run(#{seed => Seed, seconds => 3, clients => 9, servers => 4}),
        with_file(made_calls:text(Run, Keep), fun same_as_the_oracle/1)
    end}}
     || {Seed, Keep} <- [{1, fun(_, _) -> true end},
            %% Who is waited for has no sample at some ticks, or at none.
            {2, fun(Tick, N) -> (Tick * 7 + N) rem 5 > 0 end},
            {3, fun(_, N) -> N =/= 3 end}]].

what_has_no_stack_ends_a_chain_test() ->
    Text = [tick(1, [{1, "waits_for=#Port<0.5> ", ["a:a/0"]}, {2, "waits_for=timer ", ["b:b/0"]},
            {3, "waits_for=<0.1.0> ", ["c:c/0"]}, {4, "waits_for=x@h/<0.1.0> ", ["d:d/0"]},
            {5, "", ["e:e/0"]}])],
    with_file(Text, fun(File) ->
        ?assertEqual(lists:sort([{["a:a/0", "waits for #Port<0.5>"], 1},
                {["b:b/0", "waits for timer"], 1},
                {["c:c/0", "waits for p_b <0.1.0>", "a:a/0", "waits for #Port<0.5>"], 1},
                {["d:d/0", "waits for x@h/<0.1.0>"], 1}]),
            chains(File)),
        same_as_the_oracle(File)
    end).

cycles_are_marked_test_() ->
    [{lists:concat([N, " processes"]), fun() ->
        Text = tick(1, [{P, waits_for(P rem N + 1), ["a:a/0", "b:b/1"]} || P <- lists:seq(1, N)]),
        with_file(Text, fun(File) ->
            Chains = chains(File),
            ?assertEqual(N, length(Chains)),
            [begin
                ?assertEqual("cycle", lists:last(Frames)),
                ?assertEqual(3 * N + 1, length(Frames))
            end || {Frames, 1} <- Chains],
            same_as_the_oracle(File)
        end)
    end} || N <- [1, 2, 3, 17, 50]].

a_chain_that_is_too_long_says_so_test() ->
    Text = tick(1, [{P, waits_for(P + 1), ["a:a/0"]} || P <- lists:seq(1, 200)]),
    Deep = tick(1, [{P, waits_for(P + 1), lists:duplicate(250, "a:a/0")} || P <- lists:seq(1, 9)]),
    [with_file(One, fun(File) ->
        Chains = [Frames || {Frames, _} <- chains(File)],
        ?assert(lists:max([length(Frames) || Frames <- Chains]) =< 1024),
        ?assertEqual(["not_sampled", "truncated"],
            lists:usort([lists:last(Frames) || Frames <- Chains]))
    end) || One <- [Text, Deep]].

%% Ticks of two nodes may have one time.
equal_times_of_two_files_are_two_ticks_test() ->
    Caller = tick(1, [{1, "waits_for=<0.2.0> ", ["a:a/0"]}]),
    Callee = tick(1, [{2, "", ["b:b/0"]}]),
    with_file(Caller, fun(First) ->
        with_file(Callee, fun(Second) ->
            ?assertEqual([{["a:a/0", "waits for p_c <0.2.0>", "not_sampled"], 1}],
                chains([First, Second]))
        end)
    end).

%% Frames have equal numbers in each profile of a file.
speedscope_has_the_chains_of_each_metric_test() ->
    Text = [tick(T, [{1, "waits_for=<0.2.0> ", ["a:a/0"]}, {2, "waits_for=<0.3.0> ", ["b:b/0"]},
        {3, "", ["c:c/0"]}]) || T <- [1, 2]],
    with_file(Text, fun(File) ->
        {ok, Profile} = flame_prof_profile:read(File),
        Out = File ++ ".speedscope.json",
        {ok, _} = flame_prof_profile:export(Profile, speedscope, Out,
            #{chains => true, group_by => [message], by => [samples, {value, reductions}]}),
        {ok, Json} = file:read_file(Out),
        ok = file:delete(Out),
        #{<<"shared">> := #{<<"frames">> := Frames}, <<"profiles">> := Profiles} =
            foreign_formats:json(Json),
        Expected = lists:sort([
            [<<"a:a/0">>, <<"waits for p_c <0.2.0>">>, <<"b:b/0">>, <<"waits for p_d <0.3.0>">>,
                <<"c:c/0">>],
            [<<"b:b/0">>, <<"waits for p_d <0.3.0>">>, <<"c:c/0">>]]),
        ?assertMatch([_, _], Profiles),
        [?assertEqual(Expected, lists:sort([[maps:get(<<"name">>, lists:nth(I + 1, Frames))
            || I <- Stack] || Stack <- Stacks])) || #{<<"samples">> := Stacks} <- Profiles]
    end).

collapsed_chains_have_no_blanks_test() ->
    Text = tick(1, [{1, waits_for(2), ["a:a/0:7"]}, {2, "message=cast/tick ", ["b:b/0:8"]}]),
    with_file(Text, fun(File) ->
        {ok, Profile} = flame_prof_profile:read(File),
        Out = File ++ ".txt",
        {ok, #{total := 1}} = flame_prof_profile:export(Profile, collapsed, Out, #{chains => true}),
        ?assertEqual({ok, <<"waiting;a:a/0:7;waits_for_p_c_<0.2.0>;b:b/0:8 1\n">>},
            file:read_file(Out)),
        ok = file:delete(Out),
        ?assertMatch({error, {bad_option, #{option := chains}}},
            flame_prof_profile:export(Profile, firefox, Out, #{chains => true}))
    end).

pprof_and_perf_have_the_same_chains_test() ->
    Run = made_calls:run(#{seed => 4, seconds => 2, clients => 9, servers => 4}),
    with_file(made_calls:text(Run), fun(File) ->
        Chains = chains(File),
        ?assertMatch([_, _, _ | _], Chains),
        ?assertEqual(Chains, exported(pprof, File, fun(Path) ->
            #{samples := Samples} = foreign_formats:pprof(bytes(Path)),
            [{[named(Frame) || Frame <- lists:reverse(Frames)], N}
                || {Frames, [N | _], #{<<"status">> := <<"waiting">>}} <- Samples]
        end)),
        ?assertEqual(Chains, exported(perf, File, fun(Path) ->
            ?assertMatch({ok, #{}}, perf_script_grammar:check(Path)),
            {ok, Read, #{bad := 0}} = reader_oracle:fold(fun(S, All) -> [S | All] end, [], Path),
            [{[binary_to_list(flame_prof_frames:decode(Symbol))
                || {Symbol, _} <- lists:reverse(Frames)], 1} || #{frames := Frames} <- Read]
        end))
    end).

%% Only tables are asked for sums without stacks.
a_file_without_stacks_has_its_chains_all_the_same_test() ->
    Run = made_calls:run(#{seed => 4, seconds => 2, clients => 9, servers => 4}),
    with_file(made_calls:text(Run), fun(File) ->
        {ok, Profile} = flame_prof_profile:read(File),
        [begin
            [With, Without] = [begin
                Path = File ++ ".exported",
                Options = #{chains => true, stacks => Stacks},
                {ok, _} = flame_prof_profile:export(Profile, Format, Path, Options),
                bytes(Path)
            end || Stacks <- [true, false]],
            ?assertEqual(With, Without)
        end || Format <- [perf, pprof]]
    end).

named({Name, _, 0}) -> binary_to_list(Name);
named({Name, _, Line}) -> lists:concat([binary_to_list(Name), ":", Line]).

exported(Format, File, Read) ->
    {ok, Profile} = flame_prof_profile:read(File),
    Path = File ++ ".exported",
    {ok, _} = flame_prof_profile:export(Profile, Format, Path, #{chains => true}),
    Stacks = Read(Path),
    _ = file:delete(Path),
    Sums = maps:groups_from_list(fun({Frames, _}) -> Frames end, fun({_, N}) -> N end, Stacks),
    lists:sort([{Frames, lists:sum(Ns)} || {Frames, Ns} <- maps:to_list(Sums)]).

%% As deep as a chain can be: a file has 253 frames in a stack.
a_chain_in_perf_s_format_keeps_the_grammar_test() ->
    Deep = tick(1, [{P, waits_for(P + 1), lists:duplicate(97, "a:a/0")} || P <- lists:seq(1, 9)]),
    with_file(Deep, fun(File) ->
        Lengths = exported(perf, File, fun(Path) ->
            ?assertMatch({ok, #{}}, perf_script_grammar:check(Path)),
            {ok, Read, _} = reader_oracle:fold(fun(S, All) -> [S | All] end, [], Path),
            [{{length(Frames), element(1, hd(Frames))}, 1} || #{frames := Frames} <- Read]
        end),
        ?assertEqual([{{99, <<"not_sampled">>}, 1}, {{197, <<"not_sampled">>}, 1},
            {{197, <<"truncated">>}, 7}], Lengths)
    end).

%%% Across nodes

%% The oracle is the profile of one node: but for whom they wait for, its chains are the same.
a_chain_goes_on_in_the_files_of_the_other_node_test_() ->
    [{lists:concat(["a clock ahead by ", AheadUs, " us"]), fun() ->
        Run = made_calls:run(#{seed => 5, seconds => 3, clients => 9, servers => 4}),
        {Clients, Servers} = made_calls:two_nodes(Run, 4, AheadUs),
        with_files([Clients, Servers], fun(Files) ->
            with_file(made_calls:text(Run), fun(File) ->
                Expected = merged([{lists:map(fun plain_name/1, Frames), N}
                    || {Frames, N} <- chains(File)]),
                Got = merged([{lists:map(fun plain_name/1, Frames), N}
                    || {Frames, N} <- chains(Files)]),
                ?assertEqual(Expected, Got),
                ?assert(lists:any(fun({Frames, _}) ->
                    lists:member("waits for b@h/<0.1.0>", Frames) end, chains(Files)))
            end)
        end)
    end} || AheadUs <- [0, 1000, -2000]].

plain_name("waits for b@h/" ++ Pid) -> "waits for " ++ Pid;
plain_name("waits for p_" ++ [_, _, $\s | Pid]) -> "waits for " ++ Pid;
plain_name(Frame) -> Frame.

merged(Chains) ->
    Sums = maps:groups_from_list(fun({Frames, _}) -> Frames end, fun({_, N}) -> N end, Chains),
    lists:sort([{Frames, lists:sum(Ns)} || {Frames, Ns} <- maps:to_list(Sums)]).

%% Ticks of b@h at 10, 20 and 40 ms, what its servers do at each, and a caller of a@h between.
the_tick_of_the_other_node_is_the_nearest_one_that_holds_test_() ->
    There = fun(Pid) ->
        [[at(Pid, Ms, 2, io_lib:format("name=p_~b ", [2]), ["b:tick/" ++ integer_to_list(Ms)])
            || Ms <- [10, 20, 40]], made_calls:own(Pid, "b@h", 40000)]
    end,
    Here = fun(Ms, Whom) ->
        [at(42, Ms, 1, "waits_for=" ++ Whom ++ " ", ["a:a/0"]), made_calls:own(42, "a@h", 50000)]
    end,
    Chain = fun(Ms, Whom, Pid) ->
        with_files([Here(Ms, Whom), There(Pid)], fun(Files) ->
            [{["a:a/0", _ | Rest], 1}] = chains(Files),
            Rest
        end)
    end,
    [{lists:concat([Ms, " ms, ", Whom, ", OS process ", Pid]),
            ?_assertEqual(Expected, Chain(Ms, Whom, Pid))}
     || {Ms, Whom, Pid, Expected} <- [{1, "b@h/<0.2.0>", 43, ["b:tick/10"]},
            {14, "b@h/<0.2.0>", 43, ["b:tick/10"]},
            {16, "b@h/<0.2.0>", 43, ["b:tick/20"]},
            {16, "b@h/p_2", 43, ["b:tick/20"]},
            {31, "b@h/<0.2.0>", 43, ["b:tick/40"]},
            {59, "b@h/<0.2.0>", 43, ["b:tick/40"]},
            {61, "b@h/<0.2.0>", 43, ["not_sampled"]},
            {16, "b@h/<0.3.0>", 43, ["not_sampled"]},
            {16, "b@h/p_3", 43, ["not_sampled"]},
            {16, "c@h/<0.2.0>", 43, []},
            %% Processes of both are mixed up.
            {16, "b@h/<0.2.0>", 42, []}]].

a_name_is_found_among_many_of_the_other_node_test() ->
    There = [[at(43, 10, N, io_lib:format("name=s_~b%3Ax ", [N]), ["b:f" ++ integer_to_list(N)])
        || N <- lists:seq(1, 300)], made_calls:own(43, "b@h", 20000)],
    Here = [[at(42, 10, N, io_lib:format("waits_for=b@h/s_~b:x ", [N]), ["a:a/0"])
        || N <- lists:seq(1, 301)], made_calls:own(42, "a@h", 20000)],
    with_files([Here, There], fun(Files) ->
        Ends = [lists:last(Frames) || {Frames, 1} <- chains(Files)],
        Expected = ["not_sampled" | ["b:f" ++ integer_to_list(N) || N <- lists:seq(1, 300)]],
        ?assertEqual(lists:sort(Expected), lists:sort(Ends))
    end).

nodes_with_one_number_of_their_os_processes_are_warned_of_test() ->
    Of = fun(Node) -> [at(42, 10, 1, "", ["a:a/0"]), made_calls:own(42, Node, 20000)] end,
    Warnings = fun(Nodes) ->
        with_files(lists:map(Of, Nodes), fun(Files) ->
            {ok, Profile} = flame_prof_profile:read(Files),
            #{warnings := Warnings} = flame_prof_profile:info(Profile),
            Warnings
        end)
    end,
    ?assertEqual([], Warnings(["a@h", "a@h"])),
    ?assertMatch([{_, 0, <<"its node and another one have equal numbers", _/binary>>}],
        Warnings(["a@h", "b@h"])).

%% From one node to the other and back: a deadlock of two nodes.
a_cycle_across_nodes_is_marked_test() ->
    Of = fun(Pid, Node, N, Whom) ->
        [at(Pid, 10, N, "waits_for=" ++ Whom ++ " ", [Node ++ ":f/0"]),
            at(Pid, 20, N, "", [Node ++ ":g/0"]), made_calls:own(Pid, Node ++ "@h", 20000)]
    end,
    with_files([Of(42, "a", 1, "b@h/<0.2.0>"), Of(43, "b", 2, "a@h/<0.1.0>")], fun(Files) ->
        ?assertEqual([
            {["a:f/0", "waits for b@h/<0.2.0>", "b:f/0", "waits for a@h/<0.1.0>", "cycle"], 1},
            {["b:f/0", "waits for a@h/<0.1.0>", "a:f/0", "waits for b@h/<0.2.0>", "cycle"], 1}
        ], chains(Files))
    end).

at(OsPid, Ms, N, Words, Frames) ->
    [io_lib:format("beam ~b/~b [000] 1795237782.~6..0b: reductions=~b/0 erl_pid=<0.~b.0> ",
        [OsPid, N, Ms * 1000, Ms, N]), Words, "cpu-clock:\n",
        [["\tffffffff ", Frame, " (x.erl)\n"] || Frame <- Frames],
        "\tffffffff waiting (status)\n\n"].

with_files(Texts, Test) -> text_file:several(Texts, Test).

hot_shows_what_is_waited_for_test() ->
    Text = [tick(T, [{1, "waits_for=<0.2.0> ", ["a:a/0"]}, {2, "", ["b:b/0"]}]) || T <- [1, 2]],
    with_file(Text, fun(File) ->
        {ok, Report} = flame_prof_tree:report(File, #{chains => true}),
        ?assertMatch(#{samples := 2, all_samples := 4, chains := true,
            functions := [#{name := <<"b:b/0">>, weight := 2}],
            by_process := [#{name := <<"p_b <0.1.0>">>, weight := 2}]}, Report),
        Shown = unicode:characters_to_list(flame_prof_tree:format(Report, 100)),
        ?assertMatch({match, _}, re:run(Shown, "^2 of 4 samples wait for something \\(50.0%\\)")),
        ?assertMatch({match, _}, re:run(Shown, "a:a/0 > waits for p_c <0.2.0> > b:b/0"))
    end).

%%% Groups by message

samples_are_grouped_by_the_message_in_work_test() ->
    Text = [tick(1, [{1, "message=call/{get,_} serves=1.2.3 ", ["a:a/0"]}, {2, "", ["b:b/0"]}]),
        tick(2, [{1, "message=cast/tick ", ["a:a/0"]}, {2, "message=info/x%3Ay ", ["b:b/0"]}]),
        tick(3, [{1, "", ["a:a/0"]}, {2, "message=call/{get,_} ", ["b:b/0"]}])],
    with_file(Text, fun(File) ->
        {ok, Profile} = flame_prof_profile:read(File),
        Sums = fun(Dimensions) ->
            {ok, #{stacks := Stacks}} = flame_prof_profile:stacks(Profile,
                #{group_by => Dimensions, stacks => false}),
            lists:sort([{Groups, N} || {Groups, _, N, _} <- Stacks])
        end,
        ?assertEqual([{[<<>>], 2}, {[<<"call:{get,_}">>], 2}, {[<<"cast:tick">>], 1},
            {[<<"info:x:y">>], 1}], Sums([message])),
        ?assertEqual([{[<<"p_b">>, <<>>], 1}, {[<<"p_b">>, <<"call:{get,_}">>], 1},
                {[<<"p_b">>, <<"cast:tick">>], 1}, {[<<"p_c">>, <<>>], 1},
                {[<<"p_c">>, <<"call:{get,_}">>], 1}, {[<<"p_c">>, <<"info:x:y">>], 1}],
            Sums([process, message])),
        Out = File ++ ".txt",
        {ok, _} = flame_prof_profile:export(Profile, collapsed, Out,
            #{group_by => [process, message]}),
        {ok, Lines} = file:read_file(Out),
        ok = file:delete(Out),
        ?assertEqual(
            [<<>>, <<"p_b;a:a/0 1">>, <<"p_b;call:{get,_};a:a/0 1">>, <<"p_b;cast:tick;a:a/0 1">>,
                <<"p_c;b:b/0 1">>, <<"p_c;call:{get,_};b:b/0 1">>, <<"p_c;info:x:y;b:b/0 1">>],
            lists:sort(binary:split(Lines, <<"\n">>, [global]))),
        {ok, Report} = flame_prof_tree:report(File,
            #{idle => true, group_by => [process, message], min => 0}),
        ?assertMatch(#{by_message := [_, _, _, _]}, Report),
        [#{children := Processes}] = maps:get(tree, Report),
        ?assertEqual([[<<"a:a/0">>, <<"call:{get,_}">>, <<"cast:tick">>],
            [<<"b:b/0">>, <<"call:{get,_}">>, <<"info:x:y">>]],
            [lists:sort([Name || #{name := Name} <- Below]) || #{children := Below} <- Processes])
    end).

%% Whole, packed, and in pieces; a coarse one would say what is not so.
the_index_has_the_messages_of_its_rows_test() ->
    Texts = [[tick(1, [{1, "message=call/get ", ["a:a/0"]}, {2, "", ["b:b/0"]}]),
            tick(2, [{1, "", ["a:a/0"]}, {2, "message=info/x ", ["b:b/0"]}])],
        tick(3, [{1, "message=info/x ", ["a:a/0"]}, {2, "message=call/get ", ["b:b/0"]}])],
    Expected = [{1, 1, <<"call:get">>}, {2, 2, <<"info:x">>}, {3, 1, <<"info:x">>},
        {3, 2, <<"call:get">>}],
    with_file(Texts, fun(File) ->
        {ok, Profile} = flame_prof_profile:read(File),
        {ok, _} = flame_prof_profile:index(Profile, File ++ ".index"),
        ?assertEqual(Expected, messages(foreign_formats:index(bytes(File ++ ".index")))),
        {ok, _} = flame_prof_profile:packed_index(Profile, File ++ ".packed"),
        ?assertEqual(Expected,
            messages(foreign_formats:index(foreign_formats:unpacked(bytes(File ++ ".packed"))))),
        ok = flame_prof_profile:thin(Profile, 10000000),
        {ok, _} = flame_prof_profile:packed_index(Profile, File ++ ".thin"),
        <<_:16/binary, Json/binary>> = bytes(File ++ ".thin"),
        ?assertEqual(nomatch, binary:match(Json, <<"\"message\"">>))
    end).

the_index_has_for_whom_its_rows_wait_test() ->
    Texts = [[tick(1, [{1, "waits_for=<0.2.0> call=1.2.3 request={get,_} ", ["a:a/0"]},
            {2, "", ["b:b/0"]}])],
        [tick(2, [{1, "", ["a:a/0"]}, {2, "waits_for=lock ", ["b:b/0"]}])]],
    Expected = [{1, 1, <<"<0.2.0>">>, <<"{get,_}">>}, {2, 2, <<"lock">>, none}],
    with_file(Texts, fun(File) ->
        {ok, Profile} = flame_prof_profile:read(File),
        {ok, _} = flame_prof_profile:index(Profile, File ++ ".index"),
        ?assertEqual(Expected, waits(foreign_formats:index(bytes(File ++ ".index")))),
        {ok, _} = flame_prof_profile:packed_index(Profile, File ++ ".packed"),
        ?assertEqual(Expected,
            waits(foreign_formats:index(foreign_formats:unpacked(bytes(File ++ ".packed"))))),
        ok = flame_prof_profile:thin(Profile, 10000000),
        {ok, _} = flame_prof_profile:packed_index(Profile, File ++ ".thin"),
        <<_:16/binary, Json/binary>> = bytes(File ++ ".thin"),
        ?assertEqual(nomatch, binary:match(Json, <<"\"waits_for\"">>))
    end).

waits(#{rows := Rows}) ->
    lists:sort([{Us div 1000000, Process + 1, Whom, maps:get(request, Row, none)}
        || #{time_us := Us, process := Process, waits_for := Whom} = Row <- Rows]).

messages(#{rows := Rows}) ->
    lists:sort([{Us div 1000000, Process + 1, Text}
        || #{time_us := Us, process := Process, message := <<_, _/binary>> = Text} <- Rows]).

bytes(File) ->
    {ok, Bytes} = file:read_file(File),
    ok = file:delete(File),
    Bytes.

%%% The oracle

same_as_the_oracle(File) ->
    {ok, Samples, #{bad := 0}} = reader_oracle:fold(fun(S, All) -> [S | All] end, [], File),
    ByTime = maps:groups_from_list(fun(#{time_us := Us}) -> Us end, Samples),
    Names = maps:from_list([{Pid, <<Name/binary, " ", Pid/binary>>}
        || #{words := #{<<"erl_pid">> := Pid, <<"name">> := Name}} <- Samples]),
    Expected = lists:foldl(fun(Tick, Sums) ->
        ByPid = maps:from_list([{Pid, S} || #{words := #{<<"erl_pid">> := Pid}} = S <- Tick]),
        lists:foldl(fun(Frames, All) -> maps:update_with(Frames, fun(N) -> N + 1 end, 1, All) end,
            Sums, [chain(S, ByPid, Names, []) || #{words := #{?WAITS := _}} = S <- Tick])
    end, #{}, maps:values(ByTime)),
    ?assertEqual(lists:sort(maps:to_list(Expected)), chains(File)).

chain(#{frames := Frames, words := #{<<"erl_pid">> := Pid} = Words}, ByPid, Names, Before) ->
    Own = [binary_to_list(Symbol) || {Symbol, _} <- lists:reverse(Frames)],
    case Words of
        #{?WAITS := <<"<", _/binary>> = Target} ->
            Name = "waits for " ++ binary_to_list(maps:get(Target, Names, Target)),
            Own ++ [Name] ++
                case {lists:member(Target, [Pid | Before]), ByPid} of
                    {true, _} -> ["cycle"];
                    {false, #{Target := Next}} -> chain(Next, ByPid, Names, [Pid | Before]);
                    {false, _} -> ["not_sampled"]
                end;
        #{?WAITS := Other} -> Own ++ ["waits for " ++ binary_to_list(Other)];
        #{} -> Own
    end.

%% Root first.
chains(Files) ->
    {ok, Profile} = flame_prof_profile:read(Files),
    {ok, #{stacks := Stacks}} =
        flame_prof_profile:stacks(Profile, #{chains => true, group_by => []}),
    lists:sort([{[binary_to_list(flame_prof_frames:decode(Symbol))
        || {Symbol, _} <- lists:reverse(Frames)], N} || {[], Frames, N, N} <- Stacks]).

waits_for(P) -> io_lib:format("waits_for=<0.~b.0> ", [P]).

tick(T, Processes) ->
    [[io_lib:format("beam 42/~b [000] ~b.000001: reductions=~b/0 erl_pid=<0.~b.0> name=p_~s ",
                [P, T, P, P, [$a + P rem 26]]),
            Words, "cpu-clock:\n", [["\tffffffff ", Frame, " (x.erl)\n"] || Frame <- Frames],
            "\tffffffff waiting (status)\n\n"] || {P, Words, Frames} <- Processes].

with_file(Text, Test) -> text_file:with(Text, Test).
