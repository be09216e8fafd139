%% @private Latency over time: how many calls took how long in each interval. Pure functions.
%%
%% It is made of the histograms of all calls so far, read at the end of each interval. Their
%% buckets become rows, four an octave. It has at most 240 columns: when these are full, two become
%% one, and its interval twice as long. So its memory is bounded, however long it is measured.
-module(flame_prof_latency_heatmap).

-export([new/2, add/3, of_function/2, json/1]).

-export_type([heatmap/0, data/0]).

-define(COLUMNS_MOST, 240).
%% Below 4 ns there are no quarters of an octave.
-define(FIRST_ROW, 7).
-define(LAST_OCTAVE, 40).

-type rows() :: #{Row :: pos_integer() => Calls :: pos_integer()}.

-opaque heatmap() :: #{
    look_ms := pos_integer(),
    looks_a_column := pos_integer(),
    before := [rows()],
    columns := #{non_neg_integer() => [rows()]},
    last := -1 | non_neg_integer()
}.

%% Each column has the calls of one interval that returned, in the order of the rows: LowNs =< time
%% < EndNs. The first one begins with the measurement. Rows reach from the shortest call to the
%% longest.
-type data() :: #{
    interval_ms := pos_integer(),
    rows := [{LowNs :: non_neg_integer(), EndNs :: pos_integer() | infinity}],
    columns := [[Calls :: non_neg_integer()]]
}.

-spec new(Functions :: pos_integer(), LookMs :: pos_integer()) -> heatmap().
new(Functions, LookMs) ->
    #{look_ms => LookMs, looks_a_column => 1, before => lists:duplicate(Functions, #{}),
        columns => #{}, last => -1}.

%% @doc At the end of look N, from 0, the buckets of all calls of each function. A look that was
%% missed has no calls: they are in the next one.
-spec add(non_neg_integer(), [[flame_prof_histogram:bucket()]], heatmap()) -> heatmap().
add(N, Histograms, #{looks_a_column := Of} = Heatmap) when N div Of >= ?COLUMNS_MOST ->
    #{columns := Columns, last := Last} = Heatmap,
    Halved = maps:fold(fun(At, Column, Sums) -> put(At div 2, Column, Sums) end, #{}, Columns),
    add(N, Histograms, Heatmap#{looks_a_column := 2 * Of, columns := Halved,
        last := floor(Last / 2)});
add(N, Histograms, Heatmap) ->
    #{looks_a_column := Of, columns := Columns, before := Before, last := Last} = Heatmap,
    Now = [rows(Histogram) || Histogram <- Histograms],
    Column = [since(Rows, Old) || {Rows, Old} <- lists:zip(Now, Before)],
    At = N div Of,
    Heatmap#{before := Now, last := max(Last, At), columns := put(At, Column, Columns)}.

put(At, Column, Columns) ->
    Plus = fun(Before) -> [plus(A, B) || {A, B} <- lists:zip(Before, Column)] end,
    maps:update_with(At, Plus, Column, Columns).

plus(A, B) ->
    maps:fold(fun(Row, N, Sums) -> maps:update_with(Row, fun(M) -> M + N end, N, Sums) end, A, B).

since(Rows, Old) ->
    maps:filter(fun(_, N) -> N > 0 end,
        maps:map(fun(Row, N) -> N - maps:get(Row, Old, 0) end, Rows)).

rows(Buckets) ->
    lists:foldl(
        fun({Low, _, N}, Rows) -> maps:update_with(row(Low), fun(M) -> M + N end, N, Rows) end,
        #{}, Buckets).

row(Low) when Low < 4 -> ?FIRST_ROW;
row(Low) ->
    Octave = trunc(math:log2(Low)),
    4 * Octave + (Low bsr (Octave - 2)) - 4.

bounds(?FIRST_ROW) -> {0, 4};
bounds(Row) when Row >= 4 * ?LAST_OCTAVE -> {1 bsl ?LAST_OCTAVE, infinity};
bounds(Row) ->
    Quarter = 1 bsl (Row div 4 - 2),
    Low = (4 + Row rem 4) * Quarter,
    {Low, Low + Quarter}.

%% @doc Of the function of this number, from 1.
-spec of_function(pos_integer(), heatmap()) -> data().
of_function(Number, #{columns := Columns, last := Last, looks_a_column := Of, look_ms := Ms}) ->
    Own = maps:map(fun(_, Column) -> lists:nth(Number, Column) end, Columns),
    Rows = case lists:append([maps:keys(Column) || Column <- maps:values(Own)]) of
        [] -> [];
        Used -> lists:seq(lists:min(Used), lists:max(Used))
    end,
    #{
        interval_ms => Of * Ms,
        rows => [bounds(Row) || Row <- Rows],
        columns => [
            begin
                Column = maps:get(At, Own, #{}),
                [maps:get(Row, Column, 0) || Row <- Rows]
            end
         || At <- lists:seq(0, Last)
        ]
    }.

%% @doc For flame_prof_json: a row is an array of two, the end of the last one may be null.
-spec json(data()) -> map().
json(#{rows := Rows} = Data) ->
    Data#{rows := [case Row of {Low, infinity} -> [Low, undefined]; {Low, End} -> [Low, End] end
        || Row <- Rows]}.
