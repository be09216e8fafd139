%% What the page gets of the doctor's findings. The browser's tests have what it makes of them.
-module(flame_prof_doctor_page_tests).

-include_lib("eunit/include/eunit.hrl").

-define(INFO, #{first_us => 5000000, samples => 970, processes => 12,
    files => [#{observations => 900}, #{observations => 100}]}).

a_finding_has_what_the_page_shows_and_selects_test() ->
    [Shown] = shown([finding(#{title => ["order_store keeps ", "212"],
        sentences => [["212 wait", $.], <<"71 % of its time.">>],
        processes => [#{pid => <<"<0.95.0>">>, name => <<"order_store">>}, #{pid => <<"<0.2.0>">>}],
        function => <<"tariff:lookup/2">>, range => {6000000, 8500000},
        view => #{measure => <<"samples">>, show => all, levels => [process, status], other => 1}
    })]),
    ?assertEqual(#{<<"kind">> => <<"mailbox">>, <<"severity">> => <<"warning">>,
        <<"title">> => <<"order_store keeps 212">>,
        <<"sentences">> => [<<"212 wait.">>, <<"71 % of its time.">>],
        <<"command">> => <<"flame_prof waits NODE --process order_store">>,
        <<"pids">> => [<<"<0.95.0>">>, <<"<0.2.0>">>], <<"function">> => <<"tariff:lookup/2">>,
        <<"range">> => [1000000, 3500001],
        <<"view">> => #{<<"measure">> => <<"samples">>, <<"show">> => <<"all">>,
            <<"levels">> => [<<"process">>, <<"status">>]}
    }, Shown).

a_finding_of_the_whole_profile_has_no_range_test() ->
    [#{<<"range">> := Range, <<"view">> := View}] = shown([finding(#{})]),
    ?assertEqual({null, #{}}, {Range, View}).

a_range_begins_with_the_profile_test() ->
    [#{<<"range">> := Range}] = shown([finding(#{range => {4000000, 5500000}})]),
    ?assertEqual([0, 500001], Range).

texts_of_a_profile_cannot_end_the_page_s_data_test() ->
    Json = flame_prof_doctor_page:judged(fun() -> diagnosis([finding(#{
        title => <<"</script><script>x">>, sentences => [<<"a", 255, 254>>, <<"one\nline\e[31m">>]
    })]) end, ?INFO),
    ?assertEqual(nomatch, binary:match(Json, <<"<">>)),
    #{<<"findings">> := [#{<<"title">> := Title, <<"sentences">> := Sentences}]} =
        foreign_formats:json(Json),
    ?assertEqual(<<"</script><script>x">>, Title),
    ?assertEqual([<<"a...">>, <<"one line [31m">>], Sentences).

%% It is to be copied into a shell.
a_command_that_a_shell_could_take_for_another_is_left_out_test() ->
    Copied = fun(Command) ->
        [#{<<"command">> := Shown}] = shown([finding(#{command => Command})]),
        Shown
    end,
    Good = ["flame_prof xray NODE '<0.95.0>'", "flame_prof hot NODE --for 10s",
        "flame_prof waits NODE --process 'a;b'"],
    [?assertEqual(list_to_binary(C), Copied(C)) || C <- Good],
    Bad = ["flame_prof xray NODE <0.95.0>", "a; rm x", "a $(b)", "a `b`", "a | b", "a & b",
        "a 'b' 'c", "a \"$b\"", "a \\ b", "a * b", ["a ", 16#202e, " b"]],
    [?assertEqual(<<>>, Copied(C)) || C <- Bad].

more_findings_than_a_page_has_room_for_are_counted_test() ->
    All = [finding(#{title => integer_to_list(N)}) || N <- lists:seq(1, 20)],
    #{<<"findings">> := Findings, <<"more">> := More} = json(diagnosis(All)),
    ?assertEqual({12, 8}, {length(Findings), More}),
    ?assertMatch([#{<<"title">> := <<"1">>} | _], Findings).

what_could_not_be_judged_is_told_test() ->
    #{<<"unseen">> := Unseen, <<"findings">> := [], <<"samples">> := 970,
        <<"observations">> := 1000, <<"processes">> := 12} =
        json(#{findings => [], unseen => [{deadlock, "not looked at"}]}),
    ?assertEqual([#{<<"kind">> => <<"deadlock">>, <<"why">> => <<"not looked at">>}], Unseen).

%% Of a node's look: what its samples alone do not tell, and processes that were not sampled.
what_a_look_at_the_node_found_is_shown_with_what_the_profile_has_test() ->
    {ok, Profile} = flame_prof_profile:read("test/corpus/trouble/none.log.zst"),
    #{erl_pid := Pid} = hd([P || #{erl_pid := Of} = P <- flame_prof_profile:processes(Profile),
        Of =/= <<>>]),
    Look = #{node => 'shop@h', engine => native, span_us => 1, seen => [waits, samples]},
    Told = fun(More) -> foreign_formats:json(flame_prof_doctor_page:told(maps:merge(More,
        diagnosis([finding(#{kind => deadlock, processes => [#{pid => Pid, name => <<"bank">>},
            #{pid => <<"<0.99999.0>">>, name => <<"fraud">>}]})])), Profile)) end,
    #{<<"findings">> := [Shown], <<"source">> := <<"node">>} = Told(#{looked_at => Look}),
    ?assertMatch(#{<<"kind">> := <<"deadlock">>, <<"pids">> := [Pid]}, Shown),
    ?assertMatch(#{<<"source">> := <<"files">>}, Told(#{looked_at => Look#{node := none}})),
    ?assertMatch(#{<<"source">> := <<"files">>}, Told(#{})),
    ok = flame_prof_profile:close(Profile).

a_judge_that_fails_is_no_healthy_node_test() ->
    [?assertMatch(#{<<"state">> := <<"failed">>, <<"why">> := _},
            foreign_formats:json(flame_prof_doctor_page:judged(Judge, ?INFO)))
     || Judge <- [fun() -> error(bad) end, fun() -> throw(bad) end, fun() -> exit(bad) end,
            fun() -> #{no => diagnosis} end, fun() -> exit(self(), kill), timer:sleep(infinity) end]
    ].

a_judge_that_fills_the_memory_ends_test() ->
    Judge = fun() -> [erlang:make_tuple(16000000, full) || _ <- lists:seq(1, 3)] end,
    #{<<"state">> := <<"failed">>, <<"why">> := Why} =
        foreign_formats:json(flame_prof_doctor_page:judged(Judge, ?INFO)),
    ?assertEqual(<<"it needs more memory than it may have">>, Why).

a_judge_that_does_not_end_is_ended_test() ->
    #{<<"state">> := <<"failed">>, <<"why">> := Why} =
        foreign_formats:json(flame_prof_doctor_page:judged(fun work/0, ?INFO)),
    ?assertEqual(<<"it takes more than ten seconds of work">>, Why).

%% Each counts as many reductions, and takes a moment.
work() ->
    true = erlang:bump_reductions(10000000),
    work().

a_closed_profile_is_not_judged_test() ->
    {ok, Profile} = flame_prof_profile:read("test/corpus/ours.log"),
    ok = flame_prof_profile:close(Profile),
    ?assertMatch(#{<<"state">> := <<"failed">>},
        foreign_formats:json(flame_prof_doctor_page:judged(Profile))).

finding(More) ->
    maps:merge(#{kind => mailbox, severity => warning, size => 1, title => "title",
        sentences => ["one."], command => "flame_prof waits NODE --process order_store",
        processes => [], numbers => #{}
    }, More).

diagnosis(Findings) -> #{findings => Findings, unseen => []}.
shown(Findings) -> maps:get(<<"findings">>, json(diagnosis(Findings))).

json(Diagnosis) ->
    foreign_formats:json(flame_prof_doctor_page:judged(fun() -> Diagnosis end, ?INFO)).
