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

kind() -> monitor_growth.

needs() -> [system, seconds].

thresholds() ->
    [
        {grown, 1000, <<"new monitors between the looks">>},
        {grown_share, 0.5, <<"new monitors as a share of those at the first look">>},
        {of_process, 2, <<"monitors that come with a process">>}
    ].

find(#{system := {#{monitors := First}, #{monitors := Last}}} = Evidence, Limits) ->
    case found(First, Last, Evidence, Limits) of
        [] -> none(First, Last);
        Findings -> Findings
    end;
find(_, _) ->
    {unseen, <<"the monitors of processes are not known: that needs the native engine and an "
        "answer in time">>}.

found(#{many := Many, unknown := Unknown}, #{many := Later}, Evidence, Limits) ->
    #{seconds := Seconds, span_us := Us} = Evidence,
    #{grown := Least, grown_share := Share, of_process := OfProcess} = Limits,
    Were = maps:from_list([{Pid, unknown} || Pid <- Unknown] ++ [{Pid, N} || {Pid, N, _} <- Many]),
    Came = came(Seconds),
    [
        finding(Pid, Name, Had, N, Us)
     || {Pid, N, Name} <- Later,
        Had <- [maps:get(Pid, Were, 0)], is_integer(Had),
        N - Had >= Least, N - Had >= Share * Had, N - Had > OfProcess * Came
    ].

%% Of those that ran at one end it matters who has many at the other one.
none(#{left := 0} = First, #{left := 0} = Last) ->
    case unknown(First, Last) ++ unknown(Last, First) of
        [] -> [];
        [_ | _] -> {unseen, <<"a process with many monitors ran while they were counted">>}
    end;
none(#{left := First}, #{left := Last}) ->
    {unseen, iolist_to_binary(["there are more monitors than are counted: those of ",
        number(max(First, Last)), " processes are not known"])}.

unknown(#{many := Many}, #{unknown := Unknown}) ->
    [Pid || {Pid, _, _} <- Many, lists:member(Pid, Unknown)].

came([#{node_processes := First} | _] = Seconds) ->
    #{node_processes := Last} = lists:last(Seconds),
    max(0, Last - First).

finding(Pid, Name, Had, N, Us) ->
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
        numbers => #{from => Had, to => N, span_us => Us,
            per_second => (N - Had) * 1.0e6 / max(1, Us)}
    }.

had(0) -> "They grew from fewer than 256 to ";
had(N) -> ["They grew from ", number(N), " to "].
