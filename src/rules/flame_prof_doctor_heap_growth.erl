%% @private The memory of a process that only grows.
%%
%% == False alarms ==
%% A heap is a sawtooth: it is compared where it is smallest, behind its collections, in eight parts
%% of the time, and must grow from part to part without a fall, and still in the later half. Full
%% sweeps make a large heap smaller, which is a fall: then what is left at the last sweep counts,
%% and from sweep to sweep more must be left (flame_prof_doctor_swept:growth/2). It must outgrow
%% what it had by more than `grown_share': a heap has as much garbage again as it has data before a
%% full sweep. One that has grown for long does that no longer within the time: it must grow by
%% `much_bytes' and by `much_share'. A large one is enlarged by a fifth at once, which is a step or
%% two in ten seconds: then what each collection leaves is compared in the same way, and garbage is
%% no part of that. What a node starts, or a cache that is full, stops growing. A full mailbox is
%% that kind's finding.
-module(flame_prof_doctor_heap_growth).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, explained_by/0, unseen/2]).

-import(flame_prof_doctor_rule, [bytes/1, number/1, seconds/1]).

%% Bytes: what the command has room for anyway; what a node in need may not have.
-define(COPIED_LEAST, 32 bsl 20).
-define(COPIED_MOST, 1 bsl 30).

kind() -> heap_growth.

needs() -> [samples].

explained_by() -> [formatting, mailbox, selective_receive, bottleneck].

thresholds() ->
    [
        {grown_bytes, 8388608, <<"bytes: growth that is a finding">>},
        {grown_share, 1.5, <<"growth that is a finding, as a share of its memory before">>},
        {much_bytes, 16777216, <<"bytes: growth of a large heap that is a finding">>},
        {much_share, 0.2,
            <<"growth of a large heap that is a finding, as a share of its memory before">>},
        {span_us, 5000000, <<"microseconds: growth in less time is not judged">>},
        {critical_bytes, 104857600, <<"bytes a second from which it is critical">>},
        {starved_bytes, 67108864, <<"bytes: growth that is a finding, if the VM lacks CPUs">>}
    ].

find(#{samples := #{processes := Processes} = Samples} = Evidence, Limits) ->
    Starved = flame_prof_doctor_vm:is_starved(Evidence, 0),
    [
        finding(Process, Growth, Samples, Limits)
     || #{memory := [_ | _]} = Process <- Processes,
        #{} = Growth <- [growth(Process, Limits)], is_sure(Growth, Starved, Limits)
    ].

unseen(Evidence, #{span_us := Us}) -> flame_prof_doctor_rule:short(Us, Evidence).

growth(#{memory := Memory, survived := Survived}, #{span_us := LeastUs} = Limits) ->
    Found = [
        Growth#{of_collections => IsOfCollections}
     || {IsOfCollections, Series, IsLarge} <- [
            {false, Memory, fun is_large/2}, {true, Survived, fun is_much/2}],
        Grows <- [fun flame_prof_doctor_series:growth/2, fun flame_prof_doctor_swept:growth/2],
        #{} = Growth <- [Grows(Series, LeastUs)], IsLarge(Growth, Limits)
    ],
    case Found of
        [First | _] -> First;
        [] -> none
    end.

is_large(#{from := From, to := To} = Growth, Limits) ->
    #{grown_bytes := Bytes, grown_share := Share} = Limits,
    (To - From >= Bytes andalso To >= (1 + Share) * From) orelse is_much(Growth, Limits).

is_much(#{from := From, to := To}, #{much_bytes := Much, much_share := Part}) ->
    To - From >= Much andalso To >= (1 + Part) * From.

is_sure(#{from := From, to := To}, Starved, #{starved_bytes := Bytes}) ->
    not Starved orelse To - From >= Bytes.

finding(Process, #{from := From, to := To} = Growth, Samples, Limits) ->
    #{from_us := FromUs, to_us := ToUs, of_collections := IsOfCollections} = Growth,
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
            [what(IsOfCollections), " only grows: from ", bytes(From), " to ", bytes(To), " in ",
                seconds(ToUs - FromUs), most(IsOfCollections, bytes(Most))],
            function(Function),
            ["Compared after its collections, in ", number(All), " samples."]
        ],
        command => ["flame_prof xray NODE ", flame_prof_doctor_samples:target(Process), room(Most)],
        numbers => #{from => From, to => To, bytes_per_second => Rate, most => Most,
            span_us => ToUs - FromUs},
        function => Function,
        range => {FromUs, ToUs},
        view => #{measure => <<"memory.delta">>, show => all, levels => [sign, process],
            view => flame}
    }).

what(true) -> "What its collections leave";
what(false) -> "Its memory".

most(true, Bytes) -> ["; its memory was ", Bytes, " at most."];
most(false, Bytes) -> [", at most ", Bytes, "."].

%% A process that works all the time is told by a copy of its heap, which may grow until then.
room(Most) when Most > ?COPIED_LEAST, Most < ?COPIED_MOST ->
    [" --max-memory ", integer_to_list(2 * Most bsr 20)];
room(_) ->
    "".

function(<<>>) -> "";
function(Function) -> ["While it works it is in ", Function, "."].
