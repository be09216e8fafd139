%% A client: sends a handful of orders every few milliseconds and, now and then, a
%% rush of them to one server, whose queue then grows until it has caught up.
-module(demo_client).

-export([start_link/2, init/2]).

-define(PAUSE_MS, 25).
-define(ORDERS, 75).
-define(RUSH_ORDERS, 1000).
-define(RUSH_EVERY, 60).

start_link(N, Servers) ->
    proc_lib:start_link(?MODULE, init, [N, Servers]).

init(N, Servers) ->
    proc_lib:init_ack({ok, self()}),
    rand:seed(exsss, N),
    %% Not all of them in step.
    timer:sleep(rand:uniform(?PAUSE_MS)),
    loop(Servers, rand:uniform(?RUSH_EVERY)).

loop(Servers, 0) ->
    Server = rand:uniform(Servers),
    send(Server, ?RUSH_ORDERS),
    demo_order:settle(Server),
    loop(Servers, ?RUSH_EVERY);
loop(Servers, N) ->
    Server = rand:uniform(Servers),
    send(Server, ?ORDERS),
    demo_order:settle(Server),
    timer:sleep(?PAUSE_MS),
    loop(Servers, N - 1).

send(Server, Count) ->
    [demo_order:place(Server, order()) || _ <- lists:seq(1, Count)],
    ok.

order() ->
    Lines = [{rand:uniform(demo_cache:products()), rand:uniform(12)}
             || _ <- lists:seq(1, 2 + rand:uniform(8))],
    {rand:uniform(1000000), Lines}.
