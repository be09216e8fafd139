%% Collections added up: what comes first, what is bounded, and who may be in step.
-module(flame_prof_allocations_sum_tests).

-include_lib("eunit/include/eunit.hrl").

-define(WORK, {shop, work, 1, 7}).
-define(OTHER, {till, pay, 2, 9}).

p(N) -> list_to_pid("<0." ++ integer_to_list(N) ++ ".0>").

%% A collection of 10 of 1,000 words, of which half survived.
record(More) ->
    #{pid := Pid, cause := Cause, window := Window, weight := Weight, survived := Survived,
        ns := Ns, stack := Stack, tag := Tag} = maps:merge(#{pid => p(1), cause => heap,
            window => 1000, weight => 10, survived => 500, ns => none, stack => [?WORK],
            tag => none}, More),
    {Pid, minor, Cause, Window, Weight, Survived, 77, case Ns of none -> 0; _ -> Ns end,
        Ns =/= none, Stack, Tag}.

answer(Records) -> answer(Records, #{}).
answer(Records, Counters) ->
    Sum = flame_prof_allocations_sum:new(100),
    flame_prof_allocations_sum:answer(30,
        flame_prof_allocations_sum:add([record(R) || R <- Records], Counters, Sum)).

stacks_processes_and_messages_have_the_most_words_first_test() ->
    Tag = {tuple, get, 2},
    Records = [#{tag => Tag}, #{tag => {atom, stop}, weight => 20, pid => p(2), stack => [?OTHER]},
        #{tag => Tag, weight => 5}, #{weight => 1, tag => {atom, ok}, pid => p(3), stack => [z]},
        #{weight => 0, tag => {atom, none}, pid => p(4)}],
    ?assertMatch(#{stacks := [{[?OTHER], 20}, {[?WORK], 15}, {[z], 1}],
        processes := [{_, 20}, {_, 15}, {_, 1}],
        messages := [{{atom, stop}, 20}, {Tag, 15}, {{atom, ok}, 1}]}, answer(Records)).

what_survives_is_the_windows_share_of_the_words_test() ->
    ?assertMatch(#{survived := [{[?WORK], 8, 15}]}, answer([#{}, #{weight => 5, survived => 600}])),
    [?assertMatch(#{survived := []}, answer([Unknown]))
        || Unknown <- [#{survived => unknown}, #{window => unknown}, #{window => 0}]].

who_made_a_fragment_is_a_frame_test() ->
    ?assertMatch(#{stacks := [{[fragments, ?WORK], 10}]}, answer([#{cause => fragments}])).

the_twenty_longest_collections_are_kept_test() ->
    #{collections := #{longest := Longest}} =
        answer([#{ns => 1000 * N, weight => N rem 2} || N <- lists:seq(1, 25)]),
    ?assertEqual(lists:seq(25, 6, -1), [Us || #{microseconds := Us} <- Longest]),
    ?assertMatch([#{process := _, kind := minor, cause := heap, words := 77, stack := [?WORK]} | _],
        Longest).

%% Open windows were 100 words, and are 30.
counters_are_those_of_the_tracer_test() ->
    ?assertMatch(#{words := 930, words_error := 9, share := 2, samples := 7, looks := 3,
        look_ns := 4,
        collections := #{minor := 8, major := 5, milliseconds := 6, longest_microseconds := 2,
            longest := [], causes := Causes},
        lost := #{dropped_words := 11, unreadable := 12, other_stacks_words := 0}}
            when map_size(Causes) =:= 2 andalso map_get(heap, Causes) =:= 1
                andalso map_get(unknown, Causes) =:= 2,
        answer([], #{share => 2, words => 1000.4, variance => 81.0, samples => 9, dropped => 2,
            minor => 10, failed => 2, major => 5, collection_ns => 6999999, longest_ns => 2999,
            by_heap => 1,
            by_binaries => 0, by_unknown => 2, dropped_words => 11, unreadable => 12, looks => 3,
            look_ns => 4})),
    ?assertMatch(#{words := 0, words_error := 0, share := 1},
        answer([], #{words => 60, variance => -1.0})).

stacks_and_messages_beyond_the_most_are_left_out_and_their_words_counted_test() ->
    #{stacks := Stacks, messages := Messages, lost := #{other_stacks_words := Words}} =
        answer([#{stack => [{shop, work, 1, N rem 20005}], tag => {atom, N rem 10003}}
            || N <- lists:seq(0, 20010)]),
    ?assertEqual({20000, 10000, 50}, {length(Stacks), length(Messages), Words}).

%% Samples of each size of window, and whether a process with them is in step.
in_step_test_() ->
    Of = fun(Counts) -> [#{window => Size, stack => [?OTHER]}
        || {Size, N} <- lists:zip(lists:seq(1, length(Counts)), Counts), _ <- lists:seq(1, N)] end,
    [{lists:flatten(io_lib:format("~w", [Counts])),
        ?_assertEqual([{p(1), 10 * lists:sum(Counts)} || Is], in_step(Of(Counts)))}
     || {Counts, Is} <- [{[20], true}, {[10, 10], true}, {[3, 3, 3, 3, 3, 3, 3, 3], false},
            {lists:duplicate(20, 1), false},
            %% As if of 8 sizes: 8 * 504 is 64 * 63; and of a few less.
            {[13, 3, 9, 7, 9, 7, 9, 7], false}, {[13, 3, 9, 7, 9, 7, 10, 6], true},
            %% Of 64 sizes each is counted.
            {lists:duplicate(63, 1) ++ [100], true}]].

sizes_beyond_the_most_are_not_counted_test() ->
    ?assertEqual([], in_step([#{window => min(N, 65), stack => [?OTHER]}
        || N <- lists:seq(1, 165)])).

in_step(Records) -> maps:get(in_step, answer(Records)).

%% Each has fewer than twenty: those who begin in one function are a group.
processes_with_few_samples_are_judged_by_their_first_function_test() ->
    Loop = [{gen_server, loop, 7, 0}, {proc_lib, init_p, 5, 0}],
    Of = fun(N, Stack) -> [#{pid => p(I), stack => Stack} || I <- lists:seq(1, N)] end,
    ?assertEqual([], in_step(Of(19, [?OTHER, ?WORK | Loop]))),
    ?assertEqual([{?WORK, 200}], in_step(Of(20, [?OTHER, ?WORK | Loop]))),
    ?assertEqual([{{proc_lib, init_p, 5, 0}, 200}], in_step(Of(20, Loop))),
    ?assertEqual([], in_step(Of(19, [?WORK]) ++ [#{pid => p(20), stack => [?OTHER]}])),
    %% The most words first.
    Groups = [{?OTHER, 20}, {?WORK, 22}, {z, 21}],
    ?assertEqual([{?WORK, 220}, {z, 210}, {?OTHER, 200}], in_step(lists:append([
        [#{pid => p(100 * At + I), stack => [First]} || I <- lists:seq(1, N)]
        || {At, {First, N}} <- lists:enumerate(Groups)]))).
