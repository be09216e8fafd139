%% Attaching to nodes that never heard of flame_prof, by the script itself, and
%% what is left there afterwards: nothing.
-module(flame_prof_attach_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([again_and_again_under_load_leaves_nothing/0]).
-export([
    a_profile_names_the_busy_function_and_leaves_nothing/1,
    the_portable_engine_leaves_nothing/1,
    without_its_library_a_node_is_sampled_by_the_portable_engine/1,
    where_no_folder_may_run_a_library_the_portable_engine_does/1,
    without_the_library_the_doctor_has_samples_of_the_portable_engine/1,
    without_the_library_a_folder_may_have_any_name/1,
    without_the_library_a_reader_that_goes_away_leaves_nothing/1,
    without_the_library_a_full_disk_keeps_what_it_took/1,
    without_the_library_a_killed_controller_leaves_nothing/1,
    a_slow_controller_drops_and_counts/1,
    without_the_library_a_disk_that_stands_still_keeps_no_node/1,
    of_several_nodes_one_does_without_the_library/1,
    without_the_library_a_node_that_dies_costs_its_tail_only/1,
    what_needs_the_library_is_refused_with_the_reason/1,
    without_a_library_on_this_side_that_is_said/1,
    a_library_that_can_not_be_loaded_is_not_in_the_nodes_log/1,
    top_does_without_the_library/1,
    an_interrupt_keeps_what_was_sampled_and_leaves_nothing/1,
    a_killed_controller_leaves_nothing/1,
    a_controller_that_is_cut_off_leaves_nothing/1,
    a_killed_cleanup_process_leaves_nothing/1,
    a_killed_agent_leaves_nothing/1,
    who_measured_is_killed_and_nothing_is_traced/1,
    a_viewer_of_a_node_measures_its_calls_until_it_is_killed/1,
    a_trace_on_the_command_line_leaves_nothing/1,
    several_nodes_have_files_of_their_own/1,
    a_node_that_dies_costs_its_own_tail_only/1,
    a_folder_that_does_not_take_the_library_is_passed_over/1,
    a_folder_whose_files_can_not_be_mapped_is_passed_over/1,
    a_node_of_another_user_and_file_system_gets_the_library/1,
    what_the_library_needs_comes_with_it/1,
    again_and_again_under_load_leaves_nothing/1,
    a_look_lends_what_it_calls/1,
    pstack_memory_and_top_leave_nothing/1,
    attach_ends_with_what_is_wrong_in_its_samples/1,
    attach_says_that_nothing_is_wrong_too/1,
    the_doctor_leaves_nothing/1,
    a_page_of_the_doctor_has_the_findings_that_it_prints/1,
    a_page_of_a_node_without_samples_is_an_error/1,
    a_node_that_is_absent_is_no_healthy_one/1,
    a_node_whose_files_hang_is_told_and_nothing_is_left/1,
    a_server_of_files_that_hangs_is_told/1,
    what_does_not_fit_is_refused_with_the_reason/1,
    an_application_that_never_loaded_the_library_lives_on/1,
    an_application_that_starts_meanwhile_lives_on/1,
    of_many_at_once_one_is_attached_and_nothing_is_left/1,
    a_file_that_is_there_already_is_left_alone/1,
    schedulers_are_not_retired_while_they_are_used/1,
    schedulers_can_be_used_again_after_they_retired/1,
    schedulers_go_on_when_who_retires_them_is_killed/1,
    a_node_of_these_tests_ends_with_their_run/1
]).

%% Of flame_prof_transport.
-define(CREDIT_BYTES, 4194304).

-import(command_line, [run/1, start/1, await/1, until/1, traces/1, call/4]).

suite() -> [{timetrap, {minutes, 3}}].

all() ->
    [
        a_profile_names_the_busy_function_and_leaves_nothing,
        the_portable_engine_leaves_nothing,
        without_its_library_a_node_is_sampled_by_the_portable_engine,
        where_no_folder_may_run_a_library_the_portable_engine_does,
        without_the_library_the_doctor_has_samples_of_the_portable_engine,
        without_the_library_a_folder_may_have_any_name,
        without_the_library_a_reader_that_goes_away_leaves_nothing,
        without_the_library_a_full_disk_keeps_what_it_took,
        without_the_library_a_killed_controller_leaves_nothing,
        a_slow_controller_drops_and_counts,
        without_the_library_a_disk_that_stands_still_keeps_no_node,
        of_several_nodes_one_does_without_the_library,
        without_the_library_a_node_that_dies_costs_its_tail_only,
        what_needs_the_library_is_refused_with_the_reason,
        without_a_library_on_this_side_that_is_said,
        a_library_that_can_not_be_loaded_is_not_in_the_nodes_log,
        top_does_without_the_library,
        an_interrupt_keeps_what_was_sampled_and_leaves_nothing,
        a_killed_controller_leaves_nothing,
        a_controller_that_is_cut_off_leaves_nothing,
        a_killed_cleanup_process_leaves_nothing,
        a_killed_agent_leaves_nothing,
        who_measured_is_killed_and_nothing_is_traced,
        a_viewer_of_a_node_measures_its_calls_until_it_is_killed,
        a_trace_on_the_command_line_leaves_nothing,
        several_nodes_have_files_of_their_own,
        a_node_that_dies_costs_its_own_tail_only,
        a_folder_that_does_not_take_the_library_is_passed_over,
        a_folder_whose_files_can_not_be_mapped_is_passed_over,
        a_node_of_another_user_and_file_system_gets_the_library,
        what_the_library_needs_comes_with_it,
        again_and_again_under_load_leaves_nothing,
        a_look_lends_what_it_calls,
        pstack_memory_and_top_leave_nothing,
        attach_ends_with_what_is_wrong_in_its_samples,
        attach_says_that_nothing_is_wrong_too,
        the_doctor_leaves_nothing,
        a_page_of_the_doctor_has_the_findings_that_it_prints,
        a_page_of_a_node_without_samples_is_an_error,
        a_node_that_is_absent_is_no_healthy_one,
        a_node_whose_files_hang_is_told_and_nothing_is_left,
        a_server_of_files_that_hangs_is_told,
        what_does_not_fit_is_refused_with_the_reason,
        an_application_that_never_loaded_the_library_lives_on,
        an_application_that_starts_meanwhile_lives_on,
        of_many_at_once_one_is_attached_and_nothing_is_left,
        a_file_that_is_there_already_is_left_alone,
        schedulers_are_not_retired_while_they_are_used,
        schedulers_can_be_used_again_after_they_retired,
        schedulers_go_on_when_who_retires_them_is_killed,
        a_node_of_these_tests_ends_with_their_run
    ].

init_per_testcase(Case, Config) ->
    Output = filename:join(proplists:get_value(priv_dir, Config), Case),
    [{output, Output} | Config].

end_per_testcase(_Case, _Config) ->
    ok.

with_node(Fun) -> with_node([], Fun).

with_node(Args, Fun) -> with_started(command_line:start_node(Args), Fun).

%% Fun gets the node and what it looked like before.
with_started(Node, Fun) ->
    try
        %% The first connection and look load modules and make tables of OTP's.
        _ = traces(Node),
        Fun(Node, settled(Node))
    after
        command_line:stop_node(Node)
    end.

settled(Node) ->
    Before = traces(Node),
    case traces(Node) of
        Before -> Before;
        _ -> settled(Node)
    end.

%% It may take a moment until a connection is closed.
leaves_nothing(Node, Before) -> leaves_nothing_of(maps:keys(Before), Node, Before).

leaves_nothing_of(Kinds, Node, Before) ->
    Left = fun() -> maps:with(Kinds, maps:filter(fun(K, V) -> V =/= maps:get(K, Before) end,
        traces(Node))) end,
    try
        until(fun() -> Left() =:= #{} end)
    catch
        error:_ -> ?assertEqual({maps:with(maps:keys(Left()), Before), #{}}, {Left(), #{}})
    end.

attach(Node, Config, More) ->
    attach_to([Node], Config, More).

attach_to(Nodes, Config, More) ->
    ["attach"] ++ [Name || #{name := Name} <- Nodes] ++
        ["--cookie", command_line:cookie(), "--output", output(Config) | More].

output(Config) -> proplists:get_value(output, Config).

files(Config) -> filelib:wildcard(filename:join(output(Config), "*.log*")).

samples(Files) ->
    {ok, Count, #{bad := Bad}} = flame_prof:fold(fun(_, N) -> N + 1 end, 0, Files),
    true = Bad =< length(Files),
    Count.

is_attached(#{node := Node}) ->
    call(Node, erlang, whereis, [flame_prof_session]) =/= undefined.

is_capable() ->
    case flame_prof_engine:capture() of
        {ok, _} -> true;
        {error, _} -> false
    end.

a_profile_names_the_busy_function_and_leaves_nothing(Config) ->
    with_node(fun(Node, Before) ->
        {0, Text} = run(attach(Node, Config, ["--for", "2s"])),
        ct:pal("~ts", [Text]),
        [File] = files(Config),
        {match, _} = re:run(File, atom_to_list(maps:get(node, Node))),
        {ok, #{mode := Mode}} = stat(File),
        ?assertEqual(8#600, Mode band 8#777),
        true = samples([File]) > 20,
        {ok, #{functions := Functions}} = flame_prof_tree:report(File,
            #{top => 1000, idle => true}),
        true = lists:any(fun(#{name := Name}) -> Name =:= <<"timer:sleep/1">> end, Functions),
        %% Our own processes are not among the samples, but for requests on their way.
        Ours = [Share || #{name := N, share := Share} <- Functions,
            string:prefix(N, "flame_prof") =/= nomatch],
        %% Of few ticks one request is a larger share.
        ?assert(lists:sum(Ours) < 5),
        leaves_nothing(Node, Before)
    end).

stat(File) ->
    {ok, Info} = file:read_file_info(File),
    {ok, #{mode => element(8, Info)}}.

the_portable_engine_leaves_nothing(Config) ->
    with_node(fun(Node, Before) ->
        {0, Text} = run(attach(Node, Config, ["--for", "1s", "--engine", "portable"])),
        {match, _} = re:run(Text, "portable: asked for"),
        true = samples(files(Config)) > 0,
        leaves_nothing(Node, Before)
    end).

%% Nodes with which the library is incompatible.

with_small_node(Fun) -> with_started(command_line:start_small_node([]), Fun).

without_its_library_a_node_is_sampled_by_the_portable_engine(Config) ->
    with_small_node(fun(#{node := Node, pid := OsPid} = Plain, Before) ->
        {0, Text} = run(attach(Plain, Config, ["--for", "2s"])),
        {match, _} =
            re:run(Text,
            "does without the library \\(it cannot be loaded there: .*/tmp.*: file too large"),
        {match, _} = re:run(Text, "portable: it cannot be loaded there: "),
        {match, _} = re:run(Text, "timer:sleep/1"),
        [File] = files(Config),
        {match, _} = re:run(File, atom_to_list(Node)),
        {ok, #{mode := Mode}} = stat(File),
        ?assertEqual(8#600, Mode band 8#777),
        true = samples([File]) > 20,
        is_of(OsPid, File),
        {ok, [_]} = file:list_dir_all(output(Config)),
        leaves_nothing(Plain, Before),
        ?assertEqual(8, call(Node, erlang, system_flag, [backtrace_depth, 8]))
    end).

%% The samples are of that process of the operating system, at the time of now.
is_of(OsPid, File) ->
    Now = os:system_time(second),
    {ok, true, _} = reader_oracle:fold(
        fun(#{pid := Pid, time_us := Us}, IsSo) ->
            IsSo andalso Pid =:= list_to_integer(OsPid) andalso abs(Us div 1000000 - Now) < 600
        end, true, File).

where_no_folder_may_run_a_library_the_portable_engine_does(Config) ->
    case command_line:has_mounts() of
        true -> with_started(command_line:start_node_in(nowhere(), []), fun(Plain, Before) ->
            {0, Text} = run(attach(Plain, Config, ["--for", "1s", "--quiet"])),
            {match, _} = re:run(Text, "may be run from there \\(noexec\\)"),
            {match, _} = re:run(Text, "portable: "),
            true = samples(files(Config)) > 0,
            leaves_nothing(Plain, Before)
        end);
        false -> {skip, "mounts of one's own are not to be had here"}
    end.

%% Its samples are read here: what busy does is in them. With an engine that it cannot have it says
%% why there are none.
without_the_library_the_doctor_has_samples_of_the_portable_engine(Config) ->
    with_small_node(fun(#{name := Name} = Plain, Before) ->
        Page = filename:join(proplists:get_value(priv_dir, Config), "portable.html"),
        Temporary = filename:join(output(Config), "temporary"),
        ok = filelib:ensure_path(Temporary),
        Doctor = ["doctor", Name, "--cookie", command_line:cookie()],
        {Status, Text} = command_line:run(Doctor ++ ["--for", "6s", "--json", "--report", Page],
            [{env, [{"TMPDIR", Temporary}, {"ERL_LIBS", false}, {"LC_ALL", "C.UTF-8"}]}]),
        ct:pal("~ts", [Text]),
        true = lists:member(Status, [0, 10]),
        {match, _} = re:run(Text, "does without the library \\(it cannot be loaded there: .*file too "
            "large\\); the portable engine samples it, and the samples are read here"),
        {match, [Json]} = re:run(Text, "^\\{\"findings.*$", [multiline, {capture, first, binary}]),
        #{<<"looked_at">> := LookedAt, <<"unseen">> := Unseen} = foreign_formats:json(Json),
        ?assertMatch(#{<<"sampled">> := Sampled} when Sampled > 10, LookedAt),
        Kinds = [Kind || #{<<"kind">> := Kind} <- Unseen],
        [?assertNot(lists:member(Kind, Kinds)) || Kind <- [<<"hot_function">>, <<"mailbox">>]],
        ?assert(filelib:file_size(Page) > 100000),
        {1, Native} = run(Doctor ++ ["--for", "1s", "--engine", "native"]),
        {match, _} = re:run(Native, "does without the library \\(.*file too large\\)\n"),
        {ok, []} = file:list_dir_all(Temporary),
        leaves_nothing(Plain, Before)
    end).

nowhere() ->
    Folders = ["/tmp", "/var/tmp", "/dev/shm"],
    [["mount -t tmpfs -o noexec tmpfs ", Folder, " && "] || Folder <- Folders] ++
        "cd / && exec env HOME=/nonexistent setpriv --reuid 65534 --regid 65534 --clear-groups".

%% Also where this side's locale has no letters for it.
without_the_library_a_folder_may_have_any_name(Config) ->
    with_small_node(fun(#{name := Name} = Plain, Before) ->
        Folder = filename:join(output(Config), [16#fc, 16#65e5]),
        Command = ["LC_ALL=C ", command_line:script(), " attach ", Name, " --cookie ",
            command_line:cookie(),
            " --for 1s --quiet --output '", Folder, "'"],
        {0, _} = command_line:shell(lists:flatten(Command)),
        [File] = filelib:wildcard(filename:join(Folder, "*.log*")),
        true = samples([File]) > 0,
        {ok, [_]} = file:list_dir_all(Folder),
        leaves_nothing(Plain, Before)
    end).

without_the_library_a_reader_that_goes_away_leaves_nothing(Config) ->
    with_small_node(fun(#{name := Name} = Plain, Before) ->
        Command = [command_line:script(), " attach ", Name, " --cookie ", command_line:cookie(),
            " --for 1s --output ", output(Config), " | true; exit ${PIPESTATUS[0]}"],
        {0, _} = command_line:shell(lists:flatten(Command)),
        [File] = files(Config),
        true = samples([File]) > 0,
        {ok, [_]} = file:list_dir_all(output(Config)),
        leaves_nothing(Plain, Before)
    end).

without_the_library_a_full_disk_keeps_what_it_took(Config) ->
    case command_line:has_mounts() of
        true -> with_small_node(fun(Plain, Before) -> on_a_full_disk(Plain, Before, Config) end);
        false -> {skip, "mounts of one's own are not to be had here"}
    end.

%% It has room for one block of plain text, and for no second one.
on_a_full_disk(#{name := Name} = Plain, Before, Config) ->
    Disk = filename:join(output(Config), "disk"),
    ok = filelib:ensure_path(Disk),
    Command = [
        "unshare --mount sh -c 'mount -t tmpfs -o size=400k tmpfs ", Disk, " && ",
            command_line:script(), " attach ", Name,
        " --cookie ", command_line:cookie(),
            " --for 5s --quiet --set sample_interval=1 --set compress=none --output ", Disk,
        "; status=$?; cp ", Disk, "/*.log ", output(Config), "; exit $status'"
    ],
    {1, Text} = command_line:shell(lists:flatten(Command)),
    {match, _} = re:run(Text, "no space left on device"),
    true = samples(files(Config)) > 0,
    leaves_nothing(Plain, Before).

without_the_library_a_killed_controller_leaves_nothing(Config) ->
    with_small_node(fun(Node, Before) ->
        Port = start(attach(Node, Config, ["--for", "1h", "--quiet"])),
        until(fun() -> size_of(files(Config)) > 0 end),
        _ = os:cmd("kill -9 " ++ string:join(controllers(Port), " ")),
        {137, _} = await(Port),
        true = samples(files(Config)) > 0,
        leaves_nothing(Node, Before)
    end).

%% As slow as can be: the remote writer stands still until something was dropped.
a_slow_controller_drops_and_counts(Config) ->
    with_small_node(fun(#{node := Node} = Plain, Before) ->
        ok = filelib:ensure_path(output(Config)),
        {ok, #{remote_writer := Writer} = Agent} =
            flame_prof_attach:open(Node, {writer, output(Config)}),
        Idle = [call(Node, erlang, spawn, [timer, sleep, [infinity]]) || _ <- lists:seq(1, 400)],
        Options = #{sample_interval => 1, compress => none, select => {top, 500, 100}},
        [{Node, {ok, _}}] = flame_prof_attach:start_sessions([Agent], Options),
        Counters = fun() -> {ok, #{counters := B}} = flame_prof_attach:figures(Agent), B end,
        until(fun() -> maps:get(written, Counters()) > 1000 end),
        Memory = call(Node, erlang, memory, [total]),
        ok = stands_still(Writer),
        until(fun() -> maps:get(dropped, Counters()) > 0 end),
        ?assert(call(Node, erlang, memory, [total]) - Memory < 64 * 1048576),
        %% And goes on.
        #{written := Written} = Counters(),
        until(fun() -> maps:get(written, Counters()) > Written + 1000 end),
        {ok, #{files := Files, written := All} = Run} = flame_prof_attach:stop(Agent),
        balances(Run),
        {ok, Read, #{bad := 0}} = reader_oracle:fold(fun(#{period := N}, Sum) -> Sum + N end, 0,
            Files),
        ?assertEqual(All, Read),
        {ok, #{functions := Functions}} = flame_prof_tree:report(Files,
            #{top => 1000, idle => true}),
        true = lists:any(fun(#{name := Name}) -> Name =:= <<"timer:sleep/1">> end, Functions),
        ok = flame_prof_attach:close(Agent),
        _ = [call(Node, erlang, exit, [Pid, kill]) || Pid <- Idle],
        leaves_nothing(Plain, Before)
    end).

%% No more is on its way than the engine has credit for, and one batch.
stands_still(Writer) ->
    ok = sys:suspend(Writer),
    until(fun() -> lists:sum(batches(Writer)) >= ?CREDIT_BYTES end),
    timer:sleep(500),
    Sizes = batches(Writer),
    ?assert(lists:sum(Sizes) < ?CREDIT_BYTES + lists:max(Sizes)),
    sys:resume(Writer).

batches(Writer) ->
    {messages, Messages} = process_info(Writer, messages),
    [byte_size(Batch) || {flame_prof_batch, _, _, Batch} <- Messages].

balances(#{attempted := Attempted, written := Written, dropped := Dropped, inconsistent := 0,
    exited := Exited}) ->
    ?assertEqual(Attempted, Written + Dropped + Exited).

%% As the remote writer does while it waits for its disk.
without_the_library_a_disk_that_stands_still_keeps_no_node(Config) ->
    with_small_node(fun(#{node := Node} = Plain, Before) ->
        ok = filelib:ensure_path(output(Config)),
        {ok, #{remote_writer := Writer} = Agent} =
            flame_prof_attach:open(Node, {writer, output(Config)}),
        [{Node, {ok, _}}] = flame_prof_attach:start_sessions([Agent], #{}),
        Look = fun() -> leaves_nothing(Plain, Before) end,
        {Holding, Monitor} = spawn_monitor(fun() -> held_up(Writer, Look) end),
        until(fun() -> {status, suspended} =:= process_info(Writer, status) end),
        ok = flame_prof_attach:close(Agent),
        receive {'DOWN', Monitor, process, Holding, Why} -> ?assertEqual(normal, Why) end,
        until(fun() -> {ok, []} =:= file:list_dir_all(output(Config)) end)
    end).

held_up(Writer, Fun) ->
    true = waiting:suspend(Writer),
    _ = Fun(),
    true = erlang:resume_process(Writer).

of_several_nodes_one_does_without_the_library(Config) ->
    with_node(fun(One, BeforeOne) ->
        with_small_node(fun(Two, BeforeTwo) ->
            {0, Text} = run(attach_to([One, Two], Config, ["--for", "2s"])),
            {match, _} = re:run(Text, "portable: it cannot be loaded there"),
            [_, _] = Files = files(Config),
            [true = samples([File]) > 0 || File <- Files],
            {ok, #{tree := Tree, files := 2}} = flame_prof_tree:report(Files,
                #{node => true, idle => true}),
            2 = length(Tree),
            leaves_nothing(One, BeforeOne),
            leaves_nothing(Two, BeforeTwo)
        end)
    end).

without_the_library_a_node_that_dies_costs_its_tail_only(Config) ->
    Node = command_line:start_small_node([]),
    Port = start(attach(Node, Config, ["--for", "1h"])),
    until(fun() -> size_of(files(Config)) > 0 end),
    command_line:stop_node(Node),
    {1, Text} = await(Port),
    {match, _} = re:run(Text, "is gone; what came until then is kept"),
    [File] = files(Config),
    {ok, _, #{bad := 0}} = flame_prof:fold(fun(_, N) -> N + 1 end, 0, File),
    {ok, [_]} = file:list_dir_all(output(Config)).

what_needs_the_library_is_refused_with_the_reason(Config) ->
    with_small_node(fun(#{name := Name} = Plain, Before) ->
        {3, Native} = run(attach(Plain, Config, ["--engine", "native"])),
        {match, _} = re:run(Native, "cannot take the library: .*/tmp.*: file too large"),
        {3, Stacks} = run(["pstack", "--node", Name, "--cookie", command_line:cookie()]),
        {match, _} = re:run(Stacks, "cannot take the library: .*/tmp.*: file too large"),
        {1, Schedulers} = run(attach(Plain, Config, ["--set", "mode=schedulers"])),
        {match, _} = re:run(Schedulers, "mode schedulers needs the C library"),
        {1, Send} = run(attach(Plain, Config, ["--set", "process_options=#{follow => send}"])),
        {match, _} = re:run(Send, "follow by send needs the C library"),
        [] = files(Config),
        leaves_nothing(Plain, Before)
    end).

without_a_library_on_this_side_that_is_said(Config) ->
    with_node(fun(Plain, Before) ->
        {1, Text} = attach_with(<<"nothing that could be loaded">>, Plain, Config),
        {match, _} = re:run(Text, "flame_prof_nif.so: it cannot be loaded here"),
        leaves_nothing(Plain, Before)
    end).

%% A head as it has to be, with nothing behind it.
a_library_that_can_not_be_loaded_is_not_in_the_nodes_log(Config) ->
    with_node(fun(#{port := Port} = Plain, Before) ->
        Head = <<16#7f, "ELF", 2, 1, 1, 0:72, 3:16/little, 62:16/little, 0:512>>,
        {3, Text} = attach_with(Head, ["--engine", "native"], Plain, Config),
        {match, _} = re:run(Text, "cannot take the library: .*/tmp.*: .*flame_prof_nif"),
        leaves_nothing(Plain, Before),
        nomatch = re:run(logged(Port), "on_load")
    end).

logged(Port) ->
    receive {Port, {data, Bytes}} -> [Bytes | logged(Port)] after 0 -> [] end.

attach_with(Library, Plain, Config) -> attach_with(Library, [], Plain, Config).

attach_with(Library, More, Plain, Config) ->
    Copy = filename:join(output(Config), "copy"),
    Ebin = filename:join(Copy, "ebin"),
    File = filename:join([Copy, "priv", "flame_prof_nif.so"]),
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, Library),
    [] = os:cmd(["cp -r ", filename:dirname(code:which(flame_prof_attach)), " ", Ebin]),
    Words = ["FLAME_PROF_EBIN=" ++ Ebin, command_line:script() | attach(Plain, Config, More)],
    command_line:shell(lists:append(lists:join(" ", Words))).

top_does_without_the_library(_Config) ->
    with_small_node(fun(#{name := Name} = Plain, Before) ->
        Options = ["--node", Name, "--cookie", command_line:cookie()],
        {0, Waits} = run(["waits", Name, "--cookie", command_line:cookie()]),
        {match, _} = re:run(Waits, "Of [0-9]+ processes of "),
        {0, Table} = run(["top", "--count", "2", "--every", "300ms" | Options]),
        {match, _} = re:run(Table, "\\(portable\\)(.|\n)*busy"),
        leaves_nothing(Plain, Before)
    end).

an_interrupt_keeps_what_was_sampled_and_leaves_nothing(Config) ->
    with_node(fun(Node, Before) ->
        Port = start(attach(Node, Config, ["--for", "1h", "--quiet"])),
        until(fun() -> is_attached(Node) andalso size_of(files(Config)) > 0 end),
        {os_pid, Pid} = erlang:port_info(Port, os_pid),
        _ = os:cmd("kill -TERM " ++ integer_to_list(Pid)),
        {130, _} = await(Port),
        true = samples(files(Config)) > 0,
        leaves_nothing(Node, Before)
    end).

size_of(Files) -> lists:sum([filelib:file_size(File) || File <- Files]).

a_killed_controller_leaves_nothing(Config) ->
    with_node(fun(Node, Before) ->
        Port = start(attach(Node, Config, ["--for", "1h"])),
        until(fun() -> is_attached(Node) end),
        _ = os:cmd("kill -9 " ++ string:join(controllers(Port), " ")),
        {137, _} = await(Port),
        leaves_nothing(Node, Before)
    end).

%% The script, and the Erlang that it has started.
controllers(Port) ->
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    Children = string:lexemes(os:cmd(io_lib:format("cat /proc/~b/task/~b/children", [Pid, Pid])),
        " \n"),
    [integer_to_list(Pid) | Children].

%% The command, or the agent that has lent it the library.
who_measured_is_killed_and_nothing_is_traced(_) ->
    lists:foreach(
        fun({Command, Kill}) ->
            with_node(fun(#{name := Name} = Node, Before) ->
                Port = start([Command, Name] ++ [F || F <- ["lists:seq/2"], Command =/= "allocations"]
                    ++ ["--for", "1h", "--cookie", command_line:cookie()]),
                until(fun() -> is_traced(Node) end),
                ok = Kill(Node, Port),
                {_, _} = await(Port),
                leaves_nothing_of_ours(Node, Before),
                ?assertNot(is_traced(Node))
            end)
        end,
        [{Command, Kill} || Command <- ["latency", "trace", "allocations"], Kill <- [
            fun(_Node, Port) ->
                _ = os:cmd("kill -9 " ++ string:join(controllers(Port), " ")),
                ok
            end,
            fun(#{node := Node}, _Port) ->
                true = exit(call(Node, erlang, whereis, [flame_prof_agent]), kill),
                ok
            end
        ]]).

%% `view --node': the page is of this machine's files, the calls are the node's.
a_viewer_of_a_node_measures_its_calls_until_it_is_killed(_) ->
    with_node(fun(#{name := Name} = Node, Before) ->
        Port = start(["view", checkout:path("test/corpus/ours.log"), "--node", Name, "--cookie",
            command_line:cookie()]),
        #{port := Tcp, path := Path} = Url = uri_string:parse(link_of(Port, <<>>)),
        ?assertMatch({match, _}, re:run(page(Tcp, Path), "^HTTP/1.1 200 OK\r\n.*<html",
            [dotall])),
        ?assertMatch({match, _}, re:run(page(Tcp, "/no_such_token/"), "^HTTP/1.1 403 ")),
        ?assertNot(is_traced(Node)),
        Socket = asked(Url, [Path, "api/latency?functions=lists:seq/2&seconds=60"]),
        %% A line to its end: it comes in pieces, and the name of the function behind its callers.
        Calls = fun(Read) ->
            match =:= re:run(Read, "\"calls\":[1-9].*\n", [{capture, none}])
        end,
        ?assertMatch({match, _}, re:run(read_until(Socket, Calls, <<>>), "\"lists:seq/2\"")),
        ?assert(is_traced(Node)),
        _ = os:cmd("kill -9 " ++ string:join(controllers(Port), " ")),
        {137, _} = await(Port),
        leaves_nothing_of_ours(Node, Before),
        ?assertNot(is_traced(Node)),
        ok = gen_tcp:close(Socket)
    end).

link_of(Port, Said) ->
    case re:run(Said, "http://127.0.0.1:\\S+(?=\\s)", [{capture, first, list}]) of
        {match, [Link]} -> Link;
        nomatch ->
            receive
                {Port, {data, Bytes}} -> link_of(Port, <<Said/binary, Bytes/binary>>);
                {Port, {exit_status, Status}} -> error({ended, Status, Said})
            end
    end.

page(Tcp, Path) ->
    Socket = asked(#{port => Tcp}, Path),
    read_until(Socket, fun(_) -> false end, <<>>).

asked(#{port := Tcp}, Path) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Tcp, [binary, {active, false}]),
    ok = gen_tcp:send(Socket, ["GET ", Path, " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "Connection: close\r\n\r\n"]),
    Socket.

read_until(Socket, Is, Read) ->
    case Is(Read) orelse gen_tcp:recv(Socket, 0, 30000) of
        true -> Read;
        {ok, Bytes} -> read_until(Socket, Is, <<Read/binary, Bytes/binary>>);
        {error, closed} -> Read
    end.

%% In a node without flame_prof, which does not make an atom of it either.
a_trace_on_the_command_line_leaves_nothing(Config) ->
    with_node(fun(#{name := Name, node := Node} = At, Before) ->
        Cookie = ["--cookie", command_line:cookie()],
        Port = start(["trace", Name, "lists:seq(A, B) when A =:= 3 -> return", "--events", "4",
            "--for", "1m" | Cookie]),
        until(fun() -> is_traced(At) end),
        %% The flags of processes come after the breakpoint; the command may be gone meanwhile.
        _ = spawn(fun() -> calling(Node) end),
        {0, Text} = await(Port),
        [{match, _} = re:run(Text, Said) || Said <- [
            "lists:seq\\(3, 5\\)\n", "lists:seq/2 -> \\[3,4,5\\]\n", "% 4 events in .* 0 lost",
            "ended: max_events"]],
        nomatch = re:run(Text, "seq\\(5, 4\\)"),
        File = filename:join(output(Config), "trace.txt"),
        ok = filelib:ensure_dir(File),
        %% The command's own doings are no events.
        {0, Idle} = run(["trace", Name, "procs", "--for", "1500ms" | Cookie]),
        {match, _} = re:run(Idle, "% 0 events in [0-9.]+ s, 0 dropped"),
        {0, _} = run(["trace", Name, "send", "--for", "1s", "--output", File | Cookie]),
        {ok, Info} = file:read_file_info(File),
        8#600 = element(8, Info) band 8#777,
        {ok, Written} = file:read_file(File),
        {match, _} = re:run(Written, "ended: max_seconds"),
        {1, Exists} = run(["trace", Name, "send", "--output", File | Cookie]),
        {match, _} = re:run(Exists, "exists"),
        Refused = File ++ ".refused",
        {1, _} = run(["trace", Name, "no_module_:f", "--output", Refused | Cookie]),
        {error, enoent} = file:read_file_info(Refused),
        {1, Wrong} = run(["trace", Name, "lists:seq(A) when B > 1" | Cookie]),
        {match, _} = re:run(Wrong, "column 19: B is not one of the arguments\n"),
        leaves_nothing_of_ours(At, Before),
        ?assertNot(is_traced(At))
    end).

%% Processes that resolve names are OTP's; without code there is none of ours.
leaves_nothing_of_ours(Node, Before) ->
    Resolver = [registered, processes, tables, descriptors],
    leaves_nothing_of(maps:keys(Before) -- Resolver, Node, Before).

calling(Node) ->
    _ = [catch call(Node, lists, seq, Args) || Args <- [[3, 5], [5, 4]]],
    try is_traced(#{node => Node}) of
        true -> calling(Node);
        false -> ok
    catch
        %% The test has ended.
        _:_ -> ok
    end.

is_traced(#{node := Node}) ->
    Function = {lists, seq, 2},
    case call(Node, erlang, system_info, [otp_release]) of
        Old when Old =:= "25"; Old =:= "26" ->
            call(Node, erlang, trace_info, [Function, all]) =/= {all, false} orelse
                call(Node, erlang, trace_info, [new_processes, flags]) =/= {flags, []};
        _ ->
            call(Node, trace, session_info, [Function]) =/= [] orelse
                [S || {flame_prof, _} = S <- call(Node, trace, session_info, [all])] =/= []
    end.

%% Neither dead nor alive: the connection stays, the agent is not renewed.
a_controller_that_is_cut_off_leaves_nothing(Config) ->
    with_node(fun(Node, Before0) ->
        Port = start(attach(Node, Config, ["--for", "1h"])),
        until(fun() -> is_attached(Node) end),
        Pids = string:join(controllers(Port), " "),
        _ = os:cmd("kill -STOP " ++ Pids),
        %% Its connection is still there.
        Ignored = [processes, descriptors, registered],
        Before = maps:without(Ignored, Before0),
        until(fun() -> maps:without(Ignored, traces(Node)) =:= Before end),
        _ = os:cmd("kill -9 " ++ Pids),
        {137, _} = await(Port),
        leaves_nothing(Node, Before0)
    end).

a_killed_cleanup_process_leaves_nothing(Config) -> killed(flame_prof_cleanup, Config).

a_killed_agent_leaves_nothing(Config) -> killed(flame_prof_agent, Config).

killed(Name, Config) ->
    with_node(fun(#{node := Node} = Plain, Before) ->
        Port = start(attach(Plain, Config, ["--for", "1h", "--quiet"])),
        until(fun() -> is_attached(Plain) end),
        true = call(Node, erlang, exit, [call(Node, erlang, whereis, [Name]), kill]),
        {1, _} = await(Port),
        leaves_nothing(Plain, Before)
    end).

several_nodes_have_files_of_their_own(Config) ->
    with_node(fun(One, BeforeOne) ->
        with_node(fun(Two, BeforeTwo) ->
            {0, Text} = run(attach_to([One, Two], Config, ["--for", "1s", "--json"])),
            [_, _] = Files = files(Config),
            [true = samples([File]) > 0 || File <- Files],
            [{match, _} = re:run(Text, Name) || #{name := Name} <- [One, Two]],
            {ok, #{tree := Tree, files := 2}} = flame_prof_tree:report(Files,
                #{node => true, idle => true}),
            2 = length(Tree),
            leaves_nothing(One, BeforeOne),
            leaves_nothing(Two, BeforeTwo)
        end)
    end).

a_node_that_dies_costs_its_own_tail_only(Config) ->
    with_node(fun(One, Before) ->
        Two = command_line:start_node([]),
        Port = start(attach_to([One, Two], Config, ["--for", "15s", "--quiet"])),
        until(fun() -> length([F || F <- files(Config), filelib:file_size(F) > 0]) =:= 2 end),
        command_line:stop_node(Two),
        {1, Text} = await(Port),
        {match, _} = re:run(Text, "what came until then is kept"),
        [true = samples([File]) > 0 || File <- files(Config)],
        Left = [os:getenv("FLAME_PROF_TEST_ROOT", ""), "/tmp/flame_prof.", maps:get(pid, Two),
            ".*"],
        _ = [file:del_dir_r(F) || F <- filelib:wildcard(lists:append(Left))],
        leaves_nothing(One, Before)
    end).

a_folder_that_does_not_take_the_library_is_passed_over(Config) ->
    with_node(["-env", "TMPDIR", "/proc"], fun(Node, Before) ->
        {0, _} = run(attach(Node, Config, ["--for", "1s", "--quiet"])),
        leaves_nothing(Node, Before)
    end).

a_folder_whose_files_can_not_be_mapped_is_passed_over(Config) ->
    as_root("mount -t tmpfs -o noexec tmpfs /tmp && exec", Config).

a_node_of_another_user_and_file_system_gets_the_library(Config) ->
    as_root("mount -t tmpfs tmpfs /tmp && exec setpriv --reuid 65534 --regid 65534 --clear-groups",
        Config).

what_the_library_needs_comes_with_it(Config) ->
    case [Path || Path <- string:lexemes(os:cmd("ldconfig -p | sed -n 's/.*libuv.so.1 .*=> //p'"),
        "\n")] of
        [] -> {skip, "libuv is not a library of its own here"};
        [Path | _] -> as_root("mount --bind /dev/null " ++ Path ++ " && exec", Config)
    end.

as_root(Command, Config) ->
    case command_line:has_mounts() of
        true ->
            with_started(command_line:start_node_in(Command, []), fun(Node, Before) ->
                {0, _} = run(attach(Node, Config, ["--for", "1s", "--quiet"])),
                true = samples(files(Config)) > 0,
                leaves_nothing(Node, Before)
            end);
        false ->
            {skip, "mounts of one's own are not to be had here"}
    end.

again_and_again_under_load_leaves_nothing() -> [{timetrap, {minutes, 10}}].

%% What would crash the node if a signal found the library gone.
again_and_again_under_load_leaves_nothing(_) ->
    with_node(fun(#{node := Node} = Plain, Before) ->
        %% One more than its schedulers: none is idle, and no call waits long.
        ok = make_busy(Node, 1 + call(Node, erlang, system_info, [schedulers_online])),
        Busy = length(call(Node, erlang, processes, [])),
        Outcomes = [attach_and_sample(Node) || _ <- lists:seq(1, 10)],
        ?assert(lists:member(ok, Outcomes)),
        until(fun() -> length(call(Node, erlang, processes, [])) =< Busy end),
        Kept = [modules, old, registered, tables, environment, threads, mappings, signals, files],
        leaves_nothing_of(Kept, Plain, Before)
    end).

make_busy(Node, N) ->
    Loop = "(fun F() -> lists:sort([rand:uniform() || _ <- lists:seq(1, 500)]), F() end)()",
    {ok, Tokens, _} = erl_scan:string("[spawn(fun() -> " ++ Loop ++ " end) || _ <- lists:seq(1, " ++
        integer_to_list(N) ++ ")]."),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    {value, [_ | _], _} = call(Node, erl_eval, exprs, [Expressions, []]),
    ok.

attach_and_sample(Node) ->
    {ok, Agent} = flame_prof_attach:open(Node),
    [{Node, {ok, _}}] = flame_prof_attach:start_sessions([Agent],
        #{sample_interval => 1, mode => schedulers, cpu_budget => infinity}),
    until(fun() ->
        {ok, #{counters := #{attempted := Attempted}}} = flame_prof_attach:figures(Agent),
        Attempted > 100
    end),
    case flame_prof_attach:close(Agent) of
        ok ->
            ok;
        %% Busy as it is, it may take longer than anybody waits for.
        {error, {Class, Why}} when Class =:= node; map_get(cause, Why) =:= refused ->
            until(fun() -> call(Node, code, is_loaded, [flame_prof_agent]) =:= false end),
            late
    end.

%% To purge a module holds up processes with large heaps.
a_look_lends_what_it_calls(_) ->
    with_node(fun(#{node := Node} = Plain, Before) ->
        {ok, Agent} = flame_prof_attach:open(Node, bare, {look, [flame_prof_mailbox]}),
        Lent = [M || {M, _} <- call(Node, code, all_loaded, []),
            lists:prefix("flame_prof", atom_to_list(M))],
        ct:pal("~b: ~p", [length(Lent), Lent]),
        ?assert(length(Lent) < 40),
        ?assertNot(lists:member(flame_prof_session, Lent)),
        {ok, #{length := _}} = call(Node, flame_prof_mailbox, look, [init]),
        ok = flame_prof_attach:close(Agent),
        leaves_nothing(Plain, Before)
    end).

pstack_memory_and_top_leave_nothing(_) ->
    with_node(fun(#{name := Name} = Node, Before) ->
        Cookie = ["--cookie", command_line:cookie()],
        Options = ["--node", Name | Cookie],
        case is_capable() of
            true ->
                {0, Stacks} = run(["pstack" | Options] ++ ["init", "busy"]),
                {match, _} = re:run(Stacks, "init:"),
                {0, Json} = run(["pstack", "--json" | Options]),
                {match, _} = re:run(Json, "^\\{\"look\":\\["),
                {0, Memory} = run(["memory" | Options]),
                {match, _} = re:run(Memory, "RSS .* explained"),
                {match, _} = re:run(Memory, "eheap_alloc"),
                {0, Allocators} = run(["memory", "--json" | Options]),
                {match, _} = re:run(Allocators, "\"fragmentation\":"),
                {0, Tables} = run(["tables" | Options]),
                {match, _} = re:run(Tables, "(?s)% of memory[(]ets[)].* code_server "),
                nomatch = re:run(Tables, "needs the native engine"),
                {0, Binaries} = run(["binaries", Name | Cookie]),
                {match, _} = re:run(Binaries, "binar(y|ies) with .* held by"),
                {0, Holders} = run(["binaries", Name, "--json" | Cookie]),
                {match, _} = re:run(Holders, "\"holders\":\\[");
            false ->
                ok
        end,
        {0, Table} = run(["top", "--count", "2", "--every", "300ms" | Options]),
        {match, _} = re:run(Table, "busy"),
        {0, Filtered} = run(["top", "--count", "1", "--every", "300ms", "--filter",
            "no such thing" | Options]),
        nomatch = re:run(Filtered, "busy"),
        leaves_nothing(Node, Before)
    end).

%% What it finds depends on the machine, too: all of it is told in the same form.
the_doctor_leaves_nothing(_) ->
    with_node(fun(#{name := Name} = Node, Before) ->
        Options = [Name, "--cookie", command_line:cookie(), "--for", "1s"],
        {Status, Text} = run(["doctor" | Options]),
        %% One second says nothing of most kinds.
        true = lists:member(Status, [1, 10]),
        nomatch = re:run(Text, "nothing is wrong"),
        {match, _} = re:run(Text, "looked for 1\\.[0-9] s: "),
        {_, Json} = run(["doctor", "--json" | Options]),
        {match, _} = re:run(Json, "^\\{\"findings\":\\["),
        {2, Unknown} = run(["doctor", "--threshold", "no_such=1" | Options]),
        {match, _} = re:run(Unknown, "no_such: no such threshold; there are: memory_limit_used"),
        leaves_nothing(Node, Before)
    end).

%% More messages than are ever healthy, which nobody takes.
attach_ends_with_what_is_wrong_in_its_samples(Config) ->
    with_node(fun(#{name := Name, node := Node} = Plain, _) ->
        Box = erlang:spawn(Node, timer, sleep, [infinity]),
        true = call(Node, erlang, register, [letter_box, Box]),
        _ = [Box ! {letter, N} || N <- lists:seq(1, 12000)],
        until(fun() -> {message_queue_len, 12000} =:=
            call(Node, erlang, process_info, [Box, message_queue_len]) end),
        {0, Text} = run(attach(Plain, Config, ["--for", "3s"])),
        ct:pal("~ts", [Text]),
        {match, _} = re:run(Text, "\n[1-3]\\. critical: mailbox: letter_box \\(<0\\.[0-9]+\\.0>\\) "
            "has 12,000 messages in its mailbox\n"),
        {match, _} = re:run(Text, ["flame_prof mailbox ", Name, " letter_box\n"]),
        says_who_sees_more(Name, Text)
    end).

says_who_sees_more(Name, Text) ->
    ?assertMatch({match, _}, re:run(Text, ["\nOnly samples were judged: flame_prof doctor ", Name,
        " also looks at waits, mailboxes, memory and tables\\.\n$"])).

%% A machine that has no CPU for the sampler has that as a note, and a finding may be of it.
attach_says_that_nothing_is_wrong_too(Config) ->
    with_node(fun(#{name := Name} = Plain, _) ->
        {0, Text} = run(attach(Plain, Config, ["--for", "3s"])),
        ct:pal("~ts", [Text]),
        {match, _} = re:run(Text, "\nnothing is wrong: looked for [0-9.]+ s: [0-9,]+ of [0-9,]+ "
            "processes sampled \\([0-9,]+ observations\\)\n|\n1\\. note: losses: "),
        says_who_sees_more(Name, Text)
    end).

%% A ring of calls is in no sample of them: only who looked at waits knows of it.
a_page_of_the_doctor_has_the_findings_that_it_prints(Config) ->
    is_capable() andalso with_node(fun(#{name := Name, node := Node}, _) ->
        {Module, Code} = ring(),
        {module, Module} = call(Node, code, load_binary, [Module, "ring", Code]),
        ok = call(Node, Module, begun, []),
        Page = filename:join(proplists:get_value(priv_dir, Config), "ring.html"),
        {10, Text} = run(["doctor", Name, "--json", "--for", "3s", "--report", Page, "--cookie",
            command_line:cookie()]),
        ct:pal("~ts", [Text]),
        {match, [Json]} = re:run(Text, "^\\{\"findings.*$", [multiline, {capture, first, binary}]),
        #{<<"findings">> := Printed} = foreign_formats:json(Json),
        #{<<"findings">> := Shown, <<"source">> := <<"node">>} = findings_of(Page),
        Told = fun(Findings) -> [{Kind, Title, Sentences} || #{<<"kind">> := Kind,
            <<"title">> := Title, <<"sentences">> := Sentences} <- lists:sublist(Findings, 12)] end,
        ?assertEqual(Told(Printed), Told(Shown)),
        [#{<<"command">> := Command, <<"processes">> := Ring}] =
            [F || #{<<"kind">> := <<"deadlock">>} = F <- Printed],
        ?assertEqual([<<"ring_a">>, <<"ring_b">>], lists:sort([N || #{<<"name">> := N} <- Ring])),
        ?assertMatch({match, _}, re:run(Command, ["^flame_prof waits ", Name, " ring_[ab]$"]))
    end).

findings_of(Page) ->
    #{<<"profile-about">> := About} = report_parts:read(Page),
    #{<<"findings">> := Findings} = foreign_formats:json(About),
    Findings.

%% Two servers, each of which calls the other one.
ring() ->
    Text = "-module(ring_of_calls). -export([begun/0, init/1, handle_call/3, handle_cast/2]). "
        "begun() -> {ok, A} = gen_server:start({local, ring_a}, ?MODULE, [], []), "
        "{ok, B} = gen_server:start({local, ring_b}, ?MODULE, [], []), "
        "gen_server:cast(A, {call, B}), gen_server:cast(B, {call, A}). "
        "init(_) -> {ok, none}. handle_call(_, _, S) -> {reply, ok, S}. "
        "handle_cast({call, Other}, S) -> timer:sleep(200), "
        "ok = gen_server:call(Other, now, infinity), {noreply, S}. ",
    {ok, Tokens, _} = erl_scan:string(lists:flatten(string:replace(Text, "?MODULE", "ring_of_calls",
        all))),
    {ok, Module, Code} = compile:forms(forms(Tokens)),
    {Module, Code}.

forms([]) -> [];
forms(Tokens) ->
    {Form, [Dot | Rest]} = lists:splitwith(fun(Token) -> element(1, Token) =/= dot end, Tokens),
    {ok, Parsed} = erl_parse:parse_form(Form ++ [Dot]),
    [Parsed | forms(Rest)].

%% What it found it prints; a page it does not write, and says why: no folder takes samples.
a_page_of_a_node_without_samples_is_an_error(Config) ->
    Ebin = filename:dirname(filename:absname(code:which(flame_prof))),
    with_node(["-pa", Ebin], fun(#{name := Name, node := Node}, _) ->
        Folder = proplists:get_value(priv_dir, Config),
        true = call(Node, os, putenv, ["TMPDIR", "/proc"]),
        Page = filename:join(Folder, "none.html"),
        {1, Text} = run(["doctor", Name, "--for", "1s", "--report", Page, "--cookie",
            command_line:cookie()]),
        ct:pal("~ts", [Text]),
        {match, _} = re:run(Text, "\nlooked for|^nothing was found, and m[a-z]+ was not seen",
            [multiline]),
        {match, _} = re:run(Text, "none.html: not written, as a page shows samples: /proc/"),
        ?assertNot(filelib:is_file(Page))
    end).

a_node_that_is_absent_is_no_healthy_one(_) ->
    with_node(fun(#{name := Name}, _) ->
        {3, Wrong} = run(["doctor", Name, "--cookie", "wrong"]),
        {match, _} = re:run(Wrong, "refused the connection"),
        {3, Text} = run(["doctor", "nobody@127.0.0.1", "--cookie", command_line:cookie()]),
        {match, _} = re:run(Text, "no node nobody runs on 127.0.0.1; there are: "),
        nomatch = re:run(Text, "nothing is wrong")
    end).

%% Reading a FIFO that nobody writes takes a dirty I/O scheduler for ever: no library can be written
%% there, and no module be loaded from a file.
a_node_whose_files_hang_is_told_and_nothing_is_left(_) ->
    with_node(["+SDio", "2"], fun(#{name := Name, node := Node} = Plain, _) ->
        _ = [call(Node, code, ensure_modules_loaded, [Modules])
            || Application <- [kernel, stdlib],
            {ok, Modules} <- [call(Node, application, get_key, [Application, modules])]],
        Before = settled(Plain),
        hanging(Node, [prim_file, prim_file, prim_file], fun() ->
            {10, Text} = run(["doctor", Name, "--cookie", command_line:cookie(), "--for", "1s"]),
            {match, _} = re:run(Text, "does without the library \\(its dirty I/O schedulers"),
            {match, _} = re:run(Text, "file_io: all 2 dirty I/O schedulers are taken"),
            {match, _} = re:run(Text, "first look and at the last, [^:]*: 3 processes"),
            until(fun() -> call(Node, erlang, module_loaded, [flame_prof_agent]) =:= false end),
            hangs_while_it_is_lent(Node)
        end),
        leaves_nothing(Plain, Before)
    end).

%% After the look whether files answer.
hangs_while_it_is_lent(Node) ->
    {Module, Code, _} = code:get_object_code(flame_prof_agent),
    {module, Module} = call(Node, code, load_binary, [Module, "flame_prof_attached", Code]),
    %% With what it calls: nothing is loaded from files there.
    {Library, LibraryCode, _} = code:get_object_code(flame_prof_agent_library),
    {ok, #{agent := Agent, library := {none, Why}}} = call(Node, Module, start, [#{
        controller => self(), heartbeat_ms => 15000, modules => [{Library, LibraryCode}],
        library => <<"a library">>, may_lack => true, companions => []}]),
    {match, _} = re:run(Why, "no file is written there in time"),
    ok = call(Node, Module, close, [Agent]).

%% All others wait for file_server_2, which is in the one that hangs; lending does without it.
a_server_of_files_that_hangs_is_told(_) ->
    with_node(fun(#{name := Name, node := Node} = Plain, Before) ->
        hanging(Node, lists:duplicate(10, file), fun() ->
            {10, Text} = run(["doctor", Name, "--cookie", command_line:cookie(), "--for", "3s"]),
            {match, _} = re:run(Text, ": file_server_2 ")
        end),
        leaves_nothing(Plain, Before)
    end).

hanging(Node, Readers, Fun) ->
    Fifo = "/tmp/flame_prof_fifo_" ++ os:getpid(),
    Here = case os:getenv("FLAME_PROF_TEST_ROOT") of false -> Fifo; Root -> Root ++ Fifo end,
    [] = os:cmd("rm -f " ++ Here ++ "; mkfifo -m 666 " ++ Here),
    Pids = [spawn(Node, Module, read_file, [Fifo]) || Module <- Readers],
    IsThere = fun(Pid) -> call(Node, erlang, is_process_alive, [Pid]) end,
    try
        timer:sleep(500),
        true = lists:all(IsThere, Pids),
        Fun()
    after
        until(fun() ->
            _ = os:cmd("timeout 1 sh -c 'echo > " ++ Here ++ "'"),
            not lists:any(IsThere, Pids)
        end),
        file:delete(Here)
    end.

what_does_not_fit_is_refused_with_the_reason(Config) ->
    with_node(fun(#{name := Name} = Plain, Before) ->
        Wrong = ["attach", Name, "--output", output(Config)],
        {3, Cookie} = run(Wrong ++ ["--cookie", "wrong"]),
        {match, _} = re:run(Cookie, "refused the connection: its cookie is another one"),
        {3, Unknown} = run(["attach", "nobody@127.0.0.1", "--cookie", "x"]),
        {match, _} = re:run(Unknown, "no node nobody runs on 127.0.0.1; there are: .*plain_"),
        {1, Mixed} = run(["attach", Name, "short@host", "--cookie", "x"]),
        {match, _} = re:run(Mixed, "nodes with short names, or nodes with long names"),
        {2, Option} = run(attach(Plain, Config, ["--set", "sample_interval=0"])),
        {match, _} = re:run(Option, "sample_interval.*whole milliseconds"),
        {1, Absent} = run(["info", "--node", Name, "--cookie", command_line:cookie()]),
        {match, _} = re:run(Absent, "attach' brings its own"),
        leaves_nothing(Plain, Before),
        has_it_already(os:getenv("FLAME_PROF_TEST_ROOT"), Plain, Config)
    end).

%% In its file system, that is.
has_it_already(Root, _Plain, _Config) when is_list(Root) ->
    ok;
has_it_already(false, #{node := Node} = Plain, Config) ->
        Ebin = filename:dirname(filename:absname(code:which(flame_prof))),
        true = call(Node, code, add_path, [Ebin]),
        {module, _} = call(Node, code, ensure_loaded, [flame_prof_nif]),
        {1, Present} = run(attach(Plain, Config, [])),
        {match, _} = re:run(Present, "has flame_prof already; use start").

%% As a permanent one, whose end would be the node's.
an_application_that_never_loaded_the_library_lives_on(Config) ->
    with_application(fun(#{node := Node} = Plain) ->
        Supervisor = started_application(Node),
        false = call(Node, code, is_loaded, [flame_prof_nif]),
        {1, Text} = run(attach(Plain, Config, ["--for", "1s"])),
        {match, _} = re:run(Text, "has flame_prof already; use start"),
        false = call(Node, code, is_loaded, [flame_prof_agent]),
        %% The agent itself refuses, too.
        {flame_prof_agent, Code, _} = code:get_object_code(flame_prof_agent),
        {module, _} = call(Node, code, load_binary,
            [flame_prof_agent, "flame_prof_attached", Code]),
        Lent = #{controller => self(), heartbeat_ms => 60000, modules => [], library => <<>>,
            may_lack => false, companions => []},
        {error, {present, _}} = call(Node, flame_prof_agent, start, [Lent]),
        until(fun() -> call(Node, code, is_loaded, [flame_prof_agent]) =:= false end),
        lives_on(Supervisor, Node)
    end).

an_application_that_starts_meanwhile_lives_on(_) ->
    with_application(fun(#{node := Node}) ->
        {ok, Agent} = flame_prof_attach:open(Node),
        Supervisor = started_application(Node),
        [{Node, {error, Reason}}] = flame_prof_attach:start_sessions([Agent], #{}),
        {match, _} = re:run(flame_prof:format_error(Reason), "was started meanwhile"),
        ok = flame_prof_attach:close(Agent),
        lives_on(Supervisor, Node)
    end).

with_application(Fun) ->
    case os:getenv("FLAME_PROF_TEST_ROOT") of
        false ->
            Ebin = filename:dirname(filename:absname(code:which(flame_prof))),
            with_node(["-pa", Ebin], fun(Node, _) -> Fun(Node) end);
        _ ->
            {skip, "the application is not in the node's file system"}
    end.

started_application(Node) ->
    ok = call(Node, application, start, [flame_prof, permanent]),
    Supervisor = call(Node, erlang, whereis, [flame_prof_sup]),
    true = is_pid(Supervisor),
    Supervisor.

lives_on(Supervisor, Node) ->
    ?assertEqual(Supervisor, call(Node, erlang, whereis, [flame_prof_sup])),
    ?assert(lists:keymember(flame_prof, 1, call(Node, application, which_applications, []))).

of_many_at_once_one_is_attached_and_nothing_is_left(_) ->
    with_node(fun(Node, Before) ->
        [ok = many_at_once(4, Node, Before) || _ <- lists:seq(1, 5)]
    end).

many_at_once(N, #{node := Node} = Plain, Before) ->
    Self = self(),
    All = [spawn_monitor(fun() -> open_at_once(Self, Node) end) || _ <- lists:seq(1, N)],
    _ = [Pid ! now || {Pid, _} <- All],
    Opened = [opened(One) || One <- All],
    [_] = [Agent || {ok, Agent} <- Opened],
    [match = re:run(Text, "another flame_prof is attached", [{capture, none}])
        || {error, {attach, #{reason := Text}}} <- Opened],
    N = 1 + length([Node || {error, {attach, #{cause := refused}}} <- Opened]),
    _ = [Pid ! close || {Pid, _} <- All],
    _ = [receive {'DOWN', Monitor, process, _, normal} -> ok end || {_, Monitor} <- All],
    leaves_nothing(Plain, Before).

opened({Pid, Monitor}) ->
    receive
        {Pid, Opened} -> Opened;
        {'DOWN', Monitor, process, _, Why} -> error(Why)
    end.

open_at_once(Parent, Node) ->
    receive now -> ok end,
    Opened = flame_prof_attach:open(Node),
    Parent ! {self(), Opened},
    receive close -> ok end,
    _ = [ok = flame_prof_attach:close(Agent) || {ok, Agent} <- [Opened]].

a_file_that_is_there_already_is_left_alone(Config) ->
    with_node(fun(#{node := Node} = Plain, _) ->
        {ok, Agent} = flame_prof_attach:open(Node),
        Folder = folder_there(Plain),
        File = filename:join(Folder, "2026-11-21@0509.42.erl_perf.log"),
        ok = call(Node, file, write_file, [File, "samples"]),
        Victim = filename:join(output(Config), "victim"),
        ok = filelib:ensure_dir(Victim),
        ok = file:write_file(Victim, "mine"),
        Fetching = flame_prof_attach:fetching(Agent, output(Config)),
        Local = filename:join(output(Config),
            "2026-11-21@0509.42." ++ atom_to_list(Node) ++ ".erl_perf.log"),
        ok = file:make_symlink(Victim, Local),
        Names = [unicode:characters_to_binary(File)],
        {error, {file, #{file := Local, reason := eexist}}, Fetching} =
            flame_prof_fetching:fetch(Names, Fetching),
        {ok, <<"mine">>} = file:read_file(Victim),
        ok = file:delete(Local),
        {ok, [Local], Done} = flame_prof_fetching:fetch(Names, Fetching),
        {ok, <<"samples">>} = file:read_file(Local),
        {ok, [Local], Done} = flame_prof_fetching:fetch(Names, Done),
        ok = flame_prof_attach:close(Agent),
        ok = call(Node, file, del_dir_r, [Folder])
    end).

%% In the node's file system, which may not be ours.
folder_there(#{node := Node, pid := Pid}) ->
    Folder = "/tmp/flame_prof_tests." ++ Pid,
    ok = call(Node, file, make_dir, [Folder]),
    Folder.

%% In this node.

schedulers_are_not_retired_while_they_are_used(Config) ->
    case is_capable() of
        false ->
            {skip, "schedulers cannot be asked here"};
        true ->
            {ok, _} = flame_prof:start(#{dir => output(Config)}),
            {error, <<"the schedulers are in use">>} = flame_prof_schedulers:retire(),
            {ok, #{running_stacks := on}} = flame_prof:stop(),
            ok = flame_prof_schedulers:retire()
    end.

schedulers_can_be_used_again_after_they_retired(_) ->
    case is_capable() of
        false ->
            {skip, "schedulers cannot be asked here"};
        true ->
            Caught = caught(),
            ok = flame_prof_schedulers:retire(),
            true = caught() =/= Caught,
            ok = flame_prof_schedulers:retire(),
            {ok, Look} = flame_prof_pstack:schedulers(),
            [_ | _] = [On || {{scheduler, _}, What} = On <- Look, What =/= unregistered],
            ?assertEqual(Caught, caught())
    end.

schedulers_go_on_when_who_retires_them_is_killed(_) ->
    case is_capable() of
        false ->
            {skip, "schedulers cannot be asked here"};
        true ->
            {ok, Registered, _} = flame_prof_schedulers:ensure(),
            killed_while_it_retires(),
            {ok, Registered, _} = flame_prof_schedulers:ensure(),
            killed_while_it_retires(),
            ok = flame_prof_schedulers:retire()
    end.

killed_while_it_retires() ->
    %% As retire/0 does: a check of the captures uses the schedulers.
    ok = flame_prof_capture_classes:forget(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        {ok, [_ | _]} = flame_prof_nif:schedulers_retire_begin(),
        receive after infinity -> ok end
    end),
    until(fun() -> {error, bad_state} =:= is_retiring() end),
    {error, <<"the schedulers are in use">>} = flame_prof_schedulers:retire(),
    exit(Pid, kill),
    receive {'DOWN', Monitor, process, Pid, killed} -> ok end.

is_retiring() ->
    case flame_prof_nif:schedulers_prepare(erlang:system_info(schedulers)) of
        {error, {Error, _}} -> {error, Error};
        {ok, _} -> ok
    end.

%% Signals that this process has handlers for.
caught() ->
    {ok, Text} = file:read_file("/proc/self/status"),
    {match, [Mask]} = re:run(Text, "SigCgt:\\s*(\\S+)", [{capture, all_but_first, binary}]),
    Mask.

%% Which closes its port when it is killed.
a_node_of_these_tests_ends_with_their_run(_) ->
    #{port := Port, pid := Pid} = command_line:start_node([]),
    true = port_close(Port),
    until(fun() -> not filelib:is_dir("/proc/" ++ Pid) end).
