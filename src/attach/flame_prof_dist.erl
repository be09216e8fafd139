%% @private The distribution of a command (`-proto_dist flame_prof'): that of OTP over TCP, by IPv4
%% or IPv6, as the host of each node has it; and it never takes the place of another command.
%%
%% The names of commands are few (flame_prof_remote), as each one is an atom in the other node for
%% ever. A node that is connected to one of the same name asks whether it is to end that connection;
%% OTP says yes. This says nothing, closes its own, and keeps in mind that the name is taken.
%%
%% It is also the driver that OTP's code uses for IPv4; flame_prof_dist6 is the other one.
-module(flame_prof_dist).

-export([is_taken/0]).
%% As a module of `-proto_dist'.
-export([select/1, setup/5, address/0, close/1, is_node_name/1, setopts/2, getopts/2]).
%% As a driver.
-export([family/0, parse_address/1, connect/3, send/2, send/3, recv/3]).

%% @doc Was a connection not made, since this was asked last, because the other node knows another
%% one, or a former one, by the name of this one?
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

%% @doc During the handshake only. `alive': another one is connected, or was and is not yet known
%% to be gone. `nok': the node is about to connect to one of that name, which has ended.
-spec recv(port(), non_neg_integer(), timeout()) -> {ok, term()} | {error, term()}.
recv(Socket, Length, Timeout) ->
    case inet_tcp:recv(Socket, Length, Timeout) of
        {ok, Status} when Status =:= "salive"; Status =:= "snok" ->
            ok = persistent_term:put(?MODULE, taken),
            {error, closed};
        Answer -> Answer
    end.
