%% A tracker of parcels that writes by the module `socket' to a reader who reads no more.
-module(trouble_socket_module).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([tracker/0, scanner/1]).

-define(BYTES, 100000).
-define(READS, 20).

children() ->
    [trouble:process(parcel_tracker, ?MODULE, tracker, [])].

truth() ->
    #{problem => socket_module, kind => [busy_port], severity => warning,
      process => [parcel_tracker], function => <<"trouble_socket_module:position/2">>,
      sentence => <<"parcel_tracker waits for a socket whose peer does not read, in "
          "trouble_socket_module:position/2.">>}.

tracker() ->
    {ok, Listener} = socket:open(inet, stream, tcp),
    ok = socket:bind(Listener, #{family => inet, addr => {127, 0, 0, 1}, port => 0}),
    ok = socket:listen(Listener),
    {ok, Address} = socket:sockname(Listener),
    _ = spawn_link(?MODULE, scanner, [Address]),
    {ok, Socket} = socket:accept(Listener),
    positions(Socket, 1).

positions(Socket, N) ->
    ok = position(Socket, N),
    positions(Socket, N + 1).

position(Socket, N) ->
    socket:send(Socket, binary:copy(<<N:64>>, ?BYTES div 8)).

scanner(Address) ->
    {ok, Socket} = socket:open(inet, stream, tcp),
    ok = socket:connect(Socket, Address),
    _ = [socket:recv(Socket, 0) || _ <- lists:seq(1, ?READS)],
    receive stop -> socket:close(Socket) end.
