%% The doctor's rules of figures of the VM and of the kernel, each with a fault and with the nearest
%% healthy look-alike, as evidence written by hand.
-module(flame_prof_doctor_vm_tests).

-include_lib("eunit/include/eunit.hrl").

-define(S, 1000000).

evidence(More) ->
    maps:merge(#{node => 'n@h', engine => native, span_us => 10 * ?S, unseen => #{}}, More).

%% A value each second, of one figure; the rest is that of a quiet node.
seconds(Key, Values) -> seconds([{Key, Value} || Value <- Values]).

seconds(Changes) ->
    Numbered = lists:zip(lists:seq(0, length(Changes) - 1), Changes),
    evidence(#{seconds => [(quiet())#{time_us => N * ?S, Key => Value}
        || {N, {Key, Value}} <- Numbered]}).

quiet() ->
    #{node_schedulers => 2, node_schedulers_online => 2, node_schedulers_unblocked => 2,
        node_run_queues => 0, node_run_queue_sum => 0, node_run_queue_longest => 0,
        node_run_queue_shortest => 0, node_processes => 100, node_process_limit => 262144,
        node_ports => 10, node_port_limit => 65536, node_atoms => 20000, node_atom_limit => 1048576,
        node_ets_tables => 30, node_memory_ets => 1000000, node_memory_total => 50000000,
        node_memory_code => 9000000,
        node_persistent_terms => 20, node_memory_persistent_terms => 20000}.

rising(From, Step) -> [From + Step * N || N <- lists:seq(0, 10)].

found(Evidence) ->
    #{findings := Findings} = flame_prof_doctor:judge(Evidence, #{}),
    [{Kind, Severity} || #{kind := Kind, severity := Severity} <- checked(Findings)].

checked(Findings) -> [doctor_finding:checked(Finding) || Finding <- Findings].

only(Evidence) ->
    #{findings := [Finding]} = flame_prof_doctor:judge(Evidence, #{}),
    doctor_finding:checked(Finding).

said(Finding) -> unicode:characters_to_list(flame_prof_doctor:format(
    #{findings => [Finding], unseen => []})).

says(Finding, Text) -> ?assertNotEqual(nomatch, string:find(said(Finding), Text)).

a_quiet_node_has_no_finding_test() ->
    ?assertEqual([], found(seconds(node_processes, lists:duplicate(11, 100)))).

processes_near_the_limit_are_critical_test() ->
    Finding = only(seconds(node_processes, lists:duplicate(11, 240000))),
    ?assertMatch(#{kind := limit, severity := critical,
        numbers := #{what := processes, count := 240000, limit := 262144}}, Finding),
    says(Finding, "1. critical: limit: 92 % of the processes"),
    says(Finding, "240,000 processes, and the limit is 262,144 (erl +P)").

a_threshold_can_be_given_test() ->
    Half = seconds(node_atoms, lists:duplicate(11, 524288)),
    #{findings := [#{kind := limit}]} = flame_prof_doctor:judge(Half, #{limit_warning => 0.4}).

who_has_them_is_told_with_a_limit_test() ->
    Newest = #{<<"session:init/1">> => 900, <<"a:b/0">> => 100},
    Ports = #{<<"probe">> => #{list_to_pid("<0.97.0>") => [made_port(N) || N <- lists:seq(1, 9)]},
        <<"ssl">> => #{list_to_pid("<0.98.0>") => [made_port(10)]}},
    System = #{newest => Newest, port_owners => Ports},
    Of = fun(Key, N) -> only((seconds(Key, lists:duplicate(11, N)))#{system => {System, System}})
    end,
    Processes = Of(node_processes, 240000),
    says(Processes, "Of the 1,000 newest, 900 began in session:init/1."),
    ?assertMatch(#{function := <<"session:init/1">>}, Processes),
    Owner = Of(node_ports, 60000),
    says(Owner, "Of 10 ports, 9 belong to probe (<0.97.0>)."),
    ?assertMatch(#{processes := [#{pid := <<"<0.97.0>">>}]}, Owner).

atoms_from_data_grow_all_the_time_test() ->
    Finding = only(seconds(node_atoms, rising(20000, 500))),
    ?assertMatch(#{kind := atom_growth, severity := critical}, Finding),
    says(Finding, "500 new atoms a second"),
    says(Finding, "from 20,000 to 25,000 in 10 s, 500 a second"),
    %% 1,023,576 are left, at 500 a second.
    says(Finding, "in 34 minutes at this rate").

%% Each process was seen so often in such a call.
atom_makers(Bif, Seen) ->
    Pid = fun(N) -> iolist_to_binary(["<0.", integer_to_list(95 + N), ".0>"]) end,
    Numbered = lists:zip(lists:seq(1, length(Seen)), Seen),
    By = maps:from_list([{Pid(N), [{[{Bif, called},
        {iolist_to_binary(["webhook:handle/", integer_to_list(N)]), erlang},
        {<<"webhook:init/1">>, erlang}], Weight}]} || {N, Weight} <- Numbered]),
    (seconds(node_atoms, rising(20000, 500)))#{samples => #{
        processes => [#{pid => P, name => <<"webhook">>} || P <- maps:keys(By)],
        stacks => fun(Of, [<<"running">>]) -> maps:get(Of, By); (_, _) -> [] end}}.

says_of_atoms(Bif, Seen, Text) ->
    #{findings := [Finding | _]} = flame_prof_doctor:judge(atom_makers(Bif, Seen), #{}),
    says(Finding, Text).

who_is_often_seen_in_calls_that_make_atoms_is_named_test() ->
    Bif = <<"erlang:list_to_atom/1">>,
    says_of_atoms(Bif, [9], "webhook (<0.96.0>) is often in binary_to_atom or list_to_atom, "
        "in webhook:handle/1: 9 of 9 such samples."),
    says_of_atoms(Bif, [4, 9], "webhook (<0.97.0>) is often in binary_to_atom or list_to_atom, "
        "in webhook:handle/2: 9 of 13 such samples.").

atoms_of_modules_that_are_loaded_come_to_rest_test() ->
    ?assertEqual([], found(seconds(node_atoms,
        [20000, 21000, 22000, 22400, 22400, 22400, 22400, 22400, 22400, 22400, 22400]))).

processes_that_do_not_end_grow_test() ->
    Finding = only((seconds(node_processes, rising(100, 50)))#{
        system => {#{newest => #{}}, #{newest => #{<<"leak:run/1">> => 480, <<"a:b/0">> => 20}}}}),
    ?assertMatch(#{kind := process_growth, severity := warning}, Finding),
    says(Finding, "50 more processes a second"),
    says(Finding, "Of the 500 newest, 480 began in leak:run/1.").

a_wave_of_processes_goes_up_and_down_test() ->
    ?assertEqual([], found(seconds(node_processes,
        [100, 900, 1500, 700, 300, 1200, 1800, 900, 200, 1100, 1900]))).

%% Each port's owner at the two looks.
owners(First, Last) ->
    By = fun(Owned) ->
        #{port_owners => maps:map(fun(_, Of) -> #{list_to_pid("<0.97.0>") => Of} end,
            maps:groups_from_list(fun({_, Of}) -> Of end, fun({P, _}) -> P end, Owned))}
    end,
    only((seconds(node_ports, rising(10, 10)))#{system => {By(First), By(Last)}}).

who_owns_ports_that_are_new_is_named_test() ->
    Were = [{made_port(N), <<"listener">>} || N <- lists:seq(1, 500)],
    New = [{made_port(N), <<"probe">>} || N <- lists:seq(501, 595)]
        ++ [{made_port(N), <<"ssl">>} || N <- lists:seq(596, 600)],
    Told = owners(Were, Were ++ New),
    says(Told, "Of 100 new ones, 95 belong to probe (<0.97.0>)."),
    ?assertMatch(#{processes := [#{pid := <<"<0.97.0>">>, name := <<"probe">>}]}, Told),
    says(owners(Were, Were), "A port is a socket, a file or a program"),
    says(owners(Were, Were ++ of_many(596)), "A port is a socket"),
    says(owners(Were, Were ++ [{Port, <<>>} || {Port, _} <- New]), "A port is a socket").

%% Each of them a port or two, and one three.
of_many(From) ->
    [{made_port(N), integer_to_binary(max(From + 3, N) div 2)} || N <- lists:seq(From, From + 99)].

made_port(N) -> list_to_port("#Port<0." ++ integer_to_list(N) ++ ">").

a_table_that_grows_is_named_test() ->
    Mb = 1 bsl 20,
    Table = #{name => sessions, owner => list_to_pid("<0.95.0>"), owner_name => session_cache,
        bytes => 28 * Mb, objects => 400000,
        growth => #{bytes_per_s => 2.0 * Mb, objects_per_s => 30000.0}},
    Finding = only((seconds(node_memory_ets, rising(10 * Mb, 2 * Mb)))#{
        tables => #{tables => [Table]}}),
    ?assertMatch(#{kind := table_growth, processes := [#{pid := <<"<0.95.0>">>,
        name := <<"session_cache">>}]}, Finding),
    says(Finding, "the ETS table sessions grows by 2.0 MiB a second"),
    says(Finding, "sessions of session_cache (<0.95.0>) grows by 2.0 MiB and 30,000 objects a "
        "second, to 28.0 MiB and 400,000 objects.").

of_a_file(Bytes) ->
    Seconds = [#{time_us => 5 * N * ?S, node_memory_ets => Of}
        || {N, Of} <- lists:zip(lists:seq(1, length(Bytes)), Bytes)],
    Judged = flame_prof_doctor:judge((evidence(#{seconds => Seconds}))#{node := none}, #{}),
    #{findings := Findings, unseen := Unseen} = Judged,
    {[Kind || #{kind := Kind} <- Findings], lists:keymember(table_growth, 1, Unseen)}.

memory_that_was_not_read_is_not_healthy_test() ->
    #{seconds := Seconds} = Quiet = seconds(node_ports, lists:duplicate(11, 10)),
    Without = fun(N) ->
        {Some, Rest} = lists:split(N, Seconds),
        Samples = #{mode => schedulers, processes => [], stacks => fun(_, _) -> [] end},
        #{unseen := Unseen} = flame_prof_doctor:judge(Quiet#{samples => Samples,
            seconds := [S#{node_memory_binary => 1} || S <- Some] ++
                [maps:without([node_memory_ets], S) || S <- Rest]}, #{}),
        [Kind || Kind <- [table_growth, binary_leak], lists:keymember(Kind, 1, Unseen)]
    end,
    ?assertEqual([table_growth, binary_leak], Without(0)),
    ?assertEqual([table_growth, binary_leak], Without(2)),
    ?assertEqual([], Without(11)).

of_a_file_three_figures_that_rise_are_growth_test() ->
    Mb = 1 bsl 20,
    ?assertEqual({[table_growth], false}, of_a_file([15 * Mb, 40 * Mb, 64 * Mb])),
    ?assertEqual({[], false}, of_a_file([15 * Mb, 40 * Mb, 39 * Mb])),
    ?assertEqual({[], false}, of_a_file([15 * Mb, 40 * Mb, 30 * Mb, 50 * Mb])),
    ?assertEqual({[], false}, of_a_file([4732576, 4732680, 4732732])),
    ?assertEqual({[], true}, of_a_file([15 * Mb, 40 * Mb])).

tables_that_are_not_deleted_grow_test() ->
    Finding = only(seconds(node_ets_tables, rising(30, 12))),
    says(Finding, "12 more ETS tables a second").

%% Of those that were looked at, as two looks at tables have them.
who_owns_tables_that_are_not_deleted_is_named_test() ->
    Table = fun(Name, N, Owner) -> #{name => Name, owner => list_to_pid(N), owner_name => Owner,
        bytes => 1500, objects => 15, is_new => true,
        growth => #{bytes_per_s => 150.0, objects_per_s => 1.5}} end,
    Made = lists:duplicate(18, Table(cart_items, "<0.95.0>", cart_keeper)) ++
        lists:duplicate(2, Table(cart_items, "<0.96.0>", undefined)),
    Old = maps:without([is_new], Table(prices, "<0.97.0>", prices)),
    Of = fun(Tables) -> only((seconds(node_ets_tables, rising(30, 12)))#{
        tables => #{tables => Tables}}) end,
    Finding = Of([Old | Made]),
    ?assertMatch(#{processes := [#{pid := <<"<0.95.0>">>, name := <<"cart_keeper">>}]}, Finding),
    says(Finding, "20 new ones that were looked at 18 are cart_items and belong to cart_keeper "),
    ?assertMatch(#{processes := []}, Of([Old])).

who_loads_code_that_grows_is_named_test() ->
    Stack = {[{<<"code_server:call/1">>, erlang}, {<<"page:build/1">>, erlang},
        {<<"page:init/1">>, erlang}], 40},
    Compiler = {[{<<"compile:fold_comp/4">>, erlang}, {<<"compile:internal/3">>, erlang}], 90},
    Of = fun(Stacks) -> (seconds(node_memory_code, rising(9000000, 200000)))#{samples => #{
        processes => [#{pid => Pid, name => Name} || {Pid, Name, _} <- Stacks],
        stacks => fun(Pid, _) -> [S || {P, _, S} <- Stacks, P =:= Pid] end}} end,
    Told = fun(Stacks) ->
        #{findings := Found} = flame_prof_doctor:judge(Of(Stacks), #{}),
        [Finding] = [F || #{kind := code_growth} = F <- Found],
        Finding
    end,
    Finding = Told([{<<"<0.9.0>">>, <<"builder">>, Stack}, {<<"<0.8.0>">>, <<>>, Compiler}]),
    ?assertMatch(#{function := <<"page:build/1">>, processes := [#{name := <<"builder">>}]},
        Finding),
    says(Finding, "builder (<0.9.0>) does so, in page:build/1: seen in 40 samples."),
    ?assertMatch(#{processes := []}, Told([{<<"<0.8.0>">>, <<>>, Compiler}])).

persistent_terms_for_data_grow_test() ->
    says(only(seconds(node_persistent_terms, rising(20, 30))), "30 more persistent terms a second").

%% As many terms as before, each larger.
persistent_terms_that_grow_are_told_by_their_memory_test() ->
    Finding = only(seconds(node_memory_persistent_terms, rising(20000, 1 bsl 20))),
    ?assertMatch(#{kind := code_growth}, Finding),
    says(Finding, "persistent terms grow by 1.0 MiB a second"),
    ?assertEqual([], found(seconds(node_memory_persistent_terms, rising(20000, 200000)))),
    ?assertEqual([], found(seconds(node_memory_persistent_terms,
        [20000 | lists:duplicate(10, 90000000)]))).

queues(Sum, Longest, Shortest, More) ->
    Second = maps:merge((quiet())#{node_run_queue_sum := Sum, node_run_queue_longest := Longest,
        node_run_queue_shortest := Shortest}, More),
    evidence(#{seconds => [Second#{time_us => N * ?S} || N <- lists:seq(0, 10)]}).

more_to_do_than_schedulers_can_do_test() ->
    Finding = only(queues(2000, 1010, 990, #{})),
    ?assertMatch(#{kind := run_queue, severity := warning}, Finding),
    says(Finding, "2,000 processes are ready to run and wait for 2 schedulers").

offline_schedulers_with_a_queue_are_told_test() ->
    Offline = #{node_schedulers => 8, node_schedulers_online => 2, node_schedulers_unblocked => 2},
    says(only(queues(120, 60, 60, Offline)), "6 of 8 schedulers are offline").

blocked_schedulers_are_told_test() ->
    says(only(queues(120, 60, 60, #{node_schedulers_unblocked => 1})), "1 of 2 schedulers are blocked").

one_scheduler_has_all_and_another_none_test() ->
    says(only(queues(300, 300, 0, #{})), "300 processes wait for one scheduler").

os(More) ->
    maps:merge(#{at_us => 0, own_us => 0, rss => 100 bsl 20, available => 12 bsl 30,
        total => 16 bsl 30, machine => #{busy_us => 0, stolen_us => 0, cpus => 2},
        schedulers => #{threads => 2, run_us => 0, wait_us => 0}}, More).

os(First, Last) -> evidence(#{os => {os(First), os(Last#{at_us => 10 * ?S})}}).

schedulers_without_a_cpu_test() ->
    Finding = only(waiting_for(15)),
    ?assertMatch(#{kind := stolen_cpu, severity := warning}, Finding),
    says(Finding, "wait for a CPU in 75 % of the time"),
    says(Finding, "Other programs had 75 % of the machine's 2 CPUs").

%% os:cmd/1 in a loop was once told as a neighbour of the node.
programs_that_the_node_starts_are_not_others_test() ->
    Of = fun(Programs, Met) -> os(#{programs_us => 4 * ?S}, #{own_us => 4 * ?S,
        programs_us => 4 * ?S + Programs, programs => Met,
        machine => #{busy_us => 18 * ?S, stolen_us => 0, cpus => 2},
        schedulers => #{threads => 2, run_us => 4 * ?S, wait_us => 6 * ?S}}) end,
    Own = only(Of(12 * ?S, #{<<"df">> => 19, <<"sh">> => 4, <<"a">> => 1, <<"b">> => 2})),
    says(Own, "programs that the node starts have the CPU: schedulers wait for one in 60 % of"),
    says(Own, "by os:cmd/1 or as ports, had 60 % of the machine's 2 CPUs; met were df (19 times), "
        "sh (4 times), b (2 times)."),
    says(Own, "Other programs had 10 % of the machine's 2 CPUs"),
    Others = only(Of(2 * ?S, #{<<"df">> => 1})),
    says(Others, "schedulers wait for a CPU in 60 % of"),
    says(Others, "had 10 % of the machine's 2 CPUs; met were df (1 time)."),
    says(Others, "Other programs had 60 % of"),
    %% A program that has left its parent takes its time with it.
    says(only(Of(-1 * ?S, #{})), "Other programs had 70 % of").

waiting_for(Seconds) ->
    os(#{}, #{own_us => 5 * ?S, machine => #{busy_us => 20 * ?S, stolen_us => 0, cpus => 2},
        schedulers => #{threads => 2, run_us => 5 * ?S, wait_us => Seconds * ?S}}).

an_idle_node_on_a_busy_machine_is_healthy_test() ->
    ?assertEqual([], found(os(#{}, #{own_us => 50000,
        machine => #{busy_us => 20 * ?S, stolen_us => 0, cpus => 2},
        schedulers => #{threads => 2, run_us => 50000, wait_us => 100000}}))).

throttled(Throttled, Us) ->
    os(#{throttled => #{periods => 1000, throttled_periods => 10, us => 1000}},
        #{cpus_allowed => 0.5, throttled => #{periods => 1100, throttled_periods => 10 + Throttled,
            us => 1000 + Us}}).

a_quota_that_stops_the_node_test() ->
    Finding = only(throttled(70, 4 * ?S)),
    ?assertMatch(#{kind := throttled}, Finding),
    says(Finding, "the CPU quota stops the node in 70 % of its periods"),
    says(Finding, "allows 0.5 CPUs").

a_group_that_is_nearly_full_is_critical_test() ->
    Limit = #{memory_limit => 1 bsl 30, memory_used => 1040000000, rss => 900 bsl 20},
    Finding = only(os(Limit, Limit)),
    ?assertMatch(#{kind := memory_limit, severity := critical}, Finding),
    says(Finding, "97 % of the memory of the control group is used").

growth_that_reaches_the_limit_soon_is_critical_test() ->
    Used = fun(Mb) -> #{memory_limit => 1 bsl 30, memory_used => Mb bsl 20, rss => Mb bsl 20} end,
    #{seconds := Seconds} = seconds(node_memory_total, rising(300 bsl 20, 20 bsl 20)),
    Finding = only((os(Used(300), Used(500)))#{seconds => Seconds}),
    ?assertMatch(#{kind := memory_limit, severity := critical}, Finding),
    %% 524 MiB are left, at 20 MiB a second.
    says(Finding, "and all of it in 26 s"),
    says(Finding, "by 20.0 MiB a second").

%% Of 200 MiB of growth this is the table's part.
taken(Mib) ->
    Used = fun(Mb) -> #{memory_limit => 1 bsl 30, memory_used => Mb bsl 20, rss => Mb bsl 20} end,
    #{seconds := Seconds} = seconds(node_memory_total, rising(300 bsl 20, 20 bsl 20)),
    Owner = list_to_pid("<0.95.0>"),
    Table = #{name => sessions, owner => Owner, owner_name => cache, bytes => Mib bsl 20,
        objects => 9, growth => #{bytes_per_s => (Mib bsl 20) / 10, objects_per_s => 1.0}},
    (os(Used(300), Used(500)))#{tables => #{tables => [Table]},
        seconds => [S#{node_memory_ets := N * (Mib bsl 20) div 10}
            || {N, S} <- lists:zip(lists:seq(0, 10), Seconds)]}.

who_grows_is_named_and_told_before_the_limit_test() ->
    #{findings := [Table, Limit]} = flame_prof_doctor:judge(taken(150), #{}),
    ?assertMatch(#{kind := table_growth, severity := critical}, Table),
    ?assertMatch(#{kind := memory_limit, severity := critical,
        processes := [#{pid := <<"<0.95.0>">>, name := <<"cache">>}]}, Limit),
    says(Limit, "cache (<0.95.0>) grew most: its ETS table sessions by 150.0 MiB, to 150.0 MiB.").

allocator(Carriers, Blocks) ->
    #{engine => native, process => #{rss => 2 bsl 30}, unknown => [], off => [], allocators => [
        #{allocator => binary_alloc, instance => 1, carriers => 10, blocks => 10,
            carriers_bytes => Carriers bsl 20, blocks_bytes => Blocks bsl 20}]}.

unused_memory_of_an_allocator_is_a_note_test() ->
    Look = allocator(1024, 100),
    Finding = only(evidence(#{memory => {Look, Look}})),
    ?assertMatch(#{kind := fragmentation, severity := note}, Finding),
    says(Finding, "binary_alloc has 924.0 MiB that nothing uses").

%% The first reading of a file does not have them.
allocators_of_a_file_are_judged_as_those_of_a_node_test() ->
    Reading = fun(N) -> #{time_us => N * ?S, node_runtime_ms => N, node_rss => 2 bsl 30} end,
    Read = fun(N, Used) -> (Reading(N))#{node_alloc_binary_carriers => 1 bsl 30,
        node_alloc_binary_blocks => Used bsl 20} end,
    Found = fun(Figures) ->
        Samples = #{span_us => 30 * ?S, figures => [Reading(1) | Figures]},
        Evidence = flame_prof_doctor_samples:evidence(Samples),
        #{findings := Findings} = flame_prof_doctor:judge(Evidence, #{}),
        [F || #{kind := fragmentation} = F <- Findings]
    end,
    [Finding] = Found([Read(2, 100), Read(30, 200)]),
    says(Finding, "binary_alloc has 824.0 MiB that nothing uses"),
    says(Finding, "The node has 2.00 GiB of resident memory"),
    ?assertEqual([], Found([Read(2, 900), Read(30, 200)])),
    %% One reading, and two of nearly one moment.
    ?assertEqual([], Found([Read(30, 200)])),
    ?assertEqual([], Found([Read(29, 100), Read(30, 200)])),
    ?assertEqual([], Found([])).
