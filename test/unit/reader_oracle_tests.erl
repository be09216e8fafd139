-module(reader_oracle_tests).

-include_lib("eunit/include/eunit.hrl").

a_sample_is_taken_apart_test() ->
    {ok, [Sample], _} = read([sample(1)]),
    ?assertEqual(#{time_us => 1011367, pid => 4242, tid => 71, period => 1, status => <<"waiting">>,
            frames => [{<<"erlang:%2B%2B/2">>, <<"erlang.erl">>},
                {<<"gen_server:loop/7:871">>, <<"gen_server.erl">>}],
            metrics => #{<<"reductions">> => {9, 12}, <<"memory">> => {2640, -8}},
            words => #{
                <<"erl_pid">> => <<"<0.71.0>">>, <<"initial_call">> => <<"proc_lib:init_p/5">>}},
        Sample).

what_a_sample_leaves_out_is_as_before_test() ->
    {ok, Samples, #{bad := 0}} = read([
        short(71, 1, "reductions=9/0 memory=8/0 minor_gcs=3/0 erl_pid=<0.71.0> name=a%3A5/6 "),
        short(72, 1, "reductions=1/1 erl_pid=<0.72.0> "), short(71, 2, "reductions+5 memory-2 "),
        short(72, 2, ""), short(71, 3, "minor_gcs=1/1 ")]),
    Words = #{<<"erl_pid">> => <<"<0.71.0>">>, <<"name">> => <<"a:5/6">>},
    ?assertEqual([
            {71, #{<<"reductions">> => {9, 0}, <<"memory">> => {8, 0}, <<"minor_gcs">> => {3, 0}}},
            {72, #{<<"reductions">> => {1, 1}}},
            {71, #{<<"reductions">> => {14, 5}, <<"memory">> => {6, -2}, <<"minor_gcs">> => {3, 0}
            }},
            {72, #{<<"reductions">> => {1, 0}}},
            {71, #{<<"reductions">> => {14, 0}, <<"memory">> => {6, 0}, <<"minor_gcs">> => {1, 1}}}
        ],
        [{Tid, Metrics} || #{tid := Tid, metrics := Metrics} <- lists:reverse(Samples)]),
    ?assertMatch([#{words := Words} | _], Samples).

%% Numbers that were not read may have changed.
after_damage_numbers_are_absent_until_a_whole_sample_test() ->
    Whole = "reductions=9/0 erl_pid=<0.71.0> ",
    {ok, Samples, #{bad := 1}} = read([
        short(71, 1, Whole), short(71, 2, "reductions=x "), short(71, 3, "reductions+1 "),
        short(71, 4, Whole), short(71, 5, "reductions+1 ")]),
    ?assertEqual([[{9, 0}], [], [{9, 0}], [{10, 1}]],
        [maps:values(Metrics) || #{metrics := Metrics} <- lists:reverse(Samples)]).

short(Tid, N, Fields) ->
    iolist_to_binary([
        io_lib:format("worker 4242/~b [003] ~b.011367: ~scpu-clock:\n", [Tid, N, Fields]),
        "\tffffffff gen_server:loop/7:871 (gen_server.erl)\n\tffffffff waiting (status)\n\n"]).

%% Both readers: the profiler's sample between others changes nothing of these.
a_sample_of_the_profiler_may_go_on_test() ->
    Own = fun(Us, Fields) ->
        [io_lib:format("flame_prof 4242/2147483647 [000] 1.5~5..0b: ~s cpu-clock:\n", [Us, Fields]),
            "\tffffffff flame_prof_self (flame_prof)\n\tffffffff waiting (status)\n\n"]
    end,
    Text = [short(71, 1, "reductions=9/0 erl_pid=<0.71.0> "),
        Own(1, "node_ports=3/-1 name=flame_prof continues=true"),
        Own(2, "ticks=5/1 name=flame_prof engine=native format=3"), short(71, 2, "reductions+1 ")],
    with_files([Text], fun(Files) ->
        Collect = fun(#{metrics := Metrics}, Read) -> [Metrics | Read] end,
        Expected = [#{<<"reductions">> => {10, 1}}, #{<<"reductions">> => {9, 0}}],
        ?assertMatch({ok, Expected, #{samples := 2, own := 1, bad := 0}},
            reader_oracle:fold(Collect, [], Files)),
        ?assertMatch({ok, Expected, #{samples := 2, bad := 0}},
            flame_prof:fold(Collect, [], Files)),
        Figures = #{<<"node_ports">> => {3, -1}, <<"ticks">> => {5, 1}},
        ?assertMatch({ok, [#{figures := Figures, time_us := 1500002}], #{own := 1}},
            reader_oracle:own(Files)),
        ?assertMatch({ok, [#{metrics := Figures, time_us := 1500002}], #{samples := 1}},
            flame_prof_samples:own(Files))
    end).

%% So does the library, whose readers are held against this one.
nothing_is_carried_into_the_next_file_test() ->
    Texts = [[short(71, 1, "reductions=9/0 erl_pid=<0.71.0> ")], [short(71, 2, "reductions+1 ")]],
    with_files(Texts, fun(Files) ->
        Collect = fun(#{metrics := Metrics}, Read) -> [Metrics | Read] end,
        Expected = [#{}, #{<<"reductions">> => {9, 0}}],
        ?assertMatch({ok, Expected, _}, reader_oracle:fold(Collect, [], Files)),
        ?assertMatch({ok, Expected, _}, flame_prof:fold(Collect, [], Files))
    end).

%% Samples of every length, over some chunk borders.
chunk_borders_do_not_show_test() ->
    Samples = [sample(N) || N <- lists:seq(1, 5000)],
    ?assert(iolist_size(Samples) > 3 * 262144),
    {ok, Read, Counts} = read(Samples),
    ?assertEqual(lists:seq(71, 5070), [Tid || #{tid := Tid} <- lists:reverse(Read)]),
    ?assertEqual(#{samples => 5000, own => 0, bad => 0, bytes => iolist_size(Samples)}, Counts).

damage_costs_the_damaged_sample_test_() ->
    [{Name, ?_assertMatch({ok, [#{tid := 73}, #{tid := 71}], #{bad := Count}}
            when Count =:= 1; Count =:= 2 andalso Name =:= "no TAB",
            read([sample(1), Bad, sample(3)]))}
     || {Name, Bad} <- [{"text", <<"what is this\n\n">>},
            {"binary", <<255, 0, 1, "\n\n">>},
            {"a header only", <<"beam 1/2 [000] 1.000001: cpu-clock:\n\n">>},
            {"no time", replaced(<<"2.011367">>, <<"x.011367">>)},
            {"no tid", replaced(<<"4242/72">>, <<"4242">>)},
            {"no delta", replaced(<<"9/12">>, <<"9/x reductions">>)},
            {"no status", replaced(<<"(status)">>, <<"(stat)">>)},
            {"no TAB", replaced(<<"\tffffffff gen">>, <<"gen">>)},
            {"no dso", replaced(<<" (erlang.erl)">>, <<>>)},
            {"an open dso", replaced(<<"erlang.erl)">>, <<"erlang.erl">>)},
            {"more than any sample is long", [lists:duplicate(5000000, $x), "\n\n"]}]].

replaced(From, To) ->
    Replaced = binary:replace(sample(2), From, To),
    true = Replaced =/= sample(2),
    Replaced.

%% As of a copy of a file that is being written: as far as zstd gets.
a_frame_that_is_cut_off_has_whole_samples_test() ->
    with_files([[sample(N) || N <- lists:seq(1, 5000)]], fun([File]) ->
        [] = os:cmd("zstd -qf " ++ File ++ " -o " ++ File ++ ".whole"),
        {ok, Whole} = file:read_file(File ++ ".whole"),
        ok = file:delete(File ++ ".whole"),
        Add = fun(#{tid := Tid}, Tids) -> [Tid | Tids] end,
        [begin
            ok = file:write_file(File, binary:part(Whole, 0, byte_size(Whole) * Part div 8)),
            {ok, Tids, #{samples := Count}} = reader_oracle:fold(Add, [], File),
            ?assertEqual(lists:seq(71, 70 + Count), lists:reverse(Tids)),
            ?assert(Count > 100 andalso Count < 5000),
            ?assertMatch({ok, Tids, #{samples := Count, cut_off := 1, damaged := 0}},
                flame_prof:fold(Add, [], File))
        end || Part <- [3, 5, 7]]
    end).

sample(N) ->
    iolist_to_binary([io_lib:format("beam 4242/~b [003] ~b.011367: cpu-clock:\n", [70 + N, N]),
        io_lib:format("# reductions=9/12 memory=2640/-8 erl_pid=<0.~b.0> ", [70 + N]),
        "initial_call=proc_lib:init_p/5 (metrics)\n", "\tffffffff erlang:%2B%2B/2 (erlang.erl)\n",
        "\tffffffff gen_server:loop/7:871 (gen_server.erl)\n", "\tffffffff waiting (status)\n\n"]).

%% The samples of one file, the last one first.
read(Samples) ->
    with_files([Samples], fun(Files) ->
        reader_oracle:fold(fun(Sample, Read) -> [Sample | Read] end, [], Files)
    end).

with_files(Texts, Test) -> text_file:several(Texts, Test).
