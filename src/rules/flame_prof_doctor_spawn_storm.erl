%% @private A process that spawns all the time; what it spawns ends at once, and is not sampled.
%%
%% == False alarms ==
%% A spawn takes microseconds: a process that is in one in 1 % of all its samples spawns thousands a
%% second. The demo's thousand a second are a healthy 0.1 to 0.3 %, on a loaded machine up to 0.7 %,
%% but of the node's time on CPUs never more than 0.35 %. Those who stay were spawned for good: a
%% node that starts up grows by `stay'.
-module(flame_prof_doctor_spawn_storm).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [number/1, share/1]).

-define(SPAWNS, [<<"erlang:spawn*">>, <<"erts_internal:spawn*">>]).

kind() -> spawn_storm.

needs() -> [samples].

thresholds() ->
    [
        {seen, 8, <<"least number of samples in a spawn">>},
        {share, 0.4, <<"share of its samples on a CPU in a spawn">>},
        {of_time, 0.006, <<"share of all its samples in a spawn">>},
        {of_node, 0.005, <<"share of the node's samples on CPUs in its spawns">>},
        {per_second, 2000, <<"new processes a second: a note, if there are fewer samples">>},
        {few_seen, 3, <<"least number of samples in a spawn for such a note">>},
        {stay, 0.1, <<"share by which the number of processes grows while a node starts up">>}
    ].

find(#{samples := #{mode := processes, processes := Processes} = Samples} = Evidence, Limits) ->
    OfNode = lists:sum([flame_prof_doctor_samples:on_cpu(P) || P <- Processes]),
    case stays(maps:get(seconds, Evidence, []), Limits) of
        true ->
            [];
        false ->
            Rate = rate(maps:get(seconds, Evidence, [])),
            Spawning = [{flame_prof_doctor_stacks:weight(Spawns), Process, Spawns}
                || Process <- Processes, Spawns <- [spawns(Process, Samples)], Spawns =/= []],
            case [finding(warning, Process, Spawns, Rate) || {N, Process, Spawns} <- Spawning,
                is_storm(Process, N, OfNode, Limits)] of
                [] -> by_rate(Rate, lists:reverse(lists:keysort(1, Spawning)), Limits);
                Storms -> Storms
            end
    end;
find(_, _) ->
    [].

%% By the numbers of processes. Once all slots of the table were used these follow each other only
%% while processes end in the order of their beginning: steps must be alike.
rate(Seconds) ->
    Probes = [{N, Us} || #{node_spawned := N, time_us := Us} <- Seconds],
    case lists:sort(steps(Probes)) of
        [Least | _] = Steps when Least >= 0 ->
            Median = lists:nth((length(Steps) + 1) div 2, Steps),
            case lists:last(Steps) =< 4 * Median + 1000 of true -> Median; false -> unknown end;
        _ ->
            unknown
    end.

steps([{From, FromUs} | [{To, ToUs} | _] = Probes]) ->
    [(To - From) * 1.0e6 / max(1, ToUs - FromUs) | steps(Probes)];
steps(_) ->
    [].

by_rate(Rate, [{N, Process, Spawns} | Others], #{per_second := Least, few_seen := Few}) when
    is_number(Rate), Rate >= Least, N >= Few
->
    [finding(note, Process, Spawns, Rate) || N > lists:sum([Of || {Of, _, _} <- Others])];
by_rate(_, _, _) ->
    [].

stays(Seconds, #{stay := Stay}) ->
    case [N || #{node_processes := N} <- Seconds] of
        [First, _ | _] = All -> lists:last(All) > (1 + Stay) * First;
        _ -> false
    end.

spawns(#{pid := Pid}, #{stacks := Stacks}) ->
    flame_prof_doctor_stacks:anywhere(Stacks(Pid, [<<"running">>]), ?SPAWNS).

is_storm(#{observations := All} = Process, Spawns, OfNode, Limits) ->
    #{seen := Seen, share := Share, of_time := OfTime, of_node := Least} = Limits,
    Spawns >= Seen andalso Spawns >= Share * flame_prof_doctor_samples:on_cpu(Process)
        andalso Spawns >= OfTime * All andalso Spawns >= Least * OfNode.

finding(Severity, #{observations := All} = Process, Stacks, Rate) ->
    OnCpu = flame_prof_doctor_samples:on_cpu(Process),
    Spawns = flame_prof_doctor_stacks:weight(Stacks),
    Function = flame_prof_doctor_stacks:caller(Stacks, ?SPAWNS),
    #{first_us := FromUs, last_us := ToUs} = Process,
    flame_prof_doctor_samples:finding(kind(), Process, #{
        severity => Severity,
        size => Spawns / All,
        title => "spawns processes all the time",
        sentences => [
            ["It is in a spawn for ", share(Spawns / OnCpu), " of its time on a CPU."],
            case Function of
                <<>> -> "";
                _ -> ["It spawns in ", Function, "."]
            end,
            ["The new processes soon end: the node has no more processes than before",
                [[", and ", number(Rate), " new ones a second"] || is_number(Rate)], "."],
            ["Seen in ", number(Spawns), " of ", number(OnCpu), " samples on a CPU in ",
                flame_prof_doctor_samples:time(Process), "."]
        ],
        command => ["flame_prof trace NODE spawn --process ",
            flame_prof_doctor_samples:target(Process)],
        numbers => #{spawning => Spawns, on_cpu => OnCpu, observations => All,
            share => Spawns / OnCpu, per_second => Rate},
        function => Function,
        range => {FromUs, ToUs},
        view => #{measure => samples, show => all, levels => [process, status], view => flame}
    }).
