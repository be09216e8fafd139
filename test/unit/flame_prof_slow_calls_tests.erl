%% Calls that a simulation made, which knows the truth (test/support/made_calls.erl), as
%% flame_prof_slow_calls finds them in the samples.
-module(flame_prof_slow_calls_tests).

-include_lib("eunit/include/eunit.hrl").

-define(BEGIN_US, 1795237782000000).
-define(TICK_US, 9500).

%% At least 99 % of those of more than three ticks; each one that is told is true.
calls_of_sampled_processes_are_found_and_true_test_() ->
    [{timeout, 120, {lists:concat(["seed ", Seed]), fun() ->
        #{calls := Made} = Run = run(Seed),
        Found = found(made_calls:text(Run), #{}),
        {Bounded, Open} = lists:partition(fun(#{open := IsOpen}) -> not IsOpen end, Found),
        [is_true(Call, Made) || Call <- Found],
        [is_good_to_a_tick(Call, Made) || Call <- Bounded],
        [?assert(maps:get(ms, Call) =< (End - Begin) / 1000)
            || Call <- Open, #{begun := Begin} = Truth <- [truth(Call, Made)],
               End <- [maps:get(ended, Truth, 6000000)]],
        Known = [reference(Call) || Call <- Found],
        Slow = [Call || #{begun := Begin, ended := End} = Call <- Made, End - Begin > 3 * ?TICK_US],
        Missing = [Call || Call <- Slow, not lists:member(reference(Call), Known)],
        ?assert(length(Slow) > 100),
        ?assert(100 * length(Missing) =< length(Slow))
    end}} || Seed <- [1, 2, 3]].

%% Also of a call that is still in the mailbox.
the_callee_is_told_with_how_long_it_served_test() ->
    #{calls := Made} = Run = run(4),
    Found = found(made_calls:text(Run), #{}),
    [begin
        Truth = truth(Call, Made),
        Served = maps:get(work_ended, Truth, 6000000) - maps:get(work_begun, Truth, 6000000),
        ?assert(abs(Ticks * 9000 - Served) =< 2 * ?TICK_US + Served div 20),
        Symbols = [Symbol || {Symbol, _} <- Stack],
        ?assertEqual(Ticks > 0 orelse is_at_work(Symbols), is_at_work(Symbols))
    end || #{served_ticks := Ticks, callee_stack := Stack} = Call <- Found],
    ?assert(lists:any(fun(#{served_ticks := N}) -> N =:= 0 end, Found)),
    ?assert(lists:any(fun(#{served_ticks := N}) -> N > 3 end, Found)).

is_at_work(Symbols) -> lists:member(<<"server:handle_call/3:20">>, Symbols).

%% Of calls to four servers, whose callers are not sampled, the servers' samples tell.
without_samples_of_callers_the_servers_tell_test() ->
    #{calls := Made} = Run = run(5),
    Found = found(made_calls:text(Run, fun(_, N) -> N =< 4 end), #{}),
    Slow = [Call || #{work_begun := Begin, work_ended := End} = Call <- Made,
        End - Begin > 3 * ?TICK_US],
    ?assert(length(Slow) > 30),
    Known = [reference(Call) || Call <- Found],
    ?assertEqual([], [Call || Call <- Slow, not lists:member(reference(Call), Known)]),
    [begin
        #{caller := Caller, callee := Callee, request := Request} = truth(Call, Made),
        ?assertEqual(pid(Callee), maps:get(pid, maps:get(callee, Call))),
        ?assertEqual(list_to_binary(Request), maps:get(request, Call)),
        case Caller > 4 of
            true -> ?assertMatch(#{caller := none, of_callee := true}, Call);
            false -> ?assertEqual(pid(Caller), maps:get(pid, maps:get(caller, Call)))
        end
    end || Call <- Found].

%% Of those who are not sampled there is the pid, as the caller's samples have it.
without_samples_of_servers_the_callers_tell_test() ->
    #{calls := Made} = Run = run(6),
    Found = found(made_calls:text(Run, fun(_, N) -> N > 4 end), #{}),
    ?assert(length(Found) > 30),
    [is_true(Call, Made) || Call <- Found],
    ?assertEqual([], [Call || #{served_ticks := N, callee_stack := Stack} = Call <- Found,
        N > 0 orelse Stack =/= []]).

%% A process that was not sampled for half a second is in the same call when it comes back.
a_call_goes_on_where_its_caller_was_left_out_test() ->
    #{calls := Made} = Run = run(7),
    Found = found(made_calls:text(Run, fun(Tick, _) -> Tick rem 120 < 60 end), #{}),
    [is_true(Call, Made) || Call <- Found],
    References = [reference(Call) || Call <- Found],
    ?assertEqual(length(References), length(lists:usort(References))),
    [?assert(maps:get(ms, Call) * 1000 =< End - Begin + ?TICK_US)
        || Call <- Found, #{begun := Begin, ended := End} <- [truth(Call, Made)]].

%% One number of two nodes is two calls.
two_nodes_are_never_mixed_test() ->
    Run = run(8),
    One = iolist_to_binary(made_calls:text(Run)),
    Other = binary:replace(One, <<" 42/">>, <<" 43/">>, [global]),
    with_files([One, Other], fun(Files) ->
        {ok, #{count := Count}} = flame_prof_slow_calls:found(hd(Files), #{}),
        ?assertMatch({ok, #{count := Both}} when Both =:= 2 * Count,
            flame_prof_slow_calls:found(Files, #{}))
    end).

the_longest_come_first_and_the_rest_is_counted_test() ->
    Text = made_calls:text(run(9)),
    with_files([Text], fun([File]) ->
        {ok, #{count := Count, calls := All, tick_ms := Tick}} =
            flame_prof_slow_calls:found(File, #{}),
        ?assertEqual(Count, length(All)),
        ?assert(Tick > 8.5 andalso Tick < 9.6),
        Lengths = [Ms || #{least_ms := Ms} <- All],
        ?assertEqual(lists:reverse(lists:sort(Lengths)), Lengths),
        ?assertMatch({ok, [Longest]} when Longest =:= hd(All),
            flame_prof_slow_calls:look(File, #{top => 1})),
        {ok, Profile} = flame_prof_profile:read(File),
        ?assertEqual({ok, All}, flame_prof_slow_calls:look(Profile, #{})),
        {ok, Found} = flame_prof_slow_calls:found(File, #{top => 2}),
        Shown = unicode:characters_to_list(flame_prof_slow_calls:format(Found, 200)),
        ?assertMatch({match, _}, re:run(Shown, "callee: .*server:handle_call/3")),
        ?assertMatch({match, _}, re:run(Shown, integer_to_list(Count - 2) ++ " more")),
        ?assert(is_binary(iolist_to_binary(flame_prof_json:encode(
            flame_prof_slow_calls:json(Found)))))
    end).

files_without_words_say_what_is_missing_test() ->
    {ok, Found} = flame_prof_slow_calls:found("test/corpus/ours.log", #{}),
    ?assertMatch(#{count := 0, words := 0, calls := []}, Found),
    Text = flame_prof_slow_calls:format(Found, 100),
    ?assertMatch({match, _}, re:run(Text, "^No sample shows a process that waits in a call\\.\n"
        "No sampled process waited in a call, or the session had messages => false")).

%% A server that answers later has taken the call, and has no message: samples do not tell that from
%% a call in its mailbox.
a_call_that_was_never_seen_in_work_may_be_put_aside_test() ->
    Call = #{caller => none, callee => none, request => <<"checkout">>, open => false, ms => 4950.0,
        served_ticks => 0, ticks => 551, caller_stack => [],
        callee_stack => [{<<"gen_server:loop/7:871">>, <<>>}]},
    Text = flame_prof_slow_calls:format(#{count => 1, tick_ms => 9.0, words => 551,
        calls => [Call]}, 120),
    ?assertMatch({match, _}, re:run(Text, "not in work at any of 551 ticks: in the mailbox, or put "
        "aside; the callee was in:\n +callee: gen_server:loop/7\n")).

an_option_that_is_wrong_is_refused_test() ->
    ?assertMatch({error, {bad_option, #{option := ticks}}},
        flame_prof_slow_calls:look("test/corpus/ours.log", #{ticks => 0})).

%%% Truth

run(Seed) -> made_calls:run(#{seed => Seed, seconds => 6, clients => 12, servers => 4}).

found(Text, Options) ->
    with_files([Text], fun([File]) ->
        {ok, Calls} = flame_prof_slow_calls:look(File, Options),
        Calls
    end).

reference(#{reference := {A, B, C}}) ->
    iolist_to_binary(io_lib:format("#Ref<0.~b.~b.~b>", [C, B, A]));
reference(#{reference := Text}) -> Text.

truth(Found, Made) ->
    [Truth] = [Call || Call <- Made, reference(Call) =:= reference(Found)],
    Truth.

is_true(Found, Made) ->
    #{caller := Caller, callee := Callee, request := Request, begun := Begin} = truth(Found, Made),
    ?assertEqual(pid(Caller), maps:get(pid, maps:get(caller, Found))),
    ?assertEqual(pid(Callee), maps:get(pid, maps:get(callee, Found))),
    ?assertEqual(list_to_binary(Request), maps:get(request, Found)),
    ?assert(maps:get(at_us, Found) - ?BEGIN_US >= Begin).

is_good_to_a_tick(#{of_callee := false, ms := Ms} = Found, Made) ->
    #{least_ms := Least, most_ms := Most} = Found,
    #{begun := Begin, ended := End} = truth(Found, Made),
    Lasted = (End - Begin) / 1000,
    ?assert(abs(Ms - Lasted) =< ?TICK_US / 1000),
    ?assert(Least =< Lasted andalso Lasted =< Most).

pid(N) -> iolist_to_binary(io_lib:format("<0.~b.0>", [N])).
with_files(Texts, Test) -> text_file:several(Texts, Test).
