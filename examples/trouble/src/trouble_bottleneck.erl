%% One order store that sixty processes call: it looks through all tariffs for each call,
%% and they wait.
-module(trouble_bottleneck).
-behaviour(trouble).
-behaviour(gen_server).

-export([children/0, truth/0]).
-export([start_link/0, start_caller/1, init_caller/1]).
-export([init/1, handle_call/3, handle_cast/2]).

-define(CALLERS, 60).
-define(TARIFFS, 50000).
-define(ZONES, 50).
-define(ITEMS, 2000).

children() ->
    [#{id => order_store, start => {?MODULE, start_link, []}}] ++
        [#{id => {order_caller, N}, start => {?MODULE, start_caller, [N]}}
         || N <- lists:seq(1, ?CALLERS)].

truth() ->
    #{problem => bottleneck,
      kind => [bottleneck],
      severity => warning,
      finding => server,
      process => order_store,
      function => <<"trouble_bottleneck:tariff/2">>,
      sentence => <<"60 processes wait for order_store, which is in "
          "trouble_bottleneck:tariff/2.">>}.

start_link() ->
    gen_server:start_link({local, order_store}, ?MODULE, [], []).

init([]) ->
    {ok, [{N rem ?ZONES, N, N * 7919 rem 10007} || N <- lists:seq(1, ?TARIFFS)]}.

handle_call({price, Parcel}, _From, Tariffs) ->
    {reply, {price, tariff(Parcel, Tariffs)}, Tariffs}.

handle_cast(_, Tariffs) ->
    {noreply, Tariffs}.

tariff({Zone, Weight}, Tariffs) ->
    lists:min([Price || {Of, UpTo, Price} <- Tariffs, Of =:= Zone, UpTo > Weight]).

start_caller(N) ->
    proc_lib:start_link(?MODULE, init_caller, [N]).

init_caller(N) ->
    proc_lib:init_ack({ok, self()}),
    order(N).

order(N) ->
    Parcel = {N rem ?ZONES, weight(?ITEMS, N)},
    {price, _} = gen_server:call(order_store, {price, Parcel}, infinity),
    order(N + 1).

weight(0, Weight) -> Weight;
weight(N, Weight) -> weight(N - 1, erlang:phash2({N, Weight}, 1000)).
