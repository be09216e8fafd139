%% Rules of the doctor on nodes where nothing is busy and processes wait: what is just short of each
%% threshold and what has just reached it, what is told, and the healthy things that look alike.
-module(flame_prof_doctor_stalls_tests).

-include_lib("eunit/include/eunit.hrl").

-define(S, 1000000).

edges_test_() ->
    [{lists:flatten(io_lib:format("~s: ~s: ~w", [Rule, What, Value])),
            ?_assertEqual(Expected, severity(Rule, Of(Value)))}
     || {What, Rule, Of, Rows} <- rows(), {Value, Expected} <- Rows].

rows() ->
    Tag = fun(Name) -> unanswered(9, 2000, #{tag => {tuple, Name, 2}}) end,
    [{"waiting", unanswered, fun(N) -> unanswered(N, 2000, #{}) end,
            [{2, none}, {3, note}, {7, note}, {8, warning}]},
        {"for so long", unanswered, fun(Ms) -> unanswered(9, Ms, #{}) end, from(2000)},
        {"before the last look", unanswered, fun(Ms) -> #{waits := Look} = Of = unanswered(9, 100,
            #{}), #{waits := Then} = unanswered(9, Ms, #{}),
            Of#{waits := Look#{earlier => [Then]}} end, from(2000)},
        {"messages of the server", unanswered, fun(N) -> server(unanswered(9, 2000, #{}),
            #{message_queue_len => N}) end, [{0, warning}, {1, none}]},
        {"work of the server", unanswered, fun(Does) -> server(unanswered(9, 2000, #{}), Does) end,
            [{#{serves => #{}}, none}, {#{status => running}, none}]},
        {"it waits for a port", unanswered, fun(How) ->
            #{waits := #{roots := [Root]} = Look} = Of = unanswered(9, 2000, #{}),
            Of#{waits := Look#{roots := [Root#{waits => #{how => How, to => How}}]}} end,
            [{port, none}]},
        %% Consumers, long polls and subscribers have nothing to do; others may have.
        {"what is asked for", unanswered, Tag, [{checkout, warning}, {get_connection, warning},
            {take_member, warning}, {next_job, none}, {next_worker, none}, {poll, none},
            {subscribe, none}, {quote, none}, {relock, none}]},
        {"callers with messages", unanswered, fun(N) -> with_messages(N, 1) end,
            [{2, none}, {3, note}, {8, warning}]},
        {"messages of a caller", unanswered, fun(N) -> with_messages(8, N) end,
            [{0, none}, {1, warning}]},
        {"callers that others wait for", unanswered, fun(N) ->
            #{waits := #{edges := Edges} = Look} = Of = unanswered(9, 2000, quote()),
            Of#{waits := Look#{edges := Edges ++ [edge(50 + I, 10 + I, 9) || I <- seq(N)]}} end,
            [{2, none}, {3, note}]},
        {"waiting", unanswered_locks, fun(N) -> locks(N, 1000) end,
            [{2, none}, {3, note}, {7, note}, {8, warning}]},
        {"in the mean", unanswered_locks, fun(N) -> locks(16, N) end,
            [{187, none}, {188, note}, {499, note}, {500, warning}]},
        {"waiting", stalled, fun(N) -> stalled(N, <<"prim_inet:connect0/3">>) end,
            [{1, none}, {2, note}, {7, note}, {8, warning}]},
        {"one that takes long", stalled, fun(N) -> stalled(N, <<"os:get_data/6">>) end, from(8)},
        %% These wait for others by design.
        {"a place", stalled, fun(Place) -> stalled(9, Place) end,
            [{<<"prim_inet:accept0/3">>, none}, {<<"prim_inet:recv0/3">>, none},
            {<<"shop:loop/1">>, none}, {<<"inet_res:wait/1">>, warning}]},
        {"for a node", stalled_nodes, fun(N) -> pending([there], [there], N) end,
            [{0, note}, {2, note}, {3, warning}]},
        {"all the time", stalled_nodes, fun({First, Last}) -> pending(First, Last, 9) end,
            [{{[there], []}, none}, {{[], [there]}, none}, {{[here], [there]}, none}]},
        {"in the mean", bottleneck, fun(N) -> timers(N, 800, <<"timer_server">>) end, from(500)},
        {"at work", bottleneck, fun(N) -> timers(500, N, <<"timer_server">>) end, from(800)},
        {"of OTP", bottleneck, fun(Name) -> timers(900, 900, Name) end,
            [{<<"code_server">>, warning}, {<<"job_queue">>, none}]},
        {"of its time", formatting, fun(N) -> formats(N, 1000, 0, []) end,
            [{399, none}, {400, note}]},
        {"cpus", formatting, fun(N) -> formats(N, N, 0, []) end, [{49, none}, {50, note}]},
        {"of the node", formatting, fun(N) -> formats(300, 300, N, []) end,
            [{901, none}, {900, note}]},
        {"reports", formatting, fun(N) -> formats(400 - N, 400, 0, [{N, report()}]) end,
            [{199, note}, {200, warning}]},
        {"of a task, or of its crash", formatting, fun(Root) ->
            busy(400, 0, [{400, [{<<"io_lib:format/2">>, erlang}, {Root, erlang}]}]) end,
            [{<<"Elixir.Task.Supervised:invoke_mfa/2">>, note},
                {<<"Elixir.Task.Supervised:log/4">>, warning}]},
        {"of its time", append_binary, fun(N) -> builds(N, 1000, 0) end, from(600)},
        {"cpus", append_binary, fun(N) -> builds(N, N, 0) end, from(100)},
        {"of the node", append_binary, fun(N) -> builds(200, 200, N) end, up_to(600)},
        {"of its time", copies_ets, fun(N) -> reads(copied(), N, 1000, 0) end, from(400)},
        {"cpus", copies_ets, fun(N) -> reads(copied(), N, N, 0) end, from(80)},
        {"of the node", copies_ets, fun(N) -> reads(copied(), 200, 200, N) end, up_to(600)},
        %% A small row is found, and not copied for long.
        {"what is copied", copies_ets, fun(Frames) -> reads(Frames, 900, 1000, 0) end,
            [{[{<<"[gc]">>, pseudo}], warning}, {[{<<"db_get_hash">>, native}], none}]},
        {"descriptors", limit, fun(N) -> descriptors(N) end,
            [{799, none}, {800, warning}, {899, warning}, {900, critical}]},
        %% Ten minutes of five sockets a second.
        {"descriptors left", port_growth, fun(Left) -> sockets(#{limit => 60 + Left}) end,
            [{3000, warning}, {2999, critical}]},
        {"by the numbers of processes", spawn_storm, fun({Rate, N}) -> spawns(Rate, N) end,
            [{{2000, 3}, note}, {{1999, 3}, none}, {{2000, 2}, none}]},
        %% Numbers of another round of the table are no count.
        {"numbers that do not follow each other", spawn_storm, fun(Numbers) ->
            (spawns(2000, 3))#{seconds => [#{time_us => I * ?S, node_spawned => N}
                || {I, N} <- lists:zip(seq(length(Numbers)), Numbers)]}
        end, [{[0, 3000, 6000, 9000], note}, {[0, 40, 262200, 262240], none},
            {[9000, 6000, 12000], none}, {[7], none}]},
        %% What another node has called here runs and waits as its own program.
        {"in calls between nodes", stalled, fun(Place) -> stalled(8, Place) end,
            [{<<"erpc:call/5">>, warning}, {<<"erpc:execute_call/4">>, none}]},
        {"in a stream of tasks", unanswered_tasks, fun(Place) ->
            evidence(standing([{I, <<>>, [Place, <<"shop:pay/1">>], 2500} || I <- seq(8)] ++
                [{50, <<"score">>, [<<"shop:score/1">>, <<"Elixir.Task.Supervised:invoke_mfa/2">>],
                    2500}])) end,
            [{<<"Elixir.Task.Supervised:stream_reduce/7">>, warning},
                {<<"Elixir.Task.Supervised:stream_monitor_loop/5">>, none}]},
        {"waiting for tasks", unanswered_tasks, fun(N) -> tasks(N, 1000) end,
            [{2, none}, {3, note}, {7, note}, {8, warning}]},
        {"for so long", unanswered_tasks, fun(Ms) -> tasks(8, Ms) end, from(1000)},
        {"for so long", stalled, fun(Ms) -> stalled(8, <<"inet_res:wait/1">>, Ms) end, from(2500)},
        {"dirty schedulers", run_queue_dirty, fun(N) -> dirty([0, 0, N, N, 9]) end, from(2)},
        {"most seconds", run_queue_dirty, fun dirty/1, [{[0, 0, 0, 9, 9], none},
            {[9, 0, 9, 0, 9], warning}, {[9, 9], unseen}]},
        {"met", programs_started, fun(N) -> programs(N, 3 * ?S) end, from(10)},
        {"cpus", programs_started, fun(Us) -> programs(10, Us) end,
            [{499999, none}, {500000, note}, {2499999, note}, {2500000, warning}]}].

seq(N) -> lists:seq(1, N).
from(N) -> [{N - 1, none}, {N, warning}].
up_to(N) -> [{N, warning}, {N + 1, none}].

find(Rule, Evidence) ->
    Module = list_to_atom("flame_prof_doctor_" ++ atom_to_list(Rule)),
    Module:find(Evidence, maps:from_list([{N, Default} || {N, Default, _} <- Module:thresholds()])).

severity(Rule, Evidence) ->
    case find(Rule, Evidence) of
        {unseen, _} -> unseen;
        [] -> none;
        [Finding | _] -> maps:get(severity, doctor_finding:checked(Finding))
    end.

%% The finding has these parts in its text, and is about these processes first.
told(Rule, Evidence, Names, Parts) ->
    [#{title := Title, sentences := Said, processes := Of} = Finding | _] = find(Rule, Evidence),
    _ = doctor_finding:checked(Finding),
    Text = unicode:characters_to_binary([Title | Said]),
    ?assertEqual(Names, lists:sublist([Name || #{name := Name} <- Of], length(Names))),
    [?assertEqual({Part, true, Text}, {Part, string:find(Text, Part) =/= nomatch, Text})
        || Part <- Parts],
    maps:get(function, Finding, none).

p(I) -> list_to_pid("<0." ++ integer_to_list(I) ++ ".0>").
pid(I) -> iolist_to_binary(["<0.", integer_to_list(I), ".0>"]).

evidence(More) ->
    maps:merge(#{node => 'n@h', engine => native, span_us => 10 * ?S, unseen => #{}}, More).

edge(From, To, Ms) ->
    #{from => p(From), to => p(To), how => call, tag => {atom, checkout}, ref => {From, 0, 0},
        site => {gen, do_call, 4}, since_ms => Ms}.

%% Callers of an idle server.
unanswered(N, Ms, More) ->
    evidence(#{waits => #{engine => native, looks => 11,
        edges => [maps:merge(edge(10 + I, 1, Ms), More) || I <- seq(N)],
        roots => [#{process => p(1), direct => N, all => N, waiters => [], more => N}],
        processes => #{p(1) => #{registered_name => pool, status => waiting,
            message_queue_len => 0}}}}).

server(#{waits := #{processes := Told} = Look} = Evidence, More) ->
    #{waits := _} = Evidence#{waits := Look#{processes := Told#{p(1) :=
        maps:merge(maps:get(p(1), Told), More)}}}.

quote() -> #{tag => {tuple, quote, 2}}.

with_messages(N, Messages) ->
    #{waits := #{processes := Told} = Look} = Evidence = unanswered(9, 2000, quote()),
    Evidence#{waits := Look#{processes := maps:merge(Told, maps:from_list([{p(10 + I), #{status =>
        waiting, message_queue_len => Messages}} || I <- seq(N)]))}}.

standing(Rows) ->
    #{standing => #{left_out => 0, processes => [#{pid => p(I), name => Name, stack => Stack,
        since_ms => Ms} || {I, Name, Stack, Ms} <- Rows]}}.

%% Processes that are in one stack for so many of 1,000 samples.
sampled(N, Frames, Weight, More) ->
    maps:merge(evidence(#{samples => #{mode => processes, processes => [#{pid => pid(10 + I),
        name => <<"caller">>, observations => 1000, first_us => 0, last_us => 10 * ?S,
        waiting => 1000, running => 0, gc => 0, runnable => 0, other => 0,
        queue_range => {0, 0, 0, 0}} || I <- seq(N)],
        stacks => fun(_, Statuses) ->
            [{[{F, erlang} || F <- Frames], Weight}
                || lists:member(<<"waiting">>, Statuses)] end}}),
        More).

locks(N, Weight) ->
    sampled(N, [<<"mnesia_locker:receive_wlocks/4">>, <<"shop:write/1">>], Weight, #{}).

stalled(N, Place) -> stalled(N, Place, 2500).
stalled(N, Place, Ms) ->
    evidence(standing([{I, <<>>, [Place, <<"shop:sync/1">>], Ms} || I <- seq(N)])).

tasks(N, Ms) ->
    Task = [<<"shop:score/1">>, <<"Elixir.Task.Supervised:invoke_mfa/2">>],
    evidence(standing([{I, <<"customer">>, [<<"Elixir.Task:await_many/5">>, <<"shop:pay/1">>], Ms}
        || I <- seq(N)] ++ [{50, <<"score">>, Task, 1000}, {51, <<>>, Task, 1500},
            {52, <<>>, [<<"shop:other/1">> | tl(Task)], 9000}])).

pending(First, Last, N) ->
    evidence(#{system => {#{pending => First}, #{pending => Last}}, waits => #{looks => 11,
        processes => #{}, edges => [(edge(10 + I, 1, 9))#{to := {db, there}} || I <- seq(N)]}}).

%% Ten that wait for it for so many of 1,000 samples, at a time when a look meets none.
timers(N, Busy, Name) ->
    #{samples := #{processes := Clients} = Samples} = Evidence = sampled(10,
        [<<"gen:do_call/4">>, <<"shop:remind/1">>], N, #{}),
    [First | _] = Waiting = [P#{waits_for => [{pid(1), N}], last_us => 10 * ?S} || P <- Clients],
    Server = First#{pid := pid(1), name := Name, waits_for := [], waiting := 1000 - Busy,
        running := Busy, queue_range := {0, 0, 9, 1}},
    Evidence#{samples := Samples#{processes := [Server | Waiting]},
        waits => #{roots => [], edges => [], processes => #{}, looks => 11}}.

%% Of 1,000 samples one process has been on a CPU for so many, and another one for `Other'; the
%% first one is in such stacks.
busy(OnCpu, Other, Parts) ->
    Process = fun(I, N) -> #{pid => pid(I), name => <<"catalog">>, observations => 1000,
        first_us => 0, last_us => 10 * ?S, waiting => 1000 - N, running => N, gc => 0,
        runnable => 0, other => 0} end,
    Own = [{<<"shop:work/1">>, erlang}, {<<"shop:init/1">>, erlang}],
    Rest = OnCpu - lists:sum([N || {N, _} <- Parts]),
    evidence(#{samples => #{mode => processes, processes => [Process(1, OnCpu), Process(2, Other)],
        stacks => fun(<<"<0.1.0>">>, _) -> [{Frames ++ Own, N}
            || {N, Frames} <- [{Rest, []} | Parts], N > 0]; (_, _) -> [] end}}).

formats(N, OnCpu, Other, Reports) ->
    busy(OnCpu, Other, [{N, [{<<"io_lib_pretty:print/9">>, erlang}]} | Reports]).

report() -> [{<<"io_lib:format/2">>, erlang}, {<<"gen_server:error_info/8">>, erlang}].
copied() -> [{<<"copy_shallow_x">>, native}].
reads(Frames, N, OnCpu, Other) ->
    busy(OnCpu, Other, [{N, Frames ++ [{<<"ets:lookup/2">>, called}]}]).
builds(N, OnCpu, Other) -> busy(OnCpu, Other, [{N, [{<<"[libc.so.6]">>, native},
    {<<"erts_new_bs_put_binary_all">>, native}]}]).

descriptors(N) ->
    Of = fun(Used) -> #{descriptors => #{used => Used, limit => 1000}} end,
    evidence(#{seconds => [#{time_us => I * ?S} || I <- seq(11)], os => {Of(700), Of(N)}}).

%% Sixty sockets at last.
sockets(Descriptors) ->
    Owners = fun(N) -> #{socket_owners => #{<<"sync">> => #{p(1) => seq(N)}, <<"other">> =>
        #{p(2) => [a]}}} end,
    evidence(#{seconds => [#{time_us => I * ?S, node_sockets => 10 + 5 * I}
        || I <- lists:seq(0, 10)], system => {Owners(10), Owners(60)},
        os => {#{}, #{descriptors => Descriptors}}}).

%% Four of ten samples on a CPU would be enough.
spawns(Rate, N) ->
    (busy(900, 0, [{N, [{<<"erlang:spawn/3">>, called}]}]))#{seconds => [#{time_us => 0,
        node_spawned => 7}, #{time_us => 10 * ?S, node_spawned => 10 * Rate + 7}]}.

dirty(Queues) ->
    Seconds = [#{time_us => I * ?S, node_run_queue_dirty_cpu => N, node_dirty_cpu_schedulers => 2}
        || {I, N} <- lists:zip(seq(length(Queues)), Queues)],
    (busy(900, 0, [{600, [{<<"shop_nif:hash/2">>, called}]}]))#{seconds => Seconds}.

programs(Met, Us) ->
    evidence(#{os => {#{at_us => 0, programs_us => 7}, #{at_us => 10 * ?S, programs_us => 7 + Us,
        programs_met => Met, programs => #{<<"sh">> => 3, <<"df">> => 9}}}}).

call() -> [<<"gen:do_call/4">>, <<"gen_server:call/3">>, <<"shop:request/1">>].

an_idle_server_s_answers_test() ->
    Evidence = maps:merge(unanswered(9, 9000, #{}), standing([{10 + I, <<>>, call(), 9000}
        || I <- seq(9)] ++ [{2, <<"report">>, [<<"shop:fetch/1">>], 7500},
            {3, <<"report_2">>, [<<"shop:fetch/1">>], 8000},
            {5, <<"new">>, [<<"shop:fetch/1">>], 2499},
            {4, <<"other">>, [<<"chat:loop/1">>], 9000}])),
    ?assertEqual(<<"shop:fetch/1">>, told(unanswered, Evidence, [<<"pool">>, <<"report">>], [
        <<"9 processes wait for answers of pool (<0.1.0>), which is idle">>,
        <<"checkout, in shop:request/1, and one has waited for 9.0 s or more">>,
        <<"report (<0.2.0>) and 1 more may have it: in shop:fetch/1, where nothing has moved for "
            "7.5 s">>])).

%% A pool monitors those who have what it gave out.
those_that_it_monitors_are_named_first_test() ->
    #{waits := Look} = Evidence = server(unanswered(9, 9000, #{}),
        #{proc_lib_initial_call => {poolboy, init, 1}}),
    Told = maps:from_list([{p(30 + I), #{status => waiting, stack => [{shop, forget, 1, []},
        {shop, init, 1, []}]}} || I <- seq(10)]),
    ?assertEqual(<<"shop:forget/1">>, told(unanswered, Evidence#{waits := Look#{monitored =>
        #{p(1) => Told}}}, [<<"pool">>, <<>>], [<<"It is a pool of poolboy">>, <<"It monitors 10 "
            "processes that do not wait for it and may have it: <0.31.0> and 9 more, in "
            "shop:forget/1">>])),
    told(unanswered, Evidence, [<<"pool">>], [<<"The holder of what they wait for is unknown">>]).

who_has_a_lock_of_mnesia_test() ->
    Lock = fun(I, Name) -> #{process => p(I), name => Name, table => <<"route">>,
        lock => <<"read">>} end,
    System = fun(First, Last) ->
        #{system => {#{mnesia_locks => First}, #{mnesia_locks => Last}}} end,
    Export = standing([{2, <<"export">>, [<<"shop:upload/1">>], 9000}]),
    Of = fun(More) -> maps:merge(locks(9, 1000), maps:merge(Export, More)) end,
    %% It has it at both looks; one that waits itself has a lock, too.
    ?assertEqual(<<"shop:upload/1">>, told(unanswered_locks,
        Of(System([Lock(11, <<"caller">>), Lock(2, <<"export">>)],
        [Lock(11, <<"caller">>), Lock(1, <<"new">>), Lock(2, <<"export">>)])), [<<"export">>],
        [<<"9 processes wait for locks of mnesia">>, <<"export (<0.2.0>) has a read lock of the "
            "table route, and is in shop:upload/1">>, <<"In the mean 9 of them">>])),
    ?assertEqual(<<"shop:write/1">>, told(unanswered_locks, Of(#{}), [<<"caller">>],
        [<<"The holders of the locks are unknown">>, <<"most in shop:write/1">>])).

%% Those that are not sampled have stood still.
who_was_not_sampled_is_seen_by_its_stack_test() ->
    Rows = [{50 + I, <<>>, [<<"timer:sleep/1">>, <<"mnesia_tm:restart/9">>, <<"shop:write/1">>],
        3000} || I <- seq(8)],
    ?assertEqual(warning, severity(unanswered_locks, maps:merge(locks(0, 0), standing(Rows)))),
    ?assertEqual(note, severity(unanswered_locks, maps:merge(locks(0, 0), standing(tl(Rows))))).

what_is_waited_for_and_where_test() ->
    ?assertEqual(<<"shop:sync/1">>, told(stalled, stalled(9, <<"prim_inet:connect0/3">>), [<<>>],
        [<<"9 processes wait for connections that are not accepted">>,
        <<"<0.1.0> is one of them, in shop:sync/1">>, <<"None of them has run for 2.5 s or">>])),
    %% A client that waits in its handshake waits in a connect, too.
    told(stalled, evidence(standing([{I, <<>>, [<<"ssl_gen_statem:connect/8">>,
        <<"gen_tcp:connect/4">>], 3000} || I <- seq(3)])), [<<>>], [<<"3 processes wait for T">>]),
    told(stalled_nodes, pending([there], [there], 4), [], [<<"the connection to there is being ">>,
        <<"4 processes wait for it">>]).

who_starts_programs_test() ->
    Of = fun(N) -> maps:merge(programs(12, 9 * ?S),
        sampled(1, [<<"os:get_data/6">>, <<"shop:check/0">>], N, #{})) end,
    Evidence = fun(N) -> maps:merge(Of(N), maps:with([os], programs(12, 9 * ?S))) end,
    ?assertEqual(<<"shop:check/0">>, told(programs_started, Evidence(200), [<<"caller">>],
        [<<"caller (<0.11.0>) starts programs all the time">>, <<"at least 12 programs were "
            "started: df, sh">>, <<"They took 0.90 CPUs">>, <<"for 20 % of its time, in shop:check/0">>])),
    ?assertEqual(none, told(programs_started, Evidence(199), [], [<<"the node starts">>])).

a_server_of_otp_that_many_wait_for_has_its_remedy_test() ->
    ?assertEqual(<<"shop:remind/1">>, told(bottleneck, timers(900, 950, <<"timer_server">>),
        [<<"timer_server">>], [<<"keeps 9 processes waiting in the mean">>, <<"ready for 95 % of the ">>,
            <<"erlang:send_after/3">>, <<"10 processes wait for it again and again">>])).

reports_of_crashes_are_named_with_those_who_end_test() ->
    Evidence = formats(0, 400, 0, [{400, report()}]),
    ?assertEqual(<<"shop:work/1">>, told(formatting, Evidence, [<<"catalog">>], [
        <<"spends 100 % of its time on a CPU formatting reports of its crash">>,
        <<"2 processes of that name were seen, as it ends and is started again">>,
        <<"0 % of that time are collections">>])).

the_table_with_the_largest_rows_is_named_test() ->
    Table = fun(Name, Bytes) -> #{name => Name, owner => p(3), owner_name => keeper, objects => 50,
        bytes => Bytes} end,
    Of = fun(Tables) -> (reads(copied(), 900, 1000, 0))#{tables => #{tables => Tables}} end,
    ?assertEqual(<<"shop:work/1">>, told(copies_ets, Of([Table(small, 51199), Table(large, 102400),
        Table(least, 51200)]), [<<"catalog">>], [<<"in ets:lookup/2">>, <<"2.0 KiB in the mean, is "
            "large of keeper (<0.3.0>)">>])),
    told(copies_ets, Of([Table(small, 51199)]), [<<"catalog">>], [<<"read one element">>]).

%% Collections of an otherwise busy process, by the stacks that they are in.
collections_that_are_asked_for_are_no_garbage_of_code_test() ->
    Of = fun(Parts) ->
        #{samples := #{processes := [P | _], stacks := Stacks} = Samples} = Evidence =
            busy(900, 0, Parts),
        Evidence#{samples := Samples#{stacks := fun(Pid, Statuses) ->
            case lists:member(<<"garbage_collecting">>, Statuses) of true -> Stacks(Pid, Statuses);
                false -> [] end end, processes := [P#{running := 0, gc := 900, reductions => 1,
            memory_range => {0, 0, 4096, 0}}]}} end,
    Gc = {<<"[gc]">>, pseudo},
    told(gc, Of([{451, [{<<"erlang:hibernate/3">>, erlang}]}]), [<<"catalog">>],
        [<<"as it hibernates">>, <<"For 50 % of that it hibernates">>, <<"hibernate_after">>]),
    told(gc, Of([{900, [Gc, {<<"erlang:garbage_collect/0">>, called}]}]), [<<"catalog">>],
        [<<"100 % of that are collections that erlang:garbage_collect has asked for, in shop">>]),
    told(gc, Of([{450, [{<<"erlang:hibernate/3">>, erlang}]}]), [<<"catalog">>],
        [<<"The garbage is made in shop:work/1">>]).

%% A file without a finding says nothing of pools.
files_do_not_answer_who_keeps_requests_test() ->
    Live = [seconds, waits, standing, mailboxes, memory, tables, binaries, os, system],
    OfFile = (maps:without(Live, busy(1, 900, [])))#{
        unseen => maps:from_list([{Key, <<"a file">>} || Key <- Live])},
    #{unseen := Unseen} = flame_prof_doctor:judge(OfFile, #{}),
    ?assert(lists:keymember(unanswered, 1, Unseen)).

who_opens_sockets_of_the_module_socket_test() ->
    told(port_growth, sockets(#{limit => 9060}), [<<"sync">>], [<<"5 more sockets a second">>,
        <<"The number of sockets grew from 10 to 60">>, <<"the limit of 9,060 is reached in 30 ">>,
        <<"Of 50 new ones, 50 belong to sync (<0.1.0>).">>]),
    told(limit, descriptors(950), [], [<<"95 % of the descriptors">>, <<"ulimit -n">>]).

tasks_that_take_long_are_named_by_their_function_test() ->
    ?assertEqual(<<"shop:score/1">>, told(unanswered_tasks, tasks(9, 1100), [<<"score">>], [
        <<"9 processes wait for tasks">>, <<"in shop:pay/1, and none of them has run for 1.1 s">>,
        <<"2 tasks wait in shop:score/1, where nothing has moved for 1.0 s">>])).

who_takes_the_dirty_schedulers_test() ->
    ?assertEqual(<<"shop_nif:hash/2">>, told(run_queue_dirty, dirty([3, 3, 3]), [<<"catalog">>], [
        <<"all 2 dirty CPU schedulers are taken, and 3 calls wait for one">>,
        <<"1 process in such calls most of the time: catalog (<0.1.0>) first, most in shop_nif">>
        ])).
