%% A price engine that keeps a CPU: it computes prices again and again, in one function.
-module(trouble_hot).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([start_link/0, init/0]).

-define(QUANTITIES, 5000).

children() ->
    [#{id => price_engine, start => {?MODULE, start_link, []}}].

truth() ->
    #{problem => hot_function,
      kind => [hot_function],
      severity => warning,
      finding => scheduler,
      process => price_engine,
      function => <<"trouble_hot:price_of/1">>,
      sentence => <<"price_engine keeps a CPU in trouble_hot:price_of/1.">>}.

start_link() ->
    proc_lib:start_link(?MODULE, init, []).

init() ->
    register(price_engine, self()),
    proc_lib:init_ack({ok, self()}),
    compute(1).

compute(Item) ->
    compute(price_of(Item) + 1).

price_of(Item) ->
    lowest(?QUANTITIES, Item, 1000000) rem 1000.

lowest(0, _Item, Lowest) -> Lowest;
lowest(N, Item, Lowest) -> lowest(N - 1, Item, min(Lowest, (Item * 7919 + N * 104729) rem 999983)).
