%% A feed of quotes over TCP whose reader reads no more: the feed stands, and who calls it waits.
-module(trouble_socket).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([feed/0, terminal/2]).

-define(BYTES, 100000).

children() ->
    [trouble:process(quote_feed, ?MODULE, feed, [])].

truth() ->
    #{problem => socket, kind => [busy_port], severity => warning,
      process => [quote_feed], function => <<"trouble_socket:quote/2">>,
      sentence => <<"quote_feed waits for a socket whose peer does not read, in "
          "trouble_socket:quote/2.">>}.

feed() ->
    {ok, Listener} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}, binary, {active, false}]),
    {ok, Port} = inet:port(Listener),
    _ = spawn_link(?MODULE, terminal, [Port, self()]),
    {ok, Socket} = gen_tcp:accept(Listener),
    quotes(Socket, 1).

quotes(Socket, N) ->
    ok = quote(Socket, N),
    quotes(Socket, N + 1).

quote(Socket, N) ->
    ok = gen_tcp:send(Socket, binary:copy(<<N:64>>, ?BYTES div 8)).

%% It reads for half a second.
terminal(Port, _Feed) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    reads(Socket, erlang:monotonic_time(millisecond) + 500).

reads(Socket, Until) ->
    case erlang:monotonic_time(millisecond) < Until of
        true -> {ok, _} = gen_tcp:recv(Socket, 0), reads(Socket, Until);
        false -> receive stop -> gen_tcp:close(Socket) end
    end.
