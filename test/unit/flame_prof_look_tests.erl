%% The list of looks, and what is made of it. A new look touches two places: its module, and the
%% list in flame_prof_look; `make options' writes its functions.
-module(flame_prof_look_tests).

-include_lib("eunit/include/eunit.hrl").

every_look_has_its_functions_test() ->
    Exports = [Name || {Name, _} <- flame_prof:module_info(exports)],
    ?assertEqual([], flame_prof_look:names() -- Exports).

the_looks_of_the_issue_are_listed_test() ->
    ?assertEqual([allocations, binaries, blame, doctor, hot, latency, mailbox, memory, pstack,
        slow_calls, tables, top, trace, waits, xray], lists:sort(flame_prof_look:names())).

the_first_option_is_the_argument_test() ->
    [?assert(lists:member(Key, [K || #{key := K} <- flame_prof_look:rows(Module)]), {Module, Key})
     || Module <- flame_prof_look:modules(),
        #{argument := {Key, _, _, _}} <- [flame_prof_look:about(Module)]].

an_argument_and_options_are_one_map_test() ->
    Given = fun flame_prof_look:given/2,
    ?assertEqual({ok, #{process => init}}, Given(flame_prof_waits, [init])),
    ?assertEqual({ok, #{process => init, top => 3}}, Given(flame_prof_waits, [init, [{top, 3}]])),
    ?assertEqual({ok, #{for => 100}}, Given(flame_prof_waits, [[{for, 100}]])),
    ?assertEqual({ok, #{function => gc, for => 100}}, Given(flame_prof_blame, [gc, 100])),
    ?assertEqual({ok, #{process => [init, {global, x}]}},
        Given(flame_prof_pstack, [[init, {global, x}]])),
    ?assertMatch({error, {badarg, #{argument := process}}}, Given(flame_prof_waits, [undefined])),
    ?assertMatch({error, {badarg, #{argument := process}}}, Given(flame_prof_xray, [#{}])).

older_names_are_accepted_but_not_beside_the_new_one_test() ->
    {ok, #{for := 2000, max_cpu := 3}} = flame_prof_look:checked(flame_prof_latency,
        #{functions => "lists:seq/2", seconds => 2, max_cpu_percent => 3}),
    ?assertMatch({error, {bad_option, _}}, flame_prof_look:checked(flame_prof_tables,
        #{by => memory, sort => memory})).
