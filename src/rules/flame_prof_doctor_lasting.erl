%% @private Do waits last, or has a look met a moment? Rules ask it of the last look, and of those
%% before it that have what the last one has not.
-module(flame_prof_doctor_lasting).

-export([in_each/2, looks/2, lasting/3, have_waited/3, has_lasted/1, is_waited_for/3,
    waited_for/2, longest/2]).

-type evidence() :: flame_prof_doctor_rule:evidence().
-type look() :: flame_prof_waits:look().

%% Waiters that stay as long have not met a moment.
-define(LONG_MS, 500).
%% Waits that are over: a server that is busy for a moment is nothing.
-define(OVER_MS, 2500).
-define(PARTS_SHARE, 0.8).

%% @doc What a rule finds in the last look, and what it finds in earlier ones alone: `past', with
%% the look in place of the last one. Of a process that several have the one with the larger size.
-spec in_each(fun((now | past, evidence()) -> [flame_prof_doctor_rule:finding()]), evidence()) ->
    [flame_prof_doctor_rule:finding()].
in_each(Find, #{waits := Look} = Evidence) ->
    Were = [F || Earlier <- maps:get(earlier, Look, []),
        F <- Find(past, Evidence#{waits := Earlier})],
    Found = Find(now, Evidence) ++ lists:reverse(lists:sort(fun is_smaller/2, Were)),
    lists:uniq(fun(#{processes := [#{pid := Pid} | _]}) -> Pid end, Found).

is_smaller(#{size := A}, #{size := B}) -> A =< B.

%% @doc As the words behind `Seen in '.
-spec looks(now | past, pos_integer()) -> unicode:chardata().
looks(now, Looks) -> flame_prof_doctor_rule:count(Looks, "look");
looks(past, _) -> "earlier looks".

%% @doc Do as many wait for it all the time? Its queue says so in nearly all parts of the time, or
%% those who wait have waited for long, or the samples of them.
-spec lasting(pid(), pos_integer(), evidence()) -> boolean().
lasting(Pid, Least, #{waits := Look} = Evidence) ->
    waiting(Pid, ?LONG_MS, Look) >= Least orelse
        has_queue(flame_prof_doctor_waits:sampled(Pid, Evidence), Least) orelse
        waited_for(flame_prof_doctor_waits:text(Pid), Evidence) >= Least.

%% @doc The same by samples alone: at the last look there may be none.
-spec is_waited_for(flame_prof_doctor_samples:process(), pos_integer(), evidence()) -> boolean().
is_waited_for(#{pid := Text} = Process, Least, Evidence) ->
    has_queue(Process, Least) orelse waited_for(Text, Evidence) >= Least.

%% @doc Had as many waited for it for long, in a look before the last one?
-spec have_waited(pid(), pos_integer(), look()) -> boolean().
have_waited(Pid, Least, Look) -> waiting(Pid, ?OVER_MS, Look) >= Least.

%% @doc Of a wait that is over.
-spec has_lasted(flame_prof_waits_graph:edge()) -> boolean().
has_lasted(Edge) -> maps:get(since_ms, Edge, 0) >= ?OVER_MS.

waiting(Pid, LeastMs, #{edges := Edges}) ->
    length([1 || #{to := To, since_ms := Ms} <- Edges, To =:= Pid, Ms >= LeastMs]).

has_queue(#{queue := [_, _, _ | _] = Queue}, Least) ->
    Parts = [Min || {_, Min, _, _} <- Queue],
    length([Min || Min <- Parts, Min >= (Least + 1) div 2]) >= ?PARTS_SHARE * length(Parts);
has_queue(_, _) ->
    false.

%% @doc How many sampled processes wait for the one with this pid at a time.
-spec waited_for(binary(), evidence()) -> number().
waited_for(Text, #{samples := #{processes := Processes}}) ->
    lists:sum([N / max(1, All) || #{waits_for := Of, observations := All} <- Processes,
        {To, N} <- Of, To =:= Text]);
waited_for(_, _) ->
    0.

%% @doc Milliseconds for which one of those who wait for it has waited at least; 0: not known.
-spec longest(pid(), look()) -> non_neg_integer().
longest(Pid, #{edges := Edges}) ->
    lists:max([0 | [Ms || #{to := To, since_ms := Ms} <- Edges, To =:= Pid]]).
