%% @private Findings on processes that keep a CPU: what the rule `hot_function' prints.
-module(flame_prof_doctor_hot).

-export([group/2, finding/3]).

-import(flame_prof_doctor_rule, [number/1, seconds/1, share/1]).

-define(NAMED_MOST, 20).

%% @doc Workers that do the same are one finding.
-spec group(flame_prof_doctor_samples:process(), flame_prof_doctor_samples:samples()) -> binary().
group(#{pid := Pid} = Process, Samples) ->
    case flame_prof_doctor_stacks:function(flame_prof_doctor_samples:busy(Samples, Process)) of
        <<>> -> Pid;
        Function -> Function
    end.

%% @doc A finding on processes that do the same, the one with the most time on a CPU first.
-spec finding(flame_prof_doctor_rule:kind(), [flame_prof_doctor_samples:process(), ...],
    flame_prof_doctor_samples:samples()) -> flame_prof_doctor_rule:finding().
finding(Kind, [#{observations := All, runnable := Ready} = Process | Others] = Group, Samples) ->
    OnCpu = flame_prof_doctor_samples:on_cpu(Process),
    Stacks = flame_prof_doctor_samples:busy(Samples, Process),
    Function = flame_prof_doctor_stacks:function(Stacks),
    #{first_us := FromUs, last_us := ToUs} = Process,
    Finding = flame_prof_doctor_samples:finding(Kind, Process, #{
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
