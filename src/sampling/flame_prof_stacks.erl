%% @private Stack traces to the small numbers that travel to the writer.
%%
%% A stack is sent once, as the ids of its frames, and a frame once, as text; later both are
%% numbers. The two tables are bounded by what the writer keeps. A full table is emptied and filled
%% anew: the meaning of a number is sent again before the number is used again, so no earlier state
%% is needed. That is simpler than evicting one by one and, at some thousand distinct stacks between
%% two emptyings, costs next to nothing.
-module(flame_prof_stacks).

-include("flame_prof_internal.hrl").

-export([new/0, new/2, intern/3]).
-export([module/1]).

-export_type([stacks/0, trace/0]).

-define(TRUNCATED, -1).

-record(stacks, {
    slots = #{} :: #{[integer()] => non_neg_integer()},
    frames = #{} :: #{frame() => non_neg_integer()},
    stacks_max :: pos_integer(),
    frames_max :: pos_integer()
}).

-opaque stacks() :: #stacks{}.

-type frame() :: {module(), atom(), arity(), Line :: non_neg_integer()}.
-type location() :: [{file, string()} | {line, pos_integer()} | {atom(), term()}].
-type trace() :: [{module(), atom(), arity(), location()} | truncated].

-spec new() -> stacks().
new() ->
    new(?FP_STACK_SLOTS, ?FP_FRAME_TEXT_MAX).

%% @doc With other bounds, for tests. A stack must not have more frames than
%% FramesMax.
-spec new(pos_integer(), pos_integer()) -> stacks().
new(StacksMax, FramesMax) ->
    #stacks{stacks_max = StacksMax, frames_max = FramesMax}.

%% @doc The slot of a trace, leaf first, as `current_stacktrace' gives it.
%% What the writer has to be told first is put before Items, which is in reverse
%% order like everything that is still growing.
-spec intern(trace(), [flame_prof_nif:item()], stacks()) ->
    {Slot :: non_neg_integer(), [flame_prof_nif:item()], stacks()}.
intern(Trace, Items0, Stacks0) ->
    case frame_ids(Trace, [], Items0, Stacks0) of
        {Ids, Items, Stacks} -> stack_slot(Ids, Items, Stacks);
        full -> intern(Trace, Items0, emptied(Stacks0))
    end.

frame_ids([], Ids, Items, Stacks) ->
    {lists:reverse(Ids), Items, Stacks};
frame_ids([truncated | Trace], Ids, Items, Stacks) ->
    frame_ids(Trace, [?TRUNCATED | Ids], Items, Stacks);
frame_ids([{Module, Function, Arity, Location} | Trace], Ids, Items, Stacks) ->
    #stacks{frames = Frames, frames_max = Max} = Stacks,
    %% Not the file: a function lies in one, and hashing its name for every
    %% frame of every sample would be most of the work.
    Frame = {Module, Function, Arity, line(Location)},
    case Frames of
        #{Frame := Id} ->
            frame_ids(Trace, [Id | Ids], Items, Stacks);
        _ when map_size(Frames) =:= Max ->
            full;
        _ ->
            Id = map_size(Frames),
            Item = frame_item(Id, Frame, Location),
            Grown = Stacks#stacks{frames = Frames#{Frame => Id}},
            frame_ids(Trace, [Id | Ids], [Item | Items], Grown)
    end.

stack_slot(Ids, Items, #stacks{slots = Slots, stacks_max = Max} = Stacks) ->
    case Slots of
        #{Ids := Slot} ->
            {Slot, Items, Stacks};
        _ when map_size(Slots) =:= Max ->
            {0, [{stack, 0, Ids} | Items], Stacks#stacks{slots = #{Ids => 0}}};
        _ ->
            Slot = map_size(Slots),
            {Slot, [{stack, Slot, Ids} | Items], Stacks#stacks{slots = Slots#{Ids => Slot}}}
    end.

%% Without frames no stack can be trusted: its ids are given to others now.
emptied(Stacks) ->
    Stacks#stacks{slots = #{}, frames = #{}}.

frame_item(Id, {Module, Function, Arity, Line}, Location) ->
    {frame, Id, module(Module), atom_to_binary(Function), Arity, Line, file(Location)}.

%% @doc A module as text. The writer takes an empty one for none, but Erlang has it.
-spec module(module()) -> binary().
module('') -> <<"''">>;
module(Module) -> atom_to_binary(Module).

line(Location) ->
    case lists:keyfind(line, 1, Location) of
        {line, Line} when is_integer(Line), Line > 0 -> Line;
        _ -> 0
    end.

%% Empty when not known; the writer then makes one up from the module.
file(Location) ->
    case lists:keyfind(file, 1, Location) of
        {file, File} -> file_name(File);
        false -> <<>>
    end.

file_name(File) ->
    try unicode:characters_to_binary(File) of
        Name when is_binary(Name), byte_size(Name) =< ?FP_FILE_BYTES_MAX -> Name;
        _ -> <<>>
    catch
        error:_ -> <<>>
    end.
