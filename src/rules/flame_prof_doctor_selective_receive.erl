%% @private A receive that looks through a long queue for its message each time.
%%
%% == False alarms ==
%% A server with a long queue that is only slow never waits: its next message is there. This one
%% waits for a message with `long' ones in its queue, for `waits' of that time, and while it is on a
%% CPU it is mostly in the function that it waits in: it looks through the queue. One that waits for
%% the answer to a call marks the queue and looks at what comes behind, so it is on no CPU there.
%% One that gets its message while it still looks is never seen to wait: then its queue stays as it
%% is within `stays', and one function of the program itself is nearly all of its time on a CPU. A
%% server that is slow calls others for its work.
-module(flame_prof_doctor_selective_receive).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [number/1, share/1]).

kind() -> selective_receive.

needs() -> [samples].

thresholds() ->
    [
        {long, 1000, <<"least number of messages in the queue, a power of ten">>},
        {waits, 0.05, <<"share of the time with such a queue in which it waits">>},
        {on_cpu, 0.02, <<"share of that time on a CPU">>},
        {share, 0.5, <<"share of its time on a CPU in the receive">>},
        {of_time, 0.5, <<"share of all time with such a queue">>},
        {stays, 0.02, <<"share of the queue: greatest change, if it never waits">>},
        {alone, 0.9, <<"share of its time on a CPU in one function, if it never waits">>}
    ].

find(#{samples := #{mode := processes, processes := Processes} = Samples}, Limits) ->
    [
        finding(Process, Facts, Samples)
     || #{queue_range := {_, _, Most, _}} = Process <- Processes, Most >= maps:get(long, Limits),
        #{} = Facts <- [facts(Process, Samples, Limits)]
    ];
find(_, _) ->
    [].

facts(#{pid := Pid, observations := All} = Process, #{by_queue := ByQueue}, Limits) ->
    Classes = lists:sublist([<<"queue_0">>, <<"queue_1s">>, <<"queue_10s">>, <<"queue_100s">>],
        1 + digits(maps:get(long, Limits))),
    Long = [{Status, Stack} || {Status, Queue, Stack} <- ByQueue(Pid),
        not lists:member(Queue, Classes)],
    Of = fun(Statuses) -> [Stack || {Status, Stack} <- Long, lists:member(Status, Statuses)] end,
    {Waiting, OnCpu} = {Of([<<"waiting">>]), Of([<<"running">>, <<"garbage_collecting">>])},
    [AllLong, Waits, Runs] = [flame_prof_doctor_stacks:weight(Stacks)
        || Stacks <- [[Stack || {_, Stack} <- Long], Waiting, OnCpu]],
    Receives = lists:usort([flame_prof_doctor_stacks:called(Frames) || {Frames, _} <- Waiting]),
    Scans = [{Frames, W} || {Frames, W} <- OnCpu,
        lists:member(flame_prof_doctor_stacks:called(Frames), Receives)],
    In = flame_prof_doctor_stacks:weight(Scans),
    #{waits := LeastWaits, on_cpu := LeastRuns, share := Share, of_time := OfTime} = Limits,
    case AllLong >= OfTime * All andalso Waits >= LeastWaits * AllLong
        andalso Runs >= LeastRuns * AllLong andalso In >= Share * Runs andalso In > 0 of
        true ->
            #{scans => Scans, in => In, runs => Runs, long => AllLong};
        false when AllLong >= OfTime * All, Runs >= OfTime * AllLong ->
            never_waits(Process, OnCpu, #{runs => Runs, long => AllLong}, Limits);
        false ->
            none
    end.

never_waits(#{queue_range := {_, Least, Most, _}}, OnCpu, #{runs := Runs} = Facts, Limits) ->
    #{stays := Stays, alone := Alone} = Limits,
    ByLeaf = maps:groups_from_list(fun({Frames, _}) -> leaf(Frames) end, OnCpu),
    Weighed = [{flame_prof_doctor_stacks:weight(Of), Of}
        || {Leaf, Of} <- maps:to_list(ByLeaf), flame_prof_doctor_stacks:is_own(Leaf)],
    case lists:reverse(lists:keysort(1, Weighed)) of
        [{In, Scans} | _] when In >= Alone * Runs, Least >= (1 - Stays) * Most ->
            Facts#{scans => Scans, in => In};
        _ ->
            none
    end.

%% C functions are a detail of what has called them.
leaf([{_, native} | Frames]) -> leaf(Frames);
leaf([Frame | _]) -> Frame;
leaf([]) -> {<<>>, pseudo}.

%% Of a power of ten: 3 for 1000.
digits(N) -> max(0, length(integer_to_list(round(N))) - 1).

finding(Process, #{scans := Scans, in := In, runs := Runs, long := Long}, _Samples) ->
    #{queue_range := {_, _, Most, Last}, observations := All} = Process,
    #{first_us := FromUs, last_us := ToUs} = Process,
    Function = case flame_prof_doctor_stacks:function(Scans) of
        <<>> -> flame_prof_doctor_stacks:called(element(1, hd(Scans)));
        Own -> Own
    end,
    flame_prof_doctor_samples:finding(kind(), Process, #{
        severity => warning,
        size => In / All,
        title => ["looks through ", number(Most), " messages for the one that it waits for"],
        sentences => [
            ["It is in a receive for ", share(In / Runs), " of its time on a CPU, though ",
                number(Last), " messages are in its queue."],
            ["The receive is in ", Function, ": no message in the queue matches."],
            ["Seen in ", number(Long), " samples with such a queue in ",
                flame_prof_doctor_samples:time(Process), ", ", number(In),
                " of them in the receive on a CPU."]
        ],
        command => ["flame_prof mailbox NODE ", flame_prof_doctor_samples:target(Process)],
        numbers => #{most => Most, last => Last, scanning => In, on_cpu => Runs,
            share => In / Runs, with_queue => Long, observations => All},
        function => Function,
        range => {FromUs, ToUs},
        view => #{measure => samples, show => busy, levels => [process, status], view => flame}
    }).
