%% @private Programs of the operating system that the node starts one after the other: each start
%% costs some milliseconds of a CPU, most of it outside of the VM.
%%
%% == False alarms ==
%% A program that runs for long is one program, and one that is started now and then is met seldom:
%% as many different ones as `per_second' are met by readings three times a second, and together
%% they take a part of a CPU.
-module(flame_prof_doctor_programs_started).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [name/1, share/1, seconds/1, count/2]).

-define(STARTS, [<<"os:cmd/*">>, <<"os:do_cmd/*">>, <<"os:get_data/*">>,
    <<"erlang:open_port/2">>]).
-define(STATUSES, [<<"waiting">>, <<"running">>, <<"runnable">>, <<"suspended">>]).
-define(NAMED_MOST, 3).

kind() -> programs.

needs() -> [os].

thresholds() ->
    [
        {per_second, 1, <<"different programs that are met a second">>},
        {cpus, 0.25, <<"CPUs that they take: a warning">>},
        {few_cpus, 0.05, <<"the same: a note">>},
        {starter, 0.2, <<"share of its time in such a start from which a process is named">>}
    ].

find(#{os := {#{programs_us := Before, at_us := From}, #{programs_us := After, at_us := To,
        programs_met := Met} = Last}} = Evidence,
    #{per_second := Rate, cpus := Cpus, few_cpus := Few} = Limits
) ->
    Us = max(1, To - From),
    case (After - Before) / Us of
        Taken when Taken >= Few, Met * 1.0e6 >= Rate * Us ->
            Severity = case Taken >= Cpus of true -> warning; false -> note end,
            [finding(Severity, Taken, Us, Last, starters(Evidence, Limits))];
        _ ->
            []
    end;
find(_, _) ->
    {unseen, <<"the kernel does not tell which programs the node starts">>}.

starters(#{samples := #{processes := Processes, stacks := Stacks}}, #{starter := Least}) ->
    lists:reverse(lists:keysort(1, [
        {Share, Process, In}
     || #{pid := Pid, observations := All} = Process <- Processes,
        In <- [flame_prof_doctor_stacks:anywhere(Stacks(Pid, ?STATUSES), ?STARTS)], In =/= [],
        Share <- [flame_prof_doctor_stacks:weight(In) / max(1, All)], Share >= Least
    ]));
starters(_, _) ->
    [].

finding(Severity, Taken, Us, #{programs := Programs, programs_met := Met}, Starters) ->
    Names = lists:sublist(lists:reverse(lists:keysort(2, maps:to_list(Programs))), ?NAMED_MOST),
    Function = flame_prof_doctor_places:function([#{stacks => In} || {_, _, In} <- Starters]),
    Finding = #{
        kind => kind(),
        severity => Severity,
        size => Taken,
        title => [case Starters of
            [{_, First, _} | _] -> name(First);
            [] -> "the node"
        end, " starts programs all the time"],
        sentences => [S || S <- [
            ["In ", seconds(Us), " at least ", count(Met, "program"), " were started",
                [[": ", lists:join(", ", [Name || {Name, _} <- Names])] || Names =/= []], "."],
            ["They took ", io_lib:format("~.2f", [float(Taken)]), " CPUs, outside of the VM."],
            starter(Starters, Function),
            "Each start costs a new process of the operating system, and a pipe."
        ], S =/= ""],
        command => case Starters of
            [{_, First, _} | _] ->
                ["flame_prof pstack --node NODE ", flame_prof_doctor_samples:target(First)];
            [] -> "flame_prof top --node NODE"
        end,
        processes => [flame_prof_doctor_samples:process(P) || {_, P, _} <- Starters],
        numbers => maps:from_list([{cpus, Taken}, {programs, Met}, {span_us, Us}
            | [{share, Share} || {Share, _, _} <- lists:sublist(Starters, 1)]])
    },
    maps:merge(Finding, maps:from_list([{function, Function} || Function =/= <<>>])).

starter([], _) -> "Who starts them is not known.";
starter([{Share, Process, _} | _], Function) ->
    [name(Process), " is in os:cmd/1 or opens such a port for ", share(Share), " of its time",
        [[", in ", Function] || Function =/= <<>>], "."].
