%% Work of which stack and CPU time are known: leaves under a chain of twenty
%% functions that all stay on the stack, and slices of leaves that are timed by
%% who runs them, with the clock of which a sampler's ticks are, and with the CPU
%% clock of the scheduler's thread.
-module(running_work).

-export([start/2, start/3, stop/1, leaves/0, chain/0, root/0, called_by/1, run/3, calibrate/1,
    echo/0]).

-export_type([work/0, times/0]).

%% A leaf for ever, once it gets `go' or at once, or slices of leaves of so many rounds each, over
%% and over in an order that changes; untimed, there is no system call in it.
-type work() ::
    {leaf | leaf_at_go, atom()}
    | {slices | untimed_slices, [{Leaf :: atom(), Rounds :: pos_integer()}]}.

%% Nanoseconds in each leaf's slices.
-type times() :: #{Leaf :: atom() | {cpu, Leaf :: atom()} => non_neg_integer()}.

-define(MIX(X), (((X) * 5 + 1) band 16#ffffff)).
-define(MIX4(X), ?MIX(?MIX(?MIX(?MIX(X))))).
%% Enough of it that a turn of 4000 reductions takes a while: the time that the
%% scheduler takes between two turns is nobody's.
-define(WORK(X), ?MIX4(?MIX4(?MIX4(?MIX4(X))))).

%% @doc A process that works on one scheduler until it is told to stop.
start(Scheduler, Work) -> start(Scheduler, Work, []).

start(Scheduler, Work, Options) ->
    Flag = atomics:new(1, []),
    {Pid, Monitor} = spawn_opt(
        ?MODULE, run, [Work, Flag, self()], [monitor, {scheduler, Scheduler} | Options]),
    {Pid, Monitor, Flag}.

%% @doc What it has to tell of its slices.
-spec stop({pid(), reference(), atomics:atomics_ref()}) -> times().
stop({Pid, Monitor, Flag}) ->
    ok = atomics:put(Flag, 1, 1),
    receive
        {'DOWN', Monitor, process, Pid, {shutdown, Times}} -> Times;
        {'DOWN', Monitor, process, Pid, Reason} -> error({worker_died, Reason})
    end.

-spec run(work(), atomics:atomics_ref(), pid()) -> no_return().
run({leaf, Leaf}, Flag, _) ->
    _ = c01(Leaf, {Flag, ready(Leaf)}),
    done(#{});
run({leaf_at_go, Leaf}, Flag, _) ->
    State = ready(Leaf),
    receive go -> ok end,
    _ = c01(Leaf, {Flag, State}),
    done(#{});
run({slices, Slices}, Flag, _) -> done(slices(Slices, states(Slices), Flag, #{}));
run({untimed_slices, Slices}, Flag, _) -> done(untimed_slices(Slices, states(Slices), Flag)).

states(Slices) -> maps:from_list([{Leaf, ready(Leaf)} || {Leaf, _} <- Slices]).
done(Times) -> exit({shutdown, Times}).

slices(Slices, States, Flag, Times0) ->
    Times = lists:foldl(fun({Leaf, Rounds}, Times) ->
        Begin = erlang:monotonic_time(nanosecond),
        BeginCpu = running_test_nif:thread_cpu_ns(),
        _ = c01(Leaf, {Rounds, maps:get(Leaf, States)}),
        TookCpu = running_test_nif:thread_cpu_ns() - BeginCpu,
        Took = erlang:monotonic_time(nanosecond) - Begin,
        Times#{Leaf => maps:get(Leaf, Times, 0) + Took,
            {cpu, Leaf} => maps:get({cpu, Leaf}, Times, 0) + TookCpu}
    end, Times0, shuffled(Slices)),
    case atomics:get(Flag, 1) of 0 -> slices(Slices, States, Flag, Times); _ -> Times end.

untimed_slices(Slices, States, Flag) ->
    _ = [c01(Leaf, {Rounds, maps:get(Leaf, States)}) || {Leaf, Rounds} <- shuffled(Slices)],
    case atomics:get(Flag, 1) of 0 -> untimed_slices(Slices, States, Flag); _ -> #{} end.

shuffled(Slices) ->
    [Slice || {_, Slice} <- lists:sort([{rand:uniform(), Slice} || Slice <- Slices])].

%% @doc Nanoseconds that a thousand rounds of a leaf take.
calibrate(Leaf) ->
    %% On one scheduler: it is its thread's clock.
    {Pid, Monitor} = spawn_opt(
        fun() -> exit({took, lists:min([take(Leaf) || _ <- lists:seq(1, 5)])}) end,
        [monitor, {scheduler, 1}]),
    receive {'DOWN', Monitor, process, Pid, {took, Ns}} -> Ns end.

take(Leaf) ->
    State = ready(Leaf),
    Begin = running_test_nif:thread_cpu_ns(),
    _ = c01(Leaf, {200, State}),
    5 * (running_test_nif:thread_cpu_ns() - Begin).

%% @doc What stands below each leaf, leaf's caller first.
-spec chain() -> [binary()].
chain() ->
    [iolist_to_binary(io_lib:format("running_work:c~2..0w/2", [N])) || N <- lists:seq(20, 1, -1)].

%% @doc Below the chain.
root() -> [<<"running_work:run/3">>].

c01(Leaf, State) -> [c02(Leaf, State)].
c02(Leaf, State) -> [c03(Leaf, State)].
c03(Leaf, State) -> [c04(Leaf, State)].
c04(Leaf, State) -> [c05(Leaf, State)].
c05(Leaf, State) -> [c06(Leaf, State)].
c06(Leaf, State) -> [c07(Leaf, State)].
c07(Leaf, State) -> [c08(Leaf, State)].
c08(Leaf, State) -> [c09(Leaf, State)].
c09(Leaf, State) -> [c10(Leaf, State)].
c10(Leaf, State) -> [c11(Leaf, State)].
c11(Leaf, State) -> [c12(Leaf, State)].
c12(Leaf, State) -> [c13(Leaf, State)].
c13(Leaf, State) -> [c14(Leaf, State)].
c14(Leaf, State) -> [c15(Leaf, State)].
c15(Leaf, State) -> [c16(Leaf, State)].
c16(Leaf, State) -> [c17(Leaf, State)].
c17(Leaf, State) -> [c18(Leaf, State)].
c18(Leaf, State) -> [c19(Leaf, State)].
c19(Leaf, State) -> [c20(Leaf, State)].

%% The state is ready made: what it takes to make it is nobody's slice. Each
%% answers, so that the compiler keeps the frames of its callers.
c20(erlang, {More, S}) -> [erlang(More, S)];
c20(leaf_a, {More, S}) -> [leaf_a(More, S)];
c20(leaf_b, {More, S}) -> [leaf_b(More, S)];
c20(leaf_c, {More, S}) -> [leaf_c(More, S)];
c20(light_bif, {More, S}) -> [light_bif(More, S)];
c20(heavy_bif, {More, S}) -> [heavy_bif(More, S)];
c20(process_info, {More, S}) -> [process_info_of_itself(More, S)];
c20(dictionary, {More, S}) -> [dictionary(More, S)];
c20(guard_bif, {More, S}) -> [guard_bif(More, S)];
c20(nif, {More, S}) -> [nif(More, S)];
c20(messages, {More, S}) -> [messages(More, S)];
c20(ping_pong, {More, S}) -> [ping_pong(More, S)];
c20(binaries, {More, S}) -> [binaries(More, S)];
c20(maps, {More, S}) -> [maps(More, S)];
c20(floats, {More, S}) -> [floats(More, S)];
c20(funs, {More, S}) -> [funs(More, S)];
c20(exceptions, {More, S}) -> [exceptions(More, S)];
c20(garbage, {More, S}) -> [garbage(More, S)];
c20(tables, {More, S}) -> [tables(More, S)];
c20(mixed, {More, S}) -> [mixed(More, S)].

%% @doc The leaf of each kind of work.
leaves() ->
    #{erlang => <<"running_work:erlang/2">>, leaf_a => <<"running_work:leaf_a/2">>,
        leaf_b => <<"running_work:leaf_b/2">>, leaf_c => <<"running_work:leaf_c/2">>,
        light_bif => <<"running_work:light_bif/2">>, heavy_bif => <<"running_work:heavy_bif/2">>,
        process_info => <<"running_work:process_info_of_itself/2">>,
        dictionary => <<"running_work:dictionary/2">>, guard_bif => <<"running_work:guard_bif/2">>,
        nif => <<"running_work:nif/2">>, messages => <<"running_work:messages/2">>,
        ping_pong => <<"running_work:ping_pong/2">>, binaries => <<"running_work:binaries/2">>,
        maps => <<"running_work:maps/2">>, floats => <<"running_work:floats/2">>,
        funs => <<"running_work:funs/2">>, exceptions => <<"running_work:exceptions/2">>,
        garbage => <<"running_work:garbage/2">>, tables => <<"running_work:tables/2">>,
        mixed => <<"running_work:mixed/2">>}.

%% @doc Functions, BIFs and NIFs that may stand above each leaf.
-spec called_by(atom()) -> [binary()].
called_by(light_bif) -> [<<"lists:keyfind/3">>];
called_by(heavy_bif) -> [<<"erlang:garbage_collect/0">>, <<"erts_internal:garbage_collect/1">>];
called_by(process_info) -> [<<"erlang:process_info/2">>];
called_by(dictionary) -> [<<"erlang:put/2">>, <<"erlang:get/1">>];
called_by(guard_bif) -> [<<"erlang:length/1">>, <<"erlang:byte_size/1">>, <<"erlang:map_size/1">>];
called_by(nif) -> [<<"running_test_nif:spin/1">>];
called_by(messages) -> [<<"erlang:send/2">>, <<"erlang:!/2">>];
called_by(ping_pong) -> [<<"erlang:send/2">>, <<"erlang:!/2">>];
called_by(binaries) -> [<<"running_work:bytes/2">>, <<"erlang:byte_size/1">>];
called_by(maps) -> [<<"maps:get/2">>, <<"erlang:map_get/2">>, <<"maps:put/3">>];
called_by(floats) -> [<<"math:sqrt/1">>];
called_by(funs) -> [<<"running_work:work/1">>];
called_by(exceptions) -> [<<"running_work:thrower/1">>, <<"erlang:error/1">>, <<"erlang:throw/1">>,
    <<"erlang:raise/3">>];
called_by(garbage) -> [<<"running_work:tuples/1">>, <<"erlang:make_tuple/2">>];
called_by(tables) -> [<<"ets:insert/2">>, <<"ets:lookup/2">>];
called_by(mixed) -> lists:append([called_by(Leaf) || Leaf <- mixable()]);
called_by(_) -> [].

mixable() ->
    [light_bif, heavy_bif, process_info, dictionary, guard_bif, nif, messages, binaries, maps,
        floats, funs, exceptions, tables].

%% What a leaf works on.
ready(light_bif) -> [{K} || K <- lists:seq(1, 2000)];
ready(guard_bif) -> lists:seq(1, 3000);
ready(ping_pong) -> spawn_link(?MODULE, echo, []);
ready(maps) -> maps:from_list([{K, K} || K <- lists:seq(1, 100)]);
ready(funs) -> fun work/1;
ready(tables) -> ets:new(running_work, [public]);
ready(garbage) -> 40;
ready(mixed) -> {[{K} || K <- lists:seq(1, 500)], maps:from_list([{K, K}
    || K <- lists:seq(1, 100)])};
ready(_) -> 7.

%% How a leaf goes on: for so many rounds, or until the flag is up.
-define(GO_ON(Leaf, More, S),
    case More of
        0 -> S;
        _ when is_integer(More) -> Leaf(More - 1, S);
        _ ->
            case atomics:get(More, 1) of
                0 -> Leaf(More, S);
                _ -> S
            end
    end).

erlang(More, S0) ->
    S = ?WORK(S0),
    ?GO_ON(erlang, More, S).

leaf_a(More, S0) ->
    S = ?WORK(S0),
    ?GO_ON(leaf_a, More, S).

leaf_b(More, S0) ->
    S = ?WORK(S0),
    ?GO_ON(leaf_b, More, S).

leaf_c(More, S0) ->
    S = ?WORK(S0),
    ?GO_ON(leaf_c, More, S).

light_bif(More, S) ->
    false = lists:keyfind(0, 1, S),
    ?GO_ON(light_bif, More, S).

heavy_bif(More, S) ->
    true = erlang:garbage_collect(),
    ?GO_ON(heavy_bif, More, S).

process_info_of_itself(More, S) ->
    {reductions, _} = erlang:process_info(self(), reductions),
    ?GO_ON(process_info_of_itself, More, S).

dictionary(More, S) ->
    _ = erlang:put(running_work, S),
    S = erlang:get(running_work),
    ?GO_ON(dictionary, More, S).

guard_bif(More, S) when length(S) > 2 -> ?GO_ON(guard_bif, More, S).

nif(More, S) ->
    _ = running_test_nif:spin(20000),
    ?GO_ON(nif, More, S).

messages(More, S) ->
    Self = self(),
    Self ! {one, S},
    Self ! {two, [S]},
    receive {two, [S]} -> ok end,
    receive {one, S} -> ok end,
    ?GO_ON(messages, More, S).

ping_pong(More, S) ->
    S ! self(),
    receive pong -> ok end,
    ?GO_ON(ping_pong, More, S).

echo() ->
    receive
        Pid ->
            Pid ! pong,
            echo()
    end.

binaries(More, S) ->
    Made = <<S:13, (S + 1):19/little, "text", S/float, <<1, 2, 3>>/binary, 0:4, 1:4>>,
    Sum = bytes(Made, 0),
    true = Sum > 0,
    <<_:13, _:19, "te", Rest/binary>> = Made,
    true = byte_size(Rest) > 2,
    ?GO_ON(binaries, More, S).

work(X) -> ?WORK(X).

bytes(<<B, Rest/binary>>, Sum) -> bytes(Rest, Sum + B);
bytes(<<>>, Sum) -> Sum.

maps(More, S0) ->
    #{50 := A} = S0,
    S = S0#{A => A, (A + 1) := map_get(A, S0)},
    ?GO_ON(maps, More, S).

floats(More, S) ->
    X = math:sqrt(S * 1.5) / 3.25 + S * 0.125 - 1.0,
    true = X * X + 0.5 > X - 7.0,
    ?GO_ON(floats, More, S).

funs(More, S) ->
    _ = S(S(1)),
    ?GO_ON(funs, More, S).

exceptions(More, S) ->
    try thrower(S)
    catch
        throw:S -> ok;
        error:{S, _} -> ok
    end,
    try erlang:error({S, S})
    catch
        error:{S, S}:Stack -> true = is_list(Stack)
    end,
    ?GO_ON(exceptions, More, S).

thrower(S) when S rem 2 =:= 0 -> error({S, S});
thrower(S) -> throw(S).

%% Garbage of which a part survives, so that the collector has to copy: little
%% enough to be collected here, not by a dirty scheduler, and with few calls, so
%% that turns are long.
garbage(More, S) ->
    _ = tuples(S),
    ?GO_ON(garbage, More, S).

tuples(0) -> [];
tuples(N) -> [erlang:make_tuple(100, N) | tuples(N - 1)].

tables(More, S) ->
    true = ets:insert(S, {key, 1, <<"value">>}),
    [{key, _, _}] = ets:lookup(S, key),
    ?GO_ON(tables, More, S).

%% A little of much, in one function.
mixed(More, {List, Map0}) ->
    false = lists:keyfind(0, 1, List),
    Self = self(),
    Self ! length(List),
    Length = receive N when is_integer(N) -> N end,
    _ = erlang:put(running_work, Length),
    {reductions, _} = erlang:process_info(Self, reductions),
    Map = Map0#{50 => Length, 51 := map_get(52, Map0)},
    Made = <<Length:32, 1.5/float, 0:4, 1:4>>,
    true = bytes(Made, 1) > 0,
    true = math:sqrt(Length * 1.5) < 100.0 * Length,
    _ = running_test_nif:spin(100),
    try thrower(Length + 1)
    catch
        throw:_ -> ok
    end,
    S = {List, Map},
    ?GO_ON(mixed, More, S).
