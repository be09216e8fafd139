%% The memory that the cgroup leaves, by files of a root that the tests write; and
%% what a session asks for on this node.
-module(flame_prof_memory_budget_tests).

-include_lib("eunit/include/eunit.hrl").

%%% ------------------------------------------------------------ the cgroup --

without_files_nothing_is_limited_test() ->
    ?assertEqual(infinity, available([])).

version_2_limits_by_its_own_group_test() ->
    ?assertEqual(
        700,
        available([
            {"proc/self/cgroup", "0::/a/b\n"},
            {"sys/fs/cgroup/a/b/memory.max", "1000\n"},
            {"sys/fs/cgroup/a/b/memory.current", "300\n"},
            {"sys/fs/cgroup/a/memory.max", "max\n"},
            {"sys/fs/cgroup/a/memory.current", "5000\n"}
        ])
    ).

a_group_above_may_leave_less_test() ->
    ?assertEqual(
        50,
        available([
            {"proc/self/cgroup", "0::/a/b\n"},
            {"sys/fs/cgroup/a/b/memory.max", "1000\n"},
            {"sys/fs/cgroup/a/b/memory.current", "300\n"},
            {"sys/fs/cgroup/a/memory.max", "2000\n"},
            {"sys/fs/cgroup/a/memory.current", "1950\n"}
        ])
    ).

%% In a namespace of its own a container sees its group as the root.
the_root_of_a_namespace_has_a_limit_test() ->
    ?assertEqual(
        1,
        available([
            {"proc/self/cgroup", "0::/\n"},
            {"sys/fs/cgroup/memory.max", "11\n"},
            {"sys/fs/cgroup/memory.current", "10\n"}
        ])
    ).

%% Without one, the path is the host's and not to be found.
a_path_that_is_not_there_falls_back_to_the_mount_test() ->
    ?assertEqual(
        400,
        available([
            {"proc/self/cgroup", "5:cpu:/\n4:hugetlb,memory:/docker/0:1\n0::/\n"},
            {"sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n"},
            {"sys/fs/cgroup/memory/memory.usage_in_bytes", "600\n"}
        ])
    ).

version_1_without_a_limit_limits_nothing_test() ->
    ?assertEqual(
        infinity,
        available([
            {"proc/self/cgroup", "4:memory:/\n"},
            {"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
            {"sys/fs/cgroup/memory/memory.usage_in_bytes", "600\n"}
        ])
    ).

page_cache_is_free_test() ->
    ?assertEqual(
        400,
        available([
            {"proc/self/cgroup", "0::/\n"},
            {"sys/fs/cgroup/memory.max", "1000\n"},
            {"sys/fs/cgroup/memory.current", "900\n"},
            {"sys/fs/cgroup/memory.stat", "anon 550\ninactive_file 200\nactive_file 100\nshmem 5\n"}
        ])
    ).

more_is_used_than_is_allowed_test() ->
    ?assertEqual(
        0,
        available([
            {"proc/self/cgroup", "0::/\n"},
            {"sys/fs/cgroup/memory.max", "1000\n"},
            {"sys/fs/cgroup/memory.current", "2000\n"}
        ])
    ).

what_is_no_number_limits_nothing_test() ->
    ?assertEqual(
        infinity,
        available([
            {"proc/self/cgroup", "nonsense\n0::/x\n::\n"},
            {"sys/fs/cgroup/x/memory.max", "-1\n"},
            {"sys/fs/cgroup/x/memory.current", "\n"},
            {"sys/fs/cgroup/x/memory.stat", "inactive_file\n"}
        ])
    ).

available(Files) ->
    Root = filename:join("/tmp", "flame_prof_memory_" ++ os:getpid() ++ "_" ++ unique()),
    [write(filename:join(Root, Name), Text) || {Name, Text} <- Files],
    try
        flame_prof_memory_budget:available(Root)
    after
        file:del_dir_r(Root)
    end.

write(Path, Text) ->
    ok = filelib:ensure_dir(Path),
    ok = file:write_file(Path, Text).

unique() ->
    integer_to_list(erlang:unique_integer([positive])).

%%% ----------------------------------------------------------- the session --

a_node_takes_more_for_each_ranking_and_process_test() ->
    Of = fun(Select) -> node_bytes(native, #{select => Select}) end,
    One = Of(#{}),
    Four = Of([#{}, #{by => memory}, #{by => mbuf_size}, #{by => minor_gcs}]),
    Processes = erlang:system_info(process_count),
    ?assert(Four - One >= 3 * 8 * Processes),
    Idle = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 1000)],
    ?assert(Of(#{}) - One >= 1000 * 16 orelse erlang:system_info(process_limit) < 8000),
    [exit(Pid, kill) || Pid <- Idle].

filters_and_the_portable_engine_need_no_table_test() ->
    Filtered = #{running_stacks => false, select => #{include => {module, lists}}},
    None = #{running_stacks => false, select => {top, 0}},
    ?assertEqual(node_bytes(native, None), node_bytes(native, Filtered)),
    ?assertEqual(0, node_bytes(portable, #{})).

node_bytes(Engine, Options) ->
    flame_prof_memory_budget:node_bytes(Engine, options(Options)).

a_budget_that_the_node_exceeds_is_refused_by_name_test() ->
    Tight = options(#{memory_budget => 48420352}),
    {error, {bad_option, #{option := memory_budget, accepted := Text}}} =
        flame_prof_memory_budget:check(native, Tight),
    Least = 48420352 + flame_prof_memory_budget:node_bytes(native, Tight),
    ?assertMatch({match, _}, re:run(Text, "at least " ++ integer_to_list(Least))),
    ?assertEqual(ok, flame_prof_memory_budget:check(portable, Tight)).

%% The ring is sized down first.
what_is_mapped_at_the_start_is_within_the_budget_test() ->
    [
        ?assert(flame_prof_config:start_bytes(native,
            options(#{memory_budget => Budget})) =< Budget)
     || Budget <- [50777216, 60000000, 67108864, 1000000000]
    ].

options(Given) ->
    {ok, Options} = flame_prof_options:validate(Given),
    Options.
