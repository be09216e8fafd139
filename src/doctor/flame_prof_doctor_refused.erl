%% @private The diagnosis of a node that is short of what the doctor takes there: that is what is
%% wrong with it. Nothing was sent, and nothing else is judged.
-module(flame_prof_doctor_refused).

-export([diagnosis/3]).

-export_type([taker/0]).

-type taker() :: #{what := flame_prof_limits:resource(), looked_at := pos_integer(),
    have := pos_integer(), text := unicode:chardata(), process => flame_prof_doctor_rule:process()}.
%% Who has most of what is short: `have' of the `looked_at'. The text names it.

-define(UNSEEN, <<"nothing was sent to the node, which is at a limit">>).

-spec diagnosis(node(), [flame_prof_preflight:shortage(), ...], [taker()]) ->
    flame_prof_doctor:diagnosis().
diagnosis(Node, Shortages, Takers) ->
    Findings = [finding(Shortage, [Taker || #{what := What} = Taker <- Takers,
        What =:= maps:get(what, Shortage)]) || Shortage <- Shortages],
    Found = [Kind || #{kind := Kind} <- Findings],
    #{
        findings => Findings,
        unseen => [{Kind, ?UNSEEN} || Kind <- flame_prof_doctor:kinds() -- Found],
        looked_at => #{node => Node, engine => portable, span_us => 0, seen => []}
    }.

finding(#{what := What, used := Used, limit := Limit, needed := Needed} = Shortage, Takers) ->
    #{
        kind => kind(What),
        severity => critical,
        size => share(Used, Limit),
        title => ["the node ", flame_prof_preflight:sentence(doctor, Shortage)],
        sentences => [consequence(What)] ++ [sentence(Taker) || Taker <- Takers] ++ [remedy(What)],
        command => "",
        processes => [Process || #{process := Process} <- Takers],
        numbers => lists:foldl(fun maps:merge/2,
            #{what => What, used => Used, limit => Limit, needed => Needed},
            [#{looked_at => Of, of_taker => N} || #{looked_at := Of, have := N} <- Takers])
    }.

kind(What) when
    What =:= atoms; What =:= processes; What =:= ports; What =:= files; What =:= literals
->
    limit;
kind(_) ->
    memory_limit.

share(_Used, none) -> 1.0;
share(Used, Limit) -> Used / Limit.

sentence(#{looked_at := Of, have := N, text := Text}) ->
    ["Of ", flame_prof_doctor_rule:number(Of), " that were looked at, ",
        flame_prof_doctor_rule:number(N), " ", Text, "."].

consequence(atoms) -> "Atoms are never freed, and the node ends at the limit.";
consequence(processes) -> "At the limit no process can be spawned.";
consequence(ports) -> "At the limit no socket, file or port can be opened.";
consequence(files) -> "At the limit no file or socket can be opened, and no connection accepted.";
consequence(literals) -> "At the limit the node ends when it loads code.";
consequence(control_group) -> "At the limit the kernel ends a process of the group: a large one.";
consequence(machine) -> "Without memory the kernel ends a process: a large one.";
consequence(heap) -> "Processes of flame_prof would be killed, and each is reported in the log.";
consequence(heap_with_binaries) -> consequence(heap);
consequence(_) -> "The node ends when it gets no memory.".

remedy(atoms) -> more("look for what makes atoms out of input, as list_to_atom/1 does", "erl +t");
remedy(processes) -> more("end processes", "erl +P");
remedy(ports) -> more("close ports", "erl +Q");
remedy(files) -> more("close files and sockets", "ulimit -n");
remedy(literals) -> more("load less code", "erl +MIscs");
remedy(control_group) -> more("free memory", "memory.max of its control group");
remedy(machine) -> "To be examined the node needs room: free memory on the machine.";
remedy(address_space) -> more("free memory", "ulimit -v");
remedy(data) -> more("free memory", "ulimit -d");
remedy(super_carrier) -> more("free memory", "erl +MMscs");
remedy(_) -> "To be examined the node needs a higher limit (erl +hmax), or none.".

more(First, Option) ->
    ["To be examined the node needs room: ", First, ", or start it with a higher limit (", Option,
        ")."].
