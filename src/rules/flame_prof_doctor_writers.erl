%% @private Who writes to ETS tables, by stacks: files do not tell whose tables grow.
-module(flame_prof_doctor_writers).

-export([thresholds/0, most/2]).

-define(WRITES, [<<"ets:insert/*">>, <<"ets:insert_new/*">>, <<"ets:update_counter/*">>,
    <<"ets:update_element/*">>]).

%% @doc Rows of the rule whose tables these are.
-spec thresholds() -> [flame_prof_doctor_rule:threshold()].
thresholds() ->
    [
        {writer_seen, 8, <<"files: samples in writes from which a process is named">>},
        {writer_share, 0.5, <<"files: share of its time on a CPU in writes">>},
        {writer_times, 2, <<"files: times as many such samples as the next process">>}
    ].

%% @doc A process that does little else is likely to be it, if it writes twice as much as any other;
%% one that looks up and replaces is not. With the share of its time on a CPU, and the function.
-spec most(flame_prof_doctor_samples:samples(), flame_prof_doctor_rule:thresholds()) ->
    {flame_prof_doctor_rule:process(), Share :: float(), Function :: binary()} | none.
most(#{processes := Processes, stacks := Stacks}, Limits) ->
    #{writer_seen := Seen, writer_share := Share, writer_times := Times} = Limits,
    Found = [
        {Weight, Process, Writes}
     || #{pid := Pid} = Process <- Processes,
        Writes <- [flame_prof_doctor_stacks:anywhere(Stacks(Pid, [<<"running">>]), ?WRITES)],
        Weight <- [flame_prof_doctor_stacks:weight(Writes)], Weight >= Seen,
        Weight >= Share * flame_prof_doctor_samples:on_cpu(Process)
    ],
    case lists:reverse(lists:keysort(1, Found)) of
        [{Weight, _, _}, {Next, _, _} | _] when Weight < Times * Next ->
            none;
        [{Weight, Process, Writes} | _] ->
            {flame_prof_doctor_samples:process(Process),
                Weight / flame_prof_doctor_samples:on_cpu(Process),
                flame_prof_doctor_stacks:caller(Writes, ?WRITES)};
        [] ->
            none
    end.
