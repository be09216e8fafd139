%% Who causes a function, on workloads whose answer is known.
-module(flame_prof_blame_tests).

-include_lib("eunit/include/eunit.hrl").

-export([asking/1, garbage/1, entry/1]).

-define(ENOUGH, 150).

native_test_() ->
    case native_node:why_not() of
        none ->
            {timeout, 6000, {setup, fun setup/0, fun teardown/1, fun(Setup) ->
                [{timeout, 1800, {Title, fun() -> Test(Setup) end}} || {Title, Test} <- tests()]
            end}};
        Why ->
            {"skipped: " ++ Why, []}
    end.

tests() ->
    [
        {"a BIF's callers have their shares, 3 to 1", fun bif/1},
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
        {"prints and answers ok", fun prints/1}
    ].

setup() ->
    Directory = "/tmp/blame_tests_" ++ os:getpid(),
    ok = file:make_dir(Directory),
    os:putenv("TMPDIR", Directory),
    Directory.

teardown(Directory) ->
    os:unsetenv("TMPDIR"),
    ok = file:del_dir(Directory).

%% Workloads.

asking(Table) ->
    often(Table),
    seldom(Table),
    asking(Table).

often(Table) ->
    _ = ets:lookup(Table, key),
    _ = ets:lookup(Table, key),
    _ = ets:lookup(Table, key),
    ok.

seldom(Table) ->
    _ = ets:lookup(Table, key),
    ok.

garbage(Live) ->
    garbage([N + 1 || N <- Live]).

entry(Depth) ->
    _ = walk(Depth),
    entry(Depth).

%% Two functions in turn.
walk(0) -> lists:sum(lists:seq(1, 500));
walk(N) -> 1 + turn(N - 1).

turn(N) -> 1 + walk(N).

with_asking(Fun) ->
    Table = ets:new(table, [public]),
    ets:insert(Table, {key, lists:seq(1, 500)}),
    with(spawn(?MODULE, asking, [Table]), Fun).

with(Pid, Fun) ->
    try
        Fun(Pid)
    after
        exit(Pid, kill)
    end.

%% Until there are enough samples to judge shares by: the machine may be busy.
report(Target) ->
    report(Target, 2000, 12).

report(Target, Ms, Attempts) ->
    RunUs = run_us(),
    {ok, #{matched := Matched} = Report} = flame_prof_blame:report(Target, Ms),
    %% A scheduler that waits for a CPU is seen at one place again and again.
    IsHeldUp = Ms < 16000 andalso RunUs =/= unknown andalso run_us() - RunUs < 1000000,
    case (Matched < ?ENOUGH orelse IsHeldUp) andalso Attempts > 1 of
        true -> report(Target, min(60000, 2 * Ms), Attempts - 1);
        false -> Report
    end.

%% Not every kernel tells it.
run_us() ->
    case flame_prof_doctor_os:look() of
        {ok, #{schedulers := #{run_us := RunUs}}} -> RunUs;
        {ok, #{}} -> unknown
    end.

%% Of a caller by its function's name, whatever its line and what it called.
share(Function, #{callers := Callers}) ->
    lists:sum([S || #{name := Name, share := S} <- Callers, is_of(Name, Function)]).

is_of(Name, Function) ->
    Prefix = "flame_prof_blame_tests:" ++ Function ++ ":",
    lists:prefix(Prefix, binary_to_list(Name)).

%% At times a scheduler waits for a CPU for tenths of a second, and is seen at one place meanwhile.
median_share(Function, Reports) ->
    lists:nth((length(Reports) + 1) div 2, lists:sort([share(Function, R) || R <- Reports])).

is_often(Target) ->
    Reports = [report(Target) || _ <- lists:seq(1, 3)],
    ?assert(median_share("often/1", Reports) > 50, Reports),
    Reports.

consistent(#{samples := All, idle := Idle, running := Running, matched := Matched} = Report) ->
    #{callers := Callers, processes := Processes} = Report,
    ?assertEqual(All, Idle + Running),
    ?assert(Matched =< Running),
    ?assertEqual(Matched, lists:sum([N || #{samples := N} <- Callers])),
    ?assertEqual(Matched, lists:sum([N || #{samples := N} <- Processes])),
    [
        ?assert(lists:sum([N || {_, N} <- maps:get(callers, Row)]) =< maps:get(samples, Row))
     || Row <- Callers
    ].

elixir(_) ->
    {ok, Module, Code} = compile:forms([
        {attribute, 1, module, 'Elixir.Shop.Cart'},
        {attribute, 1, export, [{total, 1}]},
        {function, 1, total, 1, [{clause, 1, [{var, 1, 'N'}], [],
            [{call, 1, {atom, 1, total}, [{op, 1, '+', {var, 1, 'N'}, {integer, 1, 1}}]}]}]}
    ]),
    {module, Module} = code:load_binary(Module, "cart.ex", Code),
    Pid = spawn(Module, total, [0]),
    try
        [begin
            #{matched := Shown} = report(Function),
            ?assert(Shown > 0)
        end || Function <- ["Shop.Cart.total/1", "&Shop.Cart.total/1", fun Module:total/1]],
        #{matched := InFile} = report("Elixir.Shop.Cart:total/1"),
        ?assert(InFile > 0)
    after
        exit(Pid, kill),
        true = code:delete(Module)
    end.

bif(_) ->
    with_asking(fun(Pid) ->
        [Report | _] = Reports = [report({ets, lookup, 2}) || _ <- lists:seq(1, 5)],
        lists:foreach(fun consistent/1, Reports),
        Often = median_share("often/1", Reports),
        Seldom = median_share("seldom/1", Reports),
        %% Of 150 samples, 75 % +- 4.5 standard deviations.
        ?assert(Often > 59 andalso Often < 91, Reports),
        ?assert(Seldom > 9 andalso Seldom < 41, Reports),
        ?assert(maps:get(share_of_running, Report) > 50),
        [#{through := none, callers := [{Caller, _}]} | _] = maps:get(callers, Report),
        ?assert(is_of(Caller, "asking/1")),
        [#{name := Name} | _] = maps:get(processes, Report),
        ?assertNotEqual(nomatch, binary:match(Name, list_to_binary(pid_to_list(Pid))))
    end).

any_arity(_) ->
    with_asking(fun(_) ->
        [#{target := <<"ets:lookup/_">>} | _] = is_often({ets, lookup, '_'})
    end).

name(_) ->
    with_asking(fun(_) ->
        is_often("ets:lookup/2"),
        is_often(<<"bif">>)
    end).

gc(_) ->
    with(spawn(?MODULE, garbage, [lists:seq(1, 20000)]), fun(_) ->
        Report = report(gc),
        consistent(Report),
        ?assert(maps:get(matched, Report) >= ?ENOUGH),
        ?assertNotEqual([], [
            Name
         || #{name := Name} <- maps:get(callers, Report), is_garbage(Name)
        ])
    end).

%% The comprehension is a function of its own, but where the compiler inlines it.
is_garbage(Name) ->
    nomatch =/= binary:match(Name, <<"garbage/1">>).

library(_) ->
    with_asking(fun(_) ->
        [Report | _] = is_often("beam.smp"),
        consistent(Report),
        Through = [T || #{through := T} <- maps:get(callers, Report)],
        ?assert(lists:member(<<"ets:lookup/2">>, Through))
    end).

recursion(_) ->
    with(spawn(?MODULE, entry, [20]), fun(_) ->
        Report = report({?MODULE, turn, 1}),
        consistent(Report),
        ?assert(share("walk/1", Report) > 95, Report),
        %% Not turn/1 itself, which calls walk/1 all but once.
        [#{callers := [{Caller, _}]}] =
            [Row || #{name := Name} = Row <- maps:get(callers, Report), is_of(Name, "walk/1")],
        ?assert(is_of(Caller, "entry/1"))
    end).

misspelt(_) ->
    with_asking(fun(_) ->
        Report = waiting:eventually(fun() ->
            case flame_prof_blame:report({ets, lokup, 2}, 1000) of
                {ok, #{running := Running} = R} when Running >= 20 -> {true, R};
                {ok, _} -> false
            end
        end),
        #{matched := 0, callers := [], processes := [], alike := Alike} = Report,
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
            is_often({ets, lookup, 2}),
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
    Asking = spawn_link(fun() -> Self ! {self(), flame_prof_blame:report(gc, 4000)} end),
    File = waiting:eventually(fun() ->
        case filelib:wildcard(Directory ++ "/*/*.log*") of
            [Found] -> {true, Found};
            [] -> false
        end
    end),
    ?assertEqual(8#600, mode(File)),
    ?assertEqual(8#700, mode(filename:dirname(File))),
    receive
        {Asking, {ok, _}} -> ok
    end,
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
    after
        os:putenv("TMPDIR", Directory)
    end.

prints(_) ->
    with_asking(fun(_) ->
        {ok, Text} = native_node:printed(fun() -> flame_prof:blame({ets, lookup, 2}, 3000) end),
        ?assertNotEqual(nomatch, binary:match(Text, <<"ets:lookup/2 was on ">>)),
        ?assertNotEqual(nomatch, binary:match(Text, <<"flame_prof_blame_tests:often/1:">>))
    end).

%% Arguments.

what_is_no_function_is_refused_test_() ->
    [
        ?_assertMatch({error, {badarg, #{argument := function}}}, flame_prof:blame(Bad, 1000))
     || Bad <- [
            '', ets, {ets, lookup}, {ets, lookup, 256}, {ets, lookup, -1}, {"ets", lookup, 2},
            {ets, '_', "_"}, <<>>, "", [300000000], <<255>>, 7, #{}, [a]
        ]
    ].

what_is_no_time_is_refused_test_() ->
    [
        ?_assertMatch({error, {badarg, #{argument := ms}}}, flame_prof:blame(gc, Bad))
     || Bad <- [0, 9, 60001, -1, 1.0e3, infinity, undefined]
    ].

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
    Report = #{
        target => <<"gc">>,
        elapsed_ms => 2000,
        interval_ms => 1,
        schedulers => 2,
        samples => 2000,
        idle => 1000,
        running => 1000,
        matched => 400,
        inconsistent => 3,
        share_of_running => 40.0,
        share_of_time => 20.0,
        error_points => 4.9,
        callers => [
            (Row(<<"m:f/1:7">>, 300))#{
                through => <<"ets:lookup/2">>, callers => [{<<"m:g/0:1">>, 200}, {<<"m:h/0">>, 100}]
            },
            (Row(<<"Elixir.M:i/1">>, 100))#{through => none, callers => []}
        ],
        processes => [Row(<<"worker <0.9.0>">>, 400)],
        alike => []
    },
    ?assertEqual(
        "gc was on 40.0 % of the stacks of running processes:\n"
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
        unicode:characters_to_list(flame_prof_blame:format(Report))
    ),
    Few = unicode:characters_to_list(flame_prof_blame:format(Report#{matched := 10})),
    ?assertNotEqual(nomatch,
        string:find(Few, "Too few samples for more than a hint: take 60000 ms")),
    Many = [
        (Row(<<"m:f/", (integer_to_binary(N))/binary>>, 1))#{through => none, callers => []}
     || N <- lists:seq(1, 20)
    ],
    Long = unicode:characters_to_list(flame_prof_blame:format(Report#{callers := Many})),
    ?assertNotEqual(nomatch, string:find(Long, " 5 more\n")),
    [?assert(length(Line) =< 100) || Line <- string:split(Few ++ Long, "\n", all)].
