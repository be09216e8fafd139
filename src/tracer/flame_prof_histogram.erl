%% @private Histograms of durations: quantiles, sums of several, JSON, Prometheus' text.
%%
%% `c_src/base/histogram.h' counts durations in buckets that are at most 1/64 as wide as their
%% lowest duration is long. Here such a histogram is a map with its buckets that are in use, in
%% order; all durations are whole nanoseconds. Pure functions.
-module(flame_prof_histogram).

-export([new/3, merge/1, quantile/2, quantiles/1]).
-export([json/1, prometheus/3]).

-export_type([bucket/0, histogram/0]).

%% Durations of Low =< ns < End.
-type bucket() ::
    {Low :: non_neg_integer(), End :: pos_integer() | infinity, Count :: pos_integer()}.

-type histogram() :: #{
    count := non_neg_integer(),
    sum_ns := non_neg_integer(),
    max_ns := non_neg_integer(),
    buckets := [bucket()]
}.

%% Prometheus' buckets: two an octave, from 64 ns to 68.7 s. Their ends are ends of ours, so that
%% each of their counts is exact.
-define(FIRST_OCTAVE, 6).
-define(LAST_OCTAVE, 36).

-spec new([bucket()], non_neg_integer(), non_neg_integer()) -> histogram().
new(Buckets, SumNs, MaxNs) ->
    Count = lists:sum([N || {_, _, N} <- Buckets]),
    #{count => Count, sum_ns => SumNs, max_ns => MaxNs, buckets => lists:sort(Buckets)}.

%% @doc The histogram of all their durations.
-spec merge([histogram()]) -> histogram().
merge(Histograms) ->
    Counts = lists:foldl(
        fun({Low, End, N}, Sums) ->
            maps:update_with({Low, End}, fun(Sum) -> Sum + N end, N, Sums)
        end,
        #{},
        [Bucket || #{buckets := Buckets} <- Histograms, Bucket <- Buckets]
    ),
    new([{Low, End, N} || {{Low, End}, N} <- maps:to_list(Counts)],
        lists:sum([Sum || #{sum_ns := Sum} <- Histograms]),
        lists:max([0 | [Max || #{max_ns := Max} <- Histograms]])).

%% @doc The duration of rank `ceil(Q * count)': the middle of its bucket, at most 0.8 % off, and not
%% above the longest. Of the last rank the longest itself. There is at least one duration.
-spec quantile(float(), histogram()) -> non_neg_integer().
quantile(Q, #{count := Count, max_ns := Max, buckets := Buckets}) ->
    case max(1, ceil(Q * Count)) of
        Rank when Rank >= Count -> Max;
        Rank -> min(Max, middle(Rank, Buckets))
    end.

middle(Rank, [{_, _, N} | Buckets]) when Rank > N -> middle(Rank - N, Buckets);
middle(_Rank, [{_, infinity, _} | _]) -> infinity;
middle(_Rank, [{Low, End, _} | _]) -> Low + (End - Low) div 2.

%% @doc None without durations.
-spec quantiles(histogram()) -> #{atom() => non_neg_integer()}.
quantiles(#{count := 0}) ->
    #{};
quantiles(#{max_ns := Max} = Histogram) ->
    Named = [{p50_ns, 0.5}, {p90_ns, 0.9}, {p99_ns, 0.99}, {p999_ns, 0.999}, {p9999_ns, 0.9999}],
    maps:from_list([{max_ns, Max} | [{Name, quantile(Q, Histogram)} || {Name, Q} <- Named]]).

%% @doc For flame_prof_json: each bucket is an array of its lowest duration, its end (null for the
%% last one, which has none) and its count.
-spec json([bucket()]) -> [[non_neg_integer() | undefined]].
json(Buckets) ->
    [bucket(Bucket) || Bucket <- Buckets].

bucket({Low, infinity, Count}) -> [Low, undefined, Count];
bucket({Low, End, Count}) -> [Low, End, Count].

%% @doc A metric of type histogram in Prometheus' text form, in seconds, of histograms with their
%% labels. `le' of a bucket is its last whole nanosecond.
-spec prometheus(iodata(), iodata(), [{[{atom(), unicode:chardata()}], histogram()}]) -> iodata().
prometheus(Name, Help, Histograms) ->
    [
        ["# HELP ", Name, $\s, Help, "\n# TYPE ", Name, " histogram\n"]
        | [lines(Name, Labels, Histogram) || {Labels, Histogram} <- Histograms]
    ].

lines(Name, Labels, #{count := Count, sum_ns := Sum, buckets := Buckets}) ->
    Line = fun(Suffix, More, Value) ->
        [Name, Suffix, flame_prof_metrics:labels(Labels ++ More), $\s, Value, $\n]
    end,
    [
        [Line("_bucket", [{le, seconds(End - 1)}], integer_to_list(N))
            || {End, N} <- cumulative(ends(), 0, Buckets)],
        Line("_bucket", [{le, "+Inf"}], integer_to_list(Count)),
        Line("_sum", [], seconds(Sum)),
        Line("_count", [], integer_to_list(Count))
    ].

ends() ->
    lists:append([[1 bsl N, 3 bsl (N - 1)] || N <- lists:seq(?FIRST_OCTAVE, ?LAST_OCTAVE)]).

cumulative([], _Sum, _Buckets) ->
    [];
cumulative([End | _] = Ends, Sum, [{_, Own, N} | Buckets]) when Own =< End ->
    cumulative(Ends, Sum + N, Buckets);
cumulative([End | Ends], Sum, Buckets) ->
    [{End, Sum} | cumulative(Ends, Sum, Buckets)].

seconds(Ns) ->
    io_lib:format("~b.~9..0b", [Ns div 1000000000, Ns rem 1000000000]).
