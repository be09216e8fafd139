%% @private A process that never waits: the function that it is in.
%%
%% == False alarms ==
%% A process that works hard still waits at times: this one does not for `least_us'. Beside many
%% others it is ready for most of its time, so that it needs to be on a CPU for little of it. A
%% server that has messages all the time is kept busy by others, and says so only where it takes
%% nearly a whole CPU. Several that do the same without a pause are a batch that has the machine:
%% these are told where one innermost function has much of their time. Workers that wait in between
%% are judged together (flame_prof_doctor_hottest). A regular expression is looked for apart, as
%% its process may wait between texts: it is told where it is nearly all of the time; who only
%% looks for words in texts has other work with them.
-module(flame_prof_doctor_hot_function).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, explained_by/0, unseen/2]).

-import(flame_prof_doctor_rule, [number/1, seconds/1, share/1]).

-define(NAMED_MOST, 20).

kind() -> hot_function.

needs() -> [samples].

%% What it does with the CPU is known better.
explained_by() ->
    [bottleneck, chain, scheduler_stuck, mailbox, selective_receive, lock, busy_port, busy_dist,
        file_io, formatting, logger, gc, long_gc, spawn_storm, exceptions, append, copies, timers,
        persistent_term, code_loading, priority, table_growth, binary_leak, heap_growth,
        atom_growth, process_growth].

thresholds() ->
    [
        {busy, 0.995, <<"share of the time in which it does not wait">>},
        {least_us, 5000000, <<"microseconds: least duration">>},
        {of_cpu, 0.05, <<"least share of the time on a CPU">>},
        {whole_cpu, 0.9, <<"share of the time on a CPU, for a server with messages, too">>},
        {with_messages, 0.5, <<"share of the time in which a process kept busy has messages">>},
        {leaf, 0.5, <<"share of the time of several processes in one function">>},
        {leaf_starved, 0.8, <<"the same, if the VM lacks CPUs">>},
        {expression, 0.9, <<"share of the time in regular expressions">>}
        | flame_prof_doctor_hottest:thresholds()
    ].

find(#{samples := #{mode := processes, processes := Processes} = Samples} = Evidence, Limits) ->
    Hot = [
        {flame_prof_doctor_samples:on_cpu(Process), Process}
     || Process <- Processes,
        is_hot(Process, Samples, Limits) orelse
            flame_prof_doctor_hottest:matches(Process, Samples) > maps:get(expression, Limits)
    ],
    Groups = maps:groups_from_list(fun({_, Process}) -> group(Process, Samples) end, Hot),
    Told = [
        told([Process || {_, Process} <- lists:reverse(lists:keysort(1, Some))], Samples)
     || Some <- maps:values(Groups), length(Some) =:= 1 orelse is_one(Some, Evidence, Limits)
    ],
    case Told of
        [] -> flame_prof_doctor_hottest:find(kind(), Evidence, Limits);
        [_ | _] -> Told
    end;
find(_, _) ->
    [].

unseen(Evidence, #{least_us := Us}) -> flame_prof_doctor_rule:short(Us, Evidence).

is_hot(#{observations := All, runnable := Ready} = Process, Samples, Limits) ->
    #{busy := Busy, least_us := LeastUs, of_cpu := OfCpu, whole_cpu := Whole} = Limits,
    OnCpu = flame_prof_doctor_samples:on_cpu(Process),
    maps:get(last_us, Process) - maps:get(first_us, Process) >= LeastUs
        andalso OnCpu + Ready >= Busy * All
        andalso OnCpu >= OfCpu * All
        andalso (OnCpu >= Whole * All orelse not is_kept_busy(Process, Samples, Limits)).

%% A VM that lacks CPUs stands still in one function for many samples.
is_one(Group, #{samples := Samples} = Evidence, #{leaf := Share, leaf_starved := Starved}) ->
    Stacks = [flame_prof_doctor_calls:on_cpu(Samples, Process) || {_, Process} <- Group],
    {_, Part} = flame_prof_doctor_stacks:most_called(lists:append(Stacks)),
    Part >= Share andalso
        (Part >= Starved orelse not flame_prof_doctor_vm:is_starved(Evidence, 0)).

is_kept_busy(#{pid := Pid, observations := All}, #{by_queue := ByQueue}, Limits) ->
    With = [Weight || {_, Queue, {_, Weight}} <- ByQueue(Pid), Queue =/= <<"queue_0">>],
    lists:sum(With) > maps:get(with_messages, Limits) * All.

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
            flame_prof_doctor_hottest:where(Function, Stacks),
            flame_prof_doctor_hottest:expressions(Process, Samples),
            ["Seen in ", number(All), " samples."]
        ],
        command => ["flame_prof pstack --node NODE ",
            flame_prof_doctor_samples:target(Process)],
        numbers => flame_prof_doctor_hottest:numbers(Process, Function, Samples),
        function => Function,
        range => {FromUs, ToUs},
        view => #{measure => samples, show => busy, levels => [process, status], view => flame}
    }),
    Finding#{processes := lists:sublist([flame_prof_doctor_samples:process(P) || P <- Group],
        ?NAMED_MOST)}.
