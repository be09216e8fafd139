%% @private `limit': processes, ports or atoms near the most that the VM holds. At the limit a spawn
%% or an open fails; an atom too many ends the node.
%%
%% == False alarms ==
%% Limits are chosen with room: a node that uses four fifths of one is not sized for what it does,
%% or grows. Nothing is concluded from growth: that is `process_growth' and its like.
-module(flame_prof_doctor_limit).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [number/1, share/1]).

-spec kind() -> flame_prof_doctor_rule:kind().
kind() -> limit.

-spec needs() -> [flame_prof_doctor_rule:needs(), ...].
needs() -> [seconds].

-spec thresholds() -> [flame_prof_doctor_rule:threshold()].
thresholds() ->
    [
        {warning, 0.8, <<"part of a limit that is used">>},
        {critical, 0.9, <<"part of a limit that is used">>}
    ].

-spec find(flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) ->
    [flame_prof_doctor_rule:finding()].
find(#{seconds := Seconds}, #{warning := Warning} = Thresholds) ->
    First = hd(Seconds),
    Last = lists:last(Seconds),
    [
        finding(What, Count, Limit, Count - maps:get(Key, First), length(Seconds), Thresholds)
     || {What, Key, LimitKey} <- limits(),
        #{Key := Count, LimitKey := Limit} <- [Last],
        Count / Limit >= Warning
    ].

limits() ->
    [
        {processes, node_processes, node_process_limit},
        {ports, node_ports, node_port_limit},
        {atoms, node_atoms, node_atom_limit}
    ].

finding(What, Count, Limit, Grown, Looks, #{critical := Critical}) ->
    Severity = if Count / Limit >= Critical -> critical; true -> warning end,
    Name = atom_to_list(What),
    #{
        kind => limit,
        severity => Severity,
        size => Count / Limit,
        title => io_lib:format("~ts of the ~ts that this node can have are in use",
            [share(Count / Limit), Name]),
        sentences => [
            io_lib:format("There are ~ts ~ts, and the limit is ~ts (~ts).",
                [number(Count), Name, number(Limit), flag(What)]),
            io_lib:format("In the time of the look the number changed by ~ts.", [number(Grown)]),
            consequence(What),
            io_lib:format("Seen in ~b looks, one a second.", [Looks])
        ],
        command => command(What),
        processes => [],
        numbers => #{what => What, count => Count, limit => Limit, change => Grown}
    }.

flag(processes) -> "erl +P";
flag(ports) -> "erl +Q";
flag(atoms) -> "erl +t".

consequence(processes) -> "At the limit no process can be spawned.";
consequence(ports) -> "At the limit no socket, file or port can be opened.";
consequence(atoms) -> "Atoms are never freed, and the node ends at the limit.".

command(_) -> "flame_prof top --node NODE --by name".
