%% @private A process that never waits: the function that it is in.
%%
%% == False alarms ==
%% A process that works hard still waits at times: this one does not for `least_us'. Beside many
%% others it is ready for most of its time, so that it needs to be on a CPU for little of it. A
%% server that has messages all the time is kept busy by others, and says so only where it takes
%% nearly a whole CPU. A regular expression is looked for apart, as its process may wait between
%% texts: it is told where it is nearly all of the time; who only looks for words in texts has other
%% work with them.
-module(flame_prof_doctor_hot_function).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, explained_by/0]).

-import(flame_prof_doctor_rule, [number/1, seconds/1, share/1]).

%% Of the observations of one that is kept busy.
-define(WITH_MESSAGES, 0.5).
-define(NAMED_MOST, 20).
-define(EXPRESSION, [<<"re:run/2">>, <<"re:run/3">>, <<"erlang:re_run_trap/3">>]).

kind() -> hot_function.

needs() -> [samples].

%% What it does with the CPU is known better.
explained_by() ->
    [bottleneck, chain, scheduler_stuck, mailbox, selective_receive, lock, busy_port, busy_dist,
        file_io, logger, gc, long_gc, spawn_storm, exceptions, append, copies, timers,
        persistent_term, code_loading, priority, table_growth].

thresholds() ->
    [
        {busy, 0.995, <<"of the time it does not wait">>},
        {least_us, 5000000, <<"microseconds: for so long">>},
        {of_cpu, 0.05, <<"of the time it is on a CPU at least">>},
        {whole_cpu, 0.9, <<"of the time on a CPU: also of a server with messages">>},
        {expression, 0.9, <<"of the time in regular expressions">>}
    ].

find(#{samples := #{mode := processes, processes := Processes} = Samples}, Limits) ->
    Hot = [
        {flame_prof_doctor_samples:on_cpu(Process), Process}
     || Process <- Processes,
        is_hot(Process, Samples, Limits) orelse matches(Process, Samples) >
            maps:get(expression, Limits)
    ],
    Groups = maps:groups_from_list(fun({_, Process}) -> group(Process, Samples) end, Hot),
    [
        told([Process || {_, Process} <- lists:reverse(lists:keysort(1, Some))], Samples)
     || Some <- maps:values(Groups)
    ];
find(_, _) ->
    [].

is_hot(#{observations := All, runnable := Ready} = Process, Samples, Limits) ->
    #{busy := Busy, least_us := LeastUs, of_cpu := OfCpu, whole_cpu := Whole} = Limits,
    OnCpu = flame_prof_doctor_samples:on_cpu(Process),
    maps:get(last_us, Process) - maps:get(first_us, Process) >= LeastUs
        andalso OnCpu + Ready >= Busy * All
        andalso OnCpu >= OfCpu * All
        andalso (OnCpu >= Whole * All orelse not is_kept_busy(Process, Samples)).

matches(#{observations := All} = Process, Samples) ->
    Stacks = flame_prof_doctor_samples:busy(Samples, Process),
    flame_prof_doctor_stacks:weight(flame_prof_doctor_stacks:at_leaf(Stacks, ?EXPRESSION)) /
        max(1, All).

is_kept_busy(#{pid := Pid, observations := All}, #{by_queue := ByQueue}) ->
    With = [Weight || {_, Queue, {_, Weight}} <- ByQueue(Pid), Queue =/= <<"queue_0">>],
    lists:sum(With) > ?WITH_MESSAGES * All.

%% Workers that do the same are one finding.
group(#{pid := Pid} = Process, Samples) ->
    case flame_prof_doctor_stacks:function(flame_prof_doctor_samples:busy(Samples, Process)) of
        <<>> -> Pid;
        Function -> Function
    end.

told([#{observations := All, runnable := Ready} = Process | Others] = Group, Samples) ->
    OnCpu = flame_prof_doctor_samples:on_cpu(Process),
    Stacks = flame_prof_doctor_samples:busy(Samples, Process),
    Function = flame_prof_doctor_stacks:function(Stacks),
    #{first_us := FromUs, last_us := ToUs} = Process,
    Finding = flame_prof_doctor_samples:finding(kind(), Process, #{
        severity => warning,
        size => OnCpu / All,
        title => case Others of
            [] -> "keeps a CPU";
            [_ | _] -> ["and ", number(length(Others)), " more that do the same never wait"]
        end,
        sentences => [
            ["For ", seconds(ToUs - FromUs), " it is on a CPU for ", share(OnCpu / All),
                " of the time and ready for one for ", share(Ready / All), "."],
            where(Function, Stacks),
            case matches(Process, Samples) of
                Part when Part > 0.5 ->
                    ["A regular expression takes ", share(Part), " of the time: it may backtrack."];
                _ ->
                    ""
            end,
            ["Seen in ", number(All), " samples."]
        ],
        command => ["flame_prof pstack --node NODE ",
            flame_prof_doctor_samples:target(Process)],
        numbers => #{on_cpu => OnCpu, ready => Ready, observations => All},
        function => Function,
        range => {FromUs, ToUs},
        view => #{measure => samples, show => busy, levels => [process, status], view => flame}
    }),
    Finding#{processes := lists:sublist([flame_prof_doctor_samples:process(P) || P <- Group],
        ?NAMED_MOST)}.

where(<<>>, _Stacks) ->
    "";
where(Function, Stacks) ->
    In = flame_prof_doctor_stacks:weight(flame_prof_doctor_stacks:anywhere(Stacks, [Function])),
    ["It is in ", Function, " for ", share(In / flame_prof_doctor_stacks:weight(Stacks)),
        " of it."].
