%% Which classes of capture are off, and what a session and an inspection make of that.
-module(flame_prof_capture_classes_tests).

-include_lib("eunit/include/eunit.hrl").

%% For peers.
-export([misread/0]).

-import(waiting, [eventually/1]).

-define(NOT_SAMPLED, <<"running_stack_not_sampled">>).
-define(UNSEEN, {unseen, <<"not seen">>}).
-define(WRONG, {wrong, <<"a wrong stack">>}).

what_is_wrong_is_off_on_each_release_test() ->
    Verdicts = #{erlang => verified, light_bif => verified, heavy_bif => verified,
        nif => ?WRONG, gc => verified},
    [?assertEqual(#{nif => <<"a wrong stack">>}, flame_prof_capture_classes:off(Verdicts, IsTested))
     || IsTested <- [true, false]].

what_is_unseen_is_off_where_no_test_has_verified_it_test() ->
    Verdicts = #{erlang => verified, light_bif => verified, heavy_bif => verified, gc => ?UNSEEN},
    ?assertEqual(#{}, flame_prof_capture_classes:off(Verdicts, true)),
    ?assertMatch(#{gc := <<"not seen">>, nif := <<"its check has not ended yet">>} = Off
            when map_size(Off) =:= 2, flame_prof_capture_classes:off(Verdicts, false)).

no_check_runs_twice_for_what_is_known_test_() -> natively(fun() ->
    {ok, _, _} = flame_prof_schedulers:ensure(),
    eventually(fun() ->
        ok = flame_prof_capture_classes:ensure(),
        %% A check that has nothing to do ends before that returns.
        whereis(flame_prof_capture_classes) =:= undefined
    end),
    ?assertEqual(#{}, flame_prof_capture_classes:off()),
    ?assertEqual(undefined, whereis(flame_prof_capture_probe))
end).

no_probe_is_left_by_a_check_that_is_ended_test_() -> natively(fun() ->
    {ok, _, _} = flame_prof_schedulers:ensure(),
    ok = flame_prof_capture_classes:forget(),
    ok = flame_prof_capture_classes:ensure(),
    Probe = whereis(flame_prof_capture_probe),
    ?assert(is_pid(Probe)),
    ok = flame_prof_capture_classes:forget(),
    ?assertNot(is_process_alive(Probe)),
    %% The next one begins, with a probe of its own.
    ok = flame_prof_capture_classes:ensure(),
    ?assert(is_pid(whereis(flame_prof_capture_probe)))
end).

a_class_that_is_off_test_() -> natively(fun() ->
    {ok, _, _} = flame_prof_schedulers:ensure(),
    Nif = spawn_link(fun in_nif/0),
    Erlang = spawn_link(fun in_erlang/0),
    try
        ok = until_seen([Nif], fun is_nif/1),
        %% No check runs from now on.
        ok = flame_prof_capture_classes:forget(),
        ok = flame_prof_nif:captures_off([nif]),
        ok = until_seen([Nif], fun(Stack) -> Stack =:= [running_stack_not_sampled] end),
        ok = until_seen([Erlang], fun(Stack) -> length(Stack) > 1 end),
        %% The check itself sees what is off.
        ok = until_seen([check, Nif], fun is_nif/1),
        ?assertError(badarg, flame_prof_nif:captures_off([no_class]))
    after
        ok = flame_prof_nif:captures_off([]),
        [exit(unlink(P) andalso P, kill) || P <- [Nif, Erlang]]
    end
end).

%% The library of test/hooks/agent/nif_as_bif.c: a decoder that is wrong.
a_class_that_is_misread_is_off_and_told_test_() -> natively(fun() ->
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    Command = [os:find_executable("env"), "FLAME_PROF_TEST_NIF_AS_BIF=1", Erl],
    {Off, Text} = peer_vm:value(Command, ?MODULE, misread, []),
    ?assertEqual([nif], maps:keys(Off)),
    #{nif := Why} = Off,
    ?assertMatch({match, _}, re:run(Why, "a capture of its probe shows .*capture_probe")),
    [?assertMatch({Part, {_, _}}, {Part, binary:match(Text, Part)})
     || Part <- [?NOT_SAMPLED, <<"flame_prof_capture_classes_tests:spin/1">>]]
end).

misread() ->
    ok = hooked_library:use(),
    {ok, _} = application:ensure_all_started(flame_prof),
    {ok, _} = flame_prof_calibration:ensure(),
    {ok, _, _} = flame_prof_schedulers:ensure(),
    %% On a busy machine a check may not see the class: another one at once.
    eventually(fun() ->
        ok = flame_prof_capture_classes:ensure(),
        map_size(flame_prof_capture_classes:off()) > 0
    end),
    Directory = filename:join("/tmp", "flame_prof_classes_" ++ os:getpid()),
    Processes = [spawn_link(fun in_nif/0), spawn_link(fun in_erlang/0)],
    {ok, _} = flame_prof:start(#{dir => Directory, sample_interval => 1, engine => native,
        cpu_budget => infinity, compress => none, include => Processes}),
    eventually(fun() -> maps:get(captures, maps:get(counters, flame_prof:info())) > 100 end),
    {ok, #{files := Files, capture_classes := Off}} = flame_prof:stop(),
    {ok, Text} = file:read_file(lists:last(Files)),
    _ = file:del_dir_r(Directory),
    {Off, Text}.

natively(Test) ->
    {timeout, 600, fun() ->
        case flame_prof_nif:platform() of
            #{native := true} ->
                {ok, _} = flame_prof_calibration:ensure(),
                Test();
            #{why := Why} -> ?debugFmt("skipped: ~ts", [Why])
        end
    end}.

is_nif(Stack) -> lists:member({nif, {<<"flame_prof_nif">>, <<"capture_probe">>, 1}}, Stack).

until_seen(What, Is) ->
    eventually(fun() ->
        lists:any(Is, [Stack || {_, #{status := running, stack := Stack}} <-
            flame_prof_nif:snapshot(What)])
    end).

in_nif() ->
    ok = flame_prof_nif:capture_probe(500),
    in_nif().

in_erlang() ->
    [_] = [spin(1000000)],
    in_erlang().

spin(0) -> 0;
spin(N) -> spin(N - 1).
