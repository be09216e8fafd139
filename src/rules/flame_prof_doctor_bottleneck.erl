%% @private One process that many wait for.
%%
%% == False alarms ==
%% A look meets bursts: the queue has to be there in nearly all of the time, or those who wait have
%% waited for long. A server that answers when it has something (a queue of jobs, say) has many who
%% wait, and nothing to do: one without messages and without work is none. Where all of the node
%% lacks CPU, each server is late: a server that is ready and does not get a scheduler for most of
%% its time is not the cause. What is over at the last look is one if each of `waiting' had waited
%% for 2.5 s: a server that is busy for a moment keeps no eight processes as long.
-module(flame_prof_doctor_bottleneck).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, explained_by/0]).

-import(flame_prof_doctor_rule, [name/1, count/2, number/1, seconds/1]).

kind() -> bottleneck.

needs() -> [waits].

explained_by() -> [deadlock, logger, file_io, busy_port, scheduler_stuck].

thresholds() ->
    [
        {waiting, 8, <<"processes that wait for one at the same time">>},
        {critical_waiting, 100, <<"waiting processes from which it is critical">>},
        {ready, 0.5, <<"share of the time: a process that is ready this often lacks a CPU">>},
        {otp_waiting, 5, <<"mean number of processes that wait for a server of OTP">>},
        {otp_busy, 0.8, <<"share of the time in which this server does not wait">>}
    ].

find(Evidence, Limits) ->
    Found = flame_prof_doctor_lasting:in_each(fun(When, Of) -> found(When, Of, Limits) end,
        Evidence),
    Pids = [Pid || #{processes := [#{pid := Pid} | _]} <- Found],
    Found ++ [flame_prof_doctor_otp_servers:finding(kind(), Busy, Evidence)
        || #{process := #{pid := Pid}} = Busy <- flame_prof_doctor_otp_servers:busy(Evidence,
            Limits), not lists:member(Pid, Pids)].

found(When, #{waits := #{roots := Roots} = Look} = Evidence, #{waiting := Least} = Limits) ->
    [
        finding(When, Fan, Evidence, Limits)
     || Root <- Roots,
        Fan <- [flame_prof_doctor_waits:fan(Root)],
        #{process := Pid, direct := Direct, path := Path} <- [Fan],
        is_pid(Pid), Direct >= Least, length(Path) =< 1,
        flame_prof_doctor_waits:is_at_work(Pid, Look) orelse Path =/= [],
        case When of
            now -> flame_prof_doctor_lasting:lasting(Pid, Least, Evidence);
            past -> flame_prof_doctor_lasting:have_waited(Pid, Least, Look)
        end,
        not is_late(flame_prof_doctor_waits:sampled(Pid, Evidence), Limits)
    ].

is_late(#{runnable := Ready, observations := All}, #{ready := Most}) -> Ready > Most * All;
is_late(none, _) -> false.

finding(When, #{process := Pid, direct := Direct, path := Path}, Evidence, Limits) ->
    #{waits := #{looks := Looks} = Look, span_us := Us} = Evidence,
    Sampled = flame_prof_doctor_waits:sampled(Pid, Evidence),
    {_, Waiters} = flame_prof_doctor_does:waiters(Pid, Evidence),
    Process = flame_prof_doctor_waits:process(Pid, Look),
    LongestMs = flame_prof_doctor_lasting:longest(Pid, Look),
    {Function, Share} = flame_prof_doctor_does:function_of(When, Pid, Path, Evidence),
    Finding = #{
        kind => kind(),
        severity => case Direct >= maps:get(critical_waiting, Limits) of
            true -> critical;
            false -> warning
        end,
        size => Direct,
        title => [name(Process), case When of now -> " keeps "; past -> " kept " end,
            number(Direct), " processes waiting"],
        sentences => [S || S <- [
            longest(When, LongestMs),
            flame_prof_doctor_does:work(When, Function, Share, Path, Look),
            case {When, flame_prof_doctor_otp_servers:remedy(Process)} of
                {past, _} -> "It was over before the last look.";
                {now, ""} -> queue(Sampled);
                {now, Remedy} -> Remedy
            end,
            ["Seen in ", flame_prof_doctor_lasting:looks(When, Looks), samples(Sampled), " in ",
                seconds(Us), "."]
        ], S =/= ""],
        command => ["flame_prof waits NODE ", flame_prof_doctor_waits:target(Process)],
        processes => [Process],
        waiters => Waiters,
        numbers => maps:merge(flame_prof_doctor_does:queue(Sampled), maps:from_list([
            {waiting, Direct}, {longest_ms, LongestMs}, {looks, Looks}, {span_us, Us}
            | [{share, Share} || Share =/= none]]))
    },
    maps:merge(Finding, maps:from_list([{function, Function} || Function =/= <<>>])).

longest(_, 0) -> "";
longest(now, Ms) -> ["One has waited for ", seconds(1000 * Ms), " or more."];
longest(past, Ms) -> ["One had waited for ", seconds(1000 * Ms), " or more."].

queue(Sampled) ->
    case flame_prof_doctor_does:queue(Sampled) of
        #{queue_from := First, queue_to := Last, queue_per_second := Rate} when
            Last > 2 * First, Last > 100
        ->
            ["Its queue grew from ", number(First), " to ", number(Last), " messages, ",
                number(Rate), " a second."];
        #{queue_least := Least} when Least > 0 ->
            ["Its queue never has fewer than ", count(Least, "message"), "."];
        #{} ->
            ""
    end.

samples(#{observations := N}) -> [" and ", number(N), " samples"];
samples(none) -> "".
