%% @private What earlier looks of a series have seen and the last one has not: deadlocks that have
%% ended, and processes that many others waited for.
%%
%% Pids alone say nothing of a process that has exited since: names and stacks are read in the look
%% that has seen it.
-module(flame_prof_waits_past).

-export([new/0, add_rings/3, ended/1, add_look/3, earlier/2]).

-export_type([past/0, ended/0]).

-type identity() :: term().
%% Of {@link flame_prof_waits_graph:identity/1}.

-type ended() ::
    #{
        edges := [flame_prof_waits_graph:edge(), ...],
        all := non_neg_integer(),
        exited := [pid()],
        processes := #{pid() => flame_prof_waits:told()}
    }.
%% `edges' of the last look that has seen all of them, with `since_ms'; `all': the processes that
%% waited for it then. `exited': those of it that the look behind did not find.

-type key() :: {waiting, pid()} | {chain, flame_prof_waits_graph:vertex()} | {lock, term()}.

-record(past, {
    rings = #{} :: #{[identity()] => ended() | #{gone := boolean(), _ => _}},
    looks = #{} :: #{key() => {Count :: pos_integer(), flame_prof_waits:look()}}
}).

-opaque past() :: #past{}.

%% Milliseconds: a wait that is shorter may be a server's moment.
-define(LASTED_MS, 2500).
%% As many waits of one kind are worth a look of their own.
-define(WAITING, 8).
-define(CHAIN, 3).
-define(CHAIN_MOST, 100).
%% A look of its own again, if there are so many times more.
-define(MORE, 1.5).
-define(LOOKS_MOST, 6).

-spec new() -> past().
new() -> #past{}.

%% @doc The deadlocks of one look more. `Tell' answers what processes do, as far as they live.
-spec add_rings([flame_prof_waits:deadlock()], fun(([pid()]) -> #{pid() => map()}), past()) ->
    past().
add_rings([], _Tell, #past{rings = Rings} = Past) when map_size(Rings) =:= 0 ->
    Past;
add_rings(Held, Tell, #past{rings = Rings} = Past) ->
    Now = maps:from_list([{key(Edges), Ring} || #{edges := Edges} = Ring <- Held]),
    Before = maps:without(maps:keys(Now), Rings),
    %% All at once: a question costs some 20 ms, however few processes it is about.
    Asked = lists:append(
        [members(Edges) || #{edges := Edges} <- maps:values(maps:without(maps:keys(Rings), Now))] ++
            [members(Edges) || #{edges := Edges, gone := false} <- maps:values(Before)]),
    Told = case Asked of [] -> #{}; _ -> Tell(Asked) end,
    Stand = maps:map(fun(Key, Ring) -> standing(Ring, maps:get(Key, Rings, none), Told) end, Now),
    Others = maps:map(fun(_, Ring) -> gone(Ring, Told) end, Before),
    Past#past{rings = maps:merge(Others, Stand)}.

key(Edges) -> lists:sort([flame_prof_waits_graph:identity(Edge) || Edge <- Edges]).

standing(#{edges := Edges, all := All}, none, Told) ->
    #{edges => Edges, all => All, gone => false, processes => maps:with(members(Edges), Told)};
standing(#{edges := Edges, all := All}, Known, _Told) ->
    (maps:remove(exited, Known))#{edges := Edges, all := max(All, maps:get(all, Known)),
        gone := false}.

gone(#{gone := true} = Ring, _Told) ->
    Ring;
gone(#{edges := Edges} = Ring, Told) ->
    Ring#{gone := true, exited => [Pid || Pid <- members(Edges), not is_map_key(Pid, Told)]}.

members(Edges) -> [From || #{from := From} <- Edges].

%% @doc Those that the last look has not.
-spec ended(past()) -> [ended()].
ended(#past{rings = Rings}) ->
    [maps:remove(gone, Ring) || #{gone := true} = Ring <- maps:values(Rings)].

%% @doc Adds a look that is not the last one, if it is worth keeping: `Look' makes all of it.
-spec add_look([flame_prof_waits_graph:edge()], fun(() -> flame_prof_waits:look()), past()) ->
    past().
add_look(Edges, Look, #past{looks = Looks} = Past) ->
    More = maps:filter(fun(Key, Count) -> is_more(Count, Looks, Key) end, lasting(Edges)),
    case map_size(More) > 0 andalso length(kept(Looks)) < ?LOOKS_MOST of
        true ->
            Made = reduced(Look()),
            Past#past{looks = maps:merge(Looks, maps:map(fun(_, N) -> {N, Made} end, More))};
        false ->
            Past
    end.

is_more(Count, Looks, Key) ->
    case Looks of
        #{Key := {Known, _}} -> Count > ?MORE * Known;
        #{} -> true
    end.

kept(Looks) -> lists:usort([Look || {_, Look} <- maps:values(Looks)]).

%% Processes outside of its trees are not read.
reduced(#{edges := Edges, processes := Processes} = Look) ->
    Look#{edges := [Edge || #{to := To, how := How} = Edge <- Edges,
        is_map_key(To, Processes) orelse How =:= lock]}.

%% @doc The looks that have what the last one, with these edges, has not.
-spec earlier([flame_prof_waits_graph:edge()], past()) -> [flame_prof_waits:look()].
earlier(_Edges, #past{looks = Looks}) when map_size(Looks) =:= 0 -> [];
earlier(Edges, #past{looks = Looks}) -> kept(maps:without(maps:keys(lasting(Edges)), Looks)).

%% Processes that many have waited for, each for long; ends of chains of calls that have lasted; and
%% global locks, whose waits do not tell how long they last.
-spec lasting([flame_prof_waits_graph:edge()]) -> #{key() => pos_integer()}.
lasting(Edges) ->
    Long = [Edge || #{since_ms := Ms} = Edge <- Edges, Ms >= ?LASTED_MS],
    maps:merge(
        most([{waiting, To} || #{to := To} <- Long, is_pid(To)] ++
            [{lock, Tag} || #{how := lock, tag := Tag} <- Edges]),
        count(chains(maps:from_list([{From, To} || #{from := From, to := To} <- Long])))).

most(Keys) -> maps:filter(fun(_, Count) -> Count >= ?WAITING end, count(Keys)).

count(Keys) ->
    lists:foldl(fun(Key, Map) -> maps:update_with(Key, fun(N) -> N + 1 end, 1, Map) end, #{}, Keys).

chains(Waits) ->
    [{chain, End} || From <- maps:keys(Waits), {Calls, End} <- [chain(From, Waits, 0)],
        Calls >= ?CHAIN, Calls < ?CHAIN_MOST].

chain(Process, Waits, Calls) when Calls < ?CHAIN_MOST, is_map_key(Process, Waits) ->
    chain(maps:get(Process, Waits), Waits, Calls + 1);
chain(Process, _Waits, Calls) ->
    {Calls, Process}.
