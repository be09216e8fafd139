%% @private Where the portable engine's items go: into the library of its own node,
%% or to a remote writer (flame_prof_remote_writer) in another node, which has the library.
%%
%% Both are a function call to the engine, which returns whether the items were accepted. To a
%% remote writer each call is a message, and what comes back is its size:
%%
%% ```
%%   engine ----- {flame_prof_batch, Engine, Generation, Binary} -----> remote writer
%%   engine <---- {flame_prof_taken, Bytes, Generation} --------------- remote writer
%%   engine ----- {flame_prof_over, Engine, Items} -------------------> remote writer
%%   node   ----- {flame_prof_figures, Figures} ----------------------> remote writer
%% '''
%%
%% What bounds it in the engine's node, whatever becomes of the link or the remote writer:
%% no more than ?CREDIT_BYTES and one batch are on their way; and nothing is sent
%% that the connection has no room for, so that no process is suspended. Items that cannot be sent
%% are dropped, and counted in the next batch.
%%
%% A dropped batch may have had definitions, as one that found the ring full. Then
%% all is told anew, in a new generation; the remote writer takes nothing of the
%% one before, as it may mean what was lost.
-module(flame_prof_transport).

-export([library/1, far/1]).
-export([push/2, heard/2, close/1, figures/2]).
-export([opened/1, without_samples/1]).

-export_type([transport/0, message/0]).

%% Items that were not sent. Ticks: but for the last one, which the samples that follow may belong
%% to.
-record(missing, {
    ticks = 0 :: non_neg_integer(),
    missed = 0 :: non_neg_integer(),
    samples = 0 :: non_neg_integer(),
    exited = 0 :: non_neg_integer(),
    tick = none :: none | flame_prof_nif:item()
}).

-record(far, {
    writer :: pid(),
    generation = 1 :: pos_integer(),
    bytes = 0 :: integer(),
    missing = none :: none | #missing{}
}).

-opaque transport() :: {library, flame_prof_nif:session()} | #far{}.

-type message() ::
    {flame_prof_batch, Engine :: pid(), Generation :: pos_integer(), binary()}
    | {flame_prof_taken, Bytes :: non_neg_integer(), Generation :: pos_integer()}
    | {flame_prof_over, Engine :: pid(), [flame_prof_nif:item()]}
    | {flame_prof_figures, flame_prof_node:figures()}.

%% As much as the library's ring has (flame_prof_config).
-define(CREDIT_BYTES, 4194304).
%% For the last message of all.
-define(ATTEMPTS, 25).
-define(PAUSE_MS, 20).

-spec library(flame_prof_nif:session()) -> transport().
library(Session) ->
    {library, Session}.

-spec far(pid()) -> transport().
far(Writer) ->
    #far{writer = Writer}.

%% @doc By the engine. `refused': some items were dropped, so that all definitions must be sent
%% again. `closed': the session has ended.
-spec push([flame_prof_nif:item()], transport()) -> {taken | refused, transport()} | closed.
push(Items, {library, Session} = Transport) ->
    case flame_prof_nif:session_push(Session, Items) of
        {error, closed} -> closed;
        {_Taken, 0} -> {taken, Transport};
        {_Taken, _Dropped} -> {refused, Transport}
    end;
push(Items, #far{bytes = Bytes} = Far) when Bytes >= ?CREDIT_BYTES ->
    {refused, missed(Items, Far)};
push(Items, #far{writer = Writer, generation = Generation, bytes = Before} = Far) ->
    Batch = term_to_binary(told(Far) ++ Items),
    case send(Writer, {flame_prof_batch, self(), Generation, Batch}) of
        ok -> {taken, Far#far{bytes = Before + byte_size(Batch), missing = none}};
        nosuspend -> {refused, missed(Items, Far)};
        noconnect -> closed
    end.

send(Writer, Message) ->
    erlang:send(Writer, Message, [nosuspend, noconnect]).

%% @doc The remote writer's answer; as for push/2.
-spec heard(message(), transport()) -> {taken | refused, transport()}.
heard({flame_prof_taken, Bytes, Generation}, #far{generation = Own, bytes = Before} = Far) ->
    case Far#far{bytes = Before - Bytes} of
        Lighter when Generation > Own -> {refused, Lighter#far{generation = Generation}};
        Lighter -> {taken, Lighter}
    end.

%% @doc Once, when the engine ends. Waits half a second for a busy connection; no counter has the
%% items that are not sent then.
-spec close(transport()) -> ok.
close({library, _}) ->
    ok;
close(#far{} = Far) ->
    close(Far, ?ATTEMPTS).

close(#far{writer = Writer} = Far, Attempts) ->
    case send(Writer, {flame_prof_over, self(), told(Far)}) of
        nosuspend when Attempts > 1 ->
            timer:sleep(?PAUSE_MS),
            close(Far, Attempts - 1);
        _ ->
            ok
    end.

%% @doc By flame_prof_node: there are new ones soon, so that some may be lost.
-spec figures(flame_prof_node:figures(), transport()) -> ok | closed.
figures(Figures, {library, Session}) ->
    case flame_prof_nif:session_node_metrics(Session, Figures) of
        ok -> ok;
        {error, closed} -> closed
    end;
figures(Figures, #far{writer = Writer}) ->
    case send(Writer, {flame_prof_figures, Figures}) of
        noconnect -> closed;
        _ -> ok
    end.

%% @doc By the remote writer: what is in a batch. What sent it can run code here as it likes,
%% as all nodes of a cluster can; so an atom more is no harm.
-spec opened(binary()) -> {ok, [flame_prof_nif:item()]} | error.
opened(Batch) ->
    try binary_to_term(Batch) of
        Items when is_list(Items) -> {ok, Items};
        _ -> error
    catch
        error:badarg -> error
    end.

%% @doc What is left of items of which nothing can be used: what they count.
-spec without_samples([flame_prof_nif:item()]) -> [flame_prof_nif:item()].
without_samples(Items) ->
    items(lists:foldl(fun miss/2, #missing{}, Items)).

missed(Items, #far{missing = none} = Far) ->
    missed(Items, Far#far{missing = #missing{}});
missed(Items, #far{missing = Missing, generation = Generation} = Far) ->
    Far#far{missing = lists:foldl(fun miss/2, Missing, Items), generation = Generation + 1}.

miss({tick, _, _, _} = Tick, #missing{tick = none} = Missing) ->
    Missing#missing{tick = Tick};
miss({tick, _, _, _} = Tick, #missing{tick = {tick, More, _, _}, ticks = Ticks, missed = Missed} =
    Missing) ->
    Missing#missing{tick = Tick, ticks = Ticks + 1, missed = Missed + More};
miss({sample, _, _, _, _}, #missing{samples = Samples} = Missing) ->
    Missing#missing{samples = Samples + 1};
miss({exited, More}, #missing{exited = Exited} = Missing) ->
    Missing#missing{exited = Exited + More};
miss({lost, MoreTicks, MoreMissed, MoreSamples}, Missing) ->
    #missing{ticks = Ticks, missed = Missed, samples = Samples} = Missing,
    Missing#missing{
        ticks = Ticks + MoreTicks, missed = Missed + MoreMissed, samples = Samples + MoreSamples
    };
%% Definitions, and figures that the next batch has anew.
miss(_, Missing) ->
    Missing.

told(#far{missing = none}) -> [];
told(#far{missing = Missing}) -> items(Missing).

items(#missing{ticks = Ticks, missed = Missed, samples = Samples, exited = Exited, tick = Tick}) ->
    [{lost, Ticks, Missed, Samples}, {exited, Exited} | [Tick || Tick =/= none]].
