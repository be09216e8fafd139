%% An order server: prices orders out of its message queue, which is sometimes
%% empty and sometimes a few hundred orders long.
-module(demo_order).
-behaviour(gen_server).

-export([start_link/1, place/2, settle/1]).
-export([init/1, handle_call/3, handle_cast/2]).

-define(CUSTOMERS, 2000).

start_link(N) ->
    gen_server:start_link({local, name(N)}, ?MODULE, [], []).

place(N, Order) ->
    gen_server:cast(name(N), {order, Order}).

%% Waits until all orders before it are done: what keeps the queues bounded.
settle(N) ->
    gen_server:call(name(N), settle, infinity).

name(N) ->
    list_to_atom("order_" ++ integer_to_list(N)).

init([]) ->
    {ok, #{}}.

handle_call(settle, _From, Totals) ->
    {reply, maps:size(Totals), Totals}.

handle_cast({order, {Customer, Lines}}, Totals) ->
    Total = price(Lines),
    Receipt = receipt(Customer, Lines, Total),
    Key = Customer rem ?CUSTOMERS,
    {noreply, Totals#{Key => {Total, erlang:phash2(Receipt)}}}.

price(Lines) ->
    lists:foldl(
        fun({Product, Count}, Sum) ->
            Sum + Count * discounted(demo_cache:price(Product), Count)
        end,
        0, Lines).

discounted(Price, Count) when Count >= 10 -> Price * 90 div 100;
discounted(Price, Count) when Count >= 5 -> Price * 95 div 100;
discounted(Price, _Count) -> Price.

receipt(Customer, Lines, Total) ->
    Sorted = lists:keysort(1, Lines),
    unicode:characters_to_binary(
        [io_lib:format("customer ~b total ~b~n", [Customer, Total])
         | [[integer_to_list(Product), $x, integer_to_list(Count), $\n]
            || {Product, Count} <- Sorted]]).
