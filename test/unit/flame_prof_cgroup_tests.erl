%% Limits of control groups, in a folder that looks like the root of a system.
-module(flame_prof_cgroup_tests).

-include_lib("eunit/include/eunit.hrl").

-define(V2, "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n").
-define(V1, "33 24 0:29 / /cg/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n").

the_smallest_limit_of_the_groups_above_counts_test() ->
    Files = [{"/proc/self/cgroup", "0::/system.slice/shop.service/node\n"},
        {"/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda rw\n" ++ ?V2},
        {"/sys/fs/cgroup/system.slice/memory.max", "4000000\n"},
        {"/sys/fs/cgroup/system.slice/shop.service/memory.max", "3000000\n"},
        {"/sys/fs/cgroup/system.slice/shop.service/node/memory.max", "max\n"},
        {"/sys/fs/cgroup/system.slice/other/memory.max", "10\n"}],
    ?assertEqual({ok, 3000000}, limit(Files)).

without_a_limit_there_is_none_test() ->
    Max = [{"/sys/fs/cgroup/a/memory.max", "max\n"}],
    Group = [{"/proc/self/cgroup", "0::/a\n"}],
    Mounts = [{"/proc/self/mountinfo", ?V2}],
    ?assertEqual(none, limit(Group ++ Mounts ++ Max)),
    ?assertEqual(none, limit(Group ++ Max)),
    ?assertEqual(none, limit(Mounts ++ Max)),
    ?assertEqual(none, limit([])),
    ?assertEqual(none, limit(Group ++ Mounts ++ [{"/sys/fs/cgroup/a/memory.max", "junk\n"}])).

version_1_has_a_limit_that_is_none_test() ->
    Files = fun(Bytes) ->
        [{"/proc/self/cgroup", "9:name=systemd:/x\n4:cpu,memory:/a/b\n0::/x\n"},
            {"/proc/self/mountinfo", ?V1},
            {"/cg/memory/a/memory.limit_in_bytes", "9223372036854771712\n"},
            {"/cg/memory/a/b/memory.limit_in_bytes", Bytes}]
    end,
    ?assertEqual({ok, 77777}, limit(Files("77777\n"))),
    ?assertEqual(none, limit(Files("9223372036854771712\n"))).

%% Where a part of the groups is mounted, as in a container: paths are those of the host.
a_mounted_group_is_the_top_test() ->
    Mount = "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
    Files = fun(Path) ->
        [{"/proc/self/cgroup", ["0::", Path, "\n"]}, {"/proc/self/mountinfo", Mount},
            {"/sys/fs/cgroup/memory.max", "500\n"}, {"/sys/fs/cgroup/in/memory.max", "400\n"}]
    end,
    ?assertEqual({ok, 500}, limit(Files("/docker/abc"))),
    ?assertEqual({ok, 400}, limit(Files("/docker/abc/in"))),
    ?assertEqual({ok, 500}, limit(Files("/../other"))),
    ?assertEqual({ok, 500}, limit(Files("/elsewhere"))).

%% ------------------------------------------------------------------ figures --

the_least_room_and_the_nearest_quota_count_test() ->
    Files = [{"/proc/self/cgroup", "0::/a/b\n"},
        {"/proc/self/mountinfo", ?V2},
        {"/sys/fs/cgroup/memory.stat", ""},
        {"/sys/fs/cgroup/a/memory.max", "1000\n"},
        {"/sys/fs/cgroup/a/memory.current", "900\n"},
        {"/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 300\n"},
        {"/sys/fs/cgroup/a/cpu.max", "300000 100000\n"},
        {"/sys/fs/cgroup/a/cpu.stat", "nr_periods 40\nnr_throttled 0\nthrottled_usec 0\n"},
        {"/sys/fs/cgroup/a/b/memory.max", "max\n"},
        {"/sys/fs/cgroup/a/b/memory.current", "900\n"},
        {"/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n"},
        {"/sys/fs/cgroup/a/b/cpu.stat",
            "usage_usec 7\nnr_periods 40\nnr_throttled 30\nthrottled_usec 123\n"}],
    ?assertEqual(#{memory_limit => 1000, memory_used => 600, cpus_allowed => 0.5,
            throttled => #{periods => 40, throttled_periods => 30, us => 123}},
        figures(Files)).

version_1_has_a_folder_for_each_controller_test() ->
    Files = [{"/proc/self/cgroup", "5:cpu,cpuacct:/y\n4:memory:/x\n0::/\n"},
        {"/proc/self/mountinfo",
            [?V1, "34 24 0:30 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"]},
        {"/cg/memory/x/memory.limit_in_bytes", "500"},
        {"/cg/memory/x/memory.usage_in_bytes", "450"},
        {"/cg/memory/x/memory.stat", "total_inactive_file 50\n"},
        {"/cg/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"},
        {"/cg/cpu,cpuacct/cpu.cfs_period_us", "100000\n"},
        {"/cg/cpu,cpuacct/y/cpu.cfs_quota_us", "150000\n"},
        {"/cg/cpu,cpuacct/y/cpu.cfs_period_us", "100000\n"},
        {"/cg/cpu,cpuacct/y/cpu.stat", "nr_periods 9\nnr_throttled 2\nthrottled_time 5000\n"}],
    ?assertEqual(#{memory_limit => 500, memory_used => 400, cpus_allowed => 1.5,
            throttled => #{periods => 9, throttled_periods => 2, us => 5}},
        figures(Files)).

without_groups_there_are_no_figures_test() ->
    ?assertEqual(#{}, figures([])),
    ?assertEqual(#{}, figures([{"/proc/self/cgroup", "4:memory:/none\n"},
        {"/proc/self/mountinfo", ?V1}])).

limit(Files) -> below(Files, fun flame_prof_cgroup:memory_limit/1).
figures(Files) -> below(Files, fun flame_prof_cgroup:figures/1).

below(Files, Fun) ->
    text_file:folder(fun(Root) ->
        _ = [begin
            ok = filelib:ensure_dir(Root ++ Path),
            ok = file:write_file(Root ++ Path, Text)
        end || {Path, Text} <- Files],
        Fun(Root)
    end).
