%% @private Code that is loaded, or looked for, all the time.
%%
%% == False alarms ==
%% A node that starts in interactive mode loads for a second or two: the code server, the loader of
%% files and the purger together work for `share' of the whole time only where it goes on. All
%% calls of functions that are not loaded wait for one process meanwhile. Less than `least_us' says
%% nothing. What a start loads replaces nothing: where old code is purged, and one waits for that,
%% `replaced' is enough.
-module(flame_prof_doctor_code_loading).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, unseen/2]).

-import(flame_prof_doctor_rule, [number/1, share/1]).

-define(PURGERS, [<<"erts_code_purger:start/0">>, <<"erts_code_purger">>]).
-define(LOADERS, [<<"code_server">>, <<"erl_prim_loader">> | ?PURGERS]).
-define(ASKS, [<<"code_server:call/*">>, <<"erl_prim_loader:request/*">>,
    <<"erts_code_purger:*">>, <<"code_server:*">>]).

kind() -> code_loading.

needs() -> [samples].

thresholds() ->
    [
        {share, 0.2, <<"share of the time in which code is loaded">>},
        {replaced, 0.01,
            <<"share of the time in which old code is purged and a process waits for the code "
                "server">>},
        {least_us, 5000000, <<"microseconds of samples">>},
        {asks, 0.05, <<"share of the time from which a waiting process is named">>}
    ].

find(#{samples := #{processes := Processes} = Samples} = Evidence, Limits) ->
    #{share := Share, asks := Asks} = Limits,
    Loaders = [P || #{name := Name} = P <- Processes, lists:member(Name, ?LOADERS)],
    Ticks = flame_prof_doctor_calls:ticks(Samples),
    Busy = busy(Loaders),
    Purges = busy([P || #{name := Name} = P <- Loaders, lists:member(Name, ?PURGERS)]),
    Callers = callers(Processes -- Loaders, Samples, Asks),
    IsReplaced = Purges >= maps:get(replaced, Limits) * Ticks andalso Callers =/= [],
    IsLong = maps:get(span_us, Samples) >= maps:get(least_us, Limits),
    case IsLong andalso (Busy >= Share * Ticks orelse IsReplaced) of
        true when Callers =/= [] -> finding(Callers, Busy, Ticks, Samples);
        true ->
            Seconds = maps:get(seconds, Evidence, []),
            case flame_prof_doctor_growth:settled(Seconds) of
                Seconds -> finding([], Busy, Ticks, Samples);
                _ -> {unseen, <<"modules of flame_prof were still being loaded: repeat the look">>}
            end;
        false -> []
    end.

unseen(Evidence, #{least_us := Us}) -> flame_prof_doctor_rule:short(Us, Evidence).

busy(Processes) ->
    lists:sum([All - Waits || #{observations := All, waiting := Waits} <- Processes]).

%% Those who wait for it, the most first, with what they wait in.
callers(Processes, #{stacks := Stacks}, Asks) ->
    Statuses = [<<"waiting">>, <<"running">>, <<"runnable">>, <<"suspended">>],
    Waits = [
        {flame_prof_doctor_stacks:weight(Asking), P, Asking}
     || #{pid := Pid} = P <- Processes,
        Asking <- [flame_prof_doctor_stacks:anywhere(Stacks(Pid, Statuses), ?ASKS)]
    ],
    [{P, Asking} || {W, #{observations := All} = P, Asking} <-
        lists:reverse(lists:keysort(1, Waits)), W > Asks * All].

finding(Callers, Busy, Ticks, #{span_us := Us}) ->
    Part = min(1.0, Busy / Ticks),
    {Title, Function} = case Callers of
        [] ->
            {"code is loaded all the time", <<>>};
        [{First, Asking} | _] ->
            {[flame_prof_doctor_rule:name(First), " loads code, or looks for it, all the time"],
                flame_prof_doctor_stacks:function(Asking)}
    end,
    Finding = #{
        kind => kind(),
        severity => warning,
        size => Part,
        title => Title,
        sentences => [
            ["The code server and its helpers are at work for ", share(Part), " of ",
                flame_prof_doctor_rule:seconds(Us), "."]
        ] ++ [waiting(length(Callers), Function) || Function =/= <<>>]
          ++ [["Seen in ", number(Busy), " samples of them."]],
        command => "flame_prof pstack --node NODE code_server",
        processes => [flame_prof_doctor_samples:process(P)
            || {P, _} <- lists:sublist(Callers, 20)],
        numbers => #{share => Part, callers => length(Callers), samples => Busy, span_us => Us},
        view => #{measure => samples, show => all, levels => [process, status], view => flame}
    },
    [maps:merge(Finding, maps:from_list([{function, Function} || Function =/= <<>>]))].

waiting(1, Function) -> ["1 process waits for them, in ", Function, "."];
waiting(N, Function) ->
    [number(N), " processes wait for them; the first one is in ", Function, "."].
