%% Nodes that the cases of a suite share, and Erlangs that run one command line after the other:
%% each belongs to a process, as what starts it does, and ends with this VM.
-module(shared_nodes).

-export([take/1, drop/1, run/1]).
%% In the Erlang of the commands.
-export([commands/0]).

%% The node of this kind, {Start, Args}: functions of command_line start it.
take({_, _} = Kind) -> ask({take, Kind}).

%% It is ended; who asks next gets another one.
drop(Kind) -> ask({drop, Kind}).

%% A keeper that cannot start a node ends with it: the next one begins anew.
ask(Request) -> ask(registered(?MODULE, fun() -> keep(#{}) end), Request).

ask(Pid, Request) ->
    Monitor = monitor(process, Pid),
    Pid ! {Request, self(), Monitor},
    receive
        {Monitor, Answer} -> true = demonitor(Monitor, [flush]), Answer;
        {'DOWN', Monitor, _, _, Reason} -> error({Request, Reason})
    end.

%% The process of this name, which runs Fun. Another one that asks may be faster.
registered(Name, Fun) ->
    _ = [spawn(fun() ->
        try register(Name, self()) of
            true -> Fun()
        catch
            error:badarg -> ok
        end
    end) || whereis(Name) =:= undefined],
    waiting:eventually(fun() -> is_pid(whereis(Name)) andalso {true, whereis(Name)} end).

keep(Nodes) ->
    receive
        {{take, Kind}, From, Tag} when is_map_key(Kind, Nodes) ->
            From ! {Tag, maps:get(Kind, Nodes)},
            keep(Nodes);
        {{take, {Start, Args} = Kind}, From, Tag} ->
            #{node := Name} = Node = apply(command_line, Start, Args),
            %% What resolves names there is OTP's, and stays.
            _ = command_line:call(Name, inet, gethostbyname, ["localhost"]),
            From ! {Tag, Node},
            keep(Nodes#{Kind => Node});
        {{drop, Kind}, From, Tag} ->
            _ = [command_line:stop_node(Node)
                || Node <- [maps:get(Kind, Nodes, none)], is_map(Node)],
            From ! {Tag, ok},
            keep(maps:remove(Kind, Nodes));
        {Port, {data, _}} when is_port(Port) -> keep(Nodes)
    end.

%%% commands

%% {Status, Output of both kinds} of a command line, as command_line:run/1 has it: in an Erlang that
%% has run others before, where the command is what is tested and not its start or its end.
run(Args) -> ask(registered(shared_commands, fun start_commands/0), Args).

start_commands() ->
    serve(open_port({spawn_executable, os:find_executable("erl")}, [
        {args, ["-noinput", "+A", "1", "+sbwt", "none", "-hidden", "-setcookie", "flame_prof",
            "-start_epmd", "false", "-kernel", "logger_level", "none",
            "-epmd_module", "flame_prof_epmd", "-proto_dist", "flame_prof",
            "-pa", command_line:ebin(), "-pa", filename:dirname(code:which(?MODULE)),
            "-s", "shared_nodes", "commands"]},
        {env, [{"ERL_LIBS", false}, {"ERL_FLAGS", false}, {"LC_ALL", "C.UTF-8"}]},
        exit_status, stderr_to_stdout, binary])).

serve(Port) ->
    receive
        {Args, From, Tag} ->
            Bytes = term_to_binary(Args),
            true = port_command(Port, [<<(byte_size(Bytes)):32>>, Bytes]),
            From ! {Tag, served(Port, <<>>)},
            serve(Port)
    end.

served(Port, Output) ->
    case re:run(Output, "\\A(.*)\\0status ([0-9]+)\\0", [dotall, {capture, [1, 2], binary}]) of
        {match, [Text, Status]} -> {binary_to_integer(Status), Text};
        nomatch ->
            receive
                {Port, {data, More}} -> served(Port, <<Output/binary, More/binary>>);
                {Port, {exit_status, Status}} -> exit({ended, Status, Output})
            end
    end.

commands() ->
    ok = flame_prof_cli_signals:install(self()),
    commands(open_port({fd, 0, 0}, [in, eof, binary, {packet, 4}])).

commands(Input) ->
    receive
        {Input, {data, Bytes}} ->
            Words = binary_to_term(Bytes),
            {Pid, Monitor} = spawn_monitor(fun() ->
                Status = flame_prof_cli:command(Words),
                ok = flame_prof_cli_out:put(["\0status ", integer_to_list(Status), 0]),
                exit(flame_prof_cli_out:written())
            end),
            receive
                {'DOWN', Monitor, process, Pid, ok} -> ok;
                {'DOWN', Monitor, process, Pid, Reason} ->
                    io:format("~p~n", [Reason]),
                    halt(1)
            end,
            _ = net_kernel:stop(),
            commands(Input);
        {Input, eof} -> halt(0, [{flush, false}])
    end.
