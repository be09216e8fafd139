%% Quantiles of the latencies of many windows, and how much of a difference is noise.
%%
%% Latencies of one window are not independent: a stall hits all requests of its time.
%% So the interval comes from resampling pairs of windows, not requests.
-module(bench_latency).

-export([ratio/2, quantile/2]).

-export_type([ratio/0]).

%% `with' and `without' are in the unit of the latencies.
-type ratio() :: #{value := float(), interval := {float(), float()}, with := number(),
    without := number()}.

-define(RESAMPLINGS, 400).

%% The quantile of all latencies with, over that of all without: one pair of lists for
%% each pair of windows.
-spec ratio(Share :: float(), [{With :: [number()], Without :: [number()]}, ...]) -> ratio().
ratio(Share, Pairs) ->
    {Withs, Withouts} = lists:unzip(Pairs),
    Sides = {pooled(Withs), pooled(Withouts)},
    Once = erlang:make_tuple(length(Pairs), 1),
    {With, Without} = quantiles(Share, Sides, Once),
    Ratios = [quotient(quantiles(Share, Sides, weights(length(Pairs))))
        || _ <- lists:seq(1, ?RESAMPLINGS)],
    #{
        value => quotient({With, Without}),
        interval => {bench_stats:quantile(0.025, Ratios), bench_stats:quantile(0.975, Ratios)},
        with => With,
        without => Without
    }.

%% Of the latencies of all these windows.
-spec quantile(Share :: float(), [[number()], ...]) -> number().
quantile(Share, Windows) ->
    weighted(Share, pooled(Windows), erlang:make_tuple(length(Windows), 1)).

quotient({With, Without}) -> With / max(1, Without).

quantiles(Share, {Withs, Withouts}, Weights) ->
    {weighted(Share, Withs, Weights), weighted(Share, Withouts, Weights)}.

%% How often each of N windows is drawn in N draws.
weights(N) ->
    Drawn = lists:foldl(
        fun(_, Acc) -> maps:update_with(rand:uniform(N), fun(K) -> K + 1 end, 1, Acc) end,
        #{}, lists:seq(1, N)
    ),
    list_to_tuple([maps:get(I, Drawn, 0) || I <- lists:seq(1, N)]).

%% The largest first: the quantiles that matter are soon reached.
pooled(Windows) ->
    Numbered = lists:zip(lists:seq(1, length(Windows)), Windows),
    Sizes = list_to_tuple([length(Window) || Window <- Windows]),
    {Sizes, lists:reverse(lists:sort([{L, I} || {I, Window} <- Numbered, L <- Window]))}.

weighted(Share, {Sizes, Sorted}, Weights) ->
    Total = lists:sum([element(I, Sizes) * element(I, Weights)
        || I <- lists:seq(1, tuple_size(Sizes))]),
    from_above(Total - max(1, ceil(Share * Total)) + 1, Sorted, Weights).

from_above(_, [], _) -> 0;
from_above(Left, [{Latency, I} | Rest], Weights) ->
    case Left - element(I, Weights) of
        Fewer when Fewer > 0 -> from_above(Fewer, Rest, Weights);
        _ -> Latency
    end.
