%% What a profiler costs a RabbitMQ under load: bench_overhead on a node that is not
%% ours. The load and the measuring are in this VM, which shares the machine with it.
%%
%% A unit of work is a message published and consumed; a request is a message of its
%% own queue, and how long it takes to come back.
-module(bench_rabbitmq).

-export([main/1]).

-include_lib("amqp_client/include/amqp_client.hrl").

-define(LOADS, 4).

main([Port, Node | Paths]) ->
    #{variants := Variants} = Settings = bench_overhead:settings(),
    Server = list_to_atom(Node),
    ok = erpc:call(Server, code, add_pathsa, [Paths]),
    {ok, _} = erpc:call(Server, flame_prof_calibration, ensure, []),
    Counter = counters:new(1, []),
    _ = [spawn_link(amqp_load, pair, [list_to_integer(Port), Counter])
        || _ <- lists:seq(1, ?LOADS)],
    Requests = requests(list_to_integer(Port)),
    Schedulers = erpc:call(Server, bench_threads, schedulers, []),
    timer:sleep(3000),
    io:format("~nrabbitmq~n"),
    ok = bench_overhead:compare(#{
        name => rabbitmq,
        work => fun() -> counters:get(Counter, 1) end,
        cpu_ns => fun() -> erpc:call(Server, bench_threads, cpu_ns, [Schedulers]) end,
        requests => Requests,
        call => fun(Function, Args) -> erpc:call(Server, bench_peers, Function, Args) end,
        pause => fun() -> ok end,
        resume => fun() -> ok end,
        processes => []
    }, Settings#{variants := [V || V <- Variants, is_for_servers(V)]}, fun(_) -> ok end),
    halt(0).

%% Tools that trace what processes they are given need some; perf needs a VM that is
%% started for it.
is_for_servers(Variant) ->
    lists:member(bench_peers:kind(Variant), [none, own])
        orelse lists:member(Variant, [poller, call_count]).

requests(Port) ->
    Parent = self(),
    Returns = spawn_link(fun() -> returns(Port, Parent) end),
    receive
        {Returns, Channel, Queue} ->
            Publish = #'basic.publish'{routing_key = Queue},
            bench_requests:client(fun(Client, Id) ->
                Payload = term_to_binary({Client, Id}),
                amqp_channel:cast(Channel, Publish, #amqp_msg{payload = Payload})
            end)
    end.

returns(Port, Parent) ->
    {ok, Connection} = amqp_connection:start(#amqp_params_network{port = Port}),
    {ok, Channel} = amqp_connection:open_channel(Connection),
    #'queue.declare_ok'{queue = Queue} =
        amqp_channel:call(Channel, #'queue.declare'{exclusive = true}),
    #'basic.consume_ok'{} =
        amqp_channel:subscribe(Channel, #'basic.consume'{queue = Queue, no_ack = true}, self()),
    receive #'basic.consume_ok'{} -> ok end,
    Parent ! {self(), Channel, Queue},
    answer().

answer() ->
    receive
        {#'basic.deliver'{}, #amqp_msg{payload = Payload}} ->
            {Client, Id} = binary_to_term(Payload),
            Client ! {answer, Id},
            answer()
    end.
