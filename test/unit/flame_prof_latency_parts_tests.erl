%% Sums of parts and their times: what they are, and that they are bounded.
-module(flame_prof_latency_parts_tests).

-include_lib("eunit/include/eunit.hrl").

parts_of_one_name_are_one_test() ->
    Key = {groups, 1, <<"shop">>},
    Sums = add([{Key, {3, 300, 30, 120}}, {Key, {1, 50, 5, 50}}, {{groups, 2, a}, {9, 9, 9, 9}}],
        [{Key, {100, 101, 2}}, {Key, {50, 51, 1}}, {Key, {100, 101, 1}}]),
    ?assertEqual([{<<"shop">>, {4, 350, 35, 120}, [{50, 51, 1}, {100, 101, 3}]}],
        flame_prof_latency_parts:of_function(groups, 1, Sums)),
    ?assertEqual([], flame_prof_latency_parts:of_function(callers, 1, Sums)).

names_beyond_the_most_are_others_with_their_times_test() ->
    Keys = [{callers, 1, {m, f, N}} || N <- lists:seq(1, 3000)],
    Sums = add([{Key, {1, 10, 10, 10}} || Key <- Keys], [{Key, {10, 11, 1}} || Key <- Keys]),
    Found = flame_prof_latency_parts:of_function(callers, 1, Sums),
    ?assertEqual(3000, lists:sum([Calls || {_, {Calls, _, _, _}, _} <- Found])),
    ?assertMatch([{other, {1000, _, _, _}, [{10, 11, 1000}]}], [F || {other, _, _} = F <- Found]).

times_beyond_the_most_are_counted_test() ->
    Keys = [{groups, 1, N} || N <- lists:seq(1, 100)],
    Times = [{Key, {Low, Low + 1, 2}} || Key <- Keys, Low <- lists:seq(1, 1500)],
    Sums = add([{Key, {3000, 10, 10, 10}} || Key <- Keys], Times),
    Missing = flame_prof_latency_parts:missing(groups, Sums),
    ?assertEqual(0, flame_prof_latency_parts:missing(callers, Sums)),
    %% Of 150,000 buckets a hundred thousand have room.
    ?assertEqual(100000, Missing),
    Kept = [N || {_, _, Buckets} <- flame_prof_latency_parts:of_function(groups, 1, Sums),
        {_, _, N} <- Buckets],
    ?assertEqual(300000, lists:sum(Kept) + Missing).

add(Parts, Times) -> flame_prof_latency_parts:add(Parts, Times, flame_prof_latency_parts:new()).
