%% @private Those who log wait in a handler of the logger: it is called in the process that logs,
%% and what takes time in it, as a call of another process, takes it there.
%%
%% == False alarms ==
%% A handler waits for a moment now and then. It is a finding where as many as `waiting' processes
%% are in one at a time, in the mean. Those who wait for the queue of a handler of OTP are told by
%% the other rule of this kind.
-module(flame_prof_doctor_logger_calls).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [number/1]).

-define(HANDLERS, [<<"logger_backend:call_handlers/*">>]).
-define(QUEUES, [<<"logger_olp:*">>]).

kind() -> logger.

needs() -> [samples].

thresholds() ->
    [{waiting, 5, <<"mean number of processes that wait in handlers">>}].

find(#{samples := #{mode := processes, processes := Processes} = Samples}, #{waiting := Least}) ->
    Found = lists:reverse(lists:keysort(1, [
        {Weight, Process, Waits}
     || Process <- Processes, Waits <- [waits(Process, Samples)],
        Weight <- [flame_prof_doctor_stacks:weight(Waits)], Weight > 0
    ])),
    Sum = lists:sum([Weight || {Weight, _, _} <- Found]),
    case Sum / flame_prof_doctor_calls:ticks(Samples) of
        Waiting when Waiting >= Least -> [finding(Found, Sum, Waiting)];
        _ -> []
    end;
find(_, _) ->
    [].

waits(#{pid := Pid}, #{stacks := Stacks}) ->
    In = flame_prof_doctor_stacks:anywhere(Stacks(Pid, [<<"waiting">>]), ?HANDLERS),
    In -- flame_prof_doctor_stacks:anywhere(In, ?QUEUES).

finding([{_, First, _} | Others] = Found, Sum, Waiting) ->
    Handler = flame_prof_doctor_stacks:function(
        [{above(Frames), Weight} || {_, _, Waits} <- Found, {Frames, Weight} <- Waits]),
    Finding = flame_prof_doctor_samples:finding(kind(), First, #{
        severity => warning,
        size => Waiting,
        title => ["and ", flame_prof_doctor_rule:count(length(Others), "other"),
            " that log wait for a handler"],
        sentences => [
            ["In the mean ", number(Waiting), " processes wait in a handler of the logger",
                [[", in ", Handler] || Handler =/= <<>>], "."],
            "A handler runs in the process that logs: a slow handler stops its callers.",
            ["Seen in ", number(Sum), " samples of them in ",
                flame_prof_doctor_samples:time(First), "."]
        ],
        command => ["flame_prof pstack --node NODE ", flame_prof_doctor_samples:target(First)],
        numbers => #{waiting => Waiting, processes => length(Found), samples => Sum},
        function => Handler,
        view => #{measure => samples, show => all, levels => [process, status], view => flame}
    }),
    Named = [flame_prof_doctor_samples:process(P) || {_, P, _} <- lists:sublist(Found, 20)],
    Finding#{processes := Named}.

%% What the logger has called, with the logger as its root.
above(Frames) ->
    {Above, Below} = lists:splitwith(
        fun({Function, _}) -> not flame_prof_doctor_stacks:is_in(Function, ?HANDLERS) end, Frames),
    Above ++ lists:sublist(Below, 1).
