%% What an event of a readable trace costs the process that it is about, written or dropped, beside
%% dbg and a bare tracer process: calls with their returns, of small and of large arguments; and the
%% mailbox that the tracer has in the end. Some 10 seconds: `erl -noshell -pa ebin bench -run
%% bench_readable_trace main'.
-module(bench_readable_trace).

-export([main/0, pass/1, tracer/0]).

-define(FLOOD, 200000).
-define(ROUNDS, 9).
-define(F, {?MODULE, pass, 1}).

-spec main() -> no_return().
main() ->
    ok = io:format("OTP ~ts, ns a call and its return, median of ~b rounds; messages that wait~n",
        [erlang:system_info(otp_release), ?ROUNDS]),
    [arguments(Name, Calls, Term) || {Name, Calls, Term} <- terms()],
    halt().

%% With as many calls in a row as the rings, and a tracer process, can hold.
terms() ->
    Order = #{id => 17, user => <<"anna">>, items => [{N, book, 12.5} || N <- lists:seq(1, 5)]},
    [
        {"an integer", 500, 17},
        {"an order of 5 items", 500, {order, Order}},
        {"a list of 100 orders", 50, lists:duplicate(100, {order, Order})}
    ].

arguments(Name, Calls, Term) ->
    ok = io:format("~ts~n", [Name]),
    Plain = each("not traced", ?FLOOD, Term, fun() -> none end, fun(_) -> 0 end, 1.0e9),
    _ = each("written", Calls, Term, fun() -> trace(10000) end, fun traced/1, Plain),
    _ = each("dropped", ?FLOOD, Term, fun() -> trace(1) end, fun traced/1, Plain),
    _ = each("tracer process", Calls, Term, fun process_traces/0, fun process_ends/1, Plain),
    _ = each("dbg, its handler", Calls, Term, fun dbg_traces/0, fun dbg_ends/1, Plain),
    ok.

-spec pass(X) -> X.
pass(X) -> X.

each(Name, Calls, Term, Start, Stop, Plain) ->
    Rounds = [in_process(fun() ->
        State = Start(),
        Began = erlang:monotonic_time(nanosecond),
        ok = calls(Calls, Term),
        Ns = erlang:monotonic_time(nanosecond) - Began,
        {Ns / Calls, Stop(State)}
    end) || _ <- lists:seq(1, ?ROUNDS)],
    {Times, Waiting} = lists:unzip(Rounds),
    Median = lists:nth(?ROUNDS div 2 + 1, lists:sort(Times)),
    ok = io:format("  ~-20ts ~10.1f  (+~.1f) ~8b~n",
        [Name, Median, max(0.0, Median - Plain), lists:max(Waiting)]),
    Median.

in_process(Fun) ->
    Self = self(),
    _ = spawn_link(fun() -> Self ! {answer, Fun()} end),
    receive {answer, Answer} -> Answer end.

calls(0, _) -> ok;
calls(N, Term) -> _ = ?MODULE:pass(Term), calls(N - 1, Term).

%% Formatted, as for a file. A trace has no mailbox: what waits are events in its rings.
trace(Rate) ->
    Sink = fun(Event) -> flame_prof_trace_format:format(Event) end,
    {ok, Trace} = flame_prof_trace:start("bench_readable_trace:pass/1 -> return", #{
        rate => Rate, burst => Rate, max_events => 1000000, max_cpu_percent => infinity,
        processes => self(), to => Sink}),
    Trace.

traced(Trace) ->
    {ok, #{lost := 0}} = flame_prof_trace:stop(Trace),
    0.

process_traces() ->
    Tracer = spawn(?MODULE, tracer, []),
    1 = erlang:trace_pattern(?F, [{'_', [], [{exception_trace}]}], [local]),
    1 = erlang:trace(self(), true, [call, {tracer, Tracer}]),
    Tracer.

process_ends(Tracer) ->
    {message_queue_len, Waiting} = process_info(Tracer, message_queue_len),
    1 = erlang:trace(self(), false, [all]),
    1 = erlang:trace_pattern(?F, false, [local]),
    true = exit(Tracer, kill),
    Waiting.

-spec tracer() -> no_return().
tracer() -> receive _ -> tracer() end.

%% What dbg prints, printed to nowhere.
dbg_traces() ->
    {ok, Tracer} = dbg:tracer(process,
        {fun(Message, N) -> _ = io_lib:format("~tp~n", [Message]), N + 1 end, 0}),
    {ok, _} = dbg:tpl(?MODULE, pass, 1, [{'_', [], [{exception_trace}]}]),
    {ok, _} = dbg:p(self(), [call]),
    {ok, Handler} = dbg:get_tracer(),
    {Tracer, Handler}.

dbg_ends({_, Handler}) ->
    {message_queue_len, Waiting} = process_info(Handler, message_queue_len),
    1 = erlang:trace(self(), false, [all]),
    1 = erlang:trace_pattern(?F, false, [local]),
    _ = dbg:stop(),
    Waiting.
