%% @private A BIF or NIF that keeps a normal scheduler, once for long or again and again: all other
%% processes of that scheduler wait meanwhile.
%%
%% == False alarms ==
%% Erlang code gives its scheduler back within a millisecond, and the VM adds to its reductions
%% then: a time is that of samples on one scheduler with the same reductions. A BIF that yields, and
%% short calls in a loop, have other reductions; dirty schedulers are no normal ones. A thread that
%% lacks a CPU, or waits for memory, stands still for tens of milliseconds, seldom for longer, and
%% in Erlang code too: `stuck_us' and `often_us' are above, and count in a BIF or NIF only, or
%% in an Erlang function that is nearly always met in C code of the VM: an instruction on large
%% numbers or terms. Nothing is said where the VM got far less CPU time than its other processes
%% seem to have.
-module(flame_prof_doctor_scheduler_stuck).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, explained_by/0, unseen/2]).

-import(flame_prof_doctor_rule, [number/1, seconds/1, share/1]).

kind() -> scheduler_stuck.

needs() -> [samples].

%% A copy that takes long is known better.
explained_by() -> [append].

thresholds() ->
    [
        {stuck_us, 1000000, <<"microseconds in one call">>},
        {often_us, 100000, <<"microseconds in the longest of many calls">>},
        {often, 3, <<"least number of such calls">>},
        {often_share, 0.3, <<"share of the time in calls of 50 ms and more">>},
        {samples, 5, <<"least number of samples in a call">>},
        {in_c, 0.8, <<"share of the samples in an Erlang function that are in its C code">>},
        {critical_share, 0.5, <<"share of the time in such calls from which it is critical">>}
    ].

find(#{samples := #{processes := Processes} = Samples} = Evidence, Limits) ->
    [
        finding(Process, Stay, Samples, Limits)
     || #{longest_native := #{} = Stay} = Process <- Processes, is_stuck(Process, Stay, Limits),
        is_in_call(Process, Stay, Samples, Limits),
        not flame_prof_doctor_vm:is_starved(Evidence, maps:get(running, Process))
    ].

unseen(Evidence, _) -> flame_prof_doctor_rule:portable(Evidence).

is_stuck(Process, #{us := Us, samples := N, count := Count} = Stay, Limits) ->
    #{stuck_us := StuckUs, often_us := OftenUs, often := Often, often_share := Share} = Limits,
    N >= maps:get(samples, Limits) andalso
        (Us >= StuckUs orelse
            (Us >= OftenUs andalso Count >= Often andalso part(Process, Stay) >= Share)).

is_in_call(_, #{kind := called}, _, _) ->
    true;
is_in_call(#{pid := Pid}, #{kind := erlang, frame := Frame}, #{stacks := Stacks}, Limits) ->
    In = [
        {IsC, Weight}
     || {[{_, Kind} | _] = Frames, Weight} <- Stacks(Pid, [<<"running">>]),
        flame_prof_doctor_stacks:called(Frames) =:= Frame, IsC <- [Kind =:= native]
    ],
    Sum = lists:sum([Weight || {_, Weight} <- In]),
    Sum > 0 andalso lists:sum([Weight || {true, Weight} <- In]) >= maps:get(in_c, Limits) * Sum;
is_in_call(_, _, _, _) ->
    false.

part(#{first_us := FromUs, last_us := ToUs}, #{all_us := AllUs}) ->
    min(1.0, AllUs / max(1, ToUs - FromUs)).

finding(#{pid := Pid} = Process, Stay, #{stacks := Stacks}, #{critical_share := Critical}) ->
    #{us := Us, frame := Frame, scheduler := Scheduler, since_us := SinceUs, count := Count} = Stay,
    #{samples := Samples} = Stay,
    Part = part(Process, Stay),
    Function = flame_prof_doctor_stacks:function(
        flame_prof_doctor_stacks:anywhere(Stacks(Pid, [<<"running">>]), [Frame])),
    flame_prof_doctor_samples:finding(kind(), Process, #{
        severity => case Part >= Critical of true -> critical; false -> warning end,
        size => Us / 1.0e6 * max(1, Count),
        title => ["keeps scheduler ", integer_to_list(Scheduler), " for ", seconds(Us), " in ",
            Frame],
        sentences => [
            [Frame, " does not give the scheduler back: no other process of scheduler ",
                integer_to_list(Scheduler), " runs meanwhile."],
            case Function of
                _ when Function =:= Frame; Function =:= <<>> -> "";
                _ -> ["It is called in ", Function, "."]
            end,
            case Count > 1 of
                true -> ["It did so ", number(Count), " times, for ", share(Part),
                    " of the time."];
                false -> ""
            end,
            ["Seen in ", number(Samples), " samples without a change of its reductions."]
        ],
        command => "flame_prof pstack --node NODE",
        numbers => #{us => Us, calls => Count, share => Part, scheduler => Scheduler,
            samples => Samples},
        function => Function,
        range => {SinceUs, SinceUs + Us + 1},
        view => #{measure => samples, show => busy, levels => [process, status], view => flame}
    }).
