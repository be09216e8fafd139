%% @private `process_growth': more and more processes: they are spawned and do not end.
%%
%% == False alarms ==
%% Busy nodes spawn and end many processes, and their number goes up and down. A wave of new
%% connections grows and comes to rest. Steady growth through all of the time, by a part of what
%% there was and by many a second, is neither.
-module(flame_prof_doctor_process_growth).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, unseen/2]).

-import(flame_prof_doctor_rule, [number/1]).

-spec kind() -> flame_prof_doctor_rule:kind().
kind() -> process_growth.

-spec needs() -> [flame_prof_doctor_rule:needs(), ...].
needs() -> [seconds].

-spec thresholds() -> [flame_prof_doctor_rule:threshold()].
thresholds() ->
    [
        {per_second, 20, <<"more processes a second, all the time">>},
        {share, 0.02, <<"growth during the look, as a share of the value before">>},
        {minutes_left, 10, <<"minutes until the limit, below which it is critical">>}
    ].

-spec find(flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) ->
    [flame_prof_doctor_rule:finding()].
find(#{seconds := Seconds} = Evidence, #{per_second := PerSecond, share := Share} = Thresholds) ->
    case flame_prof_doctor_growth:steady(node_processes, Seconds) of
        #{per_s := PerS, change := Change, from := From} = Growth when
            PerS >= PerSecond, Change >= Share * From
        ->
            Limit = maps:get(node_process_limit, lists:last(Seconds), 262144),
            [finding(Growth, Limit, flame_prof_doctor_takers:spawned(Evidence), Thresholds)];
        _ ->
            []
    end.

-spec unseen(flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) ->
    binary() | none.
unseen(Evidence, _) -> flame_prof_doctor_growth:unseen(Evidence).

finding(#{per_s := PerS} = Growth, Limit, Spawned, #{minutes_left := Minutes}) ->
    Left = flame_prof_doctor_growth:until(Limit, Growth),
    Function = maps:from_list([{function, Call} || {Call, _, _} <- [Spawned]]),
    Function#{
        kind => process_growth,
        severity => if Left < Minutes * 60 -> critical; true -> warning end,
        size => PerS,
        title => io_lib:format("~ts more processes a second", [number(PerS)]),
        sentences => flame_prof_doctor_growth:sentences("The number of processes", Growth,
            fun flame_prof_doctor_rule:number/1, [Sentence || {_, Sentence, _} <- [Spawned]] ++ [
                io_lib:format("At this rate the limit of ~ts is reached in ~ts.",
                    [number(Limit), flame_prof_doctor_rule:duration(Left)])
            ]),
        command => "flame_prof top --node NODE --by name",
        processes => [],
        numbers => lists:foldl(fun maps:merge/2, Growth#{limit => Limit, seconds_left => Left},
            [Counted || {_, _, Counted} <- [Spawned]])
    }.
