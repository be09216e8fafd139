%% Rules of the doctor out of looks at waits, ports, supervisors, monitors, the logger and binaries:
%% for each a fault, and the healthy thing that looks most like it. Evidence is made by hand.
-module(flame_prof_doctor_waits_rules_tests).

-include_lib("eunit/include/eunit.hrl").

-define(US, 10000000).

%%% What the doctor is given.

p(I) -> list_to_pid("<0." ++ integer_to_list(I) ++ ".0>").

text(I) -> iolist_to_binary(["<0.", integer_to_list(I), ".0>"]).

edge(From, To) -> edge(From, To, 3000).

edge(From, To, SinceMs) ->
    #{from => p(From), to => p(To), how => call, tag => {tuple, get, 2}, ref => {From, 0, 0},
        site => {gen, do_call, 4}, since_ms => SinceMs}.

%% The look that flame_prof_waits makes of these edges; the processes have these roles.
look(Edges, Told) ->
    Part = #{engine => native, engine_reason => <<"native: made up">>, edges => Edges,
        counts => #{processes => 100, idle => 0, unknown => 0}, unknown => #{}},
    Ask = fun(Requests) ->
        [{Node, case Request of
            {flame_prof_waits_part, part, _} -> {ok, {ok, Part}};
            {flame_prof_waits_part, told, [Pids, _]} -> {ok, maps:with(Pids, Told)};
            {flame_prof_waits_proof, proven, [Of]} ->
                {ok, [flame_prof_waits_graph:identity(Edge) || Edge <- Of]};
            {flame_prof_wait_learn, takes, _} -> {ok, #{}};
            {lists, map, [_, Names]} -> {ok, [undefined || _ <- Names]}
        end} || {Node, Request} <- Requests]
    end,
    {ok, Look} = flame_prof_waits:look(#{top => 20}, Ask),
    Since = maps:from_list([{From, Ms} || #{from := From, since_ms := Ms} <- Edges]),
    Look#{edges := [Edge#{since_ms => maps:get(From, Since)}
        || #{from := From} = Edge <- maps:get(edges, Look)]}.

told(Name) -> told(Name, 0).

told(Name, Queue) ->
    #{registered_name => Name, status => waiting, message_queue_len => Queue, memory => 4096,
        stack => [{shop_tariff, lookup, 2, []}, {gen_server, loop, 7, []}]}.

evidence(Edges, Told) ->
    #{node => none, engine => native, span_us => ?US, unseen => #{}, waits => look(Edges, Told)}.

%% A process of a profile, with the least of its queue in each part.
sampled(I, Queue, More) ->
    maps:merge(#{pid => text(I), name => <<"order_store">>, observations => 900, running => 800,
        runnable => 50, waiting => 50, gc => 0, other => 0, waits_for => [],
        queue => [{N * 500000, Min, Min + 5, Min} || {N, Min} <- numbered(Queue)],
        queue_range => {hd(Queue), lists:min(Queue), lists:max(Queue), lists:last(Queue)},
        bin_vheap => []}, More).

numbered(List) -> lists:zip(lists:seq(0, length(List) - 1), List).

samples(Processes) -> samples(Processes, fun(_, _) -> [] end).

samples(Processes, Stacks) -> #{processes => Processes, stacks => Stacks}.

kinds(Rule, Evidence) ->
    Limits = maps:from_list([{Name, Default} || {Name, Default, _} <- Rule:thresholds()]),
    [{maps:get(severity, F), [maps:get(name, P, none) || P <- maps:get(processes, F)]}
     || F <- Rule:find(Evidence, Limits), is_list(unicode:characters_to_list(sentences(F)))].

sentences(#{title := Title, sentences := Sentences, command := Command}) ->
    ?assert(length(Sentences) =< 4),
    doctor_command:parses(Command),
    [Title, Sentences, Command].

%%% Deadlocks.

two_servers_that_call_each_other_are_a_deadlock_test() ->
    Evidence = evidence([edge(1, 2), edge(2, 1), edge(3, 1)],
        #{p(1) => told(bank), p(2) => told(fraud)}),
    ?assertEqual([{critical, [<<"bank">>, <<"fraud">>]}],
        kinds(flame_prof_doctor_deadlock, Evidence)).

a_chain_without_a_cycle_is_no_deadlock_test() ->
    Evidence = evidence([edge(1, 2), edge(2, 3)], #{p(3) => told(disk)}),
    ?assertEqual([], kinds(flame_prof_doctor_deadlock, Evidence)).

%%% One that many wait for.

callers(N, To, Ms) -> [edge(100 + I, To, Ms) || I <- lists:seq(1, N)].

bottleneck(Edges, Queue, Processes) ->
    Evidence = evidence(Edges, #{p(1) => told(order_store, Queue)}),
    kinds(flame_prof_doctor_bottleneck, Evidence#{samples => samples(Processes)}).

many_that_have_waited_for_long_are_a_bottleneck_test() ->
    ?assertEqual([{warning, [<<"order_store">>]}], bottleneck(callers(30, 1, 2000), 29, [])).

many_that_wait_shortly_behind_a_queue_that_stays_are_a_bottleneck_test() ->
    Always = sampled(1, lists:duplicate(20, 25), #{}),
    ?assertEqual([{warning, [<<"order_store">>]}], bottleneck(callers(30, 1, 0), 29, [Always])).

a_burst_that_one_look_meets_is_no_bottleneck_test() ->
    Burst = sampled(1, [0, 0, 0, 40, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40, 20, 0, 0, 0, 30], #{}),
    ?assertEqual([], bottleneck(callers(30, 1, 0), 29, [Burst])).

workers_that_wait_for_jobs_have_no_bottleneck_test() ->
    ?assertEqual([], bottleneck(callers(30, 1, 9000), 0, [])).

few_callers_are_no_bottleneck_test() ->
    ?assertEqual([], bottleneck(callers(5, 1, 2000), 4, [])).

a_server_of_a_node_without_cpu_is_no_bottleneck_test() ->
    Late = sampled(1, lists:duplicate(20, 25), #{running => 100, runnable => 750}),
    ?assertEqual([], bottleneck(callers(30, 1, 2000), 29, [Late])).

what_waits_for_its_database_is_named_not_the_database_test() ->
    Edges = [edge(1, 2) | callers(20, 1, 2000)],
    Evidence = evidence(Edges, #{p(1) => told(order_store, 19), p(2) => told(db)}),
    ?assertEqual([{warning, [<<"order_store">>]}],
        kinds(flame_prof_doctor_bottleneck, Evidence)),
    ?assertEqual([], kinds(flame_prof_doctor_chain, Evidence)).

%%% Chains.

chain(Ms) -> [edge(4, 3, Ms), edge(3, 2, Ms), edge(2, 1, Ms)].

chain_of(Edges, Told) ->
    kinds(flame_prof_doctor_chain, evidence([sleeps(1) | Edges], Told)).

sleeps(I) ->
    #{from => p(I), to => timer, how => timer, tag => unknown, ref => none,
        site => {timer, sleep, 1}, since_ms => 0}.

calls_that_last_behind_one_that_sleeps_are_a_chain_test() ->
    ?assertMatch([{_, [<<"disk">> | _]}], chain_of(chain(4000), #{p(1) => told(disk)})).

many_behind_a_chain_that_moves_are_one_too_test() ->
    Front = sampled(4, lists:duplicate(20, 11), #{}),
    Evidence = evidence([sleeps(1) | chain(0)] ++ callers(12, 4, 0),
        #{p(1) => told(disk), p(4) => told(front, 11)}),
    ?assertMatch([{warning, [<<"disk">> | _]}],
        kinds(flame_prof_doctor_chain, Evidence#{samples => samples([Front])})).

one_request_on_its_way_is_no_chain_test() ->
    ?assertEqual([], chain_of(chain(0), #{p(1) => told(disk)})).

those_who_wait_for_news_are_no_chain_test() ->
    Evidence = evidence(chain(9000), #{p(1) => told(news)}),
    ?assertEqual([], kinds(flame_prof_doctor_chain, Evidence)).

%%% What of the system is looked at.

system(First, Last) -> system(First, Last, #{}).

system(First, Last, More) ->
    None = #{handlers => [], ports => [], connections => [], supervisors => [], monitors => []},
    maps:merge(#{node => none, engine => native, span_us => ?US, unseen => #{},
        system => {maps:merge(None, First), maps:merge(None, Last)}}, More).

supervisor(Restarts, Child) ->
    #{supervisors => [#{process => p(5), name => gateway_sup, module => gateway, intensity => 1000,
        within_s => 10, restarts => Restarts, children => #{p(Child) => {gateway, link, 0}}}]}.

restarts_at_both_ends_are_a_loop_test() ->
    ?assertEqual([{warning, [<<"gateway_sup">>]}], kinds(flame_prof_doctor_restart_loop,
        system(supervisor(8, 50), supervisor(9, 90)))).

a_crash_of_several_children_is_no_loop_test() ->
    ?assertEqual([], kinds(flame_prof_doctor_restart_loop,
        system(supervisor(0, 50), supervisor(10, 90)))).

port(Queued, Output) ->
    #{port => hd(erlang:ports()), name => <<"tcp_inet">>, owner => p(6), owner_name => <<"feed">>,
        queued => Queued, output => Output}.

a_socket_that_nobody_reads_is_busy_test() ->
    ?assertEqual([{warning, [<<"feed">>]}], kinds(flame_prof_doctor_busy_port,
        system(#{ports => [port(200000, 900000)]}, #{ports => [port(200000, 900000)]}))).

a_socket_that_sends_much_is_not_test() ->
    ?assertEqual([], kinds(flame_prof_doctor_busy_port,
        system(#{ports => [port(200000, 900000)]}, #{ports => [port(300000, 90000000)]}))).

connection(Queued, Output) ->
    #{node => there, port => hd(erlang:ports()), queued => Queued, output => Output}.

a_node_that_does_not_read_keeps_a_connection_busy_test() ->
    Last = #{connections => [connection(90000, 500000)], ports => [port(90000, 500000)],
        blocked => #{{shop_replica, put, 2} => 5}},
    Evidence = system(#{connections => [connection(80000, 490000)],
        ports => [port(80000, 490000)]}, Last),
    ?assertEqual([{warning, []}], kinds(flame_prof_doctor_busy_dist, Evidence)),
    ?assertEqual([], kinds(flame_prof_doctor_busy_port, Evidence)).

a_connection_that_moves_is_none_test() ->
    ?assertEqual([], kinds(flame_prof_doctor_busy_dist, system(
        #{connections => [connection(90000, 500000)]},
        #{connections => [connection(90000, 50000000)]}))).

monitors(First, Last, Came) ->
    kinds(flame_prof_doctor_monitor_growth, system(
        #{monitors => [{p(7), N, <<"presence">>} || N <- First]},
        #{monitors => [{p(7), Last, <<"presence">>}]},
        #{seconds => [#{time_us => 0, node_processes => 1000},
            #{time_us => ?US, node_processes => 1000 + Came}]})).

monitors_that_only_come_grow_test() ->
    ?assertEqual([{warning, [<<"presence">>]}], monitors([3000], 28000, 2)),
    ?assertEqual([{warning, [<<"presence">>]}], monitors([], 25000, 2)).

a_registry_that_grows_with_its_sessions_does_not_test() ->
    ?assertEqual([], monitors([3000], 8000, 5000)),
    ?assertEqual([], monitors([30000], 30500, 2)).

handler(Queue) ->
    #{handlers => [#{process => p(8), name => logger_std_h_default, queue => Queue}]}.

a_handler_that_always_has_messages_is_overloaded_test() ->
    ?assertEqual([{warning, [<<"logger_std_h_default">>]}],
        kinds(flame_prof_doctor_logger, system(handler(150), handler(80)))).

a_handler_that_has_a_burst_is_not_test() ->
    ?assertEqual([], kinds(flame_prof_doctor_logger, system(handler(0), handler(80)))).

%%% Files.

file_io(Leaf, Ms) ->
    Stack = {[{Leaf, called}, {<<"prim_file:write/2">>, erlang},
        {<<"shop_journal:entry/2">>, erlang}, {<<"proc_lib:init_p/3">>, erlang}], 800},
    Writer = sampled(1, lists:duplicate(20, 6), #{name => <<"journal">>}),
    Evidence = evidence(callers(7, 1, Ms), #{p(1) => told(journal, 6)}),
    kinds(flame_prof_doctor_file_io,
        Evidence#{samples => samples([Writer], fun(_, _) -> [Stack] end)}).

a_journal_that_syncs_while_others_wait_is_slow_test() ->
    ?assertEqual([{warning, [<<"journal">>]}], file_io(<<"prim_file:sync_nif/1">>, 2000)).

one_that_computes_while_others_wait_is_not_test() ->
    ?assertEqual([], file_io(<<"erlang:phash2/1">>, 2000)).

%%% Binaries.

binaries(Node, Holder) ->
    Mb = 1 bsl 20,
    Cache = sampled(9, [0, 0, 0], #{name => <<"cache">>,
        bin_vheap => [{N * 1000000, Of * Mb, Of * Mb, Of * Mb} || {N, Of} <- numbered(Holder)]}),
    kinds(flame_prof_doctor_binary_leak, #{span_us => ?US, samples => samples([Cache]),
        seconds => [#{time_us => N * 1000000, node_memory_binary => Of * Mb}
            || {N, Of} <- numbered(Node)]}).

binaries_that_only_grow_are_told_with_their_holder_test() ->
    Grows = [30, 36, 42, 48, 54, 60, 66, 72, 78, 84, 90],
    ?assertEqual([{warning, [<<"cache">>]}], binaries(Grows, Grows)).

garbage_does_not_hide_a_leak_test() ->
    Holder = [30, 36, 42, 48, 54, 60, 66, 72, 78, 84, 90],
    ?assertEqual([{warning, [<<"cache">>]}],
        binaries([31, 49, 43, 61, 55, 73, 67, 85, 79, 97, 91], Holder)),
    ?assertEqual([], binaries([31, 69, 33, 71, 35, 73, 37, 75, 39, 77, 81], Holder)).

a_holder_that_two_looks_saw_is_told_with_what_it_pins_test() ->
    Mb = 1 bsl 20,
    Pid = list_to_pid("<0.95.0>"),
    Holder = #{process => Pid, binaries => 900, bytes => 70 * Mb, grown => 55 * Mb,
        function => <<"cache:serve/2">>, pins => [#{path => <<"cache:serve/2 slot 1 > list">>,
            binaries => 900, bytes => 60 * Mb, shown_bytes => 1 * Mb}]},
    Rule = flame_prof_doctor_binary_leak,
    Limits = maps:from_list([{Name, Default} || {Name, Default, _} <- Rule:thresholds()]),
    [#{title := Title, sentences := Sentences, processes := [Process]}] = Rule:find(#{
        span_us => ?US, samples => samples([]),
        seconds => [#{time_us => N * 1000000, node_memory_binary => (30 + 6 * N) * Mb}
            || N <- lists:seq(0, 10)],
        binaries => #{growing => [Holder], names => #{Pid => #{registered_name => cache}}}
    }, Limits),
    ?assertEqual(#{pid => <<"<0.95.0>">>, name => <<"cache">>}, Process),
    Text = unicode:characters_to_binary([Title | Sentences]),
    [?assertNotEqual({Part, nomatch}, {Part, binary:match(Text, Part)})
        || Part <- [<<"cache (<0.95.0>) holds binaries that grow by 6.0 MiB a second">>,
            <<"55.0 MiB more">>, <<"900 binaries">>, <<"it is in cache:serve/2.">>,
            <<"1.0 MiB of 60.0 MiB, keep them whole: cache:serve/2 slot 1">>]].

binaries_that_are_collected_now_and_then_are_not_test() ->
    ?assertEqual([], binaries([30, 50, 70, 30, 50, 70, 30, 50, 70, 90, 95],
        [10, 30, 50, 10, 30, 50, 10, 30, 50, 70, 75])).

a_cache_that_is_full_is_not_test() ->
    Fills = [30, 60, 90, 120, 130, 130, 130, 130, 130, 130, 130],
    ?assertEqual([], binaries(Fills, Fills)).
