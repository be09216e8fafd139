%% Rules of the doctor that judge samples: each finds what made them, and not the nearest healthy
%% thing that looks like it (test/support/made_samples.erl). Other findings must not be there.
-module(flame_prof_doctor_samples_tests).

-include_lib("eunit/include/eunit.hrl").

-import(made_samples, [judged/1, judged/2, holder/2, worker/2, worker/3, stack/2]).

-define(MIB, 1048576).

%%% Recorded ones, of which examples/trouble knows the truth.

recorded_problems_are_told_with_their_process_test_() ->
    [{Problem, {timeout, 600, fun() -> ?assertEqual(Expected, of_file(Problem)) end}}
     || {Problem, Expected} <- [{"mailbox", [{mailbox, <<"audit_log">>}]},
            {"gc", [{gc, <<"report_builder">>}]},
            {"hot_function", [{hot_function, <<"price_engine">>}]},
            {"spawn_storm", [{spawn_storm, <<"fanout">>}]},
            {"binary_leak", [{binary_leak, <<"session_cache">>}]},
            {"table", [{table_growth, <<"deduplicator">>}]},
            {"heap_growth", [{heap_growth, <<"visit_log">>}]},
            {"fragmentation", [{fragmentation, none}]},
            {"none", []}]].

of_file(Problem) ->
    Path = checkout:path("test/corpus/trouble/" ++ Problem ++ ".log.zst"),
    {ok, Profile} = flame_prof_profile:read(Path),
    #{findings := Found} = flame_prof_doctor:of_profile(Profile, #{}),
    named(Found).

named(Found) -> [{Kind, name(Processes)} || #{kind := Kind, processes := Processes} <- Found].

name([#{name := Name} | _]) -> Name;
name([]) -> none.

text(#{title := Title, sentences := Sentences}) ->
    unicode:characters_to_list([Title | Sentences]).

%%% Mailboxes.

idle() -> holder(idle, fun(_) -> #{} end).

mailbox(Name, Length) ->
    holder(Name, fun(Seconds) -> #{message_queue_len => round(Length(Seconds))} end).

a_queue_that_grows_and_stays_is_critical_test() ->
    [One] = judged([idle(), mailbox(audit, fun(S) -> 1600 * S end)]),
    #{kind := mailbox, severity := critical, function := <<"audit:work/1">>} = One,
    #{numbers := #{per_second := Rate, most := Most}} = One,
    ?assert(abs(Rate - 1600) < 20),
    ?assert(Most > 15900 andalso Most =< 16000).

a_queue_that_never_falls_is_told_before_it_is_long_test() ->
    [One] = judged([idle(), mailbox(audit, fun(S) -> 60 * S end)]),
    ?assertMatch(#{kind := mailbox, severity := warning}, One),
    ?assertMatch({match, _}, re:run(text(One), "grew from 0 to 599 messages in 1?[0-9.]+ s")).

a_queue_that_falls_has_its_most_and_its_end_test() ->
    Text = fun(Length) -> [One] = judged([idle(), mailbox(audit, Length)]), text(One) end,
    ?assertMatch({match, _}, re:run(Text(fun(S) -> 9000 - 800 * S end),
        "had up to 9,000 messages in its mailbox"
        "Its message queue had up to 9,000 messages in 1?[0-9.]+ s. It is 1,0[0-9]+ at the end")),
    ?assertMatch({match, _}, re:run(Text(fun(S) -> min(8000, 4000 * S) - 700 * max(0, S - 5) end),
        "queue grew from [0-9]+ to 8,000 messages in [12][.0-9]* s, .* a second. It is 4,5[0-9]+ at the end")).

%% Of a node with a look at that mailbox.
looked(More) ->
    Own = list_to_pid("<0.101.0>"),
    Audit = mailbox(audit, fun(S) -> 1600 * S end),
    #{at := At} = Audit,
    Served = Audit#{at := fun(Us) -> (At(Us))#{words => "message=cast/{write,_} "} end},
    text_file:with(made_samples:text([idle(), Served], #{}), fun(Path) ->
        {ok, Profile} = flame_prof_profile:read(Path),
        {ok, Samples} = flame_prof_doctor_samples:read(Profile),
        Evidence = (flame_prof_doctor_samples:evidence(Samples))#{node := 'shop@h',
            mailboxes => [maps:merge(#{process => Own, engine => native, length => 8000,
                unknown => [], counted => 8000, names => #{}}, More)]},
        #{findings := Found} = flame_prof_doctor:judge(Evidence, #{}),
        ok = flame_prof_profile:close(Profile),
        [One] = [doctor_finding:checked(F) || #{kind := mailbox} = F <- Found],
        One
    end).

-define(SENDER, "<0.7.0>").

sent_by(Name) -> sent_by(list_to_pid(?SENDER), #{list_to_pid(?SENDER) => Name}).

sent_by(Sender, Names) ->
    looked(#{senders => [{Sender, 7200}, {unknown, 800}], all_senders => 2, names => Names}).

says(One, Said) -> ?assertMatch({_, {match, _}}, {text(One), re:run(text(One), Said)}).

one_who_floods_a_mailbox_is_told_by_name_with_the_share_test() ->
    One = sent_by(#{registered_name => feed, initial_call => {feed, init, 1}}),
    says(One, "90 % of the messages in it are from feed \\(" ?SENDER "\\)\\."),
    ?assertMatch(#{processes := [#{name := <<"audit">>}, #{name := <<"feed">>, pid := <<?SENDER>>}],
        numbers := #{sender_share := 0.9, sender_messages := 7200, counted := 8000}}, One),
    says(sent_by(#{initial_call => {feed, init, 1}}), "from feed:init/1 \\(" ?SENDER "\\)\\."),
    says(sent_by(exited), "from " ?SENDER ", which has exited\\.").

one_who_floods_and_is_no_process_of_the_node_is_told_as_that_test() ->
    Of = fun(Sender) ->
        #{processes := [#{name := <<"audit">>}]} = One = sent_by(Sender, #{}),
        One
    end,
    says(Of({node, 'till@h2'}), "from processes of the node till@h2\\."),
    says(Of(hd(erlang:ports())), "from #Port<0\\.[0-9]+>\\."),
    says(Of(clock_service), "from the VM \\(clock_service\\)\\."),
    says(Of(unknown), "from senders that are not known\\.").

of_many_who_send_there_is_a_number_test() ->
    Pid = list_to_pid(?SENDER),
    One = looked(#{senders => [{Pid, 400}, {unknown, 300}], all_senders => 23,
        names => #{Pid => #{registered_name => feed}}}),
    says(One, "They are from 23 senders\\."),
    ?assertMatch(#{processes := [_], numbers := #{senders := 23}}, One).

the_kind_of_message_that_a_slow_process_works_for_is_told_test() ->
    says(looked(#{}), "It is in audit:work/1, mostly for cast:{write,_}\\."),
    ?assertEqual(nomatch, re:run(text(looked(#{})), "are from")).

rushes_and_queues_that_stay_short_are_none_test() ->
    ?assertEqual([], judged([
        mailbox(rush, fun(S) -> max(0, 3000 * (1 - (S - 2 * trunc(S / 2)))) end),
        mailbox(full, fun(_) -> 900 end),
        mailbox(saw, fun(S) -> 40 * (trunc(S) rem 5) end)])).

%%% Memory.

heap(Name, Mib) -> holder(Name, fun(S) -> #{memory => round(Mib(S) * ?MIB)} end).

a_heap_that_grows_is_found_below_its_collections_test() ->
    [One] = judged([idle(), heap(leaky, fun(S) -> 5 + 8 * S + 6 * (S - trunc(S)) end)]),
    ?assertMatch(#{kind := heap_growth, function := <<"leaky:work/1">>}, One#{
        function => <<"leaky:work/1">>}),
    #{numbers := #{bytes_per_second := Rate, most := Most}, command := Command} = One,
    ?assert(abs(Rate / ?MIB - 8) < 1.5),
    %% A copy of it has room.
    [_, Room] = string:split(lists:flatten(io_lib:format("~ts", [Command])), " --max-memory "),
    ?assert(list_to_integer(Room) * ?MIB > Most).

%% Its blocks are enlarged once in the ten seconds.
large(Name, Survived) ->
    holder(Name, fun(S) ->
        Words = trunc(Survived(S) * ?MIB / 8),
        Recent = min(Words, 400000),
        #{memory => (if S < 6 -> 212; true -> 254 end) * ?MIB, recent_size => Recent,
            old_heap_size => Words - Recent}
    end).

what_collections_leave_of_a_large_heap_is_compared_test() ->
    [One] = judged([idle(), large(log, fun(S) -> 150 + 8 * (trunc(2 * S) / 2) end)]),
    ?assertMatch(#{kind := heap_growth, processes := [#{name := <<"log">>}]}, One),
    #{numbers := #{bytes_per_second := Rate}} = One,
    ?assert(abs(Rate / ?MIB - 8) < 1),
    ?assertMatch({match, _}, re:run(text(One), "What its collections leave only grows")).

what_collections_leave_that_falls_or_is_no_more_than_a_part_is_none_test() ->
    ?assertEqual([], judged([large(full, fun(_) -> 200 end),
        large(slow, fun(S) -> 150 + 2.5 * S end),
        large(sweeps, fun(S) -> 110 + 25 * (trunc(S) rem 4) end),
        large(once, fun(S) -> if S < 5 -> 150; true -> 200 end end)])).

%% In equal parts of the ten seconds.
parts(Mib) -> fun(S) -> lists:nth(min(length(Mib), 1 + trunc(S * length(Mib) / 10)), Mib) end.

%% As the heap of a list that gets 15 MB a second does on OTP 27; a state that grows in steps.
a_heap_that_grows_through_full_sweeps_is_found_test() ->
    List = [57, 95, 95, 95, 95, 68, 101, 101, 101, 68, 98, 98, 98, 117, 150, 150, 150, 150, 150,
        117, 157, 157, 157, 157, 117, 165, 165, 165, 165, 165],
    %% On OTP 29.
    Flat = [95, 95, 95, 68, 101, 101, 101, 101, 68, 68, 98, 98, 98, 117, 150, 150, 150, 150, 150,
        150, 117, 150, 150, 150, 117, 150, 150, 150, 150, 150, 150, 117],
    Steps = [20, 20, 40, 40, 30, 60, 60, 45, 45, 80, 80, 70, 95, 95, 85, 110],
    [?assertEqual([{heap_growth, <<"leaky">>}], named(judged([idle(), heap(leaky, parts(Mib))])))
        || Mib <- [List, Flat, Steps]].

a_heap_that_full_sweeps_make_as_small_as_before_is_none_test() ->
    ?assertEqual([], judged([heap(long_saw, fun(S) -> 20 + 40 * (S - 4.8 * trunc(S / 4.8)) end),
        heap(saw_of_two, parts([20, 40, 60, 80, 100, 22, 45, 65, 85, 105])),
        heap(filled, parts([10, 20, 40, 70, 60, 90, 60, 90, 60, 90, 60, 90, 60, 90, 60, 90])),
        heap(varies, parts([20, 35, 50, 30, 60, 45, 80, 50])),
        heap(falls_back, parts([20, 40, 60, 50, 80, 70, 100, 20]))])).

%%% CPUs.

collections_above_a_fifth_of_the_time_are_one_test() ->
    [One] = judged([idle(), worker(report, [{running, 0.3}, {garbage_collecting, 0.2}])]),
    ?assertMatch(#{kind := gc, function := <<"report:work/1">>}, One),
    ?assertMatch({match, _}, re:run(text(One), "for 40 % of its time on a CPU")).

%% In a NIF for so many ticks of hundred, with these reductions by tick.
native(Name, Ticks, Scheduler, Reductions) ->
    #{name => Name, at => fun(Us) ->
        case (Us div 10000) rem 200 of
            Tick when Tick < Ticks ->
                #{status => running, scheduler => Scheduler,
                    values => #{reductions => Reductions(Us)},
                    stack => stack(Name, [{"deflate", "libz.so"}, {"zlib:deflate_nif/4", "nif"}])};
            _ ->
                #{status => waiting, values => #{reductions => Reductions(Us)},
                    stack => stack(Name, ["timer:sleep/1"])}
        end
    end}.

a_scheduler_that_stays_in_one_call_is_stuck_test() ->
    [One] = judged([idle(), native(codec, 150, 2, fun(Us) -> Us div 2000000 end)]),
    #{kind := scheduler_stuck, severity := critical, numbers := #{us := Us, scheduler := 2}} = One,
    ?assertEqual(1490000, Us),
    ?assertEqual([{scheduler_stuck, <<"codec">>}],
        named(judged([idle(), native(codec, 80, 2, fun(Us1) -> Us1 div 2000000 end)]))).

%% As OTP 27 reads a number of many digits: in Erlang, with instructions that take long.
an_instruction_on_large_numbers_keeps_a_scheduler_too_test() ->
    SameFor = fun(Us) -> Us div 2000000 end,
    Of = fun(Name, Leaf) ->
        #{at := At} = Native = native(Name, 150, 2, SameFor),
        Native#{at := fun(Us) ->
            case At(Us) of
                #{status := running} = State ->
                    State#{stack => stack(Name, Leaf ++ ["erlang:combine_pairs/2"])};
                State -> State
            end
        end}
    end,
    [One] = judged([idle(), Of(lottery, [{"[beam.smp]", "beam.smp"}])]),
    ?assertMatch(#{kind := scheduler_stuck, function := <<"lottery:work/1">>}, One),
    ?assertEqual([], judged([idle(), Of(without_cpu, [])])).

short_calls_yielding_ones_and_dirty_schedulers_are_none_test() ->
    SameFor = fun(Us) -> Us div 2000000 end,
    ?assertEqual([], judged([idle(), native(short, 12, 2, SameFor)])),
    ?assertEqual([], judged([idle(), native(dirty, 150, 0, SameFor)])),
    ?assertEqual([], judged([idle(), native(yields, 150, 2, fun(Us) -> Us end)])).

spawner(Share) ->
    #{at := At} = Worker = worker(fanout, [{running, Share}]),
    Worker#{at := fun(Us) ->
        case At(Us) of
            #{status := running} = State ->
                State#{stack => stack(fanout, [{"erl_create_process", "beam.smp"},
                    {"erlang:spawn_opt/4", "bif"}])};
            State -> State
        end
    end}.

processes(First, Last) ->
    #{own => [{3000000 * N, #{node_processes => P, node_runtime_ms => N}}
        || {N, P} <- [{1, First}, {3, Last}]]}.

a_process_that_spawns_all_the_time_is_one_while_the_node_stays_as_large_test() ->
    [One] = judged([idle(), spawner(0.03)], processes(5000, 5010)),
    ?assertMatch(#{kind := spawn_storm, function := <<"fanout:work/1">>}, One),
    ?assertEqual([], judged([idle(), spawner(0.03)], processes(5000, 9000))),
    ?assertEqual([], judged([idle(), spawner(0.004)], processes(5000, 5010))),
    Loaded = [worker(Name, [{running, Share}])
        || {Name, Share} <- [{one, 0.9}, {two, 0.8}, {three, 0.7}]],
    ?assertEqual([], judged([spawner(0.008) | Loaded], processes(5000, 5010))).

%%% What flame_prof lost.

lost(Last) ->
    Counters = #{ticks => 1000, missed => 20, attempted => 100000, written => 99000,
        inconsistent => 900, dropped => 0, lost => 0, budget_step => 4},
    First = maps:map(fun(_, _) -> 0 end, Counters),
    judged([idle()], #{own => [{1000000, First}, {9000000, maps:merge(Counters, Last)}]}).

losses_are_told_when_they_leave_holes_test() ->
    ?assertEqual([], lost(#{})),
    [begin
         [#{kind := losses} = One] = lost(Last),
         ?assertMatch({match, _}, re:run(text(One), Said))
     end || {Last, Said} <- [{#{missed => 1500}, "missed 60 % of its ticks"},
         {#{dropped => 5000}, "dropped 5.0 % of the samples"},
         {#{inconsistent => 8000}, "discarded 8 % of the samples as inconsistent"},
         {#{budget_step => 7}, "fewer processes to stay within the CPU budget .step 7."}]].

%%% All.

samples_of_what_runs_tell_nothing_of_the_time_of_a_process_test() ->
    Running = [idle(), worker(engine, [{running, 1}]),
        worker(report, [{running, 0.6}, {garbage_collecting, 0.4}])],
    Own = [{1000000, #{ticks => 1}}, {9000000, #{ticks => 2000}}],
    ?assertEqual([], judged(Running, #{own => Own, own_words => "mode=schedulers "})),
    ?assertEqual(2, length(judged(Running, #{own => Own}))).

without_samples_rules_say_so_test() ->
    #{findings := [], unseen := Unseen} =
        flame_prof_doctor:judge(#{unseen => #{samples => <<"nothing was sampled">>}}, #{}),
    ?assertEqual({gc, <<"nothing was sampled">>}, lists:keyfind(gc, 1, Unseen)).
