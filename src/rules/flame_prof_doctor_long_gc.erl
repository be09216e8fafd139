%% @private A collection that takes long: its process stands still meanwhile, and so do those that
%% wait for it.
%%
%% == False alarms ==
%% Consecutive samples with the same reductions are one collection. Only heaps of hundreds of
%% megabytes take `long_us': those of `least_bytes' and more are judged, as a machine whose CPUs
%% are short makes any collection longer, and where the VM got far less CPU time than its processes
%% seem to have had nothing is said. One collection may be that of a start: two are told, or one of
%% `very_long_us'.
-module(flame_prof_doctor_long_gc).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, explained_by/0, unseen/2]).

-import(flame_prof_doctor_rule, [count/2, bytes/1, seconds/1]).

kind() -> long_gc.

needs() -> [samples].

explained_by() -> [formatting, mailbox, selective_receive, heap_growth].

thresholds() ->
    [
        {long_us, 300000, <<"microseconds in one collection">>},
        {very_long_us, 1000000, <<"microseconds in a single collection">>},
        {least_bytes, 134217728, <<"bytes: least size of the heap">>}
    ].

find(#{samples := #{processes := Processes} = Samples} = Evidence, Limits) ->
    [
        finding(Process, Stay, Samples)
     || #{longest_gc := #{} = Stay} = Process <- Processes, is_long(Process, Stay, Limits),
        not flame_prof_doctor_vm:is_starved(Evidence, 0)
    ].

unseen(Evidence, _) -> flame_prof_doctor_rule:portable(Evidence).

is_long(#{memory_range := {_, _, Most, _}}, #{us := Us, count := Count}, Limits) ->
    #{long_us := LongUs, very_long_us := VeryLong, least_bytes := Bytes} = Limits,
    Most >= Bytes andalso (Us >= VeryLong orelse (Us >= LongUs andalso Count > 1)).

finding(Process, #{us := Us, since_us := SinceUs, count := Count, all_us := AllUs}, Samples) ->
    #{memory_range := {_, _, Most, _}} = Process,
    Stacks = flame_prof_doctor_samples:busy(Samples, Process),
    Function = flame_prof_doctor_stacks:function(Stacks),
    flame_prof_doctor_samples:finding(kind(), Process, #{
        severity => warning,
        size => AllUs / 1.0e6,
        title => ["collects garbage for ", seconds(Us), " at a time"],
        sentences => [
            ["Its memory is up to ", bytes(Most), "; it stands still during a collection."],
            ["Collections of 50 ms and more were seen ", count(Count, "time"), ", ",
                seconds(AllUs), " together."],
            case Function of <<>> -> ""; _ -> ["It works in ", Function, "."] end
        ],
        command => ["flame_prof xray NODE ", flame_prof_doctor_samples:target(Process)],
        numbers => #{longest_us => Us, count => Count, all_us => AllUs, memory => Most},
        function => Function,
        range => {SinceUs, SinceUs + Us + 1},
        view => #{measure => samples, show => busy, levels => [process, status], view => flame}
    }).
