%% @private Memory of binaries that only grows, and who holds them.
%%
%% == False alarms ==
%% Binaries that are no longer used stay until their holder collects: that makes a sawtooth,
%% which falls. Growth is told where the node's binaries grow from second to second without a fall,
%% or by far more than they fall, by much, and still in the later half of the time; what starts up
%% stops. Who holds them is the one that two looks say, or one whose own binaries grow as steadily.
-module(flame_prof_doctor_binary_leak).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, unseen/2]).

-import(flame_prof_doctor_rule, [name/1, bytes/1, seconds/1]).

kind() -> binary_leak.

needs() -> [seconds, samples].

thresholds() ->
    [
        {grown_bytes, 16777216, <<"bytes: growth of all binaries that is a finding">>},
        {grown_share, 0.1, <<"share of the memory before">>},
        {holder_share, 0.3, <<"share of the growth from which a process is named">>},
        {steps, 4, <<"least number of seconds with growth, and none with a fall">>},
        {span_us, 5000000, <<"microseconds: growth in less time is not judged">>},
        {critical_bytes, 104857600, <<"bytes a second from which it is critical">>}
    ].

find(#{seconds := Seconds} = Evidence, Limits) ->
    #{grown_bytes := Bytes, grown_share := Share, span_us := LeastUs, steps := Steps} = Limits,
    Values = [{TimeUs, N} || #{time_us := TimeUs, node_memory_binary := N} <- Seconds],
    case grown(Values, Seconds, Steps) of
        #{from := From, to := To, from_us := FromUs, to_us := ToUs} = Growth when
            To - From >= Bytes, To - From >= Share * From, ToUs - FromUs >= LeastUs
        ->
            Holder = flame_prof_doctor_holders:most(To - From, Evidence, Limits),
            [finding(Growth, Holder, Evidence, Limits)];
        _ ->
            unseen(flame_prof_doctor_growth:is_missing(node_memory_binary, Seconds))
    end.

unseen(Evidence, #{span_us := Us}) -> flame_prof_doctor_rule:short(Us, Evidence).

unseen(true) -> {unseen, <<"the memory of binaries was not read each second">>};
unseen(false) -> [].

%% Without a fall, or so that garbage in between does not hide it: each part of the time has more
%% than the one before, and the last third always more than the first ever had.
grown([], _, _) ->
    none;
grown(Values, Seconds, Steps) ->
    case flame_prof_doctor_series:growing(Values, Steps) of
        none -> risen(Values, flame_prof_doctor_growth:steady(node_memory_binary, Seconds));
        Growth -> Growth
    end.

risen(_, none) ->
    none;
risen(Values, #{from := From, to := To}) ->
    Third = length(Values) div 3,
    Most = lists:max([N || {_, N} <- lists:sublist(Values, Third)]),
    Least = lists:min([N || {_, N} <- lists:nthtail(length(Values) - Third, Values)]),
    {FromUs, _} = hd(Values),
    {ToUs, _} = lists:last(Values),
    case Least > Most of
        true -> #{from => From, to => To, from_us => FromUs, to_us => ToUs};
        false -> none
    end.

finding(#{from := From, to := To, from_us := FromUs, to_us := ToUs}, Holder, Evidence, Limits) ->
    #{samples := Samples} = Evidence,
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
            flame_prof_doctor_holders:held(Holder, Rate, Evidence),
            does(Holder, Samples),
            flame_prof_doctor_holders:pins(Holder)
        ], S =/= ""],
        command => "flame_prof binaries NODE --for 10s",
        processes => [Process || {Process, _} <- [Holder]],
        numbers => (flame_prof_doctor_holders:numbers(Holder, Rate, Evidence))#{from => From,
            to => To, bytes_per_second => Rate, span_us => ToUs - FromUs},
        range => {FromUs, ToUs}
    },
    maps:merge(Finding, maps:from_list([{function, F} || {P, Held} <- [Holder],
        F <- [function(P, Held, Samples)], F =/= <<>>])).

title(none) -> "binaries grow by ";
title({Owner, #{kind := table, table := Table}}) ->
    ["The ETS table ", atom_to_binary(Table), " of ", name(Owner),
        " holds binaries that grow by "];
title({Process, _}) ->
    [name(Process), " holds binaries that grow by "].

does(none, _) -> "";
does({Process, Held}, Samples) ->
    case function(Process, Held, Samples) of
        <<>> -> "";
        Function -> ["While it works it is in ", Function, "."]
    end.

%% One that is not sampled has that of the look. Who writes a table need not be its owner.
function(_, #{kind := table}, _) ->
    <<>>;
function(#{pid := Pid}, Held, #{stacks := Stacks}) ->
    Busy = Stacks(Pid, [<<"running">>, <<"runnable">>, <<"garbage_collecting">>]),
    case flame_prof_doctor_stacks:function(Busy) of
        <<>> -> maps:get(function, Held, <<>>);
        Function -> Function
    end.
