%% @private Persistent terms that are replaced all the time: the VM looks at the heap of every
%% process before it frees the old one.
%%
%% == False alarms ==
%% A node that puts its settings at its start does it for less than a second of ten: the process of
%% the VM that frees old terms works for `share' of the time only where terms are replaced all the
%% time; where their number was the same in each second, nothing is being set up, and
%% `share_replaced' is enough. Code that is purged keeps it at work, too: then the VM's purger works
%% as well, and it is a finding of another kind. Of what was purged before the look, as by the
%% doctor before, nobody is seen in a put.
-module(flame_prof_doctor_persistent_term).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [number/1, share/1]).

-define(COLLECTOR, <<"erts_literal_area_collector:start/0">>).
-define(PURGER, <<"erts_code_purger:start/0">>).
-define(PUTS, [<<"persistent_term:put/2">>, <<"persistent_term:erase/1">>]).
%% Of the VM: suspended for reasons of their own.
-define(SYSTEM, [?COLLECTOR, ?PURGER, <<"code_server">>, <<"erts_code_purger">>]).

kind() -> persistent_term.

needs() -> [samples].

thresholds() ->
    [
        {share, 0.04, <<"share of the time in which the VM frees old terms">>},
        {share_replaced, 0.02, <<"the same, if the number of terms does not change">>},
        {purged, 3,
            <<"times the time in which the VM purges old code, which is then not the cause">>},
        {putter, 0.01, <<"share of the time in a put from which a process is named">>}
    ].

find(#{samples := #{mode := processes, processes := Processes} = Samples} = Evidence, Limits) ->
    #{purged := Times} = Limits,
    Share = least(Evidence, Limits),
    {Freed, All} = busy(Processes, [?COLLECTOR]),
    {Purged, _} = busy(Processes, [?PURGER, <<"erts_code_purger">>]),
    case Freed >= Share * All andalso Freed > Times * Purged andalso putters(Processes, Samples) of
        [_ | _] = Putters -> [finding(putter(Putters, Samples, Limits), Freed / All, All, Samples)];
        _ -> []
    end;
find(_, _) ->
    [].

least(#{seconds := Seconds}, #{share_replaced := Replaced, share := Share}) ->
    case lists:usort([N || #{node_persistent_terms := N} <- Seconds]) of
        [_] when length(Seconds) > 1 -> Replaced;
        _ -> Share
    end;
least(_, #{share := Share}) ->
    Share.

busy(Processes, Names) ->
    Own = [P || #{name := Name} = P <- Processes, lists:member(Name, Names)],
    {lists:sum([All - Waits || #{observations := All, waiting := Waits} <- Own]),
        lists:max([1 | [All || #{observations := All} <- Own]])}.

%% A put suspends its process until all schedulers know, and then its stack does not have the put:
%% it was seen in one at another time, else it was suspended for anything. The one with the most
%% first.
putters(Processes, #{stacks := Stacks}) ->
    lists:reverse(lists:keysort(1, [
        {Weight, P}
     || #{other := Other, pid := Pid, name := Name} = P <- Processes,
        not lists:member(Name, ?SYSTEM),
        Puts <- [flame_prof_doctor_stacks:anywhere(Stacks(Pid, statuses()), ?PUTS)], Puts =/= [],
        Weight <- [max(Other, flame_prof_doctor_stacks:weight(Puts))], Weight > 0
    ])).

putter([{Weight, #{observations := All, pid := Pid} = P} | Others], #{stacks := Stacks},
    #{putter := Least}) when Weight > Least * All; Others =:= [] ->
    {P, flame_prof_doctor_stacks:function(Stacks(Pid, [<<"suspended">>, <<"running">>]))};
putter(_, _, _) ->
    none.

statuses() -> [<<"running">>, <<"runnable">>, <<"waiting">>, <<"suspended">>].

finding(Putter, Part, All, #{span_us := Us}) ->
    {Who, Processes, Function} = case Putter of
        {P, F} -> {[flame_prof_doctor_rule:name(P), " replaces"],
            [flame_prof_doctor_samples:process(P)], F};
        none -> {"The node replaces", [], <<>>}
    end,
    Finding = #{
        kind => kind(),
        severity => warning,
        size => Part,
        title => [Who, " persistent terms all the time"],
        sentences => [
            ["For ", share(Part), " of ", flame_prof_doctor_rule:seconds(Us), " the VM looks for "
                "old "
                "terms in the heaps of all processes."],
            "Each put or erase of another value makes the VM scan the heaps of all processes.",
            ["Seen in ", number(All), " samples."]
        ],
        command => "flame_prof trace NODE 'persistent_term:put/2' --rate 5",
        processes => Processes,
        numbers => #{share => Part, observations => All, span_us => Us},
        view => #{measure => samples, show => busy, levels => [process, status], view => flame}
    },
    case Function of
        <<>> -> Finding;
        _ -> Finding#{function => Function}
    end.
