%% @private Who writes to ETS tables, by stacks: files do not tell whose tables grow.
-module(flame_prof_doctor_writers).

-export([most/1]).

-define(WRITES, [<<"ets:insert/*">>, <<"ets:insert_new/*">>, <<"ets:update_counter/*">>,
    <<"ets:update_element/*">>]).
-define(SEEN, 8).
-define(SHARE, 0.5). % of its time on a CPU
-define(TIMES, 2). % as many as the next such process

%% @doc A process that does little else is likely to be it, if it writes twice as much as any other;
%% one that looks up and replaces is not. With the share of its time on a CPU, and the function.
-spec most(flame_prof_doctor_samples:samples()) ->
    {flame_prof_doctor_rule:process(), Share :: float(), Function :: binary()} | none.
most(#{processes := Processes, stacks := Stacks}) ->
    Found = [
        {Weight, Process, Writes}
     || #{pid := Pid} = Process <- Processes,
        Writes <- [flame_prof_doctor_stacks:anywhere(Stacks(Pid, [<<"running">>]), ?WRITES)],
        Weight <- [flame_prof_doctor_stacks:weight(Writes)], Weight >= ?SEEN,
        Weight >= ?SHARE * flame_prof_doctor_samples:on_cpu(Process)
    ],
    case lists:reverse(lists:keysort(1, Found)) of
        [{Weight, _, _}, {Next, _, _} | _] when Weight < ?TIMES * Next ->
            none;
        [{Weight, Process, Writes} | _] ->
            {flame_prof_doctor_samples:process(Process),
                Weight / flame_prof_doctor_samples:on_cpu(Process),
                flame_prof_doctor_stacks:function(Writes)};
        [] ->
            none
    end.
