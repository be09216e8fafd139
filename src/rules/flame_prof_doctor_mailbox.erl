%% @private A message queue that grows, or stays long: the slow message, or the sender who floods.
%%
%% == False alarms ==
%% Rushes come and go: a queue is long when it stays at `long' for `long_us', as the messages in it
%% wait for about as long, or when it is `very_long': its memory and the copies of it count. One
%% that never falls, as its least length in each eighth of the time tells, need not be long yet. A
%% process that is ready for a CPU for most of the time lacks one, as all of a loaded node do: its
%% queue is none of its own. Who waits for a port that takes no bytes gets messages meanwhile: the
%% port is the finding.
-module(flame_prof_doctor_mailbox).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, explained_by/0, unseen/2]).

-import(flame_prof_doctor_rule, [number/1, seconds/1]).

%% One tag has most of the time.
-define(MOST, 0.5).
-define(GREW, 1.2). % times the first length: less is no growth

kind() -> mailbox.

needs() -> [samples].

explained_by() ->
    [bottleneck, chain, deadlock, selective_receive, logger, scheduler_stuck, busy_port].

thresholds() ->
    [
        {long, 1000, <<"messages: a queue that stays this long is a finding">>},
        {long_us, 4000000, <<"microseconds: least duration">>},
        {very_long, 10000, <<"messages: a queue of this length is a finding at once">>},
        {grown, 200, <<"messages: growth of a queue that never shrinks">>},
        {grown_us, 4500000, <<"microseconds: least duration">>},
        {ready, 0.5, <<"share of the time: a process that is ready this often lacks a CPU">>},
        {stays, 0.9,
            <<"share of its greatest length at the end, from which a very long queue is critical">>}
    ].

find(#{samples := #{processes := Processes} = Samples} = Evidence, Limits) ->
    [finding(Process, Samples, Evidence, Limits)
     || #{queue := [_ | _]} = Process <- Processes, is_long(Process, Limits)].

unseen(Evidence, #{long_us := LongUs, grown_us := GrownUs}) ->
    flame_prof_doctor_rule:short(max(LongUs, GrownUs), Evidence).

is_long(#{queue := Queue, queue_range := {_, _, Most, _}} = Process, Limits) ->
    #{long := Long, long_us := LongUs, very_long := VeryLong} = Limits,
    (Most >= VeryLong orelse flame_prof_doctor_series:long(Queue, Long) >= LongUs
        orelse grows(Queue, Limits))
    andalso (Most >= VeryLong orelse not is_late(Process, Limits)).

grows(Queue, #{grown := Grown, grown_us := LeastUs}) ->
    case flame_prof_doctor_series:growth(Queue, LeastUs) of
        #{from := From, to := To} -> To - From >= Grown;
        none -> false
    end.

is_late(#{runnable := Ready, observations := All}, #{ready := Most}) -> Ready > Most * All.

finding(Process, Samples, Evidence, #{very_long := VeryLong, stays := Stayed}) ->
    #{queue := Queue, queue_range := {First, _, Most, Last}, pid := Pid} = Process,
    #{first_us := FromUs, last_us := ToUs} = Process,
    #{from := Least, from_us := BeginUs, to_us := PeakUs} = Climb =
        flame_prof_doctor_series:climb(Queue, Most, ToUs),
    Stays = Last >= Stayed * Most,
    Grew = Most > ?GREW * Least,
    Rate = (Most - Least) * 1.0e6 / max(1, PeakUs - BeginUs),
    Function = flame_prof_doctor_samples:function(Samples, Process),
    #{sentence := Sender, numbers := Sent, processes := Senders} =
        flame_prof_doctor_senders:of_mailbox(Pid, Evidence),
    Finding = flame_prof_doctor_samples:finding(kind(), Process, #{
        severity => case Most >= VeryLong andalso Stays of true -> critical; false -> warning end,
        size => Most,
        title => [title(Stays, Most, Last), " messages in its mailbox"],
        sentences => [
            ["Its message queue ", course(Grew, Climb#{to => Most, rate => Rate}, ToUs - FromUs),
                [[" It is ", number(Last), " at the end."] || Last =/= Most]],
            Sender,
            work(Process, Function),
            ["Seen in ", number(maps:get(observations, Process)), " samples."]
        ],
        command => ["flame_prof mailbox NODE ", flame_prof_doctor_samples:target(Process)],
        numbers => Sent#{most => Most, first => First, last => Last, per_second => Rate,
            peak_us => PeakUs - BeginUs},
        function => Function,
        range => {maps:get(Grew, #{true => BeginUs, false => FromUs}), ToUs},
        view => #{show => all, measure => message_queue_len, levels => [process, status],
            view => flame}
    }),
    #{processes := Own} = Finding,
    Finding#{processes := Own ++ Senders}.

title(true, _Most, Last) -> ["has ", number(Last)];
title(false, Most, _Last) -> ["had up to ", number(Most)].

course(false, #{to := Most}, Us) ->
    ["had up to ", number(Most), " messages in ", seconds(Us), "."];
course(true, #{from := Least, from_us := FromUs, to := Most, to_us := ToUs, unseen_us := 0,
    rate := Rate}, _) ->
    ["grew from ", number(Least), " to ", number(Most), " messages in ", seconds(ToUs - FromUs),
        ", ", number(Rate), " a second."];
course(true, #{from := Least, to := Most, unseen_us := Us} = Climb, _) ->
    #{from_us := FromUs, to_us := ToUs} = Climb,
    ["grew from ", number(Least), " to ", number(Most), " messages within ",
        seconds(ToUs - FromUs), ". The process was not sampled for ", seconds(Us), " of that."].

work(#{tags := [{Tag, N} | _] = Tags}, Function) ->
    case N > ?MOST * lists:sum([M || {_, M} <- Tags]) of
        true -> ["It is in ", Function, ", mostly for ", Tag, "."];
        false -> ["It is in ", Function, ", for messages of many kinds."]
    end;
work(_, <<>>) -> "";
work(_, Function) -> ["It is in ", Function, "."].
