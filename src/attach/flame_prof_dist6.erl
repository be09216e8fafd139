%% @private flame_prof_dist as a driver for IPv6.
-module(flame_prof_dist6).

-export([family/0, parse_address/1, connect/3, send/2, send/3, recv/3]).

-spec family() -> inet6.
family() -> inet6.

-spec parse_address(string()) -> {ok, inet:ip_address()} | {error, einval}.
parse_address(Host) -> flame_prof_dist:parse_address(Host).

-spec connect(inet:ip_address(), inet:port_number(), list()) -> {ok, port()} | {error, term()}.
connect(Address, Port, Options) -> inet6_tcp:connect(Address, Port, Options).

-spec send(port(), iodata()) -> ok | {error, term()}.
send(Socket, Data) -> inet6_tcp:send(Socket, Data).

-spec send(port(), iodata(), list()) -> ok | {error, term()}.
send(Socket, Data, Options) -> inet6_tcp:send(Socket, Data, Options).

-spec recv(port(), non_neg_integer(), timeout()) -> {ok, term()} | {error, term()}.
recv(Socket, Length, Timeout) -> flame_prof_dist:recv(Socket, Length, Timeout).
