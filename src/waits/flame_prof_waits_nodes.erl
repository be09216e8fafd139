%% @private What a look asks of nodes, and their names.
-module(flame_prof_waits_nodes).

-export([ask/1, known/1]).

-export_type([ask/0]).

-type requests() :: [{node(), {module(), atom(), [term()]}}].
-type answers() :: [{node(), {ok, term()} | {error, binary()}}].
%% This node may be among them.
-type ask() :: fun((requests()) -> answers()).

-define(NODE_MS, 5000).

%% @doc The others work while this one does. They have five seconds.
-spec ask(requests()) -> answers().
ask(Requests) ->
    Until = now_ms() + ?NODE_MS,
    Connected = nodes(connected),
    Sent = [{Node, sent(Node, Request, Connected)} || {Node, Request} <- Requests, Node =/= node()],
    Own = [{Node, {ok, apply(Module, Function, Args)}}
        || {Node, {Module, Function, Args}} <- Requests, Node =:= node()],
    Own ++ [{Node, answer(What, Until)} || {Node, What} <- Sent].

sent(Node, {Module, Function, Args}, Connected) ->
    case lists:member(Node, Connected) of
        true -> {asked, erpc:send_request(Node, Module, Function, Args)};
        false -> {error, <<"it is not connected">>}
    end.

answer({asked, Request}, Until) ->
    try
        {ok, erpc:receive_response(Request, max(0, Until - now_ms()))}
    catch
        error:{erpc, timeout} -> {error, <<"no answer in time">>};
        error:{erpc, noconnection} -> {error, <<"the connection is gone">>};
        error:{exception, undef, [{flame_prof_waits_part, _, _, _} | _]} ->
            {error, <<"it has no flame_prof, or another version">>};
        _:Reason -> {error, flame_prof_error:exit_text(Reason)}
    end;
answer({error, _} = Error, _Until) ->
    Error.

now_ms() -> erlang:monotonic_time(millisecond).

%% @doc Names of nodes that a command has as texts. Those that this node does not know make no atoms
%% here.
-spec known(map()) -> map() | {error, flame_prof:reason()}.
known(#{nodes := [_ | _] = Nodes} = Options) ->
    case [N || N <- Nodes, is_binary(N), existing(N) =:= error] of
        [] -> Options#{nodes := [element(2, existing(N)) || N <- Nodes]};
        [Name | _] -> {error, {badarg, #{argument => nodes, value => Name,
            accepted => <<"nodes that it is connected to">>}}}
    end;
known(Options) ->
    Options.

existing(Name) when is_binary(Name) ->
    try {ok, binary_to_existing_atom(Name)} catch error:_ -> error end;
existing(Name) ->
    {ok, Name}.
