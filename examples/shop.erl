%% The program of README's examples: one process reads prices from a table, one sorts the
%% rows of a report, 200 wait.
-module(shop).

-export([start/0]).

start() ->
    register(shop_prices, spawn(fun prices/0)),
    register(shop_orders, spawn(fun orders/0)),
    register(shop_report, spawn(fun report/0)),
    _ = [spawn(fun wait/0) || _ <- lists:seq(1, 200)],
    ok.

prices() ->
    prices = ets:new(prices, [named_table]),
    true = ets:insert(prices, [{Id, lists:seq(1, 300)} || Id <- lists:seq(1, 1000)]),
    wait().

wait() ->
    receive stop -> ok end.

orders() ->
    timer:sleep(1),
    _ = [total(rand:uniform(1000)) || ets:whereis(prices) =/= undefined, _ <- lists:seq(1, 500)],
    orders().

total(Id) ->
    case ets:lookup(prices, Id) of
        [{_, Prices}] -> lists:sum(Prices);
        [] -> 0
    end.

report() ->
    timer:sleep(20),
    _ = lists:sort([integer_to_binary(erlang:phash2({row, N})) || N <- lists:seq(1, 9000)]),
    report().
