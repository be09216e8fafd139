%% Looks at where the memory is, beside all other storms: the allocators and the resident memory,
%% tables, binaries by holder, what a process holds. Of what the worker itself holds each look has
%% to tell what it is; of the rest that there is an answer, or a reason. See storm.
-module(storm_looks).

-export([kinds/0, open/1, step/3, close/2]).
-export([hold/1]).

-define(OBJECTS, 1000).
-define(BINARIES, 50).
-define(BINARY_BYTES, 100000).
-define(WORDS, 20000).

kinds() -> [memory_look, table_look, binary_look, xray_look].

open(table_look) ->
    Table = ets:new(?MODULE, [public, {write_concurrency, true}]),
    true = ets:insert(Table, [{N, N} || N <- lists:seq(1, ?OBJECTS)]),
    Table;
open(memory_look) -> none;
open(_) ->
    {Pid, Monitor} = spawn_monitor(?MODULE, hold, [self()]),
    receive {ready, Pid} -> {Pid, Monitor} end.

close(table_look, Table) ->
    true = ets:delete(Table),
    ok;
close(memory_look, none) -> ok;
close(_, {Pid, Monitor}) ->
    true = exit(Pid, kill),
    receive {'DOWN', Monitor, process, Pid, killed} -> ok end.

%% It waits, and has collected what it made.
hold(Parent) ->
    Held = {lists:seq(1, ?WORDS), [binary:copy(<<N>>, ?BINARY_BYTES)
        || N <- lists:seq(1, ?BINARIES)]},
    erlang:garbage_collect(),
    Parent ! {ready, self()},
    wait(Held).

wait(Held) ->
    receive stop -> Held end.

step(memory_look, N, none) ->
    {ok, #{engine := Engine, process := #{rss := Rss}} = Look} =
        flame_prof_memory:look(#{explain => N rem 10 =:= 0}),
    true = Rss > 0,
    Allocators = maps:get(allocators, Look, []),
    true = Engine =:= portable orelse Allocators =/= [],
    %% Counters at work are one allocation apart.
    true = lists:all(fun(#{carriers_bytes := Carriers}) -> Carriers >= 0 end, Allocators),
    none;
step(table_look, _, Table) ->
    %% A node that storms may be calibrated by a later look only: this one was portable then, and
    %% has a part of many tables.
    {ok, #{engine := Engine, tables := Tables}} = flame_prof_tables:look(#{top => infinity}),
    Self = self(),
    case [Told || #{id := Id} = Told <- Tables, Id =:= Table] of
        [#{objects := ?OBJECTS, owner := Self, name := ?MODULE}] -> Table;
        [] when Engine =:= portable -> Table
    end;
step(binary_look, _, {Pid, _} = Held) ->
    case flame_prof_binaries:look(#{walked => 1, time_limit => 20000}) of
        {ok, #{holders := Holders}} ->
            %% It is among the first, unless a storm has made many larger holders.
            _ = [true = Bytes >= ?BINARIES * ?BINARY_BYTES
                || #{process := P, bytes := Bytes, partial := false} <- Holders, P =:= Pid];
        {error, {memory, _}} -> ok
    end,
    Held;
step(xray_look, _, {Pid, _} = Held) ->
    case flame_prof_xray:look(Pid, #{time_limit => 60000}) of
        {ok, #{reached := Reached, binaries := #{count := Count, bytes := Bytes}}} ->
            {?BINARIES, ?BINARIES * ?BINARY_BYTES} = {Count, Bytes},
            true = Reached >= 16 * ?WORDS;
        %% A storm has suspended one of its probes.
        {error, {engine, #{cause := terms}}} -> ok
    end,
    Processes = processes(),
    Other = lists:nth(rand:uniform(length(Processes)), Processes),
    %% It runs, has gone, or is too large: each has a reason.
    case flame_prof_xray:look(Other, #{time_limit => 200}) of
        {ok, #{memory := Memory}} -> true = Memory > 0;
        {error, {_, #{}} = Reason} -> true = is_list(unicode:characters_to_list(
            flame_prof:format_error(Reason)))
    end,
    Held.
