%% The statistics of the benchmarks.
%%
%% Machines drift by 10 to 20 % within seconds, so two things are never compared by
%% measuring the one and then the other. They take turns in windows of some 100 ms,
%% in a random order, and each window is compared with its neighbour only: see
%% pairs/3. What is reported is the median of these ratios and the interval that 95 %
%% of its resamplings fall into (the percentile bootstrap, Efron 1979).
-module(bench_stats).

-export([pairs/3, pairs_until/4, median/1, quantile/2, interval/1]).

-define(RESAMPLINGS, 1000).

%% Measures A and B `Count' times, one right after the other, whichever first.
-spec pairs(Count :: pos_integer(), fun(() -> A), fun(() -> B)) -> [{A, B}].
pairs(Count, A, B) ->
    [pair(rand:uniform(2), A, B) || _ <- lists:seq(1, Count)].

%% The same, but none is begun after a time of erlang:monotonic_time(millisecond).
-spec pairs_until(Limit :: integer(), Count :: non_neg_integer(), fun(() -> A), fun(() -> B)) ->
    [{A, B}].
pairs_until(_, 0, _, _) ->
    [];
pairs_until(Limit, Count, A, B) ->
    case erlang:monotonic_time(millisecond) < Limit of
        true -> [pair(rand:uniform(2), A, B) | pairs_until(Limit, Count - 1, A, B)];
        false -> []
    end.

pair(1, A, B) ->
    First = A(),
    {First, B()};
pair(2, A, B) ->
    First = B(),
    {A(), First}.

-spec median([number(), ...]) -> number().
median(Values) -> quantile(0.5, Values).

%% The smallest value that at least this share of all is not above.
-spec quantile(Share :: float(), [number(), ...]) -> number().
quantile(Share, Values) ->
    lists:nth(max(1, ceil(Share * length(Values))), lists:sort(Values)).

%% Of the median, 95 %.
-spec interval([number(), ...]) -> {Low :: number(), High :: number()}.
interval(Values) ->
    All = list_to_tuple(Values),
    Medians = [median(resampled(All)) || _ <- lists:seq(1, ?RESAMPLINGS)],
    {quantile(0.025, Medians), quantile(0.975, Medians)}.

resampled(All) ->
    [element(rand:uniform(tuple_size(All)), All) || _ <- lists:seq(1, tuple_size(All))].
