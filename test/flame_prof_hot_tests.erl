-module(flame_prof_hot_tests).

-include_lib("eunit/include/eunit.hrl").

%% Twelve samples whose shares are known.
-define(STACKS, [
    {6, "running", 100, ["lists:map/2:10", "foo:bar/1:7", "proc_lib:init_p_do_apply/3:240"]},
    %% The same functions in other lines.
    {2, "running", 50, ["lists:map/2:11", "foo:bar/1:8", "proc_lib:init_p_do_apply/3:240"]},
    {3, "waiting", 0, ["gen_server:loop/7:871", "proc_lib:init_p_do_apply/3:240"]},
    {1, "waiting", -40, ["lists:map/2:10", "gen_server:loop/7:871"]}
]).

shares_of_samples_test() ->
    {ok, Report} = hot(#{}),
    ?assertMatch(#{total := #{samples := 12, value := 12}, files := 1}, Report),
    ?assertMatch(#{read := #{samples := 12, bad := 0}}, Report),
    ?assertEqual([{<<"running">>, 8}, {<<"waiting">>, 4}], values(statuses, Report)),
    ?assertEqual(
        [
            {{<<"running">>, [<<"lists:map/2">>, <<"foo:bar/1">>,
                <<"proc_lib:init_p_do_apply/3">>]}, 8},
            {{<<"waiting">>, [<<"gen_server:loop/7">>, <<"proc_lib:init_p_do_apply/3">>]}, 3},
            {{<<"waiting">>, [<<"lists:map/2">>, <<"gen_server:loop/7">>]}, 1}
        ],
        values(stacks, Report)
    ),
    ?assertEqual([{<<"lists:map/2">>, 9}, {<<"gen_server:loop/7">>, 3}], values(leaves, Report)),
    #{stacks := [{_, #{share := Share}} | _]} = Report,
    ?assert(abs(Share - 100 * 8 / 12) < 0.001).

shares_of_a_metric_test() ->
    {ok, Report} = hot(#{by => reductions}),
    ?assertMatch(#{total := #{samples := 12, value := 660}}, Report),
    ?assertEqual([{<<"running">>, 700}, {<<"waiting">>, -40}], values(statuses, Report)),
    ?assertEqual([{<<"lists:map/2">>, 660}, {<<"gen_server:loop/7">>, 0}], values(leaves, Report)).

only_one_status_test() ->
    {ok, Report} = hot(#{status => waiting}),
    ?assertMatch(#{total := #{samples := 4}}, Report),
    %% What it is a part of is still shown.
    ?assertEqual([{<<"running">>, 8}, {<<"waiting">>, 4}], values(statuses, Report)),
    ?assertEqual([{<<"gen_server:loop/7">>, 3}, {<<"lists:map/2">>, 1}], values(leaves, Report)),
    ?assertEqual([{<<"<0.3.0> proc_lib:init_p/5">>, 3}, {<<"<0.4.0>">>, 1}],
        values(processes, Report)).

processes_go_by_their_names_test() ->
    {ok, Report} = hot(#{}),
    ?assertEqual(
        [
            {<<"some body <0.1.0>">>, 6},
            {<<"<0.3.0> proc_lib:init_p/5">>, 3},
            {<<"<0.2.0> foo:start/0">>, 2},
            {<<"<0.4.0>">>, 1}
        ],
        values(processes, Report)
    ).

no_more_rows_than_wanted_test() ->
    {ok, Report} = hot(#{top => 1}),
    ?assertMatch(#{stacks := [_], leaves := [_], processes := [_]}, Report),
    ?assertMatch(#{distinct := #{stacks := 3, leaves := 2, processes := 4}}, Report),
    ?assertMatch({_, _}, binary:match(text(Report), <<"  3 more\n">>)).

a_period_is_a_weight_test() ->
    Text = unicode:characters_to_binary([sample(N, 1, S) || {N, S} <- numbered(?STACKS)]),
    Weighted = binary:replace(Text, <<": cpu">>, <<": 7 cpu">>, [global]),
    {ok, Report} = with_file(Weighted, fun(File) -> flame_prof_hot:hot(File, #{}) end),
    ?assertMatch(#{total := #{samples := 28, value := 28}}, Report).

bad_samples_are_counted_test() ->
    Text = ["nonsense\n\n", all(), "beam 4242/7"],
    {ok, Report} = with_file(Text, fun(File) -> flame_prof_hot:hot([File], #{}) end),
    ?assertMatch(#{read := #{samples := 12, bad := 2}}, Report),
    ?assertMatch({_, _}, binary:match(text(Report), <<"2 bad samples left out">>)).

an_empty_file_has_empty_tables_test() ->
    {ok, Report} = with_file("", fun(File) -> flame_prof_hot:hot([File], #{by => memory}) end),
    #{total := #{samples := 0, share := Share}, stacks := [], seconds := Seconds} = Report,
    ?assert(Share == 0 andalso Seconds == 0),
    ?assert(is_binary(text(Report))).

%% Names and callers of any length, in every table.
text_keeps_to_100_columns_test_() ->
    Long = lists:duplicate(300, $é),
    Deep = [io_lib:format("module_~b:function_~b/3:~b", [N, N, N]) || N <- lists:seq(1, 200)],
    Stacks = [
        {1, "garbage_collecting", 1 bsl 62, [[Long, ":f/1:3"], "a:b/2"]},
        {1, "suspended", 1 bsl 62, Deep},
        {1, "running", -(1 bsl 60), ["a:b/1", [Long, ":f/1"]]},
        {1, "running", 1, [["a:", Long, "/1"]]}
    ],
    Text = unicode:characters_to_binary([sample(N, 1, S) || {N, S} <- numbered(Stacks)]),
    [
        fun() ->
            {ok, Report} = with_file(Text, fun(File) -> flame_prof_hot:hot(File, Options) end),
            ?assertMatch(#{read := #{bad := 0}}, Report),
            Widths = [string:length(Line) || Line <- string:split(text(Report), "\n", all)],
            ?assert(lists:max(Widths) =< 100)
        end
     || Options <- [#{}, #{by => reductions}, #{depth => 1}, #{depth => 1000}]
    ].

a_chain_shows_leaf_and_root_test() ->
    Stack = {1, "running", 1, ["a:a/1", "b:b/1", "c:c/1", "d:d/1", "e:e/1"]},
    Text = sample(1, 1, Stack),
    [
        begin
            {ok, Report} = with_file(Text, fun(File) ->
                flame_prof_hot:hot(File, #{depth => Depth}) end),
            ?assertMatch({_, _}, binary:match(text(Report), <<"  ", Chain/binary, "\n">>))
        end
     || {Depth, Chain} <- [
            {1, <<"a:a/1 < ... < e:e/1">>},
            {2, <<"a:a/1 < b:b/1 < ... < e:e/1">>},
            {4, <<"a:a/1 < b:b/1 < c:c/1 < d:d/1 < e:e/1">>},
            {9, <<"a:a/1 < b:b/1 < c:c/1 < d:d/1 < e:e/1">>}
        ]
    ].

printing_goes_to_the_group_leader_test() ->
    with_file(all(), fun(File) -> ?assertEqual(ok, flame_prof_hot:print(File, #{top => 3})) end).

bad_options_are_named_test_() ->
    [
        ?_assertMatch({error, {bad_option, Key, _}}, flame_prof_hot:hot("/nowhere", Options))
     || {Key, Options} <- [
            {by, #{by => reduction}},
            {status, #{status => asleep}},
            {top, #{top => 0}},
            {depth, #{depth => all}},
            {sort, #{sort => by}},
            {options, []}
        ]
    ].

a_file_that_is_not_there_is_named_test() ->
    ?assertEqual({error, {"/nowhere", enoent}}, flame_prof_hot:print("/nowhere")).

hot(Options) ->
    with_file(all(), fun(File) -> flame_prof_hot:hot([File], Options) end).

values(Table, Report) ->
    [{Key, Value} || {Key, #{value := Value}} <- maps:get(Table, Report)].

text(Report) ->
    unicode:characters_to_binary(flame_prof_hot:format(Report)).

all() ->
    [sample(N, Time, Stack) || {N, {Count, _, _, _} = Stack} <- numbered(?STACKS),
        Time <- lists:seq(1, Count)].

numbered(Stacks) ->
    lists:zip(lists:seq(1, length(Stacks)), Stacks).

sample(N, Time, {_, Status, Reductions, Symbols}) ->
    unicode:characters_to_binary([
        io_lib:format("beam 4242/~b [000] ~b.~6..0b: cpu-clock:\n", [N, Time, N]),
        io_lib:format("# reductions=9/~b memory=1/1 erl_pid=<0.~b.0>~s (metrics)\n",
            [Reductions, N, words(N)]),
        [["\tffffffff ", Symbol, " (x.erl)\n"] || Symbol <- Symbols],
        ["\tffffffff ", Status, " (status)\n\n"]
    ]).

words(1) -> " name=some%20body initial_call=a:b/0";
words(2) -> " initial_call=foo:start/0";
words(3) -> " initial_call=proc_lib:init_p/5 proc_lib_initial_call=proc_lib:init_p/5";
words(_) -> "".

with_file(Text, Test) ->
    Unique = integer_to_list(erlang:unique_integer([positive])),
    Name = "flame_prof_hot_tests." ++ os:getpid() ++ "." ++ Unique,
    File = filename:join(os:getenv("TMPDIR", "/tmp"), Name),
    ok = file:write_file(File, Text),
    try
        Test(File)
    after
        file:delete(File)
    end.
