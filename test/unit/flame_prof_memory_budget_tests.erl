%% The memory that the cgroup leaves, by files of a root that the tests write; and
%% what a session asks for on this node.
-module(flame_prof_memory_budget_tests).

-include_lib("eunit/include/eunit.hrl").

available_test_() ->
    V2 = fun(Max, Current, Stat) -> [{"proc/self/cgroup", "0::/\n"},
        {"sys/fs/cgroup/memory.max", Max}, {"sys/fs/cgroup/memory.current", Current},
        {"sys/fs/cgroup/memory.stat", Stat}] end,
    V1 = fun(Max) -> [{"proc/self/cgroup", "4:memory:/\n"},
        {"sys/fs/cgroup/memory/memory.limit_in_bytes", Max},
        {"sys/fs/cgroup/memory/memory.usage_in_bytes", "600\n"},
        {"sys/fs/cgroup/memory/memory.stat", "total_active_file 30\ntotal_inactive_file 70\n"
            "active_file 999\n"}] end,
    Own = [{"proc/self/cgroup", "0::/a/b\n"}, {"sys/fs/cgroup/a/b/memory.max", "1000\n"},
        {"sys/fs/cgroup/a/b/memory.current", "300\n"}],
    Above = fun(Max, Current) -> [{"sys/fs/cgroup/a/memory.max", Max},
        {"sys/fs/cgroup/a/memory.current", Current}] end,
    [{Name, ?_assertEqual(Left, available(Files))} || {Name, Left, Files} <- [
        {"without files nothing is limited", infinity, []},
        {"version 2 limits by its own group", 700, Own ++ Above("max\n", "5000\n")},
        {"a group above may leave less", 50, Own ++ Above("2000\n", "1950\n")},
        {"in a namespace of its own a group is the root", 1, V2("11\n", "10\n", "")},
        {"without one the path is the host's, and the mount counts", 400, [
            {"proc/self/cgroup", "5:cpu:/\n4:hugetlb,memory:/docker/0:1\n0::/\n"},
            {"sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n"},
            {"sys/fs/cgroup/memory/memory.usage_in_bytes", "600\n"}]},
        {"version 1 with a limit", 500, V1("1000\n")},
        {"version 1 with the largest limit", 4611686018427387403, V1("4611686018427387903\n")},
        {"version 1 without a limit", infinity, V1("4611686018427387904\n")},
        {"page cache is free", 400, V2("1000\n", "900\n",
            "anon 550\ninactive_file 200\nactive_file 100\nshmem 5\n")},
        {"more is used than is allowed", 0, V2("1000\n", "2000\n", "")},
        {"more cache than is used", 1000, V2("1000\n", "100\n", "inactive_file 200\n")},
        {"no bytes are a limit", 0, V2("0\n", "0\n", "")},
        {"what is no number limits nothing", infinity, [
            {"proc/self/cgroup", "nonsense\n0::/x\n::\n"},
            {"sys/fs/cgroup/x/memory.max", "-1\n"}, {"sys/fs/cgroup/x/memory.current", "\n"},
            {"sys/fs/cgroup/x/memory.stat", "inactive_file\n"}]}]].

available(Files) ->
    text_file:folder(fun(Root) ->
        [write(filename:join(Root, Name), Text) || {Name, Text} <- Files],
        flame_prof_memory_budget:available(Root)
    end).

write(Path, Text) ->
    ok = filelib:ensure_dir(Path),
    ok = file:write_file(Path, Text).

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

node_bytes(Engine, Options) -> flame_prof_memory_budget:node_bytes(Engine, options(Options)).

a_budget_that_the_node_exceeds_is_refused_by_name_test() ->
    Tight = options(#{memory_budget => 48420352}),
    {error, {bad_option, #{option := memory_budget, accepted := Text}}} =
        flame_prof_memory_budget:check(native, Tight),
    Least = 48420352 + flame_prof_memory_budget:node_bytes(native, Tight),
    ?assertMatch({match, _}, re:run(Text, "at least " ++ integer_to_list(Least))),
    ?assertEqual(ok, flame_prof_memory_budget:check(portable, Tight)).

%% The ring is sized down first.
what_is_mapped_at_the_start_is_within_the_budget_test() ->
    [?assert(flame_prof_config:start_bytes(native, options(#{memory_budget => Budget})) =< Budget)
     || Budget <- [50777216, 60000000, 67108864, 1000000000]].

options(Given) ->
    {ok, Options} = flame_prof_options:validate(Given),
    Options.
