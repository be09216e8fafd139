%% @private `flame_prof xray': what a process of a node holds.
-module(flame_prof_cli_xray).

-export([do/1]).

%% What flame_prof_xray has for a limit that is not given.
-define(TIME_LIMIT_MS, 10000).

-spec do(flame_prof_cli_args:parsed()) -> ok | interrupted | flame_prof_cli_args:failure().
do(#{arguments := [Name, Process]} = Parsed) ->
    case flame_prof_remote:connect([Name], Parsed) of
        {ok, [Node]} ->
            Timeout = flame_prof_cli_nodes:timeout(Parsed),
            flame_prof_cli_attach:borrowing([Node], flame_prof_xray, refused, Timeout,
                fun() -> looked(Node, Process, Parsed) end);
        {error, _} = Error ->
            Error
    end.

%% The node knows whether it is a name; it makes no atom of another.
looked(Node, Process, Parsed) ->
    Budget = [{memory_budget, MB bsl 20} || #{max_memory := MB} <- [Parsed]],
    Options = maps:merge(maps:with([time_limit], Parsed), maps:from_list(Budget)),
    Args = [unicode:characters_to_binary(Process), Options],
    LookMs = maps:get(time_limit, Parsed, ?TIME_LIMIT_MS),
    case call(Node, flame_prof_xray, look, Args, LookMs, Parsed) of
        {ok, {ok, Xray}} -> told(Node, Xray, Parsed);
        %% A pid is written otherwise here.
        {ok, {error, {moved, Why}}} -> {error, {moved, Why#{target => hd(Args)}}};
        {ok, {error, _} = Error} -> Error;
        {error, _} = Error -> Error
    end.

%% There: a pid is that of the node.
told(Node, Xray, #{json := true} = Parsed) ->
    case call(Node, flame_prof_xray_text, json, [Xray], 0, Parsed) of
        {ok, Json} -> flame_prof_cli_out:put([flame_prof_json:encode(Json#{node => Node}), "\n"]);
        {error, _} = Error -> Error
    end;
told(Node, Xray, Parsed) ->
    case call(Node, flame_prof_xray, format, [Xray], 0, Parsed) of
        {ok, Text} ->
            Name = flame_prof_cli_out:bold(atom_to_list(Node)),
            flame_prof_cli_out:put([Name, "\n", Text]);
        {error, _} = Error ->
            Error
    end.

call(Node, Module, Function, Args, MoreMs, Parsed) ->
    Timeout = flame_prof_cli_nodes:timeout(Parsed) + MoreMs,
    flame_prof_remote:call(Node, Module, Function, Args, Timeout).
