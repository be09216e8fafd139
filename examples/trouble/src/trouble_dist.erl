%% A replicator to another node that has stopped reading: its sends stand, as the connection is
%% busy.
-module(trouble_dist).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([replicator/0]).

-define(BYTES, 20000).
-define(REPLICAS, 5).

children() ->
    [trouble:process(replicator, ?MODULE, replicator, [])].

truth() ->
    #{problem => busy_dist, kind => [busy_dist], severity => warning,
      process => [], function => <<"trouble_dist:replicate/2">>,
      sentence => <<"5 processes wait for the connection to a node that does not read.">>}.

replicator() ->
    Name = list_to_atom("replica_" ++ os:getpid()),
    {ok, Peer, Node} = peer:start_link(#{
        name => Name, host => "127.0.0.1", connection => standard_io,
        args => ["-setcookie", cookie(), "-hidden"]
    }),
    true = net_kernel:connect_node(Node),
    _ = [spawn_link(fun() -> replicate(Node, 1) end) || _ <- lists:seq(1, ?REPLICAS)],
    timer:sleep(300),
    Pid = peer:call(Peer, os, getpid, []),
    _ = os:cmd("kill -STOP " ++ Pid),
    %% It ends with this node, at the latest.
    _ = os:cmd("(sleep 120; kill -9 " ++ Pid ++ ") >/dev/null 2>&1 &"),
    receive stop -> ok end.

cookie() -> atom_to_list(erlang:get_cookie()).

replicate(Node, N) ->
    {no_such_replica, Node} ! {row, binary:copy(<<N:64>>, ?BYTES div 8)},
    replicate(Node, N + 1).
