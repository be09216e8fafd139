%% @private `port_growth': more and more ports: sockets, files or programs that are not closed.
%%
%% == False alarms ==
%% Ports come and go with connections; a wave of clients comes to rest. Steady growth through all of
%% the time does not, and a server that is to have so many more clients each second is at its limit
%% soon, too.
-module(flame_prof_doctor_port_growth).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, unseen/2]).

-import(flame_prof_doctor_rule, [name/1, number/1]).

-spec kind() -> flame_prof_doctor_rule:kind().
kind() -> port_growth.

-spec needs() -> [flame_prof_doctor_rule:needs(), ...].
needs() -> [seconds].

-spec thresholds() -> [flame_prof_doctor_rule:threshold()].
thresholds() ->
    [
        {per_second, 5, <<"more ports a second, all the time">>},
        {share, 0.1, <<"growth during the look, as a share of the value before">>},
        {minutes_left, 10, <<"minutes until the limit, below which it is critical">>}
    ].

-spec find(flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) ->
    [flame_prof_doctor_rule:finding()].
find(#{seconds := Seconds} = Evidence, Limits) ->
    #{per_second := PerSecond, share := Share, minutes_left := Minutes} = Limits,
    case flame_prof_doctor_growth:steady(node_ports, Seconds) of
        #{per_s := PerS, change := Change, from := From} = Growth when
            PerS >= PerSecond, Change >= Share * From
        ->
            Limit = maps:get(node_port_limit, lists:last(Seconds), 65536),
            [finding(Growth, Limit, Minutes, opened(Evidence))];
        _ ->
            []
    end.

-spec unseen(flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) ->
    binary() | none.
unseen(Evidence, _) -> flame_prof_doctor_growth:unseen(Evidence).

%% Who owns more than half of the ports that were not there at the first look.
opened(Evidence) ->
    case flame_prof_doctor_port_owners:opened(Evidence) of
        {Process, N, All} when 2 * N > All ->
            {io_lib:format("Of ~ts new ones, ~ts belong to ~ts.",
                [number(All), number(N), name(Process)]), #{new => All, of_owner => N}, [Process]};
        _ ->
            {"A port is a socket, a file or a program that was opened and is not closed.", #{}, []}
    end.

finding(#{per_s := PerS} = Growth, Limit, Minutes, {Opened, Counted, Processes}) ->
    Left = flame_prof_doctor_growth:until(Limit, Growth),
    #{
        kind => port_growth,
        severity => if Left < Minutes * 60 -> critical; true -> warning end,
        size => PerS,
        title => io_lib:format("~ts more ports a second", [number(PerS)]),
        sentences => flame_prof_doctor_growth:sentences("The number of ports", Growth,
            fun flame_prof_doctor_rule:number/1, [
                io_lib:format("At this rate the limit of ~ts is reached in ~ts.",
                    [number(Limit), flame_prof_doctor_rule:duration(Left)]),
                Opened
            ]),
        command => "flame_prof top --node NODE --by name",
        processes => Processes,
        numbers => maps:merge(Growth, Counted#{limit => Limit, seconds_left => Left})
    }.
