%% A node that is busy the way real ones are: a shop.
%%
%% Clients send orders to four servers whose queues come and go, products are
%% looked up in an ETS cache, receipts are encoded with deep list work, images
%% are relayed as reference-counted binaries, short-lived workers come and go a
%% thousand a second, deliveries are state machines, statistics keep a large heap
%% churning - and five thousand processes wait for something that rarely comes.
%%
%% Every part is paced by a timer and every store has a limit, so the load is
%% about the same at any time (one to one and a half cores of 2020) and memory
%% does not grow. {@link start/0} starts it, {@link stop/0} ends all of it.
-module(demo_workload).
-behaviour(supervisor).

-export([start/0, stop/0]).
-export([init/1]).

-define(IDLE_SERVERS, 2500).
-define(IDLE_BARE, 2500).
-define(ORDER_SERVERS, 4).
-define(CLIENTS, 20).
-define(CACHE_USERS, 3).
-define(RELAY_HOPS, 5).
-define(ENCODERS, 3).
-define(DELIVERIES, 60).

-spec start() -> {ok, pid()}.
start() ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, []).

-spec stop() -> ok.
stop() ->
    gen_server:stop(?MODULE).

init([]) ->
    Children =
        [child({cache, 0}, demo_cache, start_link, [])]
        ++ [child({cache_user, N}, demo_cache, start_user, [N])
            || N <- lists:seq(1, ?CACHE_USERS)]
        ++ [child({order, N}, demo_order, start_link, [N])
            || N <- lists:seq(1, ?ORDER_SERVERS)]
        ++ [child({client, N}, demo_client, start_link, [N, ?ORDER_SERVERS])
            || N <- lists:seq(1, ?CLIENTS)]
        ++ [child({relay, 0}, demo_relay, start_link, [?RELAY_HOPS])]
        ++ [child({encoder, N}, demo_encoder, start_link, [N])
            || N <- lists:seq(1, ?ENCODERS)]
        ++ [child({spawner, 0}, demo_spawner, start_link, [])]
        ++ [child({delivery, N}, demo_delivery, start_link, [N])
            || N <- lists:seq(1, ?DELIVERIES)]
        ++ [child({statistics, 0}, demo_statistics, start_link, [])]
        ++ [child({idle, 0}, demo_idle, start_crowd, [?IDLE_SERVERS, ?IDLE_BARE])],
    {ok, {#{strategy => one_for_one}, Children}}.

child(Id, Module, Function, Args) ->
    #{id => Id, start => {Module, Function, Args}, shutdown => 1000}.
