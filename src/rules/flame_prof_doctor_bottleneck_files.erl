%% @private The bottleneck of many in a profile alone, by the word `waits_for' of samples: where a
%% look at waits is there, the rule of that kind knows more, and this one says nothing.
%%
%% == False alarms ==
%% Those who wait for a server that has nothing to do (a queue of jobs) are no victims: one that
%% waits without a message for `idle' of the time is none. One that is ready for most of its time
%% lacks a CPU, as all of its node do where so many are ready as wait for it.
-module(flame_prof_doctor_bottleneck_files).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [name/1, number/1, share/1]).

-define(LINKS, 10).

kind() -> bottleneck.

kind([_, _, _ | _]) -> chain;
kind(_) -> bottleneck.

needs() -> [samples].

thresholds() ->
    [
        {files_waiting, 5, <<"files: mean number of processes that wait for one">>},
        {files_idle, 0.5,
            <<"files: share of the time in which a server without messages has no work">>},
        {files_ready, 0.5,
            <<"files: share of the time: a process that is ready this often lacks a CPU">>},
        {files_next, 0.2, <<"files: share of the time in which a server waits for the next one">>}
    ].

find(#{waits := _}, _) ->
    [];
find(#{samples := #{processes := Processes} = Samples}, Limits) ->
    case [P || #{waits_for := [_ | _]} = P <- Processes] of
        [] -> {unseen, <<"which process waits for which is not in the samples">>};
        _ -> found(Samples, Limits)
    end.

found(#{processes := Processes} = Samples, Limits) ->
    Ticks = flame_prof_doctor_calls:ticks(Samples),
    Ready = lists:sum([N || #{runnable := N} <- Processes]) / Ticks,
    ByPid = maps:from_list([{Pid, P} || #{pid := Pid} = P <- Processes]),
    Chains = [
        {Waiting, lists:reverse(chain([Process], ByPid, Limits))}
     || {Pid, Waiting} <- waited_for(Processes, Ticks, Limits),
        #{Pid := Process} <- [ByPid], not is_idle(Process, Samples, Limits),
        Ready < Waiting orelse not is_late(Process, Limits)
    ],
    %% One that another chain leads through is told there.
    Ends = maps:groups_from_list(fun({_, Chain}) -> lists:last(Chain) end, Chains),
    [finding(lists:max(Some), Samples) || Some <- maps:values(Ends)].

waited_for(Processes, Ticks, #{files_waiting := Least}) ->
    Sums = lists:foldl(
        fun({Pid, N}, Map) -> maps:update_with(Pid, fun(Sum) -> Sum + N end, N, Map) end, #{},
        [Waits || #{waits_for := Some} <- Processes, Waits <- Some]),
    [{Pid, N / Ticks} || {Pid, N} <- maps:to_list(Sums), N >= Least * Ticks].

is_idle(#{pid := Pid, observations := All}, #{by_queue := ByQueue}, #{files_idle := Share}) ->
    Idle = [{Frames, W} || {<<"waiting">>, <<"queue_0">>, {Frames, W}} <- ByQueue(Pid)],
    Loops = [<<"gen_server:loop/*">>, <<"gen_statem:loop_receive/*">>, <<"gen_event:fetch_msg/*">>],
    flame_prof_doctor_stacks:weight(flame_prof_doctor_stacks:at_leaf(Idle, Loops)) > Share * All.

is_late(#{runnable := Ready, observations := All}, #{files_ready := Most}) -> Ready > Most * All.

%% The one that it waits for itself, and so on; the last one first.
chain([#{waits_for := [{Next, N} | _], observations := All} | _] = Chain, ByPid,
    #{files_next := Share} = Limits) when N >= Share * All, length(Chain) < ?LINKS
->
    case ByPid of
        #{Next := Process} ->
            case lists:member(Process, Chain) of
                true -> Chain;
                false -> chain([Process | Chain], ByPid, Limits)
            end;
        #{} ->
            Chain
    end;
chain(Chain, _ByPid, _Limits) ->
    Chain.

finding({Waiting, [First | _] = Chain}, Samples) ->
    #{observations := All, queue_range := {_, _, Most, _}} = Last = lists:last(Chain),
    Function = flame_prof_doctor_samples:function(Samples, Last),
    OnCpu = flame_prof_doctor_samples:on_cpu(Last),
    Names = [name(flame_prof_doctor_samples:process(P)) || P <- Chain],
    flame_prof_doctor_samples:finding(kind(Chain), Last, #{
        severity => warning,
        size => Waiting,
        title => ["keeps ", number(round(Waiting)), " processes waiting"],
        sentences => [
            ["In the mean ", number(Waiting), " processes wait for ",
                name(flame_prof_doctor_samples:process(First)), "."],
            case Names of
                [_] -> "";
                _ -> [lists:join(" waits for ", Names), "."]
            end,
            case Function of
                <<>> -> "";
                _ -> ["It is in ", Function, ", on a CPU for ", share(OnCpu / All),
                    " of the time, with up to ", number(Most), " messages in its queue."]
            end,
            ["Seen in ", number(All), " samples in ", flame_prof_doctor_samples:time(Last), "."]
        ],
        command => ["flame_prof waits NODE ", flame_prof_doctor_samples:target(Last)],
        numbers => #{waiting => Waiting, on_cpu => OnCpu, observations => All, most => Most,
            share => OnCpu / All},
        function => Function,
        processes => [flame_prof_doctor_samples:process(P) || P <- lists:reverse(Chain)],
        view => #{measure => samples, show => all, levels => [process, status], view => flame}
    }).
