%% @private What the kernel says of this OS process and of its place: CPU time and waiting of its
%% scheduler threads, the machine's CPU time, the limits of its control groups, memory. Files of
%% /proc and /sys alone: a fraction of a millisecond, and some 10 us for each thread.
%%
%% Keys whose file is not there, or says no limit, are left out. Times are in microseconds, sizes
%% in bytes.
-module(flame_prof_doctor_os).

-export([look/0, looks/1]).

-export_type([os/0]).

-type os() ::
    #{
        at_us := integer(),
        schedulers => #{threads := pos_integer(), run_us := integer(), wait_us := integer()},
        own_us => integer(),
        programs_us => non_neg_integer(),
        programs => #{Name :: binary() => pos_integer()},
        programs_met => non_neg_integer(),
        machine => #{busy_us := integer(), stolen_us := integer(), cpus := pos_integer()},
        descriptors => #{limit := pos_integer(), used => non_neg_integer()},
        rss => non_neg_integer(),
        available => non_neg_integer(),
        total => non_neg_integer(),
        %% flame_prof_cgroup:figures/0
        memory_limit => pos_integer(),
        memory_used => non_neg_integer(),
        throttled => #{periods := integer(), throttled_periods := integer(), us := integer()},
        cpus_allowed => float()
    }.
%% `wait_us': normal schedulers were ready to run, and had no CPU. `own_us': all threads of the
%% process. `programs_us': programs that it has started, `programs' how often which of them was met,
%% `programs_met' how many of them were met. `descriptors' are counted only where the kernel's table
%% of them is so large that they may be many.

%% USER_HZ.
-define(TICK_US, 10000).
%% Of the limit: the table doubles its size each time.
-define(MANY_DESCRIPTORS, 0.5).
%% More would be a large list in the node.
-define(LISTED_MOST, 65536).

%% @doc At the first and at the last moment until then, with the programs that were met in between.
-spec looks(UntilMs :: integer()) -> {ok, {os(), os()}} | {unseen, binary()}.
looks(UntilMs) ->
    case look() of
        {ok, First} ->
            {Programs, Met} = flame_prof_doctor_programs:until(UntilMs),
            case look() of
                {ok, Last} -> {ok, {First, Last#{programs => Programs, programs_met => Met}}};
                {unseen, _} = Unseen -> Unseen
            end;
        {unseen, _} = Unseen -> Unseen
    end.

-spec look() -> {ok, os()} | {unseen, binary()}.
look() ->
    case prim_file:read_file("/proc/self/stat") of
        {ok, Stat} ->
            {ok, lists:foldl(fun maps:merge/2, #{at_us => erlang:monotonic_time(microsecond)}, [
                schedulers(), own(Stat), programs(), machine(read("/proc/stat")),
                memory(read("/proc/self/status"), read("/proc/meminfo")),
                descriptors(read("/proc/self/status"), read("/proc/self/limits")),
                flame_prof_cgroup:figures()
            ])};
        {error, enoent} ->
            {unseen, <<"there is no /proc">>};
        {error, Why} ->
            {unseen, unicode:characters_to_binary(["/proc/self/stat: ", file:format_error(Why)])}
    end.

read(File) ->
    case prim_file:read_file(File) of
        {ok, Text} -> Text;
        {error, _} -> <<>>
    end.

%% Normal schedulers only: dirty ones may compete with them. Their names begin so: OTP 25 has
%% "1_scheduler", newer ones "erts_sched_1".
schedulers() ->
    Tasks = case prim_file:list_dir("/proc/self/task") of
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

programs() ->
    case flame_prof_doctor_programs:time_us() of
        {ok, Us} -> #{programs_us => Us};
        unknown -> #{}
    end.

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

descriptors(Status, Limits) ->
    case {first(<<"FDSize:">>, Status), first(<<"Max open files">>, Limits)} of
        {[Size], [Limit]} when Size >= ?MANY_DESCRIPTORS * Limit, Size =< ?LISTED_MOST ->
            #{descriptors => maps:from_list([{limit, Limit} | used(Limit)])};
        {_, [Limit]} ->
            #{descriptors => #{limit => Limit}};
        _ ->
            #{}
    end.

%% The descriptor of the listing itself is free again. Without one that is free there is no listing.
used(Limit) ->
    case prim_file:list_dir("/proc/self/fd") of
        {ok, Names} -> [{used, length(Names) - 1}];
        {error, Full} when Full =:= emfile; Full =:= enfile -> [{used, Limit}];
        {error, _} -> []
    end.

first(Name, Text) ->
    lists:sublist(lists:append([after_name(Name, Line) || Line <- lines(Text)]), 1).

after_name(Name, Line) ->
    case string:prefix(Line, Name) of
        nomatch -> [];
        Rest -> lists:sublist(numbers(Rest), 1)
    end.

lines(Text) -> binary:split(Text, <<"\n">>, [global]).

%% Those of a line up to something else, as `max' or a unit.
numbers(Text) ->
    Parsed = [string:to_integer(Word) || Word <- string:lexemes(Text, " \t\n")],
    [N || {N, <<>>} <- Parsed, is_integer(N)].
