%% @private Locks of the VM that many wait for: of a table, a process, a port.
%%
%% == False alarms ==
%% Work in a table is no wait: only the C functions that wait for a lock count, and a thread spins
%% in them for some microseconds even where no other one wants the lock. On a machine whose CPUs
%% are short a thread may lose its CPU while it has a lock: so `share' of the time on a CPU of each
%% process, and `cpus' together; where the kernel says that schedulers wait longer for a CPU than
%% they have one, nothing is said. One process alone contends with none. A VM without symbols has
%% none of these names, and no finding.
-module(flame_prof_doctor_lock).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [share/1]).

-define(WAITS, [
    <<"ethr_event_swait">>, <<"ethr_event_twait">>, <<"ethr_event_wait">>,
    <<"ethr_event_stwait">>, <<"erts_proc_lock_failed">>, <<"__lll_lock_wait*">>,
    <<"pthread_mutex_lock*">>, <<"ethr_mutex_lock_wait*">>
]).

kind() -> lock.

needs() -> [samples].

thresholds() ->
    [
        {share, 0.15, <<"of its time on a CPU waits for locks">>},
        {cpus, 0.2, <<"CPUs together">>},
        {processes, 2, <<"processes that wait">>}
    ].

find(#{os := {#{schedulers := Before}, #{schedulers := After}}} = Evidence, Limits) ->
    #{run_us := Ran, wait_us := Waited} = Before,
    case After of
        #{run_us := Run, wait_us := Wait} when Wait - Waited > Run - Ran -> [];
        _ -> waits(Evidence, Limits)
    end;
find(Evidence, Limits) ->
    waits(Evidence, Limits).

waits(#{samples := Samples}, #{processes := Least} = Limits) ->
    Match = fun(Stacks) -> flame_prof_doctor_stacks:at_leaf(Stacks, ?WAITS) end,
    case flame_prof_doctor_calls:heavy(Samples, Match, Limits) of
        #{processes := [{_, First}, _ | _] = All} = Heavy when length(All) >= Least ->
            #{figures := Figures} = Samples,
            Of = #{samples => Samples, seconds => Figures},
            [told(First, Heavy)
                || not flame_prof_doctor_calls:is_starved(Of, maps:get(weight, Heavy))];
        _ ->
            []
    end.

%% Of a file alone the kernel is not known, and the VM's CPU time is.
told(First, #{stacks := Stacks} = Heavy) ->
    {Call, Part} = most(Stacks),
    flame_prof_doctor_calls:told(kind(), Heavy, "waiting for locks", #{
        sentences => [[share(Part), " of it is in ", Call, what(Call)]],
        command => ["flame_prof pstack --node NODE ", flame_prof_doctor_samples:target(First)]
    }).

%% The innermost function of most.
most(Stacks) ->
    Sums = lists:foldl(
        fun({Frames, Weight}, Map) ->
            Add = fun(Sum) -> Sum + Weight end,
            maps:update_with(flame_prof_doctor_stacks:called(Frames), Add, Weight, Map)
        end, #{}, Stacks),
    {Weight, Call} = lists:max([{W, C} || {C, W} <- maps:to_list(Sums)]),
    {Call, Weight / flame_prof_doctor_stacks:weight(Stacks)}.

what(<<"ets:", _/binary>>) ->
    ": the table lets one process at a time write, or none read meanwhile.";
what(_) ->
    ".".
