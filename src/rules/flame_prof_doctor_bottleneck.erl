%% @private One process that many wait for.
%%
%% == False alarms ==
%% A look meets bursts: the queue has to be there in nearly all of the time, or those who wait have
%% waited for long. A server that answers when it has something (a queue of jobs, say) has many who
%% wait, and nothing to do: one without messages and without work is none. Where all of the node
%% lacks CPU, each server is late: a server that is ready and does not get a scheduler for most of
%% its time is not the cause.
-module(flame_prof_doctor_bottleneck).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, explained_by/0]).

-import(flame_prof_doctor_rule, [name/1, number/1, seconds/1, share/1]).

kind() -> bottleneck.

needs() -> [waits].

explained_by() -> [deadlock, logger, file_io, busy_port, scheduler_stuck].

thresholds() ->
    [
        {waiting, 8, <<"processes that wait for one at the same time">>},
        {critical_waiting, 100, <<"processes that wait: critical">>},
        {ready, 0.5, <<"of the time: a process that is as often ready lacks a CPU">>}
    ].

find(#{waits := #{roots := Roots} = Look} = Evidence, #{waiting := Least} = Limits) ->
    [
        told(Fan, Evidence, Limits)
     || Root <- Roots,
        Fan <- [flame_prof_doctor_waits:fan(Root)],
        #{process := Pid, direct := Direct, path := Path} <- [Fan],
        is_pid(Pid), Direct >= Least, length(Path) =< 1,
        flame_prof_doctor_waits:is_at_work(Pid, Look) orelse Path =/= [],
        flame_prof_doctor_waits:lasting(Pid, Least, Evidence),
        not is_late(flame_prof_doctor_waits:sampled(Pid, Evidence), Limits)
    ].

is_late(#{runnable := Ready, observations := All}, #{ready := Most}) -> Ready > Most * All;
is_late(none, _) -> false.

told(#{process := Pid, direct := Direct, path := Path}, #{waits := Look} = Evidence, Limits) ->
    {#{looks := Looks}, #{span_us := Us}} = {Look, Evidence},
    Sampled = flame_prof_doctor_waits:sampled(Pid, Evidence),
    {_, Waiters} = flame_prof_doctor_does:waiters(Pid, Evidence),
    Process = flame_prof_doctor_waits:process(Pid, Look),
    LongestMs = flame_prof_doctor_waits:longest(Pid, Look),
    {Function, Share} = function(Pid, Path, Evidence, Look),
    Finding = #{
        kind => kind(),
        severity => case Direct >= maps:get(critical_waiting, Limits) of
            true -> critical;
            false -> warning
        end,
        size => Direct,
        title => [name(Process), " keeps ", number(Direct), " processes waiting"],
        sentences => [S || S <- [
            longest(LongestMs),
            work(Function, Share, Path, Look),
            queue(Sampled),
            ["Seen in ", number(Looks), " looks", samples(Sampled), " in ", seconds(Us), "."]
        ], S =/= ""],
        command => ["flame_prof waits NODE ", flame_prof_doctor_waits:target(Process)],
        processes => [Process],
        waiters => Waiters,
        numbers => maps:merge(flame_prof_doctor_does:queue(Sampled), maps:from_list([
            {waiting, Direct}, {longest_ms, LongestMs}, {looks, Looks}, {span_us, Us}
            | [{share, Share} || Share =/= none]]))
    },
    maps:merge(Finding, maps:from_list([{function, Function} || Function =/= <<>>])).

%% Where it waits itself, the other one says why.
function(Pid, [], Evidence, Look) ->
    flame_prof_doctor_does:function(Pid, Evidence, Look);
function(_Pid, [#{to := To}], Evidence, Look) when is_pid(To) ->
    flame_prof_doctor_does:function(To, Evidence, Look);
function(_, _, _, _) ->
    {<<>>, none}.

longest(0) -> "";
longest(Ms) -> ["One has waited for ", seconds(1000 * Ms), " or more."].

work(<<>>, _, [], _) -> "";
work(<<>>, _, [Edge], Look) -> [waits(Edge, Look), "."];
work(Function, none, [], _) -> ["It is in ", Function, "."];
work(Function, Share, [], _) -> ["It spends ", share(Share), " of its time in ", Function, "."];
work(Function, _, [Edge], Look) -> [waits(Edge, Look), ", which is in ", Function, "."].

waits(#{to := To, how := How}, Look) ->
    Other = name(flame_prof_doctor_waits:process(To, Look)),
    case How of
        start -> ["It starts ", Other, " and waits until that is ready"];
        _ -> ["It waits for ", Other, " itself"]
    end.

queue(Sampled) ->
    case flame_prof_doctor_does:queue(Sampled) of
        #{queue_from := First, queue_to := Last, queue_per_second := Rate} when
            Last > 2 * First, Last > 100
        ->
            ["Its queue grew from ", number(First), " to ", number(Last), " messages, ",
                number(Rate), " a second."];
        #{queue_least := Least} ->
            ["Its queue never has fewer than ", number(Least), " messages."];
        #{} ->
            ""
    end.

samples(#{observations := N}) -> [" and ", number(N), " samples"];
samples(none) -> "".
