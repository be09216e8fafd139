%% @private A handler of the logger that has more than it can write: it makes who logs wait, then
%% drops what it gets.
%%
%% == False alarms ==
%% A burst of a crash fills a handler's queue for a moment: it has to be there at both looks, or in
%% most parts of the time. From ten messages on who logs waits for the handler (sync_mode_qlen of
%% logger_std_h).
-module(flame_prof_doctor_logger).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [name/1, number/1]).

-define(LOGGING, [<<"logger:*">>, <<"logger_backend:*">>, <<"Elixir.Logger:*">>]).

kind() -> logger.

needs() -> [system].

thresholds() ->
    [
        {queue, 10, <<"messages in a handler's queue at both looks, or most of the time">>},
        {parts, 0.6, <<"share of the time that counts as most of it">>}
    ].

find(#{system := {First, Last}} = Evidence, #{queue := Least} = Limits) ->
    Were = maps:from_list([{Pid, N} || #{process := Pid, queue := N} <- maps:get(handlers, First)]),
    [
        finding(Handler, Evidence)
     || #{process := Pid, queue := N} = Handler <- maps:get(handlers, Last),
        (N >= Least andalso maps:get(Pid, Were, 0) >= Least) orelse
            is_full(flame_prof_doctor_waits:sampled(Pid, Evidence), Limits)
    ].

is_full(#{queue := [_, _, _ | _] = Queue}, #{queue := Least, parts := Share}) ->
    length([Max || {_, _, Max, _} <- Queue, Max >= Least]) >= Share * length(Queue);
is_full(_, _) ->
    false.

finding(#{process := Pid, name := Name, queue := Length}, #{span_us := Us} = Evidence) ->
    Process = #{pid => flame_prof_doctor_waits:text(Pid), name => atom_to_binary(Name)},
    Waiting = waiting(Pid, Evidence),
    Most = most(flame_prof_doctor_waits:sampled(Pid, Evidence), Length),
    Function = who_logs(Evidence),
    Finding = #{
        kind => kind(),
        severity => warning,
        size => Most,
        title => ["the logger's ", name(Process), " has more than it can write"],
        sentences => [S || S <- [
            ["Its queue has ", number(Length), " messages, at most ", number(Most), "; by default it makes callers wait from 10 on, and drops messages from 200 on."],
            case Function of <<>> -> ""; _ -> ["Most messages are logged in ", Function, "."] end,
            case Waiting of
                0 -> "";
                1 -> "1 process waits for it.";
                _ -> [number(Waiting), " processes wait for it."]
            end,
            ["Seen at both ends of ", flame_prof_doctor_rule:seconds(Us),
                ", or in most of its samples."]
        ], S =/= ""],
        command => ["flame_prof mailbox NODE ", flame_prof_doctor_waits:target(Process)],
        processes => [Process],
        numbers => #{queue => Length, most => Most, waiting => Waiting, span_us => Us}
    },
    maps:merge(Finding, maps:from_list([{function, Function} || Function =/= <<>>])).

waiting(Pid, #{waits := #{edges := Edges}}) -> length([1 || #{to := To} <- Edges, To =:= Pid]);
waiting(_, _) -> 0.

most(#{queue_range := {_, _, Most, _}}, Length) -> max(Most, Length);
most(_, Length) -> Length.

who_logs(#{samples := #{stacks := Stacks}}) ->
    Logging = flame_prof_doctor_stacks:anywhere(
        Stacks(all, [<<"running">>, <<"runnable">>, <<"garbage_collecting">>, <<"waiting">>]),
        ?LOGGING),
    Own = [{Frames, W} || {Frames, W} <- Logging,
        lists:any(fun flame_prof_doctor_stacks:is_own/1, Frames)],
    flame_prof_doctor_stacks:function(Own);
who_logs(_) ->
    <<>>.
