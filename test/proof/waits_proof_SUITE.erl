%% Edges of waits beside storms: how many are wrong, and how many callers one look names.
-module(waits_proof_SUITE).

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, edges_beside_a_storm/1,
    false_edges_of_servers_that_work/1, callers_that_are_named/1]).

suite() -> [{timetrap, {minutes, 10}}].
all() -> [edges_beside_a_storm, false_edges_of_servers_that_work, callers_that_are_named].

init_per_suite(Config) ->
    case native_node:why_not() of
        none -> ok = waits_work:know_sites(), Config;
        Why -> {skip, Why}
    end.

end_per_suite(_) -> ok.

edges_beside_a_storm(_) ->
    #{edges := Edges, moved := Moved, wrong := Wrong} = waits_storm:edges(100000),
    proof:figure("waits: wrong edges of ~w beside a storm, ~w processes moved", [Edges, Moved],
        length(Wrong), none, "0").

false_edges_of_servers_that_work(_) ->
    #{edges := Edges, wrong := Wrong} = waits_work:false_edges(200),
    proof:figure("waits: wrong edges of ~w in 200 looks at servers that work", [Edges],
        length(Wrong), none, "0").

callers_that_are_named(_) ->
    {Named, Counts} = waits_storm:blocked(10000),
    ct:pal("~p", [Counts]),
    proof:figure("waits: callers of 10,000 that one look names beside a storm", [], Named, none,
        "9990").
