%% Whom a session looks at: by rules, by name, because it said so itself, and
%% because profiling has spread to it. With each engine.
-module(flame_prof_targets_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_group/2, end_per_group/2, init_per_testcase/2, end_per_testcase/2]).
-export([
    a_process_profiles_itself/1,
    apply_gives_back_what_the_fun_does/1,
    calls_of_apply_can_be_nested/1,
    a_status_is_of_the_process_that_asked_for_it/1,
    nobody_profiles_without_a_session/1,
    nobody_profiles_without_an_answer/1,
    the_end_of_the_session_does_not_disturb/1,
    those_that_are_always_wanted_are_sampled/1,
    a_name_is_looked_up_again/1,
    a_registry_that_hangs_holds_up_nobody/1,
    spawned_processes_are_followed/1,
    children_of_the_chosen_are_followed/1,
    receivers_are_followed/1,
    children_from_before_are_not_followed/1,
    who_has_left_is_forgotten/1,
    catching_ends_at_its_limit_of_processes/1,
    tracing_ends_at_its_limit_of_events/1,
    tracing_ends_at_its_limit_of_seconds/1,
    somebody_elses_trace_goes_on/1,
    nothing_is_traced_after_the_session/1,
    rules_choose_by_their_metric/1,
    a_rule_by_change_chooses_who_grows/1,
    who_is_flooded_has_a_place_until_it_is_drained/1,
    whose_memory_grows_has_a_place/1,
    maps_select_what_they_say/1,
    filters_choose_who_takes_part/1,
    several_rules_choose_together/1,
    a_session_is_given_up_that_does_not_start_in_time/1,
    a_linked_session_ends_with_its_starter/1,
    only_the_named_session_is_stopped/1
]).
-export([burn/1, wait/0, started_as/1]).
%% As a registry.
-export([whereis_name/1]).

-import(waiting, [eventually/1]).

suite() ->
    [{timetrap, {minutes, 10}}].

all() ->
    [{group, native}, {group, portable}].

groups() ->
    Cases = [
        a_process_profiles_itself,
        apply_gives_back_what_the_fun_does,
        calls_of_apply_can_be_nested,
        a_status_is_of_the_process_that_asked_for_it,
        nobody_profiles_without_a_session,
        nobody_profiles_without_an_answer,
        the_end_of_the_session_does_not_disturb,
        those_that_are_always_wanted_are_sampled,
        a_name_is_looked_up_again,
        a_registry_that_hangs_holds_up_nobody,
        spawned_processes_are_followed,
        children_of_the_chosen_are_followed,
        receivers_are_followed,
        children_from_before_are_not_followed,
        who_has_left_is_forgotten,
        catching_ends_at_its_limit_of_processes,
        tracing_ends_at_its_limit_of_events,
        tracing_ends_at_its_limit_of_seconds,
        somebody_elses_trace_goes_on,
        nothing_is_traced_after_the_session,
        rules_choose_by_their_metric,
        a_rule_by_change_chooses_who_grows,
        who_is_flooded_has_a_place_until_it_is_drained,
        whose_memory_grows_has_a_place,
        maps_select_what_they_say,
        filters_choose_who_takes_part,
        several_rules_choose_together,
        a_session_is_given_up_that_does_not_start_in_time,
        a_linked_session_ends_with_its_starter,
        only_the_named_session_is_stopped
    ],
    [{native, [], Cases}, {portable, [], Cases}].

init_per_suite(Config) ->
    Config.

end_per_suite(_Config) ->
    _ = application:stop(flame_prof),
    ok.

init_per_group(Engine, Config) ->
    Directory = filename:join(proplists:get_value(priv_dir, Config), Engine),
    case flame_prof:start(#{engine => Engine, dir => Directory}) of
        {ok, _} ->
            {ok, _} = flame_prof:stop(),
            [{engine, Engine}, {directory, Directory} | Config];
        {error, Reason} ->
            {skip, unicode:characters_to_list(flame_prof:format_error(Reason))}
    end.

end_per_group(_Engine, _Config) ->
    ok.

init_per_testcase(_Case, Config) ->
    {ok, _} = application:ensure_all_started(flame_prof),
    Config.

end_per_testcase(_Case, _Config) ->
    _ = application:stop(flame_prof),
    [exit(Pid, kill) || Pid <- processes(), is_ours(Pid)],
    ok.

%% ---- explicit --------------------------------------------------------------

a_process_profiles_itself(Config) ->
    start(Config, #{}),
    Pid = ours(fun() ->
        1 = flame_prof:profile_start(),
        ?MODULE:wait()
    end),
    has_samples_of([Pid]),
    ?assertEqual([Pid], sampled(Config)).

apply_gives_back_what_the_fun_does(Config) ->
    start(Config, #{}),
    ?assertEqual(7, flame_prof:apply(fun() -> has_samples_of([self()]), 7 end)),
    ?assertEqual(count(explicit), 0),
    ?assertError(mine, flame_prof:apply(fun() -> error(mine) end)),
    ?assertThrow(mine, flame_prof:apply(fun() -> throw(mine) end, #{follow => none})),
    ?assertEqual(count(explicit), 0),
    ?assertEqual(0, flame_prof:profile_stop()),
    ?assertError({bad_option, #{option := follow}},
        flame_prof:apply(fun() -> ct:fail(called) end, #{follow => 7})),
    ?assertError({bad_option, #{option := depth}}, flame_prof:profile_start(#{depth => 7})),
    ?assertEqual([self()], sampled(Config)).

calls_of_apply_can_be_nested(Config) ->
    start(Config, #{}),
    flame_prof:apply(fun() ->
        flame_prof:apply(fun() -> 1 = count(explicit) end, #{status => running}),
        ?assertEqual(1, count(explicit)),
        has_samples_of([self()])
    end),
    ?assertEqual(0, count(explicit)),
    ?assertEqual([self()], sampled(Config)).

a_status_is_of_the_process_that_asked_for_it(Config) ->
    start(Config, #{}),
    Burner = ours(fun() -> 1 = flame_prof:profile_start(#{status => running}), ?MODULE:burn(0) end),
    Waiter = ours(fun() -> 1 = flame_prof:profile_start(#{status => running}), ?MODULE:wait() end),
    Other = ours(fun() -> 1 = flame_prof:profile_start(#{status => waiting}), ?MODULE:wait() end),
    eventually(fun() -> count(explicit) =:= 3 end),
    %% process_info/2 sees it running only where it runs on another scheduler.
    has_samples_of([Other | [Burner || engine(Config) =:= native]]),
    %% It may have been seen on its way.
    eventually(fun() -> not lists:member(Waiter, sampled_late(flushed())) end),
    ?assert(lists:member(Other, sampled(Config))).

nobody_profiles_without_a_session(_Config) ->
    ?assertError({not_started, flame_prof}, flame_prof:profile_start()),
    ?assertError({not_started, flame_prof}, flame_prof:apply(fun() -> ct:fail(called) end)),
    ?assertEqual(0, flame_prof:profile_stop()).

%% One that is late does not profile behind the back of who has been refused.
nobody_profiles_without_an_answer(Config) ->
    start(Config, #{}),
    {ok, Targets} = flame_prof_session:targets(current),
    ok = sys:suspend(Targets),
    ?assertError({not_started, flame_prof}, flame_prof:profile_start()),
    ?assertEqual(done, flame_prof:apply(fun() -> done end)),
    ok = sys:resume(Targets),
    ?assertEqual(0, count(explicit)).

the_end_of_the_session_does_not_disturb(Config) ->
    start(Config, #{}),
    ?assertEqual(done, flame_prof:apply(fun() -> {ok, _} = flame_prof:stop(), done end)),
    start(Config, #{}),
    ?assertEqual(
        done,
        flame_prof:apply(fun() ->
            exit(whereis(flame_prof_session), kill),
            done
        end)
    ).

%% ---- include ----------------------------------------------------------------

those_that_are_always_wanted_are_sampled(Config) ->
    Pid = ours(fun wait/0),
    start(Config, #{include => [kernel_sup, Pid, no_such_name]}),
    has_samples_of([Pid, whereis(kernel_sup)]),
    ?assertEqual(lists:sort([Pid, whereis(kernel_sup)]), sampled(Config)).

a_name_is_looked_up_again(Config) ->
    start(Config, #{include => ?FUNCTION_NAME}),
    ticked(3),
    First = ours(fun wait/0),
    true = register(?FUNCTION_NAME, First),
    has_samples_of([First]),
    exit(First, kill),
    eventually(fun() -> count(included) =:= 0 end),
    Second = ours(fun wait/0),
    true = register(?FUNCTION_NAME, Second),
    has_samples_of([Second]),
    ?assertEqual(lists:sort([First, Second]), sampled(Config)).

%% Names whose registry does not answer are 0.2 s each.
a_registry_that_hangs_holds_up_nobody(Config) ->
    Pid = ours(fun wait/0),
    start(Config, #{include => [{via, ?MODULE, N} || N <- lists:seq(1, 40)]
        ++ [Pid, {via, ?MODULE, Pid}]}),
    %% It looks names up, or has just done so: what it is asked meanwhile it answers before the end.
    ok = hung(5),
    ?assertEqual(done, flame_prof:apply(fun() -> done end)),
    ?assertMatch(#{targets := #{explicit := 0}}, flame_prof:info()),
    eventually(fun() -> lists:keymember(Pid, 1, flame_prof:selected()) end).

hung(0) -> ok;
hung(N) ->
    eventually(fun() -> [] =/= [P || P <- processes(), {current_function, F} <- [
        process_info(P, current_function)], F =:= {?MODULE, hang, 0}] end),
    hung(N - 1).

whereis_name(Pid) when is_pid(Pid) -> Pid;
whereis_name(_) -> hang().

hang() -> receive never -> ok end.

%% ---- follow -----------------------------------------------------------------

spawned_processes_are_followed(Config) ->
    start(Config, #{}),
    Before = ours(fun wait/0),
    Root = ours(fun() ->
        1 = flame_prof:profile_start(#{follow => spawn}),
        receive
            go -> ours(fun() -> ours(fun wait/0), wait() end)
        end,
        wait()
    end),
    eventually(fun() -> count(explicit) =:= 1 end),
    Root ! go,
    eventually(fun() -> count(followed) =:= 2 end),
    ?assertMatch(#{following := polls}, targets()),
    eventually(fun() -> length(sampled_since(flushed(), 0)) >= 3 end),
    Sampled = sampled(Config),
    ?assertEqual(3, length(Sampled)),
    ?assert(lists:member(Root, Sampled)),
    ?assertNot(lists:member(Before, Sampled)).

children_of_the_chosen_are_followed(Config) ->
    Root = ours(fun Loop() ->
        receive
            go -> ours(fun wait/0), Loop()
        after 0 -> Loop()
        end
    end),
    true = register(?FUNCTION_NAME, Root),
    start(Config, #{
        select => #{top => 1, interval => 100, include => {registered_name, ?FUNCTION_NAME}},
        process_options => #{follow => spawn}
    }),
    eventually(fun() -> maps:get(selected, maps:get(counters, flame_prof:info())) =:= 1 end),
    %% One that is there at the first poll is not new.
    eventually(fun() ->
        Root ! go,
        count(followed) >= 1
    end).

receivers_are_followed(Config) ->
    start(Config, #{}),
    Last = ours(fun wait/0),
    Named = ours(fun() -> relay(Last) end),
    true = register(?FUNCTION_NAME, Named),
    First = ours(fun() -> 1 = flame_prof:profile_start(#{follow => send}),
        relay(?FUNCTION_NAME) end),
    Nobody = ours(fun() -> relay(Last) end),
    eventually(fun() -> count(explicit) =:= 1 end),
    First ! hello,
    %% The second may have sent before it was traced itself.
    eventually(fun() -> count(followed) >= 1 end),
    First ! hello,
    eventually(fun() -> count(followed) =:= 2 end),
    ?assertMatch(#{following := {traces, _}}, targets()),
    has_samples_of([First, Named, Last]),
    Sampled = sampled(Config),
    ?assertEqual(lists:sort([First, Named, Last]), Sampled),
    ?assertNot(lists:member(Nobody, Sampled)).

relay(To) ->
    receive
        hello -> To ! hello
    end,
    relay(To).

%% Polls have ended and begun again between the two.
children_from_before_are_not_followed(Config) ->
    start(Config, #{}),
    ?assertEqual(ok, flame_prof:apply(fun() -> ok end)),
    eventually(fun() -> maps:get(following, targets()) =:= off end),
    Test = self(),
    _ = ours(fun() ->
        Before = ours(fun wait/0),
        1 = flame_prof:profile_start(#{follow => spawn}),
        After = ours(fun wait/0),
        Test ! {children, Before, After},
        wait()
    end),
    receive
        {children, Before, After} -> ok
    end,
    has_samples_of([After]),
    ?assertNot(lists:member(Before, sampled(Config))).

%% Also where no poll is going to come.
who_has_left_is_forgotten(Config) ->
    start(Config, #{follow_limits => #{processes => 1}}),
    {ok, Targets} = flame_prof_session:targets(current),
    ok = come_and_go(none),
    Before = erts_debug:flat_size(sys:get_state(Targets)),
    ok = come_and_go(none),
    eventually(fun() -> erts_debug:flat_size(sys:get_state(Targets)) =:= Before end),
    _ = ours(fun() ->
        1 = flame_prof:profile_start(#{follow => spawn}),
        _ = [ours(fun wait/0) || _ <- lists:seq(1, 10)],
        wait()
    end),
    eventually(fun() -> maps:get(following, targets()) =:= {ended, processes} end),
    Ended = erts_debug:flat_size(sys:get_state(Targets)),
    ok = come_and_go(spawn),
    eventually(fun() -> erts_debug:flat_size(sys:get_state(Targets)) =:= Ended end).

come_and_go(Follow) ->
    Come = fun() -> flame_prof:apply(fun() -> ok end, #{follow => Follow}) end,
    Visitors = [spawn_monitor(Come) || _ <- lists:seq(1, 100)],
    [receive {'DOWN', Monitor, process, _, normal} -> ok end || {_, Monitor} <- Visitors],
    ok.

catching_ends_at_its_limit_of_processes(Config) ->
    start(Config, #{follow_limits => #{processes => 10}}),
    _ = ours(fun() ->
        1 = flame_prof:profile_start(#{follow => spawn}),
        _ = [ours(fun wait/0) || _ <- lists:seq(1, 50)],
        wait()
    end),
    eventually(fun() -> maps:get(following, targets()) =:= {ended, processes} end),
    ?assertEqual(10, count(followed)),
    eventually(fun() -> length(sampled_since(flushed(), 0)) >= 11 end),
    ?assertEqual(11, length(sampled(Config))).

%% What is known: it sends as often as it can. With the limit reached it is not
%% traced any more, whatever it does.
tracing_ends_at_its_limit_of_events(Config) ->
    start(Config, #{follow_limits => #{events => 1000, processes => 5}}),
    Sink = ours(fun Loop() -> receive _ -> Loop() end end),
    Root = ours(fun() ->
        1 = flame_prof:profile_start(#{follow => spawn_and_send}),
        storm(Sink)
    end),
    eventually(fun() -> is_ended(maps:get(following, targets())) end),
    eventually(fun() -> flags(Root) =:= [] end),
    ?assert(is_process_alive(Root)),
    ?assertMatch(#{state := running}, flame_prof:info()).

%% It is off until somebody has asked for it.
is_ended({ended, _}) -> true;
is_ended(_) -> false.

storm(Sink) ->
    Sink ! {some, message},
    _ = spawn(fun() -> Sink ! bye end),
    storm(Sink).

tracing_ends_at_its_limit_of_seconds(Config) ->
    start(Config, #{follow_limits => #{seconds => 1}}),
    Root = ours(fun() -> 1 = flame_prof:profile_start(#{follow => send}), wait() end),
    eventually(fun() -> maps:get(following, targets()) =:= {ended, seconds} end),
    eventually(fun() -> flags(Root) =:= [] end).

%% Theirs is a trace of the same process, of the same kind.
somebody_elses_trace_goes_on(Config) ->
    start(Config, #{follow_limits => #{seconds => 1}}),
    Sink = ours(fun Loop() -> receive _ -> Loop() end end),
    Root = ours(fun() ->
        receive
            profile -> 1 = flame_prof:profile_start(#{follow => send})
        end,
        relay(Sink)
    end),
    1 = erlang:trace(Root, true, [send]),
    Root ! profile,
    eventually(fun() -> count(explicit) =:= 1 end),
    Root ! hello,
    receive
        {trace, Root, send, hello, Sink} -> ok
    end,
    %% Where it may trace as well, until its limit.
    eventually(fun() -> maps:get(following, targets()) =:= {ended, seconds} end),
    {ok, _} = flame_prof:stop(),
    Root ! hello,
    receive
        {trace, Root, send, hello, Sink} -> ok
    end,
    ?assertEqual({tracer, self()}, erlang:trace_info(Root, tracer)),
    1 = erlang:trace(Root, false, [send]).

nothing_is_traced_after_the_session(Config) ->
    [
        begin
            start(Config, #{}),
            Root = ours(fun() ->
                1 = flame_prof:profile_start(#{follow => send}),
                relay(self())
            end),
            eventually(fun() -> count(explicit) =:= 1 end),
            End(),
            Root ! hello,
            eventually(fun() -> flags(Root) =:= [] end),
            eventually(fun() -> maps:get(state, flame_prof:info()) =:= stopped end)
        end
     || End <- [
            fun() -> {ok, _} = flame_prof:stop() end,
            fun() -> exit(whereis(flame_prof_session), kill) end
        ]
    ].

%% In the trace session of the node, and in all others where OTP has them.
flags(Pid) ->
    case erlang:trace_info(Pid, flags) of
        {flags, Flags} -> Flags ++ session_flags(Pid);
        undefined -> []
    end.

session_flags(Pid) ->
    Trace = trace,
    case code:ensure_loaded(Trace) of
        {module, Trace} -> [N || {N, _} <- listed(Trace:session_info(Pid)), N =:= flame_prof];
        {error, _} -> []
    end.

listed(undefined) -> [];
listed(Sessions) -> Sessions.

%% ---- rules -----------------------------------------------------------------

rules_choose_by_their_metric(Config) ->
    Self = self(),
    Big = ours(fun() ->
        Data = lists:seq(1, 3000000),
        Self ! ready,
        wait(),
        length(Data)
    end),
    Queue = ours(fun() -> receive no_such_message -> ok end end),
    [Queue ! N || N <- lists:seq(1, 20000)],
    Binaries = ours(fun() ->
        Kept = [binary:copy(<<N:8>>, 1000000) || N <- lists:seq(1, 60)],
        Self ! ready,
        wait(),
        length(Kept)
    end),
    [receive ready -> ok end || _ <- [Big, Binaries]],
    [
        begin
            start(Config, #{select => #{top => 1, by => By, interval => 100}}),
            has_samples_of([Pid]),
            ?assertEqual({By, [Pid]}, {By, sampled(Config)})
        end
     || {By, Pid} <- [
            {memory, Big},
            {total_heap_size, Big},
            {message_queue_len, Queue},
            {bin_vheap_size, Binaries}
        ]
    ].

a_rule_by_change_chooses_who_grows(Config) ->
    Full = ours(fun() -> receive no_such_message -> ok end end),
    [Full ! N || N <- lists:seq(1, 50000)],
    Growing = ours(fun() -> receive no_such_message -> ok end end),
    _ = ours(fun() -> feed(Growing) end),
    start(Config, #{select => #{top => 1, by => message_queue_len, delta => true,
        interval => 100}}),
    %% At first nothing is known, and all have grown from nothing.
    eventually(fun() ->
        Late = sampled_late(flushed()),
        lists:member(Growing, Late) andalso not lists:member(Full, Late)
    end),
    _ = stop().

%% Suspended, so that it does not run, and a dozen do more than it in each selection.
who_is_flooded_has_a_place_until_it_is_drained(Config) ->
    Flooded = ours(fun() -> drain() end),
    _ = busy(12),
    %% One that has grown keeps its place for twelve selections: long enough for a busy machine.
    start(Config, #{select => {top, 8, 500}}),
    selected_again(3),
    ?assertNot(is_selected(Flooded)),
    true = waiting:suspend(Flooded),
    [Flooded ! N || N <- lists:seq(1, 20000)],
    %% The one in hand may have passed it.
    selected_again(2),
    eventually(fun() -> is_selected(Flooded) end),
    %% Another process may grow, too, and one of the eight may have exited.
    ?assertMatch(#{growers := N} when N >= 1, counters()),
    selected_again(4),
    ?assert(is_selected(Flooded)),
    true = erlang:resume_process(Flooded),
    eventually(fun() -> not is_selected(Flooded) end),
    _ = stop().

whose_memory_grows_has_a_place(Config) ->
    Growing = ours(fun() -> collect([]) end),
    _ = busy(12),
    start(Config, #{select => {top, 8, 100}}),
    eventually(fun() -> is_selected(Growing) end),
    exit(Growing, kill),
    eventually(fun() -> not is_selected(Growing) end),
    _ = stop().

%% None grows into a list of rules, unless there are growers by name.
maps_select_what_they_say(Config) ->
    Flooded = ours(fun wait/0),
    _ = busy(12),
    Rules = [#{top => 8, interval => 500}],
    [Flooded ! N || N <- lists:seq(1, 20000)],
    start(Config, #{select => Rules}),
    selected_again(4),
    ?assertNot(is_selected(Flooded)),
    ?assertMatch(#{growers := 0}, counters()),
    _ = stop(),
    start(Config, #{select => Rules, growers => 2}),
    eventually(fun() -> is_selected(Flooded) end),
    _ = stop(),
    start(Config, #{select => {top, 8, 100}, growers => 0}),
    selected_again(4),
    ?assertNot(is_selected(Flooded)),
    ?assertMatch(#{growers := 0}, counters()),
    _ = stop().

drain() ->
    receive
        N when is_integer(N) -> drain()
    end.

%% A binary of 64 KiB each 2 ms: few reductions.
collect(Kept) ->
    timer:sleep(2),
    collect([binary:copy(<<0>>, 65536) | Kept]).

busy(N) ->
    [ours(fun Work() -> _ = lists:sum(lists:seq(1, 20000)), timer:sleep(1), Work() end)
        || _ <- lists:seq(1, N)].

is_selected(Pid) ->
    {ok, Targets} = flame_prof_session:targets(current),
    lists:member(Pid, flame_prof_targets:selected(Targets)).

counters() ->
    maps:get(counters, flame_prof:info()).

%% So many selections from now.
selected_again(N) ->
    #{selections := Before} = counters(),
    eventually(fun() -> maps:get(selections, counters()) >= Before + N end).

feed(To) ->
    To ! more,
    timer:sleep(2),
    feed(To).

filters_choose_who_takes_part(Config) ->
    Named = ours(fun wait/0),
    true = register(?FUNCTION_NAME, Named),
    Started = proc_lib:spawn(?MODULE, started_as, [self()]),
    [
        begin
            start(Config, #{select => Filter#{top => 100, interval => 100}}),
            has_samples_of(Expected),
            ticked(20),
            ?assertEqual({Filter, lists:sort(Expected)}, {Filter, sampled(Config)})
        end
     || {Filter, Expected} <- [
            {#{include => {registered_name, ?FUNCTION_NAME}}, [Named]},
            {#{include => {initial_call, {?MODULE, started_as, 1}}}, [Started]},
            {#{include => {initial_call, ?MODULE}}, [Started]},
            {#{include => [{module, ?MODULE}], exclude => {registered_name, ?FUNCTION_NAME}}, [
                Started | with_test_process()
            ]},
            {#{include => {application, no_such_application}}, []}
        ]
    ],
    start(Config, #{select => #{top => 100, interval => 100,
        include => {application, kernel}}}),
    has_samples_of([whereis(kernel_sup)]),
    Kernel = sampled(Config),
    ?assert(lists:member(whereis(kernel_sup), Kernel)),
    ?assertNot(lists:member(Named, Kernel)),
    ?assertNot(lists:member(whereis(init), Kernel)).

%% This suite's own: it sleeps in here.
with_test_process() ->
    [self()].

started_as(_) ->
    put(?MODULE, ours),
    wait().

several_rules_choose_together(Config) ->
    Named = ours(fun wait/0),
    true = register(?FUNCTION_NAME, Named),
    Queue = ours(fun() -> receive no_such_message -> ok end end),
    [Queue ! N || N <- lists:seq(1, 20000)],
    Always = ours(fun wait/0),
    start(Config, #{
        include => Always,
        select => [
            #{top => 1, by => message_queue_len, interval => 200},
            #{top => 1, by => memory, interval => 100, include => {registered_name, ?FUNCTION_NAME}}
        ]
    }),
    has_samples_of([Named, Queue, Always]),
    ?assertEqual(lists:sort([Named, Queue, Always]), sampled(Config)).

%% ---- life ------------------------------------------------------------------

a_session_is_given_up_that_does_not_start_in_time(Config) ->
    Options = #{engine => engine(Config), dir => directory(Config)},
    ?assertEqual({error, {timeout, #{ms => 0, request => start}}}, flame_prof:start(Options, 0)),
    eventually(fun() -> whereis(flame_prof_session) =:= undefined end),
    ?assertMatch({error, {badarg, #{argument := timeout}}}, flame_prof:start(Options, soon)),
    ?assertMatch({error, {badarg, #{argument := timeout}}}, flame_prof:start(Options, -1)),
    {ok, Pid} = flame_prof:start(Options, infinity),
    {ok, _} = flame_prof:stop(Pid).

a_linked_session_ends_with_its_starter(Config) ->
    Options = #{engine => engine(Config), dir => directory(Config)},
    {Starter, Monitor} = spawn_monitor(fun() ->
        {ok, _} = flame_prof:start_link(Options),
        {error, {already_started, _}} = flame_prof:start_link(Options),
        {error, {bad_option, #{option := sample_interval}}} =
            flame_prof:start_link(#{sample_interval => 0}),
        exit(normal)
    end),
    receive
        {'DOWN', Monitor, process, Starter, Reason} -> ?assertEqual(normal, Reason)
    end,
    eventually(fun() -> maps:get(state, flame_prof:info()) =:= stopped end),
    ?assertMatch(#{last_run := #{files := [_], pending := 0}}, flame_prof:info()).

only_the_named_session_is_stopped(Config) ->
    Pid = start(Config, #{}),
    ?assertEqual({error, {not_started, #{}}}, flame_prof:stop(self())),
    ?assertMatch(#{state := running}, flame_prof:info()),
    {ok, _} = flame_prof:stop(Pid),
    ?assertEqual({error, {not_started, #{}}}, flame_prof:stop(Pid)),
    _ = start(Config, #{}),
    {ok, _} = flame_prof:stop(flame_prof, 5000).

%% ---- tools -----------------------------------------------------------------

engine(Config) ->
    proplists:get_value(engine, Config).

directory(Config) ->
    proplists:get_value(directory, Config).

%% Nobody is chosen unless a test says so. All is in one file.
start(Config, Options) ->
    Default = #{
        select => {top, 0},
        engine => engine(Config),
        dir => directory(Config),
        flushes_per_file => infinity
    },
    {ok, Pid} = flame_prof:start(maps:merge(Default, Options)),
    Pid.

stop() ->
    {ok, Run} = flame_prof:stop(),
    #{attempted := Attempted, written := Written, inconsistent := Inconsistent, dropped := Dropped,
        exited := Exited} = Run,
    ?assertEqual(Attempted, Written + Inconsistent + Dropped + Exited),
    Run.

%% So many ticks from now.
ticked(N) ->
    #{counters := #{ticks := Before}} = flame_prof:info(),
    eventually(fun() -> maps:get(ticks, maps:get(counters, flame_prof:info())) >= Before + N end).

targets() ->
    maps:get(targets, flame_prof:info()).

count(Key) ->
    maps:get(Key, targets()).

%% Each of these at least, by now.
has_samples_of(Pids) ->
    eventually(fun() -> Pids -- sampled_since(flushed(), 0) =:= [] end).

%% The file as it grows, with all that has been sampled.
flushed() ->
    ok = flame_prof:flush(60000),
    lists:last(maps:get(files, flame_prof:info())).

%% Ends the session: whom its file has samples of.
sampled(_Config) ->
    #{files := [File], written := Written} = stop(),
    _ = [{ok, _} = perf_script_grammar:check(File) || Written > 0],
    sampled_since(File, 0).

%% In the last second of it.
sampled_late(File) ->
    {ok, Last, _} = reader_oracle:fold(fun(#{time_us := T}, _) -> T end, 0, File),
    sampled_since(File, Last - 1000000).

sampled_since(File, Since) ->
    Add = fun
        (#{time_us := T, words := #{<<"erl_pid">> := Pid}}, Pids)
            when T >= Since -> Pids#{Pid => []};
        (_, Pids) -> Pids
    end,
    {ok, Pids, _} = reader_oracle:fold(Add, #{}, File),
    lists:sort([list_to_pid(binary_to_list(Pid)) || Pid <- maps:keys(Pids)]).

%% Marked, so that it is killed in the end. It begins when it has its mark.
ours(Fun) ->
    Pid = spawn(fun() ->
        receive
            ?MODULE -> put(?MODULE, ours)
        end,
        Fun()
    end),
    Pid ! ?MODULE,
    Pid.

is_ours(Pid) ->
    case process_info(Pid, dictionary) of
        {dictionary, Dictionary} -> lists:member({?MODULE, ours}, Dictionary);
        undefined -> false
    end.

wait() ->
    receive
        stop -> ok
    end.

burn(N) ->
    ?MODULE:burn(N + 1).

