%% What is short of what: by limits that are given, and limits by what the VM and /proc answer.
-module(flame_prof_preflight_tests).

-include_lib("eunit/include/eunit.hrl").

-define(MIB, 1048576).

%% ------------------------------------------------------------------- judging --

a_node_with_room_is_not_short_test() ->
    ?assertEqual(ok, flame_prof_preflight:check(doctor, limits())).

what_is_not_known_limits_nothing_test() ->
    ?assertEqual(ok, flame_prof_preflight:check(doctor, [])).

%% Exactly what is needed is enough, and one less is not.
each_limit_is_held_to_the_one_test_() ->
    [{lists:flatten(io_lib:format("~p of ~p, ~p", [What, Command, Library])), fun() ->
        Needed = maps:get(needed(What), flame_prof_preflight:needs(Command, Library)),
        Of = fun(Free) -> lists:keystore(What, 1, limits(), {What, 7, 7 + Free}) end,
        Outcome = fun(Free) -> flame_prof_preflight:check(Command, Of(Free)) end,
        case Library of
            library ->
                ?assertEqual(ok, Outcome(Needed)),
                {_, [Shortage]} = Outcome(Needed - 1),
                ?assertEqual(#{what => What, used => 7, limit => 6 + Needed, needed => Needed},
                    Shortage);
            bare ->
                ?assertNotMatch({refused, _}, Outcome(Needed)),
                ?assertMatch({refused, [#{what := What}]}, Outcome(Needed - 1))
        end
    end} || Command <- [doctor, attach, mcp, top, trace, latency, allocations, mailbox, xray],
        Library <- [library, bare], What <- resources()].

%% The library and what goes with it never take less.
without_the_library_no_more_is_needed_test() ->
    [?assertEqual({Command, []}, {Command, [Key
        || {Key, Needed} <- maps:to_list(flame_prof_preflight:needs(Command, bare)),
            Needed > maps:get(Key, flame_prof_preflight:needs(Command, library))]})
        || Command <- [doctor, top, mailbox]].

all_shortages_are_said_test() ->
    Limits = [{atoms, 100, 200}, {ports, 9, 10}, {processes, 1, 100000}],
    ?assertMatch({refused, [#{what := atoms}, #{what := ports}]},
        flame_prof_preflight:check(doctor, Limits)).

%% ----------------------------------------------------------------- sentences --

a_sentence_has_what_is_short_how_much_is_there_and_how_much_is_needed_test_() ->
    [?_assertEqual(Text, lists:flatten(flame_prof_preflight:sentence(Command,
        #{what => What, used => Used, limit => Limit, needed => Needed})))
        || {Command, What, Used, Limit, Needed, Text} <- [
            {doctor, atoms, 1046576, 1048576, 5000, "has 2,000 of 1,048,576 atoms free (erl +t), "
                "and the doctor needs 5,000"},
            {top, processes, 2000, 1024, 240, "has 0 of 1,024 processes free (erl +P), and "
                "flame_prof top needs 240"},
            {doctor, processes, 0, none, 1,
                "has 0 processes free (erl +P), and the doctor needs 1"},
            {waits, control_group, 100 * ?MIB, 124 * ?MIB, 24 * ?MIB, "has 24.0 MiB of 124.0 MiB "
                "memory free in its control group, and flame_prof waits needs 24.0 MiB"},
            {doctor, machine, 3 bsl 30, 4 bsl 30, ?MIB, "has 1.0 GiB of 4.0 GiB memory free on its "
                "machine, and the doctor needs 1.0 MiB"},
            {doctor, heap, 0, 20000, 200000, "allows heaps of at most 20,000 words (erl +hmax, "
                "+hmaxk), and the doctor needs 200,000 words"}]].

%% ---------------------------------------------------------- what the VM says --

limits_of_the_vm_test() ->
    Area = fun(Name, Only) -> {Name, [{options, [{scs, 1}, {sco, Only}]}, {supercarrier,
        [{sizes, [{total, 1000}, {used, 300}, {used_sa, 1}]}]}]} end,
    Of = fun(Heap, Areas) -> flame_prof_limits:of_vm([{atom_count, 5}, {atom_limit, 50},
        {process_count, 6}, {process_limit, 60}, {port_count, 7}, {port_limit, 70},
        {max_heap_size, Heap}, {{allocator, erts_mmap}, Areas}]) end,
    Counts = [{atoms, 5, 50}, {processes, 6, 60}, {ports, 7, 70}],
    NoHeap = #{size => 0, kill => true, error_logger => true},
    ?assertEqual(Counts, Of(NoHeap, false)),
    ?assertEqual(Counts, Of(#{size => 100, kill => false}, [])),
    ?assertEqual(Counts ++ [{heap, 0, 100}], Of(#{size => 100, kill => true}, [])),
    ?assertEqual(Counts ++ [{heap_with_binaries, 0, 100}],
        Of(#{size => 100, kill => true, include_shared_binaries => true}, [])),
    ?assertEqual(Counts ++ [{super_carrier, 300, 1000}, {literals, 300, 1000}],
        Of(NoHeap, [Area(default_mmap, true), Area(literal_mmap, true)])),
    %% One that may go beyond it, and one that has none.
    ?assertEqual(Counts, Of(NoHeap, [Area(default_mmap, false), {literal_mmap, [{options, []}]}])).

limits_of_files_test() ->
    Limits = <<"Limit                     Soft Limit           Hard Limit           Units\n"
        "Max data size             unlimited            unlimited            bytes\n"
        "Max open files            1024                 20000                files\n"
        "Max address space         4294967296           unlimited            bytes\n">>,
    Files = #{"/proc/self/limits" => Limits,
        "/proc/self/status" => <<"Name:\tbeam.smp\nVmPeak:\t 9 kB\nVmSize:\t 2048 kB\n"
            "VmData:\t 100 kB\n">>,
        "/proc/meminfo" => <<"MemTotal:  1000 kB\nMemFree:  10 kB\nMemAvailable: 400 kB\n">>,
        descriptors => {ok, ["0", "1", "2", "9"]}},
    ?assertEqual([{files, 3, 1024}, {address_space, 2048 * 1024, 4294967296},
        {machine, 600 * 1024, 1000 * 1024}], flame_prof_limits:of_files(Files)),
    ?assertEqual([], flame_prof_limits:of_files(#{descriptors => {error, enoent}})).

%% Of this node, asked in the same way: it lives, so that there is some of everything.
this_node_has_all_that_every_vm_counts_test() ->
    {ok, Limits} = flame_prof_limits:by(fun here/2),
    [begin
        {What, Used, Limit} = lists:keyfind(What, 1, Limits),
        ?assert(Used > 0 andalso Used < Limit)
    end || What <- [atoms, processes, ports, files, machine]].

%% --------------------------------------------------------------------- asking --

%% What is asked is OTP's: nothing else may be there.
only_functions_of_otp_are_called_test() ->
    {ok, _} = flame_prof_limits:by(fun(Calls, Ms) ->
        Otp = [{module, erlang}, {module, prim_file}],
        [?assert(lists:member(erlang:fun_info(Fun, module), Otp)) || {Fun, _} <- Calls],
        here(Calls, Ms)
    end).

%% Of the group of the node and of those above it.
the_group_with_the_least_room_counts_test() ->
    Files = #{"/proc/self/mountinfo" => <<"30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n">>,
        "/proc/self/cgroup" => <<"0::/shop/node\n">>, <<"/cg/shop/memory.max">> => <<"9000\n">>,
        <<"/cg/shop/memory.current">> => <<"8500\n">>,
        <<"/cg/shop/node/memory.max">> => <<"4000\n">>,
        <<"/cg/shop/node/memory.current">> => <<"3000\n">>},
    {ok, Limits} = flame_prof_limits:by(with_files(Files, {error, enoent})),
    ?assertEqual({control_group, 8500, 9000}, lists:keyfind(control_group, 1, Limits)).

%% No file can be read then: that is the evidence.
without_a_descriptor_all_are_taken_test() ->
    [begin
        {ok, Limits} = flame_prof_limits:by(with_files(#{}, {error, Why})),
        {files, Most, Most} = lists:keyfind(files, 1, Limits),
        ?assert(Most > 1)
    end || Why <- [emfile, enfile]].

where_files_hang_the_limits_of_the_vm_are_known_test() ->
    {late, Limits} = flame_prof_limits:by(of_vm_only(late)),
    ?assertEqual([atoms, processes, ports], [What || {What, _, _} <- Limits, What =/= literals]).

a_node_that_goes_meanwhile_is_an_error_test() ->
    Gone = {error, {node, #{node => 'shop@h', reason => <<"the connection is gone">>}}},
    ?assertEqual(Gone, flame_prof_limits:by(fun(_, _) -> Gone end)),
    ?assertEqual(Gone, flame_prof_limits:by(of_vm_only(Gone))).

%% ------------------------------------------------------------- control groups --

the_memory_of_a_group_test() ->
    Of = flame_prof_cgroup:memory(2, [<<"max\n">>, <<"max\n">>, <<"5000\n">>, <<>>]),
    ?assertEqual(none, Of),
    Stat = <<"anon 10\nactive_file 100\ninactive_file 200\ntotal_active_file 1\n">>,
    ?assertEqual({4700, 9000}, flame_prof_cgroup:memory(2,
        [<<"9000\n">>, <<"max\n">>, <<"5000\n">>, Stat])),
    ?assertEqual({4700, 8000}, flame_prof_cgroup:memory(2,
        [<<"9000\n">>, <<"8000\n">>, <<"5000\n">>, Stat])),
    ?assertEqual({4999, 9000}, flame_prof_cgroup:memory(1,
        [<<"9000\n">>, <<"9000\n">>, <<"5000\n">>, Stat])),
    ?assertEqual(none, flame_prof_cgroup:memory(1, [<<"9223372036854771712\n">>,
        <<"9223372036854771712\n">>, <<"5000\n">>, Stat])),
    %% A file that could not be read.
    ?assertEqual(none, flame_prof_cgroup:memory(2, [<<"9000\n">>, <<>>, <<>>, <<>>])).

the_files_of_all_groups_above_are_asked_for_test() ->
    Mounts = <<"33 24 0:29 / /cg/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n">>,
    Groups = <<"4:memory:/a\n0::/x\n">>,
    Names = ["memory.limit_in_bytes", "memory.limit_in_bytes", "memory.usage_in_bytes",
        "memory.stat"],
    ?assertEqual([{1, [iolist_to_binary([Folder, Name]) || Name <- Names]}
        || Folder <- ["/cg/memory/", "/cg/memory/a/"]],
        flame_prof_cgroup:memory_files(Mounts, Groups)),
    ?assertEqual([], flame_prof_cgroup:memory_files(<<>>, Groups)).

%% ------------------------------------------------------------------- the doctor --

that_it_is_short_is_what_the_doctor_finds_test() ->
    Shortages = [#{what => atoms, used => 98, limit => 100, needed => 5000},
        #{what => control_group, used => 9 * ?MIB, limit => 10 * ?MIB, needed => 24 * ?MIB}],
    Diagnosis = flame_prof_doctor_refused:diagnosis('shop@h', Shortages, []),
    #{findings := Findings, unseen := Unseen} = Diagnosis,
    ?assertMatch([#{kind := limit, severity := critical}, #{kind := memory_limit}], Findings),
    ?assertEqual(lists:sort(flame_prof_doctor:kinds()),
        lists:sort([limit, memory_limit | [Kind || {Kind, _} <- Unseen]])),
    Text = unicode:characters_to_list(flame_prof_doctor_text:format(Diagnosis)),
    {match, _} = re:run(Text, "^1\\. critical: limit: the node has 2 of 100 atoms free \\(erl \\+t\\)"
        ", and the doctor needs 5,000$", [multiline]),
    {match, _} = re:run(Text, "^2\\. critical: memory_limit: the node has 1\\.0 MiB of 10\\.0 MiB",
        [multiline]),
    nomatch = re:run(Text, "not seen|nothing is wrong"),
    Json = iolist_to_binary(flame_prof_json:encode(flame_prof_doctor:json(Diagnosis))),
    {match, _} = re:run(Json, "\"needed\":5000").

every_resource_has_its_finding_test() ->
    [begin
        Shortage = #{what => What, used => 1, limit => 2, needed => 3},
        #{findings := [#{kind := Kind, title := Title, sentences := [_, _ | _] = Sentences}]} =
            flame_prof_doctor_refused:diagnosis('shop@h', [Shortage], []),
        ?assert(lists:member(Kind, [limit, memory_limit])),
        [?assert(is_binary(unicode:characters_to_binary(T))) || T <- [Title | Sentences]]
    end || What <- resources()].

resources() ->
    [atoms, processes, ports, files, heap, heap_with_binaries, control_group, machine,
        address_space, data, super_carrier, literals].

here(Calls, _Ms) -> {ok, [apply(Fun, Args) || {Fun, Args} <- Calls]}.

of_vm_only(Else) ->
    fun([{Fun, _} | _] = Calls, Ms) ->
        case erlang:fun_info(Fun, name) of {name, system_info} -> here(Calls, Ms); _ -> Else end
    end.

%% This VM, with these files: the others have that error.
with_files(Files, Else) ->
    fun(Calls, _Ms) ->
        {ok, [case erlang:fun_info(Fun, name) of
            {name, system_info} -> apply(Fun, Args);
            {name, read_file} -> read(hd(Args), Files, Else);
            {name, list_dir} -> Else
        end || {Fun, Args} <- Calls]}
    end.

read(File, Files, Else) ->
    case Files of #{File := Text} -> {ok, Text}; #{} -> Else end.

limits() -> [{What, 1, 1 bsl 40} || What <- resources()].

needed(What) ->
    maps:get(What, #{control_group => memory, machine => memory, super_carrier => carriers,
        address_space => mapped, data => mapped}, What).
