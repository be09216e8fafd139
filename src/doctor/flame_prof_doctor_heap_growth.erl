%% @private The memory of a process that only grows.
%%
%% == False alarms ==
%% A heap is a sawtooth: it is compared where it is smallest, behind its collections, in eight parts
%% of the time, and must grow from part to part without a fall, and still in the later half. It must
%% outgrow what it had by more than `grown_share': a heap has as much garbage again as it has data
%% before a full sweep. One that has grown for long does that no longer within the time: it must
%% grow by `much_bytes' and by `much_share'. What a node starts, or a cache that is full, stops
%% growing. A full mailbox is that kind's finding.
-module(flame_prof_doctor_heap_growth).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, explained_by/0]).

-import(flame_prof_doctor_rule, [bytes/1, number/1, seconds/1]).

kind() -> heap_growth.

needs() -> [samples].

explained_by() -> [mailbox, selective_receive, bottleneck].

thresholds() ->
    [
        {grown_bytes, 8388608, <<"bytes: growth that is a finding">>},
        {grown_share, 1.5, <<"of what it had: growth that is a finding">>},
        {much_bytes, 50331648, <<"bytes: growth of a large heap that is a finding">>},
        {much_share, 0.2, <<"of what it had: growth of a large heap that is a finding">>},
        {span_us, 5000000, <<"microseconds: growth in less time says nothing">>},
        {critical_bytes, 104857600, <<"bytes a second: critical">>},
        {starved_bytes, 67108864, <<"bytes: growth where the VM lacks CPUs and collects late">>}
    ].

find(#{samples := #{processes := Processes} = Samples} = Evidence, Limits) ->
    Starved = flame_prof_doctor_calls:is_starved(Evidence, 0),
    [
        told(Process, Growth, Samples, Limits)
     || #{memory := [_ | _] = Memory} = Process <- Processes,
        #{} = Growth <- [flame_prof_doctor_series:growth(Memory, maps:get(span_us, Limits))],
        is_large(Growth, Limits), is_sure(Growth, Starved, Limits)
    ].

is_large(#{from := From, to := To}, Limits) ->
    #{grown_bytes := Bytes, grown_share := Share} = Limits,
    #{much_bytes := Much, much_share := Part} = Limits,
    (To - From >= Bytes andalso To >= (1 + Share) * From) orelse
        (To - From >= Much andalso To >= (1 + Part) * From).

is_sure(#{from := From, to := To}, Starved, #{starved_bytes := Bytes}) ->
    not Starved orelse To - From >= Bytes.

told(Process, #{from := From, to := To, from_us := FromUs, to_us := ToUs}, Samples, Limits) ->
    Rate = (To - From) * 1.0e6 / (ToUs - FromUs),
    #{memory_range := {_, _, Most, _}, observations := All} = Process,
    Function = flame_prof_doctor_stacks:function(
        flame_prof_doctor_samples:busy(Samples, Process)),
    flame_prof_doctor_samples:finding(kind(), Process, #{
        severity => case Rate >= maps:get(critical_bytes, Limits) of
            true -> critical;
            false -> warning
        end,
        size => To - From,
        title => ["grows by ", bytes(Rate), " a second"],
        sentences => [
            ["Its memory only grows: from ", bytes(From), " to ", bytes(To), " in ",
                seconds(ToUs - FromUs), ", at most ", bytes(Most), "."],
            function(Function),
            ["It is compared behind its collections, in ", number(All), " samples."]
        ],
        command => ["flame_prof xray NODE ", flame_prof_doctor_samples:target(Process)],
        numbers => #{from => From, to => To, bytes_per_second => Rate, most => Most},
        function => Function,
        range => {FromUs, ToUs},
        view => #{measure => <<"memory.delta">>, show => all, levels => [sign, process],
            view => flame}
    }).

function(<<>>) -> "";
function(Function) -> ["While it works it is in ", Function, "."].
