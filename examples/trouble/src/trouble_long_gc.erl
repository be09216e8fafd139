%% A catalogue of 3 million terms on one heap that is changed all the time: collections of all of
%% it take some 100 ms each.
-module(trouble_long_gc).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([catalog/0]).

-define(ITEMS, 400000).
-define(CHANGES, 500).
-define(PAUSE_MS, 5).

children() ->
    [(trouble:process(item_catalog, ?MODULE, catalog, []))#{
        start => {trouble, spawn, [item_catalog, ?MODULE, catalog, [], [{fullsweep_after, 2}]]}}].

truth() ->
    #{problem => long_gc, kind => [long_gc, gc], severity => warning,
      process => [item_catalog], function => <<"trouble_long_gc:change/2">>,
      sentence => <<"Each collection of item_catalog takes some 100 ms.">>}.

catalog() ->
    items(maps:from_list([{N, item(N)} || N <- lists:seq(1, ?ITEMS)]), 1).

items(Items, N) ->
    Changed = change(N, Items),
    timer:sleep(?PAUSE_MS),
    items(Changed, N + 1).

change(N, Items) ->
    lists:foldl(fun(I, Of) -> Of#{1 + (N * 7919 + I * 101) rem ?ITEMS => item(N + I)} end, Items,
        lists:seq(1, ?CHANGES)).

item(N) -> {item, N, [N, N + 1, N + 2], {price, N * 3}}.
