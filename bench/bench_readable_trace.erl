%% What an event of a readable trace costs the process that it is about, written or dropped, beside
%% a bare tracer process, dbg and redbug: calls with their returns, of small and of large arguments;
%% and the messages that wait for the tracer in the end. redbug is measured where it is found.
-module(bench_readable_trace).

-export([run/1, pass/1]).

-define(FLOOD, 200000).
-define(F, {?MODULE, pass, 1}).
-define(TEXT, "bench_readable_trace:pass/1 -> return").

-spec run(pos_integer()) -> [bench_results:result()].
run(Seconds) ->
    Ways = ways(),
    [event(Way, Term, 8 * Seconds) || Term <- terms(), Way <- Ways].

ways() ->
    [
        {"written", some, fun() -> trace(10000) end, fun traced/1},
        {"dropped", many, fun() -> trace(1) end, fun traced/1},
        {"a tracer process", some, fun process_traces/0, fun process_ends/1},
        {"dbg, its handler", some, fun dbg_traces/0, fun dbg_ends/1}
        | [{"redbug", some, fun redbug_traces/0, fun redbug_ends/1} || has_redbug()]
    ].

has_redbug() ->
    Is = code:ensure_loaded(redbug) =:= {module, redbug},
    _ = [io:format("redbug is not in ERL_LIBS, and not measured~n") || not Is],
    Is.

%% With as many calls in a row as the rings, and a tracer process, can hold.
terms() ->
    Order = #{id => 17, user => <<"anna">>, items => [{N, book, 12.5} || N <- lists:seq(1, 5)]},
    [
        {"an integer", 500, 17},
        {"an order of 5 items", 500, {order, Order}},
        {"a list of 100 orders", 50, lists:duplicate(100, {order, Order})}
    ].

-spec pass(X) -> X.
pass(X) -> X.

calls(0, _) -> ok;
calls(N, Term) -> _ = ?MODULE:pass(Term), calls(N - 1, Term).

event({Name, Many, Start, Stop}, {Of, Some, Term}, Rounds) ->
    Calls = case Many of some -> Some; many -> ?FLOOD end,
    Each = fun(First, Last) ->
        fun() ->
            {Ns, Waiting} = bench_tracing:with_process(First, 1, fun() -> calls(Calls, Term) end,
                Last),
            {Ns / Calls, Waiting}
        end
    end,
    bench_tracing:row(["a call and its return, ", Of, ": ", Name], Rounds, Each(Start, Stop),
        Each(fun() -> none end, fun(none) -> 0 end), #{}).

%% Formatted, as for a file. A trace has no mailbox: what waits are events in its rings.
trace(Rate) ->
    Sink = fun(Event) -> flame_prof_trace_format:format(Event) end,
    {ok, Trace} = flame_prof_trace:start(?TEXT, #{
        rate => Rate, burst => Rate, max_events => 1000000, max_cpu_percent => infinity,
        processes => self(), to => Sink}),
    Trace.

traced(Trace) ->
    {ok, #{lost := 0}} = flame_prof_trace:stop(Trace),
    0.

process_traces() ->
    Tracer = spawn(fun bench_tracing:tracer/0),
    1 = erlang:trace_pattern(?F, [{'_', [], [{exception_trace}]}], [local]),
    1 = erlang:trace(self(), true, [call, {tracer, Tracer}]),
    Tracer.

process_ends(Tracer) ->
    Waiting = waiting(Tracer),
    ok = untraced(),
    true = exit(Tracer, kill),
    Waiting.

waiting(Pid) ->
    {message_queue_len, Waiting} = process_info(Pid, message_queue_len),
    Waiting.

untraced() ->
    1 = erlang:trace(self(), false, [all]),
    1 = erlang:trace_pattern(?F, false, [local]),
    ok.

%% What dbg prints, printed to nowhere.
dbg_traces() ->
    {ok, _} = dbg:tracer(process,
        {fun(Message, N) -> _ = io_lib:format("~tp~n", [Message]), N + 1 end, 0}),
    {ok, _} = dbg:tpl(?MODULE, pass, 1, [{'_', [], [{exception_trace}]}]),
    {ok, _} = dbg:p(self(), [call]),
    {ok, Handler} = dbg:get_tracer(),
    Handler.

dbg_ends(Handler) ->
    Waiting = waiting(Handler),
    ok = untraced(),
    _ = dbg:stop(),
    Waiting.

%% The same, without the limits at which it would end by itself. Not called by its name: it is not
%% there when this is compiled and analysed.
redbug_traces() ->
    Redbug = redbug,
    {Name, 1, 1} = Redbug:start(?TEXT, #{
        procs => [self()], msgs => 1000000, time => 60000, max_queue => 1000000,
        print_file => "/dev/null"}),
    {tracer, Tracer} = erlang:trace_info(self(), tracer),
    {Name, Tracer}.

redbug_ends({Name, Tracer}) ->
    Waiting = waiting(Tracer),
    Redbug = redbug,
    Monitors = [monitor(process, Process) || Process <- [Name, Tracer]],
    _ = Redbug:stop(),
    _ = [receive {'DOWN', Monitor, process, _, _} -> ok end || Monitor <- Monitors],
    Waiting.
