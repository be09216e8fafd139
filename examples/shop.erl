%% The program of README's examples: one process reads prices from a table, one sorts the
%% rows of a report, 200 wait. During a sale 20 customers call one server, which searches a
%% table of 20,000 rows for each of them.
-module(shop).
-behaviour(gen_server).

-export([start/0, sale/0]).
-export([init/1, handle_call/3, handle_cast/2]).

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

sale() ->
    {ok, _} = gen_server:start({local, shop_stock}, ?MODULE, [], []),
    _ = [spawn(fun customer/0) || _ <- lists:seq(1, 20)],
    ok.

customer() ->
    _ = gen_server:call(shop_stock, {available, rand:uniform(20000)}, infinity),
    customer().

init([]) ->
    stock = ets:new(stock, [named_table]),
    true = ets:insert(stock, [{Row, {item, Row}, 1} || Row <- lists:seq(1, 20000)]),
    {ok, none}.

handle_call({available, Item}, _From, State) ->
    [{_, _, Count}] = ets:match_object(stock, {'_', {item, Item}, '_'}),
    {reply, Count, State}.

handle_cast(_, State) ->
    {noreply, State}.
