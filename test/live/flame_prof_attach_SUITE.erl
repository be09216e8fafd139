%% Attaching to nodes that never heard of flame_prof, by the script itself, and what is left there
%% afterwards: nothing. The cases share two nodes, one that takes the library and one that cannot;
%% command_line:with_shared/2 looks at them after each case.
-module(flame_prof_attach_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2,
    a_profile_names_the_busy_function/1, without_the_library_the_portable_engine_samples/1,
    without_the_library_where_no_folder_may_run_one/1, without_the_library_the_doctor_has_samples/1,
    without_the_library_a_folder_may_have_any_name/1, without_the_library_a_reader_may_go_away/1,
    without_the_library_a_full_disk_keeps_what_it_took/1,
    without_the_library_a_slow_controller_drops_and_counts/1,
    without_the_library_a_disk_that_stands_still_keeps_no_node/1,
    without_the_library_one_of_several_nodes/1,
    without_the_library_a_node_that_dies_costs_its_tail_only/1,
    without_the_library_what_needs_it_is_refused/1, without_the_library_looks_answer/1,
    without_the_library_whoever_dies_leaves_nothing/1,
    a_library_that_can_not_be_loaded_is_told/1, whoever_dies_leaves_nothing/1,
    a_viewer_of_a_node_measures_its_calls_until_it_is_killed/1, a_trace_on_the_command_line/1,
    a_node_that_dies_costs_its_own_tail_only/1,
    folders_that_do_not_run_the_library_are_passed_over/1, again_and_again_under_load/1,
    a_look_lends_what_it_calls/1, looks_and_the_doctor_leave_nothing/1,
    attach_ends_with_what_is_wrong_in_its_samples/1,
    a_page_of_the_doctor_has_the_findings_that_it_prints/1,
    a_page_of_a_node_without_samples_is_an_error/1, files_that_hang_are_told/1,
    a_server_of_files_that_hangs_is_told/1, what_is_incompatible_is_refused_with_the_reason/1,
    an_application_of_the_node_lives_on/1, a_file_that_is_there_already_is_left_alone/1,
    schedulers_are_not_retired_while_they_are_used/1,
    schedulers_can_be_used_again_after_they_retired/1,
    schedulers_go_on_when_who_retires_them_is_killed/1,
    nodes_and_commands_of_these_tests_end_with_them/1]).
%% In a VM of its own.
-export([started/0]).

%% Of flame_prof_transport.
-define(CREDIT_BYTES, 4194304).

-import(command_line, [run/1, start/1, await/1, until/1, call/4, kill/2, cookie/0, ebin/0,
    with_node/3, with_shared/2, expect/1, matches/2]).

suite() -> [{timetrap, {minutes, 2}}].
all() -> [F || {F, 1} <- ?MODULE:module_info(exports), F =/= module_info].

init_per_testcase(Case, Config) ->
    Output = filename:join(proplists:get_value(priv_dir, Config), Case),
    [{output, Output} | Config].

end_per_testcase(_Case, _Config) -> ok.
with_plain(Fun) -> with_shared({start_node, [[]]}, Fun).
with_small(Fun) -> with_shared({start_small_node, [[]]}, Fun).
attach(Node, Config, More) -> attach_to([Node], Config, More).

attach_to(Nodes, Config, More) ->
    ["attach"] ++ [Name || #{name := Name} <- Nodes] ++
        ["--cookie", cookie(), "--output", output(Config) | More].

output(Config) -> proplists:get_value(output, Config).
files(Config) -> filelib:wildcard(filename:join(output(Config), "*.log*")).

samples(Files) ->
    {ok, Count, #{bad := Bad}} = flame_prof:fold(fun(_, N) -> N + 1 end, 0, Files),
    true = Bad =< length(Files),
    Count.

are_sampled(Config) -> [true = samples([File]) > 0 || File <- files(Config)].
is_attached(#{node := Node}) -> call(Node, erlang, whereis, [flame_prof_session]) =/= undefined.
is_capable() -> native_node:why_not() =:= none.

without_mounts(Fun) ->
    case command_line:has_mounts() of
        true -> Fun();
        false -> {skip, "mounts of one's own are not to be had here"}
    end.

a_profile_names_the_busy_function(Config) ->
    with_plain(fun(#{node := Node} = Plain) ->
        %% A busy machine may leave it no time for a second.
        waiting:eventually(fun() ->
            {0, Text} = run(attach(Plain, Config, ["--for", "1s"])),
            string:find(Text, "timer:sleep/1") =/= nomatch
        end),
        [File | _] = files(Config),
        matches(File, [atom_to_list(Node)]),
        is_private(File),
        {ok, Names, #{bad := 0}} = flame_prof:fold(
            fun(#{words := Words}, All) -> [maps:get(<<"name">>, Words, <<>>) | All] end, [], File),
        ?assert(lists:member(<<"busy">>, Names)),
        %% No process of flame_prof is among them.
        ?assertEqual([], [Name || <<"flame_prof", _/binary>> = Name <- Names])
    end).

is_private(File) ->
    {ok, Info} = file:read_file_info(File),
    ?assertEqual(8#600, element(8, Info) band 8#777).

%% Nodes with which the library is incompatible.

without_the_library_the_portable_engine_samples(Config) ->
    with_small(fun(#{node := Node, pid := OsPid} = Plain) ->
        {0, Text} = run(attach(Plain, Config, ["--for", "1s"])),
        matches(Text, ["runs without the library \\(it cannot be loaded there: .*/tmp.*: file too "
            "large", "portable: it cannot be loaded there: ", "timer:sleep/1"]),
        [File] = files(Config),
        matches(File, [atom_to_list(Node)]),
        is_private(File),
        true = samples([File]) > 0,
        is_of(OsPid, File),
        {ok, [_]} = file:list_dir_all(output(Config)),
        ?assertEqual(8, call(Node, erlang, system_flag, [backtrace_depth, 8]))
    end).

%% The samples are of that process of the operating system, at the time of now.
is_of(OsPid, File) ->
    Now = os:system_time(second),
    {ok, true, _} = reader_oracle:fold(fun(#{pid := Pid, time_us := Us}, IsSo) ->
        IsSo andalso Pid =:= list_to_integer(OsPid) andalso abs(Us div 1000000 - Now) < 600
    end, true, File).

without_the_library_where_no_folder_may_run_one(Config) ->
    without_mounts(fun() -> with_own(start_node_in, [nowhere(), []], fun(Plain) ->
        expect([{0, attach(Plain, Config, ["--for", "300ms", "--quiet"]),
            ["may be run from there \\(noexec\\)", "portable: "]}]),
        are_sampled(Config)
    end) end).

with_own(Start, Args, Fun) ->
    with_node(Start, Args, fun(Node, Before) ->
        _ = Fun(Node),
        command_line:leaves_nothing(Node, Before)
    end).

%% Its samples are read here. With an engine that it cannot have it says why there are none.
without_the_library_the_doctor_has_samples(Config) ->
    with_small(fun(#{name := Name}) ->
        Page = filename:join(proplists:get_value(priv_dir, Config), "portable.html"),
        Temporary = filename:join(output(Config), "temporary"),
        ok = filelib:ensure_path(Temporary),
        Doctor = ["doctor", Name, "--cookie", cookie()],
        {Status, Text} = command_line:run(Doctor ++ ["--for", "1s", "--json", "--report", Page],
            [{env, [{"TMPDIR", Temporary}, {"ERL_LIBS", false}, {"LC_ALL", "C.UTF-8"}]}]),
        %% The findings depend on the machine, too.
        true = lists:member(Status, [1, 10]),
        matches(Text, ["runs without the library \\(it cannot be loaded there: .*file too "
            "large\\); the portable engine samples it, and the samples are read here"]),
        {match, [Json]} = re:run(Text, "^\\{\"command.*$", [multiline, {capture, first, binary}]),
        #{<<"looked_at">> := LookedAt, <<"unseen">> := Unseen} = foreign_formats:json(Json),
        ?assertMatch(#{<<"sampled">> := Sampled} when Sampled > 0, LookedAt),
        %% Only the time is too short for what is seen in samples.
        [matches(Why, ["too short"]) || #{<<"kind">> := Kind, <<"why">> := Why} <- Unseen,
            lists:member(Kind, [<<"hot_function">>, <<"mailbox">>])],
        ?assert(filelib:file_size(Page) > 100000),
        {_, Native} = shared_nodes:run(Doctor ++ ["--for", "1s", "--engine", "native"]),
        matches(Native, ["runs without the library \\(.*file too large\\)\n"]),
        expect([{0, ["waits", Name, "--cookie", cookie()],
            ["runs without the library \\(.*file too large\\)\n"]}]),
        {ok, []} = file:list_dir_all(Temporary)
    end).

nowhere() ->
    Folders = ["/tmp", "/var/tmp", "/dev/shm"],
    [["mount -t tmpfs -o noexec tmpfs ", Folder, " && "] || Folder <- Folders] ++
        "cd / && exec env HOME=/nonexistent setpriv --reuid 65534 --regid 65534 --clear-groups".

%% Also where this side's locale has no letters for it.
without_the_library_a_folder_may_have_any_name(Config) ->
    Folder = filename:join(output(Config), [16#fc, 16#65e5]),
    without_the_library_in_a_shell("LC_ALL=C ", "--quiet --output '" ++ Folder ++ "'", Folder).

without_the_library_a_reader_may_go_away(Config) ->
    More = "--output " ++ output(Config) ++ " | true; exit ${PIPESTATUS[0]}",
    without_the_library_in_a_shell("", More, output(Config)).

without_the_library_in_a_shell(Before, More, Folder) ->
    with_small(fun(#{name := Name}) ->
        Command = lists:join(" ", [Before ++ command_line:script(), "attach", Name, "--cookie",
            cookie(), "--for 300ms", More]),
        {0, _} = command_line:shell(lists:flatten(Command)),
        [File] = filelib:wildcard(filename:join(Folder, "*.log*")),
        true = samples([File]) > 0,
        {ok, [_]} = file:list_dir_all(Folder)
    end).

%% It has room for one block of plain text, and for no second one.
without_the_library_a_full_disk_keeps_what_it_took(Config) ->
    without_mounts(fun() -> with_small(fun(#{name := Name}) ->
        Disk = filename:join(output(Config), "disk"),
        ok = filelib:ensure_path(Disk),
        Command = ["unshare --mount sh -c 'mount -t tmpfs -o size=400k tmpfs ", Disk, " && ",
            command_line:script(), " attach ", Name, " --cookie ", cookie(),
            " --for 5s --quiet --set sample_interval=1 --set compress=none --output ", Disk,
            "; status=$?; cp ", Disk, "/*.log ", output(Config), "; exit $status'"],
        {1, Text} = command_line:shell(lists:flatten(Command)),
        matches(Text, ["no space left on device"]),
        are_sampled(Config)
    end) end).

%% As slow as can be: the remote writer stands still until something was dropped.
without_the_library_a_slow_controller_drops_and_counts(Config) ->
    with_small(fun(#{node := Node}) ->
        ok = filelib:ensure_path(output(Config)),
        {ok, #{remote_writer := Writer} = Agent} =
            flame_prof_attach:open(Node, {writer, output(Config)}),
        Idle = [call(Node, erlang, spawn, [timer, sleep, [infinity]]) || _ <- lists:seq(1, 400)],
        Options = #{sample_interval => 1, compress => none, select => {top, 500, 100}},
        [{Node, {ok, _}}] = flame_prof_attach:start_sessions([Agent], Options),
        Counters = fun() -> {ok, #{counters := B}} = flame_prof_attach:figures(Agent), B end,
        until(fun() -> maps:get(written, Counters()) > 1000 end),
        ok = stands_still(Writer),
        until(fun() -> maps:get(dropped, Counters()) > 0 end),
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
        [call(Node, erlang, exit, [Pid, kill]) || Pid <- Idle]
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
    with_small(fun(#{node := Node} = Plain) ->
        Before = command_line:settled(Plain),
        ok = filelib:ensure_path(output(Config)),
        {ok, #{remote_writer := Writer} = Agent} =
            flame_prof_attach:open(Node, {writer, output(Config)}),
        [{Node, {ok, _}}] = flame_prof_attach:start_sessions([Agent], #{}),
        Look = fun() -> command_line:leaves_nothing(Plain, Before) end,
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

without_the_library_one_of_several_nodes(Config) ->
    with_own(start_node, [[]], fun(One) -> with_small(fun(Two) ->
        {0, Text} = run(attach_to([One, Two], Config, ["--for", "1s", "--json"])),
        matches(Text, ["runs without the library"] ++ [Name || #{name := Name} <- [One, Two]]),
        [_, _] = Files = files(Config),
        are_sampled(Config),
        {ok, #{tree := [_, _], files := 2}} = flame_prof_tree:report(Files,
            #{node => true, idle => true})
    end) end).

without_the_library_a_node_that_dies_costs_its_tail_only(Config) ->
    Node = command_line:start_small_node([]),
    Port = start(attach(Node, Config, ["--for", "1h"])),
    until(fun() -> size_of(files(Config)) > 0 end),
    command_line:stop_node(Node),
    {1, Text} = await(Port),
    matches(Text, ["is gone; the samples until then are kept", "^Nothing is judged: the session "]),
    [File] = files(Config),
    {ok, _, #{bad := 0}} = flame_prof:fold(fun(_, N) -> N + 1 end, 0, File),
    {ok, [_]} = file:list_dir_all(output(Config)).

without_the_library_what_needs_it_is_refused(Config) ->
    with_small(fun(#{name := Name} = Plain) ->
        Refused = ["cannot take the library: .*/tmp.*: file too large"],
        expect([{3, attach(Plain, Config, ["--engine", "native"]), Refused},
            {3, ["pstack", "--node", Name, "--cookie", cookie()], Refused},
            {1, attach(Plain, Config, ["--set", "mode=schedulers"]),
                ["mode schedulers needs the C library"]},
            {1, attach(Plain, Config, ["--set", "process_options=#{follow => send}"]),
                ["follow by send needs the C library"]}]),
        [] = files(Config)
    end).

without_the_library_looks_answer(_Config) ->
    with_small(fun(#{name := Name}) ->
        expect([{0, ["waits", Name, "--cookie", cookie()], ["Of [0-9]+ processes of "]},
            {0, ["top", "--count", "2", "--every", "300ms", "--node", Name, "--cookie", cookie()],
                ["\\(portable\\)(.|\n)*busy"]}])
    end).

%% The first is none at all, the other one a head as it has to be with nothing behind it.
a_library_that_can_not_be_loaded_is_told(Config) ->
    with_node(start_node, [[]], fun(#{port := Port} = Plain, Before) ->
        {1, Text} = attach_with(<<"nothing that could be loaded">>, [], Plain, Config),
        matches(Text, ["flame_prof_nif.so: it cannot be loaded here"]),
        Head = <<16#7f, "ELF", 2, 1, 1, 0:72, 3:16/little, 62:16/little, 0:512>>,
        {3, There} = attach_with(Head, ["--engine", "native"], Plain, Config),
        matches(There, ["cannot take the library: .*/tmp.*: .*flame_prof_nif"]),
        command_line:leaves_nothing(Plain, Before),
        %% And the node's log has nothing of it.
        nomatch = re:run(logged(Port), "on_load")
    end).

logged(Port) ->
    receive {Port, {data, Bytes}} -> [Bytes | logged(Port)] after 0 -> [] end.

attach_with(Library, More, Plain, Config) ->
    Copy = filename:join(output(Config), "copy"),
    Ebin = filename:join(Copy, "ebin"),
    File = filename:join([Copy, "priv", "flame_prof_nif.so"]),
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, Library),
    {ok, _} = file:copy(filename:join([ebin(), "..", "priv", "flame_prof_looks_nif.so"]),
        filename:join([Copy, "priv", "flame_prof_looks_nif.so"])),
    [] = os:cmd(["rm -rf ", Ebin, "; cp -r ", ebin(), " ", Ebin]),
    Words = ["FLAME_PROF_EBIN=" ++ Ebin, command_line:script() | attach(Plain, Config, More)],
    command_line:shell(lists:append(lists:join(" ", Words))).

size_of(Files) -> lists:sum([filelib:file_size(File) || File <- Files]).

%% Whatever ends in the middle: the command, by any signal, or what it has started in the node. One
%% that is stopped keeps its connection, and only its heartbeats end.
whoever_dies_leaves_nothing(Config) ->
    with_plain(fun(Node) ->
        [dies(Node, Config, Row) || Row <- [{attach, "TERM", 130},
            {attach, "KILL", 137},
            {attach, "STOP", 137},
            {attach, flame_prof_cleanup, 1},
            {attach, flame_prof_agent, 1},
            {["latency", "lists:seq/2"], "KILL", 137},
            {["trace", "lists:seq/2"], flame_prof_agent, any},
            {["allocations"], "KILL", 137}]]
    end).

without_the_library_whoever_dies_leaves_nothing(Config) ->
    with_small(fun(Node) -> dies(Node, Config, {attach_bare, "KILL", 137}) end).

dies(#{name := Name} = Node, Config, {What, Kill, Status}) ->
    Before = command_line:settled(Node),
    Samples = fun() -> size_of(files(Config)) > 0 end,
    {Words, IsUp} = case What of
        attach -> {attach(Node, Config, ["--for", "1h", "--quiet"]),
            fun() -> is_attached(Node) andalso (Kill =/= "TERM" orelse Samples()) end};
        attach_bare -> {attach(Node, Config, ["--for", "1h", "--quiet"]), Samples};
        [Command | Functions] -> {[Command, Name] ++ Functions ++ ["--for", "1h", "--cookie",
            cookie()], fun() -> is_traced(Node) end}
    end,
    Port = start(Words),
    until(IsUp),
    ok = die(Kill, Node, Port, Before),
    {Is, Text} = await(Port),
    ?assertMatch({_, _, _, true}, {What, Kill, Text, Status =:= any orelse Status =:= Is}),
    %% The samples that came to this side stay.
    (Kill =:= "TERM" orelse What =:= attach_bare) andalso are_sampled(Config),
    [ok = file:delete(File) || File <- files(Config)],
    until(fun() -> not is_traced(Node) end),
    command_line:leaves_nothing(Node, Before).

die("TERM", _Node, Port, _Before) ->
    {os_pid, Script} = erlang:port_info(Port, os_pid),
    [] = os:cmd("kill -TERM " ++ integer_to_list(Script)),
    ok;
die("STOP", Node, Port, Before) ->
    ok = kill("STOP", Port),
    command_line:leaves_nothing(maps:keys(Before) -- [processes, descriptors, registered], Node,
        Before),
    kill("KILL", Port);
die("KILL", _Node, Port, _Before) -> kill("KILL", Port);
die(Name, #{node := Node}, _Port, _Before) ->
    true = call(Node, erlang, exit, [call(Node, erlang, whereis, [Name]), kill]),
    ok.

%% `view --node': the page is of this machine's files, the calls are the node's.
a_viewer_of_a_node_measures_its_calls_until_it_is_killed(_) ->
    with_plain(fun(#{name := Name} = Node) ->
        Port = start(["view", checkout:path("test/corpus/ours.log"), "--node", Name, "--cookie",
            cookie()]),
        #{port := Tcp, path := Path} = Url = uri_string:parse(link_of(Port, <<>>)),
        ?assertMatch({match, _}, re:run(page(Tcp, Path), "^HTTP/1.1 200 OK\r\n.*<html", [dotall])),
        ?assertMatch({match, _}, re:run(page(Tcp, "/no_such_token/"), "^HTTP/1.1 403 ")),
        ?assertNot(is_traced(Node)),
        Socket = asked(Url, [Path, "api/latency?functions=lists:seq/2&seconds=60"]),
        %% A line to its end: it comes in pieces, and the name of the function behind its callers.
        Calls = fun(Read) -> match =:= re:run(Read, "\"calls\":[1-9].*\n", [{capture, none}]) end,
        ?assertMatch({match, _}, re:run(read_until(Socket, Calls, <<>>), "\"lists:seq/2\"")),
        ?assert(is_traced(Node)),
        ok = kill("KILL", Port),
        {137, _} = await(Port),
        until(fun() -> not is_traced(Node) end),
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
a_trace_on_the_command_line(Config) ->
    with_plain(fun(#{name := Name, node := Node} = At) ->
        Trace = fun(Words) -> ["trace", Name, "--cookie", cookie() | Words] end,
        Port = start(Trace(["lists:seq(A, B) when A =:= 3 -> return", "--events", "4",
            "--for", "1m"])),
        until(fun() -> is_traced(At) end),
        %% The flags of processes come after the breakpoint; the command may be gone meanwhile.
        _ = spawn(fun() -> calling(Node) end),
        {0, Text} = await(Port),
        matches(Text, ["lists:seq\\(3, 5\\)\n", "lists:seq/2 -> \\[3,4,5\\]\n",
            "% 4 events in .* 0 lost", "ended: max_events"]),
        nomatch = re:run(Text, "seq\\(5, 4\\)"),
        File = filename:join(output(Config), "trace.txt"),
        ok = filelib:ensure_dir(File),
        expect([
            %% The command's own doings are no events.
            {0, Trace(["procs", "--for", "1s"]), ["% 0 events in [0-9.]+ s, 0 dropped"]},
            {0, Trace(["send", "--for", "300ms", "--output", File]), []},
            {1, Trace(["send", "--output", File]), ["exists"]},
            {1, Trace(["no_module_:f", "--output", File ++ ".refused"]), []},
            {1, Trace(["lists:seq(A) when B > 1"]), ["column 19: B is not one of the arguments\n"]}
        ]),
        is_private(File),
        {ok, Written} = file:read_file(File),
        matches(Written, ["ended: max_seconds"]),
        ?assertNot(filelib:is_file(File ++ ".refused")),
        until(fun() -> not is_traced(At) end)
    end).

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

a_node_that_dies_costs_its_own_tail_only(Config) ->
    with_plain(fun(One) ->
        Two = command_line:start_node([]),
        Port = start(attach_to([One, Two], Config, ["--for", "5s", "--quiet"])),
        until(fun() -> length([F || F <- files(Config), filelib:file_size(F) > 0]) =:= 2 end),
        command_line:stop_node(Two),
        {1, Text} = await(Port),
        matches(Text, ["the samples until then are kept"]),
        are_sampled(Config),
        Left = [os:getenv("FLAME_PROF_TEST_ROOT", ""), "/tmp/flame_prof.", maps:get(pid, Two),
            ".*"],
        [file:del_dir_r(F) || F <- filelib:wildcard(lists:append(Left))]
    end).

%% By the environment, or as the folder is in the node's file system; and for another user, and
%% where what the library needs is not there.
folders_that_do_not_run_the_library_are_passed_over(Config) ->
    Uv = os:cmd("ldconfig -p | sed -n 's/.*libuv.so.1 .*=> //p' | head -n 1"),
    Roots = ["mount -t tmpfs -o noexec tmpfs /tmp && exec",
        "mount -t tmpfs tmpfs /tmp && exec setpriv --reuid 65534 --regid 65534 --clear-groups"
    ] ++ ["mount --bind /dev/null " ++ string:trim(Uv) ++ " && exec" || Uv =/= ""],
    [with_own(Start, Args, fun(Node) ->
        expect([{0, attach(Node, Config, ["--for", "300ms", "--engine", "native"]), []}]),
        are_sampled(Config),
        [ok = file:delete(File) || File <- files(Config)]
    end) || {Start, Args} <- [{start_node, [["-env", "TMPDIR", "/proc"]]}] ++
        [{start_node_in, [Root, []]} || command_line:has_mounts(), Root <- Roots]].

%% What would crash the node if a signal found the library gone.
again_and_again_under_load(_) ->
    with_plain(fun(#{node := Node}) ->
        %% One more than its schedulers: none is idle, and no call waits long.
        Busy = make_busy(Node, 1 + call(Node, erlang, system_info, [schedulers_online])),
        Outcomes = [attach_and_sample(Node) || _ <- [1, 2]],
        [true = call(Node, erlang, exit, [Pid, kill]) || Pid <- Busy],
        ?assert(lists:member(ok, Outcomes))
    end).

make_busy(Node, N) ->
    Loop = "(fun F() -> lists:sort([rand:uniform() || _ <- lists:seq(1, 500)]), F() end)()",
    {ok, Tokens, _} = erl_scan:string("[spawn(fun() -> " ++ Loop ++ " end) || _ <- lists:seq(1, " ++
        integer_to_list(N) ++ ")]."),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    {value, [_ | _] = Pids, _} = call(Node, erl_eval, exprs, [Expressions, []]),
    Pids.

attach_and_sample(Node) ->
    {ok, Agent} = flame_prof_attach:open(Node),
    [{Node, {ok, _}}] = flame_prof_attach:start_sessions([Agent],
        #{sample_interval => 1, mode => schedulers, cpu_budget => infinity}),
    until(fun() ->
        {ok, #{counters := #{attempted := Attempted}}} = flame_prof_attach:figures(Agent),
        Attempted > 100
    end),
    case flame_prof_attach:close(Agent) of
        ok -> ok;
        %% Busy as it is, it may take longer than anybody waits for.
        {error, {Class, Why}} when Class =:= node; map_get(cause, Why) =:= refused ->
            until(fun() -> call(Node, code, is_loaded, [flame_prof_agent]) =:= false end),
            late
    end.

%% To purge a module holds up processes with large heaps.
a_look_lends_what_it_calls(_) ->
    with_plain(fun(#{node := Node}) ->
        {ok, Agent} = flame_prof_attach:open(Node, bare, {look, [flame_prof_mailbox]}),
        Lent = [M || {M, _} <- call(Node, code, all_loaded, []),
            lists:prefix("flame_prof", atom_to_list(M))],
        ct:pal("~b: ~p", [length(Lent), Lent]),
        ?assert(length(Lent) < 40),
        ?assertNot(lists:member(flame_prof_session, Lent)),
        {ok, #{length := _}} = call(Node, flame_prof_mailbox, look, [init]),
        ok = flame_prof_attach:close(Agent)
    end).

looks_and_the_doctor_leave_nothing(_) ->
    with_plain(fun(#{name := Name}) ->
        Options = ["--node", Name, "--cookie", cookie()],
        Doctor = ["doctor", Name, "--cookie", cookie(), "--for", "1s"],
        Top = ["top", "--every", "300ms" | Options],
        Native = [{0, ["pstack", "init", "busy" | Options], ["init:"]},
            {0, ["pstack", "--json" | Options], ["^\\{\"command\":\"pstack\""]},
            {0, ["memory" | Options], ["RSS .* explained", "eheap_alloc"]},
            {0, ["tables" | Options], ["(?s)\\A(?!.*needs the native engine).*% of memory[(]ets[)]"
                ".* code_server "]},
            {0, ["binaries", Name, "--cookie", cookie()], ["binar(y|ies) with .* held by"]}],
        expect([Row || is_capable(), Row <- Native] ++ [{0, Top ++ ["--count", "2"], ["busy"]},
            {0, Top ++ ["--count", "1", "--filter", "no such thing"], ["(?s)\\A(?!.*busy)"]},
            {2, ["doctor", "--threshold", "no_such=1" | Doctor -- ["doctor"]],
                ["no_such: no such threshold; there are: memory_limit_used"]}]),
        %% What it finds depends on the machine, too: all of it is told in the same form. One second
        %% says nothing of most kinds.
        {Status, Text} = run(Doctor),
        true = lists:member(Status, [1, 10]),
        nomatch = re:run(Text, "nothing is wrong"),
        matches(Text, ["looked for 1\\.[0-9] s: "])
    end).

%% More messages than are ever healthy, which nobody takes; the other node has none. A machine
%% that has no CPU for the sampler has that as a note, and a finding may be of it.
attach_ends_with_what_is_wrong_in_its_samples(Config) ->
    with_small(fun(#{name := Healthy} = Small) -> with_plain(fun(#{name := Name} = Plain) ->
        Port = start(attach(Small, Config, ["--for", "3s"])),
        Box = flooded(Plain),
        {0, Text} = run(attach(Plain, Config, ["--for", "3s"])),
        matches(Text, ["\n[1-3]\\. critical: mailbox: letter_box \\(<[0-9.]+>\\) "
            "has 12,000 messages in its mailbox\n",
            "flame_prof mailbox " ++ Name ++ " letter_box\n"]),
        says_who_sees_more(Name, Text),
        true = exit(Box, kill),
        {0, Nothing} = await(Port),
        matches(Nothing, ["\nnothing is wrong: looked for [0-9.]+ s: [0-9,]+ of [0-9,]+ "
            "processes sampled \\([0-9,]+ observations\\)\n|\n1\\. note: losses: "]),
        says_who_sees_more(Healthy, Nothing)
    end) end).

flooded(#{node := Node}) ->
    Box = erlang:spawn(Node, timer, sleep, [infinity]),
    true = call(Node, erlang, register, [letter_box, Box]),
    _ = [Box ! {letter, N} || N <- lists:seq(1, 12000)],
    until(fun() -> {message_queue_len, 12000} =:=
        call(Node, erlang, process_info, [Box, message_queue_len]) end),
    Box.

says_who_sees_more(Name, Text) ->
    ?assertMatch({match, _}, re:run(Text, ["\nOnly samples were judged: flame_prof doctor ", Name,
        " also looks at waits, mailboxes, memory and tables\\.\n$"])).

%% A ring of calls is in no sample of them: only who looked at waits knows of it.
a_page_of_the_doctor_has_the_findings_that_it_prints(Config) ->
    is_capable() andalso with_plain(fun(#{name := Name, node := Node}) ->
        {Module, Code, File} = code:get_object_code(ring_of_calls),
        {module, Module} = call(Node, code, load_binary, [Module, File, Code]),
        ok = call(Node, Module, start, []),
        Page = filename:join(proplists:get_value(priv_dir, Config), "ring.html"),
        {10, Text} = run(["doctor", Name, "--json", "--for", "3s", "--report", Page, "--cookie",
            cookie()]),
        ct:pal("~ts", [Text]),
        {match, [Json]} = re:run(Text, "^\\{\"command.*$", [multiline, {capture, first, binary}]),
        #{<<"findings">> := Printed} = foreign_formats:json(Json),
        #{<<"findings">> := Shown, <<"source">> := <<"node">>} = findings_of(Page),
        Told = fun(Findings) -> [{Kind, Title, Sentences} || #{<<"kind">> := Kind,
            <<"title">> := Title, <<"sentences">> := Sentences} <- lists:sublist(Findings, 12)] end,
        ?assertEqual(Told(Printed), Told(Shown)),
        [#{<<"command">> := Command, <<"processes">> := Ring}] =
            [F || #{<<"kind">> := <<"deadlock">>} = F <- Printed],
        ?assertEqual([<<"ring_a">>, <<"ring_b">>], lists:sort([N || #{<<"name">> := N} <- Ring])),
        ?assertMatch({match, _}, re:run(Command, ["^flame_prof waits ", Name, " ring_[ab]$"])),
        %% The other one waits for its answer.
        true = call(Node, erlang, exit, [call(Node, erlang, whereis, [ring_a]), kill]),
        until(fun() -> call(Node, erlang, whereis, [ring_b]) =:= undefined end),
        true = call(Node, code, delete, [Module]),
        call(Node, code, purge, [Module])
    end).

findings_of(Page) ->
    #{<<"profile-about">> := About} = report_parts:read(Page),
    #{<<"findings">> := Findings} = foreign_formats:json(About),
    Findings.

%% What it found it prints; a page it does not write, and says why: no folder takes samples.
a_page_of_a_node_without_samples_is_an_error(Config) ->
    with_node(start_node, [["-pa", ebin()]], fun(#{name := Name, node := Node}, _) ->
        true = call(Node, os, putenv, ["TMPDIR", "/proc"]),
        Page = filename:join(proplists:get_value(priv_dir, Config), "none.html"),
        expect([{1, ["doctor", Name, "--for", "1s", "--report", Page, "--cookie", cookie()],
            ["^looked for|^nothing was found, and m[a-z]+ was not seen",
                "none.html: not written, because a page shows samples: /proc/"]}]),
        ?assertNot(filelib:is_file(Page))
    end).

%% All others wait for file_server_2, which is in the one that hangs; lending does without it.
a_server_of_files_that_hangs_is_told(_) ->
    with_plain(fun(#{name := Name, node := Node}) ->
        hanging(Node, lists:duplicate(10, file), fun() ->
            expect([{10, ["doctor", Name, "--cookie", cookie(), "--for", "3s"],
                [": file_server_2 "]}])
        end)
    end).

%% Reading a FIFO that nobody writes takes a dirty I/O scheduler for ever: no library can be written
%% there, and no module be loaded from a file.
files_that_hang_are_told(_) ->
    with_own(start_node, [["+SDio", "2"]], fun(#{name := Name, node := Node} = Plain) ->
        _ = [call(Node, code, ensure_modules_loaded, [Modules]) || Application <- [kernel, stdlib],
            {ok, Modules} <- [call(Node, application, get_key, [Application, modules])]],
        Before = command_line:settled(Plain),
        hanging(Node, [prim_file, prim_file, prim_file], fun() ->
            expect([{10, ["doctor", Name, "--cookie", cookie(), "--for", "1s"], [
                "runs without the library \\(its dirty I/O schedulers",
                "file_io: all 2 dirty I/O schedulers are taken",
                "first look and at the last, [^:]*: 3 processes"]}]),
            until(fun() -> call(Node, erlang, module_loaded, [flame_prof_agent]) =:= false end),
            hangs_while_it_is_lent(Node)
        end),
        command_line:leaves_nothing(Plain, Before)
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

what_is_incompatible_is_refused_with_the_reason(Config) ->
    with_plain(fun(#{name := Name} = Plain) ->
        Wrong = ["attach", Name, "--output", output(Config)],
        Nobody = "nobody@127.0.0.1",
        NoNode = ["no node nobody runs on 127.0.0.1; there are: .*plain_"],
        expect([{3, Wrong ++ ["--cookie", "wrong"],
                ["refused the connection: it has another cookie"]},
            {3, ["attach", Nobody, "--cookie", "x"], NoNode},
            {1, ["attach", Name, "short@host", "--cookie", "x"],
                ["nodes with short names, or nodes with long names"]},
            {2, attach(Plain, Config, ["--set", "sample_interval=0"]),
                ["sample_interval.*whole milliseconds"]},
            {1, ["info", "--node", Name, "--cookie", cookie()], ["attach' brings its own"]},
            %% A node that is absent is no healthy one.
            {3, ["doctor", Name, "--cookie", "wrong"], ["\\A(?!nothing).*refused the connection"]},
            {3, ["doctor", Nobody, "--cookie", cookie()], NoNode}])
    end).

%% It may be a permanent one, whose end would be the node's; it is not ended where it has not loaded
%% the library, nor where it starts while something is lent.
an_application_of_the_node_lives_on(Config) ->
    case os:getenv("FLAME_PROF_TEST_ROOT") of
        false -> with_node(start_node, [["-pa", ebin()]], fun(Plain, _) ->
            lives_on(Plain, Config)
        end);
        _ -> {skip, "the application is not in the node's file system"}
    end.

lives_on(#{node := Node} = Plain, Config) ->
    {ok, Agent} = flame_prof_attach:open(Node),
    ok = call(Node, application, start, [flame_prof, permanent]),
    Supervisor = call(Node, erlang, whereis, [flame_prof_sup]),
    true = is_pid(Supervisor),
    [{Node, {error, Reason}}] = flame_prof_attach:start_sessions([Agent], #{}),
    matches(flame_prof:format_error(Reason), ["was started at the same time"]),
    ok = flame_prof_attach:close(Agent),
    until(fun() -> call(Node, code, is_loaded, [flame_prof_agent]) =:= false end),
    Present = [{1, attach(Plain, Config, ["--for", "1s"]), ["has flame_prof already; use start"]}],
    false = call(Node, code, is_loaded, [flame_prof_nif]),
    expect(Present),
    false = call(Node, code, is_loaded, [flame_prof_agent]),
    %% The agent itself refuses, too.
    {flame_prof_agent, Code, _} = code:get_object_code(flame_prof_agent),
    {module, _} = call(Node, code, load_binary, [flame_prof_agent, "flame_prof_attached", Code]),
    Lent = #{controller => self(), heartbeat_ms => 60000, modules => [], library => <<>>,
        may_lack => false, companions => []},
    {error, {present, _}} = call(Node, flame_prof_agent, start, [Lent]),
    until(fun() -> call(Node, code, is_loaded, [flame_prof_agent]) =:= false end),
    {module, _} = call(Node, code, ensure_loaded, [flame_prof_nif]),
    expect(Present),
    ?assertEqual(Supervisor, call(Node, erlang, whereis, [flame_prof_sup])),
    ?assert(lists:keymember(flame_prof, 1, call(Node, application, which_applications, []))).

a_file_that_is_there_already_is_left_alone(Config) ->
    with_plain(fun(#{node := Node} = Plain) ->
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
    with_schedulers(fun() ->
        {ok, _} = flame_prof:start(#{dir => output(Config)}),
        {error, <<"the schedulers are in use">>} = flame_prof_schedulers:retire(),
        {ok, #{running_stacks := on}} = flame_prof:stop(),
        ok = flame_prof_schedulers:retire()
    end).

with_schedulers(Fun) ->
    case is_capable() of true -> Fun(); false -> {skip, "schedulers cannot be asked here"} end.

schedulers_can_be_used_again_after_they_retired(_) ->
    with_schedulers(fun() ->
        Caught = caught(),
        ok = flame_prof_schedulers:retire(),
        true = caught() =/= Caught,
        ok = flame_prof_schedulers:retire(),
        {ok, Look} = flame_prof_pstack:schedulers(),
        [_ | _] = [On || {{scheduler, _}, What} = On <- Look, What =/= unregistered],
        ?assertEqual(Caught, caught())
    end).

schedulers_go_on_when_who_retires_them_is_killed(_) ->
    with_schedulers(fun() ->
        {ok, Registered, _} = flame_prof_schedulers:ensure(),
        killed_while_it_retires(),
        {ok, Registered, _} = flame_prof_schedulers:ensure(),
        killed_while_it_retires(),
        ok = flame_prof_schedulers:retire()
    end).

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

%% Whatever ends the VM that runs them, and where a command was stopped by a signal.
nodes_and_commands_of_these_tests_end_with_them(_) ->
    Port = peer_vm:start([flame_prof, ?MODULE], "flame_prof_attach_SUITE:started()"),
    Pids = until(fun() -> read_pids(Port) end),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    [] = os:cmd("kill -9 " ++ integer_to_list(Pid)),
    until(fun() -> [] =:= [P || P <- Pids, filelib:is_dir("/proc/" ++ P)] end).

read_pids(Port) ->
    {match, [Text]} = re:run(lists:flatten(logged(Port)), "pids ([0-9 ]+)\n",
        [{capture, [1], list}]),
    {true, string:lexemes(Text, " ")}.

started() ->
    #{pid := Pid, name := Name} = Node = command_line:start_node([]),
    Port = start(["top", "--node", Name, "--cookie", cookie()]),
    until(fun() -> call(maps:get(node, Node), erlang, nodes, [hidden]) -- [node()] =/= [] end),
    ok = kill("STOP", Port),
    {os_pid, Script} = erlang:port_info(Port, os_pid),
    io:format("pids ~ts ~b ~ts~n", [Pid, Script, string:trim(os:cmd(lists:flatten(io_lib:format(
        "cat /proc/~b/task/~b/children", [Script, Script]))))]),
    receive after infinity -> ok end.
