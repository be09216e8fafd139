%% Publish and consume, as fast as confirms allow; writes how many messages were
%% consumed in each 250 ms, a line each.
-module(amqp_load).

-export([main/1, pair/2]).

-include_lib("amqp_client/include/amqp_client.hrl").

-define(WINDOW_MS, 250).
-define(PAIRS, 4).
%% Messages on their way, for each pair.
-define(CREDIT, 100).

main([Port, File]) ->
    Counter = counters:new(1, []),
    _ = [spawn_link(fun() -> pair(list_to_integer(Port), Counter) end)
        || _ <- lists:seq(1, ?PAIRS)],
    {ok, Device} = file:open(File, [write, raw]),
    windows(Device, Counter, 0, erlang:monotonic_time(millisecond) + ?WINDOW_MS).

windows(Device, Counter, Before, At) ->
    timer:sleep(max(0, At - erlang:monotonic_time(millisecond))),
    Now = counters:get(Counter, 1),
    ok = file:write(Device, [integer_to_list(Now - Before), "\n"]),
    windows(Device, Counter, Now, At + ?WINDOW_MS).

%% Never ends; adds one to the counter for each message.
pair(Port, Counter) ->
    {ok, Connection} = amqp_connection:start(#amqp_params_network{port = Port}),
    {ok, Channel} = amqp_connection:open_channel(Connection),
    #'queue.declare_ok'{queue = Queue} =
        amqp_channel:call(Channel, #'queue.declare'{exclusive = true}),
    #'basic.consume_ok'{} = amqp_channel:subscribe(Channel,
        #'basic.consume'{queue = Queue, no_ack = true}, self()),
    receive #'basic.consume_ok'{} -> ok end,
    _ = [publish(Channel, Queue) || _ <- lists:seq(1, ?CREDIT)],
    loop(Channel, Queue, Counter).

publish(Channel, Queue) ->
    amqp_channel:cast(Channel, #'basic.publish'{routing_key = Queue},
        #amqp_msg{payload = binary:copy(<<"x">>, 200)}).

loop(Channel, Queue, Counter) ->
    receive
        {#'basic.deliver'{}, _} ->
            counters:add(Counter, 1, 1),
            ok = publish(Channel, Queue),
            loop(Channel, Queue, Counter)
    end.
