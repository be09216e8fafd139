%% A measurement of allocations: how it begins, what it answers, how it ends. How right its figures
%% are: test/proof/allocations_proof_SUITE.
-module(flame_prof_allocations_SUITE).

-include_lib("stdlib/include/assert.hrl").

-import(measured_allocations, [worked/1, worked/2, has/2, in_background/2, is_traced/1, runs/0,
    until/1, until/0, mixed/0]).

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, end_per_testcase/2,
    what_is_in_step_is_said_to_be/1, processes_are_told_with_their_words/1,
    words_are_told_by_the_message_in_work/1, why_no_message_is_known_is_said/1,
    a_collection_on_request_is_told_with_its_stack/1,
    one_that_the_library_refuses_closes_nothing_of_the_node/1,
    its_owner_ends_it_early_and_has_an_answer/1,
    a_process_of_another_tracer_is_left_alone_once/1, who_traces_new_processes_is_not_joined/1,
    what_is_not_accepted_is_refused/1, an_answer_is_text_and_json/1]).

suite() -> [{timetrap, {minutes, 2}}].
all() -> suite_cases:list(?MODULE, []).
init_per_suite(Config) -> native_node:or_skip(Config).
end_per_suite(_Config) -> ok.
end_per_testcase(_, _) -> flame_prof_tracing:stop_all().

%% Each round takes 120 words, and the heap has room for so many rounds each time.
in_step(Until) ->
    Lists = counted_allocations:conses(6, counted_allocations:tuples(10, [])),
    _ = counted_allocations:floats(4, Lists),
    case erlang:monotonic_time(millisecond) < Until of true -> in_step(Until); false -> ok end.

what_is_in_step_is_said_to_be(_) ->
    {Answer, [Worker]} = worked([{fun() -> in_step(until()) end, [{min_heap_size, 20000}]}]),
    ?assertMatch([{Worker, Words} | _] when Words > 0, maps:get(in_step, Answer)),
    Text = unicode:characters_to_list(flame_prof_allocations:format(Answer)),
    ?assertNotEqual(nomatch, string:find(Text, "may be in step: ")).

processes_are_told_with_their_words(_) ->
    {Answer, [Worker]} = worked([mixed()]),
    [{Worker, Words} | _] = maps:get(processes, Answer),
    ?assert(Words > 0),
    ?assertMatch(#{Worker := #{initial_call := {erlang, apply, 2}}}, maps:get(names, Answer)).

words_are_told_by_the_message_in_work(_) ->
    #{messages := Messages} = measured_allocations:of_messages(),
    [?assertMatch({_, Words} when Words > 0,
        lists:keyfind({call, {tuple, Tag, 2}}, 1, Messages)) || Tag <- [large, small]].

%% As after probes that have failed just now: the mark of flame_prof_wait_sites says so.
why_no_message_is_known_is_said(_) ->
    ok = flame_prof_looks:hold(),
    ok = flame_prof_wait_sites:ensure(),
    {Mark, _, _} = flame_prof_looks_nif:wait_sites(),
    Known = flame_prof_looks_nif:value(sites),
    <<_:4, Probed:30, _:30>> = <<Mark:64>>,
    <<Failed:64>> = <<0:4, 3:4, (erlang:monotonic_time(second)):26, Probed:30>>,
    ok = waits_work:set_sites([], Failed),
    {Answer, _} = try worked([mixed()]) after ok = flame_prof_looks_nif:value_take(Known) end,
    ?assertMatch(#{messages := [], messages_off := <<"the probes failed, ", _/binary>>}, Answer),
    ?assertMatch({_, _}, binary:match(iolist_to_binary(flame_prof_allocations:format(Answer)),
        <<"no message in work is known: the probes failed">>)),
    ?assertMatch({_, _}, binary:match(iolist_to_binary(flame_prof_json:encode(
        flame_prof_allocations_text:json(Answer))), <<"the probes failed">>)).

collecting(N) ->
    Kept = lists:seq(1, N),
    erlang:garbage_collect(),
    lists:sum(Kept).

a_collection_on_request_is_told_with_its_stack(_) ->
    {#{collections := #{major := Major, longest := Longest}}, [Worker]} =
        worked([{fun() -> collecting(1000000) end, []}], #{long_gc_us => 10}),
    ?assert(Major >= 1),
    Of = [C || #{process := P, stack := Stack} = C <- Longest, P =:= Worker,
        has(Stack, {?MODULE, collecting, 1})],
    ?assertMatch([#{microseconds := Us} | _] when Us >= 10, Of).

one_that_the_library_refuses_closes_nothing_of_the_node(_) ->
    {ok, Input} = file:read_link("/proc/self/fd/0"),
    None = #{events => 0, events_per_second => 0, cpu_ns_per_second => 0, seconds => 0},
    ?assertMatch({error, _}, flame_prof_looks_nif:tracer_open(allocations, None, #{})),
    ?assertEqual({ok, Input}, file:read_link("/proc/self/fd/0")).

its_owner_ends_it_early_and_has_an_answer(_) ->
    Pid = in_background(3600000, #{owner => self()}),
    until(fun measured_allocations:runs/0),
    ok = flame_prof_allocations:finish(Pid),
    ?assert(runs()),
    ok = flame_prof_allocations:finish(self()),
    receive {Pid, Answer} -> ?assertMatch({ok, #{ended := asked}}, Answer) end,
    ?assertEqual(#{}, flame_prof_tracing:info()).

%% The worker; and its tracer, which without trace sessions cannot be traced.
is_left_alone(#{lost := #{left_alone := Left}}) -> ?assert(lists:member(Left, [1, 2]), Left).

%% It takes turns, and is taken between two of them: each second the library tries again.
a_process_of_another_tracer_is_left_alone_once(_) ->
    Worker = spawn_link(fun() -> in_step(counted_allocations:until(60000)) end),
    Pid = in_background(3600000, #{owner => self(), max_cpu_percent => infinity}),
    until(fun() -> is_traced(Worker) end),
    until(fun() -> not is_traced(Worker) andalso
        1 =:= erlang:trace(Worker, true, [garbage_collection]) end),
    until(fun() -> maps:get(left_alone, flame_prof_tracing:info()) > 0 end),
    ok = flame_prof_allocations:finish(self()),
    receive {Pid, {ok, Answer}} -> is_left_alone(Answer) end,
    true = unlink(Worker),
    true = exit(Worker, kill),
    flush().

%% With trace sessions two would trace the same; before them there is one tracer a process.
who_traces_new_processes_is_not_joined(_) ->
    0 = erlang:trace(new_processes, true, [garbage_collection]),
    Answer = flame_prof_allocations:measure(10, #{}),
    0 = erlang:trace(new_processes, false, [garbage_collection]),
    flush(),
    case code:ensure_loaded(trace) of
        {module, trace} ->
            {error, Why} = Answer,
            Text = unicode:characters_to_list(flame_prof_error:format(Why)),
            ?assertNotEqual(nomatch, string:find(Text, "the collections of new processes"));
        _ -> ?assertMatch({ok, _}, Answer)
    end.

flush() ->
    receive {trace, _, _, _} -> flush() after 0 -> ok end.

what_is_not_accepted_is_refused(_) ->
    ?assertMatch({error, {badarg, #{argument := milliseconds}}},
        flame_prof_allocations:measure(0, #{})),
    ?assertMatch({error, {bad_option, #{option := bytes}}},
        flame_prof_allocations:measure(10, #{bytes => 1})),
    ?assertMatch({error, {bad_option, #{option := owner}}},
        flame_prof_allocations:measure(10, #{owner => me})),
    ?assertMatch({error, {bad_option, _}}, flame_prof_allocations:measure(10, #{byte => 1})).

an_answer_is_text_and_json(_) ->
    {Answer, _} = worked([mixed()]),
    Text = unicode:characters_to_list(flame_prof_allocations:format(Answer)),
    ?assertNotEqual(nomatch, string:find(Text, "counted_allocations:tuples/2")),
    Json = iolist_to_binary(flame_prof_json:encode(flame_prof_allocations_text:json(Answer))),
    ?assertMatch({_, _}, binary:match(Json, <<"\"words\":">>)),
    Collapsed = unicode:characters_to_list(flame_prof_allocations_text:collapsed(Answer)),
    Lines = string:lexemes(Collapsed, "\n"),
    ?assertEqual(length(maps:get(stacks, Answer)), length(Lines)),
    ?assertMatch({match, _}, re:run(hd(Lines), "^[^ ]+;[^ ]+ [0-9]+$")).
