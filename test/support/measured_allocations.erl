%% Measurements of allocations around programs of counted_allocations, for the suite and the proof.
-module(measured_allocations).

-export([measured/1, measured/2, run/2, worked/1, worked/2, mixed/0, of_messages/0, has/2,
    is_traced/1, in_background/2, runs/0, until/1, until/0]).

-define(BYTES, 16384).

%% How long programs work: longer where their figures are judged.
work_ms() -> list_to_integer(os:getenv("ALLOCATIONS_MS", "1000")).

%% They work when the tracing runs, and wait when it ends.
measured(Name) -> measured(Name, #{}).

measured(Name, Options) ->
    Program = counted_allocations:start(Name, work_ms()),
    Answer = run(fun() -> counted_allocations:go(Program) end, Options),
    ok = counted_allocations:stop(Program),
    {Answer, Program}.

run(Go, Options) ->
    Starter = counted_allocations:when_traced(Go),
    Defaults = #{bytes => ?BYTES, max_cpu_percent => infinity, heartbeat_ms => 60000},
    {ok, Answer} = flame_prof_allocations:measure(work_ms() + 2000, maps:merge(Defaults, Options)),
    unlink(Starter),
    Answer.

worked(Works) -> worked(Works, #{}).

worked(Works, Options) ->
    Pids = [counted_allocations:worker(Work, Heap) || {Work, Heap} <- Works],
    Answer = run(fun() -> [Pid ! go || Pid <- Pids] end, Options),
    [Pid ! stop || Pid <- Pids],
    {Answer, Pids}.

until() -> counted_allocations:until(work_ms()).

mixed() ->
    {fun() -> counted_allocations:mixed(counters:new(4, []), work_ms()) end,
        [{min_heap_size, 20000}]}.

%% The server makes three times as much for a `large' as for a `small' one, and nothing else.
of_messages() ->
    {Server, Caller} = making_server:busy(),
    {ok, Answer} = flame_prof_allocations:measure(work_ms(), #{bytes => ?BYTES,
        max_cpu_percent => infinity, heartbeat_ms => 60000}),
    true = unlink(Caller),
    true = exit(Caller, kill),
    Answer#{server => Server}.

has(Stack, {M, F, A}) ->
    lists:any(fun({M1, F1, A1, _}) -> {M1, F1, A1} =:= {M, F, A}; (_) -> false end, Stack).

is_traced(Pid) ->
    case code:ensure_loaded(trace) of
        {module, trace} -> apply(trace, session_info, [Pid]) =/= [];
        {error, _} -> erlang:trace_info(Pid, flags) =/= {flags, []}
    end.

in_background(Ms, Options) ->
    Self = self(),
    spawn(fun() -> Self ! {self(), flame_prof_allocations:measure(Ms, Options)} end).

until(Fun) -> waiting:eventually(Fun).
runs() -> map_size(flame_prof_tracing:info()) > 0.
