%% @private Many processes wait for answers of a server that is idle: it has put their requests
%% aside, as a pool does that has nothing left to give out.
%%
%% == False alarms ==
%% A queue of jobs answers when there is a job, and those who wait for one have nothing to do. What
%% tells them apart is the request, and who waits: requests that ask for work or for news are none;
%% those that ask for a connection or a lock are one; any other one is where those who wait have
%% work themselves, that is messages, a request that they serve or processes that wait for them.
%% Who has waited for less than `long_ms' is not counted: a pool is empty for moments.
-module(flame_prof_doctor_unanswered).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, explained_by/0, unseen/2]).

-import(flame_prof_doctor_rule, [name/1, number/1, seconds/1]).

-define(NAMED_MOST, 20).

kind() -> unanswered.

needs() -> [waits].

explained_by() -> [deadlock, bottleneck, chain, busy_port].

thresholds() ->
    [
        {waiting, 8, <<"processes that wait for one idle server: a warning">>},
        {few, 3, <<"the same: a note">>},
        {long_ms, 2000, <<"milliseconds: least wait of each of them">>}
    ].

unseen(#{waits := Look}, _) -> flame_prof_doctor_rule:portable(Look).

%% Whose time-outs end together wait anew at the last look: an earlier one may have seen them.
find(#{waits := Last} = Evidence, Limits) ->
    Known = maps:with([monitored, looks], Last),
    flame_prof_doctor_lasting:in_each(fun(_, #{waits := Look} = Of) ->
        found(Of#{waits := maps:merge(Look, Known)}, Limits) end, Evidence).

found(#{waits := #{roots := Roots} = Look} = Evidence, #{few := Least} = Limits) ->
    [
        finding(Pid, Waiting, Long, Evidence, Limits)
     || #{process := Pid} = Root <- Roots, is_pid(Pid), not is_map_key(waits, Root),
        is_idle(Pid, Look),
        Long <- [long(Pid, Look, Limits)],
        Waiting <- [waiting(asked(Pid, tag(Long), Look), Long, Evidence)], Waiting >= Least
    ].

asked(Pid, Tag, #{processes := Told}) ->
    flame_prof_doctor_requests:asks_for(maps:get(Pid, Told), Tag).

is_idle(Pid, #{processes := Told}) ->
    case Told of
        #{Pid := #{serves := _}} -> false;
        #{Pid := #{status := waiting, message_queue_len := 0}} -> true;
        #{} -> false
    end.

long(Pid, #{edges := Edges}, #{long_ms := Ms}) ->
    [Edge || #{to := To, since_ms := For} = Edge <- Edges, To =:= Pid, For >= Ms].

%% Most of them have that one.
tag(Edges) ->
    Counts = lists:foldl(fun(#{tag := Tag}, Map) ->
        maps:update_with(Tag, fun(N) -> N + 1 end, 1, Map) end, #{}, Edges),
    case lists:reverse(lists:keysort(2, maps:to_list(Counts))) of
        [{Tag, _} | _] -> Tag;
        [] -> unknown
    end.

%% How many of these wait in vain.
waiting(work, _, _) -> 0;
waiting(given_out, Edges, _) -> length(Edges);
waiting(other, Edges, Evidence) ->
    length([1 || #{from := From} <- Edges, flame_prof_doctor_requests:has_work(From, Evidence)]).

finding(Pid, Waiting, Edges, #{waits := Look, span_us := Us} = Evidence, #{waiting := Many}) ->
    #{looks := Looks} = Look,
    Process = flame_prof_doctor_waits:process(Pid, Look),
    Tag = tag(Edges),
    LongestMs = flame_prof_doctor_lasting:longest(Pid, Look),
    Waiters = [From || #{from := From} <- Edges],
    Caller = flame_prof_doctor_kept:function(Waiters, Evidence),
    {Sentence, Function, Holders, Numbers} = flame_prof_doctor_kept:holders(Pid, Waiters, Evidence),
    {_, Named} = flame_prof_doctor_does:waiters(Pid, Evidence),
    Finding = #{
        kind => kind(),
        severity => case Waiting >= Many of true -> warning; false -> note end,
        size => Waiting,
        title => [number(length(Edges)), " processes wait for answers of ", name(Process),
            ", which is idle"],
        sentences => [
            ["They have asked it", flame_prof_doctor_waits:request(Tag),
                [[", in ", Caller] || Caller =/= <<>>], ", and one has waited for ",
                seconds(1000 * LongestMs), " or more."],
            [known(Pid, Look), " has no message and no work, and keeps their requests until it has "
                "what they want."],
            Sentence,
            ["Seen in ", flame_prof_doctor_rule:count(Looks, "look"), " in ", seconds(Us), "."]
        ],
        command => ["flame_prof waits NODE ", flame_prof_doctor_waits:target(Process)],
        processes => lists:sublist([Process | Holders], ?NAMED_MOST),
        waiters => Named,
        numbers => Numbers#{waiting => length(Edges), longest_ms => LongestMs, looks => Looks,
            span_us => Us}
    },
    maps:merge(Finding, maps:from_list([{function, hd(All)}
        || [_ | _] = All <- [[F || F <- [Function, Caller], F =/= <<>>]]])).

known(Pid, #{processes := Told}) ->
    case flame_prof_doctor_requests:library(maps:get(Pid, Told)) of
        none -> "It";
        What -> ["It is ", What, "; it"]
    end.
