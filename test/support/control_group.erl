%% Control groups with a memory limit, where this machine lets the tests make one.
-module(control_group).

-export([make/2, processes/1, leave/2, remove/1]).

-define(MIB, 1048576).

%% Below that of the tests, or at the top. `none' where none can be made.
make(Name, MiB) ->
    {ok, Text} = file:read_file("/proc/self/cgroup"),
    Lines = [string:split(Line, ":", all) || Line <- string:split(Text, "\n", all)],
    Own = "flame_prof_" ++ Name ++ "_" ++ os:getpid(),
    made([filename:join(Group, Own) || Line <- Lines, Group <- groups(Line)], MiB).

groups([_, <<"memory">>, Path]) ->
    ["/sys/fs/cgroup/memory" ++ binary_to_list(Path), "/sys/fs/cgroup/memory"];
groups([<<"0">>, <<>>, Path]) -> ["/sys/fs/cgroup" ++ binary_to_list(Path), "/sys/fs/cgroup"];
groups(_) -> [].

made([], _) -> none;
made([Group | Groups], MiB) ->
    _ = file:make_dir(Group),
    case [File || File <- ["memory.max", "memory.limit_in_bytes"],
        filelib:is_file(filename:join(Group, File)), ok =:= write(Group, File, MiB * ?MIB)] of
        [Limit] -> {Group, Limit};
        [] -> _ = file:del_dir(Group), made(Groups, MiB)
    end.

processes({Group, _}) -> filename:join(Group, "cgroup.procs").

%% The limit becomes what is used and so many bytes.
leave({Group, Limit}, Bytes) ->
    Name = case Limit of "memory.max" -> "memory.current"; _ -> "memory.usage_in_bytes" end,
    {ok, Used} = file:read_file(filename:join(Group, Name)),
    write(Group, Limit, binary_to_integer(string:trim(Used)) + Bytes).

%% Once nothing runs in it.
remove({Group, _}) -> waiting:eventually(fun() -> file:del_dir(Group) =:= ok end).

write(Group, File, Bytes) ->
    file:write_file(filename:join(Group, File), integer_to_list(Bytes)).
