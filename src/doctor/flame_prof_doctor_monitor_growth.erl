%% @private A process that monitors more and more: it forgets to end its monitors.
%%
%% == False alarms ==
%% A registry of sessions has a monitor for each: where as many processes come as monitors do, it
%% does its work. Requests to many processes at once have monitors for as long as they last: a count
%% is the least of three looks in a row. Less than half as many again is no growth.
-module(flame_prof_doctor_monitor_growth).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [name/1, number/1, seconds/1]).

%% Monitors that come with a process.
-define(OF_PROCESS, 2).

kind() -> monitor_growth.

needs() -> [system, seconds].

thresholds() ->
    [
        {grown, 1000, <<"monitors that came between the looks">>},
        {grown_share, 0.5, <<"of those at the first look">>}
    ].

find(#{system := {First, Last}, seconds := Seconds, span_us := Us}, Limits) ->
    #{grown := Least, grown_share := Share} = Limits,
    Were = maps:from_list([{Pid, N} || {Pid, N, _} <- maps:get(monitors, First, [])]),
    Came = came(Seconds),
    [
        told(Pid, Name, Had, N, Us)
     || {Pid, N, Name} <- maps:get(monitors, Last, []),
        Had <- [maps:get(Pid, Were, 0)],
        N - Had >= Least, N - Had >= Share * Had, N - Had > ?OF_PROCESS * Came
    ].

came([#{node_processes := First} | _] = Seconds) ->
    #{node_processes := Last} = lists:last(Seconds),
    max(0, Last - First).

told(Pid, Name, Had, N, Us) ->
    Process = #{pid => flame_prof_doctor_waits:text(Pid), name => Name},
    #{
        kind => kind(),
        severity => warning,
        size => N - Had,
        title => [name(Process), " has more and more monitors"],
        sentences => [
            [had(Had), number(N), " in ", seconds(Us), ", ",
                number((N - Had) * 1.0e6 / max(1, Us)), " a second."],
            "Each takes memory until the process that it monitors ends.",
            "Counted in its memory, at both ends of the time."
        ],
        command => ["flame_prof pstack --node NODE ", flame_prof_doctor_waits:target(Process)],
        processes => [Process],
        numbers => #{from => Had, to => N}
    }.

had(0) -> "They grew from fewer than 256 to ";
had(N) -> ["They grew from ", number(N), " to "].
