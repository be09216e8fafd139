%% The edge of each threshold of each rule of the doctor: what is just short of it, what has just
%% reached it, and what the rule then refuses to say. The numbers are those of doc/doctor.md, worked
%% out by hand.
-module(flame_prof_doctor_edges_tests).

-include_lib("eunit/include/eunit.hrl").

-define(S, 1000000).
-define(MIB, 1048576).

%% Each is {what, rule, evidence of a value, [{value, severity}]}.
edges_test_() ->
    [{lists:flatten(io_lib:format("~s: ~s: ~w", [Rule, What, Value])),
            ?_assertEqual(Expected, severity(Rule, Of(Value)))}
     || {What, Rule, Of, Rows} <- figures() ++ system() ++ waits() ++ samples() ++ growth(),
        {Value, Expected} <- Rows].

%% Reached at that number, and up to it.
from(N) -> [{N - 1, none}, {N, warning}].
up_to(N) -> [{N, warning}, {N + 1, none}].

%% Each is {rule, evidence of a value, [{value, names of the processes of its one finding}]}.
names_test_() ->
    [{lists:flatten(io_lib:format("~s names: ~w", [Rule, Value])),
            ?_assertEqual([Expected], [named(F) || F <- found(Rule, Of(Value))])}
     || {Rule, Of, Rows} <- names(), {Value, Expected} <- Rows].

found(Rule, Evidence) ->
    Module = list_to_atom("flame_prof_doctor_" ++ atom_to_list(Rule)),
    Limits = maps:from_list([{Name, Default} || {Name, Default, _} <- Module:thresholds()]),
    Module:find(Evidence, Limits).

severity(Rule, Evidence) ->
    case found(Rule, Evidence) of
        {unseen, _} -> unseen;
        [] -> none;
        [Finding] -> maps:get(severity, doctor_finding:checked(Finding))
    end.

named(#{processes := Processes}) -> [Name || #{name := Name} <- Processes].

evidence(More) ->
    maps:merge(#{node => 'n@h', engine => native, span_us => 10 * ?S, unseen => #{}}, More).

p(I) -> list_to_pid("<0." ++ integer_to_list(I) ++ ".0>").
pid(I) -> iolist_to_binary(["<0.", integer_to_list(I), ".0>"]).

%% A process that waits in all of its 1,000 samples in 10 s.
process(More) ->
    maps:merge(#{pid => pid(1), name => <<"one">>, place => 0, observations => 1000, running => 0,
        runnable => 0, waiting => 0, gc => 0, other => 0, first_us => 0, last_us => 10 * ?S,
        reductions => 0, queue => [], memory => [], bin_vheap => [], survived => [],
        queue_range => {0, 0, 0, 0}, memory_range => {0, 0, 0, 0}, waits_for => [], tags => [],
        longest_native => none, longest_gc => none}, More).

%% Processes with their stacks: {status, class of the queue, frames, weight}.
sampled(Of) -> sampled(Of, #{}).
sampled(Of, More) ->
    ByPid = maps:from_list([{Pid, [{S, Q, {Frames, W}} || {S, Q, Frames, W} <- Rows, W > 0]}
        || {#{pid := Pid}, Rows} <- Of]),
    Rows = fun(all) -> lists:append(maps:values(ByPid)); (Pid) -> maps:get(Pid, ByPid, []) end,
    evidence(More#{samples => #{mode => processes, span_us => 10 * ?S, first_us => 0,
        last_us => 10 * ?S, losses => #{}, figures => [], processes => [P || {P, _} <- Of],
        by_queue => Rows,
        stacks => fun(Pid, Statuses) ->
            [Stack || {S, _, Stack} <- Rows(Pid), lists:member(S, Statuses)]
        end}}).

alone(Process) -> sampled([{process(Process), []}]).
own(Called) -> Called ++ [{<<"shop:work/1">>, erlang}, {<<"shop:init/1">>, erlang}].
bif(Name) -> own([{Name, called}]).
on_cpu(Frames, Weight) -> {<<"running">>, <<"queue_0">>, Frames, Weight}.

%% One figure each second, and others that stand still.
seconds(Key, Values, More) ->
    evidence(#{seconds => [More#{time_us => N * ?S, Key => V}
        || {N, V} <- lists:zip(lists:seq(0, length(Values) - 1), Values)]}).

rising(From, Step) -> rising(From, Step, 11).
rising(From, Step, Looks) -> [From + Step * N || N <- lists:seq(0, Looks - 1)].

%% As many steps as parts, from one number to another.
line(From, To, Us) ->
    [{N * Us div 7, V, V, V} || N <- lists:seq(0, 7), V <- [From + N * (To - From) div 7]].

figures() ->
    Rises = fun(Key, From, Step, More) ->
        seconds(Key, rising(From, Step), maps:merge(#{node_memory_ets => 1000000}, More)) end,
    [{"used", limit, fun(N) -> seconds(Key, lists:duplicate(11, N), #{LimitKey => 1000}) end,
        [{799, none}, {800, warning}, {899, warning}, {900, critical}]}
     || {Key, LimitKey} <- [{node_processes, node_process_limit}, {node_ports, node_port_limit},
            {node_atoms, node_atom_limit}]] ++
    [{Key, Rule, fun(N) -> Rises(Key, From, N, #{}) end, from(PerSecond)}
     || {Rule, Key, From, PerSecond} <- [{atom_growth, node_atoms, 20000, 100},
            {process_growth, node_processes, 100, 20}, {port_growth, node_ports, 10, 5},
            {port_growth, node_sockets, 10, 5}, {table_growth, node_memory_ets, 1000000, 262144},
            {table_growth, node_ets_tables, 30, 5}, {code_growth, node_memory_code, 9000000, 65536},
            {code_growth, node_persistent_terms, 20, 2},
            {code_growth, node_memory_persistent_terms, 20000, 262144}]] ++
    [{"of what there was", Rule, fun(From) -> Rises(Key, From, Step, #{}) end, up_to(Most)}
     || {Rule, Key, Step, Most} <- [{process_growth, node_processes, 20, 10000},
            {port_growth, node_ports, 5, 500}, {table_growth, node_memory_ets, 262144, 52428800},
            {table_growth, node_ets_tables, 5, 1000}]] ++
    %% An hour of 100 a second, and ten minutes of 20 and of 5.
    [{"left", Rule, fun(Left) -> Rises(Key, From, Step, #{Limit => From + 10 * Step + Left}) end,
        [{Least, warning}, {Least - 1, critical}]}
     || {Rule, Key, Limit, From, Step, Least} <- [
            {atom_growth, node_atoms, node_atom_limit, 20000, 100, 360000},
            {process_growth, node_processes, node_process_limit, 100, 20, 12000},
            {port_growth, node_ports, node_port_limit, 10, 5, 3000}]] ++
    [
        %% Six looks, and not while modules of flame_prof itself are loaded.
        {"looks", atom_growth, fun(N) -> seconds(node_atoms, rising(20000, 200, N), #{}) end,
            from(6)},
        {"looks without loading", atom_growth, fun(N) ->
            #{seconds := Seconds} = Evidence = seconds(node_atoms, rising(20000, 200), #{}),
            {Loading, Loaded} = lists:split(11 - N, Seconds),
            Evidence#{seconds := [S#{own_modules => 9} || S <- Loading] ++
                [S#{own_modules => 10} || S <- Loaded]}
        end, from(6)},
        %% Three tenths of the growth are in the second half.
        {"what comes to rest", atom_growth, fun(Middle) -> seconds(node_atoms,
            [20000 + N || N <- [0, 1400, 2800, 4200, 5600, Middle, 7600, 8200, 8800, 9400, 10000]],
            #{node_atom_limit => 1 bsl 30}) end, up_to(7000)},
        %% The least of each of five parts is above that of the part before.
        {"a first part as the next one", atom_growth, fun(N) -> parts(N, 24000, 28000) end,
            [{22000, none}, {21999, warning}]},
        {"a part as the one before", atom_growth, fun(N) -> parts(20000, N, 28000) end,
            from(22001)},
        {"a last part as the one before", atom_growth, fun(N) -> parts(20000, 24000, N) end,
            from(26001)},
        {"the middle of ten looks", atom_growth, fun(Middle) -> seconds(node_atoms, [20000 + N
            || N <- [0, 1400, 2800, 4200, Middle, 7600, 8200, 8800, 9400, 10000]],
            #{node_atom_limit => 1 bsl 30}) end, up_to(7000)},
        {"looks with the figure", table_growth, fun(N) ->
            #{seconds := Seconds} = Quiet = seconds(node_ports, lists:duplicate(11, 1), #{}),
            {With, Without} = lists:split(N, Seconds),
            Quiet#{seconds := [S#{node_memory_ets => 1} || S <- With] ++ Without}
        end, [{5, unseen}, {6, none}]},
        {"for each scheduler", run_queue, fun(N) -> queues(N, N div 2, 1, #{}) end, from(1000)},
        {"while some are offline", run_queue, fun(N) -> queues(N, N, 1,
            #{node_schedulers_online => 1, node_schedulers_unblocked => 1}) end,
            from(20)},
        {"of one scheduler", run_queue, fun(N) -> queues(N, N, 0, #{}) end, from(100)},
        {"the least of the others", run_queue, fun(N) -> queues(300, 300, N, #{}) end, up_to(0)},
        {"seconds with it", run_queue, fun(N) ->
            #{seconds := [Long | _]} = queues(1000, 500, 1, #{}),
            Short = Long#{node_run_queue_sum := 999},
            evidence(#{seconds => [S#{time_us => At * ?S} || {At, S} <- lists:zip(
                lists:seq(1, 11), lists:duplicate(N, Long) ++ lists:duplicate(11 - N, Short))]})
        end, from(6)},
        {"looks", run_queue, fun(N) ->
            #{seconds := Seconds} = Evidence = queues(1000, 500, 1, #{}),
            Evidence#{seconds := lists:sublist(Seconds, N)}
        end, [{2, unseen}, {3, warning}]}].

%% The least of the first, third and last of five parts; that of the others is 22,000 and 26,000.
parts(First, Third, Last) ->
    seconds(node_atoms, [First, First + 9, 22000, 23000, Third, Third + 9, 26000, 26000, Last,
        Last + 1000, Last + 2000], #{node_atom_limit => 1 bsl 30}).

queues(Sum, Longest, Shortest, More) ->
    seconds(node_run_queue_sum, lists:duplicate(11, Sum), maps:merge(#{node_schedulers => 2,
        node_schedulers_online => 2, node_schedulers_unblocked => 2,
        node_run_queue_longest => Longest, node_run_queue_shortest => Shortest}, More)).

system() ->
    Loss = fun(Key) -> fun(Part) ->
        #{samples := Samples} = Evidence = alone(#{}),
        Evidence#{node := none, samples := Samples#{losses => #{Key => Part}}}
    end end,
    Slow = fun(Rule, Key) -> [
        {"queued", Rule, fun(N) -> queued(Key, {N, 0}, {N, 0}) end, from(4096)},
        {"queued at first", Rule, fun(N) -> queued(Key, {N, 0}, {4096, 0}) end, from(4096)},
        {"queued at last", Rule, fun(N) -> queued(Key, {4096, 0}, {N, 0}) end, from(4096)},
        %% What is queued more was not taken.
        {"written", Rule, fun(N) -> queued(Key, {5000, 100}, {10000, 100 + N}) end, up_to(105000)},
        %% As many bytes as go in a second of the ten.
        {"taken", Rule, fun(N) -> queued(Key, {5000, 0}, {5000, N}) end, up_to(50000)}
    ] end,
    [{"used", memory_limit, fun(Used) -> memory(Used, Used, 200, 0) end,
            [{899, none}, {900, warning}, {949, warning}, {950, critical}]},
        {"of the node", memory_limit, fun(Rss) -> memory(960, 960, Rss, 0) end,
            [{99, none}, {100, critical}]},
        %% A byte a second: 600 s and 120 s are left at 400 and 880 of 1,000.
        {"minutes left", memory_limit, fun(Used) -> memory(Used - 10, Used, 200, 1) end,
            [{400, none}, {401, warning}, {880, warning}, {881, critical}]},
        {"periods", throttled, fun(N) -> throttled(N, 10000000) end, from(20)},
        {"time", throttled, fun(Us) -> throttled(100, Us) end, from(200000)},
        {"waits", stolen_cpu, fun(Wait) -> stolen(10 - Wait, Wait, 20) end,
            [{4.999, none}, {5, note}, {7.499, note}, {7.5, warning}]},
        {"wants", stolen_cpu, fun(Wait) -> stolen(0, Wait, 20) end, [{4.999, none}, {5, warning}]},
        {"of others", stolen_cpu, fun(Busy) -> stolen(0, 10, Busy) end,
            [{9.999, none}, {10, warning}]},
        {"unused", fragmentation, fun(N) -> unused({200 * ?MIB, N}, {200 * ?MIB, 0}, 0) end,
            [{72 * ?MIB, note}, {72 * ?MIB + 1, none}]},
        {"unused at last", fragmentation, fun(N) -> unused({300 * ?MIB, 0}, {300 * ?MIB, N}, 0) end,
            [{150 * ?MIB, note}, {150 * ?MIB + 1, none}]},
        {"of the node", fragmentation, fun(Rss) -> Of = {200 * ?MIB, 0}, unused(Of, Of, Rss) end,
            [{800 * ?MIB, note}, {800 * ?MIB + 4, none}]},
        {"missed", losses, Loss(missed), [{0.5, none}, {0.501, note}]},
        {"dropped", losses, Loss(dropped), [{0.001, none}, {0.0011, note}]},
        {"inconsistent", losses, Loss(inconsistent), [{0.05, none}, {0.051, note}]},
        {"damaged", losses, Loss(damaged), [{0.001, none}, {0.0011, note}]},
        {"step", losses, Loss(step), [{5, none}, {6, note}]},
        {"of a node", losses, fun(Node) -> ((Loss(step))(6))#{node := Node} end,
            [{none, note}, {'n@h', unseen}]},
        %% 16,384 bytes a second, for ten.
        {"bytes of a socket", busy_port, fun(Bytes) ->
            Of = fun(Output) -> #{ports => [], sockets => [#{socket => <<"#Ref<0.1.2.3>">>,
                owner => p(1), owner_name => <<"a">>, writers => 1, output => Output}]} end,
            seen(Of(0), Of(Bytes)) end,
            up_to(163839)},
        {"suspended", busy_port_calls, fun({N, Ports}) ->
            Writes = [{<<"suspended">>, <<"queue_0">>, bif(<<"erlang:port_command/2">>), 1000}],
            Of = #{ports => lists:duplicate(Ports, port(9000, 0))},
            maps:merge(sampled([{process(#{pid => pid(I), other => 1000}), Writes}
                || I <- lists:seq(1, N)]), maps:with([system], seen(Of, Of)))
        end, [{{4, 1}, none}, {{5, 1}, warning}, {{9, 2}, none}, {{10, 2}, warning},
            {{5, 0}, none}]},
        {"queue of a handler", logger, fun({Was, Is}) -> seen(handler(Was), handler(Is)) end,
            [{{10, 10}, warning}, {{9, 10}, none}, {{10, 9}, none}]},
        {"parts with a queue", logger, fun(N) ->
            Series = [{I * ?S, 0, case I =< N of true -> 10; false -> 9 end, 0}
                || I <- lists:seq(1, 10)],
            maps:merge(alone(#{queue => Series, queue_range => {0, 0, 10, 0}}),
                maps:with([system], seen(handler(0), handler(0))))
        end, from(6)},
        {"restarts", restart_loop, fun({Before, After}) -> restarts(Before, After) end,
            [{{2, 2}, warning}, {{1, 2}, none}, {{2, 1}, none}, {{0, 19}, none},
            {{0, 20}, warning}]},
        {"monitors", monitor_growth, fun(N) -> monitors(0, N, 0) end, from(1000)},
        {"of the monitors", monitor_growth, fun(Had) -> monitors(Had, Had + 1000, 0) end,
            up_to(2000)},
        {"with each process", monitor_growth, fun(Came) -> monitors(0, 1000, Came) end, up_to(499)},
        {"calls that wait", files_taken, fun({First, Last}) -> files(First, 2, Last, 2) end,
            [{{1, 1}, critical}, {{0, 1}, none}, {{1, 0}, none}]},
        {"in calls of files", files_taken, fun({Was, Is}) -> files(1, Was, 1, Is) end,
            [{{2, 2}, critical}, {{1, 2}, none}, {{2, 1}, none}]}
    ] ++ Slow(busy_port, ports) ++ Slow(busy_dist, connections).

seen(First, Last) -> seen(First, Last, #{}).
seen(First, Last, More) -> evidence(More#{system => {First, Last}}).

%% Bytes of a control group of 1,000, and of the node of which so many come each second.
memory(Was, Used, Rss, PerS) ->
    Os = fun(Us, Of) -> #{at_us => Us, rss => Rss, total => 5000, available => 5000,
        memory_limit => 1000, memory_used => Of} end,
    (seconds(node_memory_total, rising(100, PerS), #{}))#{os => {Os(0, Was), Os(10 * ?S, Used)}}.

throttled(Periods, Us) ->
    Os = fun(At, All, N, Of) -> #{at_us => At,
        throttled => #{periods => All, throttled_periods => N, us => Of}} end,
    evidence(#{os => {Os(0, 1000, 10, 5), Os(10 * ?S, 1100, 10 + Periods, 5 + Us)}}).

%% Seconds for which schedulers ran and waited, and others had the two CPUs, in ten.
stolen(Ran, Waited, Busy) ->
    Os = fun(At, Run, Wait, Of) -> #{at_us => At, own_us => 0,
        schedulers => #{threads => 2, run_us => round(Run * ?S), wait_us => round(Wait * ?S)},
        machine => #{busy_us => round(Of * ?S), stolen_us => 0, cpus => 2}} end,
    evidence(#{os => {Os(0, 0, 0, 0), Os(10 * ?S, Ran, Waited, Busy)}}).

unused(First, Last, Rss) ->
    Of = fun({Carriers, Blocks}) -> #{process => #{rss => Rss}, allocators => [
        #{allocator => ll_alloc, carriers_bytes => Carriers, blocks_bytes => Blocks}]} end,
    evidence(#{memory => {Of(First), Of(Last)}}).

port(Queued, Output) ->
    #{port => hd(erlang:ports()), node => 'b@h', name => <<"tcp_inet">>,
        owner => p(1), owner_name => <<"feed">>, queued => Queued, output => Output}.

queued(Key, {Had, Was}, {Has, Is}) ->
    seen(#{Key => [port(Had, Was)]}, #{Key => [port(Has, Is)]}).

handler(Queue) -> #{handlers => [#{process => p(1), name => default, queue => Queue}]}.

restarts(Before, After) ->
    Of = fun(At, Restarts) -> #{supervisors => [#{process => p(1), name => sup,
        intensity => 9, within_s => 11, at_s => At, restarts => Restarts, children => #{}}]} end,
    seen(Of(100, #{99 => Before}), Of(106, #{99 => Before, 101 => After})).

monitors(Had, Has, Came) ->
    Of = fun(N) -> #{monitors => #{unknown => [], left => 0, many => [{p(1), N, <<"a">>}]}} end,
    maps:merge(seconds(node_processes, [7, 7 + Came], #{}),
        maps:with([system], seen(Of(Had), Of(Has)))).

files(Waiting, N, WaitingLast, Last) ->
    Of = fun(Waits, Count) -> #{files => #{schedulers => 2, waiting => Waits, calls =>
        maps:from_list([{p(I),
            [{prim_file, read, 2}, {shop, load, 1}]} || I <- lists:seq(1, Count)])}} end,
    seen(Of(Waiting, N), Of(WaitingLast, Last)).

edge(From, To, Ms) ->
    #{from => p(From), to => To, how => call, tag => unknown, ref => none,
        site => {gen, do_call, 4}, since_ms => Ms}.

callers(N, To, Ms) -> [edge(100 + I, p(To), Ms) || I <- lists:seq(1, N)].
%% Of another one many wait for long.
others() -> [edge(300 + I, p(77), 9000) || I <- lists:seq(1, 20)].

%% A tree of those who wait directly for the last of a path of calls to the root.
tree(Edges, Direct, Path) ->
    Behind = lists:foldl(fun(Edge, #{all := All} = Tree) ->
        #{direct => 1, all => All + 1, waiters => [Tree#{edge => Edge}]}
    end, #{direct => Direct, all => Direct, waiters => []}, Path),
    Behind#{process => p(1), edges => Edges}.

look(Tree, Told, More) ->
    #{edges := Edges} = Tree,
    maps:merge(#{engine => native, looks => 11, edges => Edges, deadlocks => [], ended => [],
        roots => [maps:remove(edges, Tree)], processes => Told}, More).

busy(Queue) -> #{p(1) => #{message_queue_len => Queue, status => waiting}}.
bottleneck(N, Ms) -> bottleneck(N, Ms, 9).
bottleneck(N, Ms, Queue) ->
    evidence(#{waits => look(tree(callers(N, 1, Ms) ++ others(), N, []), busy(Queue), #{})}).

past(#{waits := Look} = Evidence) ->
    Evidence#{waits := Look#{roots := [], edges := [], earlier => [Look]}}.

with(#{samples := Samples}, Evidence) -> Evidence#{samples => Samples}.

%% One that sleeps, for which 2 waits, for which 3 waits, and so on.
chain(Calls, Ms) -> chain(Calls, Ms, [], #{}).
chain(Calls, Ms, Callers, More) ->
    Path = [edge(I + 1, p(I), Ms) || I <- lists:seq(1, Calls - 1)],
    Last = [edge(99, p(Calls), Ms) || Callers =:= []] ++ Callers,
    Tree = tree(Path ++ Last ++ others(), length(Last), lists:reverse(Path)),
    evidence(#{waits => look(Tree#{waits => #{how => timer}}, busy(0), More)}).

waits() ->
    [{"waiting", bottleneck, fun(N) -> bottleneck(N, 500) end,
            [{7, none}, {8, warning}, {99, warning}, {100, critical}]},
        {"for so long", bottleneck, fun(Ms) -> bottleneck(8, Ms) end, from(500)},
        {"that have no work", bottleneck, fun(Queue) -> bottleneck(8, 500, Queue) end, from(1)},
        {"had waited", bottleneck, fun(Ms) -> past(bottleneck(8, Ms)) end, from(2500)},
        {"ready", bottleneck, fun(N) -> with(alone(#{runnable => N}), bottleneck(8, 500)) end,
            up_to(500)},
        %% Half of the waiters in four fifths of the parts.
        {"the queue in each part", bottleneck, fun(Least) -> with(queue_of(10, 8, Least),
            bottleneck(8, 0)) end, from(4)},
        {"parts with the queue", bottleneck, fun(Parts) -> with(queue_of(10, Parts, 4),
            bottleneck(8, 0)) end, from(8)},
        {"all parts", bottleneck, fun(All) -> with(queue_of(All, All, 4), bottleneck(8, 0)) end,
            from(3)},
        {"samples that wait", bottleneck, fun(N) ->
            with(sampled([{process(#{pid => pid(100 + I),
                waits_for => [{pid(77), 1000}, {pid(1), N}]}), []}
                || I <- lists:seq(1, 8)]), bottleneck(8, 0)) end, from(1000)},
        %% Of earlier looks the one with the most.
        {"the most of those before", bottleneck, fun({First, Then}) ->
            #{waits := A} = past(bottleneck(First, 2500)),
            #{waits := B} = past(bottleneck(Then, 2500)),
            Look = A#{earlier => maps:get(earlier, A) ++ maps:get(earlier, B)},
            evidence(#{waits => Look}) end, [{{99, 100}, critical}, {{100, 99}, critical}]},
        {"waiting for a lock", bottleneck_locks, fun({Edges, Weight}) -> lock(Edges, Weight) end,
            [{{8, 1000}, warning}, {{7, 1000}, none}, {{8, 999}, none}, {{16, 500}, warning}]},
        {"calls", chain, fun(N) -> chain(N, 1000) end, from(3)},
        {"for so long", chain, fun(Ms) -> chain(3, Ms) end,
            [{999, none}, {1000, warning}, {4999, warning}, {5000, critical}]},
        {"waiting", chain, fun(N) ->
            chain(3, 0, [edge(100 + I, p(3), 500) || I <- lists:seq(1, N)], #{}) end,
            from(6)},
        {"always", chain, fun(N) -> with(sampled([{process(#{pid => pid(I + 1),
            waits_for => [{pid(I), N}]}), []} || I <- [1, 2]]),
            chain(3, 999, [edge(99, p(3), 1000)], #{})) end, from(800)},
        {"had waited", chain, fun(Ms) -> past(chain(3, Ms, callers(4, 3, Ms), #{})) end,
            from(2500)},
        {"were behind", chain, fun(N) -> past(chain(3, 2500, callers(N, 3, 2500), #{})) end,
            from(4)},
        {"in files", file_io, fun(N) -> files_of(N, callers(3, 1, 500)) end, from(500)},
        {"that wait", file_io, fun(N) -> files_of(900, callers(N, 1, 500)) end, from(3)},
        {"that wait in samples", file_io, fun(N) -> #{samples := #{processes := Some} = Samples} =
            Evidence = files_of(900, []), Evidence#{samples := Samples#{processes := Some ++
                [process(#{pid => pid(I), waits_for => [{pid(1), N}]}) || I <- [2, 3, 4]]}} end,
            from(1000)},
        {"for so long", file_io, fun(Ms) -> files_of(900, callers(3, 1, Ms)) end, from(500)}].

queue_of(All, Parts, Least) ->
    alone(#{queue => [{N, case N =< Parts of true -> Least; false -> 0 end, 9, 9}
        || N <- lists:seq(1, All)]}).

lock(N, Weight) ->
    Edges = [(edge(100 + I, p(1), 0))#{how := lock, tag := {atom, seats},
        site := {global, random_sleep, 1}} || I <- lists:seq(1, N)],
    with(sampled([{process(#{pid => pid(100 + I)}), [{<<"waiting">>, <<"queue_0">>,
        own([{<<"global:random_sleep/1">>, erlang}]), Weight}]} || I <- lists:seq(1, N)]),
        evidence(#{waits => look(tree(Edges, N, []), #{}, #{})})).

files_of(Weight, Edges) ->
    Stack = on_cpu(bif(<<"prim_file:sync_nif/1">>), Weight),
    with(sampled([{process(#{running => 1000}), [Stack]}]),
        evidence(#{waits => look(tree(Edges, length(Edges), []), #{}, #{})})).

samples() ->
    lists:append([heavy(Rule, Calls, Limits) || {Rule, Calls, Limits} <- [
        {append, bif(<<"erlang:++/2">>), {1, 400, 100, 250}},
        {copies, [{<<"memcpy">>, native} | bif(<<"erlang:send/2">>)], {1, 350, 80, 250}},
        {exceptions, bif(<<"erlang:throw/1">>), {1, 300, 80, 250}},
        {timers, bif(<<"erlang:cancel_timer/1">>), {1, 400, 80, 250}},
        {lock, bif_in_lock(<<"ets:insert/2">>), {2, none, 200, 250}}]]) ++
    [{"seen", timers,
            fun({All, N}) -> calls(1, bif(<<"erlang:cancel_timer/1">>), N, N, All, 0) end,
            [{{200, 20}, warning}, {{200, 19}, none}, {{199, 199}, none}]},
        {"collections in ++", append, fun(N) -> sampled([{process(#{running => 100, gc => 900}), [
            on_cpu(bif(<<"erlang:++/2">>), N), on_cpu(own([]), 100 - N),
            {<<"garbage_collecting">>, <<"queue_0">>, [{<<"[gc]">>, pseudo} | own([])],
                900}]}]) end,
            from(60)},
        {"share of one of two", lock, fun(Second) ->
            sampled([{process(#{pid => pid(I), running => 1000}), [on_cpu(own([]), 1000 - N),
                on_cpu(bif_in_lock(<<"ets:insert/2">>), N)]} || {I, N} <- [{1, 600}, {2, Second}]])
        end, from(150)},
        {"processes that wait for locks", lock, fun(N) ->
            calls(N, bif_in_lock(<<"ets:insert/2">>), 800 div N, 800 div N, 1000, 0) end,
            from(2)},
        {"locks of sends", lock, fun(N) ->
            calls(2, bif_in_lock(<<"erlang:send/2">>), N, 1000, 1000, 0) end,
            from(500)},
        {"locks without CPUs", lock, fun({Waited, N}) -> Os = fun(Run, Wait) ->
            #{schedulers => #{run_us => Run, wait_us => Wait}} end,
            (calls(2, bif_in_lock(<<"ets:insert/2">>), N, 1000, 1000, 0))#{
                os => {Os(0, 0), Os(1000, Waited)}} end,
            [{{500, 499}, warning}, {{501, 499}, none}, {{501, 500}, warning}]},
        %% Of C functions without names in at least twenty samples.
        {"names of the VM", exceptions, fun({Unnamed, Named}) -> Native = fun(F) -> [{F, native}
            | own([])] end, sampled([{process(#{}), [on_cpu(Native(<<"[beam.smp]">>), Unnamed),
                on_cpu(Native(<<"erts_x">>), Named)]}]) end,
            [{{10, 10}, unseen}, {{10, 9}, none}, {{49, 51}, none}, {{50, 50}, unseen}]},
        {"in collections", gc, fun(N) -> alone(#{running => 1000 - N, gc => N}) end,
            %% Of 1,000, Wilson's lower end is 0.3299 and 0.3308.
            from(360)},
        {"of a CPU", gc, fun(N) -> alone(#{gc => N}) end, from(100)},
        {"samples", gc, fun(N) -> alone(#{gc => N, observations => 100}) end, from(20)},
        {"a collection", long_gc, fun({Us, Count, Bytes}) ->
            alone(#{memory_range => {0, 0, Bytes, 0},
            longest_gc => #{us => Us, since_us => 0, count => Count, all_us => Us}}) end,
            [{{300000, 2, 134217728}, warning}, {{299999, 2, 134217728}, none},
            {{300000, 1, 134217728}, none}, {{999999, 1, 134217728}, none},
            {{1000000, 1, 134217728}, warning}, {{1000000, 9, 134217727}, none}]},
        {"one call", scheduler_stuck, fun({Us, N}) -> stuck(#{us => Us, all_us => Us, samples => N})
            end, [{{1000000, 5}, warning}, {{999999, 5}, none}, {{1000000, 4}, none}]},
        {"of many calls", scheduler_stuck, fun({Us, Count, All}) -> stuck(#{us => Us, all_us => All,
            count => Count}) end, [{{100000, 3, 3000000}, warning}, {{99999, 3, 3000000}, none},
            {{100000, 2, 3000000}, none}, {{100000, 3, 2999999}, none},
            {{100000, 3, 4999999}, warning}, {{100000, 3, 5000000}, critical}]},
        {"in C", scheduler_stuck, fun(N) -> maps:merge(stuck(#{kind => erlang, frame =>
            <<"shop:work/1">>}), maps:with([samples], sampled([{process(#{longest_native =>
                stay(#{kind => erlang, frame => <<"shop:work/1">>})}), [
                on_cpu([{<<"erts_x">>, native} | own([])], N), on_cpu(own([]), 1000 - N)]}]))) end,
            from(800)},
        {"long", mailbox, fun({Least, Us}) -> mailbox([{0, Least}, {Us, Least}], Least) end,
            [{{1000, 4000000}, warning}, {{999, 4000000}, none}, {{1000, 3999999}, none}]},
        {"very long", mailbox, fun(Most) -> mailbox([{0, 0}, {1, Most}], Most) end,
            [{9999, none}, {10000, critical}]},
        %% Nine tenths of the most are still there.
        {"stays", mailbox, fun(Last) -> mailbox([{0, 0}, {1, 10000}], Last) end,
            [{8999, warning}, {9000, critical}]},
        {"grown", mailbox, fun({Grown, Us}) -> mailbox([{At, N} || {At, N, _, _} <-
            line(0, Grown, Us)], Grown) end,
            [{{200, 4500000}, warning}, {{199, 4500000}, none}, {{200, 4499999}, none}]},
        {"ready", mailbox, fun({Ready, Most}) -> mailbox([{0, Most}, {4000000, Most}], Most,
            #{runnable => Ready}) end, [{{500, 1000}, warning}, {{501, 1000}, none},
            {{501, 9999}, none}, {{501, 10000}, critical}]},
        {"messages", selective_receive, fun(Most) -> receives(#{most => Most}) end, from(1000)},
        {"waits", selective_receive, fun(N) -> receives(#{waits => N, runs => 1000 - N,
            in => 500}) end,
            from(50)},
        {"on a CPU", selective_receive, fun(N) -> receives(#{runs => N, waits => 1000 - N}) end,
            from(20)},
        {"in the receive", selective_receive, fun(N) -> receives(#{in => N}) end, from(250)},
        {"of the time", selective_receive, fun(N) -> receives(#{waits => N - 250, runs => 250,
            in => 250}) end, from(500)},
        {"that stay", selective_receive, fun(Least) -> receives(#{waits => 0, runs => 1000,
            in => 900, least => Least, most => 1000}) end, from(980)},
        {"alone", selective_receive, fun(N) -> receives(#{waits => 0, runs => 1000, in => N}) end,
            from(900)},
        {"in spawns", spawn_storm, fun({N, OnCpu, All, Others}) -> calls(1,
            bif(<<"erlang:spawn/3">>), N, OnCpu, All, Others) end,
            [{{8, 20, 1000, 0}, warning}, {{7, 17, 1000, 0}, none}, {{8, 21, 1000, 0}, none},
            {{12, 12, 2000, 0}, warning}, {{11, 11, 2000, 0}, none},
            {{10, 10, 1000, 1990}, warning}, {{10, 10, 1000, 1991}, none}]},
        {"more processes", spawn_storm, fun(Last) -> (calls(1, bif(<<"erlang:spawn/3">>), 20, 20,
            1000, 0))#{seconds => [#{node_processes => N} || N <- [1000, 1, Last]]} end,
            up_to(1100)},
        {"of the time", persistent_term, fun(N) -> terms(N, 0, []) end, from(40)},
        {"with as many terms", persistent_term, fun({N, Terms}) -> terms(N, 0, Terms) end,
            [{{20, [7, 7]}, warning}, {{19, [7, 7]}, none}, {{20, [7, 8]}, none},
            {{20, [7]}, none}]},
        {"purges", persistent_term, fun(N) -> terms(60, N, []) end, up_to(19)},
        {"of the time", code_loading, fun(N) -> loading(N, 0, 0, 5 * ?S) end, from(200)},
        {"where code is replaced", code_loading, fun(N) -> loading(0, N, 51, 5 * ?S) end, from(10)},
        {"who asks", code_loading, fun(N) -> loading(0, 10, N, 5 * ?S) end, from(51)},
        {"long enough", code_loading, fun(Us) -> loading(200, 0, 0, Us) end, from(5000000)},
        {"on a CPU", priority, fun({N, Ready}) -> favoured(N, Ready, 1000, {4000, 1000}) end,
            [{{500, 25}, warning}, {{499, 0}, none}, {{500, 26}, none}]},
        {"there", priority, fun(All) -> favoured(All, 0, All, {4000, 1000}) end,
            [{500, warning}, {499, none}]},
        {"ticks", priority, fun(N) ->
            #{samples := #{processes := Some} = Of} = Evidence = favoured(N, 0, N, {4 * N, N}),
            Evidence#{samples := Of#{processes := [P#{observations := N} || P <- Some]}} end,
            from(200)},
        {"others", priority, fun(Others) -> favoured(900, 0, 1000, Others) end,
            [{{4000, 0}, warning}, {{3999, 0}, none}, {{6000, 4000}, warning},
            {{6000, 4001}, none}]},
        {"busy", hot_function, fun(Waits) -> hot(#{running => 1000 - Waits, waiting => Waits}) end,
            [{5, warning}, {6, note}, {100, note}, {101, none}]},
        {"mostly on a CPU", hot_function, fun(N) -> hot(#{running => N, runnable => 990 - N,
            waiting => 10}) end, [{600, note}, {599, none}]},
        {"for so long", hot_function, fun(Us) -> hot(#{running => 1000, last_us => Us}) end,
            from(5000000)},
        {"of a CPU", hot_function, fun(N) -> hot(#{running => N, runnable => 1000 - N}) end,
            from(50)},
        {"with messages", hot_function, fun({N, With}) -> hot(#{running => N, runnable => 1000 - N},
            [{<<"running">>, <<"queue_1s">>, own([]), With}]) end,
            [{{899, 500}, warning}, {{899, 501}, none}, {{900, 501}, warning}]},
        {"in one leaf", hot_function, fun({N, Ms}) -> hot_group(N, Ms) end,
            [{{500, 10000}, warning}, {{499, 10000}, none}, {{799, 1}, none}, {{800, 1}, warning}]},
        {"expressions", hot_function, fun(N) -> hot(#{running => 900, waiting => 100},
            [on_cpu(bif(<<"re:run/3">>), N)]) end,
            [{900, note}, {901, warning}]},
        {"of the node", hot_function, fun hottest/1, [{#{}, warning}, {#{in => 239}, none},
            {#{ready => 59}, none}, {#{ready => 550, waits => 50}, warning},
            {#{ready => 551, waits => 49}, none}, {#{runs => 150, in => 150}, warning},
            {#{runs => 149, in => 149}, none}]}].

bif_in_lock(Bif) -> [{<<"ethr_mutex_lock_wait">>, native} | bif(Bif)].

%% So many processes, each so often in these frames, on a CPU, and sampled; others on a CPU.
calls(N, Frames, In, OnCpu, All, Others) ->
    Of = fun(Pid, Name, Runs, Rows) -> {process(#{pid => pid(Pid), name => Name, running => Runs,
        waiting => max(0, All - Runs), observations => All}), Rows} end,
    sampled([Of(9, <<"other">>, Others, [on_cpu(own([]), Others)])
        | [Of(100 + I, <<"one">>, OnCpu, [on_cpu(Frames, In),
            on_cpu(own([]), OnCpu - In)]) || I <- lists:seq(1, N)]]).

%% Thousandths: of its time on a CPU, of a CPU together, of the time on CPUs of all.
heavy(Rule, Frames, {N, Share, Cpus, Node}) ->
    [{"share", Rule, fun(In) -> calls(N, Frames, In, 1000, 1000, 0) end,
            [Row || is_integer(Share), Row <- [{Share - 1, none}, {Share, warning}]]},
        {"CPUs", Rule, fun(In) -> calls(N, Frames, In div N, In div N, 1000, 0) end,
            [{Cpus - N, none}, {Cpus, warning}]},
        {"of all", Rule, fun(Others) ->
            calls(N, Frames, 4 * Node div N, 4 * Node div N, 4000, Others) end,
            [{4 * (1000 - Node), warning}, {4 * (1000 - Node) + 4, none}]}].

stay(More) ->
    maps:merge(#{us => 1000000, since_us => 0, frame => <<"zlib:deflate_nif/4">>, kind => called,
        scheduler => 1, samples => 5, count => 1, all_us => 1000000}, More).

stuck(More) -> alone(#{running => 1000, longest_native => stay(More)}).
mailbox(Queue, Last) -> mailbox(Queue, Last, #{}).
mailbox(Queue, Last, More) ->
    Lengths = [N || {_, N} <- Queue],
    alone(More#{queue => [{Us, N, N, N} || {Us, N} <- Queue],
        queue_range => {hd(Lengths), lists:min(Lengths), lists:max(Lengths), Last}}).

%% Of a process with a long queue: how often it waits and is on a CPU, and there in the receive.
receives(Of) ->
    #{most := Most, least := Least, waits := Waits, runs := Runs} = Given =
        maps:merge(#{most => 2000, least => 2000, waits => 500, runs => 500}, Of),
    In = maps:get(in, Given, Runs),
    Row = fun(Status, Frames, W) -> {Status, <<"queue_1000s">>, Frames, W} end,
    sampled([{process(#{queue_range => {Least, min(Least, Most), Most, Most}, running => Runs}), [
        Row(<<"waiting">>, own([]), Waits), Row(<<"running">>, own([]), In),
        Row(<<"running">>, [{<<"other:work/1">>, erlang}], Runs - In)]}]).

%% Of 1,000 samples so many frees and purges, and one who puts.
terms(Freed, Purged, Terms) ->
    Vm = fun(Pid, Name, N) -> {process(#{pid => pid(Pid), name => Name, waiting => 1000 - N}), []}
    end,
    (sampled([Vm(2, <<"erts_literal_area_collector:start/0">>, Freed),
        Vm(3, <<"erts_code_purger:start/0">>, Purged), {process(#{other => 20}),
            [on_cpu(bif(<<"persistent_term:put/2">>), 1)]}]))#{
        seconds => [#{node_persistent_terms => N} || N <- Terms]}.

loading(Loads, Purges, Asks, Us) ->
    Of = fun(Pid, Name, N) -> {process(#{pid => pid(Pid), name => Name, waiting => 1000 - N}), []}
    end,
    #{samples := Samples} = Evidence = sampled([Of(2, <<"code_server">>, Loads),
        Of(3, <<"erts_code_purger">>, Purges), {process(#{waiting => 1000}), [{<<"waiting">>,
            <<"queue_0">>, own([{<<"code_server:call/1">>, erlang}]), Asks}]}]),
    Evidence#{samples := Samples#{span_us := Us}}.

%% One that seldom is ready, beside others that are ready and run.
favoured(Runs, Ready, All, {OthersReady, OthersRun}) ->
    Of = fun(Pid, R, N, Samples) -> {process(#{pid => pid(Pid), running => R, runnable => N,
        observations => Samples}), []} end,
    sampled([Of(1, Runs, Ready, All), Of(2, OthersRun, OthersReady, 1000)]).

hot(Process) -> hot(Process, [on_cpu(own([]), 1)]).
hot(Process, Rows) -> sampled([{process(maps:merge(#{waiting => 0}, Process)), Rows}]).

%% Two that do the same, so often in one innermost function; the VM had so many ms of a CPU.
hot_group(N, Ms) ->
    (sampled([{process(#{pid => pid(I), running => 1000}), [on_cpu(bif(<<"maps:get/2">>), N),
        on_cpu(own([{<<"lists:map/2">>, erlang}]), min(N, 1000 - N)),
        on_cpu(own([]), max(0, 1000 - 2 * N))]} || I <- [1, 2]]))#{
        seconds => [#{time_us => 0, node_runtime_ms => 0},
            #{time_us => 10 * ?S, node_runtime_ms => 2 * Ms}]}.

%% Of four that do the same, of 1,000 samples each: on a CPU, there in one function, ready, waiting.
hottest(Of) ->
    #{runs := Runs, in := In, ready := Ready, waits := Waits} =
        maps:merge(#{runs => 400, in => 240, ready => 60, waits => 540}, Of),
    sampled([{process(#{pid => pid(I), running => Runs, runnable => Ready, waiting => Waits}), [
        on_cpu(bif(<<"ets:select/2">>), In),
        on_cpu(own([{<<"lists:map/2">>, erlang}]), (Runs - In) div 2),
        on_cpu(own([]), Runs - In - (Runs - In) div 2)]} || I <- lists:seq(1, 4)]).

growth() ->
    Heap = fun({From, To}) -> heap(From, To, 10 * ?S) end,
    [{"grown", heap_growth, Heap, [{{4 * ?MIB, 12 * ?MIB}, warning},
            {{4 * ?MIB, 12 * ?MIB - 1}, none}, {{8 * ?MIB, 20 * ?MIB}, warning},
            {{8 * ?MIB, 20 * ?MIB - 1}, none}]},
        {"grown by much", heap_growth, Heap, [{{40 * ?MIB, 56 * ?MIB}, warning},
            {{40 * ?MIB, 56 * ?MIB - 1}, none}, {{100 * ?MIB, 120 * ?MIB}, warning},
            {{100 * ?MIB, 120 * ?MIB - 1}, none}]},
        {"for so long", heap_growth, fun(Us) -> heap(0, 64 * ?MIB, Us) end, from(5000000)},
        {"a second", heap_growth, fun(N) -> heap(0, 10 * N, 10 * ?S) end,
            [{104857599, warning}, {104857600, critical}]},
        {"of a VM without CPUs", heap_growth, fun({Ms, To}) -> (heap(0, To, 10 * ?S))#{seconds =>
            [#{time_us => 0, node_runtime_ms => 0}, #{time_us => 10 * ?S, node_runtime_ms => Ms}]}
        end, [{{5000, 67108863}, warning}, {{4999, 67108863}, none}, {{4999, 67108864}, warning}]},
        {"grown", binary_leak, fun(To) -> binaries([0, 2, 4, 6, 8], To) end, from(16777216)},
        {"steps", binary_leak, fun(Middle) -> binaries([0, Middle, 5, 5, 7, 16]) end,
            [{0, none}, {2, warning}]},
        {"for so long", binary_leak, fun(Us) ->
            #{seconds := Seconds} = Evidence = binaries([0, 20, 40, 60, 80, 100]),
            Evidence#{seconds := [S#{time_us := min(T, Us)} || #{time_us := T} = S <- Seconds]} end,
            from(5000000)},
        {"a second", binary_leak, fun(N) -> binaries([100 * I || I <- lists:seq(0, 4)], 5 * N) end,
            [{104857599, warning}, {104857600, critical}]},
        {"of what there was", binary_leak, fun(To) -> binaries([200, 203, 206, 209, 212], To) end,
            [{220 * ?MIB - 1, none}, {220 * ?MIB, warning}]}].

heap(From, To, Us) ->
    alone(#{running => 1000, memory => line(From, To, Us), memory_range => {From, From, To, To}}).

%% Of all binaries each second: so many MiB, and so many bytes at last.
binaries(Mib) -> binaries(lists:droplast(Mib), lists:last(Mib) * ?MIB).
binaries(Mib, Last) ->
    Values = [N * ?MIB || N <- Mib] ++ [Last],
    (sampled([]))#{seconds => [#{time_us => N * ?S, node_memory_binary => V}
        || {N, V} <- lists:zip(lists:seq(0, length(Values) - 1), Values)]}.

names() ->
    Binaries = fun(Holder) -> maps:merge(binaries([0, 20, 40, 60, 80, 100]), Holder) end,
    Table = fun(More) -> #{tables => #{tables => [maps:merge(#{name => t, owner => p(1),
        owner_name => cache, bytes => 0, objects => 9, is_new => true}, More)]}} end,
    [{limit, fun({N, More}) -> (seconds(node_ports, [900, 900], #{node_port_limit => 1000}))#{
        system => {#{}, #{port_owners => owners([{<<"one">>, N}, {<<"two">>, More}])}}} end,
        [{{2, 1}, [<<"one">>]}, {{1, 2}, [<<"two">>]}, {{0, 0}, []}]},
        %% More than half of those that are new.
        {port_growth, fun({N, More}) -> (seconds(node_ports, rising(10, 5), #{}))#{
            system => {#{port_owners => #{}},
                #{port_owners => owners([{<<"one">>, N}, {<<"two">>, More}])}}} end,
            [{{2, 1}, [<<"one">>]}, {{2, 2}, []}]},
        {atom_growth, fun(Seen) -> maps:merge(seconds(node_atoms, rising(20000, 100), #{}),
            maps:with([samples], sampled([{process(#{pid => pid(I), name => integer_to_binary(I)}),
                [on_cpu(bif(<<"erlang:list_to_atom/1">>), N)]}
                || {I, N} <- lists:zip(lists:seq(1, length(Seen)), Seen)]))) end,
            [{[2], []}, {[3], [<<"1">>]}, {[3, 3], []}, {[3, 4], [<<"2">>]}]},
        {code_growth, fun(Seen) -> maps:merge(seconds(node_memory_code, rising(9, 65536), #{}),
            maps:with([samples], sampled([{process(#{pid => pid(I), name => integer_to_binary(I)}),
                [on_cpu(own([{<<"code_server:call/1">>, erlang}]), N)]}
                || {I, N} <- lists:zip(lists:seq(1, length(Seen)), Seen)]))) end,
            [{[4], []}, {[5], [<<"1">>]}, {[5, 6], [<<"2">>]}]},
        {code_loading, fun(Asks) -> loading(200, 0, Asks, 5 * ?S) end,
            [{50, []}, {51, [<<"one">>]}]},
        {persistent_term, fun(Puts) -> #{samples := #{processes := Some} = Samples} = Evidence =
            terms(60, 0, []),
            %% Another one puts as much.
            Two = [P#{other := Puts} || #{name := <<"one">>} = P <- Some],
            Evidence#{samples := Samples#{processes := [P#{name := <<"two">>, other := 9}
                || P <- Two] ++ Two ++ (Some -- [P#{other := 20} || P <- Two])}} end,
            [{10, []}, {11, [<<"one">>]}]},
        %% Three tenths of what grew.
        {binary_leak, fun(Grown) -> Binaries(#{binaries => #{names => #{p(1) =>
            #{registered_name => cache}}, growing => [#{kind => process, process => p(1),
                grown => Grown, binaries => 9, bytes => 9}]}}) end,
            [{30 * ?MIB - 1, []}, {30 * ?MIB, [<<"cache">>]}]},
        {binary_leak, fun(Grown) -> Binaries(maps:with([samples], alone(#{
            bin_vheap => line(0, Grown, 10 * ?S)}))) end,
            [{30 * ?MIB - 1, []}, {30 * ?MIB, [<<"one">>]}]},
        {table_growth, fun(N) -> maps:merge(seconds(node_ets_tables, rising(30, 5),
            #{node_memory_ets => 1}), #{tables => #{tables => lists:append([
                maps:get(tables, maps:get(tables, Table(#{owner => p(I)})))
                || I <- lists:duplicate(N, 1) ++ [2, 3, 4]])}}) end,
            [{3, []}, {4, [<<"cache">>]}]},
        %% Of 10 bytes of growth, or of 110 of all memory.
        {memory_limit, fun({PerS, _}) when is_float(PerS) -> maps:merge(memory(960, 960, 200, 1),
            Table(#{growth => #{bytes_per_s => PerS, objects_per_s => 0.0}}));
            (Bytes) -> maps:merge(memory(960, 960, 200, 1), Table(#{bytes => Bytes})) end,
            [{{0.29, grown}, []}, {{0.3, grown}, [<<"cache">>]}, {32, []}, {33, [<<"cache">>]}]},
        {memory_limit, fun({First, Last}) -> with(
            sampled([{process(#{pid => pid(I), name => Name, memory_range => Of}), []}
                || {I, Name, Of} <- [{1, <<"one">>, {First, 0, 99, Last}},
                    {2, <<"two">>, {9, 0, 0, 9}}, {3, <<"three">>, {8, 0, 0, 9}}]]),
            memory(960, 960, 200, 1)) end,
            [{{5, 7}, []}, {{5, 8}, [<<"one">>]}, {{32, 32}, []}, {{33, 33}, [<<"one">>]}]},
        {memory_limit, fun({Grown, Bytes}) -> Of = fun(I, G, B) ->
            #{process => p(I), grown => G, bytes => B} end,
            (memory(960, 960, 200, 1))#{binaries => #{
                names => #{p(1) => #{registered_name => cache}}, growing => [Of(1, Grown, 1)],
                holders => [Of(1, unknown, Bytes), Of(2, 1, 1)]}} end,
            [{{2, 32}, []}, {{3, 0}, [<<"cache">>]}, {{0, 33}, [<<"cache">>]}]},
        {mailbox, fun(N) -> (mailbox([{0, 0}, {1, 10000}], 10000))#{mailboxes => [#{process => p(1),
            senders => [{p(2), N}, {p(3), 1}], all_senders => 9, counted => 100,
            names => #{p(2) => #{registered_name => feed}}}]} end,
            [{50, [<<"one">>]}, {51, [<<"one">>, <<"feed">>]}]}].

owners(Of) ->
    maps:from_list([{Name, #{p(1) => [{Name, I} || I <- lists:seq(1, N)]}} || {Name, N} <- Of]).
