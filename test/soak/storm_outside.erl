%% The storms that come from outside of Erlang, or of the node: ports (processes of
%% the system, opened, spoken to, closed), NIFs on dirty schedulers (those of
%% running_test_nif), and distribution that comes up, carries messages to another
%% node and goes down. See storm.
-module(storm_outside).

-export([kinds/0, open/1, step/3, close/2]).
-export([serve/0]).

-define(PATIENCE_MS, 120000).
%% Steps between two times that this node is none.
-define(NAMED_STEPS, 5).

kinds() -> [ports, distribution | of_nif(running_test_nif:build())].

of_nif(ok) -> [dirty_work, dirty_sleep, nif_pipe];
of_nif({skip, Why}) ->
    io:format("without NIFs: ~ts~n", [Why]),
    [].

open(dirty_work) ->
    %% What it answers is not documented, but it is always the same.
    running_test_nif:dirty_spin(2000000);
open(distribution) ->
    Name = "soak_peer_" ++ os:getpid(),
    %% Controlled by its standard input, whatever happens to the distribution.
    {ok, Peer, Node} = peer:start_link(#{connection => standard_io, wait_boot => ?PATIENCE_MS,
        args => ["-name", Name ++ "@127.0.0.1", "-args_file", os:getenv("SOAK_VM_ARGS"),
                 "-pa", filename:dirname(code:which(?MODULE))]}),
    true = peer:call(Peer, ?MODULE, serve, [], ?PATIENCE_MS),
    #{peer => Peer, node => Node};
open(_) -> none.

close(distribution, #{peer := Peer}) ->
    unlink(Peer),
    ok = peer:stop(Peer),
    _ = net_kernel:stop(),
    ok;
close(_, _) -> ok.

step(ports, N, none) ->
    Port = open_port({spawn_executable, os:find_executable("cat")}, [binary, stream]),
    Bytes = binary:copy(<<N:32>>, 5000),
    true = port_command(Port, Bytes),
    Bytes = echoed(Port, byte_size(Bytes), []),
    true = port_close(Port),
    [] = [P || P <- erlang:ports(), P =:= Port],
    none;
step(dirty_work, _, Answer) -> Answer = running_test_nif:dirty_spin(2000000);
%% Nobody interrupts what sleeps outside of the schedulers.
step(dirty_sleep, _, none) ->
    0 = running_test_nif:dirty_sleep(15),
    none;
step(nif_pipe, _, none) ->
    {50000, 0} = running_test_nif:pipe_through(50000),
    timer:sleep(1),
    none;
step(distribution, N, #{node := Node} = State) ->
    ok = ensure_named(),
    true = await_connected(Node),
    true = lists:member(Node, nodes(connected)),
    Monitor = erlang:monitor(process, {?MODULE, Node}),
    _ = [ok = echo(Node, Monitor, K, binary:copy(<<N:32, K:32>>, 1 bsl K))
        || K <- lists:seq(0, 13)],
    %% Both see it go.
    true = erlang:disconnect_node(Node),
    receive
        {'DOWN', Monitor, process, _, noconnection} -> ok
    after ?PATIENCE_MS -> error(no_word_of_the_disconnect)
    end,
    false = lists:member(Node, nodes(connected)),
    N rem ?NAMED_STEPS =:= 0 andalso (ok = net_kernel:stop()),
    timer:sleep(50),
    State.

%% The supervisor of OTP's distribution kills what has not ended two seconds after it was
%% told to, and where the machine is that slow, what it starts next may find a name
%% still taken: it is started again until it is up.
ensure_named() -> ensure_named(until()).

ensure_named(Until) ->
    Name = list_to_atom("soak_" ++ os:getpid() ++ "@127.0.0.1"),
    case is_alive() orelse net_kernel:start([Name, longnames]) of
        true -> ok;
        {ok, _} -> ok;
        {error, Reason} ->
            not_later_than(Until, Reason),
            _ = net_kernel:stop(),
            ensure_named(Until)
    end.

%% The other side may not have noticed yet that the connection before is no more. And a
%% distribution of which a part was killed (see above) connects to nobody, whom it has
%% to be started anew for.
await_connected(Node) ->
    await_connected(Node, until()) orelse
        begin
            io:format("distribution: started anew, as it does not connect~n"),
            _ = net_kernel:stop(),
            ok = ensure_named(),
            await_connected(Node, until()) orelse error({not_connected, Node})
        end.

await_connected(Node, Until) ->
    net_kernel:connect_node(Node) =:= true orelse
        (erlang:monotonic_time(millisecond) < Until andalso
            begin
                timer:sleep(20),
                await_connected(Node, Until)
            end).

until() -> erlang:monotonic_time(millisecond) + ?PATIENCE_MS.

not_later_than(Until, Reason) ->
    erlang:monotonic_time(millisecond) < Until orelse error(Reason),
    timer:sleep(20).

echo(Node, Monitor, K, Bytes) ->
    {?MODULE, Node} ! {self(), K, Bytes, self()},
    receive
        {echo, K, Bytes, Self} when Self =:= self() -> ok;
        {'DOWN', Monitor, process, _, Reason} -> error({gone, Reason})
    after ?PATIENCE_MS -> error({no_echo, K})
    end.

%% On the peer.
serve() -> register(?MODULE, spawn(fun serving/0)).

serving() ->
    receive {From, K, Bytes, Term} -> From ! {echo, K, Bytes, Term} end,
    serving().

echoed(_, 0, Acc) -> iolist_to_binary(lists:reverse(Acc));
echoed(Port, Left, Acc) ->
    receive
        {Port, {data, Bytes}} -> echoed(Port, Left - byte_size(Bytes), [Bytes | Acc])
    after ?PATIENCE_MS -> error({port_is_silent, Left})
    end.
