%% @private `throttled': the control group's CPU quota is used up, and the kernel stops all threads
%% of the node until the next period.
%%
%% == False alarms ==
%% A burst may use up the quota of one period. Told is what stops the node in many periods of the
%% time, and for a part of it. A quota that is not reached stops nothing.
-module(flame_prof_doctor_throttled).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [number/1, share/1, seconds/1]).

-spec kind() -> flame_prof_doctor_rule:kind().
kind() -> throttled.

-spec needs() -> [flame_prof_doctor_rule:needs(), ...].
needs() -> [os].

-spec thresholds() -> [flame_prof_doctor_rule:threshold()].
thresholds() ->
    [
        {periods, 0.2, <<"part of the periods in which the node was stopped">>},
        {time, 0.02, <<"time for which it was stopped, part of the time of the look">>}
    ].

-spec find(flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) ->
    [flame_prof_doctor_rule:finding()].
find(#{os := {#{throttled := First, at_us := From}, #{throttled := Last, at_us := To} = Os}},
    #{periods := Periods, time := Time}
) ->
    Of = fun(Key) -> maps:get(Key, Last) - maps:get(Key, First) end,
    Stopped = Of(throttled_periods),
    %% A stop counts when it begins, its period when that ends.
    All = max(Of(periods), Stopped),
    case All > 0 andalso Stopped / All >= Periods andalso Of(us) / (To - From) >= Time of
        true -> [finding(Stopped, All, Of(us), To - From, Os)];
        false -> []
    end;
find(_, _) ->
    [].

finding(Stopped, All, Us, SpanUs, Os) ->
    #{
        kind => throttled,
        severity => warning,
        size => Stopped / All,
        title => io_lib:format("the CPU quota stops the node in ~ts of its periods",
            [share(Stopped / All)]),
        sentences => [quota(Os)] ++ [
            io_lib:format("All threads were stopped in ~ts of ~ts periods, for ~ts in ~ts.",
                [number(Stopped), number(All), seconds(Us), seconds(SpanUs)]),
            "Requests wait for that time: the node has more schedulers than the quota has CPUs, "
            "or more work."
        ],
        command => "flame_prof top --node NODE --by running",
        processes => [],
        numbers => #{share => Stopped / All, periods => All,
            throttled_periods => Stopped, throttled_us => Us,
            span_us => SpanUs, cpus_allowed => maps:get(cpus_allowed, Os, undefined)}
    }.

quota(#{cpus_allowed := Cpus}) ->
    io_lib:format("The control group allows ~.1f CPUs.", [float(Cpus)]);
quota(_) ->
    "The control group has a CPU quota.".
