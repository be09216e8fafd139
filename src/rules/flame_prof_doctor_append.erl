%% @private Lists that grow at their ends: `Acc ++ [X]' copies all of `Acc' each time.
%%
%% == False alarms ==
%% Appending to short lists is cheap: a process that does it a thousand times among other work is in
%% `++' for a few percent of its time. Only where it takes `share' of the time on a CPU, and `cpus'
%% CPUs together, the lists are long or it is done for nothing else. Collections in `++' count: it
%% makes the garbage. A list that is whole is collected in the function that appended: such
%% collections count where `makes' of the rest of the time is in `++'. One process that does it
%% among many others has less than `node' of all.
-module(flame_prof_doctor_append).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-define(SEEN, 20).
-define(APPENDS, [<<"erlang:++/2">>, <<"erlang:append/2">>, <<"lists:append/2">>]).

kind() -> append.

needs() -> [samples].

thresholds() ->
    [
        {share, 0.4, <<"share of its time on a CPU in ++">>},
        {makes, 0.6, <<"share of its time on a CPU in ++, collections left out">>},
        {cpus, 0.1, <<"CPUs together">>},
        {node, 0.25, <<"share of the CPU time of all processes">>}
    ].

find(#{samples := Samples}, Limits) ->
    Match = fun(Stacks) -> appends(Stacks, Limits) end,
    case flame_prof_doctor_calls:heavy(Samples, Match, Limits) of
        none ->
            [];
        #{processes := [{_, First} | _]} = Heavy ->
            [flame_prof_doctor_calls:finding(kind(), Heavy, "appending to lists", #{
                sentences => ["++ copies the list on its left each time: "
                    "a list that grows by it takes quadratic time."],
                command => ["flame_prof pstack --node NODE ",
                    flame_prof_doctor_samples:target(First)]
            })]
    end.

appends(Stacks, #{makes := Makes}) ->
    {Collections, Work} = lists:partition(fun is_collection/1, Stacks),
    Appends = flame_prof_doctor_stacks:at_leaf(Work, ?APPENDS),
    Weight = flame_prof_doctor_stacks:weight(Appends),
    case Weight >= ?SEEN andalso Weight >= Makes * flame_prof_doctor_stacks:weight(Work) of
        true -> Appends ++ Collections;
        false -> flame_prof_doctor_stacks:at_leaf(Stacks, ?APPENDS)
    end.

is_collection({[{<<"[gc]">>, _} | _], _}) -> true;
is_collection({[{_, native} | Frames], Weight}) -> is_collection({Frames, Weight});
is_collection(_) -> false.
