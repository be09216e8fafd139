%% @private Which process waits for which: edges to chains, roots and cycles. Pure.
%%
%% A process waits for one thing at a time, so each node has at most one edge that leaves it: the
%% graph is a set of trees, whose roots do not wait, and of cycles with trees at them. All functions
%% are linear in the edges, and none recurses along a chain: a chain may have 100,000 processes.
%%
%% Nodes are processes (of any node), names of other nodes that were not resolved, and locks. An
%% edge to something else (a port, a socket, a timer) ends at its process: that waits, but for no
%% process.
-module(flame_prof_waits_graph).

-export([kinds/0, resolve/2, unresolved/1, new/1, edge/2, all/2, direct/2]).
-export([cycles/1, roots/1, tree/4, chain/2, identity/1, since/3, timed/3]).

-export_type([edge/0, target/0, vertex/0, how/0, tag/0, ref/0, graph/0, cycle/0, tree/0, seen/0]).

-type how() :: call | monitor | monitor_only | named | start | port | socket | timer | lock.
%% doc/waits.md says what each means.

-type target() :: vertex() | port() | lock | port | socket | timer.
%% An atom alone: it is not known which.

-type vertex() :: pid() | {Name :: atom(), node()} | {lock, global, atom()}.

-type tag() :: {atom, atom()} | {tuple, atom(), arity()} | other | unknown.
%% The tag of the request. `other': it has no such atom.

-type ref() :: {non_neg_integer(), non_neg_integer(), non_neg_integer()}.

-type edge() ::
    #{
        from := pid(),
        to := target(),
        how := how(),
        tag := tag(),
        ref := ref() | none,
        site := mfa() | none,
        since_ms => non_neg_integer()
    }.
%% `ref': of the call; no two calls have the same. `site': the function in which the process waits.
%% `since_ms': it has waited at least that long ({@link timed/3}).

-opaque graph() ::
    #{
        out := #{pid() => edge()},
        in := #{vertex() => [pid()]},
        all := #{vertex() => pos_integer()},
        rings := #{pid() => true}
    }.
%% `all': by node, the processes that wait for it, directly or through others, without those of
%% its own cycle. `rings': all processes in cycles.

-type cycle() :: #{edges := [edge(), ...], is_certain := boolean()}.
%% In the order of waiting; the last edge leads to the first process. `is_certain': each edge is
%% one that only its target ends.

-type tree() ::
    #{
        edge := edge(),
        direct := non_neg_integer(),
        all := non_neg_integer(),
        waiters := [tree()],
        more := non_neg_integer()
    }.
%% A process that waits, and the processes that wait for it, those with the most waiters first.
%% `more': direct waiters that are left out.

-type seen() :: #{term() => integer()}.
%% When a look that had it has ended.

-spec kinds() -> [how()].
kinds() -> [call, monitor, monitor_only, named, start, port, socket, timer, lock].

%% @doc Names are replaced by their processes.
-spec resolve([edge()], #{{atom(), node()} => pid()}) -> [edge()].
resolve(Edges, Names) when map_size(Names) =:= 0 ->
    Edges;
resolve(Edges, Names) ->
    [Edge#{to := maps:get(To, Names, To)} || #{to := To} = Edge <- Edges].

-spec unresolved([edge()]) -> [{atom(), node()}].
unresolved(Edges) ->
    lists:usort([{Name, Node} || #{to := {Name, Node}} <- Edges]).

%% @doc Of two edges of a process the first counts.
-spec new([edge()]) -> graph().
new(Edges) ->
    Out = lists:foldl(fun leaving/2, #{}, Edges),
    In = maps:fold(
        fun(From, #{to := To}, In) ->
            maps:update_with(To, fun(Froms) -> [From | Froms] end, [From], In)
        end,
        #{},
        Out
    ),
    Several = maps:from_list([{To, length(Froms)} || {To, [_, _ | _] = Froms} <- maps:to_list(In)]),
    Leaves = [From || From <- maps:keys(Out), not is_map_key(From, In)],
    {All, Left} = counted(Leaves, Out, Several, #{}),
    Rings = [{Node, true} || Node <- maps:keys(In), is_map_key(Node, Out),
        maps:get(Node, Left, 1) > 0, is_map_key(Node, Several) orelse not is_map_key(Node, All)],
    #{out => Out, in => In, all => All, rings => maps:from_list(Rings)}.

leaving(#{from := From, to := To} = Edge, Out) ->
    case is_vertex(To) andalso not is_map_key(From, Out) of
        true -> Out#{From => Edge};
        false -> Out
    end.

is_vertex(To) -> is_pid(To) orelse is_tuple(To).

%% Processes for which no other one waits are taken away, again and again. The other processes wait
%% in cycles, or do not wait. `Left': of nodes with several waiters, those that are not taken away.
counted([], _Out, Left, All) ->
    {All, Left};
counted([Leaf | Leaves], Out, Left, All) ->
    {LeftNow, AllNow} = climbed(Leaf, 0, Out, Left, All),
    counted(Leaves, Out, LeftNow, AllNow).

climbed(Node, Behind, Out, Left, All) ->
    case Out of
        #{Node := #{to := To}} ->
            case Left of
                #{To := Several} ->
                    Sum = maps:get(To, All, 0) + Behind + 1,
                    Fewer = Left#{To := Several - 1},
                    case Several of
                        1 -> climbed(To, Sum, Out, Fewer, All#{To => Sum});
                        _ -> {Fewer, All#{To => Sum}}
                    end;
                #{} ->
                    climbed(To, Behind + 1, Out, Left, All#{To => Behind + 1})
            end;
        #{} ->
            {Left, All}
    end.

-spec edge(term(), graph()) -> edge() | none.
edge(Node, #{out := Out}) -> maps:get(Node, Out, none).

%% @doc How many wait for it, directly or through others.
-spec all(vertex(), graph()) -> non_neg_integer().
all(Node, #{all := All}) -> maps:get(Node, All, 0).

-spec direct(vertex(), graph()) -> non_neg_integer().
direct(Node, #{in := In}) -> length(maps:get(Node, In, [])).

%% @doc Those with the most waiters first, each from its least process on.
-spec cycles(graph()) -> [cycle()].
cycles(#{rings := Rings} = Graph) ->
    sorted(cycles(lists:sort(maps:keys(Rings)), Graph, #{}, [])).

cycles([], _Graph, _Done, Cycles) ->
    Cycles;
cycles([Pid | Pids], Graph, Done, Cycles) when is_map_key(Pid, Done) ->
    cycles(Pids, Graph, Done, Cycles);
cycles([Pid | Pids], Graph, Done, Cycles) ->
    Edges = ring(edge(Pid, Graph), Pid, Graph, []),
    Members = maps:from_list([{From, true} || #{from := From} <- Edges]),
    Cycle = #{edges => Edges, is_certain => lists:all(fun is_certain/1, Edges)},
    Waiters = lists:sum([all(From, Graph) || From <- maps:keys(Members)]),
    cycles(Pids, Graph, maps:merge(Done, Members), [{-Waiters, Pid, Cycle} | Cycles]).

ring(#{to := First} = Edge, First, _Graph, Edges) ->
    lists:reverse(Edges, [Edge]);
ring(#{to := To} = Edge, First, Graph, Edges) ->
    ring(edge(To, Graph), First, Graph, [Edge | Edges]).

sorted(Ranked) -> [What || {_, _, What} <- lists:sort(Ranked)].

%% A receive of the program's own may take other messages, too: `monitor'.
is_certain(#{how := How}) -> lists:member(How, [call, monitor_only, start]).

%% @doc What is waited for and does not wait for a process itself, that with the most waiters
%% first.
-spec roots(graph()) -> [vertex()].
roots(#{in := In, out := Out} = Graph) ->
    sorted([{-all(Node, Graph), Node, Node} || Node <- maps:keys(In), not is_map_key(Node, Out)]).

%% @doc The processes that wait for it, without those of its own cycle (a process outside has none
%% of a cycle behind it): so many levels, so many of the first and half as many of each further one,
%% three at least. Also how many direct waiters were left out.
-spec tree(vertex(), graph(), Levels :: non_neg_integer(), Width :: pos_integer()) ->
    {[tree()], More :: non_neg_integer()}.
tree(Node, #{in := In, rings := Rings} = Graph, Levels, Width) ->
    Waiters = [P || P <- maps:get(Node, In, []), not is_map_key(P, Rings)],
    Shown =
        case Levels of
            0 -> [];
            _ -> lists:sublist(sorted([{-all(P, Graph), P, P} || P <- Waiters]), Width)
        end,
    Next = max(min(3, Width), Width div 2),
    {[branch(Pid, Graph, Levels - 1, Next) || Pid <- Shown], length(Waiters) - length(Shown)}.

branch(Pid, Graph, Levels, Width) ->
    {Waiters, More} = tree(Pid, Graph, Levels, Width),
    #{
        edge => edge(Pid, Graph),
        direct => direct(Pid, Graph),
        all => all(Pid, Graph),
        waiters => Waiters,
        more => More
    }.

%% @doc The edges from a process to the end of its waiting: a root, or into a cycle.
-spec chain(pid(), graph()) -> {[edge()], {root, vertex()} | cycle}.
chain(Pid, Graph) -> chain(Pid, Graph, #{}, []).

chain(Node, _Graph, Passed, Edges) when is_map_key(Node, Passed) ->
    {lists:reverse(Edges), cycle};
chain(Node, Graph, Passed, Edges) ->
    case edge(Node, Graph) of
        none -> {lists:reverse(Edges), {root, Node}};
        #{to := To} = Edge -> chain(To, Graph, Passed#{Node => true}, [Edge | Edges])
    end.

%% Times.

%% @doc What two looks have to have in common to have seen the same wait. `none': two waits of a
%% process cannot be told apart. A process is started once.
-spec identity(edge()) -> {pid(), ref() | pid()} | none.
identity(#{from := From, ref := {_, _, _} = Ref}) -> {From, Ref};
identity(#{from := From, how := start, to := To}) when is_pid(To) -> {From, To};
identity(_) -> none.

%% @doc What one look more has seen, which ended then.
-spec since([edge()], seen(), EndedMs :: integer()) -> seen().
since(Edges, Seen, Ended) ->
    maps:from_list([{Id, maps:get(Id, Seen, Ended)}
        || Edge <- Edges, Id <- [identity(Edge)], Id =/= none]).

%% @doc With `since_ms' of those that the looks before this one have seen, too: from the end of the
%% first of these to the begin of this one.
-spec timed([edge()], seen(), BegunMs :: integer()) -> [edge()].
timed(Edges, Seen, Begun) when map_size(Seen) > 0 ->
    [timed_one(Edge, maps:get(identity(Edge), Seen, none), Begun) || Edge <- Edges];
timed(Edges, _Seen, _Begun) ->
    Edges.

timed_one(Edge, none, _Begun) -> Edge;
timed_one(Edge, First, Begun) -> Edge#{since_ms => max(0, Begun - First)}.
