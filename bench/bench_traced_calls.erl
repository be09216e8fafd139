%% What a measured call costs, beside call_time and a tracer process, which is how xprof measures;
%% and how much work a program does whose function is called without end, in the second in which it
%% is measured and after.
-module(bench_traced_calls).

-export([run/1, pass/1]).

%% In a row, and how often.
-define(CALLS, 2000).
-define(TIMES, 50).
-define(F, {?MODULE, pass, 1}).
%% Of all schedulers.
-define(CALLS_A_SECOND, 10000000).
-define(CALIBRATED, 1000000).

-spec run(pos_integer()) -> [bench_results:result()].
run(Seconds) ->
    Parts = #{callers => false, groups => false},
    [
        call(Name, Seconds, Start, Stop, Bar)
     || {Name, Start, Stop, Bar} <- [
        {"by process group and caller", measured(#{}), fun ends/1, #{bar => {at_most, 450}}},
        {"by process group", measured(#{callers => false}), fun ends/1, #{}},
        {"the function only", measured(Parts), fun ends/1, #{bar => {at_most, 450}}},
        {"call_time", fun call_time/0, fun call_time_ends/1, #{}},
        {"a tracer process", fun process_traces/0, fun process_ends/1, #{}}
    ]] ++ hot("a hot function", Seconds, 0) ++
        hot("a function of 10^7 calls a second", Seconds, filling(?CALLS_A_SECOND)).

-spec pass(X) -> X.
pass(X) -> X.

calls(0) -> ok;
calls(N) -> _ = ?MODULE:pass(N), calls(N - 1).

%% A call of an empty function.
call(Name, Seconds, Start, Stop, Bar) ->
    Each = fun(First, Last) ->
        fun() ->
            Begun = fun() -> State = First(), ok = calls(1000), State end,
            {Ns, Waiting} = bench_tracing:with_process(Begun, ?TIMES,
                fun() -> calls(?CALLS) end, Last),
            {Ns / ?CALLS, Waiting}
        end
    end,
    bench_tracing:row(["a measured call: ", Name], 4 * Seconds, Each(Start, Stop),
        Each(fun() -> none end, fun(none) -> 0 end), Bar).

measured(More) ->
    fun() ->
        {ok, Measurement} = flame_prof_latency:start(?F,
            maps:merge(#{max_cpu_percent => infinity, max_events_per_second => infinity}, More)),
        Measurement
    end.

ends(Measurement) ->
    {ok, #{sampled_of := 1}} = flame_prof_latency:stop(Measurement),
    0.

call_time() ->
    1 = erlang:trace_pattern(?F, true, [local, call_time]),
    1 = erlang:trace(self(), true, [call]).

call_time_ends(_) ->
    1 = erlang:trace(self(), false, [call]),
    1 = erlang:trace_pattern(?F, false, [local, call_time]),
    0.

process_traces() ->
    Tracer = spawn(fun bench_tracing:tracer/0),
    1 = erlang:trace_pattern(?F, [{'_', [], [{return_trace}]}], [local]),
    1 = erlang:trace(self(), true, [call, {tracer, Tracer}]),
    Tracer.

%% Its mailbox is part of the price.
process_ends(Tracer) ->
    {message_queue_len, Waiting} = process_info(Tracer, message_queue_len),
    1 = erlang:trace(self(), false, [all]),
    1 = erlang:trace_pattern(?F, false, [local]),
    true = exit(Tracer, kill),
    Waiting.

%% Rounds of burn/1 between two calls, so that all schedulers make so many calls a second.
filling(CallsASecond) ->
    Fastest = fun(Fun) -> lists:min([bench_tracing:ns(Fun) || _ <- lists:seq(1, 20)]) end,
    Call = Fastest(fun() -> calls(?CALIBRATED) end) / ?CALIBRATED,
    Round = Fastest(fun() -> burn(?CALIBRATED) end) / ?CALIBRATED,
    Due = 1.0e9 * erlang:system_info(schedulers_online) / CallsASecond,
    max(1, round((Due - Call) / Round)).

burn(0) -> ok;
burn(N) -> burn(N - 1).

filled_calls(0, _) -> ok;
filled_calls(N, Filling) ->
    _ = ?MODULE:pass(N),
    ok = burn(Filling),
    filled_calls(N - 1, Filling).

%% Calls on each scheduler, and next to nothing else where Filling is 0.
hot(What, Seconds, Filling) ->
    Threads = bench_threads:schedulers(),
    Schedulers = erlang:system_info(schedulers_online),
    Counter = counters:new(Schedulers, [write_concurrency]),
    Pids = [spawn_link(fun() -> work(Counter, I, Filling) end) || I <- lists:seq(1, Schedulers)],
    Second = fun() -> second(Counter, Schedulers, Threads) end,
    _ = Second(),
    Rounds = [
        begin
            Before = Second(),
            {ok, Measurement} = flame_prof_latency:start(?F, #{}),
            With = Second(),
            {ok, #{ended := {limit, _}}} = flame_prof_latency:stop(Measurement),
            {Before, With, Second()}
        end
     || _ <- lists:seq(1, 2 * Seconds)
    ],
    ok = bench_processes:kill(Pids),
    [Calls | _] = [N || {{N, _}, _, _} <- Rounds],
    [
        told(What, Name, Ratios, Bar, round(Calls))
     || {Name, Ratios, Bar} <- [
        {"in the second of the measurement, for a second",
            [With / Before || {{Before, _}, {With, _}, _} <- Rounds], {at_least, 0.9}},
        {"in the second of the measurement, for a CPU second",
            [With / Before || {{_, Before}, {_, With}, _} <- Rounds], {at_least, 0.9}},
        {"before over after, for a CPU second",
            [Before / After || {{_, Before}, _, {_, After}} <- Rounds], {not_above, 1.0}}
    ]].

told(What, Name, Ratios, Bar, Calls) ->
    bench_results:tell(#{
        section => tracing,
        name => iolist_to_binary(["work of ", What, ", ", Name]),
        value => bench_stats:median(Ratios),
        unit => <<"times">>,
        interval => bench_stats:interval(Ratios),
        bar => Bar,
        counted => #{rounds => length(Ratios), calls_a_second => Calls}
    }).

%% Calls a second, and a second of CPU time of the schedulers.
second(Counter, Schedulers, Threads) ->
    Look = fun() ->
        Calls = lists:sum([counters:get(Counter, I) || I <- lists:seq(1, Schedulers)]),
        {Cpu, _} = bench_threads:cpu_ns(Threads),
        {Calls, erlang:monotonic_time(nanosecond), Cpu}
    end,
    {Calls0, Ns0, Cpu0} = Look(),
    timer:sleep(1000),
    {Calls, Ns, Cpu} = Look(),
    {(Calls - Calls0) * 1.0e9 / (Ns - Ns0), (Calls - Calls0) * 1.0e9 / (Cpu - Cpu0)}.

work(Counter, I, 0) ->
    ok = calls(1000),
    ok = counters:add(Counter, I, 1000),
    work(Counter, I, 0);
work(Counter, I, Filling) ->
    ok = filled_calls(1000, Filling),
    ok = counters:add(Counter, I, 1000),
    work(Counter, I, Filling).
