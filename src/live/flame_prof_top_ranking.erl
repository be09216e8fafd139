%% @private The first N processes of a node by a column of the live table.
%%
%% A pass goes over all processes in steps, between which its caller lives on. If the column is a
%% metric and there is no filter, the library does it, in some 0.2 to 0.5 microseconds a process.
%% With a filter, by name, and with the portable engine, each process is read with its name: some 3
%% to 10 microseconds.
%%
%% What grows is ranked by its growth since the pass before: for 16 bytes a process in
%% the library, and some 100 here, of the processes that pass the filter.
-module(flame_prof_top_ranking).

-export([new/4, needs_two/1, begin_pass/1, step/1]).
-export([is_wanted/2]).

-export_type([ranking/0, column/0, selected/0]).

-type column() :: reductions | memory | growth | queue | running | name.

%% `scores': the growth in `interval_us', where the column is that of something that grows.
-type selected() ::
    #{
        pids := [pid()],
        scores := #{pid() => integer()},
        processes := non_neg_integer(),
        interval_us := pos_integer()
    }.

-record(ranking, {
    engine :: flame_prof_top_reader:engine(),
    by :: column(),
    filter :: binary(),
    top :: pos_integer(),
    selector :: reference() | none,
    begun_us = 0 :: integer(),
    interval_us = 1 :: pos_integer(),
    %% Of the pass in progress, where there is no selector.
    left = [] :: [pid()],
    processes = 0 :: non_neg_integer(),
    best = gb_sets:empty() :: gb_sets:set({term(), pid()}),
    before = #{} :: #{pid() => integer()},
    now = #{} :: #{pid() => integer()}
}).

-opaque ranking() :: #ranking{}.

%% Some 30 ms on a dirty scheduler.
-define(SLOTS, 65536).
-define(CHUNK, 500).
%% Of the portable engine, which reads on a normal scheduler: as flame_prof_selector.
-define(PAUSE_MS, 2).

-spec new(flame_prof_top_reader:engine(), column(), Filter :: binary(), pos_integer()) ->
    ranking().
new(Engine, By, Filter, Top) ->
    #ranking{
        engine = Engine,
        by = By,
        filter = Filter,
        top = Top,
        selector = selector(Engine, metric(By), Filter, Top)
    }.

metric(reductions) -> {reductions, true};
%% A running process consumes reductions, except in a long NIF.
metric(running) -> {reductions, true};
metric(memory) -> {memory, false};
metric(growth) -> {memory, true};
metric(queue) -> {message_queue_len, false};
metric(name) -> none.

selector(native, {Metric, IsDelta}, <<>>, Top) ->
    %% For all passes of the calling process.
    case flame_prof_looks:hold() =:= ok andalso
        flame_prof_looks_nif:selector_new(Metric, IsDelta, Top, 0) of
        {ok, Selector} -> Selector;
        _ -> none
    end;
selector(_, _, _, _) ->
    none.

%% @doc The first pass of these only says what they start from.
-spec needs_two(column()) -> boolean().
needs_two(By) -> By =:= reductions orelse By =:= growth orelse By =:= running.

-spec begin_pass(ranking()) -> ranking().
begin_pass(#ranking{begun_us = Before} = Ranking0) ->
    Now = flame_prof_clock:now_us(),
    Ranking = Ranking0#ranking{begun_us = Now, interval_us = max(1, Now - Before)},
    case Ranking of
        #ranking{selector = none} ->
            Ranking#ranking{left = processes(), processes = 0, best = gb_sets:empty(), now = #{}};
        _ ->
            Ranking
    end.

-spec step(ranking()) ->
    {more, PauseMs :: non_neg_integer(), ranking()} | {done, selected(), ranking()}.
step(#ranking{selector = none, left = Left} = Ranking) ->
    {Chunk, Rest} = lists:split(min(?CHUNK, length_up_to(?CHUNK, Left)), Left),
    walked(Rest, lists:foldl(fun rank/2, Ranking#ranking{left = Rest}, read(Chunk, Ranking)));
step(#ranking{selector = Selector} = Ranking) ->
    case flame_prof_looks_nif:selector_next(Selector, ?SLOTS) of
        more -> {more, 0, Ranking};
        {Processes, Scores} -> {done, selected(Processes, Scores, Ranking), Ranking}
    end.

%% The length of a long list takes long.
length_up_to(0, _) -> 0;
length_up_to(_, []) -> 0;
length_up_to(N, [_ | Rest]) -> 1 + length_up_to(N - 1, Rest).

read(Pids, #ranking{engine = Engine, by = By, filter = Filter}) ->
    flame_prof_top_reader:read(Engine, depth(By, Filter), Pids).

depth(By, Filter) when By =:= name; Filter =/= <<>> -> named;
depth(_, _) -> bare.

walked([], #ranking{processes = Processes, best = Best, now = Now} = Ranking) ->
    Scores = [{Pid, score(Key)} || {Key, Pid} <- gb_sets:to_list(Best)],
    {done, selected(Processes, Scores, Ranking), Ranking#ranking{before = Now, now = #{}}};
walked(_, #ranking{engine = portable} = Ranking) ->
    {more, ?PAUSE_MS, Ranking};
walked(_, Ranking) ->
    {more, 0, Ranking}.

selected(Processes, Scores, #ranking{by = By, interval_us = Us}) ->
    #{
        pids => [Pid || {Pid, _} <- Scores],
        scores => maps:from_list([S || By =:= reductions orelse By =:= growth, S <- Scores]),
        processes => Processes,
        interval_us => Us
    }.

rank({Pid, Observation}, #ranking{processes = Processes} = Ranking0) ->
    Ranking = Ranking0#ranking{processes = Processes + 1},
    case takes_part(Pid, Observation, Ranking) of
        true -> compared(Pid, Observation, Ranking);
        false -> Ranking
    end.

takes_part(_Pid, #{is_own := true}, _) -> false;
takes_part(Pid, Observation, #ranking{filter = Filter}) ->
    is_wanted(Filter, Observation#{pid => list_to_binary(pid_to_list(Pid))}).

%% @doc Has its name, its pid or its function this text?
-spec is_wanted(binary(), #{pid := binary(), name => binary(), frame => binary(), _ => _}) ->
    boolean().
is_wanted(<<>>, _) -> true;
is_wanted(Text, #{name := Name, frame := Frame, pid := Pid}) ->
    lists:any(fun(In) -> binary:match(In, Text) =/= nomatch end, [Name, Frame, Pid]).

%% The best have the least keys.
compared(Pid, Observation, #ranking{by = name} = Ranking) ->
    best(maps:get(name, Observation), Pid, Ranking);
compared(Pid, #{reductions := Reductions}, #ranking{by = reductions} = Ranking) ->
    grown(Pid, Reductions, fun(Growth) -> -Growth end, Ranking);
compared(Pid, #{reductions := Reductions, status := Status}, #ranking{by = running} = Ranking) ->
    grown(Pid, Reductions, fun(Growth) -> {off_cpu(Status), -Growth} end, Ranking);
compared(Pid, #{memory := Memory}, #ranking{by = growth} = Ranking) when is_integer(Memory) ->
    grown(Pid, Memory, fun(Growth) -> -Growth end, Ranking);
compared(Pid, #{memory := Memory}, #ranking{by = memory} = Ranking) when is_integer(Memory) ->
    best(-Memory, Pid, Ranking);
compared(Pid, #{message_queue_len := Length}, #ranking{by = queue} = Ranking)
    when is_integer(Length) ->
    best(-Length, Pid, Ranking);
%% A size is unknown at this moment: it is what it was.
compared(Pid, _Observation, #ranking{before = Before, now = Now} = Ranking) ->
    Ranking#ranking{now = maps:merge(maps:with([Pid], Before), Now)}.

off_cpu(Status) when Status =:= running; Status =:= garbage_collecting -> 0;
off_cpu(_) -> 1.

score(Key) when is_integer(Key) -> -Key;
score(_) -> 0.

grown(Pid, Value, Key, #ranking{before = Before, now = Now} = Ranking) ->
    best(Key(Value - maps:get(Pid, Before, 0)), Pid, Ranking#ranking{now = Now#{Pid => Value}}).

best(Key, Pid, #ranking{best = Best, top = Top} = Ranking) ->
    case gb_sets:size(Best) < Top of
        true -> Ranking#ranking{best = gb_sets:add({Key, Pid}, Best)};
        false -> Ranking#ranking{best = better({Key, Pid}, gb_sets:largest(Best), Best)}
    end.

better(One, Last, Best) when One < Last -> gb_sets:add(One, gb_sets:delete(Last, Best));
better(_, _, Best) -> Best.
