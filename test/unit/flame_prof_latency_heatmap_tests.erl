%% The heatmap of latency: rows, columns, and what becomes of columns that are too many.
-module(flame_prof_latency_heatmap_tests).

-include_lib("eunit/include/eunit.hrl").

a_column_has_what_came_since_the_one_before_test() ->
    Data = data([[{64, 65, 3}], [{64, 65, 5}, {100, 101, 1}], [{64, 65, 5}, {100, 101, 1}]]),
    ?assertEqual(#{interval_ms => 500, rows => [{64, 80}, {80, 96}, {96, 112}],
        columns => [[3, 0, 0], [2, 0, 1], [0, 0, 0]]}, Data).

no_call_has_no_rows_test() ->
    ?assertEqual(#{interval_ms => 500, rows => [], columns => [[], []]}, data([[], []])).

a_missed_look_is_an_empty_column_test() ->
    Heatmap = flame_prof_latency_heatmap:add(2, [[{64, 65, 3}]],
        flame_prof_latency_heatmap:new(1, 500)),
    ?assertMatch(#{columns := [[0], [0], [3]]}, flame_prof_latency_heatmap:of_function(1, Heatmap)).

%% Every time is in the row whose bounds are around it; rows meet, from 0 on.
rows_cover_all_times_test() ->
    Lows = [0, 1, 3, 4, 5, 63, 64, 127, 128, 1000, 1 bsl 20, (1 bsl 40) - (1 bsl 33)],
    Buckets = [{Low, Low + 1, 1} || Low <- Lows] ++ [{1 bsl 40, infinity, 1}],
    #{rows := Rows, columns := [Counts]} = data([Buckets]),
    [?assertEqual(length([Low || {Low, _, _} <- Buckets, Low >= From, Low < To]), N)
     || {{From, To}, N} <- lists:zip(Rows, Counts)],
    ?assertEqual(0, element(1, hd(Rows))),
    ?assertEqual(infinity, element(2, lists:last(Rows))),
    ?assertEqual(tl([From || {From, _} <- Rows]), lists:droplast([To || {_, To} <- Rows])).

many_columns_become_half_as_many_test() ->
    #{interval_ms := Ms, columns := Columns} = data([[{64, 65, N}] || N <- lists:seq(1, 1000)]),
    ?assertEqual(4000, Ms),
    ?assertEqual([[8]], lists:usort(Columns)),
    ?assertEqual(125, length(Columns)).

data(Histograms) ->
    {_, Heatmap} = lists:foldl(fun(Histogram, {N, Map}) ->
        {N + 1, flame_prof_latency_heatmap:add(N, [Histogram], Map)}
    end, {0, flame_prof_latency_heatmap:new(1, 500)}, Histograms),
    flame_prof_latency_heatmap:of_function(1, Heatmap).
