%% The doctor's judgement: order, what is unseen, options, text and JSON; and its documents.
-module(flame_prof_doctor_tests).

-include_lib("eunit/include/eunit.hrl").

second(More) ->
    maps:merge(#{node_schedulers => 2, node_schedulers_online => 2, node_processes => 240000,
        node_process_limit => 262144, node_ports => 54000, node_port_limit => 65536,
        node_atoms => 1, node_atom_limit => 1048576, node_run_queue_sum => 5000,
        node_run_queue_longest => 2500, node_run_queue_shortest => 2500, time_us => 0}, More).

evidence() ->
    #{node => 'shop@h', engine => native, span_us => 10000000,
        unseen => #{os => <<"there is no /proc">>},
        seconds => [second(#{time_us => N * 1000000}) || N <- lists:seq(0, 10)]}.

the_most_severe_is_first_then_the_order_of_kinds_test() ->
    #{findings := Findings} = flame_prof_doctor:judge(evidence(), #{}),
    ?assertEqual([{limit, critical}, {limit, warning}, {run_queue, warning}],
        [{Kind, Severity} || #{kind := Kind, severity := Severity} <- Findings]).

what_was_not_seen_has_its_reason_test() ->
    #{unseen := Unseen} = flame_prof_doctor:judge(evidence(), #{}),
    ?assertEqual(<<"there is no /proc">>, proplists:get_value(throttled, Unseen)),
    ?assertEqual(<<"not looked at">>, proplists:get_value(fragmentation, Unseen)),
    ?assertEqual(undefined, proplists:get_value(limit, Unseen)).

a_short_look_says_that_it_does_not_see_growth_test() ->
    #{seconds := [Second | _]} = evidence(),
    Why = fun(Looks) ->
        Evidence = (evidence())#{seconds := lists:duplicate(Looks, Second)},
        #{unseen := Unseen} = flame_prof_doctor:judge(Evidence, #{}),
        proplists:get_value(atom_growth, Unseen)
    end,
    ?assertMatch(<<"the look is too short", _/binary>>, Why(3)),
    ?assertEqual(undefined, Why(7)).

%% What the portable engine gives, with the time that each look has.
portable(Us) ->
    Os = #{at_us => 0, rss => 1, available => 2, total => 3, machine => #{busy_us => 0,
        stolen_us => 0, cpus => 2}, own_us => 0, schedulers => #{threads => 2, run_us => 0,
        wait_us => 0}, programs_us => 0, programs_met => 0, programs => #{}},
    System = #{handlers => [], ports => [], connections => [], pending => [],
        files => #{waiting => 0, schedulers => 10, calls => #{}}},
    Quiet = second(#{node_processes => 100, node_ports => 1, node_run_queue_sum => 0,
        node_run_queue_dirty_cpu => 0, node_run_queue_longest => 0,
        node_run_queue_shortest => 0, node_memory_ets => 1,
        node_memory_binary => 1}),
    #{node => 'shop@h', engine => portable, span_us => Us, unseen => #{},
        seconds => [Quiet#{time_us => N * 1000000} || N <- lists:seq(0, Us div 1000000)],
        waits => #{engine => portable, roots => [], edges => [], deadlocks => []},
        memory => {#{engine => portable}, #{engine => portable}},
        os => {Os, Os#{at_us := Us}}, system => {System, System},
        samples => #{span_us => Us - 20000, mode => processes, processes => [], figures => [],
            losses => #{}, stacks => fun(_, _) -> [] end, by_queue => fun(_) -> [] end}}.

unseen_of(Evidence) ->
    #{findings := [], unseen := Unseen} = flame_prof_doctor:judge(Evidence, #{}),
    lists:sort([Kind || {Kind, _} <- Unseen]).

%% By what the portable engine cannot see, for ten seconds.
the_portable_engine_does_not_see_exactly_these_kinds_test() ->
    ?assertEqual(lists:sort([deadlock, scheduler_stuck, chain, lock, restart_loop, long_gc, gc,
        exceptions, copies, monitor_growth, fragmentation]), unseen_of(portable(10000000))).

what_takes_longer_than_the_look_is_not_seen_test() ->
    Native = fun(Us) ->
        Evidence = #{waits := Waits, system := {System, _}} = portable(Us),
        Memory = #{engine => native, allocators => []},
        Seen = System#{supervisors => [], monitors => #{many => [], unknown => [], left => 0}},
        Evidence#{engine := native, waits := Waits#{engine := native},
            memory := {Memory, Memory}, system := {Seen, Seen}}
    end,
    Growth = [table_growth, atom_growth, process_growth, port_growth, code_growth],
    FiveSeconds = [hot_function, code_loading, heap_growth, binary_leak],
    ?assertEqual([], unseen_of(Native(10000000))),
    ?assertEqual(lists:sort([mailbox | Growth ++ FiveSeconds]), unseen_of(Native(3000000))),
    ?assertEqual(lists:sort(FiveSeconds), unseen_of(Native(5000000))).

what_the_kernel_or_the_node_did_not_answer_is_not_seen_test() ->
    #{os := {Os, _}, system := {System, _}} = Evidence = portable(10000000),
    Without = fun(Keys, Map) -> {maps:without(Keys, Map), maps:without(Keys, Map)} end,
    More = fun(Part) -> unseen_of(Part) -- unseen_of(Evidence) end,
    ?assertEqual([stolen_cpu], More(Evidence#{os := Without([schedulers], Os)})),
    ?assertEqual([memory_limit], More(Evidence#{os := Without([available], Os)})),
    ?assertEqual([busy_port], More(Evidence#{system := Without([ports], System)})),
    ?assertEqual([busy_dist], More(Evidence#{system := Without([connections], System)})).

a_node_that_still_starts_grows_by_that_test() ->
    Seconds = [second(#{time_us => N * 1000000, node_atoms => 20000 + 5000 * N})
        || N <- lists:seq(0, 10)],
    Judged = fun(IsStarting) ->
        Evidence = (evidence())#{seconds := Seconds,
            start => #{uptime_ms => 14000, is_starting => IsStarting}},
        flame_prof_doctor:diagnosed(Evidence, [], #{})
    end,
    Kinds = fun(#{findings := Findings}) -> [Kind || #{kind := Kind} <- Findings] end,
    ?assertNot(lists:member(atom_growth, Kinds(Judged(true)))),
    ?assertMatch(<<"the node is still starting", _/binary>>,
        proplists:get_value(atom_growth, maps:get(unseen, Judged(true)))),
    ?assert(lists:member(atom_growth, Kinds(Judged(false)))),
    ?assertMatch({match, _}, re:run(flame_prof_doctor:format(Judged(false)),
        "the node started 14 s before")).

evidence_that_a_rule_cannot_read_ends_no_other_rule_test() ->
    Broken = #{allocators => none},
    #{findings := [#{kind := limit} | _], unseen := Unseen} =
        flame_prof_doctor:judge((evidence())#{memory => {Broken, Broken}}, #{}),
    ?assertMatch(<<"an internal error", _/binary>>, proplists:get_value(fragmentation, Unseen)).

each_finding_has_what_a_finding_has_test() ->
    #{findings := Findings} = flame_prof_doctor:judge(evidence(), #{}),
    [?assertMatch(#{size := _, processes := _, sentences := [_ | _]},
        doctor_finding:checked(Finding)) || Finding <- Findings].

%% What the tests of all rules hold their findings against.
a_finding_that_lacks_something_is_seen_test() ->
    Good = #{kind => gc, severity => warning, size => 1, processes => [],
        title => "report_2 (<0.9.0>) collects for 71 % of its time",
        sentences => ["It has 4.9 MiB and 1,400 messages in 10 s.", "It is in a:b/1; c:d/2 waits."],
        numbers => #{share => 0.708, memory => 5138022, queue => 1400, span_us => 9990000},
        command => "flame_prof allocations NODE"},
    #{numbers := Numbers} = doctor_finding:checked(Good),
    Bad = [Good#{numbers := maps:remove(Key, Numbers)} || Key <- maps:keys(Numbers)] ++
        %% Milliseconds are no bytes, and 70.4 % no 71.
        [Good#{numbers := Numbers#{share := 0.704}},
        Good#{numbers := (maps:remove(memory, Numbers))#{memory_ms => 5138022}},
        Good#{sentences := ["One. Two in 10 s.", "Three.", "Four. Five."]},
        Good#{sentences := ["It has no stop"]}, Good#{sentences := ["It is slow."]},
        Good#{command := "flame_prof no_such NODE"}],
    [?assertError(_, doctor_finding:checked(F)) || F <- Bad].

a_page_has_a_paragraph_for_each_finding_test() ->
    Diagnosis = flame_prof_doctor:judge(evidence(), #{}),
    Text = unicode:characters_to_list(flame_prof_doctor_text:format(
        Diagnosis#{looked_at => flame_prof_doctor_text:looked_at(evidence())},
        #{node => "shop@h"})),
    Paragraphs = string:split(Text, "\n\n", all),
    ?assertMatch(["1. critical: limit: " ++ _, "2. warning: limit: " ++ _,
        "3. warning: run_queue: " ++ _, "looked for 10 s" ++ _], Paragraphs),
    ?assertNotEqual(nomatch, string:find(Text, "flame_prof top --node shop@h")),
    ?assertNotEqual(nomatch, string:find(Text, "there is no /proc")).

%% Of a process that has such a name, too.
commands_have_the_node_s_name_where_it_is_known_test() ->
    Finding = #{kind => limit, severity => note, size => 1, title => "a", sentences => ["b."],
        command => "flame_prof waits NODE NODE_store", processes => [], numbers => #{}},
    Command = fun(Node) ->
        Diagnosis = #{findings => [Finding], unseen => [],
            looked_at => #{node => Node, engine => native, span_us => 1000000, seen => [seconds]}},
        #{findings := [#{command := Json}]} = flame_prof_doctor:json(Diagnosis),
        Text = unicode:characters_to_binary(flame_prof_doctor:format(Diagnosis)),
        ?assertNotEqual(nomatch, binary:match(Text, <<"   ", Json/binary, "\n">>)),
        Json
    end,
    ?assertEqual(<<"flame_prof waits shop@h NODE_store">>, Command('shop@h')),
    [?assertEqual(<<"flame_prof waits NODE NODE_store">>, Command(Node))
        || Node <- [none, nonode@nohost]].

what_was_not_seen_at_all_is_not_healthy_test() ->
    Diagnosis = flame_prof_doctor:judge(#{node => 'shop@h', engine => portable, span_us => 0,
        unseen => #{samples => <<"the file is cut">>}}, #{}),
    Text = unicode:characters_to_binary(flame_prof_doctor:format(Diagnosis#{
        looked_at => #{node => none, engine => portable, span_us => 0, seen => []}})),
    ?assertEqual(nomatch, binary:match(Text, <<"nothing is wrong">>)),
    ?assertMatch({_, _}, binary:match(Text, <<": the file is cut\n">>)).

%% One that is too busy to begin with samples in time.
a_node_that_was_not_sampled_is_not_healthy_test() ->
    Quiet = second(#{node_processes => 100, node_ports => 1, node_run_queue_sum => 40,
        node_run_queue_longest => 20, node_run_queue_shortest => 20}),
    Evidence = (evidence())#{seconds := [Quiet, Quiet, Quiet],
        unseen := #{samples => <<"no answer in time">>}},
    Diagnosis = flame_prof_doctor:judge(Evidence, #{}),
    ?assertMatch(#{findings := []}, Diagnosis),
    Text = unicode:characters_to_list(flame_prof_doctor:format(Diagnosis#{
        looked_at => flame_prof_doctor_text:looked_at(Evidence)})),
    ?assertMatch("nothing was found, and most was not seen: looked for 10 s" ++ _, Text),
    ?assertNotEqual(nomatch, string:find(Text, "no answer in time")).

a_node_with_nothing_wrong_is_told_what_was_looked_at_test() ->
    Quiet = second(#{node_processes => 100, node_ports => 1, node_run_queue_sum => 0,
        node_run_queue_dirty_cpu => 0, node_run_queue_longest => 0,
        node_run_queue_shortest => 0}),
    Samples = made_samples:samples([made_samples:holder(idle, fun(_) -> #{} end)]),
    Evidence = (evidence())#{seconds := [Quiet, Quiet, Quiet], samples => Samples},
    Diagnosis = flame_prof_doctor:judge(Evidence, #{}),
    ?assertMatch(#{findings := []}, Diagnosis),
    ?assertMatch("nothing is wrong: looked for 10 s" ++ _, unicode:characters_to_list(
        flame_prof_doctor:format(Diagnosis#{
            looked_at => flame_prof_doctor_text:looked_at(Evidence)}))).

%% A second says nothing of queues, hot functions and growth.
a_look_that_is_too_short_does_not_say_that_nothing_is_wrong_test() ->
    Text = fun(Us, How) ->
        Looked = #{node => 'shop@h', engine => native, span_us => Us, seen => [samples],
            sampled => 9, observations => 99},
        unicode:characters_to_list(flame_prof_doctor_text:format(
            #{findings => [], unseen => [], looked_at => Looked}, How))
    end,
    ?assertMatch("nothing was found, and much was not seen: looked for 1.0 s" ++ _,
        Text(1000000, #{})),
    ?assertMatch("nothing is wrong: looked for 6.0 s" ++ _, Text(6000000, #{})),
    %% As attach says it of its samples, which it told to be only these.
    ?assertMatch("nothing is wrong: looked for 1.0 s" ++ _, Text(1000000, #{few => 3})).

files_in_which_no_process_is_sampled_are_not_healthy_test() ->
    Looked = #{node => none, engine => native, span_us => 9000000, seen => [samples], sampled => 0,
        observations => 0},
    ?assertMatch("nothing was found, and most was not seen: " ++ _, unicode:characters_to_list(
        flame_prof_doctor:format(#{findings => [], unseen => [], looked_at => Looked}))).

few_findings_are_told_and_the_others_counted_test() ->
    Diagnosis = flame_prof_doctor:judge(evidence(), #{}),
    Text = unicode:characters_to_list(flame_prof_doctor_text:format(Diagnosis, #{few => 1})),
    ?assertMatch("1. critical: limit: " ++ _, Text),
    ?assertNotEqual(nomatch, string:find(Text, "and 2 more")),
    ?assertEqual(nomatch, string:find(Text, "not seen")).

names_cannot_write_to_the_terminal_test() ->
    Finding = #{kind => limit, severity => note, size => 1, title => <<"a\e[2Jb">>,
        sentences => [<<"c\nd">>], command => "", processes => [], numbers => #{}},
    Text = unicode:characters_to_binary(
        flame_prof_doctor:format(#{findings => [Finding], unseen => []})),
    ?assertEqual(nomatch, binary:match(Text, <<"\e">>)),
    ?assertEqual(nomatch, binary:match(Text, <<"c\nd">>)).

json_has_numbers_and_texts_test() ->
    Json = flame_prof_doctor:json(flame_prof_doctor:judge(evidence(), #{})),
    #{findings := [#{title := Title, numbers := #{count := 240000}} | _]} = Json,
    ?assert(is_binary(Title)),
    ?assertMatch({match, _}, re:run(flame_prof_json:encode(Json), "\"count\":240000")).

thresholds_are_checked_by_name_test() ->
    {ok, #{for := 10000, engine := auto, thresholds := #{limit_warning := 0.5}}} =
        flame_prof_doctor:options(#{thresholds => #{limit_warning => 0.5}}),
    {error, {bad_option, #{option := {thresholds, no_such}, accepted := Accepted}}} =
        flame_prof_doctor:options(#{thresholds => #{no_such => 1}}),
    ?assertNotEqual(nomatch, binary:match(Accepted, <<"limit_warning">>)),
    {error, {bad_option, _}} =
        flame_prof_doctor:options(#{thresholds => #{limit_warning => <<"much">>}}),
    {error, {bad_option, #{option := for}}} = flame_prof_doctor:options(#{for => 10}),
    {error, {bad_option, _}} = flame_prof_doctor:options(#{fro => 10000}).

every_kind_has_a_row_and_no_other_has_test() ->
    ?assertEqual([atom_to_binary(Kind) || Kind <- flame_prof_doctor:kinds()], rows(<<"## Kinds">>)).

%% Of all that is judged here, of a bottleneck with those who wait, and of nothing else.
every_key_of_the_json_has_a_row_test() ->
    Finding = #{kind => bottleneck, severity => warning, size => 9, title => "a",
        sentences => ["b."], command => "c", processes => [], waiters => [], numbers => #{},
        function => <<"d:e/1">>, range => {1, 2}, view => #{}},
    Evidence = (evidence())#{start => #{uptime_ms => 1, is_starting => false},
        samples => #{span_us => 1, processes => []}, waits => #{looks => 1}},
    Judged = flame_prof_doctor:judge(evidence(), #{}),
    Json = flame_prof_doctor:json(Judged#{looked_at => flame_prof_doctor_text:looked_at(Evidence),
        findings := [Finding | maps:get(findings, Judged)]}),
    Keys = fun(Prefix, Maps) ->
        [Prefix ++ atom_to_list(Key) || Map <- Maps, Key <- maps:keys(Map)]
    end,
    #{findings := Findings, looked_at := Looked} = Json,
    ?assertEqual(lists:usort(["findings", "unseen"] ++ Keys("findings[].", Findings)
            ++ Keys("looked_at.", [Looked])),
        lists:usort([Name || <<"| `", Row/binary>> <- section(<<"## JSON">>),
            [Name | _] <- [string:split(binary_to_list(Row), "`")]])).

every_threshold_has_its_row_test() ->
    Expected = [iolist_to_binary(io_lib:format("| `~ts` | ~w | ~ts |", [Name, Default, What]))
     || {Name, Default, What} <- flame_prof_doctor:thresholds()],
    ?assertEqual(Expected, [Line || <<"| `", _/binary>> = Line <- section(<<"## Thresholds">>)]).

every_kind_is_in_the_page_of_what_to_do_test() ->
    {ok, Text} = file:read_file("doc/guide/doctor.md"),
    [?assertMatch({Kind, {_, _}}, {Kind, binary:match(Text, <<"`", (atom_to_binary(Kind))/binary, "`">>)})
     || Kind <- flame_prof_doctor:kinds()].

rows(Title) ->
    [begin
        {match, [Name]} = re:run(Line, "^\\| `([a-z_]+)` \\|", [{capture, [1], binary}]),
        Name
    end || <<"| `", _/binary>> = Line <- section(Title)].

section(Title) ->
    {ok, Text} = file:read_file("doc/doctor.md"),
    [_, Behind] = binary:split(Text, Title),
    [Section | _] = binary:split(Behind, <<"\n## ">>),
    binary:split(Section, <<"\n">>, [global]).
