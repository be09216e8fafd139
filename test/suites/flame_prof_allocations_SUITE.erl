%% Who allocates, against programs that count what they allocate: test/support/counted_allocations.
-module(flame_prof_allocations_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, end_per_testcase/2]).
-export([
    shares_and_sum_of_one_process/1,
    shares_and_sum_of_many_processes/1,
    shares_and_sum_of_a_thousand_processes/1,
    a_part_of_a_thousand_processes_is_traced_at_a_time/1,
    shares_and_sum_of_brief_processes/1,
    of_many_births_a_part_has_the_flag/1,
    shares_and_sum_of_large_heaps/1,
    shares_and_sum_of_small_terms_of_bifs/1,
    large_terms_of_bifs_are_told_apart/1,
    shares_and_sum_of_messages/1,
    what_is_in_step_is_said_to_be/1,
    what_is_kept_survives/1,
    processes_are_told_with_their_words/1,
    words_are_told_by_the_message_in_work/1,
    a_collection_on_request_is_told_with_its_stack/1,
    collections_have_lengths_and_causes/1,
    a_second_one_is_refused/1,
    one_that_the_library_refuses_closes_nothing_of_the_node/1,
    it_ends_with_its_owner/1,
    its_owner_ends_it_early_and_has_an_answer/1,
    a_limit_ends_it_and_is_named/1,
    another_tracer_goes_on/1,
    a_process_of_another_tracer_is_left_alone_once/1,
    who_traces_new_processes_is_not_joined/1,
    nothing_is_traced_afterwards/1,
    what_is_not_accepted_is_refused/1,
    an_answer_is_text_and_json/1
]).
-define(BYTES, 16384).
-define(WORK_MS, 4000).
%% Of 5,000 samples or more: four standard errors, and what stands beside a program.
-define(POINTS, 3.0).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [F || {F, 1} <- ?MODULE:module_info(exports), not lists:member(F, [init_per_suite,
        end_per_suite, module_info])].

init_per_suite(Config) ->
    case native_node:why_not() of
        none -> Config;
        Why -> {skip, Why}
    end.

end_per_suite(_Config) ->
    ok.

end_per_testcase(_, _) ->
    flame_prof_tracing:stop_all().

%%% ------------------------------------------------------------------- truth --

%% They work when the tracing runs, and wait when it ends. Once more where the machine has not run
%% the process that watches over it for a second.
measured(Name) ->
    measured(Name, #{}).

measured(Name, Options) ->
    Program = counted_allocations:start(Name, ?WORK_MS),
    Answer = run(fun() -> counted_allocations:go(Program) end, Options),
    ok = counted_allocations:stop(Program),
    case Answer of
        #{ended := {limit, heartbeat}} -> measured(Name, Options);
        _ -> {Answer, Program}
    end.

run(Go, Options) ->
    Starter = counted_allocations:when_traced(Go),
    {ok, Answer} = flame_prof_allocations:measure(?WORK_MS + 2000,
        maps:merge(#{bytes => ?BYTES, max_cpu_percent => infinity, heartbeat_ms => 60000}, Options)),
    unlink(Starter),
    Answer.

%% Percent of the words whose stack has this function.
share(#{stacks := Stacks}, {M, F, A}) ->
    All = lists:sum([Words || {_, Words} <- Stacks]),
    Of = [Words || {Stack, Words} <- Stacks, has(Stack, {M, F, A})],
    100 * lists:sum(Of) / All.

has(Stack, {M, F, A}) ->
    lists:any(fun({M1, F1, A1, _}) -> {M1, F1, A1} =:= {M, F, A}; (_) -> false end, Stack).

compare(Answer, Program) ->
    All = counted_allocations:all(Program),
    #{words := Words, samples := Samples} = Answer,
    Counts = counted_allocations:counts(Program),
    Shares = [{F, 100 * N / All, share(Answer, F)} || {F, N} <- Counts],
    ct:pal("~p samples, ~p looks, ~p us; words ~.4f of the right ones~n~p~nlost ~p",
        [Samples, maps:get(looks, Answer), maps:get(look_ns, Answer) div 1000,
            Words / All, Shares, maps:get(lost, Answer)]),
    ?assertEqual(asked, maps:get(ended, Answer)),
    ?assert(Samples >= 50),
    Errors = 4 * maps:get(words_error, Answer) / All,
    %% Of a busy machine: the heartbeat was late, and collections were not seen.
    #{collections := #{minor := Minor, major := Major}, lost := #{events := Late}} = Answer,
    Unseen = Late / (Late + 2 * (Minor + Major)),
    ?assert(Words / All - 1 < 0.01 + Errors),
    ?assert(Words / All - 1 > -0.01 - Errors - 2 * Unseen),
    Slack = ?POINTS * math:sqrt(max(1.0, 5000 / Samples)),
    [?assert(abs(Right - Told) < Slack, {F, Right, Told, Slack}) || {F, Right, Told} <- Shares].

%% The slack is of samples that weigh the same. Those of few looks do not, on a busy machine, and
%% chance is larger. What is wrong is wrong each time.
compared(Name) -> compared(Name, #{}).

compared(Name, Options) -> compared(Name, Options, 2).

compared(Name, Options, Left) ->
    {Answer, Program} = measured(Name, Options),
    try compare(Answer, Program) of
        _ -> {Answer, Program}
    catch
        error:{assert, _} when Left > 0 -> compared(Name, Options, Left - 1)
    end.

shares_and_sum_of_one_process(_) ->
    {Answer, Program} = compared(one_process),
    [Worker] = counted_allocations:pids(Program),
    ?assertEqual([], [P || {P, _} <- maps:get(in_step, Answer), P =:= Worker]).

shares_and_sum_of_many_processes(_) ->
    compared(many_processes).

shares_and_sum_of_a_thousand_processes(_) ->
    compared(thousand_processes).

%% All of them have been, in the end. Each look takes a moment in which some have come, and those
%% that leave are not yet gone.
a_part_of_a_thousand_processes_is_traced_at_a_time(_) ->
    Program = counted_allocations:start(thousand_processes, 20000),
    ok = counted_allocations:go(Program),
    Pid = in_background(60000, #{owner => self(), max_cpu_percent => infinity}),
    until(fun runs/0),
    Pids = counted_allocations:pids(Program),
    Counts = seen_traced(Pids, Pids, []),
    ct:pal("traced at a time: ~w", [Counts]),
    Median = lists:nth(length(Counts) div 2 + 1, lists:sort(Counts)),
    ?assert(Median > 50, Median),
    ?assert(Median < 400, Median),
    ok = flame_prof_allocations:finish(self()),
    receive {Pid, {ok, #{ended := asked}}} -> ok end,
    ?assertEqual([], [P || P <- Pids, is_traced(P)]),
    ok = counted_allocations:stop(Program).

%% How many are, until each has been.
seen_traced(_, [], Counts) ->
    Counts;
seen_traced(Pids, Missing, Counts) ->
    Traced = [P || P <- Pids, is_traced(P)],
    timer:sleep(100),
    seen_traced(Pids, Missing -- Traced, [length(Traced) | Counts]).

%% Each of its processes has 20 or 30 collections: smaller samples would tell no more.
shares_and_sum_of_brief_processes(_) ->
    compared(brief_processes, #{bytes => 2097152}).

%% The flag of new processes comes and goes, and stays when there are few births.
of_many_births_a_part_has_the_flag(_) ->
    Program = counted_allocations:start(brief_processes, 6000),
    Pid = in_background(60000, #{owner => self(), max_cpu_percent => infinity}),
    until(fun runs/0),
    ok = counted_allocations:go(Program),
    timer:sleep(2500),
    HasSessions = code:ensure_loaded(trace) =:= {module, trace},
    HasFlag = fun() -> timer:sleep(7), is_traced(new_processes, HasSessions) end,
    On = length([on || _ <- lists:seq(1, 300), HasFlag()]),
    ct:pal("~b of 300", [On]),
    ?assert(On > 0 andalso On < 100, On),
    timer:sleep(4000),
    ?assertEqual([], [off || _ <- lists:seq(1, 50), not HasFlag()]),
    ok = flame_prof_allocations:finish(self()),
    receive {Pid, {ok, _}} -> ok end,
    ok = counted_allocations:stop(Program).

is_traced(Pid) ->
    is_traced(Pid, code:ensure_loaded(trace) =:= {module, trace}).

is_traced(Pid, true) ->
    Trace = trace,
    Trace:session_info(Pid) =/= [];
is_traced(Pid, false) ->
    erlang:trace_info(Pid, flags) =/= {flags, []}.

shares_and_sum_of_large_heaps(_) ->
    {Answer, _} = compared(large_heap, #{bytes => 1024}),
    ?assertMatch(#{collections := #{minor := N}} when N > 0, Answer).

shares_and_sum_of_small_terms_of_bifs(_) ->
    compared(small_terms_of_bifs).

shares_and_sum_of_messages(_) ->
    compared(messages).

large_terms_of_bifs_are_told_apart(_) ->
    {#{stacks := Stacks} = Answer, Program} = measured(large_terms_of_bifs),
    compare(Answer, Program),
    Fragments = lists:sum([Words || {[fragments | _], Words} <- Stacks]),
    ?assert(Fragments > 0.1 * lists:sum([Words || {_, Words} <- Stacks])).

%%% ------------------------------------------------------------------ others --

worked(Works) ->
    worked(Works, #{}).

worked(Works, Options) ->
    Pids = [counted_allocations:worker(Work, Heap) || {Work, Heap} <- Works],
    Answer = run(fun() -> [Pid ! go || Pid <- Pids] end, Options),
    [Pid ! stop || Pid <- Pids],
    case Answer of
        #{ended := {limit, heartbeat}} -> worked(Works, Options);
        _ -> {Answer, Pids}
    end.

until() -> counted_allocations:until(?WORK_MS).

mixed() ->
    {fun() -> counted_allocations:mixed(counters:new(4, []), ?WORK_MS) end,
        [{min_heap_size, 20000}]}.

%% Each round takes 120 words, and the heap has room for so many rounds each time.
in_step(Until) ->
    Lists = counted_allocations:conses(6, counted_allocations:tuples(10, [])),
    _ = counted_allocations:floats(4, Lists),
    case erlang:monotonic_time(millisecond) < Until of
        true -> in_step(Until);
        false -> ok
    end.

what_is_in_step_is_said_to_be(_) ->
    {Answer, [Worker]} = worked([{fun() -> in_step(until()) end, [{min_heap_size, 20000}]}]),
    ?assertMatch([{Worker, Words} | _] when Words > 0, maps:get(in_step, Answer)),
    Text = unicode:characters_to_list(flame_prof_allocations:format(Answer)),
    ?assertNotEqual(nomatch, string:find(Text, "may be in step: ")).

%% Until the end: the worker's result.
keeping(500, Kept) -> Kept;
keeping(N, Kept) -> keeping(N + 1, [counted_allocations:tuples(1000, []) | Kept]).

what_is_kept_survives(_) ->
    {Answer, _} = worked([{fun() -> keeping(0, []) end, []}, mixed()]),
    Kept = survived(Answer, {?MODULE, keeping, 2}),
    Garbage = survived(Answer, {counted_allocations, mixed, 7}),
    ct:pal("kept ~p, garbage ~p", [Kept, Garbage]),
    ?assert(Kept > 80.0),
    ?assert(Garbage < 10.0).

survived(#{survived := Survived}, Function) ->
    Of = [{Words, All} || {Stack, Words, All} <- Survived, has(Stack, Function)],
    100 * lists:sum([Words || {Words, _} <- Of]) / lists:sum([All || {_, All} <- Of]).

processes_are_told_with_their_words(_) ->
    {Answer, [Worker]} = worked([mixed()]),
    [{Worker, Words} | _] = maps:get(processes, Answer),
    ?assert(Words > 0.9 * lists:sum([N || {_, N} <- maps:get(stacks, Answer)])),
    ?assertMatch(#{Worker := #{initial_call := {erlang, apply, 2}}}, maps:get(names, Answer)).

%% The server makes three times as much for a `large' as for a `small' one, and nothing else.
words_are_told_by_the_message_in_work(_) ->
    {Server, Caller} = making_server:busy(),
    {ok, Answer} = flame_prof_allocations:measure(?WORK_MS, #{bytes => ?BYTES,
        max_cpu_percent => infinity}),
    true = unlink(Caller),
    true = exit(Caller, kill),
    #{messages := Messages, processes := Processes} = Answer,
    Large = proplists:get_value({call, {tuple, large, 2}}, Messages, 0),
    Small = proplists:get_value({call, {tuple, small, 2}}, Messages, 0),
    ?assert(abs(Large / (Large + Small) - 0.75) < ?POINTS / 50),
    ?assert(Large + Small > 0.8 * proplists:get_value(Server, Processes)).

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

%% Of one whose end was not seen, or which failed without a look, the sums know more or less than
%% the lengths.
collections_have_lengths_and_causes(_) ->
    {#{collections := Collections}, [Worker]} = worked([mixed()]),
    #{minor := Minor, major := Major, lengths := Lengths, causes := Causes} = Collections,
    #{longest_microseconds := LongestUs, milliseconds := Ms} = Collections,
    #{minor := #{count := MinorCount}, major := #{count := MajorCount}} = Lengths,
    SumNs = lists:sum([Sum || #{sum_ns := Sum} <- maps:values(Lengths)]),
    ct:pal("~b of ~b, ~b of ~b, ~b us of ~b ms, ~p", [MinorCount, Minor, MajorCount, Major,
        SumNs div 1000, Ms, Causes]),
    ?assert(Minor > 1000),
    ?assertMatch(#{heap := N} when N > 0, Causes),
    ?assert(abs(lists:sum(maps:values(Causes)) - Minor - Major) =< 10 + 0.1 * Minor),
    ?assert(abs(MinorCount - Minor) =< 10 + 0.1 * Minor),
    ?assert(abs(MajorCount - Major) =< 10 + 0.1 * Major),
    ?assert(abs(SumNs div 1000000 - Ms) =< 2 + 0.1 * Ms),
    MaxNs = lists:max([Max || #{max_ns := Max} <- maps:values(Lengths)]),
    ?assert(MaxNs div 1000 =< LongestUs),
    [#{process := Worker} = First | _] = Processes = maps:get(processes, Collections),
    ?assert(maps:get(minor, First) > MinorCount div 2),
    ?assert(lists:sum([N || #{minor := N} <- Processes]) =< MinorCount),
    ?assert(lists:sum([Us || #{microseconds := Us} <- Processes]) =< SumNs div 1000),
    ?assert(maps:get(longest_microseconds, First) =< MaxNs div 1000).

in_background(Ms, Options) ->
    Self = self(),
    spawn(fun() -> Self ! {self(), flame_prof_allocations:measure(Ms, Options)} end).

until(Fun) ->
    case Fun() of
        true -> ok;
        false -> timer:sleep(5), until(Fun)
    end.

runs() -> map_size(flame_prof_tracing:info()) > 0.

a_second_one_is_refused(_) ->
    Pid = in_background(2000, #{}),
    until(fun runs/0),
    {error, Reason} = flame_prof_allocations:measure(100, #{}),
    Text = unicode:characters_to_list(flame_prof:format_error(Reason)),
    ?assertNotEqual(nomatch, string:find(Text, "allocations")),
    receive {Pid, Answer} -> ?assertMatch({ok, _}, Answer) end.

one_that_the_library_refuses_closes_nothing_of_the_node(_) ->
    {ok, Input} = file:read_link("/proc/self/fd/0"),
    None = #{events => 0, events_per_second => 0, cpu_ns_per_second => 0, seconds => 0},
    ?assertMatch({error, _}, flame_prof_nif:tracer_open(allocations, None, #{})),
    ?assertEqual({ok, Input}, file:read_link("/proc/self/fd/0")).

it_ends_with_its_owner(_) ->
    Owner = spawn(fun() -> receive never -> ok end end),
    Pid = in_background(60000, #{owner => Owner}),
    until(fun runs/0),
    exit(Owner, kill),
    until(fun() -> not runs() end),
    receive {Pid, Answer} -> ?assertMatch({error, _}, Answer) end.

its_owner_ends_it_early_and_has_an_answer(_) ->
    Pid = in_background(3600000, #{owner => self()}),
    until(fun runs/0),
    ok = flame_prof_allocations:finish(Pid),
    ?assert(runs()),
    ok = flame_prof_allocations:finish(self()),
    receive {Pid, Answer} -> ?assertMatch({ok, #{ended := asked}}, Answer) end,
    ?assertEqual(#{}, flame_prof_tracing:info()).

a_limit_ends_it_and_is_named(_) ->
    {#{ended := Ended} = Answer, _} =
        worked([{fun() -> in_step(until()) end, []}], #{max_cpu_percent => 0.01}),
    ?assertEqual({limit, max_cpu_percent}, Ended),
    ?assert(maps:get(milliseconds, Answer) < ?WORK_MS + 2000),
    Text = unicode:characters_to_list(flame_prof_allocations:format(Answer)),
    ?assertNotEqual(nomatch, string:find(Text, "ended early: its limit max_cpu_percent")).

another_tracer_goes_on(_) ->
    Work = fun() -> counted_allocations:mixed(counters:new(4, []), ?WORK_MS) end,
    Worker = counted_allocations:worker(Work, []),
    1 = erlang:trace(Worker, true, [garbage_collection]),
    Answer = run(fun() -> Worker ! go end, #{}),
    is_left_alone(Answer),
    {flags, Flags} = erlang:trace_info(Worker, flags),
    ?assertEqual([garbage_collection], Flags),
    receive {trace, Worker, _, _} -> ok after 0 -> error(no_event) end,
    flush().

%% The worker; and its tracer, which without trace sessions cannot be traced.
is_left_alone(#{lost := #{left_alone := Left}}) ->
    ?assert(lists:member(Left, [1, 2]), Left).

%% It takes turns, and is taken between two of them: each second the library tries again.
a_process_of_another_tracer_is_left_alone_once(_) ->
    Worker = spawn_link(fun() -> in_step(counted_allocations:until(60000)) end),
    Pid = in_background(6000, #{max_cpu_percent => infinity}),
    until(fun() -> is_traced(Worker) end),
    ok = taken(Worker),
    receive {Pid, {ok, Answer}} -> is_left_alone(Answer) end,
    true = unlink(Worker),
    true = exit(Worker, kill),
    flush().

taken(Worker) ->
    case is_traced(Worker) of
        false -> 1 = erlang:trace(Worker, true, [garbage_collection]), ok;
        true -> timer:sleep(1), taken(Worker)
    end.

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
        _ ->
            ?assertMatch({ok, _}, Answer)
    end.

flush() ->
    receive {trace, _, _, _} -> flush() after 0 -> ok end.

nothing_is_traced_afterwards(_) ->
    {ok, _} = flame_prof_allocations:measure(100, #{}),
    ?assertEqual(#{}, flame_prof_tracing:info()),
    ?assertEqual([], [P || P <- processes(), {flags, [_ | _]} <- [erlang:trace_info(P, flags)]]),
    ?assertEqual({flags, []}, erlang:trace_info(new_processes, flags)).

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
    Json = iolist_to_binary(
        flame_prof_json:encode(flame_prof_allocations_text:json(Answer))),
    ?assertMatch({_, _}, binary:match(Json, <<"\"words\":">>)),
    Collapsed = unicode:characters_to_list(flame_prof_allocations_text:collapsed(Answer)),
    Lines = string:lexemes(Collapsed, "\n"),
    ?assertEqual(length(maps:get(stacks, Answer)), length(Lines)),
    ?assertMatch({match, _}, re:run(hd(Lines), "^[^ ]+;[^ ]+ [0-9]+$")).
