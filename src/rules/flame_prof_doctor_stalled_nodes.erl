%% @private A connection to another node that is being set up, and is not ready.
%%
%% == False alarms ==
%% A node that is down refuses at once, and one that answers is connected within milliseconds: the
%% connection is being set up at the first look and at the last.
-module(flame_prof_doctor_stalled_nodes).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [seconds/1]).

kind() -> stalled.

needs() -> [system].

thresholds() ->
    [{node_waiting, 3, <<"processes that wait for a connection to a node: a warning">>}].

find(#{system := {#{pending := Were}, #{pending := Are}}} = Evidence, Limits) ->
    %% Which node a call to net_kernel is about is not known.
    IsConnect = case Are of [_] -> fun is_connect/1; _ -> fun(_) -> false end end,
    [finding(Node, waiters(Node, IsConnect, Evidence), Evidence, Limits)
        || Node <- Are, lists:member(Node, Were)];
find(_, _) ->
    {unseen, <<"connections to other nodes are not known">>}.

%% Those who call processes there, and those who ask net_kernel for the connection.
waiters(Node, IsConnect, #{waits := #{edges := Edges} = Look}) ->
    [flame_prof_doctor_waits:process(From, Look)
        || #{from := From, to := To} = Edge <- Edges, is_there(Node, To) orelse IsConnect(Edge)];
waiters(_, _, _) ->
    [].

is_there(Node, Pid) when is_pid(Pid) -> node(Pid) =:= Node;
is_there(Node, {_, Of}) -> Of =:= Node;
is_there(_, _) -> false.

is_connect(#{tag := {tuple, connect, _}, site := {gen, _, _}}) -> true;
is_connect(_) -> false.

finding(Node, Waiters, #{span_us := Us} = Evidence, #{node_waiting := Many}) ->
    Looks = case Evidence of #{waits := #{looks := Of}} -> Of; #{} -> 2 end,
    #{
        kind => kind(),
        severity => case length(Waiters) >= Many of true -> warning; false -> note end,
        size => length(Waiters),
        title => ["the connection to ", atom_to_binary(Node), " is being set up, and is not ready"],
        sentences => [
            ["It was so at the first look and at the last, ", seconds(Us), " apart."],
            case length(Waiters) of
                0 -> "No process waits for it now.";
                N -> [flame_prof_doctor_rule:count(N, "process"), " wait for it, seen in ",
                    flame_prof_doctor_rule:count(Looks, "look"), "."]
            end,
            "Its host or its port does not answer, or it does so without the handshake of nodes."
        ],
        command => "flame_prof waits NODE",
        processes => [],
        waiters => lists:sublist(Waiters, 20),
        numbers => #{waiting => length(Waiters), looks => Looks, span_us => Us}
    }.
