%% @private What the stacks of probes say of code addresses: which slot holds what. Pure.
-module(flame_prof_wait_claims).

-export([rows/1]).

-type frame() :: {Address :: integer(), mfa() | none, [flame_prof_looks_nif:view()]}.

%% @doc A slot that holds the truth in every probe at the address; the first of several.
-spec rows([{Truth :: term(), [frame()]}]) -> [flame_prof_wait_sites:row()].
rows(Findings) ->
    Claims = lists:append([claims(Truth, Frames) || {Truth, Frames} <- Findings]),
    Agreed = lists:foldl(
        fun({Address, Role, Slots}, Acc) ->
            maps:update_with(
                {Address, Role}, fun(Old) -> ordsets:intersection(Old, Slots) end, Slots, Acc
            )
        end,
        #{},
        Claims
    ),
    lists:sort([
        {Address, Role, hd(Slots)}
     || {{Address, Role}, [_ | _] = Slots} <- maps:to_list(Agreed)
    ]).

%% The claims of one probe about each of its frames. An empty list of slots: this is not the place,
%% whatever other probes say.
claims({caller, Ref, Request}, [{Address, Mfa, Slots} | Below]) ->
    Refs =
        case holding(fun(V) -> V =:= Ref end, Slots) of
            [] -> holding(fun(V) -> V =:= {list, {atom, alias}, Ref} end, Slots);
            Found -> Found
        end,
    foreign([{Address, Mfa, call, Refs}]) ++
        foreign([{A, M, request, equal(Request, S)} || {A, M, S} <- Below]);
claims({idle, _}, [{Address, _, _} | _]) ->
    [{Address, loop, [0]}];
claims({sleeper, _}, [{Address, _, _} | _]) ->
    [{Address, timer, [0]}];
claims({starter, Child}, [{Address, _, Slots} | _]) ->
    [{Address, start, equal(Child, Slots)}];
claims({port, Port}, [{Address, _, Slots} | _]) ->
    [{Address, port, equal({port, Port}, Slots)}];
claims({locker, Id}, [{Address, _, _} | Below]) ->
    IsId = fun
        ({tuple, 2, [{atom, A}, {pid, _}]}) -> A =:= Id;
        (_) -> false
    end,
    [{Address, timer, [0]}] ++ foreign([{A, M, lock, holding(IsId, S)} || {A, M, S} <- Below]);
claims({busy, Kind, Request, From}, Frames) ->
    lists:append([served(Kind, Request, From, F) || {_, M, _} = F <- Frames, is_foreign(M)]).

served(Kind, Request, From, {Address, Mfa, Slots}) ->
    Alone = equal(Request, Slots),
    Module = {Address, module, single(equal({atom, flame_prof_wait_probe}, Slots))},
    case module_of(Mfa) of
        gen_statem ->
            Event = {tuple, 2, [type(Kind, From), Request]},
            Queue = holding(
                fun
                    ({list, First, _}) -> First =:= Event;
                    (_) -> false
                end,
                Slots
            ),
            [{Address, queue, Queue}, Module];
        gen_event ->
            [{Address, event, Alone}, Module];
        Fork when Fork =:= gen_server; Fork =:= gen_server2; Fork =:= p1_server ->
            Whole = {Address, message, equal(envelope(Kind, Request), Slots)},
            [Module | in_work(Kind, Address, Alone, Whole, equal(From, Slots))];
        _ ->
            []
    end.

%% What is handed to handle_info/2 has no envelope.
in_work(call, Address, Alone, _, From) -> [{Address, serves, Alone}, {Address, from, From}];
in_work(cast, Address, Alone, Whole, _) -> [{Address, cast, Alone}, Whole];
in_work(info, Address, Alone, _, _) -> [{Address, cast, []}, {Address, message, Alone}].

envelope(cast, Request) -> {tuple, 2, [{atom, '$gen_cast'}, Request]};
envelope(_, Request) -> Request.

type(call, From) -> {tuple, 2, [{atom, call}, From]};
type(Kind, _) -> {atom, Kind}.

equal(View, Slots) ->
    holding(fun(V) -> V =:= View end, Slots).

single([Slot]) -> [Slot];
single(_) -> [].

%% Slots, from 0 on.
holding(Is, Slots) ->
    [N || {N, View} <- lists:zip(lists:seq(0, length(Slots) - 1), Slots), Is(View)].

%% The probes' own frames are no sites.
foreign(Claims) ->
    [{Address, Role, Slots} || {Address, Mfa, Role, Slots} <- Claims, is_foreign(Mfa)].

is_foreign(Mfa) ->
    not lists:member(module_of(Mfa), [flame_prof_wait_sites, flame_prof_wait_probe, none]).

module_of({Module, _, _}) -> Module;
module_of(none) -> none.
