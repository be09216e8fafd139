%% @private What the kernel allows this OS process by its control group and the groups above it, as
%% a container or a service has them: memory and CPU time, and what of it is in use. Version 2 and
%% version 1, also where only a part of the groups is mounted. Some file reads: any process, not in
%% a tight loop.
-module(flame_prof_cgroup).

-export([memory_limit/0, memory_limit/1, figures/0, figures/1]).
-export([memory_files/2, memory/2]).

-export_type([figures/0]).

-type figures() ::
    #{
        memory_limit => pos_integer(),
        memory_used => non_neg_integer(),
        throttled => #{periods := integer(), throttled_periods := integer(), us := integer()},
        cpus_allowed => float()
    }.
%% `memory_limit': of the group with the least room, `memory_used' without its file cache, in bytes.
%% `cpus_allowed', `throttled': of the nearest group with a quota.

%% What version 1 has for `none' is a little less than 2^63.
-define(NO_LIMIT, 16#4000000000000000).

%% More than any of these files has.
-define(FILE_BYTES, 1048576).

%% @doc Bytes, the smallest there is; `none' without a limit, and where there are no control groups.
-spec memory_limit() -> {ok, pos_integer()} | none.
memory_limit() ->
    memory_limit("").

%% @doc Below a folder, for tests.
-spec memory_limit(string()) -> {ok, pos_integer()} | none.
memory_limit(Root) ->
    case [Limit || Group <- groups(Root, <<"memory">>), Limit <- limit(Group)] of
        [] -> none;
        Limits -> {ok, lists:min(Limits)}
    end.

%% @doc What is not known, or is no limit, is left out.
-spec figures() -> figures().
figures() ->
    figures("").

%% @doc Below a folder, for tests.
-spec figures(string()) -> figures().
figures(Root) ->
    Memory = [
        {Limit - Used, #{memory_limit => Limit, memory_used => Used}}
     || Group <- groups(Root, <<"memory">>), Limit <- limit(Group), Used <- used(Group)
    ],
    Cpu = [
        #{cpus_allowed => Quota / Period, throttled => Throttled}
     || Group <- lists:reverse(groups(Root, <<"cpu">>)),
        [Quota, Period] <- [quota(Group)], Quota > 0, Period > 0,
        Throttled <- throttled(Group)
    ],
    lists:foldl(fun maps:merge/2, #{},
        [Figures || {_, Figures} <- lists:sublist(lists:sort(Memory), 1)] ++
            lists:sublist(Cpu, 1)).

%% @doc The files that have the memory of another OS process' groups, by the texts of its
%% /proc/self/mountinfo and /proc/self/cgroup: for who reads files elsewhere. Gives nothing without
%% groups.
-spec memory_files(Mounts :: binary(), Groups :: binary()) -> [{1..2, [binary(), ...]}].
memory_files(Mounts, Groups) ->
    [{Version, [iolist_to_binary([Group, Name]) || Name <- names(Version)]}
        || {Version, Group} <- groups("", <<"memory">>, text_lines({ok, Mounts}),
            text_lines({ok, Groups}))].

names(2) -> ["memory.max", "memory.high", "memory.current", "memory.stat"];
names(1) -> ["memory.limit_in_bytes", "memory.limit_in_bytes", "memory.usage_in_bytes",
    "memory.stat"].

%% @doc Used and limit, in bytes, by the texts of the files of one group; `none' without a limit.
%% The file cache does not count: the kernel drops it first. `memory.high' counts as a limit: a
%% process above it stands still.
-spec memory(1..2, [binary(), ...]) ->
    {Used :: non_neg_integer(), Limit :: pos_integer()} | none.
memory(Version, [Max, High, Current, Stat]) ->
    Number = fun(Text) -> [N || Word <- words_of(Text), N <- number(Word)] end,
    Limits = lists:append([limit(Number(Text)) || Text <- [Max, High]]),
    Cache = lists:sum([N || Line <- text_lines({ok, Stat}), [Key, Text] <- [words(Line)],
        lists:member(Key, cache(Version)), N <- number(Text)]),
    case {Limits, Number(Current)} of
        {[_ | _], [Used]} -> {max(0, Used - Cache), lists:min(Limits)};
        _ -> none
    end.

cache(2) -> [<<"active_file">>, <<"inactive_file">>];
cache(1) -> [<<"total_active_file">>, <<"total_inactive_file">>].

words_of(Text) -> lists:append([words(Line) || Line <- text_lines({ok, Text})]).

%% From the top down to that of this process.
groups(Root, Controller) ->
    groups(Root, Controller, lines([Root, "/proc/self/mountinfo"]),
        lines([Root, "/proc/self/cgroup"])).

groups(Root, Controller, MountLines, GroupLines) ->
    Mounts = mounts(MountLines, Controller),
    [
        {Version, [Root, Mount, Group, $/]}
     || {Version, Path} <- paths(GroupLines, Controller),
        {V, Top, Mount} <- Mounts,
        V =:= Version,
        Group <- with_parents(below(Top, Path))
    ].

limit({2, Group}) -> limit(numbers([Group, "memory.max"]));
limit({1, Group}) -> limit(numbers([Group, "memory.limit_in_bytes"]));
limit([Bytes]) when Bytes > 0, Bytes < ?NO_LIMIT -> [Bytes];
limit(_) -> [].

used({2, Group}) -> used(Group, "memory.current", <<"inactive_file">>);
used({1, Group}) -> used(Group, "memory.usage_in_bytes", <<"total_inactive_file">>).

used(Group, File, Cache) ->
    [max(0, Used - lists:sum(values(Cache, [Group, "memory.stat"])))
        || Used <- numbers([Group, File])].

%% In microseconds, of these periods.
quota({2, Group}) ->
    numbers([Group, "cpu.max"]);
quota({1, Group}) ->
    numbers([Group, "cpu.cfs_quota_us"]) ++ numbers([Group, "cpu.cfs_period_us"]).

throttled({_Version, Group}) ->
    Stat = [Group, "cpu.stat"],
    Us = values(<<"throttled_usec">>, Stat) ++
        [Ns div 1000 || Ns <- values(<<"throttled_time">>, Stat)],
    [
        #{periods => Periods, throttled_periods => Throttled, us => Time}
     || Periods <- values(<<"nr_periods">>, Stat), Periods > 0,
        Throttled <- values(<<"nr_throttled">>, Stat), Time <- Us
    ].

values(Name, File) ->
    [N || Line <- lines(File), [Key, Text] <- [words(Line)], Key =:= Name, N <- number(Text)].

%% `max' is none.
numbers(File) -> [N || Line <- lines(File), Word <- words(Line), N <- number(Word)].

number(Text) ->
    case string:to_integer(Text) of
        {N, <<>>} when is_integer(N) -> [N];
        _ -> []
    end.

%% Not by the file server, which may have work.
lines(Path) ->
    case file:open(iolist_to_binary(Path), [read, raw, binary]) of
        {ok, File} ->
            Read = file:read(File, ?FILE_BYTES),
            _ = file:close(File),
            text_lines(Read);
        {error, _} ->
            []
    end.

text_lines({ok, Text}) -> binary:split(Text, <<"\n">>, [global, trim_all]);
text_lines(_) -> [].

%% `0::/path', or `4:memory:/path'.
paths(Lines, Controller) ->
    Parts = [binary:split(Line, <<":">>) || Line <- Lines],
    [{2, Path} || [<<"0">>, <<":", Path/binary>>] <- Parts] ++
        [
            {1, Path}
         || [_, Rest] <- Parts,
            [Controllers, Path] <- [binary:split(Rest, <<":">>)],
            lists:member(Controller, binary:split(Controllers, <<",">>, [global]))
        ].

%% `36 35 0:30 /top /mount rw,nosuid shared:9 - cgroup2 source rw'
mounts(Lines, Controller) ->
    [
        {Version, Top, Mount}
     || Line <- Lines,
        [Before, After] <- [binary:split(Line, <<" - ">>)],
        [_, _, _, Top, Mount | _] <- [words(Before)],
        Version <- version(words(After), Controller)
    ].

words(Text) -> binary:split(Text, <<" ">>, [global, trim_all]).

version([<<"cgroup2">> | _], _Controller) ->
    [2];
version([<<"cgroup">>, _, Options | _], Controller) ->
    [1 || lists:member(Controller, binary:split(Options, <<",">>, [global]))];
version(_, _Controller) ->
    [].

%% Of the path of a group what lies below the mounted one.
below(Top, Path) ->
    Size = byte_size(Top),
    case Path of
        _ when Top =:= <<"/">> -> Path;
        <<Top:Size/binary, Rest/binary>> -> Rest;
        _ -> <<>>
    end.

%% `/a/b', `/a' and the top, which is nothing. Outside of the mounted part only the top is known.
with_parents(Path) ->
    Names = binary:split(Path, <<"/">>, [global, trim_all]),
    case lists:member(<<"..">>, Names) of
        true -> [[]];
        false -> [[[$/, Name] || Name <- lists:sublist(Names, N)]
            || N <- lists:seq(0, length(Names))]
    end.
