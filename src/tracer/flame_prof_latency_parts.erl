%% @private What processes and callers have called, summed under the names that an answer has, with
%% the buckets of their times. Pure functions.
%%
%% Names are many where processes come and go, and buckets are more: both are bounded. Entries
%% without room are summed as `other', and times without room in the buckets are counted.
-module(flame_prof_latency_parts).

-export([new/0, add/3, of_function/3, missing/2]).

-export_type([sums/0, kind/0, key/0, part/0, time/0]).

-type kind() :: groups | callers.
-type key() :: {kind(), Number :: pos_integer(), Name :: term()}.
-type sum() :: {Calls :: non_neg_integer(), TotalNs :: non_neg_integer(),
    OwnNs :: non_neg_integer(), MaxNs :: non_neg_integer()}.
-type part() :: {key(), sum()}.
-type time() :: {key(), flame_prof_histogram:bucket()}.

-type bucket() :: {Low :: non_neg_integer(), End :: pos_integer() | infinity}.

-opaque sums() :: #{
    parts := #{key() => sum()},
    times := #{key() => #{bucket() => pos_integer()}},
    buckets := non_neg_integer(),
    missing := #{kind() => pos_integer()}
}.

-define(PARTS_MOST, 2000).
%% Of all parts: some tens of bytes each.
-define(BUCKETS_MOST, 100000).

-spec new() -> sums().
new() -> #{parts => #{}, times => #{}, buckets => 0, missing => #{}}.

%% @doc The times are of these parts, or of earlier ones.
-spec add([part()], [time()], sums()) -> sums().
add(Parts, Times, #{parts := Known} = Sums) ->
    lists:foldl(fun add_time/2, Sums#{parts := lists:foldl(fun add_part/2, Known, Parts)}, Times).

add_part({{_, _, Name} = Key, Part}, Parts) when
    is_map_key(Key, Parts); map_size(Parts) < ?PARTS_MOST; Name =:= other
->
    maps:update_with(Key, fun(Sum) -> plus(Sum, Part) end, Part, Parts);
add_part({Key, Part}, Parts) ->
    add_part({other(Key), Part}, Parts).

other({Kind, N, _}) -> {Kind, N, other}.

plus({Calls1, Total1, Own1, Max1}, {Calls2, Total2, Own2, Max2}) ->
    {Calls1 + Calls2, Total1 + Total2, Own1 + Own2, max(Max1, Max2)}.

%% Its part is there, under its own name or as `other'.
add_time({{_, _, Name} = Key, Time}, #{parts := Parts} = Sums) when
    not is_map_key(Key, Parts), Name =/= other
->
    add_time({other(Key), Time}, Sums);
add_time({{Kind, _, _} = Key, {Low, End, Count}}, Sums) ->
    #{times := Times, buckets := Kept, missing := Missing} = Sums,
    Bucket = {Low, End},
    case Times of
        #{Key := #{Bucket := Before} = Buckets} ->
            Sums#{times := Times#{Key := Buckets#{Bucket := Before + Count}}};
        #{} when Kept < ?BUCKETS_MOST ->
            Buckets = maps:get(Key, Times, #{}),
            Sums#{times := Times#{Key => Buckets#{Bucket => Count}}, buckets := Kept + 1};
        #{} ->
            More = fun(N) -> N + Count end,
            Sums#{missing := maps:update_with(Kind, More, Count, Missing)}
    end.

%% @doc The longest total first, each with its buckets in order.
-spec of_function(kind(), pos_integer(), sums()) ->
    [{Name :: term(), sum(), [flame_prof_histogram:bucket()]}].
of_function(Kind, N, #{parts := Parts, times := Times}) ->
    Found = [{Total, Calls, Key, Sum}
        || {{K, Of, _} = Key, {Calls, Total, _, _} = Sum} <- maps:to_list(Parts),
            K =:= Kind, Of =:= N],
    [
        {Name, Sum, buckets(maps:get(Key, Times, #{}))}
     || {_, _, {_, _, Name} = Key, Sum} <- lists:reverse(lists:sort(Found))
    ].

buckets(Times) -> [{Low, End, N} || {{Low, End}, N} <- lists:sort(maps:to_list(Times))].

%% @doc Times that found no room in the buckets of their part.
-spec missing(kind(), sums()) -> non_neg_integer().
missing(Kind, #{missing := Missing}) -> maps:get(Kind, Missing, 0).
