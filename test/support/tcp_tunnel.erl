%% What `ssh -L' is to a connection: another port of this machine that leads to one.
-module(tcp_tunnel).

-export([through/2]).

-spec through(inet:port_number(), fun((inet:port_number()) -> Answer)) -> Answer.
through(Port, Fun) ->
    {ok, Listening} = gen_tcp:listen(0, [binary, {ip, {127, 0, 0, 1}}, {active, false},
        {reuseaddr, true}]),
    {ok, Local} = inet:port(Listening),
    Tunnel = spawn(fun() -> accept(Listening, Port) end),
    ok = gen_tcp:controlling_process(Listening, Tunnel),
    try Fun(Local)
    after exit(Tunnel, kill)
    end.

accept(Listening, Port) ->
    {ok, Near} = gen_tcp:accept(Listening),
    Connection = spawn_link(fun() -> receive go -> connected(Near, Port) end end),
    ok = gen_tcp:controlling_process(Near, Connection),
    Connection ! go,
    accept(Listening, Port).

connected(Near, Port) ->
    {ok, Far} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, true}]),
    ok = inet:setopts(Near, [{active, true}]),
    both(Near, Far).

both(Near, Far) ->
    receive
        {tcp, Near, Bytes} -> sent(gen_tcp:send(Far, Bytes), Near, Far);
        {tcp, Far, Bytes} -> sent(gen_tcp:send(Near, Bytes), Near, Far);
        {tcp_closed, _} -> ok;
        {tcp_error, _, _} -> ok
    end.

sent(ok, Near, Far) -> both(Near, Far);
sent({error, _}, _Near, _Far) -> ok.
