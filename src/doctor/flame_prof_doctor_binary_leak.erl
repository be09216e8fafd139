%% @private Memory of binaries that only grows, and who holds them.
%%
%% == False alarms ==
%% Binaries that are no longer used stay until their holder collects: that makes a sawtooth,
%% which falls. Growth is told where the node's binaries grow from second to second without a fall,
%% by much, and still in the later half of the time; what starts up stops. Who holds them is one
%% whose own binaries grow as steadily.
-module(flame_prof_doctor_binary_leak).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [name/1, bytes/1, seconds/1, share/1]).

-define(STEPS, 4).

kind() -> binary_leak.

needs() -> [seconds, samples].

thresholds() ->
    [
        {grown_bytes, 16777216, <<"bytes: growth of all binaries that is a finding">>},
        {grown_share, 0.1, <<"of what there was">>},
        {holder_share, 0.3, <<"of the growth: a process whose binaries grow by as much is named">>},
        {span_us, 5000000, <<"microseconds: growth in less time says nothing">>},
        {critical_bytes, 104857600, <<"bytes a second: critical">>}
    ].

find(#{seconds := Seconds, samples := Samples}, Limits) ->
    #{grown_bytes := Bytes, grown_share := Share, span_us := LeastUs} = Limits,
    Values = [{TimeUs, N} || #{time_us := TimeUs, node_memory_binary := N} <- Seconds],
    case Values =/= [] andalso flame_prof_doctor_series:growing(Values, ?STEPS) of
        #{from := From, to := To, from_us := FromUs, to_us := ToUs} = Growth when
            To - From >= Bytes, To - From >= Share * From, ToUs - FromUs >= LeastUs
        ->
            [told(Growth, holder(To - From, Samples, Limits), Samples, Limits)];
        _ ->
            []
    end.

%% Of those that grow by enough, the one that grows most.
holder(Grown, #{processes := Processes}, #{holder_share := Share, span_us := LeastUs}) ->
    Growing = [
        {To - From, Process}
     || #{bin_vheap := [_ | _] = Series} = Process <- Processes,
        #{from := From, to := To} <- [flame_prof_doctor_series:growth(Series, LeastUs)],
        To - From >= Share * Grown
    ],
    case lists:reverse(lists:keysort(1, Growing)) of
        [{Most, Process} | _] -> {Process, min(1.0, Most / Grown)};
        [] -> none
    end.

told(#{from := From, to := To, from_us := FromUs, to_us := ToUs}, Holder, Samples, Limits) ->
    Rate = (To - From) * 1.0e6 / (ToUs - FromUs),
    Finding = #{
        kind => kind(),
        severity => case Rate >= maps:get(critical_bytes, Limits) of
            true -> critical;
            false -> warning
        end,
        size => To - From,
        title => [title(Holder), bytes(Rate), " a second"],
        sentences => [S || S <- [
            ["The binaries of the node only grow: from ", bytes(From), " to ", bytes(To), " in ",
                seconds(ToUs - FromUs), "."],
            held(Holder),
            does(Holder, Samples),
            "Small parts of large binaries keep these whole; binary:copy/1 does not."
        ], S =/= ""],
        command => command(Holder),
        processes => [flame_prof_doctor_samples:process(P) || {P, _} <- [Holder]],
        numbers => #{from => From, to => To, bytes_per_second => Rate},
        range => {FromUs, ToUs}
    },
    maps:merge(Finding, maps:from_list([{function, F} || {P, _} <- [Holder],
        F <- [function(P, Samples)], F =/= <<>>])).

title(none) -> "binaries grow by ";
title({Process, _}) -> [name(Process), " holds binaries that grow by "].

held(none) -> "No process that was sampled holds them: many do, or one that seldom runs.";
held({_, Share}) -> ["Its binaries grow by ", share(Share), " of that, without a fall."].

does(none, _) -> "";
does({Process, _}, Samples) ->
    case function(Process, Samples) of
        <<>> -> "";
        Function -> ["While it works it is in ", Function, "."]
    end.

function(Process, Samples) ->
    flame_prof_doctor_stacks:function(flame_prof_doctor_samples:busy(Samples, Process)).

command(none) -> "flame_prof binaries NODE --for 10s";
command({Process, _}) -> ["flame_prof xray NODE ", flame_prof_doctor_samples:target(Process)].
