%% @private Many processes wait for locks of mnesia.
%%
%% == False alarms ==
%% Transactions wait for each other for moments, which samples see seldom: so many are in that wait
%% in the mean of the time. One whose lock was refused tries again after a pause, and waits, too.
-module(flame_prof_doctor_unanswered_locks).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, unseen/2]).

-import(flame_prof_doctor_rule, [name/1, number/1, seconds/1]).

-define(WAITS, [<<"mnesia_locker:l_req_rec/*">>, <<"mnesia_locker:receive_wlocks/*">>,
    <<"mnesia_locker:do_sticky_lock/*">>, <<"mnesia_tm:restart/*">>]).
-define(NAMED_MOST, 20).

kind() -> unanswered.

needs() -> [samples].

thresholds() ->
    [
        {locks_waiting, 8, <<"mean number of processes that wait for locks of mnesia: a warning">>},
        {locks_few, 3, <<"the same: a note">>}
    ].

find(Evidence, #{locks_few := Few} = Limits) ->
    Found = flame_prof_doctor_places:in(?WAITS, Evidence),
    case lists:sum([Share || #{share := Share} <- Found]) of
        Mean when Mean >= Few -> [finding(Mean, Found, Evidence, Limits)];
        _ -> []
    end.

%% Pools and other servers that keep requests are judged by the waits only.
unseen(#{waits := _}, _) -> none;
unseen(_, _) -> <<"which process waits for which is not in the samples">>.

finding(Mean, Found, #{span_us := Us} = Evidence, #{locks_waiting := Many}) ->
    Waiters = [Process || #{process := Process} <- Found],
    Held = held(Evidence, Waiters),
    Function = flame_prof_doctor_places:function(Found),
    Holders = lists:uniq([Holder || #{holder := Holder} <- Held]),
    Explains = [F || #{function := F} <- Held, F =/= <<>>] ++ [Function],
    Finding = #{
        kind => kind(),
        severity => case Mean >= Many of true -> warning; false -> note end,
        size => Mean,
        title => [number(length(Found)), " processes wait for locks of mnesia"],
        sentences => [S || S <- [
            holder(Held),
            ["In the mean ", number(Mean), " of them wait for mnesia_locker or to try again",
                [[", most in ", Function] || Function =/= <<>>], "."],
            "A transaction keeps its locks until it ends: do slow work before or after it.",
            ["Seen in samples in ", seconds(Us), "."]
        ], S =/= ""],
        command => "flame_prof waits NODE --for 2s",
        processes => lists:sublist(Holders ++ Waiters, ?NAMED_MOST),
        waiters => lists:sublist(Waiters, ?NAMED_MOST),
        numbers => #{waiting => length(Found), mean => Mean, span_us => Us,
            locks => length(Held)}
    },
    maps:merge(Finding, maps:from_list([{function, F}
        || F <- lists:sublist([F || F <- Explains, F =/= <<>>], 1)])).

%% Those that both looks have, those of processes that do not wait for locks themselves first.
held(#{system := {First, #{mnesia_locks := Last}}} = Evidence, Waiters) ->
    Before = maps:get(mnesia_locks, First, []),
    Waiting = [Pid || #{pid := Pid} <- Waiters],
    All = [
        #{order => {lists:member(Pid, Waiting), not lists:member(Lock, Before)},
            holder => #{pid => Pid, name => Name}, table => Table, lock => How,
            function => function(Of, Evidence)}
     || #{process := Of, name := Name, table := Table, lock := How} = Lock <- Last,
        Pid <- [flame_prof_doctor_waits:text(Of)]
    ],
    lists:sort(fun(#{order := A}, #{order := B}) -> A =< B end, All);
held(_, _) ->
    [].

function(Pid, Evidence) -> flame_prof_doctor_kept:function([Pid], Evidence).

holder([#{holder := Holder, table := Table, lock := How, function := Function} | _]) ->
    [name(Holder), " has a ", How, " lock of the table ", Table,
        [[", and is in ", Function] || Function =/= <<>>], "."];
holder([]) ->
    "The holders of the locks are unknown.".
