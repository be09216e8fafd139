%% @private Processes that wait for each other: for ever, or until a time-out ends it.
%%
%% == False alarms ==
%% None are known: an edge is a call's own reference on the stack of the one who waits, seen twice,
%% and only the next process of the cycle can end it (doc/waits.md). Cycles that an answer may end
%% are no finding. One that a look has verified is, also if it has ended since: most calls have a
%% time-out of five seconds.
-module(flame_prof_doctor_deadlock).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, unseen/2]).

-import(flame_prof_doctor_rule, [name/1, number/1, seconds/1]).
-import(flame_prof_doctor_waits, [process/2, short/1]).

-define(NAMES_MOST, 4).

kind() -> deadlock.

needs() -> [waits].

thresholds() -> [].

find(#{waits := #{deadlocks := Deadlocks} = Look} = Evidence, _Limits) ->
    Ended = [Of#{look => Look#{processes := Then}}
        || #{processes := Then} = Of <- maps:get(ended, Look, [])],
    %% Those that have exited are started again, with the same names.
    Were = maps:groups_from_list(fun names_of/1, Ended),
    Are = [Of#{look => Look} || Of <- Deadlocks],
    [told(Of, maps:get(names_of(Of), Were, []), Evidence) || Of <- Are] ++
        [ended(Some, Evidence) || Some <- maps:values(maps:without(lists:map(fun names_of/1, Are),
            Were))].

unseen(#{waits := #{unchecked := Count}}, _) when Count > 0 ->
    <<"there was no time to check ", (integer_to_binary(Count))/binary, " cycles of waits">>;
unseen(#{waits := Look}, _) -> flame_prof_doctor_rule:portable(Look).

names_of(Of) -> lists:sort([short(Process) || Process <- ring(Of)]).

ring(#{edges := Edges, look := Look}) ->
    [process(From, Look) || #{from := From} <- Edges].

lasted_ms(#{edges := Edges}) -> lists:min([maps:get(since_ms, Edge, 0) || Edge <- Edges]).

told(#{all := Others} = Of, Before, #{waits := #{looks := Looks}, span_us := Us} = Evidence) ->
    Ms = lasted_ms(Of),
    finding(Of, Evidence, #{
        severity => critical,
        title => " wait for each other",
        sentences => [
            [steps(" waits for ", Of), "."],
            ["They have waited for ", seconds(1000 * Ms), " at least",
                [[", and did so ", times(length(Before)), " before in ", seconds(Us)]
                    || Before =/= []], "."],
            others(Others, " more process waits for them.", " more processes wait for them."),
            ["Seen in ", number(Looks), " looks: only a time-out or an exit ends these calls."]
        ],
        numbers => #{waiting => Others, since_ms => Ms, times => length(Before)}
    }).

ended(Some, #{span_us := Us, waits := #{looks := Looks}} = Evidence) ->
    Ms = lists:max([lasted_ms(Of) || Of <- Some]),
    Others = lists:max([All || #{all := All} <- Some]),
    [#{exited := Exited, look := Then} = Last | _] = Some,
    finding(Last, Evidence, #{
        severity => case Some of [_] -> warning; _ -> critical end,
        title => " waited for each other",
        sentences => [
            [steps(" waited for ", Last), "."],
            ["They did so ", times(length(Some)), " in ", seconds(Us), ", for ",
                seconds(1000 * Ms), " at least, seen in ", number(Looks), " looks."],
            others(Others, " more process waited for them.", " more processes waited for them."),
            case [short(process(Pid, Then)) || Pid <- Exited] of
                [] -> "It ended and none of them exited: a call timed out.";
                Names -> ["It ended when ", lists:join(" and ", Names), " exited: a call that "
                    "times out exits its caller."]
            end
        ],
        numbers => #{waiting => Others, since_ms => Ms, times => length(Some),
            exited => length(Exited)}
    }).

times(1) -> "once";
times(N) -> [number(N), " times"].

others(0, _, _) -> "No other process is behind them.";
others(1, One, _) -> ["1", One];
others(N, _, Many) -> [number(N), Many].

finding(#{edges := Edges, look := Look} = Of, #{waits := #{looks := Looks}, span_us := Us}, More) ->
    #{title := Title, numbers := #{waiting := Others} = Numbers} = More,
    [First | _] = Ring = ring(Of),
    Function = flame_prof_doctor_does:at_look(maps:get(from, hd(Edges)), Look),
    Finding = More#{
        kind => kind(),
        size => length(Ring) + Others,
        title := [names(Ring), Title],
        command => ["flame_prof waits NODE ", flame_prof_doctor_waits:target(First)],
        processes => Ring,
        numbers := Numbers#{processes => length(Ring), looks => Looks, span_us => Us}
    },
    maps:merge(Finding, maps:from_list([{function, Function} || Function =/= <<>>])).

names(Ring) when length(Ring) > ?NAMES_MOST ->
    [lists:join(", ", [name(P) || P <- lists:sublist(Ring, ?NAMES_MOST)]), " and ",
        number(length(Ring) - ?NAMES_MOST), " more"];
names([One]) ->
    name(One);
names(Ring) ->
    [lists:join(", ", [name(P) || P <- lists:droplast(Ring)]), " and ", name(lists:last(Ring))].

steps(Waits, #{edges := Edges, look := Look}) ->
    lists:join("; ", [
        [short(process(From, Look)), Waits, short(process(To, Look)),
            flame_prof_doctor_waits:request(Tag), in(From, Look)]
     || #{from := From, to := To, tag := Tag} <- lists:sublist(Edges, ?NAMES_MOST)]).

in(Pid, Look) ->
    case flame_prof_doctor_does:at_look(Pid, Look) of <<>> -> ""; F -> [", in ", F] end.
