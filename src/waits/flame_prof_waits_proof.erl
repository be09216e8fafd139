%% @private Is a cycle a deadlock? Only with proof that nobody but the processes in it ends its
%% waits.
%%
%% A server may give the From of a call to another process, which then answers: the caller waits for
%% the server still, as far as its stack says. So each server has to have the request itself, in
%% work or in its queue. This is read between two looks that both have all the waits of the cycle:
%% in this time none of its processes did anything.
%%
%% The reading has a time limit. Edges that it did not reach are `late': a cycle of such edges is
%% neither proven nor refuted.
-module(flame_prof_waits_proof).

-export([is_deadlock/2, is_late/3, have_lasted/1, needed/3]).
%% As another node's look asks for it.
-export([prove/1]).

-export_type([edges/0, proof/0]).

-type edges() :: #{term() => true}.
%% By {@link flame_prof_waits_graph:identity/1}.

-type proof() :: #{proven := [term()], late := [term()]}.

%% Edges that are asked for in one look, and messages of a queue, from the oldest on; milliseconds
%% for each queue and for all.
-define(NEEDED_MOST, 1000).
-define(OLDEST, 100).
-define(QUEUE_MS, 100).
-define(ALL_MS, 3000).

%% @doc Each wait is of a kind that its target ends, was there in the look before, too, and is
%% proven. Pure, as are the next three.
-spec is_deadlock(flame_prof_waits_graph:cycle(), Proven :: edges()) -> boolean().
is_deadlock(#{is_certain := IsCertain, edges := Edges} = Cycle, Proven) ->
    IsCertain andalso have_lasted(Cycle) andalso
        lists:all(fun(Edge) -> is_proven(Edge, Proven) end, Edges).

%% @doc It would be a deadlock if its late edges were proven.
-spec is_late(flame_prof_waits_graph:cycle(), Proven :: edges(), Late :: edges()) -> boolean().
is_late(#{is_certain := IsCertain, edges := Edges} = Cycle, Proven, Late) ->
    Open = [Edge || Edge <- Edges, not is_proven(Edge, Proven)],
    IsCertain andalso have_lasted(Cycle) andalso Open =/= [] andalso
        lists:all(fun(Edge) -> is_map_key(flame_prof_waits_graph:identity(Edge), Late) end, Open).

-spec have_lasted(flame_prof_waits_graph:cycle()) -> boolean().
have_lasted(#{edges := Edges}) ->
    lists:all(fun(Edge) -> is_map_key(since_ms, Edge) end, Edges).

%% An ack with the child's pid ends a start, and only the child sends it.
is_proven(#{how := start}, _Proven) -> true;
is_proven(Edge, Proven) -> is_map_key(flame_prof_waits_graph:identity(Edge), Proven).

%% @doc The edges that prove/1 is to be asked for, those that were late before first, and those for
%% which this look has no time.
-spec needed([flame_prof_waits_graph:cycle()], Proven :: edges(), Late :: edges()) ->
    {[flame_prof_waits_graph:edge()], TooMany :: [flame_prof_waits_graph:edge()]}.
needed(Cycles, Proven, Late) ->
    Open = [Edge || #{is_certain := true, edges := Edges} <- Cycles,
        #{ref := {_, _, _}} = Edge <- Edges, not is_proven(Edge, Proven)],
    {First, Others} = lists:partition(
        fun(Edge) -> is_map_key(flame_prof_waits_graph:identity(Edge), Late) end, Open),
    All = First ++ Others,
    lists:split(min(?NEEDED_MOST, length(All)), All).

%% @doc Of these edges to processes of this node: those whose request the target has in work, or
%% in its queue, and those that there was no time for.
%%
%% A queue is read by sender and tag, without references. But the caller has sent nothing since this
%% request, as it waits, and a server takes messages in their order: where an older request of the
%% same caller is still in the queue, this one is so, too.
-spec prove([flame_prof_waits_graph:edge()]) -> proof().
prove(Edges) ->
    Until = flame_prof_clock:now_ms() + ?ALL_MS,
    Served =
        case flame_prof_waits_part:waits_served(lists:usort([To || #{to := To} <- Edges])) of
            {ok, All} -> maps:from_list([{{Pid, Ref}, true} || {Pid, _, _, Ref, _, _} <- All]);
            {error, _} -> #{}
        end,
    {InWork, Others} = lists:partition(
        fun(#{to := To, ref := Ref}) -> is_map_key({To, Ref}, Served) end, Edges),
    Proof = #{proven => identities(InWork), late => []},
    case flame_prof_looks:with(fun() -> queued(Others, Until, Proof) end) of
        #{} = More -> More;
        {error, _} -> Proof#{late := identities(Others)}
    end.

queued([], _Until, Proof) ->
    Proof;
queued([Edge | Edges], Until, #{proven := Proven} = Proof) ->
    case Until - flame_prof_clock:now_ms() of
        Left when Left =< 0 ->
            Proof#{late := identities([Edge | Edges])};
        Left ->
            Found = [Edge || is_queued(Edge, Left)],
            queued(Edges, Until, Proof#{proven := identities(Found) ++ Proven})
    end.

identities(Edges) -> [flame_prof_waits_graph:identity(Edge) || Edge <- Edges].

is_queued(#{from := From, to := To, how := call, tag := Tag}, Left) ->
    case flame_prof_mailbox:oldest(To, ?OLDEST, min(Left, ?QUEUE_MS)) of
        {ok, Oldest} ->
            [] =/= [Of || {Of, {Kind, Has}} <- Oldest, Of =:= From, Has =:= Tag,
                lists:member(Kind, [call, system, io])];
        {error, _} ->
            false
    end;
is_queued(_Edge, _Left) ->
    false.
