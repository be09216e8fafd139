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

evidence_that_a_rule_cannot_read_ends_no_other_rule_test() ->
    Broken = #{allocators => none},
    #{findings := [#{kind := limit} | _], unseen := Unseen} =
        flame_prof_doctor:judge((evidence())#{memory => {Broken, Broken}}, #{}),
    ?assertMatch(<<"an internal error", _/binary>>, proplists:get_value(fragmentation, Unseen)).

each_finding_has_what_a_finding_has_test() ->
    #{findings := Findings} = flame_prof_doctor:judge(evidence(), #{}),
    [
        begin
            ?assertMatch(#{size := _, title := _, command := _, processes := _, numbers := #{}},
                Finding),
            ?assert(length(Sentences) >= 1 andalso length(Sentences) =< 4)
        end
     || #{sentences := Sentences} = Finding <- Findings
    ].

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

a_node_with_nothing_wrong_is_told_what_was_looked_at_test() ->
    Quiet = second(#{node_processes => 100, node_ports => 1, node_run_queue_sum => 0,
        node_run_queue_longest => 0, node_run_queue_shortest => 0}),
    Evidence = (evidence())#{seconds := [Quiet, Quiet, Quiet]},
    Diagnosis = flame_prof_doctor:judge(Evidence, #{}),
    ?assertMatch(#{findings := []}, Diagnosis),
    ?assertMatch("nothing is wrong: looked for 10 s" ++ _, unicode:characters_to_list(
        flame_prof_doctor:format(Diagnosis#{
            looked_at => flame_prof_doctor_text:looked_at(Evidence)}))).

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

%%% ----------------------------------------------------------------- documents --

every_kind_has_a_row_and_no_other_has_test() ->
    ?assertEqual([atom_to_binary(Kind) || Kind <- flame_prof_doctor:kinds()], rows(<<"## Kinds">>)).

every_threshold_has_its_row_test() ->
    Expected = [
        iolist_to_binary(io_lib:format("| `~ts` | ~w | ~ts |", [Name, Default, What]))
     || {Name, Default, What} <- flame_prof_doctor:thresholds()
    ],
    ?assertEqual(Expected, [Line || <<"| `", _/binary>> = Line <- section(<<"## Thresholds">>)]).

every_kind_is_in_the_page_of_what_to_do_test() ->
    {ok, Text} = file:read_file("doc/guide/doctor.md"),
    [?assertMatch({Kind, {_, _}}, {Kind, binary:match(Text, <<"`", (atom_to_binary(Kind))/binary, "`">>)})
     || Kind <- flame_prof_doctor:kinds()].

rows(Title) ->
    [
        begin
            {match, [Name]} = re:run(Line, "^\\| `([a-z_]+)` \\|", [{capture, [1], binary}]),
            Name
        end
     || <<"| `", _/binary>> = Line <- section(Title)
    ].

section(Title) ->
    {ok, Text} = file:read_file("doc/doctor.md"),
    [_, Behind] = binary:split(Text, Title),
    [Section | _] = binary:split(Behind, <<"\n## ">>),
    binary:split(Section, <<"\n">>, [global]).
