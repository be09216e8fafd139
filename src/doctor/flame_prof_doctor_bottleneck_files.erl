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

-define(WAITING, 5). % processes that wait at a time, in the mean
-define(IDLE, 0.5).
-define(READY, 0.5).
-define(NEXT, 0.2). % of its time a server waits for the next one
-define(LINKS, 10).

kind() -> bottleneck.

kind([_, _, _ | _]) -> chain;
kind(_) -> bottleneck.

needs() -> [samples].

%% Those of the kind are those of the other rule.
thresholds() -> [].

find(#{waits := _}, _) ->
    [];
find(#{samples := #{processes := Processes} = Samples}, _) ->
    case [P || #{waits_for := [_ | _]} = P <- Processes] of
        [] -> {unseen, <<"which process waits for which is not in the samples">>};
        _ -> found(Samples)
    end.

found(#{processes := Processes} = Samples) ->
    Ticks = flame_prof_doctor_calls:ticks(Samples),
    Ready = lists:sum([N || #{runnable := N} <- Processes]) / Ticks,
    ByPid = maps:from_list([{Pid, P} || #{pid := Pid} = P <- Processes]),
    Chains = [
        {Waiting, lists:reverse(chain([Process], ByPid))}
     || {Pid, Waiting} <- waited_for(Processes, Ticks),
        #{Pid := Process} <- [ByPid], not is_idle(Process, Samples),
        Ready < Waiting orelse not is_late(Process)
    ],
    %% One that another chain leads through is told there.
    Ends = maps:groups_from_list(fun({_, Chain}) -> lists:last(Chain) end, Chains),
    [told(lists:max(Some), Samples) || Some <- maps:values(Ends)].

waited_for(Processes, Ticks) ->
    Sums = lists:foldl(
        fun({Pid, N}, Map) -> maps:update_with(Pid, fun(Sum) -> Sum + N end, N, Map) end, #{},
        [Waits || #{waits_for := Some} <- Processes, Waits <- Some]),
    [{Pid, N / Ticks} || {Pid, N} <- maps:to_list(Sums), N >= ?WAITING * Ticks].

is_idle(#{pid := Pid, observations := All}, #{by_queue := ByQueue}) ->
    Idle = [{Frames, W} || {<<"waiting">>, <<"queue_0">>, {Frames, W}} <- ByQueue(Pid)],
    Loops = [<<"gen_server:loop/*">>, <<"gen_statem:loop_receive/*">>, <<"gen_event:fetch_msg/*">>],
    flame_prof_doctor_stacks:weight(flame_prof_doctor_stacks:at_leaf(Idle, Loops)) > ?IDLE * All.

is_late(#{runnable := Ready, observations := All}) -> Ready > ?READY * All.

%% The one that it waits for itself, and so on; the last one first.
chain([#{waits_for := [{Next, N} | _], observations := All} | _] = Chain, ByPid) when
    N >= ?NEXT * All, length(Chain) < ?LINKS
->
    case ByPid of
        #{Next := Process} ->
            case lists:member(Process, Chain) of
                true -> Chain;
                false -> chain([Process | Chain], ByPid)
            end;
        #{} ->
            Chain
    end;
chain(Chain, _ByPid) ->
    Chain.

told({Waiting, [First | _] = Chain}, Samples) ->
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
            ["Seen in ", number(All), " samples."]
        ],
        command => ["flame_prof waits NODE ", flame_prof_doctor_samples:target(Last)],
        numbers => #{waiting => Waiting, on_cpu => OnCpu, observations => All},
        function => Function,
        processes => [flame_prof_doctor_samples:process(P) || P <- lists:reverse(Chain)],
        view => #{measure => samples, show => all, levels => [process, status], view => flame}
    }).
