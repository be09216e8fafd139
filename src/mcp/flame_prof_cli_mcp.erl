%% @private `flame_prof mcp': the Model Context Protocol over standard input and output.
%%
%% This process reads lines, and writes; each call of a tool has a process of its own, and each
%% node one that holds what is lent to it. It ends with its input: at once, as the program does
%% that has closed it. {@link flame_prof_mcp} is the protocol.
-module(flame_prof_cli_mcp).

-export([do/1]).

-define(LINE_BYTES, 65536).
-define(LINE_MOST, 1048576).
-define(LOOK_MS, 1000).
%% Names of nodes that were asked for.
-define(NODES_MOST, 64).

-record(server, {
    input :: port(),
    parsed :: flame_prof_cli_args:parsed(),
    protocol :: flame_prof_mcp:state(),
    %% Of a line, the last part first; or it is not kept.
    line = [] :: [binary()] | too_long,
    size = 0 :: non_neg_integer(),
    nodes = #{} :: #{string() => pid()},
    workers = #{} :: #{pid() => flame_prof_mcp:id()}
}).

-spec do(flame_prof_cli_args:parsed()) -> ok | interrupted | flame_prof_cli_args:failure().
do(#{arguments := Names, port := _}) when length(Names) =/= 1 ->
    {error, {usage, "--port is where one node listens: flame_prof mcp NODE --port PORT"}};
do(#{arguments := Names} = Parsed) ->
    _ = application:load(flame_prof),
    {ok, Version} = application:get_key(flame_prof, vsn),
    Nodes = [unicode:characters_to_binary(flame_prof_remote:full(Name)) || Name <- Names],
    Server = #server{
        input = open_port({fd, 0, 0}, [in, binary, eof, {line, ?LINE_BYTES}]),
        parsed = Parsed#{arguments := []},
        protocol = flame_prof_mcp:new(list_to_binary(Version), Nodes)
    },
    served(Server).

served(#server{input = Input, nodes = Nodes, workers = Workers} = Server) ->
    receive
        {Input, {data, {Ends, Part}}} ->
            served(lined(Ends, Part, Server));
        {Input, eof} ->
            ended(ok, Server);
        {flame_prof_cli, interrupted} ->
            ended(interrupted, Server);
        {?MODULE, Worker, Answer} when is_map_key(Worker, Workers) ->
            served(answered(Worker, Answer, Server));
        {'EXIT', Worker, Reason} when is_map_key(Worker, Workers) ->
            Why = ["the look ended: ", flame_prof_error:exit_text(Reason)],
            served(answered(Worker, {error, Why}, Server));
        {'EXIT', Pid, _} when is_pid(Pid) ->
            served(Server#server{nodes = maps:filter(fun(_, Of) -> Of =/= Pid end, Nodes)});
        %% The reader of what is written has gone.
        {'EXIT', _, _} ->
            ended(ok, Server);
        %% Of a call that was cancelled.
        {?MODULE, _, _} ->
            served(Server)
    after ?LOOK_MS ->
        case flame_prof_cli_signals:is_orphan() of
            true -> ended(ok, Server);
            false -> served(Server)
        end
    end.

%% Running calls get no reply any more.
ended(How, #server{nodes = Nodes, workers = Workers}) ->
    _ = [exit(Worker, kill) || Worker <- maps:keys(Workers)],
    Stopping = [spawn_monitor(fun() -> flame_prof_mcp_node:stop(Node) end)
        || Node <- maps:values(Nodes)],
    _ = [receive {'DOWN', Monitor, process, _, _} -> ok end || {_, Monitor} <- Stopping],
    How.

%% Lines.

lined(Ends, Part, #server{size = Size} = Server) when Size + byte_size(Part) > ?LINE_MOST ->
    lined_long(Ends, Server#server{line = too_long, size = ?LINE_MOST + 1});
lined(noeol, Part, #server{line = Line, size = Size} = Server) ->
    Server#server{line = [Part | Line], size = Size + byte_size(Part)};
lined(eol, Part, #server{line = Line, protocol = Protocol} = Server) ->
    Whole = iolist_to_binary(lists:reverse(Line, [Part])),
    done(flame_prof_mcp:received(Whole, Protocol), Server#server{line = [], size = 0}).

lined_long(noeol, Server) -> Server;
lined_long(eol, #server{protocol = Protocol} = Server) ->
    done(flame_prof_mcp:too_long(Protocol), Server#server{line = [], size = 0}).

done({Actions, Protocol}, Server) ->
    lists:foldl(fun act/2, Server#server{protocol = Protocol}, Actions).

act({send, Answer}, Server) ->
    ok = flame_prof_cli_out:put_bytes(iolist_to_binary(Answer)),
    Server;
act({start, Id, #{node := Name} = Call}, #server{parsed = Parsed} = Server0) ->
    {Node, #server{workers = Workers} = Server} = node_of(flame_prof_remote:full(Name), Server0),
    Self = self(),
    Worker = spawn_link(fun() -> Self ! {?MODULE, self(), run(Call, Node, Parsed)} end),
    Server#server{workers = Workers#{Worker => Id}};
act({stop, Id}, #server{workers = Workers} = Server) ->
    [Worker] = [Pid || {Pid, Of} <- maps:to_list(Workers), Of =:= Id],
    true = unlink(Worker),
    true = exit(Worker, kill),
    Server#server{workers = maps:remove(Worker, Workers)}.

node_of(Name, #server{nodes = Nodes, parsed = Parsed} = Server) ->
    case Nodes of
        #{Name := Node} ->
            {Node, Server};
        _ when map_size(Nodes) >= ?NODES_MOST ->
            {none, Server};
        _ ->
            {ok, Node} = flame_prof_mcp_node:start_link(Name, Parsed),
            {Node, Server#server{nodes = Nodes#{Name => Node}}}
    end.

run(_Call, none, _Parsed) ->
    {error, "too many names of nodes were used; start it again"};
run(Call, Node, Parsed) ->
    try
        flame_prof_mcp_tools:run(Call, Node, Parsed)
    catch
        _:_:Stack -> {error, flame_prof_error:internal(Stack)}
    end.

answered(Worker, Answer, #server{workers = Workers, protocol = Protocol} = Server) ->
    {Id, Rest} = maps:take(Worker, Workers),
    done(flame_prof_mcp:answered(Id, Answer, Protocol), Server#server{workers = Rest}).
