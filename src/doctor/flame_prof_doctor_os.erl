%% @private What the kernel says of this OS process and of its place: CPU time and waiting of its
%% scheduler threads, the machine's CPU time, the limits of its control groups, memory. Files of
%% /proc and /sys alone: a fraction of a millisecond, and some 10 us for each thread.
%%
%% Keys whose file is not there, or says no limit, are left out. Times are in microseconds, sizes
%% in bytes.
-module(flame_prof_doctor_os).

-export([look/0, cgroup/2]).

-export_type([os/0]).

-type os() ::
    #{
        at_us := integer(),
        schedulers => #{threads := pos_integer(), run_us := integer(), wait_us := integer()},
        own_us => integer(),
        machine => #{busy_us := integer(), stolen_us := integer(), cpus := pos_integer()},
        rss => non_neg_integer(),
        available => non_neg_integer(),
        total => non_neg_integer(),
        memory_limit => pos_integer(),
        memory_used => non_neg_integer(),
        throttled => #{periods := integer(), throttled_periods := integer(), us := integer()},
        cpus_allowed => float()
    }.
%% `wait_us': normal schedulers were ready to run, and had no CPU. `own_us': all threads of the
%% process. `memory_limit': of the control group with the least room, `memory_used' without its file
%% cache. `cpus_allowed': by the quota of the group.

-define(CGROUPS, "/sys/fs/cgroup").
%% USER_HZ.
-define(TICK_US, 10000).
%% A limit above this is none.
-define(UNLIMITED, 1 bsl 60).

-spec look() -> {ok, os()} | {unseen, binary()}.
look() ->
    case file:read_file("/proc/self/stat") of
        {ok, Stat} ->
            Groups = groups(read("/proc/self/cgroup")),
            {ok, lists:foldl(fun maps:merge/2, #{at_us => erlang:monotonic_time(microsecond)}, [
                schedulers(), own(Stat), machine(read("/proc/stat")),
                memory(read("/proc/self/status"), read("/proc/meminfo")) | cgroups(Groups)
            ])};
        {error, _} ->
            {unseen, <<"there is no /proc">>}
    end.

read(File) ->
    case file:read_file(File) of
        {ok, Text} -> Text;
        {error, _} -> <<>>
    end.

%% Normal schedulers only: dirty ones may compete with them. Their names begin so: OTP 25 has
%% "1_scheduler", newer ones "erts_sched_1".
schedulers() ->
    Tasks = case file:list_dir("/proc/self/task") of
        {ok, Names} -> Names;
        {error, _} -> []
    end,
    case [Times || Task <- Tasks, Times <- scheduler("/proc/self/task/" ++ Task)] of
        [] -> #{};
        All ->
            #{schedulers => #{
                threads => length(All),
                run_us => lists:sum([Run || {Run, _} <- All]) div 1000,
                wait_us => lists:sum([Wait || {_, Wait} <- All]) div 1000
            }}
    end.

scheduler(Task) ->
    case re:run(read(Task ++ "/comm"), "^(?:erts_sched_[0-9]+|[0-9]+_scheduler)$",
        [{capture, none}, multiline]) of
        match -> [{Run, Wait} || [Run, Wait | _] <- [numbers(read(Task ++ "/schedstat"))]];
        nomatch -> []
    end.

own(Stat) ->
    [_, Behind] = string:split(Stat, ") ", trailing),
    Fields = string:lexemes(Behind, " "),
    #{own_us => ?TICK_US * lists:sum([binary_to_integer(lists:nth(N, Fields)) || N <- [12, 13]])}.

%% user nice system idle iowait irq softirq steal
machine(Text) ->
    Lines = lines(Text),
    Cpus = length([1 || <<"cpu", C, _/binary>> <- Lines, C >= $0, C =< $9]),
    case [numbers(Rest) || <<"cpu ", Rest/binary>> <- Lines] of
        [[User, Nice, System, _Idle, _Iowait, Irq, SoftIrq, Steal | _]] when Cpus > 0 ->
            #{machine => #{
                busy_us => ?TICK_US * (User + Nice + System + Irq + SoftIrq),
                stolen_us => ?TICK_US * Steal,
                cpus => Cpus
            }};
        _ ->
            #{}
    end.

memory(Status, Meminfo) ->
    maps:from_list([{Key, 1024 * N}
        || {Text, Name, Key} <- [
            {Status, <<"VmRSS:">>, rss},
            {Meminfo, <<"MemAvailable:">>, available},
            {Meminfo, <<"MemTotal:">>, total}
        ],
        Line <- lines(Text), [N] <- [after_name(Name, Line)]]).

after_name(Name, Line) ->
    case string:prefix(Line, Name) of
        nomatch -> [];
        Rest -> lists:sublist(numbers(Rest), 1)
    end.

%% Control groups: version 2 has one path, version 1 one for each controller. In a container the
%% path may be that of outside, and the group is at the top.

groups(Text) ->
    [{Controllers, binary_to_list(Path)} || Line <- lines(Text),
        [_, Controllers, Path] <- [binary:split(Line, <<":">>, [global])]].

cgroups(Groups) ->
    [cgroup(?CGROUPS, Group) || Group <- Groups].

%% @private Below another folder in tests.
-spec cgroup(file:filename(), {Controllers :: binary(), Path :: string()}) -> map().
cgroup(Top, {<<>>, Path}) ->
    Folders = upwards(Top, Path),
    maps:merge(
        tightest([limit(F, "memory.max", "memory.current", "inactive_file") || F <- Folders]),
        first([maps:merge(throttled(F), quota(F)) || F <- Folders])
    );
cgroup(Top, {Controllers, Path}) ->
    Names = binary:split(Controllers, <<",">>, [global]),
    Folders = upwards(filename:join(Top, binary_to_list(Controllers)), Path),
    case {lists:member(<<"memory">>, Names), lists:member(<<"cpu">>, Names)} of
        {true, _} -> tightest([limit(F, "memory.limit_in_bytes", "memory.usage_in_bytes",
            "total_inactive_file") || F <- Folders]);
        {_, true} -> first([maps:merge(throttled(F), quota_v1(F)) || F <- Folders]);
        _ -> #{}
    end.

%% The limits of those above hold, too.
upwards(Top, Path) ->
    Parts = [Part || Part <- filename:split(Path), Part =/= "/"],
    [filename:join([Top | lists:sublist(Parts, N)]) || N <- lists:seq(length(Parts), 0, -1)].

limit(Folder, Max, Current, Cache) ->
    case {numbers(read(filename:join(Folder, Max))), numbers(read(filename:join(Folder, Current)))}
    of
        {[Limit], [Used]} when Limit < ?UNLIMITED, Limit > 0 ->
            Stat = read(filename:join(Folder, "memory.stat")),
            File = lists:sum(value(Cache, Stat)),
            [#{memory_limit => Limit, memory_used => max(0, Used - File)}];
        _ ->
            []
    end.

tightest(Limits) ->
    case lists:append(Limits) of
        [] -> #{};
        All ->
            Room = fun(#{memory_limit := Limit, memory_used := Used}) -> Limit - Used end,
            hd(lists:sort(fun(A, B) -> Room(A) =< Room(B) end, All))
    end.

throttled(Folder) ->
    Stat = read(filename:join(Folder, "cpu.stat")),
    Us = value("throttled_usec", Stat) ++ [Ns div 1000 || Ns <- value("throttled_time", Stat)],
    case {value("nr_periods", Stat), value("nr_throttled", Stat), Us} of
        {[Periods], [Throttled], [Time]} when Periods > 0 ->
            #{throttled => #{periods => Periods, throttled_periods => Throttled, us => Time}};
        _ ->
            #{}
    end.

quota(Folder) ->
    case numbers(read(filename:join(Folder, "cpu.max"))) of
        [Quota, Period] when Period > 0 -> #{cpus_allowed => Quota / Period};
        _ -> #{}
    end.

quota_v1(Folder) ->
    case {numbers(read(filename:join(Folder, "cpu.cfs_quota_us"))),
        numbers(read(filename:join(Folder, "cpu.cfs_period_us")))} of
        {[Quota], [Period]} when Quota > 0, Period > 0 -> #{cpus_allowed => Quota / Period};
        _ -> #{}
    end.

%% The group nearest to the process that has a quota.
first([#{throttled := _, cpus_allowed := _} = First | _]) -> First;
first([_ | Rest]) -> first(Rest);
first([]) -> #{}.

value(Name, Text) ->
    [binary_to_integer(N) || Line <- lines(Text), [Key, N] <- [string:lexemes(Line, " ")],
        Key =:= list_to_binary(Name)].

lines(Text) -> binary:split(Text, <<"\n">>, [global]).

%% Those of a line up to something else, as `max' or a unit.
numbers(Text) ->
    Parsed = [string:to_integer(Word) || Word <- string:lexemes(Text, " \t\n")],
    [N || {N, <<>>} <- Parsed, is_integer(N)].
