%% The library's own tracing as a storm: measurements one after the other, of calls, of all
%% processes, of collections, of allocations, and readable traces; some end because who asked, the
%% owner or the guard is killed; from OTP 27 on some run beside dbg and a session that traces
%% collections. Each has to count right, and to leave nothing on. A node that had no CPU for as long
%% as a heartbeat may be late ends one early, but not all of them. Another tracer is that of
%% storm_inside.
-module(storm_tracing).

-export([kinds/0, open/1, step/3, close/2]).
-export([pass/1]).

-define(CALLS, 500).
-define(PASS, {?MODULE, pass, 1}).
-define(NO_LIMITS, #{max_cpu_percent => infinity, max_events_per_second => infinity}).
-define(PATIENCE, 12000).
%% Ends by a heartbeat, after which one that was asked for must have been seen.
-define(LATE_MOST, 20).

kinds() -> [measurer].

open(_) -> #{asked => 0, late => 0}.

close(_, _) -> ok.

-spec pass(X) -> X.
pass(X) -> X.

step(measurer, N, Ends) ->
    How = measure(N rem 7, N),
    ok = until(fun() -> not is_on() end, ?PATIENCE),
    timer:sleep(20),
    counted(How, Ends).

counted(killed, Ends) -> Ends;
counted(How, Ends) ->
    #{asked := Asked, late := Late} = Now = maps:update_with(How, fun(N) -> N + 1 end, Ends),
    true = Asked > 0 orelse Late < ?LATE_MOST,
    Now.

measure(0, _) ->
    {ok, Measurement} = started(fun() -> flame_prof_latency:start(?PASS, ?NO_LIMITS) end),
    ok = call(?CALLS),
    case flame_prof_latency:stop(Measurement) of
        {ok, #{ended := asked, calls := Calls, lost := Lost, open := 0}} ->
            ?CALLS = Calls + lists:sum(maps:values(Lost)),
            asked;
        {ok, #{ended := {limit, heartbeat}, calls := Calls, lost := Lost}} ->
            true = Calls + lists:sum(maps:values(Lost)) =< ?CALLS,
            late
    end;
measure(1, _) ->
    Ref = traced(#{flags => [call, procs], processes => which(), patterns => [pattern(local)]}),
    ok = call(?CALLS),
    {ok, #{seen := Seen}} = flame_prof_tracing:read(Ref, counters),
    %% Calls and returns. A heartbeat may have been late.
    true = Seen =< 2 * ?CALLS,
    stopped(Ref);
measure(2, _) ->
    Ref = traced(#{flags => [garbage_collection], processes => [self()]}),
    true = erlang:garbage_collect(),
    stopped(Ref);
measure(3, N) ->
    Self = self(),
    {Asker, Monitor} = spawn_monitor(fun() ->
        Spec = #{flags => [call], processes => which(), patterns => [pattern(meta)]},
        Self ! {self(), traced(Spec)},
        receive never -> ok end
    end),
    receive
        {Asker, _} -> ok;
        {'DOWN', Monitor, process, Asker, Why} -> exit(Why)
    end,
    ok = call(?CALLS),
    true = exit(victim(N rem 3, Asker), kill),
    ok = call(?CALLS),
    _ = exit(Asker, kill),
    receive {'DOWN', Monitor, process, Asker, _} -> killed end;
measure(4, _) ->
    {How, _LeftAlone} = allocated(),
    How;
measure(5, _) ->
    Options = #{processes => which(), to => fun(_) -> ok end, max_cpu_percent => infinity},
    {ok, Trace} = started(fun() ->
        flame_prof_trace:start("storm_tracing:pass/1 -> return", Options)
    end),
    ok = call(?CALLS),
    {ok, #{ended := Ended, seen := Seen} = Summary} = flame_prof_trace:stop(Trace),
    #{written := Written, dropped := Dropped, lost := Lost} = Summary,
    Seen = Written + Dropped + Lost,
    true = Seen =< 2 * ?CALLS,
    ended(Ended);
measure(6, N) ->
    case has_sessions() of true -> beside_others(); false -> measure(4, N) end.

allocated() ->
    {ok, #{ended := Ended, words := Words, lost := #{left_alone := LeftAlone}}} =
        started(fun() -> flame_prof_allocations:measure(50, #{max_cpu_percent => infinity}) end),
    true = Words >= 0,
    {ended(Ended), LeftAlone}.

%% One session that traces collections, and dbg, which does not: two that do kill the node
%% (erlang/otp#11623).
beside_others() ->
    {Trace, Dbg} = {trace, dbg},
    [Sink, Tracee] = [spawn_link(fun Loop() -> receive _ -> Loop() end end) || _ <- [1, 2]],
    Session = Trace:session_create(storm, Sink, []),
    1 = Trace:process(Session, Tracee, true, [garbage_collection]),
    Debugger = Dbg:session_create(storm),
    {ok, _} = Dbg:session(Debugger, fun() ->
        {ok, _} = Dbg:tracer(process, {fun(_, Count) -> Count + 1 end, 0}),
        {ok, _} = Dbg:p(self(), [call]),
        Dbg:tpl(?MODULE, pass, 1, [])
    end),
    ok = call(10),
    true = erlang:garbage_collect(Tracee),
    {How, LeftAlone} = allocated(),
    true = LeftAlone > 0,
    ok = Dbg:session_destroy(Debugger),
    true = Trace:session_destroy(Session),
    [true = unlink(Pid) andalso exit(Pid, kill) || Pid <- [Sink, Tracee]],
    How.

ended(asked) -> asked;
ended({limit, heartbeat}) -> late.

victim(0, Asker) -> Asker;
victim(1, _Asker) -> whereis(flame_prof_tracing);
victim(2, _Asker) ->
    [Guard | _] = [P || P <- processes(),
        {current_function, {flame_prof_tracing, guard, 3}} <- [process_info(P, current_function)]],
    Guard.

%% Without sessions a process has one tracer, and the other storm wants its processes.
which() ->
    case has_sessions() of true -> every; false -> [self()] end.

has_sessions() -> code:ensure_loaded(trace) =:= {module, trace}.

pattern(How) -> {?PASS, [{'_', [], [{exception_trace}]}], [How]}.

call(N) -> lists:foreach(fun ?MODULE:pass/1, lists:seq(1, N)).

traced(Spec) ->
    Asked = Spec#{kind => trace, owner => self(), limits => ?NO_LIMITS, config => config()},
    {ok, Ref} = started(fun() -> flame_prof_tracing:start(Asked) end),
    Ref.

%% Of a trace that shows calls alone.
config() ->
    #{depth => 1, bytes => 64, items => 1, rate => 10000, burst => 10000, events => 1000000,
        threads => lists:sum([erlang:system_info(Kind)
            || Kind <- [schedulers, dirty_cpu_schedulers, dirty_io_schedulers]]),
        ring_bytes => 65536, tags => [call, return_from, exception_from], follows => [],
        is_following => false, exclude => []}.

stopped(Ref) ->
    {ok, #{ended := Ended}} = flame_prof_tracing:stop(Ref),
    ended(Ended).

%% The guard of the one before may be at work, the heartbeat of a busy node may be late, and
%% on a starved machine a start may have been given up: then it has left nothing on.
started(Start) ->
    ok = until(fun() -> whereis(flame_prof_tracing) =:= undefined end, ?PATIENCE),
    case Start() of
        {error, {tracing, _}} ->
            timer:sleep(20),
            started(Start);
        {error, {timeout, #{request := start}}} ->
            ok = until(fun() -> not is_on() end, ?PATIENCE),
            started(Start);
        Answer -> Answer
    end.

is_on() ->
    Trace = trace,
    case has_sessions() of
        true -> [S || {flame_prof, _} = S <- Trace:session_info(all)] =/= [];
        false -> erlang:trace_info(?PASS, all) =/= {all, false}
    end.

until(_Done, 0) -> never;
until(Done, Left) ->
    case Done() of true -> ok; false -> timer:sleep(10), until(Done, Left - 1) end.
