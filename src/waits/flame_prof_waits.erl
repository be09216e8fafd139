%% @doc Which process waits for which: callers and their servers, chains, what is at their ends,
%% and deadlocks. {@link flame_prof:waits/0} prints it.
%%
%% ```
%% 1> {ok, Look} = flame_prof:look(waits, #{}).
%% 2> [{Process, All} || #{process := Process, all := All} <- maps:get(roots, Look)].
%% 3> {ok, _} = flame_prof:look(waits, #{process => my_server, for => 2000}).
%% 4> flame_prof:waits(my_server).
%% '''
%%
%% doc/waits.md says what each word means, and what is not known.
%%
%% == Why it is safe in production ==
%% The native engine reads the memory of the waiting processes, on a dirty scheduler; no process is
%% interrupted or sent anything. A look at 100,000 processes takes 15 ms of CPU where all are idle
%% servers, and 50 to 65 ms where all are blocked in calls. If the native engine is refused,
%% `process_info/2' is called, with the limits of {@link flame_prof_waits_portable}. Of messages
%% only the tag is read: the atom at the head and the size.
%%
%% Other nodes that are named answer for themselves, by their own flame_prof and at the same time.
%% Nothing is loaded there, and no connection is made.
-module(flame_prof_waits).

-behaviour(flame_prof_look).

-export([look/1, look/2, looks/1, looks/2, page/2, pages/2]).
-export([about/0, takes/0, run/2, text/2, json/1, longest_ms/1]).

-export_type([options/0, look/0, root/0, deadlock/0, told/0, served/0]).

-type options() ::
    #{
        node => node() | flame_prof_options:left_out(),
        for => non_neg_integer() | flame_prof_options:left_out(),
        process => flame_prof_target:target() | flame_prof_options:left_out(),
        top => pos_integer() | flame_prof_options:left_out(),
        nodes => [node()] | connected | flame_prof_options:left_out(),
        edges => non_neg_integer() | infinity | flame_prof_options:left_out(),
        engine => auto | native | portable | flame_prof_options:left_out()
    }.
%% <ul>
%% <li>`for': looks 11 times within so many milliseconds (0: once), at most a minute, and again
%%     50 ms later if there may be a deadlock, at most 11 times. Edges that are the same have
%%     `since_ms'.</li>
%% <li>`process': the chain of this one process only, and the processes that wait for it</li>
%% <li>`top': roots that are told (10)</li>
%% <li>`nodes': connected nodes to ask, too: chains go on there</li>
%% <li>`edges': how many edges JSON has (`infinity'); {@link flame_prof} takes it, and `node'</li>
%% <li>`engine': `auto' takes the native engine where it can be trusted</li>
%% </ul>

-type look() ::
    #{
        node := node(),
        engine := flame_prof_engine:name(),
        engine_reason := binary(),
        looks := pos_integer(),
        edges := [flame_prof_waits_graph:edge()],
        cycles := [[pid()]],
        deadlocks := [deadlock()],
        suspects := [deadlock()],
        unchecked := non_neg_integer(),
        ended := [flame_prof_waits_past:ended()],
        roots := [root()],
        more_roots := non_neg_integer(),
        chain => chain(),
        processes := #{pid() => told()},
        counts := #{node() => #{atom() => non_neg_integer()}},
        receives := [{mfa(), flame_prof_wait_receives:takes(), pos_integer()}],
        unknown := [{mfa(), pos_integer()}],
        missing := #{node() => Why :: binary()}
    }.
%% `cycles' are the processes of `deadlocks', each waiting for the next one and the last for the
%% first. `suspects': cycles that may be none; doc/waits.md says why. `unchecked': so many of these
%% there was no time to check. `ended': deadlocks that a look
%% before the last one has verified, and the last one has not. `processes' are those of
%% cycles, roots and trees, as far as they live. `receives': the functions in which processes wait
%% for messages of certain forms, which no one process sends. `unknown': those in which they wait
%% for something that is not known. `missing': nodes that did not answer.

-type deadlock() ::
    #{
        edges := [flame_prof_waits_graph:edge(), ...],
        all := non_neg_integer(),
        waiters := [flame_prof_waits_graph:tree()],
        more := non_neg_integer(),
        checked => boolean()
    }.
%% `all': the processes outside that wait for it, directly or through others. `checked': of a
%% suspect, whether there was time to look for its requests at their servers.

-type root() ::
    #{
        process := flame_prof_waits_graph:vertex(),
        direct := non_neg_integer(),
        all := non_neg_integer(),
        waiters := [flame_prof_waits_graph:tree()],
        more := non_neg_integer(),
        waits => #{how := flame_prof_waits_graph:how(), to := flame_prof_waits_graph:target()}
    }.
%% `waits': it waits for no process, but for a port, a socket, a timer or a lock.

-type chain() ::
    #{
        process := pid(),
        edges := [flame_prof_waits_graph:edge()],
        ends := {root, flame_prof_waits_graph:vertex()} | cycle,
        direct := non_neg_integer(),
        all := non_neg_integer(),
        waiters := [flame_prof_waits_graph:tree()],
        more := non_neg_integer(),
        waits => #{how := flame_prof_waits_graph:how(), to := flame_prof_waits_graph:target()}
    }.
%% `waits': the process at the end does.

-type told() ::
    #{
        status := flame_prof:status(),
        stack => [flame_prof_pstack:frame()],
        message_queue_len := flame_prof_pstack:figure(),
        memory := flame_prof_pstack:figure(),
        registered_name => atom(),
        label => term(),
        initial_call => mfa(),
        proc_lib_initial_call => mfa(),
        serves => served(),
        takes => flame_prof_wait_receives:takes()
    }.

%% `stack': of roots, of cycles and of a chain. `takes': the messages that the receive takes in
%% which it waits.

-type served() ::
    #{
        kind := atom(),
        tag := flame_prof_waits_graph:tag(),
        ref := flame_prof_waits_graph:ref() | none,
        from := pid() | none,
        module := module()
    }.
%% The message that a server has in work, by its stack.

-define(LOOKS, 11).
-define(PAUSE_LEAST_MS, 50).
-define(FOR_MOST_MS, 60000).
%% For other nodes: their looks, their names, what processes do there.
-define(OTHERS_MS, 15000).
-define(COUNT_MOST, 100000).
%% Of a tree on a page, and of a chain; the rest is counted.
-define(LEVELS, 4).
-define(WIDTH, 8).
-define(ASKED_MOST, 1000).
-define(TOLD_MOST, 1000).
-define(UNKNOWN_MOST, 10).
%% What may be a deadlock is looked at again: so often each time, and so often in all. Servers whose
%% calls look like one now and then do not make each look three.
-define(AGAIN, 2).
-define(AGAIN_IN_ALL, 11).

%% The common data of several looks. `again': looks since the last one that was due. `rings': the
%% cycles of the look before. `proven': the edges of cycles that nobody but their target ends: while
%% an edge stands, its process has done nothing since. `late': those that there was no time to prove
%% in the look before. `missing': nodes that are not asked again.
%% `keeps': are whole looks kept?
-record(looking, {
    options :: map(),
    ask :: flame_prof_waits_nodes:ask(),
    until_ms = none :: integer() | none,
    looks = 1 :: pos_integer(),
    due = 1 :: pos_integer(),
    again = 0 :: non_neg_integer(),
    seen = #{} :: flame_prof_waits_graph:seen(),
    rings = [] :: [[pid()]],
    proven = #{} :: flame_prof_waits_proof:edges(),
    late = #{} :: flame_prof_waits_proof:edges(),
    missing = #{} :: #{node() => binary()},
    keeps = false :: boolean(),
    past = flame_prof_waits_past:new() :: flame_prof_waits_past:past()
}).

%% @private What waits for what now; of one process its chain.
-spec look(options() | flame_prof_target:target()) -> {ok, look()} | {error, flame_prof:reason()}.
look(#{} = Given) ->
    look(Given, fun flame_prof_waits_nodes:ask/1);
%% Of options it would be one that is left out: the whole node.
look(undefined) ->
    Accepted = flame_prof_target:accepts(),
    {error, {badarg, #{argument => process, value => undefined, accepted => Accepted}}};
look(Process) ->
    look(#{process => Process}).

%% @private
-spec look(options(), flame_prof_waits_nodes:ask()) -> {ok, look()} | {error, flame_prof:reason()}.
look(Given, Ask) ->
    case looked(Given, #looking{options = #{}, ask = Ask}) of
        {ok, Look, []} -> {ok, Look};
        {error, _} = Error -> Error
    end.

%% @private The last look of the time, and those before it that have what the last one has not: a
%% process that eight others had waited for, each for 2.5 s or more; a chain of three such calls; a
%% global lock that eight wanted. Of these looks the edges that their trees have.
-spec looks(options()) -> {ok, look(), Earlier :: [look()]} | {error, flame_prof:reason()}.
looks(Given) ->
    looks(Given, fun flame_prof_waits_nodes:ask/1).

%% @private
-spec looks(options(), flame_prof_waits_nodes:ask()) ->
    {ok, look(), Earlier :: [look()]} | {error, flame_prof:reason()}.
looks(Given, Ask) ->
    looked(Given, #looking{options = #{}, ask = Ask, keeps = true}).

looked(Given, State) ->
    case flame_prof_schema:checked(rows(), Given) of
        {ok, #{process := Target} = Options} ->
            case flame_prof_target:found(Target) of
                {ok, Pid} -> looking(State#looking{options = Options#{process := Pid}});
                {error, _} = Error -> Error
            end;
        {ok, Options} -> looking(State#looking{options = Options});
        {error, _} = Error -> Error
    end.

rows() ->
    [
        flame_prof_look_options:process(one),
        #{key => for, type => {whole, ms, 0, ?FOR_MOST_MS}, default => 0,
            doc => "time of repeated looks, for the duration of waits"},
        #{key => top, type => {whole, count, 1, ?COUNT_MOST}, default => 10,
            doc => "waited-for processes to show"},
        #{key => nodes, type => {own, fun node_list/1, "a list of nodes, or connected"},
            default => [], word => "NODES", reads => nodes,
            doc => "nodes that the node is connected to, to follow chains to"},
        flame_prof_look_options:engine()
    ].

node_list(connected) ->
    {ok, nodes(connected)};
node_list(Nodes) ->
    try lists:all(fun(Node) -> is_atom(Node) orelse is_binary(Node) end, Nodes) of
        true -> {ok, Nodes};
        false -> error
    catch
        error:_ -> error
    end.

%% @private
-spec about() -> flame_prof_look:about().
about() ->
    #{
        name => waits,
        group => waiting,
        asks => "which processes wait for which; waits(P): one chain",
        sentence => "Which processes wait for which: chains, their ends, and deadlocks.",
        cost => "Costs 15 to 65 ms of one CPU for 100,000 processes; no process is interrupted.",
        shows => "The tag atom of each request; no contents.",
        argument => {process, optional, "flame_prof_target:target()", "PROCESS"},
        runs => there,
        lends => [flame_prof_waits_part],
        library => useful,
        assistant => #{
            title => "Who waits for which process",
            tells => [
                "Callers and their servers, chains and what the process at the end does. Shows a ",
                "bottleneck: one process that many wait for. Waits for timers, ",
                "sockets and ports are shown, too."],
            seconds => {for, 0.1, 30, "time of repeated looks, for the duration of waits (one "
                "look)"},
            options => [top]
        },
        examples => ["waits shop@myhost", "waits shop@myhost my_server --for 2s"]
    }.

%% @private
-spec takes() -> [flame_prof_schema:row()].
takes() ->
    rows() ++ [
        #{key => edges, default => infinity, word => none,
            type => {either, [{infinity, infinity}], {whole, count, 0, ?COUNT_MOST}},
            doc => "edges in JSON"}
    ].

%% @private
-spec run(node(), map()) -> {ok, look()} | {error, flame_prof:reason()}.
run(_Node, #{edges := Most} = Options) ->
    case look_of(flame_prof_waits_nodes:known(maps:without([node, edges], Options))) of
        {ok, #{edges := Edges} = Look} when length(Edges) > Most ->
            {ok, Look#{edges := lists:sublist(Edges, Most), more_edges => length(Edges) - Most}};
        {ok, Look} ->
            {ok, Look#{more_edges => 0}};
        {error, _} = Error ->
            Error
    end.

%% @private
-spec text(look(), pos_integer()) -> unicode:chardata().
text(Look, _Columns) -> flame_prof_waits_text:format(Look).

%% @private
-spec json(look()) -> #{atom() => term()}.
json(Look) -> flame_prof_waits_text:json(Look).

%% @private Another node that hangs is waited for once.
-spec longest_ms(map()) -> non_neg_integer().
longest_ms(#{for := Ms, nodes := []}) -> Ms;
longest_ms(#{for := Ms}) -> Ms + ?OTHERS_MS.

%% @private A look as its page, or as JSON (doc/waits.md), made here: pids are those of this node.
-spec page(options(), text | json) -> {ok, binary()} | {error, flame_prof:reason()}.
page(Given, As) ->
    case pages(Given, [As]) of
        {ok, [Page]} -> {ok, Page};
        {error, _} = Error -> Error
    end.

%% @private
%% One look in several forms; `{json, Most}' has so many edges, and the number of the others.
-spec pages(options(), [text | json | {json, non_neg_integer()}]) ->
    {ok, [binary()]} | {error, flame_prof:reason()}.
pages(Given, Forms) ->
    case look_of(flame_prof_waits_nodes:known(Given)) of
        {ok, Look} -> {ok, [page_of(Look, As) || As <- Forms]};
        {error, _} = Error -> Error
    end.

page_of(Look, text) -> encoded(flame_prof_waits_text:format(Look));
page_of(Look, json) -> json_page(Look#{more_edges => 0});
page_of(#{edges := Edges} = Look, {json, Most}) ->
    More = max(0, length(Edges) - Most),
    json_page(Look#{edges := lists:sublist(Edges, Most), more_edges => More}).

json_page(Look) -> encoded(flame_prof_json:encode(flame_prof_waits_text:json(Look))).

look_of({error, _} = Error) -> Error;
look_of(Options) -> look(Options).

encoded(Text) -> unicode:characters_to_binary(Text).

%% Looks.

looking(#looking{options = #{nodes := Nodes}, seen = Seen, missing = Lost} = State) ->
    Begun = now_ms(),
    case parts(lists:usort([node() | Nodes]) -- maps:keys(Lost), State) of
        {error, _} = Error ->
            Error;
        {ok, Parts, LostNow} ->
            Missing = maps:merge(Lost, LostNow),
            Read = lists:append([Edges || {_, #{edges := Edges}} <- Parts]),
            Resolved = [Edge || Edge <- resolved(Read, Parts, State),
                not flame_prof_own:is_in([maps:get(site, Edge, none)])],
            Edges = flame_prof_waits_graph:timed(Resolved, Seen, Begun),
            Graph = flame_prof_waits_graph:new(Edges),
            Cycles = flame_prof_waits_graph:cycles(Graph),
            Now = with_rings(Graph, Cycles, Parts, State),
            Ended = now_ms(),
            Until = until(State, Ended),
            Look = fun() -> found(Edges, Graph, Cycles, Parts, Missing, Now) end,
            case pause(Until - Ended, Cycles, State) of
                done ->
                    {ok, Look(), flame_prof_waits_past:earlier(Edges, Now#looking.past)};
                {Due, Again, Pause} ->
                    {Proven, Late} = proven_of(Cycles, Parts, State),
                    Later = Now#looking{
                        proven = maps:merge(still_proven(Edges, State), Proven),
                        late = Late,
                        missing = Missing,
                        until_ms = Until,
                        looks = State#looking.looks + 1,
                        due = Due,
                        again = Again,
                        seen = flame_prof_waits_graph:since(Edges, Seen, Ended),
                        rings = [ring(Cycle) || Cycle <- Cycles],
                        past = kept(Edges, Look, Now)
                    },
                    ok = flame_prof_clock:sleep(Pause),
                    looking(Later)
            end
    end.

%% The present deadlocks, and those that have ended.
with_rings(Graph, Cycles, Parts, #looking{past = Past} = State) ->
    Held = [held(Cycle, Graph) || Cycle <- Cycles, is_verified(Cycle, State),
        is_wanted(Cycle, Graph, State#looking.options)],
    Tell = fun(Pids) -> told_by(Pids, Parts, State) end,
    State#looking{past = flame_prof_waits_past:add_rings(Held, Tell, Past)}.

kept(_Edges, _Look, #looking{keeps = false, past = Past}) -> Past;
kept(Edges, Look, #looking{past = Past}) -> flame_prof_waits_past:add_look(Edges, Look, Past).

still_proven(_Edges, #looking{proven = Proven}) when map_size(Proven) =:= 0 ->
    Proven;
still_proven(Edges, #looking{proven = Proven}) ->
    maps:with([flame_prof_waits_graph:identity(Edge) || Edge <- Edges], Proven).

%% The first look of a node calibrates: the time is that behind it.
until(#looking{options = #{for := For}, until_ms = none}, Ended) -> Ended + For;
until(#looking{until_ms = Until}, _Ended) -> Until.

%% The last look is at the end of the time. A cycle is looked at again until it is verified, or
%% cannot be: one that a time-out ends soon is not missed. Of `named' ones nothing is ever certain.
pause(Left, Cycles, #looking{options = #{for := For}} = State) ->
    #looking{looks = Looks, due = Due, again = Again} = State,
    IsNeeded = Again < ?AGAIN andalso Looks - Due < ?AGAIN_IN_ALL andalso
        lists:any(fun(Cycle) -> is_open(Cycle, State) end, Cycles),
    if
        IsNeeded -> {Due, Again + 1, ?PAUSE_LEAST_MS};
        Left > 0, Due < ?LOOKS ->
            {Due + 1, 0, min(Left, max(?PAUSE_LEAST_MS, For div (?LOOKS - 1)))};
        true -> done
    end.

is_open(#{edges := Edges} = Cycle, State) ->
    not (is_verified(Cycle, State) orelse is_suspect(Cycle, State)) andalso
        not lists:any(fun(#{how := How}) -> How =:= named end, Edges).

now_ms() -> flame_prof_clock:now_ms().

ring(#{edges := Edges}) -> lists:sort([From || #{from := From} <- Edges]).

%% Nodes that do not answer are reported; without this node the look fails.
parts(Nodes, #looking{options = #{engine := Engine}, ask = Ask}) ->
    Answers = Ask([{Node, {flame_prof_waits_part, part, [Engine]}} || Node <- Nodes]),
    case lists:keyfind(node(), 1, Answers) of
        {_, {ok, {error, _} = Error}} ->
            Error;
        {_, {ok, {ok, _}}} ->
            Parts = [{Node, counted(Part)} || {Node, {ok, {ok, Part}}} <- Answers],
            {ok, Parts, maps:from_list([{N, W} || {N, A} <- Answers, W <- why_missing(A)])}
    end.

why_missing({ok, {ok, _}}) -> [];
why_missing({ok, {error, Reason}}) -> [encoded(flame_prof_error:format(Reason))];
why_missing({error, Why}) -> [Why].

%% And what it waits for.
counted(#{edges := Edges, counts := Counts} = Part) ->
    None = maps:from_list([{How, 0} || How <- flame_prof_waits_graph:kinds()]),
    Part#{counts := maps:merge(Counts, lists:foldl(
        fun(#{how := How}, By) -> maps:update_with(How, fun(N) -> N + 1 end, By) end, None, Edges
    ))}.

resolved(Edges, Parts, #looking{ask = Ask}) ->
    Names = flame_prof_waits_graph:unresolved(Edges),
    Asked = [{Node, lists:usort([Name || {Name, N} <- Names, N =:= Node])} || {Node, _} <- Parts],
    Requests = [{Node, {lists, map, [fun erlang:whereis/1, Of]}} || {Node, Of} <- Asked, Of =/= []],
    Found = [{{Name, Node}, Pid} || {Node, {ok, Pids}} <- Ask(Requests),
        {Name, Pid} <- lists:zip(proplists:get_value(Node, Asked), Pids), is_pid(Pid)],
    flame_prof_waits_graph:resolve([held_by(Edge) || Edge <- Edges], maps:from_list(Found)).

%% By the table of this node's global_name_server, which any process may read. A lock is one of
%% certain nodes, which the stack does not tell: while this node knows others, another process may
%% have it there under the same name. Such a lock is reported by its name, as is one that several
%% processes hold.
held_by(#{from := From, to := {lock, global, Name} = Lock} = Edge) when node(From) =:= node() ->
    Edge#{to := case {nodes(), holder(Name)} of {[], [Pid]} -> Pid; _ -> Lock end};
held_by(Edge) ->
    Edge.

holder(Name) ->
    try ets:lookup(global_locks, Name) of
        [{Name, _Requester, [{Pid, _Monitor}]}] when is_pid(Pid) -> [Pid];
        _ -> []
    catch
        error:badarg -> []
    end.

%% The result.

found(Edges, Graph, Cycles, Parts, Missing, #looking{options = Options} = State) ->
    {_, #{engine := Engine, engine_reason := Why}} = lists:keyfind(node(), 1, Parts),
    Reached = [Cycle || Cycle <- Cycles, is_wanted(Cycle, Graph, Options)],
    Dead = [held(Cycle, Graph) || Cycle <- Reached, is_verified(Cycle, State)],
    Maybe = [(held(Cycle, Graph))#{checked => not is_late(Cycle, State)}
        || Cycle <- Reached, is_suspect(Cycle, State) orelse is_late(Cycle, State)],
    {All, More} = roots(Graph, Edges, Options),
    Chain = [chain(Pid, Graph, Edges) || #{process := Pid} <- [Options]],
    Pids = pids(Dead ++ Maybe ++ All ++ Chain),
    Told = told_by(lists:sublist(Pids, ?TOLD_MOST), Parts, State),
    Roots = [Root || #{process := Of} = Known <- All, not is_own(Of, Told),
        #{direct := Direct} = Root <- [of_program(Known, Told)], Direct > 0],
    Others = maps:map(fun serves_program/2,
        maps:filter(fun(Of, _) -> not is_own(Of, Told) end, Told)),
    Shown = edges_of_program(Edges, Told),
    Counted = by_receives(Parts, State),
    Look = #{
        node => node(),
        engine => Engine,
        engine_reason => Why,
        looks => State#looking.looks,
        edges => Shown,
        cycles => [[From || #{from := From} <- Of] || #{edges := Of} <- Dead],
        deadlocks => Dead,
        suspects => Maybe,
        unchecked => length([Late || #{checked := false} = Late <- Maybe]),
        ended => flame_prof_waits_past:ended(State#looking.past),
        roots => Roots,
        more_roots => More,
        processes => with_stacks(Others, Dead ++ Maybe ++ Roots ++ Chain),
        counts => maps:from_list([{Node, Counts} || {Node, Counts, _, _} <- Counted]),
        receives => [{Site, Takes, Count}
            || {{Site, Takes}, Count} <- most([Receives || {_, _, Receives, _} <- Counted]),
                not flame_prof_own:is_in([Site])],
        unknown => [{Site, Count}
            || {Site, Count} <- most([Unknown || {_, _, _, Unknown} <- Counted]),
                not flame_prof_own:is_in([Site])],
        missing => Missing
    },
    case Chain of
        [] -> Look;
        [#{edges := Of} = One] -> Look#{edges := Of, chain => One}
    end.

%% Without waiters that are flame_prof's own.
of_program(#{waiters := Waiters, direct := Direct, all := All} = Root, Told) ->
    Own = [Waiter || #{edge := #{from := From}} = Waiter <- Waiters, is_own(From, Told)],
    Root#{
        waiters := Waiters -- Own,
        direct := Direct - length(Own),
        all := All - lists:sum([1 + Behind || #{all := Behind} <- Own])
    }.

%% Of very many edges, those of flame_prof that nothing else is known of are among them: to ask each
%% process would take long.
edges_of_program(Edges, Told) ->
    IsAsked = length(Edges) =< ?ASKED_MOST,
    IsOwn = fun(Pid) -> is_own(Pid, Told) orelse IsAsked andalso is_live(Pid) end,
    [Edge || #{from := From, to := To} = Edge <- Edges, not IsOwn(From), not IsOwn(To)].

%% A server may have a message of flame_prof in work.
serves_program(_, #{serves := #{from := Pid}} = Process) ->
    case is_live(Pid) of
        true -> maps:remove(serves, Process);
        false -> Process
    end;
serves_program(_, Process) ->
    Process.

is_live(Pid) -> is_pid(Pid) andalso node(Pid) =:= node() andalso flame_prof_own:is_live(Pid).

%% Those of a trace are there for some seconds after its end.
is_own(Pid, Told) -> flame_prof_own:is_own(maps:get(Pid, Told, #{})).

is_wanted(Cycle, Graph, #{process := Pid}) ->
    {Edges, _} = flame_prof_waits_graph:chain(Pid, Graph),
    lists:any(fun(#{from := From}) -> lists:member(From, ring(Cycle)) end, Edges);
is_wanted(_Cycle, _Graph, _Options) ->
    true.

is_verified(Cycle, #looking{proven = Proven}) ->
    flame_prof_waits_proof:is_deadlock(Cycle, Proven).

is_late(Cycle, #looking{proven = Proven, late = Late}) ->
    flame_prof_waits_proof:is_late(Cycle, Proven, Late).

%% One that cannot be verified, not one that was too short for it.
is_suspect(#{is_certain := IsCertain, edges := Edges} = Cycle, #looking{rings = Rings} = State) ->
    IsOpen = not IsCertain orelse
        lists:any(fun(Edge) -> flame_prof_waits_graph:identity(Edge) =:= none end, Edges) orelse
        flame_prof_waits_proof:have_lasted(Cycle) andalso
            not (is_verified(Cycle, State) orelse is_late(Cycle, State)),
    %% Others may send what a `named' one waits for: a cycle of such says nothing.
    IsOpen andalso not lists:any(fun(#{how := How}) -> How =:= named end, Edges) andalso
        lists:member(ring(Cycle), Rings).

%% Each by the node of its target. A node that does not answer had no time.
proven_of(Cycles, Parts, #looking{ask = Ask, proven = Before, late = LateBefore}) ->
    {Edges, TooMany} = flame_prof_waits_proof:needed(Cycles, Before, LateBefore),
    Requests = [
        {Node, {flame_prof_waits_proof, prove, [Of]}}
     || {Node, #{engine := native}} <- Parts,
        [_ | _] = Of <- [[Edge || #{to := To} = Edge <- Edges, is_pid(To), node(To) =:= Node]]
    ],
    Answers = Ask(Requests),
    Lost = [Edge || {Node, {error, _}} <- Answers, {N, {_, _, [Of]}} <- Requests, N =:= Node,
        Edge <- Of],
    Late = [flame_prof_waits_graph:identity(Edge) || Edge <- TooMany ++ Lost],
    {maps:from_keys(lists:append([Ids || {_, {ok, #{proven := Ids}}} <- Answers]), true),
        maps:from_keys(lists:append([Late | [Ids || {_, {ok, #{late := Ids}}} <- Answers]]), true)}.

held(#{edges := Edges}, Graph) ->
    Trees = [flame_prof_waits_graph:tree(From, Graph, ?LEVELS - 1, ?WIDTH)
        || #{from := From} <- Edges],
    #{
        edges => Edges,
        all => lists:sum([flame_prof_waits_graph:all(From, Graph) || #{from := From} <- Edges]),
        waiters => lists:append([Waiters || {Waiters, _} <- Trees]),
        more => lists:sum([More || {_, More} <- Trees])
    }.

roots(_Graph, _Edges, #{process := _}) ->
    {[], 0};
roots(Graph, Edges, #{top := Top}) ->
    All = flame_prof_waits_graph:roots(Graph),
    Told = lists:sublist(All, Top),
    Ends = ends(Told, Edges),
    Roots = [maps:merge(maps:get(Node, Ends, #{}), waited_for(Node, Graph, #{process => Node}))
        || Node <- Told],
    {Roots, length(All) - length(Told)}.

%% The waits of processes that wait for no process.
ends(Nodes, Edges) ->
    Wanted = maps:from_list([{Node, true} || Node <- Nodes]),
    maps:from_list([{From, #{waits => maps:with([how, to], Edge)}}
        || #{from := From} = Edge <- Edges, is_map_key(From, Wanted)]).

waited_for(Node, Graph, What) ->
    {Waiters, More} = flame_prof_waits_graph:tree(Node, Graph, ?LEVELS, ?WIDTH),
    What#{
        direct => flame_prof_waits_graph:direct(Node, Graph),
        all => flame_prof_waits_graph:all(Node, Graph),
        waiters => Waiters,
        more => More
    }.

chain(Pid, Graph, Edges) ->
    {Steps, Ends} = flame_prof_waits_graph:chain(Pid, Graph),
    End =
        case Ends of
            {root, Node} -> maps:get(Node, ends([Node], Edges), #{});
            cycle -> #{}
        end,
    waited_for(Pid, Graph, End#{process => Pid, edges => Steps, ends => Ends}).

%% If they are too many, the first of them are returned.
pids(What) ->
    Pids = lists:append([pids_of(One) || One <- What]),
    {_, First} = lists:foldl(
        fun(Pid, {Known, Kept}) ->
            case Known of
                #{Pid := _} -> {Known, Kept};
                #{} -> {Known#{Pid => true}, [Pid | Kept]}
            end
        end,
        {#{}, []},
        Pids
    ),
    lists:reverse(First).

pids_of(What) ->
    [Pid || Pid <- main(What), is_pid(Pid)] ++
        lists:append([pids_of_tree(Tree) || Tree <- maps:get(waiters, What)]).

pids_of_tree(#{edge := #{from := From}, waiters := Waiters}) ->
    [From | lists:append([pids_of_tree(Tree) || Tree <- Waiters])].

%% Those of the trees without: these are many, and all in their call.
with_stacks(Told, What) ->
    Main = maps:from_list([{Pid, true} || One <- What, Pid <- main(One)]),
    maps:map(
        fun
            (Pid, Process) when is_map_key(Pid, Main) -> Process;
            (_, Process) -> maps:without([stack, takes], Process)
        end,
        Told
    ).

main(What) ->
    [Node || #{process := Node} <- [What]] ++
        lists:append([[From, To] || #{edges := Edges} <- [What],
            #{from := From, to := To} <- Edges]).

%% Each by its node, with the engine that has looked there.
told_by(Pids, Parts, #looking{ask = Ask}) ->
    Requests = [
        {Node, {flame_prof_waits_part, told, [Of, Engine]}}
     || {Node, #{engine := Engine}} <- Parts,
        [_ | _] = Of <- [[Pid || Pid <- Pids, node(Pid) =:= Node]]
    ],
    lists:foldl(fun maps:merge/2, #{}, [Told || {_, {ok, Told}} <- Ask(Requests)]).

%% The files of its modules distinguish the rest of a part.
by_receives(Parts, #looking{ask = Ask}) ->
    Requests = [{Node, {flame_prof_wait_learn, takes, [[Site || {_, _, _} = Site <- Sites]]}}
        || {Node, #{unknown := Unknown}} <- Parts, [_ | _] = Sites <- [maps:keys(Unknown)]],
    Takes = maps:from_list([{Node, Of} || {Node, {ok, Of}} <- Ask(Requests), is_map(Of)]),
    [by_receives(Node, Part, maps:get(Node, Takes, #{})) || {Node, Part} <- Parts].

by_receives(Node, #{counts := Counts, unknown := Unknown}, Takes) ->
    maps:fold(
        fun(Site, Count, {_, Now, Receives, Left}) ->
            case maps:get(Site, Takes, unknown) of
                unknown -> {Node, Now, Receives, Left#{Site => Count}};
                any -> {Node, moved(Count, idle, Now), Receives, Left};
                nothing -> {Node, moved(Count, timer, Now), Receives, Left};
                Forms -> {Node, moved(Count, message, Now), Receives#{{Site, Forms} => Count}, Left}
            end
        end,
        {Node, Counts#{message => 0}, #{}, #{}},
        Unknown
    ).

moved(Count, Key, #{unknown := Unknown} = Counts) ->
    maps:update_with(Key, fun(N) -> N + Count end, Count, Counts#{unknown := Unknown - Count}).

most(Each) ->
    Sum = lists:foldl(
        fun(Sites, All) -> maps:merge_with(fun(_, A, B) -> A + B end, Sites, All) end, #{}, Each
    ),
    Ranked = lists:sort([{-Count, Site} || {Site, Count} <- maps:to_list(Sum)]),
    [{Site, -Count} || {Count, Site} <- lists:sublist(Ranked, ?UNKNOWN_MOST)].
