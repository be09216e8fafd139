%% @private Another node with what a look needs there, for as long as a function runs.
-module(flame_prof_lending).

-export([with/3]).

-define(CALL_MS, 10000).

%% @doc Connects to the node, and lends it what it lacks: as {@link flame_prof_look:lent/1} has it.
-spec with(node(), {refused | bare, [module(), ...]}, fun(() -> Answer)) ->
    Answer | {error, flame_prof:reason()}.
with(Node, {Without, [Module | _] = Modules}, Fun) ->
    case net_kernel:connect_node(Node) of
        true ->
            case flame_prof_remote:lacks(Node, Module, ?CALL_MS) of
                {ok, false} -> Fun();
                {ok, true} -> lent(Node, Without, Modules, Fun);
                {error, _} = Error -> Error
            end;
        _ ->
            {error, {node, #{node => Node, reason => <<"this node cannot connect to it">>}}}
    end.

lent(Node, Without, Modules, Fun) ->
    case flame_prof_attach:open(Node, Without, {look, Modules}) of
        {ok, Agent} ->
            try Fun()
            after
                _ = flame_prof_attach:close(Agent)
            end;
        {error, _} = Error ->
            Error
    end.
