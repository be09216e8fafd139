%% What a histogram says of durations is what the sorted list of them says. Buckets are made here
%% by the words of c_src/base/histogram.h, and test_histogram.c proves those.
-module(flame_prof_histogram_tests).

-include_lib("eunit/include/eunit.hrl").

quantiles_are_those_of_the_sorted_list_test() ->
    _ = rand:seed(exsss, {1, 2, 3}),
    [begin
        Sorted = lists:sort(durations(N)),
        Histogram = histogram(Sorted),
        [?assert(is_near(true_quantile(Q, Sorted), flame_prof_histogram:quantile(Q, Histogram)))
            || Q <- [0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0]],
        #{max_ns := Max, p50_ns := P50} = flame_prof_histogram:quantiles(Histogram),
        ?assertEqual(lists:last(Sorted), Max),
        ?assert(is_near(true_quantile(0.5, Sorted), P50))
    end || N <- [1, 2, 3, 10, 99, 1000, 20000]].

no_durations_have_no_quantiles_test() ->
    ?assertEqual(#{}, flame_prof_histogram:quantiles(flame_prof_histogram:merge([]))).

the_longest_stands_for_what_is_too_long_for_a_bucket_test() ->
    Histogram = flame_prof_histogram:new(
        [{1 bsl 40, infinity, 3}, {100, 101, 1}], 6000000000100, 3000000000000),
    ?assertEqual(3000000000000, flame_prof_histogram:quantile(0.5, Histogram)),
    ?assertEqual(100, flame_prof_histogram:quantile(0.25, Histogram)).

merged_ones_are_the_one_of_all_test() ->
    _ = rand:seed(exsss, {4, 5, 6}),
    Parts = [durations(N) || N <- [0, 1, 500, 3000]],
    ?assertEqual(histogram(lists:append(Parts)),
        flame_prof_histogram:merge([histogram(Part) || Part <- Parts])).

json_has_buckets_as_arrays_test() ->
    Json = flame_prof_json:encode(
        flame_prof_histogram:json([{100, 101, 2}, {1 bsl 40, infinity, 1}])),
    ?assertEqual(<<"[[100,101,2],[1099511627776,null,1]]">>, iolist_to_binary(Json)).

%% Each line of a bucket, by the list of durations.
prometheus_counts_what_is_not_above_test() ->
    _ = rand:seed(exsss, {7, 8, 9}),
    Durations = [64, 63, 96, 95, 128, 127, 1 bsl 40 | durations(5000)],
    Lines = lines([{[{function, <<"a\"b:c/1">>}], histogram(Durations)}]),
    Buckets = [parsed(Line) || <<"t_seconds_bucket{function=\"a\\\"b:c/1\",le=", _/binary>> = Line
        <- Lines],
    ?assert(length(Buckets) > 50),
    [?assertEqual(length([D || D <- Durations, Le =:= infinity orelse D =< Le]), Count)
        || {Le, Count} <- Buckets],
    ?assertEqual(infinity, element(1, lists:last(Buckets))),
    Count = integer_to_binary(length(Durations)),
    ?assert(lists:member(<<"t_seconds_count{function=\"a\\\"b:c/1\"} ", Count/binary>>, Lines)).

prometheus_sums_in_seconds_test() ->
    Lines = lines([{[], flame_prof_histogram:new([{100, 101, 2}], 12000000345, 100)}]),
    ?assertEqual([<<"# HELP t_seconds How long.">>, <<"# TYPE t_seconds histogram">>],
        lists:sublist(Lines, 2)),
    ?assert(lists:member(<<"t_seconds_sum 12.000000345">>, Lines)).

lines(Histograms) ->
    Text = flame_prof_histogram:prometheus("t_seconds", "How long.", Histograms),
    binary:split(iolist_to_binary(Text), <<"\n">>, [global, trim]).

parsed(Line) ->
    {match, [Le, Count]} = re:run(Line, "le=\"([^\"]*)\"} ([0-9]+)$",
        [{capture, all_but_first, binary}]),
    {le(Le), binary_to_integer(Count)}.

le(<<"+Inf">>) -> infinity;
le(Seconds) ->
    [Whole, <<Part:9/binary>>] = binary:split(Seconds, <<".">>),
    binary_to_integer(Whole) * 1000000000 + binary_to_integer(Part).

%% As many of each order of magnitude, below 2^40 ns.
durations(N) ->
    [begin
        Low = 1 bsl (rand:uniform(40) - 1),
        Low + rand:uniform(Low) - 1
    end || _ <- lists:seq(1, N)].

histogram(Durations) ->
    Counts = lists:foldl(
        fun(D, Acc) -> maps:update_with(bounds(D), fun(N) -> N + 1 end, 1, Acc) end,
        #{}, Durations),
    flame_prof_histogram:new([{Low, End, N} || {{Low, End}, N} <- maps:to_list(Counts)],
        lists:sum(Durations), lists:max([0 | Durations])).

%% By halving: no logarithm and no shift, as the product has.
bounds(D) when D >= 1099511627776 -> {1099511627776, infinity};
bounds(D) -> bounds(D, D, 1).

bounds(D, Top, Width) when Top < 128 -> {D - D rem Width, D - D rem Width + Width};
bounds(D, Top, Width) -> bounds(D, Top div 2, Width * 2).

true_quantile(Q, Sorted) ->
    Count = length(Sorted),
    hd([D || {N, D} <- lists:zip(lists:seq(1, Count), Sorted), N >= Q * Count]).

is_near(Expected, Got) -> abs(Expected - Got) * 100 =< Expected.
