%% @private Locks of the VM that many wait for: of a table, a process, a port.
%%
%% == False alarms ==
%% Work in a table is no wait: only the C functions that wait for a lock count, and a thread spins
%% in them for some microseconds even where no other one wants the lock. On a machine whose CPUs
%% are short a thread may lose its CPU while it has a lock: so `share' of the time on a CPU of each
%% process, and `cpus' together; where the kernel says that schedulers wait for a CPU for
%% `lacks' times as long as they have one, `share_starved': a thread loses its CPU while it has the
%% lock as seldom as it has it, and others wait for no larger part. So it is for sends: who sends
%% takes a lock of its receiver for an instant, and a receiver that many want has a finding of its
%% own. One process alone contends with none; waits that are no `node' of what the node does cost
%% little. In a VM without symbols the C functions that wait have no names, and what they call of
%% libc has: the operations of ETS call the system for locks only. Other waits are unseen there.
-module(flame_prof_doctor_lock).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, unseen/2]).

-import(flame_prof_doctor_rule, [share/1]).

-define(SENDS, [<<"erlang:send/*">>, <<"erlang:!/2">>, <<"erlang:send_nosuspend/*">>]).
-define(WAITS, [
    <<"ethr_event_swait">>, <<"ethr_event_twait">>, <<"ethr_event_wait">>,
    <<"ethr_event_stwait">>, <<"erts_proc_lock_failed">>, <<"__lll_lock_wait*">>,
    <<"pthread_mutex_lock*">>, <<"ethr_mutex_lock_wait*">>
]).
%% Of libc: a thread spins, yields, and sleeps in a futex.
-define(OF_LIBC, [<<"syscall">>, <<"sched_yield">>]).

kind() -> lock.

needs() -> [samples].

thresholds() ->
    [
        {share, 0.15, <<"share of its time on a CPU in which it waits for locks">>},
        {share_starved, 0.5, <<"the same, if schedulers lack CPUs, and for sends">>},
        {lacks, 0.5, <<"times their time on a CPU: schedulers that wait this long lack one">>},
        {cpus, 0.2, <<"CPUs together">>},
        {node, 0.25, <<"share of the CPU time of all processes">>},
        {processes, 2, <<"processes that wait">>}
    ].

find(#{os := {#{schedulers := Before}, #{schedulers := After}}} = Evidence, Limits) ->
    #{run_us := Ran, wait_us := Waited} = Before,
    #{lacks := Lacks, share_starved := Share} = Limits,
    case After of
        #{run_us := Run, wait_us := Wait} when Wait - Waited > Lacks * (Run - Ran) ->
            waits(Evidence, Limits#{share := Share});
        _ ->
            waits(Evidence, Limits)
    end;
find(Evidence, Limits) ->
    waits(Evidence, Limits).

unseen(Evidence, _) -> flame_prof_doctor_rule:portable(Evidence).

waits(#{samples := Samples}, #{processes := Least} = Limits) ->
    case flame_prof_doctor_calls:heavy(Samples, fun waiting/1, Limits) of
        #{processes := [{_, First}, _ | _] = All} = Heavy when length(All) >= Least ->
            #{figures := Figures} = Samples,
            Of = #{samples => Samples, seconds => Figures},
            [finding(First, Heavy)
                || is_enough(Heavy, Limits),
                    not flame_prof_doctor_vm:is_starved(Of, maps:get(weight, Heavy))];
        _ ->
            flame_prof_doctor_vm:named([], Samples)
    end.

waiting(Stacks) ->
    Named = flame_prof_doctor_stacks:at_leaf(Stacks, ?WAITS),
    Named ++ [
        Stack
     || {Frames, _} = Stack <- flame_prof_doctor_stacks:at_leaf(Stacks -- Named, ?OF_LIBC),
        flame_prof_doctor_stacks:is_in(flame_prof_doctor_stacks:called(Frames), [<<"ets:*">>])
    ].

is_enough(#{stacks := Stacks, share := Share}, #{share_starved := OfSends}) ->
    {Call, _} = flame_prof_doctor_stacks:most_called(Stacks),
    Share >= OfSends orelse not flame_prof_doctor_stacks:is_in(Call, ?SENDS).

%% Of a file alone the kernel is not known, and the VM's CPU time is.
finding(First, #{stacks := Stacks} = Heavy) ->
    {Call, Part} = flame_prof_doctor_stacks:most_called(Stacks),
    flame_prof_doctor_calls:finding(kind(), Heavy, "waiting for locks", #{
        sentences => [[share(Part), " of it is in ", Call, what(Call)]],
        command => ["flame_prof pstack --node NODE ", flame_prof_doctor_samples:target(First)],
        numbers => #{in_call => Part}
    }).

what(<<"ets:", _/binary>>) ->
    ": only one process at a time can write to the table, and none can read meanwhile.";
what(_) ->
    ".".
