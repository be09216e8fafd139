%% The probes of the classes of capture: over stacks that are made up, and over those that
%% the library captures.
-module(flame_prof_capture_check_tests).

-include_lib("eunit/include/eunit.hrl").

-define(CHECK, <<"flame_prof_capture_check">>).

a_class_is_verified_by_its_own_stacks_test() ->
    Verdicts = verify(fun(Class, Pids) -> looks(Class, Pids, fun right/1) end),
    ?assertEqual([verified], lists:usort(maps:values(Verdicts))),
    ?assertEqual(lists:sort(flame_prof_capture_check:classes()), lists:sort(maps:keys(Verdicts))).

%% A decoder that takes a light BIF for a function of its caller's: the leaf is missing.
a_stack_without_its_leaf_is_refused_with_the_stack_test() ->
    #{erlang := {wrong, Why}} =
        verify(fun(Class, Pids) ->
            looks(Class, Pids, fun(_) -> [own("probe_2", 1)] end) end),
    ?assertMatch({match, _}, re:run(Why, "a capture of its probe shows .*probe_2")).

a_frame_that_the_probe_never_calls_is_refused_test() ->
    Wrong = fun(Class) -> [{bif, {<<"ets">>, <<"lookup">>, 2}} | right(Class)] end,
    Verdicts = verify(fun(Class, Pids) -> looks(Class, Pids, Wrong) end),
    [?assertMatch({Class, {wrong, _}}, {Class, Verdict})
     || {Class, Verdict} <- maps:to_list(Verdicts), Class =/= gc, Class =/= heavy_bif],
    ?assertMatch(#{gc := {wrong, _}, heavy_bif := {wrong, _}}, Verdicts).

a_hole_in_the_chain_is_refused_test() ->
    Holed = fun(Class) -> right(Class) -- [own("probe_2", 1)] end,
    Verdicts = verify(fun(Class, Pids) -> looks(Class, Pids, Holed) end),
    ?assertEqual([], [Class || {Class, verified} <- maps:to_list(Verdicts)]).

what_is_not_seen_is_not_verified_test() ->
    Waiting = fun(_, Pids) -> [{Pid, #{status => waiting, stack => []}} || Pid <- Pids] end,
    #{nif := {unseen, Why}} = verify(Waiting),
    ?assertMatch({match, _}, re:run(Why, "not seen at work in time")).

the_collector_is_seen_at_what_its_probe_prepares_test() ->
    Preparing = fun(gc) -> [gc, {<<"lists">>, <<"seq_loop">>, 3, <<>>, 0} | tl(chain("work_gc"))];
                   (Class) -> right(Class) end,
    ?assertMatch(#{gc := verified}, verify(fun(Class, Pids) -> looks(Class, Pids, Preparing) end)).

the_probe_ends_with_its_caller_test() ->
    Self = self(),
    Caller = spawn(fun() ->
        Self ! {probe, flame_prof_capture_check:start()},
        receive never -> ok end
    end),
    Probe = receive {probe, Pid} -> Pid end,
    Monitor = monitor(process, Probe),
    exit(Caller, kill),
    receive {'DOWN', Monitor, process, Probe, _} -> ok end.

%% On the release that runs here. A class that a busy machine has not shown is looked at
%% once more; a wrong one stays wrong.
every_class_is_verified_on_this_vm_test() ->
    case flame_prof_nif:platform() of
        #{native := true} -> verified_here(10);
        #{why := Why} -> ?debugFmt("skipped: ~ts", [Why])
    end.

%% Over several checks, as a busy machine may not show each class in one of them.
verified_here(Tries) ->
    {ok, _} = flame_prof_calibration:ensure(),
    {ok, _, _} = flame_prof_schedulers:ensure(),
    verified_here(Tries, flame_prof_capture_check:classes()).

verified_here(Tries, Classes) ->
    Verdicts = verify(Classes, fun(_, Pids) -> flame_prof_nif:snapshot([check | Pids]) end),
    ?assertEqual([], [Wrong || {_, {wrong, _}} = Wrong <- maps:to_list(Verdicts)]),
    case [Class || {Class, {unseen, _}} <- maps:to_list(Verdicts)] of
        [] -> ok;
        Unseen when Tries > 1 -> verified_here(Tries - 1, Unseen)
    end.

verify(Snapshot) -> verify(flame_prof_capture_check:classes(), Snapshot).

verify(Classes, Snapshot) ->
    Probe = flame_prof_capture_check:start(),
    Verdicts = flame_prof_capture_check:verify(Probe, Classes, Snapshot),
    ok = flame_prof_capture_check:stop(Probe),
    ?assertNot(is_process_alive(Probe)),
    Verdicts.

looks(Class, Pids, Stack) ->
    [{Pid, #{status => running, stack => Stack(Class)}} || Pid <- Pids].

right(erlang) -> chain("work_erlang");
right(light_bif) -> [{bif, {<<"lists">>, <<"keyfind">>, 3}} | chain("work_light_bif")];
right(heavy_bif) -> [{bif, {<<"erts_internal">>, <<"garbage_collect">>,
    1}} | chain("work_heavy_bif")];
right(nif) -> [{nif, {<<"flame_prof_nif">>, <<"capture_probe">>, 1}} | chain("work_nif")];
right(gc) -> [gc | chain("work_gc")].

chain(Leaf) -> [own(Leaf, 2) | [own(F, 1) || F <- ["probe_3", "probe_2", "probe_1", "probe"]]].

own(Function, Arity) ->
    {?CHECK, list_to_binary(Function), Arity, <<"flame_prof_capture_check.erl">>, 1}.
