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
        {mostly, 0.9, <<"share of the time in which a process seldom waits: a note">>},
        {mostly_on_cpu, 0.6, <<"least share of the time on a CPU for such a note">>},
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
    Groups = maps:groups_from_list(
        fun({_, Process}) -> flame_prof_doctor_hot:group(Process, Samples) end, Hot),
    Told = [
        flame_prof_doctor_hot:finding(kind(),
            [Process || {_, Process} <- lists:reverse(lists:keysort(1, Some))], Samples)
     || Some <- maps:values(Groups), length(Some) =:= 1 orelse is_one(Some, Evidence, Limits)
    ],
    case Told of
        [] ->
            case flame_prof_doctor_hottest:find(kind(), Evidence, Limits) of
                [] -> mostly(Evidence, Limits);
                Found -> Found
            end;
        [_ | _] ->
            Told
    end;
find(_, _) ->
    [].

%% One that waits now and then, and takes most of a CPU: a note.
mostly(#{samples := #{processes := Processes} = Samples} = Evidence, Limits) ->
    #{mostly := Busy, mostly_on_cpu := OfCpu} = Limits,
    Note = Limits#{busy := Busy, of_cpu := OfCpu, whole_cpu := 2},
    Found = [P || P <- Processes, is_hot(P, Samples, Note)],
    Groups = maps:groups_from_list(fun(P) -> flame_prof_doctor_hot:group(P, Samples) end, Found),
    [(flame_prof_doctor_hot:finding(kind(), [P], Samples))#{severity := note}
        || [P] <- maps:values(Groups), not flame_prof_doctor_vm:is_starved(Evidence, 0)].

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
