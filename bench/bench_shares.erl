%% Shares that were seen, against those that are true: in points, that is hundredths
%% of the whole.
-module(bench_shares).

-export([percent/1, distance/2, errors/2, largest/1, add/3, sum/1, total/1, get/2]).

-export_type([counts/0]).

-type counts() :: #{Key :: term() => number()}.

-spec percent(counts()) -> #{term() => float()}.
percent(Counts) ->
    Total = max(1, total(Counts)),
    maps:map(fun(_, N) -> 100 * N / Total end, Counts).

%% The total variation distance: half the sum of the differences of all shares, 0 when
%% they are the same, 100 when they have nothing in common.
-spec distance(counts(), counts()) -> float().
distance(Seen, True) ->
    lists:sum([abs(E) || E <- maps:values(errors(Seen, True))]) / 2.

%% Share seen less true share, of all that is in either.
-spec errors(counts(), counts()) -> #{term() => float()}.
errors(Seen, True) ->
    {S, T} = {percent(Seen), percent(True)},
    maps:from_list([{K, get(K, S) - get(K, T)} || K <- maps:keys(maps:merge(S, T))]).

-spec largest(#{term() => float()}) -> {term(), float()}.
largest(Errors) ->
    {_, Key} = lists:max([{abs(E), K} || {K, E} <- maps:to_list(Errors)]),
    {Key, maps:get(Key, Errors)}.

-spec add(term(), number(), counts()) -> counts().
add(Key, N, Counts) -> maps:update_with(Key, fun(M) -> M + N end, N, Counts).

-spec sum([counts()]) -> counts().
sum(Counts) -> lists:foldl(fun(C, Acc) -> maps:fold(fun add/3, Acc, C) end, #{}, Counts).

-spec total(counts()) -> number().
total(Counts) -> lists:sum(maps:values(Counts)).

-spec get(term(), counts()) -> number().
get(Key, Counts) -> maps:get(Key, Counts, 0).
