%% @private `run_queue': processes are ready to run, and wait for a scheduler. Either there is more
%% to do than the schedulers can do, or some of them are offline, blocked, or not used.
%%
%% == False alarms ==
%% A burst fills run queues for moments: the median of the seconds counts, so that most of them have
%% to see it. A saturated node that does its work has as many ready processes as it has
%% concurrency, and each waits for a few turns of a millisecond: the threshold is far above that,
%% for each scheduler. Offline schedulers may be meant (`+S 4:2'): that is told only together with a
%% queue.
-module(flame_prof_doctor_run_queue).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [number/1]).

-spec kind() -> flame_prof_doctor_rule:kind().
kind() -> run_queue.

-spec needs() -> [flame_prof_doctor_rule:needs(), ...].
needs() -> [seconds].

-spec thresholds() -> [flame_prof_doctor_rule:threshold()].
thresholds() ->
    [
        {length, 500, <<"ready processes for each scheduler online, in most seconds">>},
        {offline_length, 20, <<"the same, if schedulers are offline or blocked">>},
        {unbalanced_length, 100, <<"ready processes of one scheduler while another has none">>}
    ].

-spec find(flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) ->
    [flame_prof_doctor_rule:finding()] | {unseen, binary()}.
find(#{seconds := [#{node_schedulers := _}, _, _ | _] = Seconds}, Thresholds) ->
    Median = fun(Key) -> median([Value || #{Key := Value} <- Seconds]) end,
    #{node_schedulers := All, node_schedulers_online := Online} = Last = lists:last(Seconds),
    Unblocked = maps:get(node_schedulers_unblocked, Last, Online),
    Figures = #{
        queue => Median(node_run_queue_sum), longest => Median(node_run_queue_longest),
        shortest => lists:max([N || #{node_run_queue_shortest := N} <- Seconds]),
        schedulers => All, online => Online, unblocked => Unblocked, unused => All - Unblocked,
        looks => length(Seconds),
        span_us => maps:get(time_us, Last) - maps:get(time_us, hd(Seconds))
    },
    why(Figures, Thresholds);
find(_, _) ->
    {unseen, <<"the run queues were not sampled often enough">>}.

median(Values) -> lists:nth((length(Values) + 1) div 2, lists:sort(Values)).

why(#{queue := Queue, unblocked := Used, schedulers := All} = Figures, #{offline_length := Least})
    when Used < All, Queue >= Least * Used
->
    [finding(Figures, io_lib:format("~b of ~b schedulers are ~ts, and ~ts processes wait for the "
        "others", [All - Used, All, unused(Figures), number(Queue)]), offline(Figures))];
why(#{longest := Longest, shortest := 0, online := Online} = Figures,
    #{unbalanced_length := Least}) when Online > 1, Longest >= Least
->
    [finding(Figures, io_lib:format("~ts processes wait for one scheduler while another has none",
        [number(Longest)]),
        "They are bound to it, or the scheduler cannot hand them over.")];
why(#{queue := Queue, online := Online} = Figures, #{length := Least}) when
    Queue >= Least * Online
->
    [finding(Figures, io_lib:format("~ts processes are ready to run and wait for ~b schedulers",
        [number(Queue), Online]), "There is more to do than the schedulers can do.")];
why(_, _) ->
    [].

unused(#{unblocked := Used, online := Online}) when Used < Online -> "blocked";
unused(_) -> "offline".

offline(#{unblocked := Used, online := Online}) when Used < Online ->
    "Some process has called erlang:system_flag(multi_scheduling, block).";
offline(_) ->
    "The flag +S or erlang:system_flag(schedulers_online, N) took them offline.".

finding(#{queue := Queue, longest := Longest, online := Online, looks := Looks} = Figures, Title,
    Why) ->
    #{span_us := Us} = Figures,
    #{
        kind => run_queue,
        severity => warning,
        size => Queue,
        title => Title,
        sentences => [
            Why,
            io_lib:format("In the median second ~ts processes are ready, ~ts of them for one of "
                "the "
                "~b schedulers online.", [number(Queue), number(Longest), Online]),
            io_lib:format("Seen in ~b looks in ~ts, one a second.",
                [Looks, flame_prof_doctor_rule:seconds(Us)])
        ],
        command => "flame_prof top --node NODE --by running",
        processes => [],
        numbers => Figures
    }.
