%% @private `port_growth': more and more ports, or sockets of the module `socket', that are not
%% closed.
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
    [
        finding(What, Growth, limit(What, Evidence), Minutes, opened(What, Evidence))
     || What <- [ports, sockets],
        #{per_s := PerS, change := Change, from := From} = Growth <-
            [flame_prof_doctor_growth:steady(figure(What), Seconds)],
        PerS >= PerSecond, Change >= Share * From
    ].

figure(ports) -> node_ports;
figure(sockets) -> node_sockets.

%% A socket of the module `socket' is no port, and a file descriptor.
limit(ports, #{seconds := Seconds}) -> maps:get(node_port_limit, lists:last(Seconds), 65536);
limit(sockets, #{os := {_, #{descriptors := #{limit := Limit}}}}) -> Limit;
limit(sockets, _) -> unknown.

-spec unseen(flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) ->
    binary() | none.
unseen(Evidence, _) -> flame_prof_doctor_growth:unseen(Evidence).

%% Who owns more than half of those that were not there at the first look.
opened(What, Evidence) ->
    Key = case What of ports -> port_owners; sockets -> socket_owners end,
    case flame_prof_doctor_port_owners:opened(Key, Evidence) of
        {Process, N, All} when 2 * N > All ->
            {io_lib:format("Of ~ts new ones, ~ts belong to ~ts.",
                [number(All), number(N), name(Process)]), #{new => All, of_owner => N}, [Process]};
        _ when What =:= ports ->
            {"A port is a socket, a file or a program that was opened and is not closed.", #{}, []};
        _ ->
            {"These are sockets of the module socket that are not closed.", #{}, []}
    end.

finding(What, #{per_s := PerS} = Growth, Limit, Minutes, {Opened, Counted, Processes}) ->
    Left = left(Limit, Growth),
    #{
        kind => port_growth,
        severity => if Left < Minutes * 60 -> critical; true -> warning end,
        size => PerS,
        title => [number(PerS), " more ", atom_to_list(What), " a second"],
        sentences => flame_prof_doctor_growth:sentences(["The number of ", atom_to_list(What)],
            Growth, fun flame_prof_doctor_rule:number/1, [reached(Limit, Left), Opened]),
        command => "flame_prof top --node NODE --by name",
        processes => Processes,
        numbers => maps:merge(Growth, maps:merge(Counted, #{what => What, limit => Limit,
            seconds_left => Left}))
    }.

%% Without a limit that is known it is none of minutes.
left(unknown, _) -> infinity;
left(Limit, Growth) -> flame_prof_doctor_growth:until(Limit, Growth).

reached(unknown, _) -> "Each is a file descriptor, too.";
reached(Limit, Left) ->
    io_lib:format("At this rate the limit of ~ts is reached in ~ts.",
        [number(Limit), flame_prof_doctor_rule:duration(Left)]).
