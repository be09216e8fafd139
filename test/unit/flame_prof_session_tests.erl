%% A session from its start to its end, with a scripted agent and a virtual clock: who is answered
%% what, what it says of itself, what is put back. What the library does:
%% test/live/flame_prof_SUITE.
-module(flame_prof_session_tests).

-include_lib("eunit/include/eunit.hrl").

-import(fake_agent, [run/1, each/1, profile/2]).
-import(virtual_clock, [advance/1, settle/0]).

-export([sleep/0]).
%% Of a stand-in.
-export([site/2]).

-define(STOPPED, {error, {not_started, #{}}}).

without_a_session_there_is_nothing_to_end_test() ->
    run(fun() ->
        ?assertEqual(#{state => stopped}, flame_prof:info()),
        [?assertEqual(?STOPPED, End()) || End <- [fun flame_prof:stop/0, fun flame_prof:flush/0,
            fun flame_prof:kill/0, fun() -> flame_prof:stop(self()) end]],
        ok = application:stop(flame_prof),
        ?assertEqual({#{state => stopped}, ?STOPPED}, {flame_prof:info(), flame_prof:stop()})
    end).

only_one_session_runs_test() ->
    each(fun(Engine) ->
        Pid = profile(Engine, #{}),
        ?assertEqual({error, {already_started, #{pid => Pid}}}, flame_prof:start(#{})),
        [?assertEqual({error, {already_started, #{pid => Pid}}}, flame_prof:profile(What))
            || What <- [100, fun() -> error(evaluated) end]],
        ?assertEqual(?STOPPED, flame_prof:stop(self())),
        ?assertMatch(#{state := running, engine := Engine}, flame_prof:info()),
        ?assertMatch({ok, _}, flame_prof:stop(Pid)),
        ?assertEqual(?STOPPED, flame_prof:stop(Pid)),
        ?assertNotEqual(Pid, profile(Engine, #{})),
        ?assertMatch({ok, _}, flame_prof:stop(flame_prof, 5000))
    end).

all_who_stop_it_have_the_same_answer_test() ->
    each(fun(Engine) ->
        _ = profile(Engine, #{}),
        ok = fake_agent:hold(stop),
        Stops = asked(5, fun flame_prof:stop/0),
        ?assertMatch(#{state := stopping}, flame_prof:info()),
        ?assertEqual({error, {stopping, #{}}}, flame_prof:flush()),
        ?assertEqual({error, {timeout, #{ms => 0, request => stop}}}, flame_prof:stop(0)),
        ok = fake_agent:release(stop),
        [{ok, #{state := stopped, files := [File]} = Run}] = lists:usort(answers(Stops)),
        ?assertEqual(<<".zst">>, filename:extension(File)),
        ?assertEqual({#{state => stopped, last_run => Run}, ?STOPPED},
            {flame_prof:info(), flame_prof:stop()})
    end).

a_flush_is_answered_when_the_library_has_done_it_or_has_stopped_test() ->
    each(fun(Engine) ->
        _ = profile(Engine, #{}),
        ?assertEqual(ok, flame_prof:flush()),
        ok = fake_agent:hold(flush),
        Flushes = asked(20, fun flame_prof:flush/0),
        ok = fake_agent:release(flush),
        ?assertEqual([ok], lists:usort(answers(Flushes))),
        ok = fake_agent:hold(flush),
        Late = asked(2, fun flame_prof:flush/0),
        {ok, _} = flame_prof:stop(),
        ?assertEqual([ok, ok], answers(Late))
    end).

asked(N, Fun) ->
    Asked = [spawn_monitor(fun() -> exit({answer, Fun()}) end) || _ <- lists:seq(1, N)],
    _ = [waiting:eventually(fun() -> process_info(P, status) =:= {status, waiting} end)
        || {P, _} <- Asked],
    ok = settle(),
    Asked.

answers(Asked) ->
    [receive {'DOWN', Monitor, process, _, {answer, Answer}} -> Answer end
        || {_, Monitor} <- Asked].

what_the_library_refuses_is_said_with_the_place_test() ->
    each(fun(Engine) ->
        fake_agent:script(session_start, {error, {io, <<"no space left on device">>}}),
        Options = fake_agent:options(Engine),
        ?assertMatch({error, {file, #{file := <<"/tmp/flame_prof_fake">>, reason := enospc}}},
            flame_prof:start(Options)),
        ?assertEqual({undefined, 8}, {whereis(flame_prof_session), depth()})
    end).

a_library_that_stops_by_itself_ends_the_session_test() ->
    each(fun(Engine) ->
        Monitor = monitor(process, profile(Engine, #{})),
        [Text] = logged:texts(fun() ->
            fake_agent:say({stopped, {error, {io, <<"no space left on device">>}}}),
            receive {'DOWN', Monitor, process, _, Reason} ->
                ?assertMatch({shutdown, {library, _}}, Reason) end
        end),
        ?assertMatch({match, _}, re:run(Text, "has stopped by itself: .*no space left")),
        ?assertMatch(#{state := stopped, last_run := #{files := [_]}}, flame_prof:info())
    end).

a_library_with_a_broken_invariant_ends_the_session_with_its_place_test() ->
    each(fun(Engine) ->
        Monitor = monitor(process, profile(Engine, #{})),
        Broken = <<"a broken invariant: base/ring.c:7: size % 8 == 0">>,
        [Text] = logged:texts(fun() ->
            fake_agent:say({stopped, {error, {broken_invariant, Broken}}}),
            receive {'DOWN', Monitor, process, _, Reason} ->
                ?assertMatch({shutdown, {library, _}}, Reason) end
        end),
        ?assertMatch({match, _}, re:run(Text, "has stopped by itself: .*base/ring.c:7: size")),
        ?assertMatch({match, _}, re:run(Text, "please report it"))
    end).

a_disk_that_fails_is_in_the_answers_until_it_heals_test() ->
    run(fun() ->
        _ = profile(native, #{}),
        ?assertMatch([_], logged:texts(fun() ->
            fake_agent:say({file, failed, <<"no space">>}), settle() end)),
        ?assertMatch(#{error := <<"no space">>}, flame_prof:info()),
        fake_agent:say({file, healed, <<"log">>}),
        ?assertMatch(#{error := <<>>}, flame_prof:info()),
        ok = fake_agent:hold(stop),
        fake_agent:count(#{lost => 7, attempted => 7}),
        Stops = asked(1, fun flame_prof:stop/0),
        fake_agent:say({stopped, {error, {io, <<"disk quota exceeded">>}}}),
        ?assertMatch([{error, {file, #{lost := 7}}}], answers(Stops))
    end).

files_come_and_go_test() ->
    run(fun() ->
        _ = profile(native, #{}),
        #{files := [First]} = flame_prof:info(),
        Done = filename:rootname(First),
        [fake_agent:say({file, Event, File}) || {Event, File} <- [{finished, Done},
            {begun, <<"b.part">>}, {finished, <<"b">>}, {begun, <<"c.part">>}, {removed, Done}]],
        ?assertMatch(#{files := [<<"b">>, <<"c.part">>]}, flame_prof:info())
    end).

an_option_or_an_environment_that_is_wrong_starts_nothing_test() ->
    run(fun() ->
        [?assertMatch({error, {bad_option, #{option := Key}}}, flame_prof:start(Options))
            || {Key, Options} <- [{sample_interval, #{sample_interval => 0}},
                {select, #{select => {top, -1}}},
                {{process_options, follow}, #{process_options => #{follow => sometimes}}},
                {sample_rate, #{sample_rate => 99}},
                {dir, #{dir => "a\0b"}},
                {options, [dir]},
                {duration, #{duration => 300, triggers => #{on => run_queue, above => 5}}},
                {duration, #{duration => 0}}, {duration, #{duration => 1.5}}]],
        [?assertMatch({error, {badarg, #{argument := timeout}}}, flame_prof:start(#{}, Wrong))
            || Wrong <- [soon, -1]],
        ok = application:set_env(flame_prof, sample_rate, 99),
        ?assertMatch({error, {bad_env, #{option := sample_rate}}}, flame_prof:start()),
        ok = application:unset_env(flame_prof, sample_rate),
        [ok = application:set_env(flame_prof, Key, Value)
            || {Key, Value} <- [{sample_interval, 20}, {collapse_recursion, false}]],
        {ok, _} = flame_prof:start(maps:remove(sample_interval,
            (fake_agent:options(native))#{collapse_recursion => true})),
        ?assertMatch(#{options := #{sample_interval := 20, collapse_recursion := true}},
            flame_prof:info())
    end).

%% Nothing is evaluated, and nothing starts.
a_profile_checks_what_it_is_given_before_it_starts_test() ->
    run(fun() ->
        [?assertMatch({{error, {Class, _}}, _}, {flame_prof:profile(What, Given), Given})
            || {Class, What, Given} <- [{badarg, 0, #{}}, {badarg, -1, #{}}, {badarg, 3600001, #{}},
                {badarg, fun(_) -> ok end, #{}}, {badarg, {lists, seq, 2}, #{}},
                {badarg, {lists, seq, [1 | 2]}, #{}}, {badarg, "later", #{}},
                {bad_option, 100, [by]}, {bad_option, 100, #{sample_interval => 0}},
                {bad_option, 100, #{triggers => #{on => run_queue, above => 5}}},
                {bad_option, 100, #{nonsuch => 5, top => 3}}
            ] ++ [{bad_option, 100, #{Key => Value}} || {Key, Value} <- [{by, 7}, {by, reduction},
                {by, {value, reduction}}, {min, 101}, {top, 0}, {report, 5}]]],
        ?assertEqual([], fake_agent:calls(session_start))
    end).

%% A profile of a function is of it alone, whatever else of its options is left out.
what_a_profile_leaves_out_has_its_default_test() ->
    [run(fun() ->
        Options = maps:merge(fake_agent:options(native), More),
        ?assertMatch({error, {_, #{result := 7}}}, flame_prof:profile(fun() -> 7 end, Options)),
        ?assertMatch(#{rules := [], sample_interval_us := 1000000, lookback_ms := 0},
            fake_agent:config())
    end) || More <- [#{}, #{select => nil, by => nil}, #{auto_select => undefined},
        #{triggers => nil}, #{pre_roll => 0}]].

a_session_that_does_not_start_in_time_is_given_up_test() ->
    each(fun(Engine) ->
        Options = fake_agent:options(Engine),
        ?assertEqual({error, {timeout, #{ms => 0, request => start}}},
            flame_prof:start(Options, 0)),
        waiting:eventually(fun() -> whereis(flame_prof_session) =:= undefined end),
        ?assertMatch({ok, _}, flame_prof:start(Options, infinity))
    end).

it_ends_after_its_duration_and_not_before_test() ->
    each(fun(Engine) ->
        Monitor = monitor(process, profile(Engine, #{duration => 300})),
        ok = advance(299),
        ?assertMatch(#{state := running}, flame_prof:info()),
        ok = advance(1),
        receive {'DOWN', Monitor, process, _, Reason} -> ?assertEqual(normal, Reason) end,
        ?assertMatch(#{state := stopped, last_run := #{elapsed_ms := 300, pending := 0,
            error := <<>>}}, flame_prof:info())
    end).

it_ends_with_whom_it_is_linked_to_test() ->
    each(fun(Engine) ->
        Test = self(),
        Options = fake_agent:options(Engine),
        Owner = spawn(fun() ->
            {ok, Session} = flame_prof:start_link(Options),
            {error, {already_started, _}} = flame_prof:start_link(Options),
            {error, {bad_option, _}} = flame_prof:start_link(#{sample_interval => 0}),
            Test ! {session, Session},
            sleep()
        end),
        Monitor = receive {session, Session} -> monitor(process, Session) end,
        ?assertMatch(#{state := running}, flame_prof:info()),
        exit(Owner, kill),
        receive {'DOWN', Monitor, process, _, Reason} -> ?assertEqual(normal, Reason) end,
        ?assertMatch(#{state := stopped, last_run := #{files := [_]}}, flame_prof:info())
    end).

%% A profile of bounded length ends with who has asked for it.
it_ends_with_its_caller_test() ->
    run(fun() ->
        Caller = spawn(fun() -> flame_prof:profile(600000, fake_agent:options(native)) end),
        waiting:eventually(fun() -> maps:get(state, flame_prof:info()) =:= running end),
        exit(Caller, kill),
        waiting:eventually(fun() -> maps:get(state, flame_prof:info()) =:= stopped end)
    end).

a_killed_one_is_not_started_again_test() ->
    each(fun(Engine) ->
        Pid = profile(Engine, #{}),
        exit(Pid, kill),
        waiting:eventually(fun() -> whereis(flame_prof_session) =:= undefined end),
        ok = settle(),
        ?assertEqual({#{state => stopped}, ?STOPPED}, {flame_prof:info(), flame_prof:stop()}),
        ?assertEqual(8, depth()),
        ?assertEqual([], [P || P <- processes(),
            {M, _, _} <- [proc_lib:translate_initial_call(P)], lists:member(M, [flame_prof_targets,
            flame_prof_portable, flame_prof_selector, flame_prof_node])]),
        _ = profile(Engine, #{})
    end).

its_counters_outlive_the_application_test() ->
    run(fun() ->
        _ = profile(native, #{}),
        fake_agent:count(#{attempted => 3, written => 3}),
        ok = application:stop(flame_prof),
        ?assertMatch(#{state := stopped, last_run := #{files := [_], pending := 0, written := 3}},
            flame_prof:info()),
        ok = application:start(flame_prof),
        ?assertEqual(#{state => stopped}, flame_prof:info())
    end).

%% Without a word to a person.
kill_ends_whatever_runs_test() ->
    Armed = #{triggers => #{on => run_queue, above => 1000000}, lookback => 1000},
    [run(fun() ->
        {ok, _} = flame_prof:start(maps:merge(More, fake_agent:options(Engine))),
        Warnings = [Event || {Level, _, _} = Event <- logged:during(fun() ->
            ?assertEqual(ok, flame_prof:kill()) end), Level =/= notice],
        ?assertEqual([], Warnings),
        ?assertEqual([undefined, undefined],
            [whereis(Name) || Name <- [flame_prof_session, flame_prof_triggers]]),
        ?assertMatch(#{state := stopped}, flame_prof:info()),
        _ = profile(Engine, #{})
    end) || {Engine, More} <- [{native, #{}}, {portable, #{}}, {native, Armed}]].

engine() ->
    [Pid] = [P || P <- processes(),
        proc_lib:translate_initial_call(P) =:= {flame_prof_portable, init, 1}],
    Pid.

it_ends_when_its_engine_is_killed_test() ->
    run(fun() ->
        Monitor = monitor(process, profile(portable, #{})),
        exit(engine(), kill),
        receive {'DOWN', Monitor, process, _, Reason} ->
            ?assertEqual({shutdown, {portable_engine, killed}}, Reason) end,
        ?assertMatch(#{state := stopped, last_run := #{files := [_]}}, flame_prof:info()),
        ?assertEqual(8, depth())
    end).

%% As when the engine waits for a process inside a NIF that does not return.
a_suspended_engine_does_not_hold_up_the_stop_test() ->
    run(fun() ->
        _ = profile(portable, #{}),
        true = erlang:suspend_process(engine()),
        Stops = [spawn_monitor(fun() -> exit({answer, flame_prof:stop()}) end)],
        waiting:eventually(fun() -> virtual_clock:due(halt_now) =:= [1000] end),
        whereis(flame_prof_session) ! halt_now,
        ?assertMatch([{ok, _}], answers(Stops)),
        ?assertEqual(8, depth())
    end).

the_depth_of_backtraces_is_put_back_test() ->
    run(fun() ->
        8 = erlang:system_flag(backtrace_depth, 11),
        try
            _ = profile(portable, #{}),
            ?assert(depth() > 11),
            {ok, _} = flame_prof:stop(),
            ?assertEqual(11, depth()),
            %% What somebody has set meanwhile stays.
            _ = profile(portable, #{}),
            _ = erlang:system_flag(backtrace_depth, 13),
            {ok, _} = flame_prof:stop(),
            ?assertEqual(13, depth())
        after erlang:system_flag(backtrace_depth, 8)
        end
    end).

%% Reading it means setting it.
depth() ->
    Depth = erlang:system_flag(backtrace_depth, 8),
    _ = erlang:system_flag(backtrace_depth, Depth),
    Depth.

%% Each interval is a tick or a missed one, however late the engine is.
late_ticks_are_counted_as_missed_test() ->
    run(fun() ->
        _ = profile(portable, #{select => {top, 0}, sample_interval => 9}),
        ok = advance(98),
        ?assertMatch(#{counters := #{ticks := 10, missed := 0}}, flame_prof:info()),
        ok = sys:suspend(engine()),
        ok = virtual_clock:skip(450),
        ok = sys:resume(engine()),
        ok = advance(4),
        ?assertMatch(#{counters := #{ticks := 12, missed := 49}}, flame_prof:info())
    end).

%% Items as the library gets them: who is sampled, in which status, with which stack.
the_portable_engine_samples_whom_it_was_told_to_test() ->
    run(fun() ->
        Waiting = spawn(?MODULE, sleep, []),
        Hibernating = spawn(fun() -> erlang:hibernate(?MODULE, sleep, []) end),
        Gone = spawn(?MODULE, sleep, []),
        waiting:eventually(fun() -> process_info(Hibernating, current_function)
            =:= {current_function, {erlang, hibernate, 3}} end),
        All = [Waiting, Hibernating, Gone],
        [begin
            _ = profile(portable, #{select => {top, 0}, include => All,
                process_options => #{status => Status}}),
            ok = advance(2500),
            ?assertEqual({Status, Expected}, {Status, lists:usort(statuses()) -- Also}),
            {ok, _} = flame_prof:stop()
        end || {Status, Expected, Also} <- [{running, [], []}, {waiting, [0], []},
            %% 2: a process that has just answered the tick before is still runnable.
            {all, [0], [2]}]],
        ok = fake_agent:forget(),
        _ = profile(portable, #{select => {top, 0}, include => All}),
        ok = advance(2500),
        exit(Gone, kill),
        waiting:eventually(fun() -> not is_process_alive(Gone) end),
        ok = advance(2500),
        Items = fake_agent:pushed(),
        ?assertMatch([_], [E || {exited, 1} = E <- Items]),
        ?assertEqual(lists:sort([pid_number(P) || P <- All]),
            lists:sort([N || {process, _, N, _, _, _, _, _} <- Items])),
        ?assertMatch([_], [F || {frame, _, <<"erlang">>, <<"hibernate">>, 3, _, _} = F <- Items]),
        [exit(P, kill) || P <- All]
    end).

statuses() -> [Status || {sample, _, _, Status, _} <- fake_agent:pushed()].

pid_number(Pid) ->
    [_, Number, _] = string:lexemes(pid_to_list(Pid), "<.>"),
    list_to_integer(Number).

no_more_processes_are_selected_than_wanted_and_none_of_its_own_test() ->
    run(fun() ->
        _ = profile(portable, #{select => {top, 3, 60000}, growers => 0}),
        ok = advance(3000),
        {selection, All, 3, 0} = lists:last([S || {selection, _, _, _} = S <- fake_agent:pushed()]),
        ?assert(All > 20),
        {ok, _} = flame_prof:stop(),
        Pid = profile(portable, #{select => {top, 10000, 200}}),
        ok = advance(3000),
        {links, Links} = process_info(Pid, links),
        Own = [pid_number(P) || P <- [Pid | Links], is_pid(P)],
        Sampled = [N || {process, _, N, _, _, _, _, _} <- fake_agent:pushed()],
        ?assertEqual([], [N || N <- Own, lists:member(N, Sampled)]),
        ?assert(length(lists:usort(Sampled)) > 20)
    end).

sleep() -> receive never -> ok end.

%% The library is to read messages from the start: it has no places yet.
messages_that_were_not_found_at_the_start_are_looked_for_again_test() ->
    run_with_sites({error, {wait_sites, <<"the probes took longer than 900 ms">>}}, fun() ->
        Logged = logged:texts(fun() -> profile(native, #{messages => true}) end),
        ?assertMatch([_], [Text || Text <- Logged, string:find(Text, "messages in work: the pro")
            =/= nomatch]),
        ?assertMatch(#{messages := true}, fake_agent:config()),
        #{messages := {off, Why}} = Info = flame_prof:info(),
        ?assertEqual(<<"the probes took longer than 900 ms; a running session tries again every "
            "31 s">>, Why),
        ?assertNotEqual(nomatch, string:find(text(Info), ["  no messages in work: ", Why, "\n"])),
        ok = advance(30999),
        ?assertEqual(1, asked_for_sites()),
        ok = advance(1),
        ?assertEqual(2, asked_for_sites()),
        answer_sites({error, {wait_sites, <<"the probes failed">>}}),
        ok = advance(31000),
        #{messages := {off, <<"the probes failed", _/binary>>}} = flame_prof:info(),
        answer_sites(ok),
        ok = advance(31000),
        #{messages := on} = Found = flame_prof:info(),
        ?assertEqual(nomatch, string:find(text(Found), "messages in work")),
        ok = advance(100000),
        ?assertEqual(4, asked_for_sites()),
        {ok, #{messages := on}} = flame_prof:stop()
    end).

%% Messages are on, and at more places later.
places_of_messages_that_were_late_are_looked_for_again_test() ->
    run_with_sites(ok, fun() ->
        true = ets:insert(?MODULE, {all, false}),
        _ = profile(native, #{messages => true}),
        ?assertMatch(#{messages := on}, flame_prof:info()),
        ok = advance(31000),
        ?assertMatch({2, [_]}, {asked_for_sites(), finders()}),
        true = ets:insert(?MODULE, {all, true}),
        ok = advance(31000),
        ok = advance(100000),
        ?assertMatch({3, []}, {asked_for_sites(), finders()}),
        ?assertMatch(#{messages := on}, flame_prof:info())
    end).

what_looks_for_messages_is_not_sampled_and_ends_with_the_session_test() ->
    run_with_sites({error, {wait_sites, <<"the probes failed">>}}, fun() ->
        _ = profile(native, #{messages => true}),
        [Finder] = finders(),
        #{exclude := Excluded} = fake_agent:config(),
        ?assert(lists:member(Finder, Excluded)),
        {ok, #{messages := {off, _}}} = flame_prof:stop(),
        ok = settle(),
        ?assertEqual([], finders()),
        ok = advance(31000),
        ?assertEqual(1, asked_for_sites())
    end).

messages_that_are_found_or_not_asked_for_are_not_looked_for_again_test() ->
    [run_with_sites(Answer, fun() ->
        _ = profile(Engine, #{messages => IsAsked}),
        ?assertMatch(#{messages := IsOn}, fake_agent:config()),
        ?assertEqual([], finders()),
        ?assertEqual(nomatch, string:find(text(flame_prof:info()), "messages in work"))
    end) || {Engine, IsAsked, Answer, IsOn} <- [{native, true, ok, true},
        {native, false, {error, {wait_sites, <<"w">>}}, false},
        {portable, true, {error, {wait_sites, <<"w">>}}, false}]].

text(Info) -> unicode:characters_to_binary(flame_prof_info:format(node(), Info)).

finders() -> [Pid || Pid <- virtual_clock:processes(),
    {dictionary, Words} <- [process_info(Pid, dictionary)],
    {'$initial_call', {flame_prof_messages, init, 1}} <- Words].

%% In place of the module that finds the places where processes work on messages.
run_with_sites(Answer, Fun) ->
    run(fun() ->
        ok = stand_in:open(?MODULE, []),
        true = ets:insert(?MODULE, {all, true}),
        answer_sites(Answer),
        ok = stand_in:load(flame_prof_wait_sites, {?MODULE, site}),
        try Fun()
        after
            _ = flame_prof:kill(),
            ok = stand_in:unload(flame_prof_wait_sites),
            ok = stand_in:close(?MODULE)
        end
    end).

answer_sites(Answer) -> true = ets:insert(?MODULE, {answer, Answer}).

asked_for_sites() ->
    case ets:lookup(?MODULE, asked) of [] -> 0; [{asked, N}] -> N end.

site(again_ms, []) -> 31000;
site(are_all, []) -> ets:lookup_element(?MODULE, all, 2);
site(ensure, []) ->
    _ = ets:update_counter(?MODULE, asked, 1, {asked, 0}),
    ets:lookup_element(?MODULE, answer, 2).

losses_are_logged_at_the_flush_after_them_test() ->
    run(fun() ->
        _ = profile(native, #{flush_interval => 15000}),
        ?assertEqual([], losses(fun() -> fake_agent:count(#{attempted => 100, ticks => 50}),
            advance(15000) end)),
        Lost = fun() -> fake_agent:count(#{attempted => 100, dropped => 7, ticks => 98,
            missed => 2}) end,
        ?assertEqual([], losses(fun() -> Lost(), advance(14999) end)),
        ?assertEqual([{7.0, 2.0}], losses(fun() -> advance(1) end)),
        %% Once in a session.
        ?assertEqual([], losses(fun() -> Lost(), advance(60000) end))
    end).

losses(Fun) ->
    [{S, T} || {notice, #{what := sampling_loss, samples_percent := S, ticks_percent := T}, _}
        <- logged:during(Fun)].
