%% What the tests of the command line share: running bin/flame_prof as a person
%% would, and nodes that never heard of flame_prof.
-module(command_line).

-include_lib("stdlib/include/assert.hrl").

-export([run/1, run/2, start/1, await/1, script/0, shell/1, kill/2, expect/1, matches/2,
    start_node/1, start_node_in/2, start_small_node/1, start_limited_node/2, stop_node/1,
    has_mounts/0, call/4, cookie/0, until/1, with_node/3, with_shared/2, leaves_nothing/2,
    leaves_nothing/3, ebin/0, traces/1, settled/1, is_distributed/0, start_again/1]).

-define(COOKIE, "flame_prof_tests").

cookie() -> ?COOKIE.

%% Beside the beam files: _build/default/lib/flame_prof/ebin.
script() ->
    Ebin = filename:dirname(code:which(flame_prof_cli)),
    filename:join(up(filename:absname(Ebin), 5), "bin/flame_prof").

up(Path, 0) -> Path;
up(Path, N) -> up(filename:dirname(Path), N - 1).

%% {Status, Output of both kinds}.
run(Args) -> run(Args, []).

run(Args, Options) -> await(start_port(Args, Options)).

%% It ends with the process that starts it, also where it was stopped by a signal.
start(Args) ->
    Port = start_port(Args, []),
    Kill = "cat; grep -q flame_prof /proc/$0/cmdline && "
        "kill -9 $(cat /proc/$0/task/$0/children) $0",
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    _ = open_port({spawn_executable, "/bin/sh"}, [out, {args, ["-c", Kill, integer_to_list(Pid)]}]),
    Port.

%% A signal for the script and for the Erlang that it has started.
kill(Signal, Port) ->
    {os_pid, Script} = erlang:port_info(Port, os_pid),
    _ = os:cmd(lists:flatten(io_lib:format("kill -~s $(cat /proc/~b/task/~b/children) ~b",
        [Signal, Script, Script, Script]))),
    ok.

start_port(Args, Options) ->
    open_port({spawn_executable, script()},
        [{args, Args}, exit_status, stderr_to_stdout, binary, {env, environment()} | Options]).

%% The script is to find everything by itself.
environment() -> [{"ERL_LIBS", false}, {"ERL_FLAGS", false}, {"LC_ALL", "C.UTF-8"}].

await(Port) -> await(Port, <<>>).

await(Port, Output) ->
    receive
        {Port, {data, Bytes}} -> await(Port, <<Output/binary, Bytes/binary>>);
        {Port, {exit_status, Status}} -> {Status, Output}
    end.

%% {Status, Words, Patterns}: of each command of shared_nodes:run/1 its status, and what it says.
expect(Rows) ->
    lists:foreach(fun({Status, Words, Patterns}) ->
        {Is, Text} = shared_nodes:run(Words),
        ?assertEqual({Words, Status, Text}, {Words, Is, Text}),
        matches(Text, Patterns)
    end, Rows).

matches(Text, Patterns) ->
    [?assertMatch({_, {match, _}}, {Text, re:run(Text, Pattern, [multiline])})
        || Pattern <- Patterns],
    ok.

%% By a shell: pipes and redirections.
shell(Command) ->
    await(open_port({spawn_executable, "/bin/bash"},
        [{args, ["-c", Command]}, exit_status, stderr_to_stdout, binary, {env, environment()}]),
            <<>>).

is_distributed() ->
    case node() of
        nonode@nohost ->
            _ = os:cmd("epmd -daemon"),
            Name = list_to_atom("tests_" ++ os:getpid() ++ "@127.0.0.1"),
            {ok, _} = net_kernel:start(Name, #{name_domain => longnames, hidden => true}),
            ok;
        _ -> ok
    end.

%% A node of plain Erlang, with a process that is busy. In the file system that
%% FLAME_PROF_TEST_ROOT names, where that is set: test/attach/matrix.sh.
start_node(Args) ->
    case os:getenv("FLAME_PROF_TEST_ROOT") of
        false -> start_node(os:find_executable("erl"), [], Args);
        Root -> start_node_in(with_proc(Root) ++ "exec chroot " ++ Root, Args)
    end.

with_proc(Root) -> "mount -t proc proc " ++ Root ++ "/proc && ".

%% That cannot write a byte into any file: no folder takes the library.
start_small_node(Args) ->
    Limited = "trap '' XFSZ && ulimit -f 0 && exec ",
    case os:getenv("FLAME_PROF_TEST_ROOT") of
        false -> start_node("/bin/sh", ["-c", Limited ++ "erl \"$@\"", "sh"], Args);
        Root -> start_node_in(with_proc(Root) ++ Limited ++ "chroot " ++ Root, Args)
    end.

%% After these commands of a shell: `ulimit -n 60;'.
start_limited_node(Commands, Args) ->
    start_node("/bin/sh", ["-c", Commands ++ " exec erl \"$@\"", "sh"], Args).

%% By a command of a shell that has mounts of its own, and ends with whatever runs
%% the rest of its line. For root only.
start_node_in(Command, Args) ->
    Shell = ["--mount", "sh", "-c", Command ++ " erl \"$@\"", "sh"],
    start_node(os:find_executable("unshare"), Shell, Args).

start_node(Executable, Before, Args) ->
    Name = "plain_" ++ os:getpid() ++ "_" ++ integer_to_list(erlang:unique_integer([positive])) ++
        "@127.0.0.1",
    start_named(Name, Executable, Before, Args).

%% One with the name of another that has ended.
start_again(#{name := Name}) -> start_named(Name, os:find_executable("erl"), [], []).

start_named(Name, Executable, Before, Args) ->
    ok = is_distributed(),
    Work = "spawn(fun() -> register(busy, self()), "
        "(fun F() -> lists:sort(lists:seq(1, 1000)), timer:sleep(1), F() end)() end)",
    Port = open_port({spawn_executable, Executable}, [
        {args, Before ++ ["-noinput", "-name", Name, "-setcookie", ?COOKIE, "-eval", Work, "-eval",
            peer_vm:end_with_us() | Args]},
        exit_status, binary, stderr_to_stdout, {env, environment()}]),
    Node = list_to_atom(Name),
    true = erlang:set_cookie(Node, list_to_atom(?COOKIE)),
    until(fun() -> net_kernel:connect_node(Node) =:= true andalso
        is_pid(call(Node, erlang, whereis, [busy])) end),
    #{node => Node, name => Name, port => Port, pid => call(Node, os, getpid, [])}.

%% Only root has, and not in a changed root.
has_mounts() -> os:cmd("unshare --mount mount -t tmpfs tmpfs /tmp 2>&1") =:= "".

stop_node(#{port := Port, pid := Pid}) ->
    _ = os:cmd("kill -9 " ++ Pid),
    receive {Port, {exit_status, _}} -> ok after 300000 -> error(does_not_die) end.

call(Node, Module, Function, Args) -> erpc:call(Node, Module, Function, Args).
until(Look) -> waiting:eventually(Look).

%% The folder of flame_prof, for nodes that have it on their path.
ebin() -> filename:dirname(filename:absname(code:which(flame_prof))).

%% Fun gets a node that command_line:Start(Args...) starts, and what it looked like before.
with_node(Start, Args, Fun) ->
    Node = apply(?MODULE, Start, Args),
    try
        %% The first connection and look load modules and make tables of OTP's.
        _ = traces(Node),
        Fun(Node, settled(Node))
    after stop_node(Node)
    end.

%% Fun gets the node of this kind, {Start, Args}, that all who ask for it share: it has to be as it
%% was afterwards. One that is not, or whose test has failed, is nobody else's.
with_shared(Kind, Fun) ->
    Node = shared_nodes:take(Kind),
    try
        _ = traces(Node),
        Before = settled(Node),
        Answer = Fun(Node),
        ok = leaves_nothing(Node, Before),
        Answer
    catch
        Class:Reason:Stack ->
            ok = shared_nodes:drop(Kind),
            erlang:raise(Class, Reason, Stack)
    end.

settled(Node) ->
    until(fun() ->
        Before = traces(Node),
        traces(Node) =:= Before andalso {true, Before}
    end).

%% It may take a moment until a connection is closed.
leaves_nothing(Node, Before) -> leaves_nothing(maps:keys(Before), Node, Before).

leaves_nothing(Kinds, Node, Before) ->
    Left = fun() -> maps:with(Kinds, maps:filter(fun(K, V) -> V =/= maps:get(K, Before) end,
        traces(Node))) end,
    try
        %% A look takes CPU time of this machine.
        until(fun() -> Left() =:= #{} orelse timer:sleep(50) =/= ok end)
    catch
        error:_ -> error({left, Left(), before, maps:with(maps:keys(Left()), Before)})
    end.

%% Everything of a node that attaching could leave something in. Modules of OTP may
%% stay loaded, so that only ours count.
traces(#{node := Node, pid := Pid}) ->
    %% Asked by one call: it is made often.
    Pids = call(Node, erlang, processes, []) -- [call(Node, erlang, whereis, [busy])],
    #{modules => [M || {M, _} <- call(Node, code, all_loaded, []), is_ours(M)],
        old => [M || M <- [flame_prof_agent, flame_prof_nif, flame_prof_session],
            call(Node, erlang, check_old_code, [M])],
        registered => lists:sort(call(Node, erlang, registered, [])),
        %% Those of distribution come and go with us.
        processes => lists:sort([I || [_ | _] = I <- call(Node, lists, zipwith, [
            fun erlang:process_info/2, Pids, [[initial_call, registered_name] || _ <- Pids]])]),
        tables => length(call(Node, ets, all, [])),
        environment => call(Node, application, get_all_env, [flame_prof_attached]),
        applications => lists:sort([A || {A, _, _} <- call(Node, application, loaded_applications,
            [])]),
        threads => length(list("/proc/" ++ Pid ++ "/task")),
        descriptors => length(list("/proc/" ++ Pid ++ "/fd")),
        mappings => lists:usort([lists:last(string:lexemes(L, " "))
            || L <- lines("/proc/" ++ Pid ++ "/maps"), string:find(L, ".so") =/= nomatch]),
        signals => [L || L <- lines("/proc/" ++ Pid ++ "/status"), lists:prefix("Sig", L),
            not lists:prefix("SigQ", L)],
        %% In its own file system.
        files => [F || Folder <- ["/tmp", "/var/tmp", "/dev/shm"],
            F <- filelib:wildcard("/proc/" ++ Pid ++ "/root" ++ Folder ++ "/flame_prof." ++ Pid ++
                ".*")]}.

is_ours(Module) -> lists:prefix("flame_prof", atom_to_list(Module)).

list(Folder) ->
    {ok, Names} = file:list_dir(Folder),
    Names.

lines(File) ->
    {ok, Text} = file:read_file(File),
    string:lexemes(binary_to_list(Text), "\n").
