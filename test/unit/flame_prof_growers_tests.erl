%% Queues are those that the tests say; memory is that of processes.
-module(flame_prof_growers_tests).

-include_lib("eunit/include/eunit.hrl").

a_queue_that_grows_has_a_place_until_it_is_drained_test() ->
    Growers = passes([#{1 => 0}, #{1 => 9000}], new(4)),
    ?assertEqual({[1], []}, {selected(#{1 => 64}, Growers), selected(#{1 => 63}, Growers)}).

those_that_ever_grew_most_have_the_places_test() ->
    Growers = passes([#{1 => 0, 2 => 0}, #{1 => 9000, 2 => 500}], new(1)),
    ?assertEqual([1], selected(#{1 => 9070, 2 => 1100}, Growers)),
    ?assertEqual([2], selected(#{1 => 9070, 2 => 9501}, Growers)),
    ?assertEqual([1, 2, 3], selected(maps:from_list([{N, 1000 - N} || N <- lists:seq(1, 9)]),
        new(3))).

a_queue_that_stands_still_loses_its_place_after_twelve_passes_test() ->
    Grown = passes([#{1 => 0}, #{1 => 9000}], new(4)),
    Twelve = [#{1 => 9000} || _ <- lists:seq(1, 11)],
    ?assertEqual([1], selected(#{1 => 9000}, passes(Twelve, Grown))),
    ?assertEqual([], selected(#{1 => 9000}, passes([#{1 => 9000} | Twelve], Grown))),
    ?assertEqual([1], selected(#{1 => 9064}, passes([#{1 => 9000} | Twelve], Grown))).

the_first_pass_counts_whole_queues_test() ->
    ?assertEqual([2], selected(#{1 => 63, 2 => 64}, new(4))).

little_growth_has_no_place_test() ->
    ?assertEqual([], selected(#{1 => 63}, passes([#{1 => 0}, #{1 => 63}, #{1 => 0}], new(4)))).

the_ranked_need_no_place_test() ->
    Queues = maps:from_list([{N, 100 * N} || N <- lists:seq(1, 9)]),
    ?assertEqual([3, 4, 5, 6], selected(Queues, [7, 8, 9], new(4))).

who_has_exited_has_no_place_test() ->
    ?assertEqual([], selected(#{2 => 0}, passes([#{1 => 9000, 2 => 0}], new(4)))).

no_places_are_none_test() -> ?assertEqual([], selected(#{1 => 9000}, new(0))).

%% None has run but that one, and what was there before is no growth.
memory_that_grows_has_a_place_test() ->
    [Big, Growing] = Pids = [spawn(fun() -> hold([]) end) || _ <- [big, growing]],
    ok = add(Big),
    See = fun(Growers) -> flame_prof_growers:select([], lists:foldl(fun see/2, Growers, Pids)) end,
    {First, Growers1} = See(new(4)),
    {Second, Growers2} = See(Growers1),
    ok = add(Growing),
    {Third, _} = See(Growers2),
    [exit(Pid, kill) || Pid <- Pids],
    ?assertEqual({[], [], [Growing]}, {First, Second, Third}).

see(Pid, Growers) ->
    flame_prof_growers:see(Pid, process_info(Pid, flame_prof_growers:items()), Growers).

hold(Kept) ->
    receive
        {From, add} ->
            Binaries = [binary:copy(<<0>>, 65536) || _ <- lists:seq(1, 40)],
            From ! {self(), added},
            hold([Binaries | Kept])
    end.

add(Pid) ->
    Pid ! {self(), add},
    receive {Pid, added} -> ok end,
    %% Its reductions are counted once it is scheduled out.
    waiting:eventually(fun() -> process_info(Pid, status) =:= {status, waiting} end).

new(Places) -> flame_prof_growers:new(Places).

%% Messages by number of the process.
passes(All, Growers) ->
    lists:foldl(fun(Queues, G) -> element(2, pass(Queues, [], G)) end, Growers, All).

pass(Queues, Ranked, Growers0) ->
    Growers = maps:fold(fun(N, Messages, Growers) ->
        Info = [{message_queue_len, Messages}, {reductions, 0}],
        flame_prof_growers:see(pid(N), Info, Growers)
    end, Growers0, Queues),
    flame_prof_growers:select([pid(N) || N <- Ranked], Growers).

selected(Queues, Growers) -> selected(Queues, [], Growers).

selected(Queues, Ranked, Growers) ->
    {Pids, _} = pass(Queues, Ranked, Growers),
    [N || N <- lists:sort(maps:keys(Queues)), lists:member(pid(N), Pids)].

%% Of no process.
pid(N) -> list_to_pid("<0." ++ integer_to_list(30000 + N) ++ ".0>").
