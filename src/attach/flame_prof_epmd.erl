%% @private Where other nodes are found: at the port that a person names (`--port'), else as epmd
%% says. bin/flame_prof starts Erlang with it (`-epmd_module').
%%
%% A node of which epmd knows nothing, `-start_epmd false', listens at a port of its
%% configuration. One behind `ssh -L' is at a port of this machine, whatever host its name has.
%%
%% A host is reached by IPv4 if it has such an address, else by IPv6.
-module(flame_prof_epmd).

-export([use/2, port_of/2, address/1, registered/1, family/1]).
%% As the module erl_epmd.
-export([start_link/0, register_node/3, address_please/3, port_please/2, listen_port_please/2,
    names/1]).

%% Of OTP's protocol, 23 and newer.
-define(DISTRIBUTION_VERSION, 6).

%% @doc Every node is at this port: of its host, or of another one.
-spec use(host | string(), inet:port_number()) -> ok.
use(Host, Port) ->
    persistent_term:put(?MODULE, {Host, Port}).

%% @doc Where a node listens.
-spec port_of(Alive :: string(), Host :: string()) ->
    {ok, Host :: string(), inet:port_number()} | error.
port_of(Alive, Host) ->
    case persistent_term:get(?MODULE, none) of
        {host, Port} -> {ok, Host, Port};
        {Other, Port} -> {ok, Other, Port};
        none ->
            case at_address(Host, fun(Address) -> erl_epmd:port_please(Alive, Address) end) of
                {port, Port, _} -> {ok, Host, Port};
                _ -> error
            end
    end.

%% @doc The names of all nodes of a host, with their ports.
-spec registered(string()) -> {ok, [{string(), inet:port_number()}]} | {error, term()}.
registered(Host) -> at_address(Host, fun erl_epmd:names/1).

at_address(Host, Fun) ->
    case address(Host) of
        {ok, Address} -> Fun(Address);
        {error, _} = Error -> Error
    end.

-spec address(string()) -> {ok, inet:ip_address()} | {error, inet:posix()}.
address(Host) ->
    case inet:getaddr(Host, inet) of
        {ok, _} = Address -> Address;
        {error, _} = Error ->
            case inet:getaddr(Host, inet6) of
                {ok, _} = Address -> Address;
                {error, _} -> Error
            end
    end.

%% @doc The address family by which nodes of that host are reached.
-spec family(string()) -> inet | inet6.
family(Host) ->
    Reached = case persistent_term:get(?MODULE, none) of
        {Other, _} when is_list(Other) -> Other;
        _ -> Host
    end,
    case address(Reached) of
        {ok, Address} when tuple_size(Address) =:= 8 -> inet6;
        _ -> inet
    end.

-spec start_link() -> {ok, pid()} | ignore | {error, term()}.
start_link() -> erl_epmd:start_link().

-spec register_node(string(), inet:port_number(), atom()) -> {ok, term()} | {error, term()}.
register_node(Name, Port, Family) -> erl_epmd:register_node(Name, Port, Family).

-spec address_please(string(), string(), inet | inet6) ->
    {ok, inet:ip_address()} | {ok, inet:ip_address(), inet:port_number(), pos_integer()}
    | {error, term()}.
address_please(Name, Host, Family) ->
    case persistent_term:get(?MODULE, none) of
        none -> erl_epmd:address_please(Name, Host, Family);
        {host, Port} -> at(inet:getaddr(Host, Family), Port);
        {Other, Port} -> at(inet:getaddr(Other, Family), Port)
    end.

at({ok, Address}, Port) -> {ok, Address, Port, ?DISTRIBUTION_VERSION};
at({error, _} = Error, _Port) -> Error.

-spec port_please(string(), string() | inet:ip_address()) ->
    {port, inet:port_number(), integer()} | noport | {error, term()}.
port_please(Name, Host) -> erl_epmd:port_please(Name, Host).

-spec listen_port_please(string(), string()) -> {ok, inet:port_number()}.
listen_port_please(Name, Host) -> erl_epmd:listen_port_please(Name, Host).

-spec names(string()) -> {ok, [{string(), inet:port_number()}]} | {error, term()}.
names(Host) -> erl_epmd:names(Host).
