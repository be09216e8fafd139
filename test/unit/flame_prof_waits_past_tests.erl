%% What earlier looks at waits have seen and the last one has not: of nodes that are made up.
-module(flame_prof_waits_past_tests).

-include_lib("eunit/include/eunit.hrl").

p(I) -> list_to_pid("<0." ++ integer_to_list(I) ++ ".0>").

edge(From, To, Ref) ->
    #{from => p(From), to => p(To), how => call, tag => {tuple, get, 2}, ref => {Ref, 0, 0},
        site => {gen, do_call, 4}}.

ring(Refs) -> [edge(1, 2, Refs + 1), edge(2, 1, Refs + 2), edge(3, 1, Refs + 3)].

%% Looks of which each has these edges, the last ones for all further looks. `Lives' is asked who is
%% there at so many looks.
look(ByLook, Lives) ->
    Counter = counters:new(1, []),
    Ask = fun(Requests) ->
        [counters:add(Counter, 1, 1) || {_, {flame_prof_waits_part, part, _}} <- Requests],
        N = counters:get(Counter, 1),
        [{Node, case Request of
            {flame_prof_waits_part, part, _} ->
                {ok, {ok, part(lists:nth(min(N, length(ByLook)), ByLook))}};
            {flame_prof_waits_part, told, [Pids, _]} ->
                {ok, maps:from_list([{Pid, told()} || Pid <- Pids, Lives(Pid, N)])};
            {flame_prof_waits_proof, prove, [Edges]} ->
                {ok, #{proven => [flame_prof_waits_graph:identity(Edge) || Edge <- Edges],
                    late => []}};
            {flame_prof_wait_learn, takes, _} -> {ok, #{}};
            {lists, map, [_, Names]} -> {ok, [undefined || _ <- Names]}
        end} || {Node, Request} <- Requests]
    end,
    ok = virtual_clock:start(),
    try
        {ok, Look} = flame_prof_waits:look(#{for => 500}, Ask),
        Look
    after ok = virtual_clock:stop()
    end.

part(Edges) ->
    #{engine => native, engine_reason => <<"native: made up">>, edges => Edges,
        counts => #{processes => 100, idle => 0, unknown => 0}, unknown => #{}}.

told() ->
    #{registered_name => bank, status => waiting, stack => [{shop_bank, ask, 2, []}],
        message_queue_len => 0, memory => 4096}.

all_live(_, _) -> true.

%%% Deadlocks.

%% The first look behind the one that has met it comes at once: these two are 50 ms apart.
a_deadlock_that_two_looks_met_is_told_when_it_has_ended_test() ->
    Look = look([[], ring(0), ring(0), []], fun(Pid, N) -> Pid =/= p(2) orelse N < 4 end),
    #{deadlocks := [], ended := [#{edges := Edges, all := 1, exited := Exited} = Ended]} = Look,
    ?assertEqual([{p(1), p(2)}, {p(2), p(1)}], [{F, T} || #{from := F, to := T} <- Edges]),
    ?assertEqual([p(2)], Exited),
    %% As it was: nothing is known of one that has exited.
    ?assertMatch(#{processes := #{}}, Ended),
    ?assertEqual([p(1), p(2)], lists:sort(maps:keys(maps:get(processes, Ended)))),
    Text = unicode:characters_to_list(flame_prof_waits_text:format(Look)),
    [?assertNotEqual({Part, nomatch}, {Part, string:find(Text, Part)}) || Part <- [
        "2 processes were deadlocked for a time: bank ", "; 1 process more waited for them.\n",
        "Ended deadlock of 2 processes\n", ": call {get,_}", "exited: a call that times out"]],
    Json = iolist_to_binary(flame_prof_json:encode(flame_prof_waits_text:json(Look))),
    ?assertMatch({match, _}, re:run(Json, "\"ended\":\\[\\{.*\"exited\":\\[\"<0\\.2\\.0>\"\\]")).

each_deadlock_is_one_test() ->
    Look = look([ring(0), ring(0), [], ring(10), ring(10), []], fun all_live/2),
    ?assertMatch(#{ended := [#{exited := []}, #{exited := []}]}, Look).

a_deadlock_that_one_look_could_not_read_has_not_ended_test() ->
    [One | _] = ring(0),
    ?assertMatch(#{ended := [], deadlocks := [_]},
        look([ring(0), ring(0), [One], ring(0)], fun all_live/2)).

%% As servers that are read while they call each other by turns.
a_ring_of_other_calls_each_time_was_no_deadlock_test() ->
    Rings = [ring(10 * N) || N <- lists:seq(1, 9)],
    ?assertMatch(#{ended := [], deadlocks := []}, look(Rings ++ [[]], fun all_live/2)).

%% In the look that meets them, and in the one behind their end, beside the look's own questions.
all_deadlocks_of_a_look_are_asked_for_at_once_test() ->
    Rings = [[edge(2 * N, 2 * N + 1, 2 * N), edge(2 * N + 1, 2 * N, 2 * N + 1)]
        || N <- lists:seq(1, 300)],
    Asked = counters:new(1, []),
    All = lists:append(Rings),
    Lives = fun(Pid, N) -> Pid =:= p(2) andalso counters:add(Asked, 1, 1), N < 4 end,
    #{ended := Ended} = look([All, All, All, []], Lives),
    ?assertEqual(300, length(Ended)),
    ?assertEqual([2], lists:usort([length(Exited) || #{exited := Exited} <- Ended])),
    ?assertEqual(2, counters:get(Asked, 1)).

%% Each look may meet another one: that does not make three of each.
rings_that_are_never_proven_do_not_make_looks_without_end_test() ->
    Rings = [ring(10 * N) || N <- lists:seq(1, 99)],
    #{looks := Looks} = look(Rings, fun all_live/2),
    ?assert(Looks =< 22).

%%% Whole looks.

waits(N, To, Ms) -> [(edge(100 + I, To, I))#{since_ms => Ms} || I <- lists:seq(1, N)].

%% Looks at these edges, of which the last one is the last; those that are kept, by their number.
kept(ByLook) ->
    {Last, Before} = {lists:last(ByLook), lists:droplast(ByLook)},
    Past = lists:foldl(fun({N, Edges}, Past) ->
        Make = fun() -> #{looks => N, edges => Edges, processes => #{p(1) => told()}} end,
        flame_prof_waits_past:add_look(Edges, Make, Past)
    end, flame_prof_waits_past:new(), lists:zip(lists:seq(1, length(Before)), Before)),
    [N || #{looks := N} <- flame_prof_waits_past:earlier(Last, Past)].

a_look_with_many_that_had_waited_for_one_is_kept_where_the_last_one_has_not_test() ->
    ?assertEqual([1], kept([waits(8, 1, 3000), []])),
    ?assertEqual([1], kept([waits(8, 1, 3000), waits(8, 1, 400)])),
    ?assertEqual([], kept([waits(8, 1, 3000), waits(8, 1, 4000)])).

a_server_that_is_busy_for_a_moment_is_none_test() ->
    ?assertEqual([], kept([waits(50, 1, 2499), []])),
    ?assertEqual([1], kept([waits(8, 1, 2500), []])),
    ?assertEqual([], kept([waits(7, 1, 3000), []])).

the_look_with_more_of_them_is_kept_test() ->
    ?assertEqual([3], kept([waits(8, 1, 3000), waits(9, 1, 3500), waits(40, 1, 4000), []])),
    %% Half as many again are not more.
    ?assertEqual([1], kept([waits(8, 1, 3000), waits(12, 1, 3000), []])),
    ?assertEqual([2], kept([waits(8, 1, 3000), waits(13, 1, 3000), []])).

few_looks_are_kept_test() ->
    Looks = [waits(8, 1000 + N, 3000) || N <- lists:seq(1, 50)],
    ?assertEqual(6, length(kept(Looks ++ [[]]))).

chain(Ms, Length) -> [(edge(I, I + 1, I))#{since_ms => Ms} || I <- lists:seq(1, Length)].

a_look_with_a_chain_that_had_lasted_is_kept_test() ->
    ?assertEqual([1], kept([chain(3000, 3), []])),
    ?assertEqual([], kept([chain(3000, 2), []])),
    ?assertEqual([], kept([chain(1000, 3), []])),
    %% A ring has no end.
    ?assertEqual([], kept([[E#{since_ms => 9000} || E <- ring(0)], []])).

locks(N) -> [(edge(I, 1, I))#{how := lock, tag := {atom, seats}} || I <- lists:seq(1, N)].

a_look_with_a_lock_that_many_wanted_is_kept_test() ->
    ?assertEqual([1], kept([locks(8), []])),
    ?assertEqual([], kept([locks(7), []])),
    ?assertEqual([], kept([locks(8), locks(9)])).

the_edges_of_a_kept_look_are_those_of_its_trees_test() ->
    Edges = waits(8, 1, 3000) ++ waits(3, 2, 3000) ++ locks(2),
    Make = fun() -> #{looks => 1, edges => Edges, processes => #{p(1) => told()}} end,
    Past = flame_prof_waits_past:add_look(Edges, Make, flame_prof_waits_past:new()),
    [#{edges := Kept}] = flame_prof_waits_past:earlier([], Past),
    ?assertEqual(10, length(Kept)).
