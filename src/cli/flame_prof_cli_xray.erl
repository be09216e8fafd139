%% @private `flame_prof xray': what a process of a node holds; `flame_prof binaries': who holds the
%% refc binaries of a node.
-module(flame_prof_cli_xray).

-export([do/1]).

%% What flame_prof_xray and flame_prof_binaries have for a limit that is not given.
-define(TIME_LIMIT_MS, 10000).

%% Of flame_prof_binaries: for the heaps of the largest holders.
-define(WALK_MS, 5000).

-spec do(flame_prof_cli_args:parsed()) -> ok | interrupted | flame_prof_cli_args:failure().
do(#{arguments := [Name | Process]} = Parsed) ->
    case flame_prof_remote:connect([Name], Parsed) of
        {ok, [Node]} ->
            Timeout = flame_prof_cli_nodes:timeout(Parsed),
            Module = case Process of [] -> flame_prof_binaries; [_] -> flame_prof_xray end,
            flame_prof_cli_attach:borrowing([Node], Module, refused, Timeout,
                fun() -> looked(Node, Process, Parsed) end);
        {error, _} = Error ->
            Error
    end.

%% The node knows whether it is a name; it makes no atom of another.
looked(Node, [Process], Parsed) ->
    Args = [unicode:characters_to_binary(Process), options(Parsed)],
    LookMs = maps:get(time_limit, Parsed, ?TIME_LIMIT_MS),
    case call(Node, flame_prof_xray, look, Args, LookMs, Parsed) of
        {ok, {ok, Xray}} -> told(Node, flame_prof_xray_text, Xray, Parsed);
        %% A pid is written otherwise here.
        {ok, {error, {moved, Why}}} -> {error, {moved, Why#{target => hd(Args)}}};
        {ok, {error, _} = Error} -> Error;
        {error, _} = Error -> Error
    end;
looked(Node, [], Parsed) ->
    LookMs = 2 * maps:get(time_limit, Parsed, ?TIME_LIMIT_MS) + maps:get(for, Parsed, 0) + ?WALK_MS,
    case call(Node, flame_prof_binaries, look, [options(Parsed)], LookMs, Parsed) of
        {ok, {ok, Look}} -> told(Node, flame_prof_binaries_text, Look, Parsed);
        {ok, {error, _} = Error} -> Error;
        {error, _} = Error -> Error
    end.

options(Parsed) ->
    Budget = [{memory_budget, MB bsl 20} || #{max_memory := MB} <- [Parsed]],
    maps:merge(maps:with([time_limit, for], Parsed), maps:from_list(Budget)).

%% There: a pid is that of the node.
told(Node, Module, Look, #{json := true} = Parsed) ->
    case call(Node, Module, json, [Look], 0, Parsed) of
        {ok, Json} -> flame_prof_cli_out:put([flame_prof_json:encode(Json#{node => Node}), "\n"]);
        {error, _} = Error -> Error
    end;
told(Node, Module, Look, Parsed) ->
    case call(Node, Module, format, [Look], 0, Parsed) of
        {ok, Text} ->
            Name = flame_prof_cli_out:bold(atom_to_list(Node)),
            flame_prof_cli_out:put([Name, "\n", Text]);
        {error, _} = Error ->
            Error
    end.

call(Node, Module, Function, Args, MoreMs, Parsed) ->
    Timeout = flame_prof_cli_nodes:timeout(Parsed) + MoreMs,
    flame_prof_remote:call(Node, Module, Function, Args, Timeout).
