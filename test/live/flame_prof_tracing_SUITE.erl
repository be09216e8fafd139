%% The one tracing of a node: what is on, what ends it, and that nothing is on afterwards. The VM
%% itself is asked: trace_info, and from OTP 27 on the sessions of each function and process.
-module(flame_prof_tracing_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, end_per_testcase/2,
    calls_returns_and_exceptions_are_counted/1,
    processes_are_traced_by_their_flags/1, new_processes_are_traced/1,
    the_vm_asks_no_more_at_each_spawn_afterwards/1, no_collection_is_let_in/1,
    only_the_question_for_the_status_is_answered_remove/1, what_it_does_is_listed/1,
    all_that_is_on_is_listed/1, the_guard_is_killed/1, owner_and_guard_are_killed/1,
    owner_and_guard_of_processes_are_killed/1, the_second_guard_is_killed/1,
    a_process_that_is_followed_is_left_to_its_tracer/1, the_node_that_asked_goes_away/1,
    the_application_stops/1, every_limit_has_a_default/1,
    how_long_breakpoints_stay_after_a_limit_is_told/1, what_was_measured_stays_after_a_limit/1,
    a_function_of_another_tracer_is_not_taken/1, collections_of_another_session_are_left_alone/1,
    a_mistake_leaves_nothing_on/1, no_callback_is_called_with_other_arguments/1]).
%% Traced.
-export([f/1, boom/0]).
%% In a VM of its own.
-export([distributed/0, application_stop/0]).
%% As a handler of logger.
-export([log/2]).

-import(waiting, [eventually/1]).

-define(SPEC, [{'_', [], [{exception_trace}]}]).
-define(F, {?MODULE, f, 1}).

suite() -> [{timetrap, {minutes, 2}}].
all() -> suite_cases:list(?MODULE, [f]).

%% Its kind of tracing is that of test/hooks/looks/count_kind.c.
init_per_suite(Config) ->
    ok = hooked_library:use(),
    Config.

end_per_suite(_) -> ok.

end_per_testcase(_, _) ->
    ok = flame_prof_tracing:stop_all(),
    eventually(fun() -> whereis(flame_prof_tracing) =:= undefined end).

f(X) -> X.
boom() -> error(boom).

%% No event is lost when the machine does not run the owner in time: but for tests of just that.
start(More) ->
    Limits = maps:merge(#{heartbeat_ms => 60000}, maps:get(limits, More, #{})),
    flame_prof_tracing:start(maps:merge(#{kind => count, owner => self(),
        patterns => [{?F, ?SPEC, [meta]}]}, More#{limits => Limits})).

started(More) ->
    {ok, Ref} = start(More),
    Ref.

call(N) -> lists:foreach(fun ?MODULE:f/1, lists:seq(1, N)).

counted(Ref) ->
    {ok, Counted} = flame_prof_tracing:read(Ref, all),
    Counted.

has_sessions() -> code:ensure_loaded(trace) =:= {module, trace}.

is_function_traced() ->
    Trace = trace,
    case has_sessions() of
        true -> Trace:session_info(?F) =/= [];
        false -> erlang:trace_info(?F, all) =/= {all, false}
    end.

traced_processes() ->
    Trace = trace,
    case has_sessions() of
        true -> [P || P <- [new_processes | processes()], Trace:session_info(P) =/= [],
            Trace:session_info(P) =/= undefined];
        false -> [P || P <- [new_processes | processes()], not lists:member(
            erlang:trace_info(P, flags), [{flags, []}, undefined])]
    end.

own_sessions() ->
    Trace = trace,
    case has_sessions() of
        true -> [S || {flame_prof, _} = S <- Trace:session_info(all)];
        false -> []
    end.

nothing_is_on() ->
    not is_function_traced() andalso traced_processes() =:= [] andalso own_sessions() =:= [].

%% Those of this tracing: the guards of the one before may be about to end.
guard() ->
    one_that_runs(guard, 3, fun() ->
        {monitors, Monitors} = process_info(whereis(flame_prof_tracing), monitors),
        [Pid || {process, Pid} <- Monitors]
    end).

%% By the function that it runs: with 4 arguments the second one.
second_guard() ->
    Guard = guard(),
    one_that_runs(second_guard, 4, fun() ->
        {monitored_by, Pids} = process_info(Guard, monitored_by),
        Pids
    end).

one_that_runs(Function, Arity, Pids) ->
    eventually(fun() ->
        [Found] = [Pid || Pid <- Pids(), is_pid(Pid), {current_function, {flame_prof_tracing, F, A}}
            <- [process_info(Pid, current_function)], F =:= Function, A =:= Arity],
        {true, Found}
    end).

ended(Ref) ->
    receive {flame_prof_tracing, Ref, {ended, Why}} -> Why end.

calls_returns_and_exceptions_are_counted(_) ->
    Ref = started(#{patterns => [{?F, ?SPEC, [meta]}, {{?MODULE, boom, 0}, ?SPEC, [meta]}]}),
    call(10),
    ?assertError(boom, ?MODULE:boom()),
    ?assertMatch(#{call := 11, return_from := 10, exception_from := 1}, counted(Ref)),
    {ok, Stopped} = flame_prof_tracing:stop(Ref),
    ?assertMatch(#{ended := asked, events := 11, lost := 0, functions := 2}, Stopped),
    ?assert(nothing_is_on()).

processes_are_traced_by_their_flags(_) ->
    Other = spawn(fun Loop() -> receive N -> call(N), Loop() end end),
    Ref = started(#{flags => [call, arity], processes => [Other], patterns => [{?F, ?SPEC, [local]}]
    }),
    call(5),
    Other ! 7,
    eventually(fun() -> maps:get(return_from, counted(Ref)) =:= 7 end),
    ?assertEqual([Other], traced_processes()),
    {ok, #{processes := 1}} = flame_prof_tracing:stop(Ref),
    ?assert(nothing_is_on()),
    exit(Other, kill).

new_processes_are_traced(_) ->
    Ref = started(#{flags => [call], processes => every, patterns => [{?F, ?SPEC, [local]}]}),
    {_, Monitor} = spawn_monitor(fun() -> call(3) end),
    receive {'DOWN', Monitor, _, _, _} -> ok end,
    call(2),
    ?assertMatch(#{call := 5}, counted(Ref)),
    {ok, _} = flame_prof_tracing:stop(Ref),
    ?assert(nothing_is_on()).

%% OTP 27 and later count the sessions that trace new processes, and ask all sessions at each spawn
%% while there is one.
the_vm_asks_no_more_at_each_spawn_afterwards(_) ->
    Counted = fun() -> vm_counter:read("erts_new_procs_trace_cnt") end,
    None = #{max_cpu_percent => infinity, max_events_per_second => infinity},
    case Counted() of
        unknown -> {skip, "this VM has no such counter, or does not export it"};
        Before ->
            Spawner = spawn_link(fun Spawn() -> spawn(fun() -> ok end), Spawn() end),
            _ = [begin
                Ref = started(#{patterns => [], processes => every, flags => [procs], limits => None
                }),
                ?assertNotEqual(Before, Counted()),
                {ok, _} = flame_prof_tracing:stop(Ref)
            end || _ <- [1, 2, 3]],
            true = unlink(Spawner),
            true = exit(Spawner, kill),
            ?assertEqual(Before, Counted())
    end.

%% To let one in may end a node that has two sessions (erlang/otp#11623).
no_collection_is_let_in(_) ->
    Ref = started(#{flags => [garbage_collection, procs], processes => every}),
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() -> erlang:garbage_collect(), Self ! collected end),
    receive {'DOWN', Monitor, _, Pid, _} -> ok end,
    receive collected -> ok after 0 -> error(not_collected) end,
    eventually(fun() -> maps:get(discarded, element(2, flame_prof_tracing:counters(Ref))) >= 2 end),
    State = state(Ref),
    [?assertEqual(discard, flame_prof_looks_nif:enabled_garbage_collection(Event, State, Pid))
        || Event <- [gc_minor_start, gc_minor_end, gc_major_start, gc_major_end, gc_max_heap_size]],
    ?assertEqual(trace, flame_prof_looks_nif:enabled(spawn, State, Pid)),
    {ok, _} = flame_prof_tracing:stop(Ref).

state(Ref) ->
    {ok, State} = gen_server:call(flame_prof_tracing, {tracer, Ref}),
    State.

%% The VM asserts that: a debug build ends at any other one.
only_the_question_for_the_status_is_answered_remove(_) ->
    State = flame_prof_looks_nif:sends_open(100),
    Answers = fun() -> [{Tag, flame_prof_looks_nif:enabled(Tag, State, self())}
        || Tag <- [trace_status, send, send_to_non_existing_process, gc_minor_start]] end,
    ?assertEqual([{trace_status, trace}, {send, trace}, {send_to_non_existing_process, discard},
        {gc_minor_start, discard}], Answers()),
    ok = flame_prof_looks_nif:sends_end(State),
    ?assertEqual([{trace_status, remove}, {send, discard},
        {send_to_non_existing_process, discard}, {gc_minor_start, discard}], Answers()).

what_it_does_is_listed(_) ->
    Ref = started(#{limits => #{max_seconds => 17}}),
    Self = self(),
    ?assertMatch(#{kind := count, owner := Self, patterns := [?F], limits := #{max_seconds := 17}},
        flame_prof_tracing:info()),
    ?assertMatch(#{tracing := #{kind := count}}, flame_prof:info()),
    {ok, _} = flame_prof_tracing:stop(Ref),
    ?assertEqual(#{}, flame_prof_tracing:info()),
    ?assertNot(is_map_key(tracing, flame_prof:info())).

%% Each kind of thing that is switched on; of many pids the first, and how many they are.
all_that_is_on_is_listed(_) ->
    Pids = [spawn(fun() -> receive never -> ok end end) || _ <- lists:seq(1, 150)],
    {Some, More} = lists:split(20, Pids),
    Ref = started(#{flags => [call, send], processes => Some, patterns => [{?F, ?SPEC, [local]}],
        message_patterns => [{send, [{['_', '_'], [], []}]}],
        follows => #{follow => send, flags => [call, send]}}),
    ?assertMatch(#{flags := [call, send], message_patterns := [send], pids := Some,
        processes := 20, follows := #{follow := send},
        followed := #{processes := 0, pids := []}}, flame_prof_tracing:info()),
    ok = flame_prof_tracing:add(Ref, More, [call]),
    #{followed := Followed} = flame_prof_tracing:info(),
    #{processes := 130, pids := Listed, flags := [call]} = Followed,
    ?assertEqual(lists:sublist(More, 100), Listed),
    {ok, _} = flame_prof_tracing:stop(Ref),
    _ = [exit(P, kill) || P <- Pids],
    Every = started(#{flags => [call], processes => every}),
    ?assertMatch(#{pids := every, message_patterns := []}, flame_prof_tracing:info()),
    {ok, _} = flame_prof_tracing:stop(Every).

the_guard_is_killed(_) ->
    Ref = started(#{flags => [call], processes => every}),
    Guard = guard(),
    exit(Guard, kill),
    ?assertEqual({down, Guard}, ended(Ref)),
    ?assert(nothing_is_on()).

%% The second guard switches off. Where it was killed, too, the silence ends the tracing; sessions
%% go with who had them, and without sessions the next tracing takes the breakpoints over.
owner_and_guard_are_killed(_) ->
    lists:foreach(fun(IsSecond) ->
        _ = started(#{limits => #{heartbeat_ms => 100}}),
        Guards = [guard() | [second_guard() || IsSecond]],
        exit(whereis(flame_prof_tracing), kill),
        _ = [exit(Guard, kill) || Guard <- Guards],
        _ = [erlang:garbage_collect(P) || P <- processes()],
        _ = [eventually(fun nothing_is_on/0) || not IsSecond],
        eventually(fun() -> call(100), element(1, start(#{})) =:= ok end),
        ok = flame_prof_tracing:stop_all(),
        eventually(fun nothing_is_on/0)
    end, [false, true]).

%% The others go on: it is there for when both have gone.
the_second_guard_is_killed(_) ->
    Ref = started(#{}),
    exit(second_guard(), kill),
    call(3),
    ?assertMatch(#{call := 3}, counted(Ref)),
    {ok, #{ended := asked}} = flame_prof_tracing:stop(Ref),
    ?assert(nothing_is_on()).

%% Of processes, a function and messages: nothing of it is in the way of the next one.
owner_and_guard_of_processes_are_killed(_) ->
    Tracee = spawn(fun() -> receive never -> ok end end),
    Wanted = #{flags => [call, send], processes => [Tracee], patterns => [{?F, ?SPEC, [local]}],
        message_patterns => [{send, [{['_', '_'], [], []}]}], limits => #{heartbeat_ms => 100}},
    _ = started(Wanted),
    Guard = guard(),
    exit(whereis(flame_prof_tracing), kill),
    exit(Guard, kill),
    _ = [erlang:garbage_collect(P) || P <- processes()],
    eventually(fun() ->
        case start(Wanted) of
            {ok, Ref} ->
                ?assertMatch({ok, #{processes := 1, left_alone := 0}},
                    flame_prof_tracing:counters(Ref)),
                true;
            {error, _} -> false
        end
    end),
    ok = flame_prof_tracing:stop_all(),
    eventually(fun nothing_is_on/0),
    ?assertEqual({match_spec, true}, erlang:trace_info(send, match_spec)),
    exit(Tracee, kill).

%% The VM logs where a tracer would be replaced: here once, by the test.
a_process_that_is_followed_is_left_to_its_tracer(_) ->
    Tracee = spawn(fun() -> receive never -> ok end end),
    Tracer = spawn(fun() -> receive never -> ok end end),
    Self = self(),
    1 = erlang:trace(Tracee, true, [procs, {tracer, Tracer}]),
    Ref = started(#{flags => [call], processes => [Self], patterns => [{?F, ?SPEC, [local]}]}),
    ok = logger:add_handler(?MODULE, ?MODULE, #{config => Self}),
    try
        ok = flame_prof_tracing:add(Ref, [Tracee], [call]),
        ?assertEqual({tracer, Tracer}, erlang:trace_info(Tracee, tracer)),
        ?assertError(badarg, erlang:trace(Tracee, true, [call, {tracer, Self}])),
        receive logged -> ok end,
        receive logged -> error(logged_twice) after 0 -> ok end
    after _ = logger:remove_handler(?MODULE)
    end,
    {ok, _} = flame_prof_tracing:stop(Ref),
    ?assertEqual({tracer, Tracer}, erlang:trace_info(Tracee, tracer)),
    _ = [exit(P, kill) || P <- [Tracee, Tracer]].

log(#{msg := Message}, #{config := Pid}) ->
    Text = io_lib:format("~0p", [Message]),
    _ = [Pid ! logged || string:find(Text, "one tracer") =/= nomatch],
    ok.

the_node_that_asked_goes_away(_) ->
    case peer_vm:value(?MODULE, distributed, []) of
        {skip, Why} -> {skip, Why};
        Answer -> ?assertEqual(ok, Answer)
    end.

distributed() ->
    ok = hooked_library:use(),
    _ = os:cmd("epmd -daemon"),
    case net_kernel:start([tracing_suite, shortnames]) of
        {ok, _} ->
            {ok, Peer, Node} = peer:start(#{name => peer:random_name(), connection => 0}),
            Asker = erpc:call(Node, erlang, spawn, [timer, sleep, [infinity]]),
            {ok, _} = start(#{owner => Asker}),
            true = is_function_traced(),
            ok = peer:stop(Peer),
            eventually(fun nothing_is_on/0);
        {error, _} -> {skip, "no epmd"}
    end.

the_application_stops(_) -> ?assertEqual(ok, peer_vm:value(?MODULE, application_stop, [])).

application_stop() ->
    ok = hooked_library:use(),
    {ok, _} = application:ensure_all_started(flame_prof),
    {ok, _} = start(#{}),
    true = is_function_traced(),
    ok = application:stop(flame_prof),
    true = nothing_is_on(),
    ok.

every_limit_has_a_default(_) ->
    [?assertMatch({_, true}, {Limit, is_number(Default)})
        || #{key := Limit, default := Default} <- flame_prof_tracing:limits()].

%% How soon: tracing_proof_SUITE.
how_long_breakpoints_stay_after_a_limit_is_told(_) ->
    [begin
        Ref = started(#{limits => Limit}),
        ?assertNot(is_map_key(off_after_ms, flame_prof_tracing:info())),
        eventually(fun() -> call(1000), not is_function_traced() end),
        {limit, _} = ended(Ref),
        #{off_after_ms := Ms} = flame_prof_tracing:info(),
        ?assertMatch({ok, #{off_after_ms := Ms}}, flame_prof_tracing:stop(Ref))
    end
     || Limit <- [#{max_events => 1000}, #{max_cpu_percent => 0.1}, #{max_events_per_second => 100}]
    ].

what_was_measured_stays_after_a_limit(_) ->
    Ref = started(#{limits => #{max_events => 1000}}),
    call(5000),
    {limit, _} = ended(Ref),
    #{call := Calls} = counted(Ref),
    {ok, #{events := Events}} = flame_prof_tracing:counters(Ref),
    %% The one that ended it is not finished.
    ?assertMatch({true, _, _},
        {Calls >= 1000 andalso Calls =< Events andalso Events - Calls =< 1, Calls, Events}),
    ?assertMatch({error, {tracing, _}}, start(#{})),
    {ok, _} = flame_prof_tracing:stop(Ref).

a_function_of_another_tracer_is_not_taken(_) ->
    1 = erlang:trace_pattern(?F, true, [meta]),
    Answer = start(#{}),
    case has_sessions() of
        true ->
            {ok, Ref} = Answer,
            {ok, _} = flame_prof_tracing:stop(Ref);
        false -> ?assertMatch({error, {tracing, _}}, Answer)
    end,
    ?assertEqual({meta, self()}, erlang:trace_info(?F, meta)),
    1 = erlang:trace_pattern(?F, false, [meta]),
    eventually(fun nothing_is_on/0).

collections_of_another_session_are_left_alone(_) ->
    Trace = trace,
    Tracee = spawn(fun() -> receive never -> ok end end),
    case has_sessions() of
        true ->
            Session = Trace:session_create(other, self(), []),
            1 = Trace:process(Session, Tracee, true, [garbage_collection]),
            Ref = started(#{flags => [garbage_collection], processes => [Tracee, self()]}),
            {ok, #{processes := 1, left_alone := 1}} = flame_prof_tracing:stop(Ref),
            _ = Trace:process(Session, new_processes, true, [garbage_collection]),
            ?assertMatch({error, {tracing, _}},
                start(#{flags => [garbage_collection], processes => every})),
            true = Trace:session_destroy(Session);
        false ->
            1 = erlang:trace(Tracee, true, [garbage_collection]),
            Ref = started(#{flags => [garbage_collection], processes => [Tracee]}),
            {ok, #{processes := 0, left_alone := 1}} = flame_prof_tracing:stop(Ref)
    end,
    exit(Tracee, kill).

a_mistake_leaves_nothing_on(_) ->
    ?assertMatch({error, {session_ended, _}}, start(#{patterns => [
        {?F, ?SPEC, [meta]}, {{?MODULE, boom, 0}, [no_match_spec], [meta]}]})),
    eventually(fun nothing_is_on/0),
    [?assertMatch({Limit, {error, {bad_option, _}}}, {Limit, start(#{limits => Limit})})
        || Limit <- [#{max_seconds => none}, #{max_seconds => 0}, #{max_cpu_percent => 0},
            #{max_events_per_second => 0}, #{max_events => 0}]],
    {ok, _} = start(#{}).

%% See tracer_nif.h.
no_callback_is_called_with_other_arguments(_) ->
    ?assertNot(lists:keymember(trace_call, 1, flame_prof_nif:module_info(functions))).
