%% @private `limit': processes, ports, atoms or file descriptors near the most that the VM can have.
%% At the limit a spawn or an open fails; an atom too many ends the node.
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
find(#{seconds := Seconds} = Evidence, #{warning := Warning} = Thresholds) ->
    First = hd(Seconds),
    Last = lists:last(Seconds),
    Seen = #{looks => length(Seconds),
        span_us => maps:get(time_us, Last) - maps:get(time_us, First)},
    [
        finding(What, {Count, Limit}, Seen#{change => Now - maps:get(Key, First)},
            who(What, Evidence), Thresholds)
     || {What, Key, LimitKey} <- limits(),
        #{Key := Now, LimitKey := Limit} <- [Last],
        Count <- [lists:max([N || #{Key := N} <- Seconds])],
        Count / Limit >= Warning
    ] ++ [
        finding(descriptors, {Count, Limit}, Seen#{change => Count - Was}, none, Thresholds)
     || {OsFirst, #{descriptors := #{used := Count, limit := Limit}}} <- [os(Evidence)],
        Was <- [maps:get(used, maps:get(descriptors, OsFirst, #{}), Count)],
        Count / Limit >= Warning
    ].

os(Evidence) -> maps:get(os, Evidence, none).

limits() ->
    [
        {processes, node_processes, node_process_limit},
        {ports, node_ports, node_port_limit},
        {atoms, node_atoms, node_atom_limit}
    ].

%% Who has them, as far as that is known: the function in which most of the newest processes began,
%% the one that owns most ports.
who(processes, Evidence) ->
    case flame_prof_doctor_takers:spawned(Evidence) of
        {Call, Sentence, Numbers} -> {Sentence, Numbers, #{function => Call}};
        none -> none
    end;
who(ports, Evidence) ->
    case flame_prof_doctor_port_owners:most(Evidence) of
        {Process, N, All} ->
            {io_lib:format("Of ~ts ports, ~ts belong to ~ts.",
                [number(All), number(N), flame_prof_doctor_rule:name(Process)]),
                #{owned => All, of_owner => N}, #{processes => [Process]}};
        none -> none
    end;
who(atoms, _) ->
    none.

finding(What, {Count, Limit}, Seen, Who, #{critical := Critical}) ->
    #{change := Grown, looks := Looks, span_us := Us} = Seen,
    Severity = if Count / Limit >= Critical -> critical; true -> warning end,
    Name = atom_to_list(What),
    {More, Counted, Named} = case Who of
        none -> {[], #{}, #{}};
        {Sentence, Numbers, Of} -> {[Sentence], Numbers, Of}
    end,
    maps:merge(#{
        kind => limit,
        caused_by => [cause(What)],
        severity => Severity,
        size => Count / Limit,
        title => io_lib:format("~ts of the ~ts that this node can have are in use",
            [share(Count / Limit), Name]),
        sentences => [
            io_lib:format("There were up to ~ts ~ts, and the limit is ~ts (~ts).",
                [number(Count), Name, number(Limit), flag(What)]),
            io_lib:format("In ~ts, seen in ~b looks, the number changed by ~ts.",
                [flame_prof_doctor_rule:seconds(Us), Looks, number(Grown)]),
            consequence(What)
            | More
        ],
        command => command(What),
        processes => [],
        numbers => maps:merge(Counted,
            Seen#{what => What, count => Count, limit => Limit, share => Count / Limit})
    }, Named).

cause(processes) -> process_growth;
cause(ports) -> port_growth;
cause(descriptors) -> port_growth;
cause(atoms) -> atom_growth.

flag(processes) -> "erl +P";
flag(ports) -> "erl +Q";
flag(descriptors) -> "ulimit -n";
flag(atoms) -> "erl +t".

consequence(processes) -> "At the limit no process can be spawned.";
consequence(descriptors) -> "At the limit no connection is accepted, and no file or socket opened.";
consequence(ports) -> "At the limit no socket, file or port can be opened.";
consequence(atoms) -> "Atoms are never freed, and the node ends at the limit.".

command(_) -> "flame_prof top --node NODE --by name".
