%% Who causes a function, on workloads whose answer is known. How right the shares are:
%% test/proof/blame_proof_SUITE.
-module(flame_prof_blame_tests).

-include_lib("eunit/include/eunit.hrl").

-import(blamed_work, [with_asking/1, with/2, is_of/2]).

native_test_() ->
    case native_node:why_not() of
        none ->
            {setup, fun setup/0, fun teardown/1, fun(Setup) ->
                [{timeout, 60, {Title, fun() -> Test(Setup) end}} || {Title, Test} <- tests()]
            end};
        Why -> {"skipped: " ++ Why, []}
    end.

tests() ->
    [{"the callers of a BIF have their own callers", fun bif/1},
        {"any arity is any arity", fun any_arity/1},
        {"a name as it stands in a frame is enough", fun name/1},
        {"a function of Elixir has the name that hot shows", fun elixir/1},
        {"garbage collection is put down to who makes garbage", fun gc/1},
        {"a library's callers are those of its functions", fun library/1},
        {"an Erlang function's caller is above the outermost of its frames", fun recursion/1},
        {"what never ran is said so, with names that look alike", fun misspelt/1},
        {"beside a profile, whose counters balance", fun beside_profile/1},
        {"a killed caller leaves nothing behind", fun killed_caller/1},
        {"files are for their owner, and gone in the end", fun private/1},
        {"no directory for the files is an error", fun no_directory/1},
        {"prints and answers ok", fun prints/1}].

setup() ->
    Directory = "/tmp/blame_tests_" ++ os:getpid(),
    ok = file:make_dir(Directory),
    os:putenv("TMPDIR", Directory),
    Directory.

teardown(Directory) ->
    os:unsetenv("TMPDIR"),
    ok = file:del_dir(Directory).

%% Until it has what is wanted: at times a scheduler waits for a CPU, and is seen at one place.
report(Target, IsEnough) ->
    waiting:eventually(fun() ->
        {ok, Report} = flame_prof_blame:report(Target, 200),
        consistent(Report),
        case IsEnough(Report) of true -> {true, Report}; false -> {too_little, Report} end
    end).

matched(#{matched := Matched}) -> Matched > 0.

%% The rows of callers by function, whatever the line and what it called.
rows(Function, #{callers := Callers}) ->
    [Row || #{name := Name} = Row <- Callers, is_of(Name, Function)].

has(Functions) ->
    fun(Report) -> lists:all(fun(F) -> rows(F, Report) =/= [] end, Functions) end.

consistent(#{samples := All, idle := Idle, running := Running, matched := Matched} = Report) ->
    #{callers := Callers, processes := Processes} = Report,
    ?assertEqual(All, Idle + Running),
    ?assert(Matched =< Running),
    ?assertEqual(Matched, lists:sum([N || #{samples := N} <- Callers])),
    ?assertEqual(Matched, lists:sum([N || #{samples := N} <- Processes])),
    [?assert(lists:sum([N || {_, N} <- maps:get(callers, Row)]) =< maps:get(samples, Row))
     || Row <- Callers].

elixir(_) ->
    {ok, Module, Code} = compile:forms([{attribute, 1, module, 'Elixir.Shop.Cart'},
        {attribute, 1, export, [{total, 1}]},
        {function, 1, total, 1, [{clause, 1, [{var, 1, 'N'}], [],
            [{call, 1, {atom, 1, total}, [{op, 1, '+', {var, 1, 'N'}, {integer, 1, 1}}]}]}]}]),
    {module, Module} = code:load_binary(Module, "cart.ex", Code),
    Pid = spawn(Module, total, [0]),
    try
        [report(Function, fun matched/1) || Function <- ["Shop.Cart.total/1", "&Shop.Cart.total/1",
            fun Module:total/1, "Elixir.Shop.Cart:total/1"]]
    after
        exit(Pid, kill),
        true = code:delete(Module)
    end.

bif(_) ->
    with_asking(fun(Pid) ->
        #{processes := Processes} = Report = report({ets, lookup, 2}, has(["often/1", "seldom/1"])),
        [begin
            [#{through := none, callers := [{Caller, _}]} | _] = rows(F, Report),
            ?assert(is_of(Caller, "asking/1"))
        end || F <- ["often/1", "seldom/1"]],
        Name = list_to_binary(pid_to_list(Pid)),
        ?assertMatch([_], [P || #{name := P} <- Processes, binary:match(P, Name) =/= nomatch])
    end).

any_arity(_) ->
    with_asking(fun(_) ->
        #{target := <<"ets:lookup/_">>} = report({ets, lookup, '_'}, has(["often/1"]))
    end).

name(_) ->
    with_asking(fun(_) ->
        [report(Name, has(["often/1"])) || Name <- ["ets:lookup/2", <<"bif">>]]
    end).

gc(_) ->
    with(spawn(blamed_work, garbage, [lists:seq(1, 20000)]), fun(_) ->
        report(gc, fun(#{callers := Callers}) ->
            lists:any(fun(#{name := Name}) -> is_garbage(Name) end, Callers) end)
    end).

%% The comprehension is a function of its own, but where the compiler inlines it.
is_garbage(Name) -> nomatch =/= binary:match(Name, <<"garbage/1">>).

library(_) ->
    with_asking(fun(_) ->
        report("beam.smp", fun(Report) ->
            lists:member(<<"ets:lookup/2">>, [T || #{through := T} <- rows("often/1", Report)]) end)
    end).

recursion(_) ->
    with(spawn(blamed_work, entry, [20]), fun(Pid) ->
        Turn = {blamed_work, turn, 1},
        #{processes := [#{name := Name}]} = Report = report(Turn, has(["walk/1"])),
        ?assertNotEqual(nomatch, binary:match(Name, list_to_binary(pid_to_list(Pid)))),
        %% Not turn/1 itself, which calls walk/1 all but once.
        [?assertMatch([{<<"blamed_work:entry/1:", _/binary>>, _}], Callers)
            || #{callers := Callers} <- rows("walk/1", Report)]
    end).

misspelt(_) ->
    with_asking(fun(_) ->
        #{matched := 0, callers := [], processes := [], alike := Alike} = Report =
            report({ets, lokup, 2}, fun(#{alike := Names}) -> Names =/= [] end),
        ?assertNotEqual(false, lists:keyfind(<<"ets:lookup/2">>, 1, Alike)),
        Text = unicode:characters_to_binary(flame_prof_blame:format(Report)),
        ?assertNotEqual(nomatch, binary:match(Text, <<"ets:lokup/2 was on none of">>)),
        ?assertNotEqual(nomatch, binary:match(Text, <<"ets:lookup/2\n">>))
    end).

beside_profile(_) ->
    Directory = "/tmp/blame_profile_" ++ os:getpid(),
    %% Who asks is born after the session: it has to be chosen before it is asked.
    {ok, Session} = flame_prof:start(#{dir => Directory, select => {top, 100, 100}}),
    try
        with_asking(fun(_) ->
            report({ets, lookup, 2}, has(["often/1"])),
            %% Neither keeps the other from its answers.
            waiting:eventually(fun() ->
                {ok, _} = flame_prof_blame:report({ets, lookup, 2}, 200),
                #{counters := #{captures := Captures}} = flame_prof:info(),
                Captures > 0
            end)
        end),
        ?assert(is_process_alive(Session))
    after
        {ok, Run} = flame_prof:stop(),
        #{attempted := T, written := W, inconsistent := N, dropped := D, exited := G} = Run,
        ?assertEqual(T, W + N + D + G),
        file:del_dir_r(Directory)
    end.

killed_caller(Directory) ->
    {0, Threads} = native_node:settled(),
    Caller = spawn(fun() -> flame_prof:blame(gc, 60000) end),
    waiting:eventually(fun() -> filelib:wildcard(Directory ++ "/*/*.log*") =/= [] end),
    {Processes, More} = native_node:leftovers(),
    ?assert(Processes >= 1),
    ?assert(More > Threads),
    exit(Caller, kill),
    waiting:eventually(fun() -> {ok, []} =:= file:list_dir(Directory) end),
    waiting:eventually(fun() -> {0, Threads} =:= native_node:leftovers() end).

private(Directory) ->
    Self = self(),
    Asking = spawn_link(fun() -> Self ! {self(), flame_prof_blame:report(gc, 1000)} end),
    File = waiting:eventually(fun() ->
        case filelib:wildcard(Directory ++ "/*/*.log*") of
            [Found] -> {true, Found};
            [] -> false
        end
    end),
    ?assertEqual(8#600, mode(File)),
    ?assertEqual(8#700, mode(filename:dirname(File))),
    receive {Asking, {ok, _}} -> ok end,
    ?assertEqual({ok, []}, file:list_dir(Directory)).

mode(Path) ->
    {ok, Info} = file:read_file_info(Path),
    %% #file_info.mode
    element(8, Info) band 8#777.

no_directory(Directory) ->
    os:putenv("TMPDIR", Directory ++ "/missing"),
    try
        {error, {file, #{file := Where, reason := enoent}}} = flame_prof:blame(gc, 10),
        ?assertNotEqual(nomatch, string:find(Where, "missing"))
    after os:putenv("TMPDIR", Directory)
    end.

prints(_) ->
    with_asking(fun(_) ->
        waiting:eventually(fun() ->
            {ok, Text} = native_node:printed(fun() -> flame_prof:blame({ets, lookup, 2}, 300) end),
            [{_, _}, {_, _}] = [binary:match(Text, Said)
                || Said <- [<<"ets:lookup/2 was on ">>, <<"blamed_work:often/1:">>]],
            true
        end)
    end).

%% Arguments.

what_is_no_function_is_refused_test_() ->
    [?_assertMatch({error, {badarg, #{argument := function}}}, flame_prof:blame(Bad, 1000))
     || Bad <- ['', ets, {ets, lookup}, {ets, lookup, 256}, {ets, lookup, -1}, {"ets", lookup, 2},
            {ets, '_', "_"}, <<>>, "", [300000000], <<255>>, 7, #{}, [a]]].

what_is_no_time_is_refused_test_() ->
    [?_assertMatch({error, {bad_option, #{option := for}}}, flame_prof:blame(gc, Bad))
     || Bad <- [0, 9, 60001, -1, 1.0e3, infinity]].

refusals_say_what_is_accepted_test() ->
    {error, Function} = flame_prof:blame(ets, 1000),
    ?assertNotEqual(nomatch, string:find(flame_prof:format_error(Function), "Arity")),
    {error, Time} = flame_prof:blame(gc, 0),
    ?assertNotEqual(nomatch, string:find(flame_prof:format_error(Time), "10 to 60000")).

%% Text, of a report that is made up.

a_report_as_text_test() ->
    Row = fun(Name, Samples) ->
        #{name => Name, samples => Samples, share => Samples / 4, share_of_running => Samples / 10}
    end,
    Report = #{target => <<"gc">>, elapsed_ms => 2000, interval_ms => 1, schedulers => 2,
        samples => 2000, idle => 1000, running => 1000, matched => 400, inconsistent => 3,
        share_of_running => 40.0, share_of_time => 20.0, error_points => 4.9,
        callers => [(Row(<<"m:f/1:7">>, 300))#{
                through => <<"ets:lookup/2">>, callers => [{<<"m:g/0:1">>, 200}, {<<"m:h/0">>, 100}]
            },
            (Row(<<"Elixir.M:i/1">>, 100))#{through => none, callers => []}],
        processes => [Row(<<"worker <0.9.0>">>, 400)], alike => []},
    ?assertEqual("gc was on 40.0 % of the stacks of running processes:\n"
        "400 of 1,000 samples in 2.0 s, one every 1 ms from each of 2 schedulers, 3 could not be"
        " used.\n"
        "That is 20.0 % of the schedulers' time, 0.80 s.\n"
        "The callers' shares are good to about 4.9 points.\n\n"
        "Callers\n"
        "  share  of all    samples  caller < its own caller\n"
        "  75.0%   30.0%       300  m:f/1:7 (in ets:lookup/2) < m:g/0:1, 1 more\n"
        "  25.0%   10.0%       100  M.i/1\n\n"
        "Processes\n"
        "  share  of all    samples  process\n"
        " 100.0%   40.0%       400  worker <0.9.0>\n",
        unicode:characters_to_list(flame_prof_blame:format(Report))),
    Few = unicode:characters_to_list(flame_prof_blame:format(Report#{matched := 10})),
    ?assertNotEqual(nomatch,
        string:find(Few, "Too few samples for more than a hint: take 60000 ms")),
    Many = [(Row(<<"m:f/", (integer_to_binary(N))/binary>>, 1))#{through => none, callers => []}
     || N <- lists:seq(1, 20)],
    Long = unicode:characters_to_list(flame_prof_blame:format(Report#{callers := Many})),
    ?assertNotEqual(nomatch, string:find(Long, " 5 more\n")),
    [?assert(length(Line) =< 100) || Line <- string:split(Few ++ Long, "\n", all)].
