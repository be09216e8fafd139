%% The library's own tracing as a storm: measurements one after the other, of calls, of all
%% processes, of collections; some end because who asked, the owner or the guard is killed. Each
%% has to count right, and to leave nothing on. Another tracer is that of storm_inside.
-module(storm_tracing).

-export([kinds/0, open/1, step/3, close/2]).
-export([pass/1]).

-define(CALLS, 500).
-define(PASS, {?MODULE, pass, 1}).
-define(NO_LIMITS, #{max_cpu_percent => infinity, max_events_per_second => infinity}).
-define(PATIENCE, 12000).

kinds() -> [measurer].

open(_) -> none.

close(_, _) -> ok.

-spec pass(X) -> X.
pass(X) -> X.

step(measurer, N, none) ->
    ok = measure(N rem 4, N),
    ok = until(fun() -> not is_on() end, ?PATIENCE),
    timer:sleep(20),
    none.

measure(0, _) ->
    {ok, Measurement} = started(fun() -> flame_prof_latency:start(?PASS, ?NO_LIMITS) end),
    ok = call(?CALLS),
    {ok, #{calls := Calls, lost := Lost, open := 0}} = flame_prof_latency:stop(Measurement),
    ?CALLS = Calls + lists:sum(maps:values(Lost)),
    ok;
measure(1, _) ->
    Ref = traced(#{flags => [call, procs], processes => which(), patterns => [pattern(local)]}),
    ok = call(?CALLS),
    {ok, #{calls := Calls}} = flame_prof_tracing:read(Ref, all),
    %% A heartbeat may have been late.
    true = Calls =< ?CALLS,
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
    receive {Asker, _} -> ok end,
    ok = call(?CALLS),
    true = exit(victim(N rem 3, Asker), kill),
    ok = call(?CALLS),
    _ = exit(Asker, kill),
    receive {'DOWN', Monitor, process, Asker, _} -> ok end.

victim(0, Asker) -> Asker;
victim(1, _Asker) -> whereis(flame_prof_tracing);
victim(2, _Asker) ->
    [Guard | _] = [P || P <- processes(),
        {current_function, {flame_prof_tracing, guard, 3}} <- [process_info(P, current_function)]],
    Guard.

%% Without sessions a process has one tracer, and the other storm wants its processes.
which() ->
    case has_sessions() of
        true -> every;
        false -> [self()]
    end.

has_sessions() -> code:ensure_loaded(trace) =:= {module, trace}.

pattern(How) -> {?PASS, [{'_', [], [{exception_trace}]}], [How]}.

call(N) -> lists:foreach(fun ?MODULE:pass/1, lists:seq(1, N)).

traced(Spec) ->
    Asked = Spec#{kind => count, owner => self(), limits => ?NO_LIMITS},
    {ok, Ref} = started(fun() -> flame_prof_tracing:start(Asked) end),
    Ref.

stopped(Ref) ->
    {ok, #{ended := asked}} = flame_prof_tracing:stop(Ref),
    ok.

%% The guard of the one before may be at work, and the heartbeat of a busy node may be late.
started(Start) ->
    ok = until(fun() -> whereis(flame_prof_tracing) =:= undefined end, ?PATIENCE),
    case Start() of
        {error, {tracing, _}} -> timer:sleep(20), started(Start);
        Answer -> Answer
    end.

is_on() ->
    Trace = trace,
    case has_sessions() of
        true -> [S || {flame_prof, _} = S <- Trace:session_info(all)] =/= [];
        false -> erlang:trace_info(?PASS, all) =/= {all, false}
    end.

until(_Done, 0) ->
    never;
until(Done, Left) ->
    case Done() of
        true -> ok;
        false -> timer:sleep(10), until(Done, Left - 1)
    end.
