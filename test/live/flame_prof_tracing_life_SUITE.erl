%% How a tracing lives and ends, whatever it is for: a table of kinds and ends. Afterwards nothing
%% is on, another one can begin, and what others trace is as it was.
-module(flame_prof_tracing_life_SUITE).

-include_lib("stdlib/include/assert.hrl").

-import(waiting, [eventually/1]).

-export([all/0, groups/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_group/2,
    end_per_group/2, init_per_testcase/2, end_per_testcase/2, it_is_asked_to_end/1,
    who_asked_dies/1, its_process_dies/1, the_owner_of_tracings_dies/1, it_costs_too_much/1,
    a_second_one_is_refused/1, another_tracer_goes_on/1]).
%% Traced.
-export([f/1]).

-define(F, {?MODULE, f, 1}).

suite() -> [{timetrap, {minutes, 2}}].
all() -> [{group, Kind} || Kind <- kinds()].
kinds() -> [count, latency, trace, allocations, session].

groups() ->
    Ends = [it_is_asked_to_end, who_asked_dies, its_process_dies, the_owner_of_tracings_dies,
        it_costs_too_much, a_second_one_is_refused, another_tracer_goes_on],
    [{Kind, [], [End || End <- Ends, {Kind, End} =/= {count, its_process_dies}]}
        || Kind <- kinds()].

%% flame_prof_tracing_SUITE kills its guards, too. The kind `count' is that of
%% test/hooks/looks/count_kind.c.
init_per_suite(Config) ->
    ok = hooked_library:use(),
    {ok, Apps} = application:ensure_all_started(flame_prof),
    [{apps, Apps} | Config].

end_per_suite(Config) ->
    _ = [application:stop(App) || App <- proplists:get_value(apps, Config)],
    ok.

init_per_group(Kind, Config) when Kind =:= allocations; Kind =:= session ->
    case native_node:why_not() of none -> [{kind, Kind} | Config]; Why -> {skip, Why} end;
init_per_group(Kind, Config) -> [{kind, Kind} | Config].

end_per_group(_, _) -> ok.
init_per_testcase(_, Config) -> [{worker, spawn_link(fun work/0)} | Config].

%% Whatever has ended, the next one can begin.
end_per_testcase(_, Config) ->
    Worker = proplists:get_value(worker, Config),
    true = unlink(Worker),
    true = exit(Worker, kill),
    _ = flame_prof:stop(),
    ok = flame_prof_tracing:stop_all(),
    Next = eventually(fun() -> {ok, Asker, _} = start(count, Config, #{}), {true, Asker} end),
    true = exit(Next, kill),
    eventually(fun nothing_is_on/0).

%% It is called, and makes garbage.
work() ->
    _ = [?MODULE:f({N}) || N <- lists:seq(1, 100)],
    receive
        never_rest -> never_rest()
    after 1 -> work()
    end.

never_rest() ->
    _ = [?MODULE:f({N}) || N <- lists:seq(1, 1000)],
    never_rest().

f(X) -> X.

%% {ok, Asker, Handle}: it begins, and is asked for by a process of its own.
start(Kind, Config, Options) ->
    Self = self(),
    Asker = spawn(fun() ->
        Self ! {self(), begin_(Kind, Config, maps:merge(#{heartbeat_ms => 60000}, Options))},
        receive never -> ok end
    end),
    case receive {Asker, Answer} -> Answer end of
        {ok, Handle} -> {ok, Asker, Handle};
        {error, _} = Error -> exit(Asker, kill), Error
    end.

begin_(count, _, Options) ->
    flame_prof_tracing:start(#{kind => count, owner => self(), flags => [call],
        processes => maps:get(processes, Options, every),
        patterns => [{?F, [{'_', [], [{exception_trace}]}], [local]}],
        limits => maps:remove(processes, Options)});
begin_(latency, _, Options) -> flame_prof_latency:start(?F, maps:remove(processes, Options));
begin_(trace, _, Options) ->
    flame_prof_trace:start("flame_prof_tracing_life_SUITE:f/1",
        Options#{to => fun(_) -> ok end, max_events => 1000000});
begin_(allocations, _, Options) ->
    {Asker, Measured} = {self(), maps:remove(processes, Options#{owner => self()})},
    Pid = spawn(fun() ->
        Answer = flame_prof_allocations:measure(3600000, Measured),
        Asker ! {self(), Answer},
        receive {From, answer} -> From ! {self(), Answer} end
    end),
    eventually(fun() ->
        receive
            {Pid, {error, _} = Error} -> {true, Error};
            {Pid, {ok, _}} -> {true, {ok, Pid}}
        after 0 ->
            #{kind := allocations, owner := Asker} = flame_prof_tracing:info(),
            {true, {ok, Pid}}
        end
    end);
begin_(session, Config, Options) ->
    {ok, Session} = flame_prof:start(#{
        dir => filename:join(proplists:get_value(priv_dir, Config), "session"), engine => native,
        allocations => maps:remove(processes, Options)}),
    case flame_prof:info() of
        #{allocations := #{state := _}} -> {ok, Session};
        #{allocations := {off, Why}} -> {error, {tracing, #{reason => Why}}}
    end.

%% Its end, as it answers when it is asked to end, or why there is no answer.
ended(count, _, Ref) ->
    case flame_prof_tracing:stop(Ref) of
        {ok, #{ended := Why}} -> Why;
        {error, {Why, _}} -> Why
    end;
ended(latency, _, Measurement) ->
    case flame_prof_latency:stop(Measurement) of
        {ok, #{ended := Why}} -> Why;
        {error, {Why, _}} -> Why
    end;
ended(trace, _, Trace) ->
    case flame_prof_trace:stop(Trace) of
        {ok, #{ended := Why}} -> Why;
        {error, {Why, _}} -> Why
    end;
ended(allocations, Asker, Pid) ->
    Monitor = monitor(process, Pid),
    ok = flame_prof_allocations:finish(Asker),
    Pid ! {self(), answer},
    receive
        {Pid, {ok, #{ended := Why}}} -> Why;
        {Pid, {error, {Why, _}}} -> Why;
        {'DOWN', Monitor, process, Pid, Why} -> Why
    end;
ended(session, _, _) ->
    case flame_prof:stop() of
        {ok, #{allocations := #{ended := {down, Down}}}} when is_pid(Down) -> down;
        {ok, #{allocations := #{ended := {down, flame_prof_tracing}}}} -> tracing;
        {ok, #{allocations := #{ended := Why}}} -> Why;
        {error, {Why, _}} -> Why
    end.

%% What does the work of it, beside the owner of tracings.
process(latency, Measurement) -> Measurement;
process(trace, Trace) -> Trace;
process(allocations, Pid) -> Pid;
process(session, _) -> whereis(flame_prof_session_allocations).

has_sessions() -> code:ensure_loaded(trace) =:= {module, trace}.

traced(FunctionOrProcess) ->
    Trace = trace,
    case {has_sessions(), FunctionOrProcess} of
        {true, _} -> not lists:member(Trace:session_info(FunctionOrProcess), [[], undefined]);
        {false, ?F} -> erlang:trace_info(?F, all) =/= {all, false};
        {false, Pid} -> not lists:member(erlang:trace_info(Pid, flags), [{flags, []}, undefined])
    end.

on() -> [What || What <- [?F, new_processes | processes()], traced(What)].

nothing_is_on() ->
    case {on(), flame_prof_tracing:info()} of
        {[], Info} when Info =:= #{} -> true;
        Other -> Other
    end.

begun(Config) -> begun(Config, #{}).

begun(Config, Options) ->
    Kind = proplists:get_value(kind, Config),
    {ok, Asker, Handle} = start(Kind, Config, maps:merge(#{max_cpu_percent => infinity}, Options)),
    {Kind, Asker, Handle}.

begun_and_on(Config) ->
    Begun = begun(Config),
    eventually(fun() -> on() =/= [] end),
    Begun.

it_is_asked_to_end(Config) ->
    {Kind, Asker, Handle} = begun_and_on(Config),
    ?assertEqual(asked, ended(Kind, Asker, Handle)),
    ?assertEqual(true, nothing_is_on()).

%% A session is not for who has asked: it is its own.
who_asked_dies(Config) ->
    {Kind, Asker, Handle} = begun_and_on(Config),
    exit(case Kind of session -> Handle; _ -> Asker end, kill),
    eventually(fun nothing_is_on/0),
    ?assertNotEqual(asked, ended(Kind, Asker, Handle)).

its_process_dies(Config) ->
    {Kind, Asker, Handle} = begun_and_on(Config),
    exit(process(Kind, Handle), kill),
    eventually(fun nothing_is_on/0),
    ?assertNotEqual(asked, ended(Kind, Asker, Handle)).

the_owner_of_tracings_dies(Config) ->
    {Kind, Asker, Handle} = begun_and_on(Config),
    exit(whereis(flame_prof_tracing), kill),
    eventually(fun nothing_is_on/0),
    ?assertNotEqual(asked, ended(Kind, Asker, Handle)).

%% What it has measured can be asked for.
it_costs_too_much(Config) ->
    {Kind, Asker, Handle} = begun(Config, #{max_cpu_percent => 0.01}),
    proplists:get_value(worker, Config) ! never_rest,
    eventually(fun() -> is_over(Kind, flame_prof_tracing:info(), flame_prof:info()) end),
    ?assertEqual({limit, max_cpu_percent}, ended(Kind, Asker, Handle)),
    ?assertEqual(true, nothing_is_on()).

is_over(session, _, Info) ->
    #{state := running, allocations := #{state := ended}} = Info,
    true;
is_over(_, #{ended := no}, _) -> false;
is_over(_, _, _) -> true.

%% Of each other kind; the first one goes on.
a_second_one_is_refused(Config) ->
    {Kind, Asker, Handle} = begun_and_on(Config),
    Said = case Kind of
        session -> ["allocations runs since ", "one tracing at a time"];
        _ -> [atom_to_list(Kind) ++ " runs since ", "started by " ++ pid_to_list(Asker)]
    end,
    [begin
        {error, {tracing, #{reason := Why}}} = start(Other, Config, #{}),
        [?assertMatch({_, _, {_, _}}, {Other, Why, binary:match(Why, list_to_binary(Text))})
            || Text <- Said]
    end || Other <- kinds(), not (Kind =:= session andalso Other =:= session),
        Other =:= count orelse native_node:why_not() =:= none],
    ?assertNotEqual([], on()),
    _ = [flame_prof:stop() || Kind =/= session],
    ?assertEqual(asked, ended(Kind, Asker, Handle)).

%% The flags of a process are the other one's; it has its events.
another_tracer_goes_on(Config) ->
    IsCollections = lists:member(proplists:get_value(kind, Config), [allocations, session]),
    Flag = case IsCollections of true -> garbage_collection; false -> procs end,
    Tracee = spawn(fun Loop() -> receive N -> ?MODULE:f(N), Loop() end end),
    1 = erlang:trace(Tracee, true, [Flag, {tracer, self()}]),
    {Kind, Asker, Handle} = begun(Config, #{processes => [Tracee]}),
    _ = Tracee ! 1,
    ?assertEqual(asked, ended(Kind, Asker, Handle)),
    ?assertEqual({flags, [Flag]}, erlang:trace_info(Tracee, flags)),
    true = erlang:garbage_collect(Tracee),
    exit(Tracee, kill),
    receive
        {trace, Tracee, Event, _} when IsCollections, Event =:= gc_major_end; Event =:= exit -> ok
    end.
