%% @private Options that several looks have, and their older names. One option has one name
%% everywhere; a look that has an option of its own adds a row for it.
-module(flame_prof_look_options).

-export([process/1, engine/0, max_memory/1, time_limit/2, infinite/1]).

%% @doc One process of the node that is looked at, or several.
-spec process(one | many) -> flame_prof_schema:row().
process(one) ->
    #{key => process, word => "PROCESS",
        type => {own, fun one/1, flame_prof_target:accepts()},
        doc => "a registered name, or a pid as <0.85.0>"};
process(many) ->
    Accepted = <<(flame_prof_target:accepts())/binary, ", or a list of these">>,
    #{key => process, word => "PROCESS", type => {own, fun flame_prof_target:parse/1, Accepted},
        doc => "registered names, or pids as <0.85.0>"}.

one(Target) ->
    case flame_prof_target:parse(Target) of
        {ok, [Parsed]} -> {ok, Parsed};
        _ -> error
    end.

-spec engine() -> flame_prof_schema:row().
engine() ->
    #{key => engine, type => {one_of, [auto, native, portable]}, default => auto,
        doc => "native, portable, or what the node can do"}.

%% @doc Bytes that a look takes in the node at most.
-spec max_memory(pos_integer()) -> flame_prof_schema:row().
max_memory(Default) ->
    #{key => max_memory, alias => memory_budget,
        type => {whole, bytes, 16 bsl 20, 1 bsl 40}, default => Default,
        doc => "that the look takes in the node"}.

-spec time_limit(Default :: pos_integer(), Most :: pos_integer()) -> flame_prof_schema:row().
time_limit(Default, Most) ->
    #{key => time_limit, type => {whole, ms, 1, Most}, default => Default,
        doc => "of the reading"}.

%% @doc The same row, which also takes `infinity'.
-spec infinite(flame_prof_schema:row()) -> flame_prof_schema:row().
infinite(#{type := Type} = Row) ->
    Row#{type := {either, [{infinity, infinity}], Type}}.
