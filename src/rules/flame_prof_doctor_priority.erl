%% @private A process that never has to wait for a CPU while all others do: its priority is high.
%%
%% == False alarms ==
%% On a loaded node every process of normal priority waits for its turn as often as it runs, and
%% more often the more there are. This one runs for `busy' of the time and is ready for less than
%% `ready' of that, while `others' processes are ready at each moment. Samples do not tell
%% priorities: on a node that is not loaded nothing is said. Nor of who waits for locks: a scheduler
%% that waits for one takes no other process.
-module(flame_prof_doctor_priority).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, explained_by/0]).

-import(flame_prof_doctor_rule, [number/1, share/1]).

%% In fewer ticks of samples nothing is known.
-define(TICKS, 200).

kind() -> priority.

needs() -> [samples].

explained_by() -> [lock].

thresholds() ->
    [
        {busy, 0.5, <<"share of the time on a CPU">>},
        {ready, 0.05, <<"share of that time in which it is ready for a CPU">>},
        {others, 4, <<"mean number of processes that are ready for a CPU">>},
        {starved, 0.6, <<"share of the time in which the others are ready, waits left out">>}
    ].

find(#{samples := #{mode := processes, processes := Processes} = Samples}, Limits) ->
    #{busy := Busy, ready := Least, others := Others, starved := Starved} = Limits,
    Ticks = flame_prof_doctor_calls:ticks(Samples),
    {Favoured, Rest} = lists:partition(
        fun(#{observations := All, runnable := Ready} = P) ->
            OnCpu = flame_prof_doctor_samples:on_cpu(P),
            OnCpu >= Busy * All andalso All >= Ticks div 2 andalso Ready =< Least * OnCpu
        end, Processes),
    Ready = lists:sum([N || #{runnable := N} <- Rest]),
    Runs = lists:sum([flame_prof_doctor_samples:on_cpu(P) || P <- Rest]),
    case Ticks >= ?TICKS andalso Ready >= Others * Ticks
        andalso Ready >= Starved * (Ready + Runs) of
        true -> [finding(P, Ready / Ticks, Ready / (Ready + Runs), Samples) || P <- Favoured];
        false -> []
    end;
find(_, _) ->
    [].

finding(#{observations := All, runnable := Ready} = Process, Others, Part, Samples) ->
    OnCpu = flame_prof_doctor_samples:on_cpu(Process),
    Function = flame_prof_doctor_stacks:function(
        flame_prof_doctor_calls:on_cpu(Samples, Process)),
    flame_prof_doctor_samples:finding(kind(), Process, #{
        severity => warning,
        size => OnCpu / All,
        title => ["keeps ", number(Others), " processes waiting for a CPU"],
        sentences => [
            ["It is on a CPU for ", share(OnCpu / All), " of ",
                flame_prof_doctor_samples:time(Process), " and ready for one for ",
                share(Ready / All), ", as a process of high priority is."],
            ["The others are ready for ", share(Part), " of the time that they do not wait."],
            case Function of <<>> -> ""; _ -> ["It is in ", Function, "."] end,
            ["Seen in ", number(All), " samples."]
        ],
        command => ["flame_prof pstack --node NODE ",
            flame_prof_doctor_samples:target(Process)],
        numbers => #{on_cpu => OnCpu, ready => Ready, observations => All, others => Others,
            share => OnCpu / All, ready_share => Ready / All, others_share => Part},
        function => Function,
        view => #{measure => samples, show => busy, levels => [process, status], view => flame}
    }).
