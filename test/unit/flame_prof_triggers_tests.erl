%% Triggers from their probes to the end of the profile, with a scripted agent and a virtual clock:
%% when one fires and when not, what it does to the session, and that a bad one does no harm. Real
%% conditions: test/live/flame_prof_triggers_SUITE.
-module(flame_prof_triggers_tests).

-include_lib("eunit/include/eunit.hrl").

-import(fake_agent, [run/1, each/1]).
-import(virtual_clock, [advance/1, settle/0]).

%% As triggers.
-export([is_set/0, level/0, hang/0, fall/0, grow/0, junk/0, number/0]).

-define(SWITCH, {?MODULE, switch}).
-define(PROFILING, #{profiling := {?MODULE, is_set}}).

is_set() -> persistent_term:get(?SWITCH, false) =:= true.
level() -> case persistent_term:get(?SWITCH, 0) of N when is_number(N) -> N; _ -> 0 end.
hang() -> receive never -> ok end.
fall() -> error(broken).
grow() -> grow([]).
grow(List) -> grow([List | List]).
junk() -> maybe_true.
%% There is nothing to compare it with.
number() -> 7.

set(Value) -> persistent_term:put(?SWITCH, Value).

%% Probes each second; profiles for 30 s.
set_trigger() -> #{on => {?MODULE, is_set}, cooldown => 0, max_per_hour => 1000}.
level_trigger() -> #{on => {?MODULE, level}, above => 5, cooldown => 0}.

arm(Engine, Options) ->
    set(false),
    {ok, Pid} = flame_prof:start(maps:merge(fake_agent:options(Engine), Options)),
    ?assertEqual(Pid, whereis(flame_prof_triggers)),
    settle().

info() -> ok = settle(), flame_prof:info().

%% How often each fired, and how often it was held back for what.
fired() -> [Fired || #{fired := Fired} <- maps:get(triggers, info())].

suppressed() -> [Suppressed || #{suppressed := Suppressed} <- maps:get(triggers, info())].

a_trigger_profiles_for_its_duration_and_is_armed_again_test() ->
    [each(fun(Engine) ->
        ok = arm(Engine, #{triggers => [(set_trigger())#{duration => 5000}], lookback => Lookback}),
        ok = advance(2000),
        ?assertMatch(#{state := armed, profiling := false, triggers := [#{fired := 0,
            last := false}]}, info()),
        set(true),
        ok = advance(1000),
        ?assertMatch(#{state := running, profiling := {?MODULE, is_set}}, info()),
        ok = advance(4999),
        ?assertMatch(?PROFILING, info()),
        ok = advance(1),
        #{state := armed, profiling := false, last_run := #{files := [_]}} = info(),
        %% It holds on: that is no second reason.
        ok = advance(3000),
        ?assertEqual([1], fired()),
        ?assertMatch([#{hysteresis := 8}], suppressed()),
        set(false), ok = advance(1000), set(true), ok = advance(1000),
        ?assertEqual([2], fired()),
        {ok, #{state := stopped, trigger := Note}} = flame_prof:stop(),
        ?assertEqual(<<"{flame_prof_triggers_tests,is_set}">>, Note)
    end) || Lookback <- [0, 1000]].

%% What came before is held by the library until it is told to write it.
nothing_is_written_unless_one_fires_test() ->
    each(fun(Engine) ->
        ok = arm(Engine, #{triggers => [set_trigger()], lookback => 20000}),
        ?assertMatch(#{lookback_ms := 20000}, fake_agent:config()),
        ok = advance(3000),
        ?assertMatch({error, {armed, _}}, flame_prof:flush()),
        ?assertMatch(#{state := armed, files := [], lookback := 20000}, info()),
        ?assertEqual([], fake_agent:calls(session_commit)),
        ?assertMatch({ok, #{state := stopped, files := [], triggers := [#{fired := 0}]}},
            flame_prof:stop()),
        ?assertEqual(#{state => stopped}, flame_prof:info())
    end).

an_armed_node_has_no_session_of_its_own_and_takes_no_second_one_test() ->
    run(fun() ->
        ok = arm(native, #{triggers => [set_trigger()]}),
        Pid = whereis(flame_prof_triggers),
        ?assertEqual({undefined, []},
            {whereis(flame_prof_session), fake_agent:calls(session_start)}),
        ?assertEqual({error, {already_started, #{pid => Pid}}}, flame_prof:start(#{})),
        ?assertEqual({error, {not_started, #{}}}, flame_prof:flush()),
        {ok, #{state := stopped, files := [], triggers := [#{fired := 0}]}} = flame_prof:stop(Pid),
        ?assertEqual({#{state => stopped}, {error, {not_started, #{}}}},
            {flame_prof:info(), flame_prof:stop()})
    end).

it_keeps_quiet_for_its_cooldown_from_the_end_of_its_profile_test() ->
    run(fun() ->
        ok = arm(native, #{triggers => [(set_trigger())#{cooldown => 60000}]}),
        set(true), ok = advance(31000), set(false), ok = advance(1000), set(true),
        ok = advance(58000),
        ?assertEqual({[1], [58]}, {fired(), [maps:get(cooldown, S) || S <- suppressed()]}),
        ok = advance(1000),
        ?assertEqual([2], fired())
    end).

of_several_one_profiles_at_a_time_test() ->
    run(fun() ->
        ok = arm(native, #{triggers => [(set_trigger())#{duration => 600000}, level_trigger()]}),
        set(true), ok = advance(1000),
        set(9), ok = advance(5000),
        ?assertEqual([1, 0], fired()),
        ?assertMatch([_, #{profiling := 5}], suppressed()),
        %% It still holds when the first is over.
        First = whereis(flame_prof_session),
        {ok, _} = flame_prof:stop(First),
        ?assertMatch(#{state := armed}, info()),
        ?assertEqual([], virtual_clock:due({over, First})),
        ok = advance(1000),
        ?assertEqual([1, 1], fired())
    end).

%% The system's clock may have been set since it started.
one_that_waits_for_an_hour_is_replaced_test() ->
    run(fun() ->
        ok = arm(native, #{triggers => [set_trigger()], lookback => 1000}),
        Old = whereis(flame_prof_session),
        ok = virtual_clock:skip(3599000),
        ok = advance(999),
        ?assertEqual(Old, whereis(flame_prof_session)),
        ok = advance(1),
        New = whereis(flame_prof_session),
        ?assert(is_pid(New) andalso New =/= Old),
        %% Not one that writes.
        ok = virtual_clock:skip(3590000),
        set(true), ok = advance(1000),
        ?assertMatch(?PROFILING, info()),
        ok = advance(20000),
        ?assertEqual(New, whereis(flame_prof_session))
    end).

nothing_fires_while_one_is_replaced_test() ->
    run(fun() ->
        ok = arm(native, #{triggers => [set_trigger()], lookback => 1000}),
        ok = fake_agent:hold(stop),
        ok = virtual_clock:skip(3600000),
        ok = advance(0),
        set(true), ok = advance(3000),
        {ok, #{triggers := [#{fired := 0, suppressed := Held}]}} = flame_prof_triggers:info(),
        ?assertEqual(#{profiling => 3}, Held),
        ok = fake_agent:release(stop),
        ok = advance(1000),
        ?assertEqual([1], fired())
    end).

a_session_that_ends_takes_no_commit_test() ->
    run(fun() ->
        ok = arm(native, #{triggers => [set_trigger()], lookback => 1000}),
        Old = whereis(flame_prof_session),
        ok = fake_agent:hold(stop),
        ok = flame_prof_session:end_soon(Old),
        ?assertEqual({error, {stopping, #{}}}, flame_prof_session:commit(Old, <<"too late">>)),
        ok = fake_agent:release(stop),
        ok = settle(),
        ?assertEqual([], fake_agent:calls(session_commit)),
        ?assert(is_pid(whereis(flame_prof_session)) andalso whereis(flame_prof_session) =/= Old)
    end).

%% The trigger is quiet for its cooldown then, as after a profile.
a_commit_that_the_library_refuses_is_said_and_what_it_holds_replaced_test() ->
    run(fun() ->
        ok = arm(native, #{triggers => [set_trigger()], lookback => 1000}),
        fake_agent:script(session_commit, {error, closed}),
        set(true),
        [Text] = logged:texts(fun() -> advance(1000) end),
        ?assertMatch({match, _}, re:run(Text, "cannot profile what its trigger on .* is for")),
        ?assertMatch(#{state := armed, profiling := false, triggers := [#{fired := 1}]}, info()),
        ?assertEqual(2, length(fake_agent:calls(session_start)))
    end).

%% What is told once is tried again without a word.
what_can_not_be_is_refused_at_once_and_later_tried_again_test() ->
    run(fun() ->
        fake_agent:script(session_start, {error, {io, <<"no space left on device">>}}),
        Options = (fake_agent:options(native))#{triggers => [set_trigger()], lookback => 1000},
        ?assertMatch({error, {file, #{reason := enospc}}}, flame_prof:start(Options)),
        fake_agent:script(session_start, none),
        ok = arm(native, #{triggers => [set_trigger()], lookback => 1000}),
        fake_agent:script(session_start, {error, {io, <<"no space left on device">>}}),
        [Text] = logged:texts(fun() -> set(true), advance(31000) end),
        ?assertMatch({match, _}, re:run(Text, "cannot keep the samples before a trigger")),
        ?assertEqual(undefined, whereis(flame_prof_session)),
        fake_agent:script(session_start, none),
        ok = advance(9000),
        ?assertEqual(undefined, whereis(flame_prof_session)),
        ok = advance(1000),
        ?assert(is_pid(whereis(flame_prof_session)))
    end).

%% Each is said, once. The built-in ones need no patience.
a_bad_fun_harms_nothing_test_() ->
    {timeout, 60, fun() -> run(fun() ->
        Bad = [#{on => {?MODULE, F}, timeout => 100} || F <- [fall, junk, not_there, number, grow]],
        Texts = logged:texts(fun() ->
            ok = arm(native, #{triggers => [set_trigger() | Bad]}),
            ok = advance(3500)
        end),
        ?assertEqual(lists:sort([{On, 1} || #{on := {_, On}} <- Bad]), lists:sort([{On, length(
            [T || T <- Texts, string:find(T, atom_to_list(On) ++ "}:") =/= nomatch])}
            || #{on := {_, On}} <- Bad])),
        [?assertMatch([_], [T || T <- Texts, string:find(T, Why) =/= nomatch], Why) || Why <- [
            ": broken in flame_prof_triggers_tests:fall/0, line",
            ": undef in flame_prof_triggers_tests:not_there/0",
            ": it returned neither a boolean nor a number", "a number needs `above"]],
        #{triggers := [_ | Triggers]} = info(),
        ?assertEqual([{3, 0}], lists:usort([{Failures, Fired}
            || #{failures := Failures, fired := Fired} <- Triggers])),
        set(true), ok = advance(1000),
        ?assertEqual([1, 0, 0, 0, 0, 0], fired())
    end) end}.

%% Its time is over after so long; a rest of 19 times as much follows.
one_that_hangs_is_given_up_test() ->
    run(fun() ->
        ok = arm(native, #{triggers => [#{on => {?MODULE, hang}, timeout => 500}]}),
        [Text] = logged:texts(fun() -> advance(1500) end),
        ?assertMatch({match, _}, re:run(Text, "no answer within 500 ms")),
        ?assertMatch(#{triggers := [#{failures := 1}]}, info()),
        ok = advance(9999),
        ?assertMatch({#{triggers := [#{failures := 1}]}, [_]}, {info(), looking()}),
        ok = advance(1),
        ?assertMatch({#{triggers := [#{failures := 2}]}, []}, {info(), looking()})
    end).

%% Whoever hangs in a look does not outlive who wanted to know; nor when that is killed.
nobody_looks_on_for_nobody_test() ->
    [run(fun() ->
        ok = arm(native, #{triggers => [#{on => {?MODULE, hang}}]}),
        ok = advance(1000),
        ?assertMatch([_], looking()),
        _ = End(),
        waiting:eventually(fun() -> looking() =:= [] end)
    end) || End <- [fun flame_prof:stop/0, fun() -> exit(whereis(flame_prof_triggers), kill) end]].

looking() ->
    [P || P <- processes(), {_, {flame_prof_condition, run, 3}} <- [process_info(P, initial_call)]].

%% The session is ended as it should be: its file is closed.
they_end_with_whom_they_belong_to_test() ->
    [run(fun() ->
        Test = self(),
        set(false),
        Owner = spawn(fun() ->
            Test ! flame_prof:start_link((fake_agent:options(native))#{lookback => Lookback,
                triggers => [set_trigger()]}),
            hang()
        end),
        Pid = receive {ok, P} -> P end,
        ?assertEqual(Pid, whereis(flame_prof_triggers)),
        set(true), ok = advance(1000),
        ?assertMatch(?PROFILING, info()),
        _ = End(Owner),
        waiting:eventually(fun() -> [undefined, undefined] =:=
            [whereis(N) || N <- [flame_prof_triggers, flame_prof_session]] end),
        ?assertMatch([[_]], fake_agent:calls(session_stop)),
        ?assertMatch(#{state := stopped, last_run := #{files := [_]}}, flame_prof:info())
    end) || Lookback <- [0, 1000], End <- [fun(Owner) -> exit(Owner, kill) end,
        fun(_) -> exit(whereis(flame_prof_triggers), kill) end,
        fun(_) -> application:stop(flame_prof) end, fun(_) -> flame_prof:stop() end]].

%% Of bounded length, within their budget, and without a sample of them.
a_recording_has_the_place_beside_triggers_test() ->
    [run(fun() ->
        {Recorder, Monitor} = record_beside(#{lookback => 5000, cpu_budget => 1.5}),
        ?assertMatch(#{cpu_permille := 15}, fake_agent:config()),
        Session = whereis(flame_prof_session),
        [_, _ | _] = Own = [Session | flame_prof_run:own(Session)],
        ?assertEqual([], Own -- maps:get(exclude, fake_agent:config())),
        %% There is one.
        Beside = whereis(flame_prof_session_beside),
        [?assertEqual({error, {already_started, #{pid => Beside}}}, Record()) || Record <- [
            fun() -> flame_prof_recording:record(100, #{}, self()) end,
            fun() -> flame_prof_recording:until(erlang:monotonic_time(millisecond), #{}) end]],
        _ = End(Recorder),
        receive {'DOWN', Monitor, process, _, _} -> ok end,
        waiting:eventually(fun() -> beside() =:= Left end)
    end) || {End, Left} <- [
        {fun(Pid) -> exit(Pid, kill) end, [flame_prof_session, flame_prof_triggers]},
        {fun(_) -> flame_prof:kill() end, []},
        {fun(_) -> application:stop(flame_prof) end, []}]].

record_beside(Options) ->
    ok = arm(native, Options#{triggers => [set_trigger()]}),
    Given = maps:remove(dir, fake_agent:options(native)),
    Recording = spawn_monitor(fun() -> flame_prof_recording:record(600000, Given, self()) end),
    waiting:eventually(fun() -> beside() =:=
        [flame_prof_session, flame_prof_session_beside, flame_prof_triggers] end),
    ok = settle(),
    Recording.

beside() ->
    [Name || Name <- [flame_prof_session, flame_prof_session_beside, flame_prof_triggers],
        is_pid(whereis(Name))].

a_session_without_triggers_is_left_alone_test() ->
    run(fun() ->
        Session = fake_agent:profile(native, #{}),
        ?assertMatch({error, {already_started, #{pid := Session}}},
            flame_prof_recording:record(100, #{}, self())),
        ?assertEqual([flame_prof_session], beside())
    end).

%% Words that no process here has: what comes is what the test says.
-define(LARGE, 1000000000000).

%% The first is told at once and then not for an hour; what it is told of goes on.
one_does_not_silence_another_on_the_same_event_test() ->
    run(fun() ->
        ok = arm(native, #{triggers => [
            #{on => large_heap, above => ?LARGE, duration => 1000, cooldown => 0,
                interval => 3600000},
            #{on => large_heap, above => 3 * ?LARGE, duration => 1000, cooldown => 0}]}),
        Tell = fun(Words) ->
            whereis(flame_prof_triggers) !
                {monitor, self(), large_heap, [{heap_block_size, Words}]},
            ok = advance(2000),
            fired()
        end,
        ?assertEqual([[1, 0], [1, 0], [1, 1], [1, 1]], [Tell(N * ?LARGE) || N <- [2, 2, 3, 2]])
    end).

what_fired_is_told_test() ->
    run(fun() ->
        ok = arm(native, #{triggers => [level_trigger()], lookback => 1000}),
        set(9),
        Events = logged:during(fun() -> advance(1000) end),
        [{Measured, Metadata}] = [{M, About} || {notice, #{event := [flame_prof, trigger, fire],
            measurements := M, metadata := About}, #{application := flame_prof,
            domain := [flame_prof]}} <- Events],
        ?assertEqual(#{value => 9}, Measured),
        ?assertMatch(#{trigger := <<"{flame_prof_triggers_tests,level}">>, above := 5,
            duration := 30000, lookback := 1000}, Metadata),
        ?assertMatch([[_, <<"{flame_prof_triggers_tests,level} 9, above 5">>]],
            fake_agent:calls(session_commit)),
        ?assertNotEqual(nomatch, string:find(flame_prof:metrics(), "flame_prof_triggers_fired_total"
            "{on=\"{flame_prof_triggers_tests,level}\"} 1\n"))
    end).
