%% @private Processes that wait for tasks of Elixir, which take long.
%%
%% == False alarms ==
%% Who starts tasks waits for them, as often as requests come. Each process that counts has run
%% nothing for a second: its task takes as long.
-module(flame_prof_doctor_unanswered_tasks).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [number/1, seconds/1]).

-define(AWAIT, [<<"Elixir.Task:await/*">>, <<"Elixir.Task:await_many/*">>,
    <<"Elixir.Task:yield/*">>, <<"Elixir.Task:yield_many/*">>,
    <<"Elixir.Task.Supervised:stream_reduce/*">>]).
-define(TASK, [<<"Elixir.Task.Supervised:invoke_mfa/*">>, <<"Elixir.Task.Supervised:reply/*">>]).
-define(NAMED_MOST, 20).

kind() -> unanswered.

needs() -> [standing].

thresholds() ->
    [
        {tasks_waiting, 8, <<"processes that wait for tasks and have not run: a warning">>},
        {tasks_few, 3, <<"the same: a note">>},
        {tasks_ms, 1000, <<"milliseconds for which each of them has not run">>}
    ].

find(Evidence, #{tasks_few := Few, tasks_ms := Ms} = Limits) ->
    case flame_prof_doctor_places:standing(?AWAIT, Ms, Evidence) of
        Waiting when length(Waiting) >= Few ->
            [finding(Waiting, tasks(Evidence, Ms), Evidence, Limits)];
        _ ->
            []
    end.

%% Those that have not run either, by the function that most of them are in.
tasks(Evidence, Ms) ->
    By = maps:groups_from_list(fun(Task) -> flame_prof_doctor_places:function([Task]) end,
        flame_prof_doctor_places:standing(?TASK, Ms, Evidence)),
    case lists:reverse(lists:sort([{length(Of), F, Of} || {F, Of} <- maps:to_list(By),
        F =/= <<>>])) of
        [{_, Function, Tasks} | _] -> {Function, Tasks};
        [] -> none
    end.

finding(Waiting, Tasks, #{span_us := Us}, #{tasks_waiting := Many}) ->
    Waiters = [Process || #{process := Process} <- Waiting],
    Caller = flame_prof_doctor_places:function(Waiting),
    Ms = lists:min([Since || #{since_ms := Since} <- Waiting]),
    {Sentence, Function, Numbers} = does(Tasks, Caller),
    Finding = #{
        kind => kind(),
        severity => case length(Waiting) >= Many of true -> warning; false -> note end,
        size => length(Waiting),
        title => [number(length(Waiting)), " processes wait for tasks"],
        sentences => [
            ["They wait in Task", [[", in ", Caller] || Caller =/= <<>>],
                ", and none of them has run for ", seconds(1000 * Ms), " or more."],
            Sentence,
            ["Seen in readings of their reductions in ", seconds(Us), "."]
        ],
        command => ["flame_prof pstack --node NODE '", maps:get(pid, hd(Waiters)), "'"],
        processes => lists:sublist([P || {_, Of} <- [Tasks], #{process := P} <- Of] ++ Waiters,
            ?NAMED_MOST),
        waiters => lists:sublist(Waiters, ?NAMED_MOST),
        numbers => Numbers#{waiting => length(Waiting), still_ms => Ms, span_us => Us}
    },
    maps:merge(Finding, maps:from_list([{function, Function} || Function =/= <<>>])).

does(none, Caller) ->
    {"What the tasks do is not known: they run, or there are none any more.", Caller, #{}};
does({Function, Tasks}, _) ->
    Ms = lists:min([Since || #{since_ms := Since} <- Tasks]),
    {[flame_prof_doctor_rule:count(length(Tasks), "task"), " wait in ", Function,
        ", where nothing has moved for ", seconds(1000 * Ms), " or more."],
        Function, #{tasks => length(Tasks), tasks_ms => Ms}}.
