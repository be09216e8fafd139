%% What a measured call costs, beside a tracer process and call_time; and how much of its work a
%% process does whose function is called without end, in the second in which it is measured and
%% after. Some 20 seconds: `erl -noshell -pa ebin bench -run bench_traced_calls main'.
-module(bench_traced_calls).

-export([main/0, pass/1, tracer/0]).

-define(CALLS, 200000).
-define(ROUNDS, 7).
-define(F, {?MODULE, pass, 1}).

-spec main() -> no_return().
main() ->
    ok = io:format("OTP ~ts, ns a call of an empty function, median of ~b rounds~n",
        [erlang:system_info(otp_release), ?ROUNDS]),
    Plain = each("not traced", fun() -> ok end, fun(_) -> ok end, 0),
    Measured = fun(More) ->
        fun() ->
            {ok, M} = flame_prof_latency:start(?F,
                maps:merge(#{max_cpu_percent => infinity, max_events_per_second => infinity},
                    More)),
            M
        end
    end,
    Stop = fun(M) -> {ok, #{sampled_of := 1}} = flame_prof_latency:stop(M), ok end,
    _ = each("latency", Measured(#{}), Stop, Plain),
    _ = each("latency, no callers", Measured(#{callers => false}), Stop, Plain),
    _ = each("latency, no parts", Measured(#{callers => false, groups => false}), Stop, Plain),
    _ = each("call_time", fun() -> trace([local, call_time], true, []) end,
        fun(_) -> untrace([local, call_time]) end, Plain),
    _ = each("tracer process", fun traced/0, fun untraced/1, Plain),
    [survived() || _ <- lists:seq(1, 3)],
    halt().

-spec pass(X) -> X.
pass(X) -> X.

each(Name, Start, Stop, Plain) ->
    Times = [in_process(fun() ->
        State = Start(),
        _ = calls(1000),
        Began = erlang:monotonic_time(nanosecond),
        _ = calls(?CALLS),
        Ns = erlang:monotonic_time(nanosecond) - Began,
        ok = Stop(State),
        Ns / ?CALLS
    end) || _ <- lists:seq(1, ?ROUNDS)],
    Median = lists:nth(?ROUNDS div 2 + 1, lists:sort(Times)),
    ok = io:format("  ~-24ts ~8.1f  (+~.1f)~n", [Name, Median, Median - Plain]),
    Median.

in_process(Fun) ->
    Self = self(),
    _ = spawn_link(fun() -> Self ! {answer, Fun()} end),
    receive {answer, Answer} -> Answer end.

calls(0) -> ok;
calls(N) -> _ = ?MODULE:pass(N), calls(N - 1).

trace(How, Spec, Options) ->
    1 = erlang:trace_pattern(?F, Spec, How),
    1 = erlang:trace(self(), true, [call | Options]),
    ok.

untrace(How) ->
    1 = erlang:trace(self(), false, [call]),
    1 = erlang:trace_pattern(?F, false, How),
    ok.

traced() ->
    Tracer = spawn(?MODULE, tracer, []),
    ok = trace([local], [{'_', [], [{return_trace}]}], [{tracer, Tracer}]),
    Tracer.

%% Its mailbox is part of the price.
untraced(Tracer) ->
    1 = erlang:trace(self(), false, [all]),
    1 = erlang:trace_pattern(?F, false, [local]),
    exit(Tracer, kill),
    ok.

-spec tracer() -> no_return().
tracer() -> receive _ -> tracer() end.

%% A call and next to nothing else, on each scheduler: work in a second before, with and after.
survived() ->
    Counter = counters:new(erlang:system_info(schedulers_online), [write_concurrency]),
    Pids = [spawn_link(fun() -> work(Counter, I) end)
        || I <- lists:seq(1, erlang:system_info(schedulers_online))],
    _ = second(Counter),
    Before = second(Counter),
    {ok, M} = flame_prof_latency:start(?F, #{}),
    With = second(Counter),
    {ok, #{ended := Ended, ms := Ms}} = flame_prof_latency:stop(M),
    After = second(Counter),
    _ = [begin unlink(Pid), exit(Pid, kill) end || Pid <- Pids],
    ok = io:format("hot: ~b calls a second; work in that second ~.3f, after ~.3f (~p, ~b ms)~n",
        [Before, With / Before, After / Before, Ended, Ms]).

second(Counter) ->
    Sum = fun() -> lists:sum([counters:get(Counter, I)
        || I <- lists:seq(1, erlang:system_info(schedulers_online))]) end,
    Began = {Sum(), erlang:monotonic_time(nanosecond)},
    timer:sleep(1000),
    {Calls, Since} = Began,
    round((Sum() - Calls) * 1.0e9 / (erlang:monotonic_time(nanosecond) - Since)).

work(Counter, I) ->
    _ = calls(1000),
    ok = counters:add(Counter, I, 1000),
    work(Counter, I).
