%% @private `stolen_cpu': schedulers are ready to run and have no CPU, as other programs of the
%% machine have it, those that the node starts itself, or other machines of its host.
%%
%% == False alarms ==
%% Threads of the node compete among themselves, too, where it has more of them than there are CPUs:
%% dirty schedulers, for example. So two things count that are measured apart: how long schedulers
%% waited, and how much CPU time others had. An idle node waits for nothing, however busy the others
%% are. Where the control group's quota stops the node, that is `throttled'. It is a note where the
%% schedulers wait for less than `severe': machines are shared.
-module(flame_prof_doctor_stolen_cpu).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [share/1, seconds/1, count/2]).

-define(NAMED_MOST, 3).

-spec kind() -> flame_prof_doctor_rule:kind().
kind() -> stolen_cpu.

-spec needs() -> [flame_prof_doctor_rule:needs(), ...].
needs() -> [os].

-spec thresholds() -> [flame_prof_doctor_rule:threshold()].
thresholds() ->
    [
        {waiting, 0.5, <<"part of the time in which schedulers want a CPU and have none">>},
        {wanted, 0.5, <<"CPUs that the schedulers want at least">>},
        {others, 0.5, <<"part of the machine's CPU time that others have">>},
        {severe, 0.75, <<"part of that time from which it is a warning">>}
    ].

-spec find(flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) ->
    [flame_prof_doctor_rule:finding()].
find(#{os := {#{schedulers := First, machine := MachineFirst, own_us := OwnFirst} = A,
        #{schedulers := Last, machine := MachineLast, own_us := OwnLast} = B}},
    #{waiting := Waiting, wanted := Wanted, others := OthersLeast, severe := Severe}
) ->
    Of = fun(Key, Before, After) -> maps:get(Key, After) - maps:get(Key, Before) end,
    {Run, Wait} = {Of(run_us, First, Last), Of(wait_us, First, Last)},
    Stolen = Of(stolen_us, MachineFirst, MachineLast),
    Busy = max(0, Of(busy_us, MachineFirst, MachineLast) - (OwnLast - OwnFirst)),
    Started = min(Busy, max(0, maps:get(programs_us, B, 0) - maps:get(programs_us, A, 0))),
    Us = max(1, Of(at_us, A, B)),
    #{cpus := Cpus} = MachineLast,
    Share = fun(Some) -> min(1, Some / (Us * Cpus)) end,
    case
        Wait / max(1, Run + Wait) >= Waiting andalso (Run + Wait) / Us >= Wanted andalso
            Share(Busy + Stolen) >= OthersLeast andalso not is_throttled(A, B)
    of
        true -> [finding(#{run_us => Run, wait_us => Wait, stolen_us => Stolen, span_us => Us,
            cpus => Cpus, started => Share(Started),
            others => min(1 - Share(Started), Share(Busy - Started + Stolen)),
            share => Wait / (Run + Wait), stolen => Stolen / (Us * Cpus)},
            maps:get(programs, B, #{}), Severe)];
        false -> []
    end;
find(_, _) ->
    {unseen, <<"the kernel does not show how long schedulers wait for a CPU">>}.

is_throttled(#{throttled := #{us := A}}, #{throttled := #{us := B}}) ->
    B > A;
is_throttled(_, _) ->
    false.

finding(#{share := Share, cpus := Cpus, others := Others, started := Started} = Numbers, Programs,
    Severe
) ->
    #{span_us := Us, run_us := Run, wait_us := Wait, stolen := Stolen} = Numbers,
    Met = lists:sublist(lists:reverse(lists:keysort(2, maps:to_list(Programs))), ?NAMED_MOST),
    #{
        kind => stolen_cpu,
        severity => case Share >= Severe of true -> warning; false -> note end,
        size => Share,
        title => [case Started > Others of
            true -> "programs that the node starts have the CPU: schedulers wait for one in ";
            false -> "schedulers wait for a CPU in "
        end, share(Share), " of the time in which they want one"],
        sentences => [S || S <- [
            io_lib:format("In ~ts the schedulers ran for ~ts and waited for ~ts.",
                [seconds(Us), seconds(Run), seconds(Wait)]),
            started(Started, Cpus, Met),
            io_lib:format("Other programs had ~ts of the machine's ~b CPUs~ts.",
                [share(Others), Cpus, stolen(Stolen)]),
            "The kernel counted this for each scheduler thread."
        ], S =/= ""],
        command => "flame_prof top --node NODE --by running",
        caused_by => [programs],
        processes => [],
        numbers => maps:merge(Numbers, maps:from_list(
            lists:zip(lists:sublist([met_1, met_2, met_3], length(Met)), [N || {_, N} <- Met])))
    }.

started(Share, _, _) when Share < 0.05 -> "";
started(Share, Cpus, Met) ->
    Names = lists:join(", ", [[Name, " (", count(N, "time"), ")"] || {Name, N} <- Met]),
    ["Programs that the node starts, by os:cmd/1 or as ports, had ", share(Share),
        " of the machine's ", count(Cpus, "CPU"), [["; met were ", Names] || Met =/= []], "."].

stolen(Share) when Share >= 0.05 ->
    [", ", share(Share), " of that time went to other machines of its host"];
stolen(_) ->
    "".
