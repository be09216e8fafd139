%% @private The Model Context Protocol: what a line of the client means, as data. No process, no
%% input and output: {@link flame_prof_cli_mcp} has these.
%%
%% JSON-RPC 2.0, a message a line, of the versions 2024-11-05, 2025-03-26 (with batches) and
%% 2025-06-18. Calls of tools run beside each other, so many at once and so many waiting; all else
%% is answered at once.
-module(flame_prof_mcp).

-export([new/2, received/2, too_long/1, answered/3]).

-export_type([state/0, action/0, answer/0, id/0]).

-type id() :: integer() | binary().
%% `start' is followed by {@link answered/3} with the same id, unless `stop' comes before.
-type action() ::
    {send, iodata()} | {start, id(), flame_prof_mcp_tools:call()} | {stop, id()}.
-type answer() :: {ok, flame_prof_cli_looks:seen()} | {error, unicode:chardata()}.

%% Where an answer goes: to the client, or into what is sent of a batch.
-type to() :: client | reference().

-record(mcp, {
    version :: binary(),
    nodes :: [binary()],
    protocol = none :: none | binary(),
    calls = #{} :: #{id() => to()},
    running = [] :: [id()],
    %% The oldest first.
    waiting = [] :: [{id(), flame_prof_mcp_tools:call()}],
    %% Messages that are not answered yet, and the answers so far, the last one first.
    batches = #{} :: #{reference() => {pos_integer(), [iodata()]}}
}).
-opaque state() :: #mcp{}.

%% The last one is offered to a client that asks for another.
-define(PROTOCOLS, [<<"2024-11-05">>, <<"2025-03-26">>, <<"2025-06-18">>]).
-define(RUNNING_MOST, 4).
-define(WAITING_MOST, 32).
-define(BATCH_MOST, 32).

-define(PARSE, -32700).
-define(REQUEST, -32600).
-define(METHOD, -32601).
-define(PARAMS, -32602).

%% @doc `Nodes': those that may be asked, the first where none is named; none: any.
-spec new(Version :: binary(), Nodes :: [binary()]) -> state().
new(Version, Nodes) ->
    #mcp{version = Version, nodes = Nodes}.

%% @doc A line, with or without its end.
-spec received(binary(), state()) -> {[action()], state()}.
received(Line, State) ->
    case << <<C>> || <<C>> <= Line, C =/= $\s, C =/= $\t, C =/= $\r, C =/= $\n >> of
        <<>> -> {[], State};
        _ -> read(flame_prof_json_reader:decode(Line), State)
    end.

%% @doc A line that was not kept.
-spec too_long(state()) -> {[action()], state()}.
too_long(State) ->
    failed(client, undefined, ?PARSE, "the line is too long", State).

read({ok, Messages}, #mcp{protocol = <<"2025-03-26">>} = State) when
    is_list(Messages), Messages =/= [], length(Messages) =< ?BATCH_MOST
->
    Batch = make_ref(),
    Batches = (State#mcp.batches)#{Batch => {length(Messages), []}},
    lists:foldl(
        fun(Message, {Before, Between}) ->
            {Actions, After} = message(Message, Batch, Between),
            {Before ++ Actions, After}
        end, {[], State#mcp{batches = Batches}}, Messages);
read({ok, Message}, State) ->
    message(Message, client, State);
read({error, Why}, State) ->
    failed(client, undefined, ?PARSE, Why, State).

message(#{<<"jsonrpc">> := <<"2.0">>, <<"method">> := Method} = Message, To, State) when
    is_binary(Method)
->
    Params = maps:get(<<"params">>, Message, #{}),
    case Message of
        #{<<"id">> := Id} when is_integer(Id); is_binary(Id) ->
            request(Method, Params, Id, To, State);
        #{<<"id">> := _} ->
            failed(To, undefined, ?REQUEST, "an id is a string or a whole number", State);
        #{} ->
            {Actions, Noticed} = notification(Method, Params, State),
            {More, Replied} = reply(To, none, Noticed),
            {Actions ++ More, Replied}
    end;
%% An answer: this server asks nothing.
message(#{<<"jsonrpc">> := <<"2.0">>, <<"id">> := _} = Message, To, State) when
    is_map_key(<<"result">>, Message); is_map_key(<<"error">>, Message)
->
    reply(To, none, State);
message(_, To, State) ->
    failed(To, undefined, ?REQUEST, "a message is an object of JSON-RPC 2.0", State).

%% Requests.

request(Method, Params, Id, To, #mcp{protocol = Protocol, nodes = Nodes} = State) ->
    case {Method, Params} of
        {<<"ping">>, _} ->
            result(To, Id, "{}", State);
        {<<"initialize">>, #{<<"protocolVersion">> := Asked}} when
            Protocol =:= none, is_binary(Asked)
        ->
            initialized(negotiated(Asked), Id, To, State);
        {<<"initialize">>, _} when Protocol =:= none ->
            failed(To, Id, ?PARAMS, "protocolVersion is missing", State);
        {<<"initialize">>, _} ->
            failed(To, Id, ?REQUEST, "it was initialized before", State);
        {Known, _} when
            Protocol =:= none, (Known =:= <<"tools/list">> orelse Known =:= <<"tools/call">>)
        ->
            failed(To, Id, ?REQUEST, "initialize comes first", State);
        {<<"tools/list">>, #{<<"cursor">> := Cursor}} when Cursor =/= undefined ->
            failed(To, Id, ?PARAMS, "cursor: the first page has all tools", State);
        {<<"tools/list">>, #{}} ->
            Tools = #{tools => flame_prof_mcp_tools:list(Nodes)},
            result(To, Id, flame_prof_json:encode(Tools), State);
        {<<"tools/call">>, #{<<"name">> := Name}} when is_binary(Name) ->
            Arguments = maps:get(<<"arguments">>, Params, #{}),
            call(flame_prof_mcp_tools:checked(Name, Arguments, Nodes), Id, To, State);
        {<<"tools/call">>, _} ->
            failed(To, Id, ?PARAMS, "name is missing: the name of a tool", State);
        {<<"tools/list">>, _} ->
            failed(To, Id, ?PARAMS, "params is an object", State);
        {_, _} ->
            failed(To, Id, ?METHOD, ["there is no method ", Method], State)
    end.

negotiated(Asked) ->
    case lists:member(Asked, ?PROTOCOLS) of
        true -> Asked;
        false -> lists:last(?PROTOCOLS)
    end.

initialized(Protocol, Id, To, #mcp{version = Version, nodes = Nodes} = State) ->
    Result = #{
        'protocolVersion' => Protocol,
        capabilities => #{tools => #{}},
        'serverInfo' => #{name => <<"flame_prof">>, title => <<"flame_prof">>, version => Version},
        instructions => flame_prof_mcp_tools:instructions(Nodes)
    },
    result(To, Id, flame_prof_json:encode(Result), State#mcp{protocol = Protocol}).

call({error, Why}, Id, To, State) ->
    failed(To, Id, ?PARAMS, Why, State);
call({ok, _}, Id, To, #mcp{calls = Calls} = State) when is_map_key(Id, Calls) ->
    failed(To, Id, ?REQUEST, "a call with this id is pending", State);
call({ok, _}, Id, To, #mcp{waiting = Waiting} = State) when length(Waiting) >= ?WAITING_MOST ->
    result(To, Id, shown({error, "too many calls are pending; try again later"}), State);
call({ok, Call}, Id, To, #mcp{calls = Calls, waiting = Waiting} = State) ->
    begun(State#mcp{calls = Calls#{Id => To}, waiting = Waiting ++ [{Id, Call}]}).

%% The oldest call that waits, where there is room for it.
begun(#mcp{waiting = [{Id, Call} | Waiting], running = Running} = State) when
    length(Running) < ?RUNNING_MOST
->
    {[{start, Id, Call}], State#mcp{waiting = Waiting, running = [Id | Running]}};
begun(State) ->
    {[], State}.

%% @doc Of a call that was started.
-spec answered(id(), answer(), state()) -> {[action()], state()}.
answered(Id, Answer, #mcp{calls = Calls} = State) ->
    #{Id := To} = Calls,
    {Actions, Replied} = result(To, Id, shown(Answer), State),
    {More, Begun} = ended(Id, Replied),
    {Actions ++ More, Begun}.

ended(Id, #mcp{calls = Calls, running = Running, waiting = Waiting} = State) ->
    begun(State#mcp{
        calls = maps:remove(Id, Calls),
        running = lists:delete(Id, Running),
        waiting = lists:keydelete(Id, 1, Waiting)
    }).

shown({ok, #{text := Text, json := Json}}) ->
    ["{\"content\":[", content(Text), "],\"structuredContent\":", Json, ",\"isError\":false}"];
shown({error, Text}) ->
    ["{\"content\":[", content(Text), "],\"isError\":true}"].

content(Text) ->
    flame_prof_json:encode(#{type => text, text => unicode:characters_to_binary(Text)}).

%% Notifications.

notification(<<"notifications/cancelled">>, #{<<"requestId">> := Id}, State) ->
    cancelled(Id, State);
notification(_, _, State) ->
    {[], State}.

%% There is no answer then.
cancelled(Id, #mcp{calls = Calls, running = Running} = State) when is_map_key(Id, Calls) ->
    #{Id := To} = Calls,
    {Actions, Replied} = reply(To, none, State),
    {More, Begun} = ended(Id, Replied),
    {[{stop, Id} || lists:member(Id, Running)] ++ Actions ++ More, Begun};
cancelled(_, State) ->
    {[], State}.

%% Answers.

result(To, Id, Result, State) ->
    reply(To, ["{\"jsonrpc\":\"2.0\",\"id\":", flame_prof_json:encode(Id), ",\"result\":", Result,
        "}"], State).

failed(To, Id, Code, Why, State) ->
    Error = #{code => Code, message => unicode:characters_to_binary(Why)},
    reply(To, flame_prof_json:encode(#{jsonrpc => <<"2.0">>, id => Id, error => Error}), State).

reply(client, none, State) ->
    {[], State};
reply(client, Answer, State) ->
    {[{send, [Answer, "\n"]}], State};
reply(Batch, Answer, #mcp{batches = Batches} = State) ->
    #{Batch := {Left, Before}} = Batches,
    case {Left, [Answer || Answer =/= none] ++ Before} of
        {1, []} ->
            {[], State#mcp{batches = maps:remove(Batch, Batches)}};
        {1, Answers} ->
            Sent = ["[", lists:join(",", lists:reverse(Answers)), "]\n"],
            {[{send, Sent}], State#mcp{batches = maps:remove(Batch, Batches)}};
        {_, Answers} ->
            {[], State#mcp{batches = Batches#{Batch := {Left - 1, Answers}}}}
    end.
