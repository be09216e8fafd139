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
            {flame_prof_waits_proof, prove, [Of]} ->
                {ok, #{proven => [flame_prof_waits_graph:identity(Edge) || Edge <- Of],
                    late => []}};
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
        first_us => 0, last_us => ?US,
        queue => [{N * 500000, Min, Min + 5, Min} || {N, Min} <- numbered(Queue)],
        queue_range => {hd(Queue), lists:min(Queue), lists:max(Queue), lists:last(Queue)},
        bin_vheap => []}, More).

numbered(List) -> lists:zip(lists:seq(0, length(List) - 1), List).
samples(Processes) -> samples(Processes, fun(_, _) -> [] end).
samples(Processes, Stacks) -> #{processes => Processes, stacks => Stacks}.

kinds(Rule, Evidence) ->
    Limits = maps:from_list([{Name, Default} || {Name, Default, _} <- Rule:thresholds()]),
    [{maps:get(severity, F), [maps:get(name, P, none) || P <- maps:get(processes, F)]}
     || F <- Rule:find(Evidence, Limits), #{} <- [doctor_finding:checked(F)]].

%%% Deadlocks.

two_servers_that_call_each_other_are_a_deadlock_test() ->
    Evidence = evidence([edge(1, 2), edge(2, 1), edge(3, 1)],
        #{p(1) => told(bank), p(2) => told(fraud)}),
    ?assertEqual([{critical, [<<"bank">>, <<"fraud">>]}],
        kinds(flame_prof_doctor_deadlock, Evidence)).

a_ring_of_many_is_told_in_four_sentences_test() ->
    Names = [bank, fraud, ledger, audit, rates],
    Edges = [edge(N, N rem 5 + 1) || N <- lists:seq(1, 5)],
    Evidence = evidence(Edges, maps:from_list([{p(N), told(Name)} || {Name, N} <-
        lists:zip(Names, lists:seq(1, 5))])),
    [Finding] = flame_prof_doctor_deadlock:find(Evidence, #{}),
    #{title := Title, sentences := [Ring | _], processes := Processes} =
        doctor_finding:checked(Finding),
    ?assertEqual(lists:sort([atom_to_binary(Name) || Name <- Names]),
        lists:sort([Name || #{name := Name} <- Processes])),
    ?assertMatch({match, _}, re:run(Title, " and 1 more wait for each other$")),
    %% The first four of the ring.
    {match, Steps} = re:run(Ring, " waits for ([a-z]+) for [^ ]+, in shop_tariff:lookup/2[;.]",
        [global, {capture, [1], list}]),
    ?assertEqual(4, length(lists:usort(Steps))).

cycles_that_there_was_no_time_to_check_are_unseen_test() ->
    Unseen = fun(Look) -> flame_prof_doctor_deadlock:unseen(#{waits => Look}, #{}) end,
    ?assertEqual(<<"there was no time to check 3 cycles of waits">>,
        Unseen(#{engine => native, unchecked => 3})),
    ?assertEqual(none, Unseen(#{engine => native, unchecked => 0})).

%% Of a look that has it no longer: these edges, of processes that have these names.
ended(Edges, Exited, Told) -> #{edges => Edges, all => 3, exited => Exited, processes => Told}.

text_of(#{title := Title, sentences := Sentences}) ->
    unicode:characters_to_binary([Title, " ", lists:join(" ", Sentences)]).

says(Finding, Parts) ->
    Text = text_of(doctor_finding:checked(Finding)),
    [?assertNotEqual({Part, Text, nomatch}, {Part, Text, binary:match(Text, Part)})
        || Part <- Parts].

deadlocks_of(Ended, Standing) ->
    Evidence = #{waits := Look} = evidence(Standing, #{p(1) => told(bank), p(2) => told(fraud)}),
    flame_prof_doctor_deadlock:find(Evidence#{waits := Look#{ended => Ended}}, #{}).

a_deadlock_that_a_time_out_has_ended_is_found_test() ->
    Names = #{p(7) => told(bank), p(8) => told(fraud)},
    Edges = [edge(7, 8, 3100), edge(8, 7, 3200)],
    [Finding] = deadlocks_of([ended(Edges, [p(7), p(8)], Names)], []),
    ?assertMatch(#{severity := warning, processes := [#{pid := <<"<0.7.0>">>}, _],
        numbers := #{times := 1, since_ms := 3100, waiting := 3}}, Finding),
    says(Finding, [<<"bank (<0.7.0>) and fraud (<0.8.0>) waited for each other">>,
        <<"bank waited for fraud for {get,_}, in shop_tariff:lookup/2; fraud waited for bank">>,
        <<"once in 10 s, for 3.1 s at least">>, <<"3 more processes waited">>,
        <<"It ended when bank and fraud exited">>]).

%% Their supervisor has started them again.
deadlocks_of_the_same_names_are_one_that_came_so_often_test() ->
    Of = fun(A, B, Ms) -> ended([edge(A, B, Ms), edge(B, A, Ms)], [],
        #{p(A) => told(bank), p(B) => told(fraud)}) end,
    [Finding] = deadlocks_of([Of(7, 8, 900), Of(9, 10, 2000)], []),
    ?assertMatch(#{severity := critical, numbers := #{times := 2, since_ms := 2000}}, Finding),
    says(Finding, [<<"They did so 2 times">>, <<"none of them exited: a call timed out">>]),
    [Stands] = deadlocks_of([Of(7, 8, 900)], [edge(1, 2), edge(2, 1)]),
    ?assertMatch(#{severity := critical, processes := [#{pid := <<"<0.1.0>">>}, _]}, Stands),
    says(Stands, [<<"wait for each other ">>, <<" at least, and did so once before in 10 s">>]).

deadlocks_of_other_names_are_others_test() ->
    Of = fun(A, B, Name) -> ended([edge(A, B), edge(B, A)], [],
        #{p(A) => told(bank), p(B) => told(Name)}) end,
    ?assertMatch([_, _], deadlocks_of([Of(7, 8, fraud), Of(9, 10, audit)], [])).

%%% What the last look has no more.

%% An earlier look, of evidence whose last one has nothing.
past(Edges, Told) ->
    #{waits := Last} = Evidence = evidence([], #{}),
    Evidence#{waits := Last#{earlier => [(look(Edges, Told))#{looks := 4}]}}.

one_that_many_had_waited_for_is_told_as_over_test() ->
    Evidence = past(callers(30, 1, 3000), #{p(1) => told(order_store, 29)}),
    ?assertEqual([{warning, [<<"order_store">>]}], kinds(flame_prof_doctor_bottleneck, Evidence)),
    [Finding] = flame_prof_doctor_bottleneck:find(Evidence,
        #{waiting => 8, critical_waiting => 100, ready => 0.5}),
    says(Finding, [<<"order_store (<0.1.0>) kept 30 processes waiting">>,
        <<"One had waited for 3.0 s or more. It was in shop_tariff:lookup/2. It was over before "
            "the last look. Seen in earlier looks in 10 s.">>]).

a_chain_that_many_were_behind_is_told_as_over_test() ->
    Edges = [sleeps(1) | chain(3000)] ++ callers(12, 4, 3000),
    Evidence = past(Edges, #{p(1) => told(disk), p(4) => told(front, 11)}),
    ?assertMatch([{warning, [<<"disk">> | _]}], kinds(flame_prof_doctor_chain, Evidence)),
    Limits = maps:from_list([{N, Of} || {N, Of, _} <- flame_prof_doctor_chain:thresholds()]),
    [Finding] = flame_prof_doctor_chain:find(Evidence, Limits),
    says(Finding, [<<"was the end of a chain of calls, 15 processes waited for it">>,
        <<"disk (<0.1.0>) slept">>, <<"lasted for 3.0 s or more, and were over">>]).

one_request_that_took_seconds_is_no_chain_test() ->
    ?assertEqual([], kinds(flame_prof_doctor_chain,
        past([sleeps(1) | chain(4000)], #{p(1) => told(disk)}))).

%%% One that many wait for.

callers(N, To, Ms) -> [edge(100 + I, To, Ms) || I <- lists:seq(1, N)].

those_who_wait_for_a_bottleneck_are_named_up_to_twenty_and_all_counted_test() ->
    Limits = #{waiting => 8, critical_waiting => 100, ready => 0.5},
    Waiters = fun(N) ->
        Edges = [edge(900, 1, 9000) | callers(N - 1, 1, 2000)],
        Evidence = evidence(Edges, #{p(1) => told(order_store, N - 1)}),
        [Finding] = flame_prof_doctor_bottleneck:find(Evidence#{
            samples => samples([sampled(900, [0], #{name => <<"till">>})])}, Limits),
        #{processes := [_], waiters := Named, numbers := #{waiting := N}} =
            doctor_finding:checked(Finding),
        Named
    end,
    ?assertEqual(10, length(Waiters(10))),
    Many = Waiters(300),
    ?assertEqual(20, length(Many)),
    %% The one that has waited longest.
    ?assertEqual(#{pid => text(900), name => <<"till">>}, hd(Many)).

what_waits_for_its_database_is_named_not_the_database_test() ->
    Edges = [edge(1, 2) | callers(20, 1, 2000)],
    Evidence = evidence(Edges, #{p(1) => told(order_store, 19), p(2) => told(db)}),
    ?assertEqual([{warning, [<<"order_store">>]}], kinds(flame_prof_doctor_bottleneck, Evidence)),
    ?assertEqual([], kinds(flame_prof_doctor_chain, Evidence)).

%%% Locks of global.

lock_edges(N) -> [(edge(100 + I, 1))#{how := lock, tag := {atom, seats}, ref := none,
    site := {global, random_sleep, 1}} || I <- lists:seq(1, N)].

%% So much of the time they wait for it.
locked(N, Part) ->
    Stacks = fun(_, _) -> [{[{<<"global:random_sleep/1">>, erlang}], round(900 * Part)}] end,
    Evidence = evidence(lock_edges(N), #{p(1) => told(booking)}),
    kinds(flame_prof_doctor_bottleneck_locks, Evidence#{samples =>
        samples([sampled(100 + I, [0], #{}) || I <- lists:seq(1, N)], Stacks)}).

a_global_lock_that_many_wait_for_all_the_time_is_told_with_its_holder_test() ->
    ?assertMatch([{warning, [<<"booking">> | _]}], locked(20, 0.9)).

%%% Chains.

chain(Ms) -> [edge(4, 3, Ms), edge(3, 2, Ms), edge(2, 1, Ms)].

sleeps(I) ->
    #{from => p(I), to => timer, how => timer, tag => unknown, ref => none,
        site => {timer, sleep, 1}, since_ms => 0}.

those_who_wait_for_news_are_no_chain_test() ->
    Evidence = evidence(chain(9000), #{p(1) => told(news)}),
    ?assertEqual([], kinds(flame_prof_doctor_chain, Evidence)).

%%% What of the system is looked at.

system(First, Last) -> system(First, Last, #{}).

system(First, Last, More) ->
    None = #{handlers => [], ports => [], connections => [], supervisors => []},
    maps:merge(#{node => none, engine => native, span_us => ?US, unseen => #{},
        system => {maps:merge(None, First), maps:merge(None, Last)}}, More).

supervisor(At, Restarts, Child) ->
    #{supervisors => [#{process => p(5), name => gateway_sup, module => gateway, intensity => 1000,
        within_s => 11, at_s => At, restarts => Restarts,
        children => #{p(Child) => {gateway, link, 0}}}]}.

restarts(First, Last) -> kinds(flame_prof_doctor_restart_loop, system(First, Last)).

restarts_before_and_after_the_first_look_are_a_loop_test() ->
    ?assertEqual([{warning, [<<"gateway_sup">>]}], restarts(supervisor(100, #{98 => 4, 100 => 4},
        50), supervisor(106, #{98 => 4, 100 => 4, 103 => 2}, 90))).

a_crash_of_several_children_is_no_loop_test() ->
    ?assertEqual([], restarts(supervisor(100, #{}, 50), supervisor(106, #{103 => 10}, 90))).

more_restarts_than_a_crash_makes_are_a_loop_test() ->
    ?assertEqual([{warning, [<<"gateway_sup">>]}],
        restarts(supervisor(100, #{}, 50), supervisor(106, #{103 => 12, 104 => 12}, 50))),
    ?assertEqual([{warning, [<<"gateway_sup">>]}],
        restarts(#{}, supervisor(106, #{103 => 12, 104 => 12}, 50))).

port(Queued, Output) ->
    #{port => hd(erlang:ports()), name => <<"tcp_inet">>, owner => p(6), owner_name => <<"feed">>,
        queued => Queued, output => Output}.

%% Messages come to a process that waits for its port, which takes as much each time.
sends(Taken, Times) ->
    Queue = [N * 200 * Times || N <- lists:seq(1, 20)],
    Feed = sampled(6, Queue, #{name => <<"feed">>, first_us => 0, last_us => ?US, tags => [],
        queue_range => {200 * Times, 200 * Times, 4000 * Times + 5, 4000 * Times}}),
    Evidence = system(#{ports => [port(200000, 900000)]}, #{ports => [port(200000,
        900000 + Taken)]}, #{samples => (samples([Feed]))#{by_queue => fun(_) -> [] end}}),
    #{findings := Found} = flame_prof_doctor:judge(Evidence, #{}),
    [{Kind, Severity} || #{kind := Kind, severity := Severity} <- Found,
        lists:member(Kind, [busy_port, mailbox])].

messages_of_one_that_waits_for_its_port_are_the_port_s_test() ->
    ?assertEqual([{busy_port, warning}], sends(0, 1)),
    ?assertEqual([{mailbox, warning}], sends(90000000, 1)).

what_explains_something_worse_is_as_severe_test() ->
    ?assertEqual([{mailbox, critical}], sends(90000000, 10)),
    ?assertEqual([{busy_port, critical}], sends(0, 10)).

%% Fifteen uploads are suspended in writes to a program that reads 40 KB a second: what is queued
%% waits for less than half a second. So many ports have bytes.
suspended_writers(Ports) ->
    Uploads = [sampled(I, [0, 0, 0], #{name => <<"upload">>, running => 0, runnable => 0,
        waiting => 90, other => 810}) || I <- lists:seq(20, 34)],
    Stacks = fun(_, [<<"suspended">>]) -> [{[{<<"erlang:port_command/2">>, erlang},
        {<<"thumbs:feed/2">>, erlang}, {<<"thumbs:upload/2">>, erlang}], 810}];
        (_, _) -> [] end,
    Of = fun(Output) -> #{ports => [(port(16000, Output))#{name => <<"sh">>, registered => <<"image_tool">>}
        || _ <- lists:seq(1, Ports)]} end,
    Found = flame_prof_doctor_busy_port_calls:find(system(Of(900000), Of(1300000),
        #{samples => (samples(Uploads, Stacks))#{mode => processes}}), #{suspended => 5}),
    [{maps:get(function, F), length(maps:get(processes, F))}
        || #{sentences := S} = F <- Found, #{} <- [doctor_finding:checked(F)],
            Ports > 1 orelse re:run(S, "Only image_tool, #Port") =/= nomatch].

many_that_are_suspended_at_one_port_are_told_whatever_it_takes_test() ->
    ?assertEqual([{<<"thumbs:feed/2">>, 15}], suspended_writers(1)),
    %% As those who send files are, each to a client of its own.
    ?assertEqual([], suspended_writers(15)),
    ?assertEqual([], suspended_writers(0)).

%% Of the module socket: so many processes wait to write at the looks, and so many bytes went.
of_module_socket(First, Last, Bytes) ->
    Of = fun(Id, Writers, Output) -> #{sockets => [#{socket => Id, owner => p(6),
        owner_name => <<"feed">>, writers => N, output => Output} || N <- [Writers], N > 0]} end,
    kinds(flame_prof_doctor_busy_port, system(Of(<<"#Ref<0.1.2.3>">>, First, 900000),
        Of(<<"#Ref<0.1.2.3>">>, Last, 900000 + Bytes))).

a_socket_of_the_module_socket_that_nobody_reads_is_busy_test() ->
    ?assertEqual([{warning, [<<"feed">>]}], of_module_socket(1, 1, 0)),
    ?assertEqual([{warning, [<<"feed">>]}], of_module_socket(2, 2, 100000)),
    %% As fast as a slow network, and one that waits at one look.
    [?assertEqual([], of_module_socket(First, Last, Bytes))
        || {First, Last, Bytes} <- [{1, 1, 900000}, {0, 1, 0}, {1, 0, 0}]].

connection(Queued, Output) ->
    #{node => there, port => hd(erlang:ports()), queued => Queued, output => Output}.

a_node_that_does_not_read_keeps_a_connection_busy_test() ->
    Last = #{connections => [connection(90000, 500000)], ports => [port(90000, 500000)],
        blocked => #{{shop_log, put, 1} => [{p(3), <<"log">>}],
            {shop_replica, put, 2} => [{p(1), <<"replica">>}, {p(2), <<>>}]}},
    Evidence = system(#{connections => [connection(80000, 490000)],
        ports => [port(80000, 490000)]}, Last),
    ?assertEqual([{warning, [<<"replica">>, <<>>, <<"log">>]}],
        kinds(flame_prof_doctor_busy_dist, Evidence)),
    ?assertEqual([], kinds(flame_prof_doctor_busy_port, Evidence)).

came(Came) ->
    #{seconds => [#{time_us => 0, node_processes => 1000},
        #{time_us => ?US, node_processes => 1000 + Came}]}.

counted(Counts, Left) ->
    #{monitors => #{many => [{p(7), N, <<"presence">>} || N <- Counts, is_integer(N)],
        unknown => [p(7) || unknown <- Counts] ++ [p(N) || N <- lists:seq(100, 99 + Left)],
        left => Left}}.

unseen_monitors(First, Last) ->
    {unseen, Why} = flame_prof_doctor_monitor_growth:find(system(First, Last, came(0)),
        #{grown => 1000, grown_share => 0.5, of_process => 2}),
    Why.

monitors_that_were_not_known_before_have_not_grown_test() ->
    ?assertMatch(<<"a process", _/binary>>,
        unseen_monitors(counted([unknown], 0), counted([25000], 0))),
    ?assertMatch(<<"a process", _/binary>>,
        unseen_monitors(counted([25000], 0), counted([unknown], 0))).

monitors_that_are_not_all_counted_are_not_judged_test() ->
    Why = <<"there are more monitors than are counted: those of 3 processes are not known">>,
    ?assertEqual(Why, unseen_monitors(counted([3000], 0), counted([3000], 3))),
    ?assertEqual(Why, unseen_monitors(counted([], 3), counted([], 1))),
    %% What is known is told.
    ?assertEqual([{warning, [<<"presence">>]}], kinds(flame_prof_doctor_monitor_growth,
        system(counted([3000], 3), counted([25000], 3), came(0)))).

%% Processes that are in this stack for so many of their 900 samples.
in_stack(N, Status, Names, Weight) ->
    Processes = [sampled(I, [0], #{name => <<>>, first_us => 0, last_us => ?US})
        || I <- lists:seq(1, N)],
    Frames = [{Name, Kind} || {Name, Kind} <- Names],
    Stacks = fun(_, Statuses) ->
        [{Frames, Weight} || Weight > 0, lists:member(Status, Statuses)]
    end,
    #{mode => processes, processes => Processes, stacks => Stacks}.

in_a_handler(N, Weight, Above) ->
    Names = Above ++ [{<<"logger_backend:call_handlers/3">>, erlang},
        {<<"order:pay/1">>, erlang}, {<<"order:init/1">>, erlang}],
    kinds(flame_prof_doctor_logger_calls, #{samples => in_stack(N, <<"waiting">>, Names, Weight)}).

those_who_log_wait_in_a_handler_that_calls_test() ->
    Sink = [{<<"audit_sink:write/1">>, erlang}],
    ?assertMatch([{warning, [_ | _]}], in_a_handler(60, 800, Sink)),
    ?assertEqual([], in_a_handler(60, 20, Sink)),
    ?assertEqual([], in_a_handler(3, 900, Sink)).

a_queue_of_a_handler_of_otp_is_the_other_rule_s_test() ->
    ?assertEqual([], in_a_handler(60, 800, [{<<"logger_olp:call/2">>, erlang}])).

the_function_of_the_handler_is_named_and_not_who_logs_test() ->
    Samples = in_stack(60, <<"waiting">>, [{<<"audit_sink:write/1">>, erlang},
        {<<"logger_backend:call_handlers/3">>, erlang}, {<<"order:pay/1">>, erlang}], 800),
    ?assertMatch([#{function := <<"audit_sink:write/1">>}],
        flame_prof_doctor_logger_calls:find(#{samples => Samples}, #{waiting => 5})).

%%% Files.

%% By the samples of those who waited.
a_journal_that_nobody_waits_for_at_the_last_look_is_slow_too_test() ->
    Stack = {[{<<"prim_file:sync_nif/1">>, called}, {<<"shop_journal:entry/2">>, erlang},
        {<<"proc_lib:init_p/3">>, erlang}], 800},
    Till = fun(I) -> sampled(I, [0], #{waits_for => [{text(1), 700}]}) end,
    Evidence = (evidence([], #{}))#{samples => samples([sampled(1, [0, 0, 0], #{}) |
        [Till(I) || I <- lists:seq(2, 6)]], fun(<<"<0.1.0>">>, _) -> [Stack]; (_, _) -> [] end)},
    ?assertEqual([{warning, [<<"order_store">>]}], kinds(flame_prof_doctor_file_io, Evidence)).

%% Pids of those in calls of files at the first look and at the last, and what waits then.
files_taken(First, Last, Waiting) ->
    Files = fun(Pids) -> #{files => #{schedulers => 2, waiting => Waiting,
        calls => maps:from_list([{p(Pid), [{prim_file, read_file, 1}, {avatars, fetch, 2}]}
            || Pid <- Pids])}} end,
    flame_prof_doctor_files_taken:find(
        #{system => {Files(First), Files(Last)}, span_us => ?US}, #{}).

files_that_hang_on_all_schedulers_are_told_by_who_reads_them_test() ->
    [#{function := Function, processes := Processes} = Finding] =
        files_taken([1, 2, 3], [1, 2, 3, 4], 2),
    _ = doctor_finding:checked(Finding),
    ?assertEqual(<<"avatars:fetch/2">>, Function),
    ?assertEqual([text(1), text(2), text(3)], [Pid || #{pid := Pid} <- Processes]).

%%% Binaries.

held(More) ->
    Mb = 1 bsl 20,
    Pid = list_to_pid("<0.95.0>"),
    Who = case More of
        #{kind := table} -> #{owner => Pid, table => images};
        _ -> #{kind => process, process => Pid, function => <<"cache:serve/2">>}
    end,
    Holder = maps:merge(maps:merge(Who, More),
        #{binaries => 900, bytes => 70 * Mb, grown => 55 * Mb}),
    Rule = flame_prof_doctor_binary_leak,
    Limits = maps:from_list([{Name, Default} || {Name, Default, _} <- Rule:thresholds()]),
    [#{title := Title, sentences := Sentences, processes := [Process]} = Finding] = Rule:find(#{
        span_us => ?US, samples => samples([]),
        seconds => [#{time_us => N * 1000000, node_memory_binary => (30 + 6 * N) * Mb}
            || N <- lists:seq(0, 10)],
        binaries => #{growing => [Holder], names => #{Pid => #{registered_name => cache}}}
    }, Limits),
    _ = doctor_finding:checked(Finding),
    ?assertEqual(#{pid => <<"<0.95.0>">>, name => <<"cache">>}, Process),
    unicode:characters_to_binary([Title | Sentences]).

a_holder_that_two_looks_saw_is_told_with_what_it_pins_test() ->
    Mb = 1 bsl 20,
    Text = held(#{pins => [#{path => <<"cache:serve/2 slot 1 > list">>, binaries => 900,
        bytes => 60 * Mb, shown_bytes => 1 * Mb}]}),
    [?assertNotEqual({Part, nomatch}, {Part, binary:match(Text, Part)})
        || Part <- [<<"cache (<0.95.0>) holds binaries that grow by 6.0 MiB a second">>,
            <<"55.0 MiB more">>, <<"900 binaries">>, <<"it is in cache:serve/2.">>,
            <<"1.0 MiB of 60.0 MiB, keep them whole (cache:serve/2 slot 1 > list); "
                "binary:copy/1 does not.">>]].

a_table_that_two_looks_saw_is_told_with_its_owner_test() ->
    Text = held(#{kind => table}),
    [?assertNotEqual({Part, nomatch}, {Part, binary:match(Text, Part)})
        || Part <- [<<"The ETS table images of cache (<0.95.0>) holds binaries that grow by">>,
            <<"It holds 55.0 MiB more">>, <<"900 binaries">>]],
    [?assertEqual({Part, nomatch}, {Part, binary:match(Text, Part)})
        || Part <- [<<"it is in">>, <<"binary:copy/1">>]].

what_is_pinned_is_not_told_where_it_is_not_known_test() ->
    ?assertNotEqual(nomatch, binary:match(held(#{pinned => unknown}), <<"may keep these whole">>)),
    ?assertEqual(nomatch, binary:match(held(#{pins => []}), <<"binary:copy/1">>)).

%% Binaries grow, no process holds them, and a table gets so many objects a second.
of_a_table(PerSecond) ->
    Table = #{name => images, owner => p(7), owner_name => gallery, bytes => 4096, objects => 900,
        growth => #{bytes_per_s => 0.0, objects_per_s => PerSecond}},
    Limits = maps:from_list([{Name, Default}
        || {Name, Default, _} <- flame_prof_doctor_binary_leak:thresholds()]),
    [#{sentences := Sentences} = Finding] = flame_prof_doctor_binary_leak:find(#{span_us => ?US,
        samples => samples([]), tables => #{tables => [Table]},
        seconds => [#{time_us => N * 1000000, node_memory_binary => (30 + 6 * N) bsl 20}
            || N <- lists:seq(0, 10)]}, Limits),
    _ = doctor_finding:checked(Finding),
    unicode:characters_to_binary(Sentences).

a_table_that_gets_objects_meanwhile_is_named_test() ->
    ?assertMatch({_, _}, binary:match(of_a_table(75.0),
        <<"The ETS table images of gallery (<0.7.0>) gets 75 objects a second">>)),
    ?assertMatch({_, _}, binary:match(of_a_table(75.0), <<"many processes do, or one that seldom runs">>)),
    ?assertEqual(nomatch, binary:match(of_a_table(0.0), <<"images">>)).

%% Of 6 MiB a second, with 3 MiB each.
a_table_that_gets_few_objects_is_not_why_binaries_grow_test() ->
    ?assertEqual(nomatch, binary:match(of_a_table(2.0), <<"images">>)).
