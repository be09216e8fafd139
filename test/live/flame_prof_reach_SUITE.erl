%% Nodes that are not found by epmd, or not by plain TCP: at a port, through a tunnel as
%% that of ssh, by TLS on both sides. By the script itself.
-module(flame_prof_reach_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, a_node_without_epmd_is_attached_to/1,
    a_node_of_another_host_is_attached_to_through_a_tunnel/1, a_node_of_tls_is_attached_to/1,
    a_node_of_ipv6_is_reached_by_address_name_and_port/1,
    commands_at_once_have_names_of_their_own/1, looks_make_no_atom_after_the_first/1,
    a_connection_that_fails_says_why/1, a_command_line_that_cannot_connect_says_why/1,
    a_node_that_is_stopped_while_it_works_is_told_as_that/1]).

-import(command_line, [run/1, run/2, cookie/0]).

%% A host that nobody knows here.
-define(FAR, "shop1.example.invalid").

suite() -> [{timetrap, {minutes, 2}}].
all() -> [F || {F, 1} <- ?MODULE:module_info(exports), F =/= module_info].

a_node_without_epmd_is_attached_to(Config) ->
    with_node("shop@127.0.0.1", [], fun(Port) ->
        Number = integer_to_list(Port),
        {0, Text} = attach("shop@127.0.0.1", ["--port", Number], Config),
        {match, _} = re:run(Text, "lists:"),
        {0, Stacks} = run(["pstack", "busy", "--node", "shop@127.0.0.1", "--port", Number,
            "--cookie", cookie()]),
        {match, _} = re:run(Stacks, "busy")
    end).

a_node_of_another_host_is_attached_to_through_a_tunnel(Config) ->
    Name = "shop@" ++ ?FAR,
    with_node(Name, [], fun(Port) ->
        tcp_tunnel:through(Port, fun(Local) ->
            ?assertNotEqual(Port, Local),
            Here = "127.0.0.1:" ++ integer_to_list(Local),
            {0, Text} = attach(Name, ["--port", Here], Config),
            {match, _} = re:run(Text, "lists:"),
            {match, [File]} = re:run(Text, "\\S+\\.shop@shop1\\.example\\.invalid\\.erl_perf\\S+",
                [{capture, first, list}]),
            {0, _} = run(["check", File])
        end)
    end).

a_node_of_tls_is_attached_to(Config) ->
    case code:which(ssl) of non_existing -> {skip, "there is no ssl"}; _ -> with_tls(Config) end.

with_tls(Config) ->
    Options = tls_options(proplists:get_value(priv_dir, Config)),
    Flags = ["-proto_dist", "inet_tls", "-ssl_dist_optfile", Options],
    Name = "shop@" ++ ?FAR,
    with_node(Name, Flags, fun(Port) ->
        At = ["--port", "127.0.0.1:" ++ integer_to_list(Port)],
        {0, Text} = attach(Name, ["--tls", Options | At], Config),
        {match, _} = re:run(Text, "lists:"),
        Given = "-proto_dist inet_tls -ssl_dist_optfile " ++ Options,
        {1, Info} = run(["info", "--node", Name, "--cookie", cookie(),
            "--dist-opt=" ++ Given | At]),
        {match, _} = re:run(Info, "no flame_prof is on its code path"),
        {3, Plain} = attach(Name, At, Config),
        {match, _} = re:run(Plain, "it refused the connection: .*--cookie.*--tls")
    end).

%% Without an option that says so.
a_node_of_ipv6_is_reached_by_address_name_and_port(_Config) ->
    case gen_tcp:listen(0, [inet6, {ip, {0, 0, 0, 0, 0, 0, 0, 1}}]) of
        {ok, Socket} ->
            ok = gen_tcp:close(Socket),
            with_ipv6();
        {error, Reason} -> {skip, "no IPv6 loopback: " ++ inet:format_error(Reason)}
    end.

with_ipv6() ->
    Six = ["-proto_dist", "inet6_tcp"],
    with_node("shop@::1", Six, fun(Port) ->
        looks("shop@::1", ["--port", integer_to_list(Port)], []),
        looks("shop@::1", ["--port", "[::1]:" ++ integer_to_list(Port)], [])
    end),
    _ = os:cmd("epmd -daemon"),
    Name = "shop6_" ++ os:getpid(),
    with_node(Name ++ "@::1", Six, known_to_epmd(), fun(_Port) ->
        looks(Name ++ "@::1", [], []),
        {3, Text} = run(["mailbox", Name ++ "_not@::1", "init", "--cookie", cookie()]),
        {match, _} = re:run(Text, "no node " ++ Name ++ "_not runs on ::1; there are: .*" ++ Name)
    end),
    %% Of a host that has no IPv4 address.
    Hosts = filename:join("/tmp", "flame_prof_hosts_" ++ os:getpid()),
    ok = file:write_file(Hosts, "{host, {0,0,0,0,0,0,0,1}, [\"shop6.example.invalid\"]}.\n"
        "{lookup, [file]}.\n"),
    Known = [{"ERL_INETRC", Hosts}],
    Far = Name ++ "@shop6.example.invalid",
    with_node(Far, Six, Known ++ known_to_epmd(), fun(_Port) -> looks(Far, [], Known) end),
    ok = file:delete(Hosts).

known_to_epmd() -> [{"ERL_EPMD_PORT", false}].

looks(Name, More, Environment) ->
    {0, Text} = run(["mailbox", Name, "init", "--cookie", cookie() | More],
        [{env, Environment ++ [{"ERL_LIBS", false}]}]),
    {match, _} = re:run(Text, "init .*0 messages").

%% None takes the other's place: their connections stay.
commands_at_once_have_names_of_their_own(Config) ->
    with_plain_node(fun(#{node := Node, name := Name}) ->
        Names = fun() ->
            lists:sort(command_line:call(Node, erlang, nodes, [hidden]) -- [node()])
        end,
        Folder = proplists:get_value(priv_dir, Config),
        Attached = command_line:start(["attach", Name, "--cookie", cookie(), "--for", "1h",
            "--output", Folder, "--quiet"]),
        command_line:until(fun() -> Names() =:= ['flame_prof_1@127.0.0.1'] end),
        Top = command_line:start(["top", "--node", Name, "--cookie", cookie(), "--count", "1000"]),
        command_line:until(fun() ->
            Names() =:= ['flame_prof_1@127.0.0.1', 'flame_prof_2@127.0.0.1']
        end),
        %% As a connection that is cut, and that the node does not know of.
        ok = command_line:kill("STOP", Top),
        {0, _} = run(["mailbox", Name, "init", "--cookie", cookie()]),
        [begin
            ok = command_line:kill("KILL", Port),
            {137, _} = command_line:await(Port)
        end || Port <- [Attached, Top]],
        command_line:until(fun() -> Names() =:= [] end),
        %% Each of a small set is taken.
        Taken = [peer_named(Number, Node) || Number <- lists:seq(1, 16)],
        [ok = is_connected(Port, "") || Port <- Taken],
        {3, Text} = run(["mailbox", Name, "init", "--cookie", cookie()]),
        {match, _} = re:run(Text, "16 commands of flame_prof are connected to it already"),
        [port_close(Port) || Port <- Taken],
        command_line:until(fun() -> Names() =:= [] end)
    end).

%% A node with the name of a command, which connects and says so.
peer_named(Number, Node) ->
    Text = io_lib:format("{ok, _} = net_kernel:start('flame_prof_~b@127.0.0.1', "
        "#{name_domain => longnames, dist_listen => false, hidden => true}), "
        "erlang:set_cookie(~w), true = net_kernel:connect_node(~w), io:format(\"connected~n\")",
        [Number, list_to_atom(cookie()), Node]),
    peer_vm:start([?MODULE], lists:flatten(Text), ["+S", "1:1", "+SDcpu", "1:1", "+SDio", "1"]).

is_connected(Port, Said) ->
    case string:find(Said, "connected") of
        nomatch -> receive {Port, {data, More}} -> is_connected(Port, Said ++ More) end;
        _ -> ok
    end.

%% Looks of several sorts, the first of each makes what its code has.
looks_make_no_atom_after_the_first(_Config) ->
    with_plain_node(fun(#{node := Node, name := Name}) ->
        Atoms = fun() -> command_line:call(Node, erlang, system_info, [atom_count]) end,
        Looks = [["mailbox", Name, "init"], ["waits", Name], ["tables", "--node", Name],
            ["info", "--node", Name]],
        %% A busy node may not know yet that the last command has ended.
        Look = fun(Words) ->
            {_, _} = shared_nodes:run(Words ++ ["--cookie", cookie()]),
            command_line:until(fun() ->
                command_line:call(Node, erlang, nodes, [hidden]) -- [node()] =:= []
            end)
        end,
        _ = lists:foreach(Look, Looks),
        Before = Atoms(),
        _ = [Look(Words) || _ <- [1, 2], Words <- Looks],
        ?assertEqual(Before, Atoms())
    end).

with_plain_node(Fun) -> command_line:with_shared({start_node, [[]]}, Fun).

a_connection_that_fails_says_why(Config) ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Free} = inet:port(Socket),
    %% It takes connections, and no process of it answers.
    {3, Silent} = run(["attach", "shop@127.0.0.1", "--cookie", cookie(), "--port",
        integer_to_list(Free)], [{env, [{"ERL_FLAGS", "-kernel net_setuptime 1"}]}]),
    {match, _} = re:run(Silent, "shop@127.0.0.1: it accepts connections, but did not answer in 2"),
    nomatch = re:run(Silent, "cookie"),
    ok = gen_tcp:close(Socket),
    {3, Nobody} = attach("shop@127.0.0.1", ["--port", integer_to_list(Free)], Config),
    {match, _} = re:run(Nobody, "shop@127.0.0.1: no connection to port " ++
        integer_to_list(Free) ++ " of 127.0.0.1: connection refused"),
    with_node("shop@127.0.0.1", [], fun(Port) ->
        At = ["--port", integer_to_list(Port)],
        {3, Cookie} = run(["attach", "shop@127.0.0.1", "--cookie", "wrong" | At]),
        {match, _} = re:run(Cookie, "refused the connection: it has another cookie"),
        {3, Name} = attach("store@127.0.0.1", At, Config),
        {match, _} = re:run(Name, "has another name"),
        %% As a network without that host.
        {3, Unknown} = attach("shop@" ++ ?FAR, At, Config),
        {match, _} = re:run(Unknown, "no connection to port .* of " ?FAR ": ")
    end).

a_node_that_is_stopped_while_it_works_is_told_as_that(_) ->
    with_plain_node(fun(#{node := Node, pid := Pid}) ->
        "" = os:cmd("kill -STOP " ++ Pid),
        {error, Reason} = flame_prof_remote:call(Node, erlang, node, [], 100),
        "" = os:cmd("kill -CONT " ++ Pid),
        {match, _} = re:run(flame_prof:format_error(Reason),
            "\\(--timeout\\); it answers nothing now: it is stopped, or too busy$")
    end).

a_command_line_that_cannot_connect_says_why(Config) ->
    {1, Two} = attach("a@127.0.0.1", ["b@127.0.0.1", "--port", "1"], Config),
    {match, _} = re:run(Two, "argument port .*it takes one node"),
    {1, File} = attach("a@127.0.0.1", ["--port", "1", "--tls", "/nonexistent"], Config),
    {match, _} = re:run(File, "/nonexistent: no such file or directory"),
    {2, Missing} = attach("a@127.0.0.1", ["--tls"], Config),
    {match, _} = re:run(Missing, "--tls takes FILE").

attach(Name, More, Config) ->
    run(["attach", Name, "--cookie", cookie(), "--for", "300ms", "--output",
        proplists:get_value(priv_dir, Config) | More]).

%% A node that epmd knows nothing of. Fun gets its port.
with_node(Name, Flags, Fun) -> with_node(Name, Flags, [], Fun).

with_node(Name, Flags, Environment, Fun) ->
    Busy = "spawn(fun() -> register(busy, self()), "
        "(fun F() -> lists:sort(lists:seq(1, 50000)), timer:sleep(5), F() end)() end)",
    Up = "{ok, Listening} = inet:port(hd([P || P <- erlang:ports(), "
        "erlang:port_info(P, name) =:= {name, \"tcp_inet\"}, "
        "element(1, inet:peername(P)) =:= error])), io:format(\"up ~b~n\", [Listening])",
    Port = open_port({spawn_executable, os:find_executable("erl")}, [
        {args, Flags ++ port_flags(Environment) ++ ["-noinput", "-start_epmd", "false", "-name",
            Name, "-setcookie", cookie(), "-eval", peer_vm:end_with_us(), "-eval", Busy,
            "-eval", Up]},
        %% No epmd answers there.
        {env, [{"ERL_LIBS", false}, {"ERL_FLAGS", false}, {"ERL_EPMD_PORT", "1"} | Environment]},
        exit_status, binary, stderr_to_stdout]),
    try Fun(listening(Port, <<>>))
    after
        {os_pid, Pid} = erlang:port_info(Port, os_pid),
        _ = os:cmd("kill -9 " ++ integer_to_list(Pid)),
        receive {Port, {exit_status, _}} -> ok end
    end.

port_flags(Environment) ->
    case lists:member({"ERL_EPMD_PORT", false}, Environment) of
        true -> [];
        false -> ["-erl_epmd_port", "0"]
    end.

listening(Port, Text) ->
    case re:run(Text, "^up (\\d+)$", [multiline, {capture, [1], binary}]) of
        {match, [Number]} -> binary_to_integer(Number);
        nomatch ->
            receive
                {Port, {data, More}} -> listening(Port, <<Text/binary, More/binary>>);
                {Port, {exit_status, Status}} -> ct:fail("the node ended: ~b ~ts", [Status, Text])
            end
    end.

%% The option file of a node, as both sides use it: each shows a certificate and asks for one.
tls_options(Folder) ->
    Key = {key, {namedCurve, secp256r1}},
    %% id-ce-subjectAltName
    Host = {'Extension', {2, 5, 29, 17}, false, [{dNSName, ?FAR}]},
    %% The default, SHA-1, is refused by OTP 27.
    Signed = [Key, {digest, sha256}],
    Chain = #{root => Signed, intermediates => [], peer => [{extensions, [Host]} | Signed]},
    #{server_config := Server, client_config := Client} =
        public_key:pkix_test_data(#{server_chain => Chain, client_chain => Chain}),
    File = filename:join(Folder, "ssl_dist.conf"),
    ok = file:write_file(File, io_lib:format("~p.~n", [[
        {server, [{fail_if_no_peer_cert, true}, {verify, verify_peer}
            | pem(Folder, "server", Server)]},
        {client, [{verify, verify_peer} | pem(Folder, "client", Client)]}]])),
    File.

pem(Folder, Role, Config) ->
    {Type, Key} = proplists:get_value(key, Config),
    [{certfile, written(Folder, Role ++ "_cert.pem",
            [{'Certificate', proplists:get_value(cert, Config), not_encrypted}])},
        {keyfile, written(Folder, Role ++ "_key.pem", [{Type, Key, not_encrypted}])},
        {cacertfile, written(Folder, Role ++ "_ca.pem",
            [{'Certificate', Ca, not_encrypted} || Ca <- proplists:get_value(cacerts, Config)])}].

written(Folder, Name, Entries) ->
    File = filename:join(Folder, Name),
    ok = file:write_file(File, public_key:pem_encode(Entries)),
    File.
