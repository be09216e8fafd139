%% The proof of many deadlocks, with a scripted library and a virtual clock: what is proven, and
%% what is not reached in time.
-module(flame_prof_waits_proof_tests).

-include_lib("eunit/include/eunit.hrl").

-define(DEADLOCKS, 300).

p(I) -> list_to_pid("<0." ++ integer_to_list(I) ++ ".0>").

edge(From, To) ->
    #{from => p(From), to => p(To), how => call, tag => {tuple, get, 2}, ref => {From, 0, 0},
        site => {gen, do_call, 4}, since_ms => 50}.

edges() ->
    lists:append([[edge(2 * N, 2 * N + 1), edge(2 * N + 1, 2 * N)]
        || N <- lists:seq(1, ?DEADLOCKS)]).

cycles(Edges) -> flame_prof_waits_graph:cycles(flame_prof_waits_graph:new(Edges)).

id(Edge) -> flame_prof_waits_graph:identity(Edge).

%% Of so many edges the servers have the requests in work, the queue of each other one takes so many
%% milliseconds.
prove(Edges, InWork, QueueMs) ->
    fake_agent:run(fun() ->
        Served = [{To, call, Tag, Ref, From, m} || #{from := From, to := To, tag := Tag, ref := Ref}
            <- lists:nthtail(length(Edges) - InWork, Edges)],
        ok = fake_agent:script(waits_served, {ok, Served}),
        ok = fake_agent:script(mailbox_open, fun(To, _) -> {ok, To} end),
        Senders = maps:from_list([{To, {From, {call, Tag}}}
            || #{from := From, to := To, tag := Tag} <- Edges]),
        ok = fake_agent:script(mailbox_next, fun(To, _) ->
            ok = virtual_clock:skip(QueueMs),
            #{oldest => [maps:get(To, Senders)]}
        end),
        flame_prof_waits_proof:prove(Edges)
    end).

with_time_for_all_each_deadlock_is_proven_test() ->
    Edges = edges(),
    #{proven := Proven, late := []} = prove(Edges, 0, 5),
    Known = maps:from_keys(Proven, true),
    Cycles = cycles(Edges),
    ?assertEqual(?DEADLOCKS, length([C || C <- Cycles,
        flame_prof_waits_proof:is_deadlock(C, Known)])).

%% Three seconds.
what_there_was_no_time_for_is_late_and_nothing_is_lost_test() ->
    Edges = edges(),
    #{proven := Proven, late := Late} = prove(Edges, 100, 50),
    ?assertEqual({160, 440}, {length(Proven), length(Late)}),
    ?assertEqual(lists:sort([id(Edge) || Edge <- Edges]), lists:sort(Proven ++ Late)),
    [Known, Later] = [maps:from_keys(Ids, true) || Ids <- [Proven, Late]],
    Is = fun(C) -> {flame_prof_waits_proof:is_deadlock(C, Known),
        flame_prof_waits_proof:is_late(C, Known, Later)} end,
    %% 30 by their queues and 50 by what is in work.
    Kinds = [Is(C) || C <- cycles(Edges)],
    ?assertEqual({80, 220}, {length([k || {true, false} <- Kinds]),
        length([k || {false, true} <- Kinds])}).

%% The next look goes on where there was no time, and more than a thousand edges are no look's.
what_was_late_comes_first_test() ->
    Cycles = cycles(edges()),
    Late = [id(Edge) || Edge <- lists:nthtail(200, edges())],
    {Asked, []} = flame_prof_waits_proof:needed(Cycles, #{}, maps:from_keys(Late, true)),
    ?assertEqual(600, length(Asked)),
    ?assertEqual(lists:sort(Late), lists:sort([id(Edge) || Edge <- lists:sublist(Asked, 400)])),
    {Left, []} = flame_prof_waits_proof:needed(Cycles, maps:from_keys(Late, true), #{}),
    ?assertEqual(200, length(Left)).

more_than_a_look_has_time_for_are_left_for_the_next_test() ->
    Edges = [edge(N, N) || N <- lists:seq(1, 1500)],
    {Asked, TooMany} = flame_prof_waits_proof:needed(cycles(Edges), #{}, #{}),
    ?assertEqual({1000, 500}, {length(Asked), length(TooMany)}),
    Known = maps:from_keys([id(Edge) || Edge <- Asked], true),
    ?assertMatch({[_ | _], []}, flame_prof_waits_proof:needed(cycles(Edges), Known, #{})).
