%% What only grows, by a few numbers in a row: each refusal beside what is still growth.
-module(flame_prof_doctor_series_tests).

-include_lib("eunit/include/eunit.hrl").

-define(S, 1000000).
%% Not at the begin of all time.
-define(BEGIN, 1000000 * ?S).

%% One each second; `none' is a second without one.
series(Values) -> [{At, V, V + 1, V} || {At, V} <- timed(Values)].

timed(Values) ->
    [{?BEGIN + N * ?S, V} || {N, V} <- lists:zip(lists:seq(0, length(Values) - 1), Values),
        V =/= none].

ends(none) -> none;
ends(#{from := From, to := To}) -> {From, To}.

growing_test_() ->
    [{lists:flatten(io_lib:format("~w in ~b", [Values, Steps])),
        ?_assertEqual(Expected, ends(flame_prof_doctor_series:growing(timed(Values), Steps)))}
     || {Values, Steps, Expected} <- [{[0, 25, 50, 75, 100], 4, {0, 100}},
        {[0, 25, 50, 75, 100], 5, {0, 100}},
        {[0, 0, 50, 75, 100], 4, none},
        {[0, 0, 50, 75, 100], 3, {0, 100}},
        %% A step is more than a fiftieth of the growth.
        {[0, 2, 50, 75, 100], 4, none},
        {[0, 3, 50, 75, 100], 4, {0, 100}},
        %% A fall is more than a tenth of it, also in two.
        {[0, 50, 40, 60, 75, 100], 4, {0, 100}},
        {[0, 50, 39, 60, 75, 100], 4, none},
        {[0, 50, 45, 39, 75, 80, 100], 4, none},
        %% A quarter of it is in the later half.
        {[0, 50, 75, 80, 100], 4, {0, 100}},
        {[0, 50, 76, 80, 100], 4, none},
        {[0, 75, 100], 2, {0, 100}},
        {[0, 76, 100], 2, none},
        {[0, 100], 4, {0, 100}},
        {[1, 1], 1, none},
        {[1], 1, none},
        {[], 1, none}]].

the_least_of_each_of_eight_parts_counts_test() ->
    Values = [9, 1, 9, 2, 9, 3, 9, 4, 9, 5, 9, 6, 9, 7, 9, 8, 0],
    Series = [{?BEGIN + N * ?S div 2, V, 9, 9} || {N, V} <- lists:zip(lists:seq(0, 16), Values)],
    ?assertEqual([{?BEGIN + N * ?S, V} || {N, V} <- lists:zip(lists:seq(0, 7),
        [1, 2, 3, 4, 5, 6, 7, 0])], flame_prof_doctor_series:floors(Series, ?BEGIN, 8 * ?S)).

growth_test_() ->
    Rises = [0, 10, 20, 30, 40, 50, 60, 70],
    [?_assertEqual(Expected, ends(flame_prof_doctor_series:growth(series(Values), Us)))
     || {Values, Us, Expected} <- [
        {Rises, 7 * ?S, {0, 70}}, {Rises, 7 * ?S + 1, none}, {[], 0, none},
        %% Four steps are needed, where there are as many.
        {[0, 0, 0, 0, 0, 20, 40, 70], 1, none}, {[0, 0, 0, 0, 10, 20, 40, 70], 1, {0, 70}}]].

long_test_() ->
    [{lists:flatten(io_lib:format("~w", [Values])),
        ?_assertEqual(Seconds * ?S, flame_prof_doctor_series:long(series(Values), 5))}
     || {Values, Seconds} <- [
        {[], 0}, {[5], 0}, {[4], 0}, {[5, 6, 5], 2}, {[5, 5, 4, 4], 2}, {[5, 4], 1},
        {[5, 4, 5, 5, 5], 2}, {[5, 5, 5, 4, 5, 5], 3}, {[4, 5, 5, 4, 5, 5, 5, 4], 3}, {[4, 4, 5], 0}
    ]].

%% What is left at the last full sweep, and never again as little as before.
swept_test_() ->
    Sweeps = [10, 30, 20, 40, 35, 50, 45, 60],
    [{lists:flatten(io_lib:format("~w", [Values])),
        ?_assertEqual(Expected, ends(flame_prof_doctor_swept:growth(series(Values), Us)))}
     || {Values, Us, Expected} <- [{Sweeps, 7 * ?S, {10, 45}},
        {Sweeps, 7 * ?S + 1, none},
        {[], 0, none},
        %% In the last three it is above all of the first three, by their most: 31.
        {[10, 30, 20, 40, 35, 31, 45, 60], 1, none},
        {[10, 30, 20, 40, 35, 32, 45, 60], 1, {10, 32}},
        %% The last fall is in the later half.
        {[10, 20, 30, 25, 40, 60, 70, 80], 1, none},
        {[10, 20, 18, 30, 25, 60, 70, 80], 1, {10, 25}},
        %% Two steps of more than a tenth of the growth.
        {[10, 10, 10, 10, 40, 50, 30, 60], 1, none},
        {[10, 10, 10, 12, 40, 50, 30, 60], 1, none},
        {[10, 10, 10, 13, 40, 50, 30, 60], 1, {10, 30}},
        %% A quarter of it is in the later half.
        {[10, 20, 10, 25, 40, 50, 30, 60], 1, {10, 30}},
        {[10, 20, 10, 26, 40, 50, 30, 60], 1, none},
        %% One of eight parts may be missing.
        {[10, 30, 20, none, 35, 50, 45, 60], 1, {10, 45}},
        {[10, 30, 20, none, none, 50, 45, 60], 1, none}]].

a_climb_begins_where_it_was_least_last_test() ->
    Of = fun(Values) -> [{round(S * 1.0e6), N, N, N} || {S, N} <- Values] end,
    [?assertEqual(#{from => From, from_us => FromUs, to_us => ToUs, unseen_us => Unseen},
        flame_prof_doctor_series:climb(Of(Values), Most, 28000000))
     || {Values, Most, {From, FromUs, ToUs, Unseen}} <- [
        {[{0, 0}, {7.2, 0}, {25.8, 19126}, {28, 18741}], 19126,
            {0, 7200000, 25800000, 18600000}},
        {[{0, 5}, {1, 0}, {2, 3}, {3, 7}, {4, 9}, {5, 1}], 9, {0, 1000000, 4000000, 0}},
        {[{0, 9}, {1, 0}], 9, {9, 0, 0, 0}}]].
