%% @private Is a cycle a deadlock? Only with proof that nobody but the processes in it ends its
%% waits.
%%
%% A server may give the From of a call to another process, which then answers: the caller waits for
%% the server still, as far as its stack says. So each server has to have the request itself, in
%% work or in its queue. This is read between two looks that both have all the waits of the cycle:
%% in this time none of its processes did anything.
-module(flame_prof_waits_proof).

-export([is_deadlock/2, have_lasted/1, needed/1]).
%% As another node's look asks for it.
-export([proven/1]).

-export_type([proven/0]).

-type proven() :: #{term() => true}.
%% By {@link flame_prof_waits_graph:identity/1}.

%% Edges that are asked for, and messages of a queue, from the oldest on; milliseconds for each
%% queue and for all.
-define(NEEDED_MOST, 1000).
-define(OLDEST, 100).
-define(QUEUE_MS, 100).
-define(ALL_MS, 3000).

%% @doc Each wait is of a kind that its target ends, was there in the look before, too, and is
%% proven. Pure, as are the next two.
-spec is_deadlock(flame_prof_waits_graph:cycle(), proven()) -> boolean().
is_deadlock(#{is_certain := IsCertain, edges := Edges} = Cycle, Proven) ->
    IsCertain andalso have_lasted(Cycle) andalso
        lists:all(fun(Edge) -> is_proven(Edge, Proven) end, Edges).

-spec have_lasted(flame_prof_waits_graph:cycle()) -> boolean().
have_lasted(#{edges := Edges}) ->
    lists:all(fun(Edge) -> is_map_key(since_ms, Edge) end, Edges).

%% What ends a start is an ack that has the child's pid, and only the child sends it.
is_proven(#{how := start}, _Proven) -> true;
is_proven(Edge, Proven) -> is_map_key(flame_prof_waits_graph:identity(Edge), Proven).

%% @doc The edges that proven/1 is to be asked for.
-spec needed([flame_prof_waits_graph:cycle()]) -> [flame_prof_waits_graph:edge()].
needed(Cycles) ->
    lists:sublist([Edge || #{is_certain := true, edges := Edges} <- Cycles,
        #{ref := {_, _, _}} = Edge <- Edges], ?NEEDED_MOST).

%% @doc Of these edges to processes of this node: those whose request the target has in work, or
%% in its queue.
%%
%% A queue is told by sender and tag, without references. But the caller has sent nothing since this
%% request, as it waits, and a server takes messages in their order: where an older request of
%% the same caller is still in the queue, this one is so, too.
-spec proven([flame_prof_waits_graph:edge()]) -> [term()].
proven(Edges) ->
    Until = now_ms() + ?ALL_MS,
    Pids = lists:usort([To || #{to := To} <- Edges]),
    Served =
        case flame_prof_waits_part:waits_served(Pids) of
            {ok, All} -> maps:from_list([{{Pid, Ref}, true} || {Pid, _, _, Ref, _, _} <- All]);
            {error, _} -> #{}
        end,
    [flame_prof_waits_graph:identity(Edge) || #{to := To, ref := Ref} = Edge <- Edges,
        is_map_key({To, Ref}, Served) orelse is_queued(Edge, Until - now_ms())].

is_queued(_Edge, Left) when Left =< 0 ->
    false;
is_queued(#{from := From, to := To, how := call, tag := Tag}, Left) ->
    Options = #{senders => 1, tags => 1, oldest => ?OLDEST, time_limit => min(Left, ?QUEUE_MS),
        engine => native},
    case flame_prof_mailbox:look(To, Options) of
        {ok, #{oldest := Oldest}} ->
            [] =/= [Of || {Of, {Kind, Has}} <- Oldest, Of =:= From, Has =:= Tag,
                lists:member(Kind, [call, system, io])];
        _ ->
            false
    end;
is_queued(_Edge, _Left) ->
    false.

now_ms() -> erlang:monotonic_time(millisecond).
