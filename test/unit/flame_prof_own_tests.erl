%% What is flame_prof's own is left out of what looks tell of the program.
-module(flame_prof_own_tests).

-include_lib("eunit/include/eunit.hrl").

-import(made_samples, [judged/1, holder/2, worker/2, stack/2]).

with_application(Test) ->
    Loaded = application:load(flame_prof),
    try Test() after Loaded =:= ok andalso application:unload(flame_prof) end.

processes_are_known_by_name_and_by_first_call_test() ->
    with_application(fun() ->
        [?assert(flame_prof_own:is_own(Own)) || Own <- [#{registered_name => flame_prof_session},
            #{registered_name => <<"flame_prof_agent">>, initial_call => none},
            #{registered_name => flame_prof_cleanup, initial_call => {erlang, apply, 2}},
            #{registered_name => flame_prof_capture_probe},
            #{initial_call => {flame_prof_trace, init, 1}},
            #{registered_name => none, initial_call => {<<"proc_lib">>, <<"init_p">>, 5},
                proc_lib_initial_call => {<<"flame_prof_tracing">>, <<"init">>, 1}}]],
        [?assertNot(flame_prof_own:is_own(Other)) || Other <- [
            #{}, exited, #{registered_name => shop}, #{initial_call => {shop, init, 1}},
            %% The program's own, with a name that begins so.
            #{registered_name => flame_prof_of_the_shop},
            #{initial_call => {flame_profile, init, 1}},
            #{initial_call => {?MODULE, init, 0}}]]
    end).

%% Where flame_prof was lent there is no application, and the modules are not listed.
modules_of_a_node_without_the_application_are_known_by_their_letters_test() ->
    ok = applications:stop([flame_prof]),
    _ = application:unload(flame_prof),
    ?assertEqual(undefined, application:get_key(flame_prof, modules)),
    ?assert(flame_prof_own:is_module(flame_prof_agent)),
    ?assert(flame_prof_own:is_module(flame_prof)),
    [?assertNot(flame_prof_own:is_module(Other)) || Other <- [shop, flame_profile, ?MODULE,
        flame_prof_waits_SUITE]].

its_processes_with_names_are_found_test() ->
    true = register(flame_prof_cleanup, self()),
    try ?assert(lists:member(self(), flame_prof_own:pids()))
    after unregister(flame_prof_cleanup)
    end.

%% Each process that registers a name is listed: else waits and a session tell of it.
all_names_of_the_application_are_listed_test() ->
    with_application(fun() ->
        {ok, Names} = application:get_key(flame_prof, registered),
        ?assertEqual([], Names -- flame_prof_own:names())
    end).

%%% The doctor.

busy(Name, Frames) ->
    #{at := At} = Worker = worker(Name, [{running, 1.0}]),
    Stack = stack(Name, Frames),
    Worker#{at := fun(Us) -> (At(Us))#{stack := Stack} end}.

%% A process without a name that flame_prof starts for a moment was once told to load code.
a_process_in_code_of_flame_prof_is_no_finding_test() ->
    Judge = fun(Frames) ->
        [Kind || #{kind := Kind} <- judged([holder(idle, fun(_) -> #{} end), busy(helper, Frames)])]
    end,
    ?assertEqual([hot_function], Judge(["shop_files:learn/1:6"])),
    ?assertEqual([], Judge(["lists:map/2:9", "flame_prof_wait_learn:file/1:6"])).

%%% waits.

root(Name, Call) ->
    Pid = list_to_pid("<0.1.0>"),
    Edge = #{from => list_to_pid("<0.2.0>"), to => Pid, how => call, tag => unknown,
        ref => {1, 0, 0}, site => {gen, do_call, 4}},
    Part = #{engine => native, engine_reason => <<"native: made up">>, edges => [Edge],
        counts => #{processes => 9, idle => 0, unknown => 0}, unknown => #{}},
    Told = #{status => waiting, stack => [], message_queue_len => 0, memory => 1,
        registered_name => Name, initial_call => Call},
    Ask = fun(Requests) -> [{Node, case Request of
        {flame_prof_waits_part, part, _} -> {ok, {ok, Part}};
        {flame_prof_waits_part, told, _} -> {ok, #{Pid => Told}};
        {flame_prof_wait_learn, takes, _} -> {ok, #{}};
        {lists, map, _} -> {ok, []}
    end} || {Node, Request} <- Requests] end,
    {ok, #{roots := Roots}} = flame_prof_waits:look(#{}, Ask),
    length(Roots).

%% A trace that has ended keeps its processes for some seconds.
a_process_of_flame_prof_is_no_root_of_waits_test() ->
    with_application(fun() ->
        ?assertEqual(1, root(shop, {shop, init, 1})),
        ?assertEqual(0, root(shop, {flame_prof_trace, init, 1})),
        ?assertEqual(0, root(flame_prof_latency, {erlang, apply, 2}))
    end).

%%% trace.

events_of_its_processes_are_left_out_test() ->
    with_application(fun() ->
        Event = fun(I) -> {I, call, list_to_pid(lists:concat(["<0.", I, ".0>"])),
            {lists, seq, []}, [], []} end,
        Events = [Event(I) || I <- [1, 2, 3, 4]],
        Names = maps:from_list([{element(3, Event(I)), Name} || {I, Name} <- [
            {1, flame_prof_capture_probe}, {2, shop}, {3, {flame_prof_agent, init, 1}},
            {4, unknown}]]),
        ?assertEqual([2, 4], [I || {I, _, _, _, _, _} <-
            flame_prof_trace_events:of_program(Events, Names)])
    end).
