%% @private The rows of the live table, out of the observations of an interval.
-module(flame_prof_top_rows).

-export([row/5, sorted/2]).

-export_type([row/0, seen/0]).

%% The latest first, each with its time in microseconds.
-type seen() :: [{AtUs :: integer(), flame_prof_top_reader:observation()}, ...].

%% Rates are of the interval. `running' and the other shares are percent of the
%% observations of the process; `frame' is the leaf that was seen most often while it was
%% not waiting, else while it was. A figure is `unknown' when the process has been observed
%% only once, or when the collector exchanged its heaps all the time.
-type row() ::
    #{
        pid := binary(),
        name := binary(),
        reductions := float() | unknown,
        running := float(),
        runnable := float(),
        waiting := float(),
        garbage_collecting := float(),
        queue := integer() | unknown,
        memory := integer() | unknown,
        growth := integer() | unknown,
        frame := binary(),
        observations := pos_integer()
    }.

%% @doc `Last': the latest observation of the interval before. `Score': what the column was
%% ranked by, with the interval of that. `Ticks': how often every scheduler was observed, 0
%% when none was: a process that was not seen on one was not running.
-spec row(
    pid(),
    seen(),
    Last :: seen() | [],
    Score :: {flame_prof_top_ranking:column(), integer(), IntervalUs :: pos_integer()} | none,
    Ticks :: non_neg_integer()
) -> row().
row(Pid, [{_, Latest} | _] = Seen, Last, Score, Ticks) ->
    Observations = [Observation || {_, Observation} <- Seen],
    Share = fun(Status) -> share(Status, Observations, 0) end,
    All = Seen ++ Last,
    #{
        pid => list_to_binary(pid_to_list(Pid)),
        name => maps:get(name, Latest),
        reductions => rate(All, Score),
        running => share(running, Observations, Ticks),
        runnable => Share(runnable),
        waiting => Share(waiting),
        garbage_collecting => Share(garbage_collecting),
        queue => latest(message_queue_len, All),
        memory => latest(memory, All),
        growth => growth(All, Score),
        frame => hottest(Observations),
        observations => length(Observations)
    }.

share(Status, Observations, Ticks) ->
    Count = length([S || #{status := S} <- Observations, S =:= Status]),
    100 * Count / max(Ticks, length(Observations)).

rate(_, {reductions, Growth, Us}) ->
    max(0, Growth) * 1.0e6 / Us;
rate([{_, #{reductions := New}} | [_ | _] = Seen] = [{At, _} | _], _) ->
    {Since, #{reductions := Old}} = lists:last(Seen),
    max(0, New - Old) * 1.0e6 / max(1, At - Since);
rate(_, _) ->
    unknown.

growth(_, {growth, Growth, _Us}) ->
    Growth;
growth(Seen, _) ->
    case known(memory, Seen) of
        [Latest, _ | _] = Known -> Latest - lists:last(Known);
        _ -> unknown
    end.

latest(Key, Seen) ->
    case known(Key, Seen) of
        [Latest | _] -> Latest;
        [] -> unknown
    end.

known(Key, Seen) ->
    [Value || {_, Observation} <- Seen, Value <- [maps:get(Key, Observation)], is_integer(Value)].

hottest(Observations) ->
    case [Frame || #{status := Status, frame := Frame} <- Observations, Status =/= waiting] of
        [] -> most([Frame || #{frame := Frame} <- Observations]);
        Frames -> most(Frames)
    end.

most(Frames) ->
    Count = fun(Frame, Counts) -> maps:update_with(Frame, fun(N) -> N + 1 end, 1, Counts) end,
    Counts = lists:foldl(Count, #{}, Frames),
    {_, Frame} = lists:max([{N, F} || {F, N} <- maps:to_list(Counts)]),
    Frame.

%% @doc The greatest first; names in their order. Unknown values come last.
-spec sorted(flame_prof_top_ranking:column(), [Row]) -> [Row] when Row :: map().
sorted(By, Rows) ->
    [Row || {_, Row} <- lists:sort([{key(By, Row), Row} || Row <- Rows])].

key(name, #{name := Name, pid := Pid}) -> {Name, Pid};
key(By, #{pid := Pid} = Row) ->
    case Row of
        #{By := unknown} -> {1, 0, 0, Pid};
        #{By := Value, reductions := Rate} -> {0, -Value, -number(Rate), Pid}
    end.

number(unknown) -> 0;
number(Number) -> Number.
