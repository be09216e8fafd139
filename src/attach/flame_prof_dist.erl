%% @private The distribution protocol of a command (`-proto_dist flame_prof'): OTP's protocol over
%% TCP, by IPv4 or IPv6 as the host of each node requires. It never cuts the connection of another
%% command.
%%
%% Commands share a few names (flame_prof_remote), because each name stays in the other node as an
%% atom. If the other node is already connected to a node of the same name, it asks whether to end
%% that connection, and OTP's code confirms. This module closes the new connection instead, and
%% remembers that the name is taken.
%%
%% This module is also the driver for IPv4 that OTP calls; flame_prof_dist6 is the one for IPv6.
-module(flame_prof_dist).

-export([is_taken/0]).
%% As a module of `-proto_dist'.
-export([select/1, setup/5, address/0, close/1, is_node_name/1, setopts/2, getopts/2]).
%% As a driver.
-export([family/0, parse_address/1, connect/3, send/2, send/3, recv/3]).

%% @doc Whether the other node has refused the name of this node since the last call.
-spec is_taken() -> boolean().
is_taken() -> persistent_term:erase(?MODULE).

-spec select(node()) -> boolean().
select(Node) -> inet_tcp_dist:is_node_name(Node).

-spec setup(node(), term(), node(), longnames | shortnames, term()) -> pid().
setup(Node, Type, Own, Domain, SetupTime) ->
    [_, Host] = string:split(atom_to_list(Node), "@"),
    Driver = case flame_prof_epmd:family(Host) of
        inet -> ?MODULE;
        inet6 -> flame_prof_dist6
    end,
    inet_tcp_dist:gen_setup(Driver, Node, Type, Own, Domain, SetupTime).

-spec address() -> term().
address() -> inet_tcp_dist:address().

-spec close(port()) -> ok.
close(Socket) -> inet_tcp:close(Socket).

-spec is_node_name(node()) -> boolean().
is_node_name(Node) -> inet_tcp_dist:is_node_name(Node).

-spec setopts(port(), list()) -> ok | {error, term()}.
setopts(Socket, Options) -> inet_tcp_dist:setopts(Socket, Options).

-spec getopts(port(), list()) -> {ok, list()} | {error, term()}.
getopts(Socket, Options) -> inet_tcp_dist:getopts(Socket, Options).

-spec family() -> inet.
family() -> inet.

%% @doc Behind `--port' the host of a name may have another family.
-spec parse_address(string()) -> {ok, inet:ip_address()} | {error, einval}.
parse_address(Host) -> inet:parse_strict_address(Host).

-spec connect(inet:ip_address(), inet:port_number(), list()) -> {ok, port()} | {error, term()}.
connect(Address, Port, Options) -> inet_tcp:connect(Address, Port, Options).

-spec send(port(), iodata()) -> ok | {error, term()}.
send(Socket, Data) -> inet_tcp:send(Socket, Data).

-spec send(port(), iodata(), list()) -> ok | {error, term()}.
send(Socket, Data, Options) -> inet_tcp:send(Socket, Data, Options).

%% @doc During the handshake only. `alive': a node of this name is connected, or its end is not yet
%% known. `nok': the other node tries to connect to a node of this name, which has ended.
-spec recv(port(), non_neg_integer(), timeout()) -> {ok, term()} | {error, term()}.
recv(Socket, Length, Timeout) ->
    case inet_tcp:recv(Socket, Length, Timeout) of
        {ok, Status} when Status =:= "salive"; Status =:= "snok" ->
            ok = persistent_term:put(?MODULE, taken),
            {error, closed};
        Answer -> Answer
    end.
