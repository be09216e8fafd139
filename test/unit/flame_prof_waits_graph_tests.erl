%% Chains, roots and cycles of graphs, against an oracle that knows reachability only.
-module(flame_prof_waits_graph_tests).

-ifdef(PROPER).
-include_lib("proper/include/proper.hrl").
-endif.
-include_lib("eunit/include/eunit.hrl").

-define(G, flame_prof_waits_graph).

%% Numbers as nodes: names of another node, which are nodes as processes are.
n(I) -> {list_to_atom("p" ++ integer_to_list(I)), there}.

edge(From, To) -> edge(From, To, call).

edge(From, To, How) ->
    #{from => n(From), to => n(To), how => How, tag => unknown, ref => {From, 0, 0},
        site => {gen, do_call, 4}}.

graph(Pairs) -> ?G:new([edge(From, To) || {From, To} <- Pairs]).
members(Graph) -> [[From || #{from := From} <- Edges] || #{edges := Edges} <- ?G:cycles(Graph)].

nothing_waits_test() ->
    ?assertEqual([], ?G:cycles(?G:new([]))),
    ?assertEqual([], ?G:roots(?G:new([]))).

a_chain_has_one_root_for_which_all_wait_test() ->
    Graph = graph([{1, 2}, {2, 3}, {3, 4}, {5, 3}]),
    ?assertEqual([n(4)], ?G:roots(Graph)),
    ?assertEqual({4, 1}, {?G:all(n(4), Graph), ?G:direct(n(4), Graph)}),
    ?assertEqual({3, 2}, {?G:all(n(3), Graph), ?G:direct(n(3), Graph)}),
    {Edges, End} = ?G:chain(n(1), Graph),
    ?assertEqual({root, n(4)}, End),
    ?assertEqual([n(1), n(2), n(3)], [From || #{from := From} <- Edges]),
    ?assertEqual({[], {root, n(4)}}, ?G:chain(n(4), Graph)),
    ?assertEqual([], ?G:cycles(Graph)).

the_root_with_the_most_waiters_is_first_test() ->
    ?assertEqual([n(9), n(8)], ?G:roots(graph([{1, 8}, {2, 9}, {3, 2}]))).

a_cycle_is_told_in_the_order_of_waiting_test() ->
    Graph = graph([{3, 1}, {1, 2}, {2, 3}, {4, 1}, {5, 4}]),
    [[First | _] = Cycle] = members(Graph),
    ?assertEqual(lists:sort([n(1), n(2), n(3)]), lists:sort(Cycle)),
    [#{edges := Edges, is_certain := true}] = ?G:cycles(Graph),
    ?assertEqual(tl(Cycle) ++ [First], [To || #{to := To} <- Edges]),
    ?assertEqual([], ?G:roots(Graph)),
    ?assertEqual(2, ?G:all(n(1), Graph)),
    ?assertMatch({_, cycle}, ?G:chain(n(5), Graph)),
    %% Those of the cycle itself are not told as its waiters.
    {[#{edge := #{from := Waiter}, all := 1}], 0} = ?G:tree(n(1), Graph, 3, 5),
    ?assertEqual(n(4), Waiter).

a_process_that_waits_for_itself_is_a_cycle_of_one_test() ->
    ?assertEqual([[n(1)]], members(graph([{1, 1}, {2, 1}]))).

a_cycle_with_a_monitor_is_not_certain_test() ->
    [#{is_certain := false}] = ?G:cycles(?G:new([edge(1, 2), edge(2, 1, monitor)])),
    [#{is_certain := true}] = ?G:cycles(?G:new([edge(1, 2), edge(2, 1, start)])).

what_waits_for_no_process_is_a_root_test() ->
    Port = (edge(2, 3, port))#{to := hd(erlang:ports())},
    Timer = (edge(4, 5, timer))#{to := timer},
    Graph = ?G:new([edge(1, 2), Port, Timer]),
    ?assertEqual([n(2)], ?G:roots(Graph)).

names_are_replaced_by_their_processes_test() ->
    Edges = [edge(1, 2), edge(2, 3), (edge(4, 5, lock))#{to := {lock, global, shop}}],
    ?assertEqual([n(2), n(3)], ?G:unresolved(Edges)),
    [#{to := Self}, #{to := To}, _] = ?G:resolve(Edges, #{n(2) => self()}),
    ?assertEqual({self(), n(3)}, {Self, To}).

a_tree_is_cut_and_says_by_how_much_test() ->
    Graph = graph([{I, 1} || I <- lists:seq(2, 11)] ++ [{I, 2} || I <- lists:seq(20, 29)]),
    {[Tree | Rest], 4} = ?G:tree(n(1), Graph, 2, 6),
    #{edge := #{from := First}, all := 10, direct := 10, waiters := Below, more := 7} = Tree,
    ?assertEqual(n(2), First),
    ?assertEqual({3, 5}, {length(Below), length(Rest)}),
    ?assertEqual({[], 10}, ?G:tree(n(1), Graph, 0, 6)).

%% Times.

the_same_reference_is_the_same_wait_test() ->
    One = edge(1, 2),
    Other = One#{ref := {9, 9, 9}},
    Weak = One#{ref := none},
    Seen = ?G:since([One, Weak], #{}, 100),
    ?assertMatch([#{since_ms := 400}, Other, Weak], ?G:timed([One, Other, Weak], Seen, 500)),
    %% The first look counts; one that did not see it begins anew.
    Later = ?G:since([One, Other], Seen, 510),
    [#{since_ms := 900}, #{since_ms := 490}] = ?G:timed([One, Other], Later, 1000),
    [One] = ?G:timed([One], ?G:since([Other], Later, 600), 1000).

a_started_child_is_the_same_wait_test() ->
    Start = (edge(1, 2, start))#{to := self(), ref := none},
    ?assertMatch([#{since_ms := 5}], ?G:timed([Start], ?G:since([Start], #{}, 0), 5)).

%% Cycles of 2 to 50 in one graph, with chains at them, each once, and no others.
seeded_cycles_of_2_to_50_are_all_found_test() ->
    Sizes = lists:seq(2, 50),
    Rings = [[1000 * Size + I || I <- lists:seq(1, Size)] || Size <- Sizes],
    Pairs = lists:append([lists:zip(Ring, tl(Ring) ++ [hd(Ring)]) || Ring <- Rings]),
    Chains = [{1000 * Size + 500 + I, 1000 * Size + 500 + I - 1} || Size <- Sizes,
        I <- lists:seq(1, 20)] ++ [{1000 * Size + 500, 1000 * Size + 1} || Size <- Sizes],
    Shuffled = [Pair || {_, Pair} <- lists:sort([{erlang:phash2(P), P} || P <- Pairs ++ Chains])],
    Graph = graph(Shuffled),
    ?assertEqual(lists:sort([lists:sort([n(I) || I <- Ring]) || Ring <- Rings]),
        lists:sort([lists:sort(Cycle) || Cycle <- members(Graph)])),
    ?assertEqual([], ?G:roots(Graph)).

%% No recursion along a chain: with the heap of the stack that would take, this fails.
a_chain_of_100_000_fits_into_little_memory_test() ->
    Count = 100000,
    Edges = [(edge(0, 0))#{from := {p, I}, to := {p, I + 1}} || I <- lists:seq(1, Count)],
    Graph = ?G:new(Edges),
    Root = {p, Count + 1},
    ?assertEqual([Root], ?G:roots(Graph)),
    ?assertEqual(Count, ?G:all(Root, Graph)),
    {Chain, {root, Root}} = ?G:chain({p, 1}, Graph),
    ?assertEqual(Count, length(Chain)),
    Ring = ?G:new([(edge(0, 0))#{from := Root, to := {p, 1}} | Edges]),
    [#{edges := All}] = ?G:cycles(Ring),
    ?assertEqual(Count + 1, length(All)).

-ifdef(PROPER).

%% Any graph in which each node waits for one at most.
pairs() -> ?LET(Pairs, list({range(1, 25), range(1, 25)}), lists:ukeysort(1, Pairs)).

reachable(Pairs) -> closure(ordsets:from_list(Pairs), Pairs).

closure(Known, Pairs) ->
    More = ordsets:union(Known, ordsets:from_list(
        [{A, C} || {A, B} <- Known, {B1, C} <- Pairs, B1 =:= B])),
    case More of Known -> Known; _ -> closure(More, Pairs) end.

what_is_found_is_what_reachability_says_test_() ->
    Property = ?FORALL(Pairs, pairs(),
        begin
            Reach = reachable(Pairs),
            Can = fun(A, B) -> ordsets:is_element({A, B}, Reach) end,
            Nodes = lists:usort(lists:append([[A, B] || {A, B} <- Pairs])),
            Cycles = lists:usort([[B || B <- Nodes, Can(A, B), Can(B, A)]
                || A <- Nodes, Can(A, A)]),
            Roots = [B || {_, B} <- Pairs, not lists:keymember(B, 1, Pairs)],
            %% Of a cycle those that wait for any of it.
            Behind = [{B, length([A || A <- Nodes, Can(A, B), not Can(B, A)])} || B <- Nodes],
            Graph = graph(Pairs),
            Found = [lists:sort([number(N) || N <- C]) || C <- members(Graph)],
            Cycles =:= lists:sort(Found)
                andalso lists:usort(Roots) =:= lists:sort([number(N) || N <- ?G:roots(Graph)])
                andalso Behind =:= [{B, all(ring(B, Can, Nodes), Graph)} || B <- Nodes]
                andalso lists:all(fun(B) -> is_tree_whole(B, Graph, Can, Nodes) end, Nodes)
        end),
    seeded:property(Property, 1000).

number({Name, there}) -> list_to_integer(tl(atom_to_list(Name))).
all(Ring, Graph) -> lists:sum([?G:all(n(Node), Graph) || Node <- Ring]).

ring(Node, Can, Nodes) ->
    [B || B <- Nodes, B =:= Node orelse (Can(B, Node) andalso Can(Node, B))].

%% Wide and deep enough, the trees of a node's whole cycle have every waiter once.
is_tree_whole(Node, Graph, Can, Nodes) ->
    Found = [flat(Trees) || B <- ring(Node, Can, Nodes),
        {Trees, 0} <- [?G:tree(n(B), Graph, 30, 100000)]],
    lists:sort(lists:append(Found)) =:= [A || A <- Nodes, Can(A, Node), not Can(Node, A)].

flat(Trees) ->
    lists:append([[number(From) | flat(Waiters)]
        || #{edge := #{from := From}, waiters := Waiters} <- Trees]).

-endif.
