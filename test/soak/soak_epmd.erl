%% In the place of epmd (-epmd_module), so that distribution comes and goes without
%% a daemon that outlives the test, and in changed roots too: a node's port is in a
%% file of the directory that SOAK_PORTS names.
-module(soak_epmd).

-export([start_link/0, register_node/2, register_node/3, listen_port_please/2]).
-export([port_please/2, port_please/3, address_please/3, names/1]).

-define(VERSION, 6).

start_link() -> ignore.

register_node(Name, Port) -> register_node(Name, Port, inet).

register_node(Name, Port, _Family) ->
    %% Raw: at the start of a node there is no file server yet.
    ok = file:write_file(file(Name), integer_to_list(Port), [raw]),
    {ok, 1 + erlang:unique_integer([positive, monotonic]) rem 16#7fffffff}.

listen_port_please(_Name, _Host) -> {ok, 0}.

port_please(Name, Host) -> port_please(Name, Host, infinity).

port_please(Name, _Host, _Timeout) ->
    case file:read_file(file(Name)) of
        {ok, Port} -> {port, binary_to_integer(Port), ?VERSION};
        {error, _} -> noport
    end.

address_please(_Name, _Host, inet) -> {ok, {127, 0, 0, 1}};
address_please(_Name, _Host, _) -> {error, eafnosupport}.

names(_Host) -> {error, address}.

file(Name) when is_atom(Name) -> file(atom_to_list(Name));
file(Name) -> filename:join(os:getenv("SOAK_PORTS", "/nowhere"), Name ++ ".port").
