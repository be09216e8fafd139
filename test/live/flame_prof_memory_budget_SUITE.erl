%% A VM in a cgroup of its own, where this machine lets the tests make one.
-module(flame_prof_memory_budget_SUITE).

-include_lib("common_test/include/ct.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1,
    a_start_that_the_cgroup_has_no_room_for_is_refused/1]).
%% In the VM within the cgroup.
-export([starts/1]).

-define(MIB, 1048576).

all() -> [a_start_that_the_cgroup_has_no_room_for_is_refused].

init_per_suite(Config) ->
    {ok, Text} = file:read_file("/proc/self/cgroup"),
    Lines = [string:split(Line, ":", all) || Line <- string:split(Text, "\n", all)],
    Groups = lists:append([group(Line) || Line <- Lines]),
    Name = "flame_prof_test_" ++ os:getpid(),
    made([filename:join(Group, Name) || Group <- Groups], Config).

group([_, <<"memory">>, Path]) ->
    ["/sys/fs/cgroup/memory" ++ binary_to_list(Path), "/sys/fs/cgroup/memory"];
group([<<"0">>, <<>>, Path]) -> ["/sys/fs/cgroup" ++ binary_to_list(Path), "/sys/fs/cgroup"];
group(_) -> [].

made([], _Config) -> {skip, "no cgroup with a memory limit can be made here"};
made([Group | Groups], Config) ->
    _ = file:make_dir(Group),
    case [File || File <- ["memory.max", "memory.limit_in_bytes"], write(Group, File, 1024)] of
        [Limit] -> [{group, Group}, {limit, Limit} | Config];
        [] ->
            _ = file:del_dir(Group),
            made(Groups, Config)
    end.

end_per_suite(Config) ->
    case ?config(group, Config) of undefined -> ok; Group -> file:del_dir(Group) end.

write(Group, File, MiB) ->
    Path = filename:join(Group, File),
    filelib:is_file(Path) andalso ok =:= file:write_file(Path, integer_to_list(MiB * ?MIB)).

a_start_that_the_cgroup_has_no_room_for_is_refused(Config) ->
    Group = ?config(group, Config),
    Limit = filename:join(Group, ?config(limit, Config)),
    Directories = [filename:absname(Path) || Path <- code:get_path(), Path =/= "."],
    Paths = lists:append([" -pa " ++ Path || Path <- Directories]),
    Directory = filename:join(?config(priv_dir, Config), "limited"),
    Command = io_lib:format(
        "sh -c 'echo $$ > ~ts/cgroup.procs && exec erl -noinput~ts -run ~s starts ~ts ~ts'",
        [Group, Paths, ?MODULE, Limit, Directory]),
    Said = os:cmd(lists:flatten(Command)),
    ct:pal("~ts", [Said]),
    {match, _} = re:run(Said, "^refused: the session needs [0-9.]+ MiB", [multiline]),
    {match, _} = re:run(Said, "^then: ok", [multiline]).

%% All that is loaded and calibrated once is there before the limit comes down to what
%% is used and 50 mebibytes.
starts([Limit, Directory]) ->
    Start = fun() -> flame_prof:start(#{engine => native, dir => Directory}) end,
    {ok, _} = Start(),
    {ok, _} = flame_prof:stop(),
    {ok, Before} = file:read_file(Limit),
    Used = 1024 * ?MIB - flame_prof_memory_budget:available("/"),
    ok = file:write_file(Limit, integer_to_list(Used + 50 * ?MIB)),
    {error, {memory, _} = Reason} = Start(),
    io:format("refused: ~ts~n", [flame_prof:format_error(Reason)]),
    ok = file:write_file(Limit, Before),
    {Then, _} = Start(),
    io:format("then: ~p~n", [Then]),
    halt().
