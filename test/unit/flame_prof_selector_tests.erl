-module(flame_prof_selector_tests).

-ifdef(PROPER).
-include_lib("proper/include/proper.hrl").
-endif.
-include_lib("eunit/include/eunit.hrl").

nobody_is_busiest_of_none_test() ->
    ?assertEqual([], flame_prof_selector:busiest(3, [])),
    ?assertEqual([], flame_prof_selector:busiest(0, [{self(), 1}])).

who_is_excluded_is_not_chosen_test() ->
    {Selector, Selected} = first_choice(10000, [self()]),
    ?assertNot(is_map_key(self(), Selected)),
    ?assertNot(is_map_key(Selector, Selected)),
    ?assert(is_map_key(whereis(kernel_sup), Selected)).

no_more_are_chosen_than_wanted_test() ->
    {_, Selected} = first_choice(3, []),
    ?assertEqual(3, map_size(Selected)).

names_come_with_the_choice_test() ->
    %% Its first call is in its dictionary once it has run.
    Parent = self(),
    Pid = proc_lib:spawn(fun() -> Parent ! ready, receive stop -> ok end end),
    receive ready -> ok end,
    register(flame_prof_selector_tests_name, Pid),
    {_, Selected} = first_choice(10000, []),
    ?assertMatch(#{Pid := {<<"flame_prof_selector_tests_name">>,
            {<<"proc_lib">>, <<"init_p">>, _}, {_, _, _}, <<>>}},
        Selected),
    ?assertMatch({<<"kernel_sup">>, _, {<<"supervisor">>, <<"kernel">>, 1}, <<>>},
        maps:get(whereis(kernel_sup), Selected)),
    Pid ! stop.

%% Copying it would cost more than the name is worth. From OTP 26.2 on a single
%% key is asked for, and the size does not matter.
a_big_dictionary_is_not_fetched_where_it_would_be_copied_test() ->
    Parent = self(),
    Pid = proc_lib:spawn(fun() ->
        put(big, lists:seq(1, 100000)),
        Parent ! ready,
        receive stop -> ok end
    end),
    receive ready -> ok end,
    {_, #{Pid := {_, _, Call, <<>>}}} = first_choice(10000, []),
    case has_dictionary_key() of
        true -> ?assertMatch({_, _, _}, Call);
        false -> ?assertEqual(none, Call)
    end,
    Pid ! stop.

has_dictionary_key() ->
    try process_info(self(), [{dictionary, key}]) of
        _ -> true
    catch
        error:badarg -> false
    end.

%% The second walk knows what the first one could not: who is busy now.
the_second_choice_goes_by_what_was_done_since_the_first_test() ->
    Busy = spawn_link(fun Loop() -> Loop() end),
    Selector = start(1, []),
    {_, _} = choice(Selector),
    {_, Selected} = choice(Selector),
    stop(Selector),
    unlink(Busy),
    exit(Busy, kill),
    ?assertEqual([Busy], maps:keys(Selected)).

first_choice(Top, Exclude) ->
    Selector = start(Top, Exclude),
    {_, Selected} = choice(Selector),
    stop(Selector),
    {Selector, Selected}.

start(Top, Exclude) -> start_with(#{top => Top, interval => 300}, Exclude).

start_with(Rankings, Exclude) ->
    {ok, Select} = flame_prof_selection:validate(Rankings),
    Rules = flame_prof_selection:rules(Select),
    flame_prof_selector:start_link(#{rules => Rules, growers => 0, exclude => Exclude}).

choice(Selector) ->
    receive
        {selected, Selector, #{processes := Processes}, Selected} -> {Processes, Selected}
    after 300000 -> error(no_choice)
    end.

stop(Selector) ->
    unlink(Selector),
    exit(Selector, kill).

-ifdef(PROPER).

the_busiest_are_those_that_sorting_finds_test_() ->
    Property = ?FORALL({N, Values}, {range(0, 20), list(range(-5, 50))},
        begin
            %% Not pids, which nothing here depends on; ties may go either way.
            Figures = lists:zip(lists:seq(1, length(Values)), Values),
            Chosen = flame_prof_selector:busiest(N, Figures),
            Found = lists:sort([lists:nth(Key, Values) || Key <- Chosen]),
            length(lists:usort(Chosen)) =:= length(Chosen) andalso
                Found =:= lists:sort(lists:sublist(lists:reverse(lists:sort(Values)), N))
        end),
    seeded:property(Property, 1000).

-endif.

%% Also of some rules of a list, of which the shortest interval is another one's.
every_rule_has_its_interval_test() ->
    {ok, Rules} = flame_prof_selection:validate([#{interval => Ms} || Ms <- [500, 1000, 1499]]),
    [begin
        Pass = flame_prof_selection:interval(Some),
        [?assertEqual(Ms, Pass * flame_prof_selection:every(Rule, Some))
            || #{interval := Ms} = Rule <- Some]
    end || Some <- [Rules, tl(Rules), [lists:last(Rules)]]],
    ?assertEqual({ok, Rules}, flame_prof_selection:validate(Rules)),
    ?assertEqual([500, 1000, 1500], [Ms || #{interval := Ms} <- Rules]).
