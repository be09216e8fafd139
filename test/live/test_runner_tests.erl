%% tools/test_erl.sh runs modules and adds them up: here modules that pass, fail, hang, do not
%% compile, and end their node.
-module(test_runner_tests).

-include_lib("eunit/include/eunit.hrl").

units_run_in_one_vm_and_in_one_each_if_that_ends_test_() ->
    fun() ->
        #{results := Results, failures := Failures, said := Said} = run([
            {runner_broken_tests, "it_is_no_erlang_test() -> .\n"},
            {runner_dies_tests, "it_dies_test() -> erlang:halt(7).\n"},
            {runner_fails_tests, "passes_test() -> ok.\nit_fails_test() -> ?assertEqual(1, 2).\n"},
            {runner_passes_tests, ["one_test() -> ok.\nother_test() -> ok.\n",
                "slow_test_() -> [{\"slow\", fun() -> timer:sleep(5500) end}].\n"]}
        ], #{}),
        ?assertEqual([<<"runner_broken_tests 0 1">>,
            %% One failure, whatever it had passed before.
            <<"runner_dies_tests 0 1">>, <<"runner_fails_tests 1 1">>, <<"runner_passes_tests 3 0">>
        ], Results),
        Expected = ["FAIL  runner_broken_tests: it does not compile",
            "FAIL  runner_dies_tests: the node died \\(exit status 7\\)",
            "FAIL  it_fails_test.*\n(.*\n)*.*assertEqual"],
        [?assertMatch({match, _}, re:run(Failures, Text)) || Text <- Expected],
        ?assertMatch({match, _}, re:run(Said, "the VM of the units ended"))
    end.

a_seed_repeats_the_order_of_units_test_() ->
    fun() ->
        Names = [list_to_atom("runner_" ++ [Letter] ++ "_tests") || Letter <- "abcdefgh"],
        Modules = [{Name, "it_passes_test() -> ok.\n"} || Name <- Names],
        [First, Second, Other] = [begin
            #{said := Said} = run(Modules, #{"SEED" => Seed}),
            {match, Order} = re:run(Said, "^  (runner_._tests) ", [global, multiline,
                {capture, all_but_first, list}]),
            Order
        end || Seed <- ["1", "1", "2"]],
        ?assertEqual(First, Second),
        ?assertNotEqual(First, Other),
        ?assertEqual(lists:sort(First), lists:sort(Other))
    end.

what_hangs_is_ended_and_reported_test_() ->
    fun() ->
        #{results := Results, failures := Failures, flaky := Flaky} = run([
            {runner_hangs_SUITE, suite("[hangs]", [{"hangs", "receive never -> ok end"}])},
            {runner_hangs_tests, "it_hangs_test() -> receive never -> ok end.\n"}
        ], #{"TEST_CASE_SECONDS" => "60", "TEST_MODULE_SECONDS" => "3"}),
        ?assertEqual([<<"runner_hangs_SUITE 0 1">>, <<"runner_hangs_tests 0 1">>], Results),
        ?assertEqual([], Flaky),
        [?assertMatch({match, _}, re:run(Failures, Text)) || Text <- [
            "FAIL  runner_hangs_tests: still running after 3 s\n(.*\n)*.*runner_hangs_tests:it_hangs_test/0",
            "FAIL  runner_hangs_SUITE: still running after 3 s\n(.*\n)*.*runner_hangs_SUITE:hangs/1"
        ]],
        #{failures := OfCases} = run([
            {runner_hangs_SUITE, suite("[hangs]", [{"hangs", "receive never -> ok end"}])},
            {runner_hangs_tests, "it_hangs_test() -> receive never -> ok end.\n"}
        ], #{"TEST_CASE_SECONDS" => "1"}),
        [?assertMatch({match, _}, re:run(OfCases, Text))
            || Text <- ["_SUITE: hangs\ntimetrap_timeout", "it_hangs_test: test cancelled\n *.timeout"]]
    end.

a_live_test_that_fails_runs_once_more_alone_test_() ->
    fun() ->
        #{results := Results, failures := Failures, flaky := Flaky} = run([
            {runner_once_SUITE, suite("[passes, once, {group, few}]", [
                {"passes", "ok = ran(passes)"},
                {"once", "2 = length(ran(once, os:getpid()))"},
                {"grouped", "2 = length(ran(grouped, os:getpid()))"}])},
            {runner_never_SUITE, suite("[passes, never]", [{"passes", "ok = ran(passes)"},
                {"grouped", "ok"},
                {"never", "3 = length(ran(never, os:getpid()))"}])},
            {runner_unit_tests, "unit_test() ->\n"
                "    File = filename:join(os:getenv(\"TEST_SOURCES\"), \"unit\"),\n"
                "    ok = file:write_file(File, <<\"1\">>, [append]),\n"
                "    ?assertEqual({ok, <<\"11\">>}, file:read_file(File)).\n"}
        ], #{}),
        ?assertEqual([<<"runner_never_SUITE 1 1">>,
            %% Its case that passed at once ran once: `passes' says so.
            <<"runner_once_SUITE 3 0">>,
            %% It would pass now, and is no live test.
            <<"runner_unit_tests 0 1">>
        ], Results),
        %% With the reason of the first run, as a log of CI has nothing else of it.
        ?assertMatch([<<"    FLAKY runner_once_SUITE: grouped (first: ", _/binary>>,
            <<"    FLAKY runner_once_SUITE: once (first: ", _/binary>>], lists:sort(Flaky)),
        ?assertEqual([], [Line || Line <- Flaky, string:find(Line, "badmatch") =:= nomatch]),
        ?assertMatch({match, _}, re:run(Failures, "FAIL  runner_never_SUITE: never")),
        ?assertMatch({match, _}, re:run(Failures, "FAIL  unit_test")),
        ?assertEqual(nomatch, re:run(Failures, "runner_once_SUITE"))
    end.

%% A case counts the VMs in which it ran: a second time in the same one is no fresh VM.
suite(All, Cases) ->
    ["-export([all/0, groups/0, ", lists:join(", ", [[Case, "/1"] || {Case, _} <- Cases]), "]).\n"
        "all() -> ", All, ".\n"
        "groups() -> [{few, [], [grouped]}].\n"
        "file(Case) -> filename:join(os:getenv(\"TEST_SOURCES\"), ?MODULE_STRING ++ \".\" ++ "
        "atom_to_list(Case)).\n"
        "ran(Case) -> [_] = ran(Case, os:getpid()), ok.\n"
        "ran(Case, Vm) ->\n"
        "    ok = file:write_file(file(Case), [Vm, \"\\n\"], [append]),\n"
        "    {ok, Text} = file:read_file(file(Case)),\n"
        "    lists:usort(string:lexemes(binary_to_list(Text), \"\\n\")).\n",
        [[Case, "(_) -> ", Body, ".\n"] || {Case, Body} <- Cases]].

run(Modules, Environment) ->
    Top = filename:join("/tmp", "flame_prof_test_runner_" ++ os:getpid()),
    [Results, Failures, Flaky] = Files = [filename:join(Top, Name)
        || Name <- ["results", "failures", "flaky"]],
    ok = filelib:ensure_dir(Results),
    try
        [ok = file:write_file(File, <<>>) || File <- Files],
        [ok = write(Top, Name, Tests) || {Name, Tests} <- Modules],
        Port = open_port({spawn_executable, checkout:path("tools/test_erl.sh")}, [
            {cd, checkout:path("")}, exit_status, stderr_to_stdout, binary, {env, [
                {"RESULTS", Results}, {"FAILURES", Failures}, {"FLAKY", Flaky}, {"TESTS", false},
                {"TEST_SOURCES", Top}, {"TEST_OUT", filename:join(Top, "out")},
                {"TEST_PLACES", "2"}, {"PART", false}, {"ERL_LIBS", false}, {"CLASSES", false}, {"LIVE", false},
                {"SEED", false} | maps:to_list(Environment)]}]),
        {0, Said} = command_line:await(Port),
        [R, F, A] = [element(2, {ok, _} = file:read_file(File)) || File <- Files],
        #{results => binary:split(R, <<"\n">>, [global, trim_all]), failures => F, said => Said,
            flaky => binary:split(A, <<"\n">>, [global, trim_all])}
    after ok = file:del_dir_r(Top)
    end.

write(Top, Module, Tests) ->
    Name = atom_to_list(Module),
    Folder = case lists:suffix("_SUITE", Name) of true -> "live"; false -> "unit" end,
    File = filename:join([Top, Folder, Name ++ ".erl"]),
    ok = filelib:ensure_dir(File),
    file:write_file(File, ["-module(", atom_to_list(Module), ").\n",
        "-include_lib(\"eunit/include/eunit.hrl\").\n", Tests]).
