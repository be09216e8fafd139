%% Whether terms lie as expected, by probes that a busy node may disturb: of attempts that are made
%% up, and of a node that purges modules all the time.
-module(flame_prof_term_probes_tests).

-include_lib("eunit/include/eunit.hrl").

-export([hold/0]).

%% Attempts with these verdicts, the last one again and again.
verify(Verdicts, Ms) ->
    Counter = counters:new(1, []),
    Answer = flame_prof_term_probes:verify("terms", fun() ->
        counters:add(Counter, 1, 1),
        lists:nth(min(counters:get(Counter, 1), length(Verdicts)), Verdicts)
    end, Ms),
    {Answer, counters:get(Counter, 1)}.

one_that_was_late_is_tried_again_test() ->
    ?assertEqual({ok, 1}, verify([ok], 60000)),
    ?assertEqual({ok, 4}, verify([unsure, wrong, unsure, ok], 60000)).

only_probes_at_rest_say_that_terms_lie_elsewhere_test() ->
    ?assertMatch({{error, <<"terms are not laid out as this release's sources say">>}, 3},
        verify([wrong], 60000)),
    {{error, Why}, 1} = verify([unsure], 0),
    ?assertMatch(<<"its probes were late or collected at each of 1 attempt: the node is busy",
        _/binary>>, Why).

hold() -> receive never -> ok end.

one_that_waits_elsewhere_is_not_at_rest_test() ->
    Pid = spawn(?MODULE, hold, []),
    try
        waiting:eventually(fun() -> flame_prof_term_probes:is_at_rest(Pid, {?MODULE, hold, 0}) end),
        ?assertNot(flame_prof_term_probes:is_at_rest(Pid, {erlang, hibernate, 3}))
    after exit(Pid, kill)
    end.

%% As the end of an attach does: xray behind the doctor once said that terms lie elsewhere.
a_node_that_purges_is_no_unknown_release_test() ->
    native_node:why_not() =:= none andalso xray_beside_purges().

xray_beside_purges() ->
    Forms = [{attribute, 1, module, flame_prof_purged}, {attribute, 1, export, [{f, 0}]},
        {function, 1, f, 0, [{clause, 1, [], [], [{tuple, 1, [{atom, 1, a}, {integer, 1, 7}]}]}]}],
    {ok, Module, Code} = compile:forms(Forms, []),
    {Purger, Monitor} = spawn_monitor(fun() -> purging(Module, Code) end),
    try
        [case flame_prof_xray:look(whereis(init), #{}) of
            {ok, _} -> ok;
            {error, Reason} ->
                Text = iolist_to_binary(flame_prof:format_error(Reason)),
                ?assertEqual({Text, nomatch}, {Text, binary:match(Text, <<"laid out">>)})
         end || _ <- [1, 2]]
    after
        Purger ! stop,
        receive {'DOWN', Monitor, process, Purger, _} -> ok end,
        true = code:delete(Module),
        code:purge(Module)
    end.

purging(Module, Code) ->
    {module, Module} = code:load_binary(Module, "made up", Code),
    _ = code:purge(Module),
    receive stop -> ok
    after 0 -> purging(Module, Code)
    end.
