%% @private Processes that wait for each other for ever.
%%
%% == False alarms ==
%% None are known: an edge is a call's own reference on the stack of the one who waits, seen twice,
%% and only the next process of the cycle can end it (doc/waits.md). Cycles that may end are no
%% finding.
-module(flame_prof_doctor_deadlock).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, unseen/2]).

-import(flame_prof_doctor_rule, [name/1, number/1, seconds/1]).

-define(NAMES_MOST, 4).

kind() -> deadlock.

needs() -> [waits].

thresholds() -> [].

find(#{waits := #{deadlocks := Deadlocks} = Look}, _Limits) ->
    [told(Deadlock, Look) || Deadlock <- Deadlocks].

unseen(#{waits := Look}, _) -> flame_prof_doctor_rule:portable(Look).

told(#{edges := Edges, all := Others}, #{looks := Looks} = Look) ->
    Ring = [flame_prof_doctor_waits:process(From, Look) || #{from := From} <- Edges],
    [First | _] = Ring,
    Ms = lists:min([maps:get(since_ms, Edge, 0) || Edge <- Edges]),
    Function = flame_prof_doctor_does:at_look(maps:get(from, hd(Edges)), Look),
    Finding = #{
        kind => kind(),
        severity => critical,
        size => length(Ring) + Others,
        title => [names(Ring), " wait for each other for ever"],
        sentences => [
            [lists:join("; ", [step(E, Look) || E <- lists:sublist(Edges, ?NAMES_MOST)]), "."],
            ["They have waited for ", seconds(1000 * Ms), " at least."],
            case Others of
                0 -> "No other process waits for them.";
                1 -> "1 more process waits for them.";
                _ -> [number(Others), " more processes wait for them."]
            end,
            ["Seen in ", number(Looks), " looks: no other process can end these calls."]
        ],
        command => ["flame_prof waits NODE ", flame_prof_doctor_waits:target(First)],
        processes => Ring,
        numbers => #{processes => length(Ring), waiting => Others, since_ms => Ms, looks => Looks}
    },
    maps:merge(Finding, maps:from_list([{function, Function} || Function =/= <<>>])).

names(Ring) when length(Ring) > ?NAMES_MOST ->
    [lists:join(", ", [name(P) || P <- lists:sublist(Ring, ?NAMES_MOST)]), " and ",
        number(length(Ring) - ?NAMES_MOST), " more"];
names([One]) ->
    name(One);
names(Ring) ->
    [lists:join(", ", [name(P) || P <- lists:droplast(Ring)]), " and ", name(lists:last(Ring))].

step(#{from := From, to := To, tag := Tag}, Look) ->
    [short(From, Look), " waits for ", short(To, Look), flame_prof_doctor_waits:request(Tag),
        in(From, Look)].

in(Pid, Look) ->
    case flame_prof_doctor_does:at_look(Pid, Look) of
        <<>> -> "";
        Function -> [", in ", Function]
    end.

short(Pid, Look) ->
    case flame_prof_doctor_waits:process(Pid, Look) of
        #{name := <<>>, pid := Text} -> Text;
        #{name := Name} -> Name
    end.
