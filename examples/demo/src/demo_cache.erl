%% An ETS table of products that everybody reads and some write, and a server that
%% owns it and searches all of it once in a while.
-module(demo_cache).
-behaviour(gen_server).

-export([start_link/0, price/1, products/0]).
-export([start_user/1, init_user/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(PRODUCTS, 20000).
-define(SEARCH_MS, 500).
-define(USER_PAUSE_MS, 10).
-define(USER_STEPS, 300).

start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

products() ->
    ?PRODUCTS.

price(Product) ->
    case ets:lookup(?MODULE, Product) of
        [{_, Price, _, _}] -> Price;
        [] -> 0
    end.

init([]) ->
    ?MODULE = ets:new(?MODULE, [named_table, public, set,
                                {read_concurrency, true}, {write_concurrency, true}]),
    [ets:insert(?MODULE, product(N)) || N <- lists:seq(1, ?PRODUCTS)],
    erlang:send_after(?SEARCH_MS, self(), search),
    {ok, none}.

handle_call(Request, _From, State) ->
    {reply, {unknown, Request}, State}.

handle_cast(_, State) ->
    {noreply, State}.

handle_info(search, State) ->
    Pattern = {{'$1', '$2', '_', '$3'}, [{'<', '$2', 1500}], [{{'$2', '$1', '$3'}}]},
    Cheap = ets:select(?MODULE, [Pattern]),
    _ = lists:sublist(lists:reverse(lists:sort(Cheap)), 20),
    erlang:send_after(?SEARCH_MS, self(), search),
    {noreply, State}.

product(N) ->
    {N, 100 + rand:uniform(9900), <<"product ", (integer_to_binary(N))/binary>>,
     [rand:uniform(5) || _ <- lists:seq(1, 6)]}.

%%% The users: lookups, updates and replacements in place; the table keeps its size.

start_user(N) ->
    proc_lib:start_link(?MODULE, init_user, [N]).

init_user(N) ->
    proc_lib:init_ack({ok, self()}),
    rand:seed(exsss, 1000 + N),
    use().

use() ->
    use(?USER_STEPS),
    timer:sleep(?USER_PAUSE_MS),
    use().

use(0) ->
    ok;
use(N) ->
    Product = rand:uniform(?PRODUCTS),
    case rand:uniform(10) of
        1 -> ets:insert(?MODULE, product(Product));
        2 -> ets:update_counter(?MODULE, Product, {2, 1, 9900, 100});
        3 -> ets:member(?MODULE, Product);
        _ -> lists:sum(element(4, hd(ets:lookup(?MODULE, Product))))
    end,
    use(N - 1).
