%% Messages of XMPP, sent and received as fast as they come; writes how many were
%% received in each 250 ms, a line each.
-module(xmpp_load).

-export([main/1]).

-define(WINDOW_MS, 250).
-define(CLIENTS, 8).
%% Messages on their way, for each client.
-define(CREDIT, 20).

main([Port, File]) ->
    Counter = counters:new(1, []),
    _ = [spawn_link(fun() -> client(list_to_integer(Port), Counter) end)
        || _ <- lists:seq(1, ?CLIENTS)],
    {ok, Device} = file:open(File, [write, raw]),
    windows(Device, Counter, 0, erlang:monotonic_time(millisecond) + ?WINDOW_MS).

windows(Device, Counter, Before, At) ->
    timer:sleep(max(0, At - erlang:monotonic_time(millisecond))),
    Now = counters:get(Counter, 1),
    ok = file:write(Device, [integer_to_list(Now - Before), "\n"]),
    windows(Device, Counter, Now, At + ?WINDOW_MS).

client(Port, Counter) ->
    {ok, Socket} = gen_tcp:connect("127.0.0.1", Port, [binary, {active, false}, {nodelay, true}]),
    _ = stream(Socket, <<"</stream:features>">>),
    _ = ask(Socket, "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='ANONYMOUS'/>",
        <<"<success">>),
    _ = stream(Socket, <<"</stream:features>">>),
    Bind = "<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>",
    Bound = ask(Socket, Bind, <<"</iq>">>),
    {match, [Own]} = re:run(Bound, "<jid>([^<]+)</jid>", [{capture, all_but_first, binary}]),
    Message = ["<message type='chat' to='", Own, "'><body>",
        binary:copy(<<"x">>, 200), "</body></message>"],
    ok = gen_tcp:send(Socket, lists:duplicate(?CREDIT, Message)),
    loop(Socket, Message, Counter, <<>>).

stream(Socket, Until) ->
    ask(Socket, "<?xml version='1.0'?><stream:stream xmlns='jabber:client' version='1.0' "
        "xmlns:stream='http://etherx.jabber.org/streams' to='localhost'>", Until).

ask(Socket, Text, Until) ->
    ok = gen_tcp:send(Socket, Text),
    answer(Socket, Until, <<>>).

answer(Socket, Until, Before) ->
    case binary:match(Before, Until) of
        nomatch ->
            {ok, Bytes} = gen_tcp:recv(Socket, 0),
            answer(Socket, Until, <<Before/binary, Bytes/binary>>);
        _ -> Before
    end.

%% As many are sent as were received.
loop(Socket, Message, Counter, Before) ->
    {ok, Bytes} = gen_tcp:recv(Socket, 0),
    Parts = binary:split(<<Before/binary, Bytes/binary>>, <<"</message>">>, [global]),
    Received = length(Parts) - 1,
    ok = counters:add(Counter, 1, Received),
    ok = gen_tcp:send(Socket, lists:duplicate(Received, Message)),
    loop(Socket, Message, Counter, lists:last(Parts)).
