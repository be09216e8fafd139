%% @private A lock of `global' that many wait for.
%%
%% == False alarms ==
%% Who does not get such a lock tries again after a random time: many that wait at one look may have
%% met a moment. So `lock_waiting' of them are in that wait in the mean of all samples, too. Locks
%% that are free for most of the time have nobody there.
-module(flame_prof_doctor_bottleneck_locks).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [name/1, number/1]).

-define(NAMED_MOST, 20).

kind() -> bottleneck.

needs() -> [waits, samples].

thresholds() ->
    [{lock_waiting, 8, <<"processes that wait for one lock of global, all the time">>}].

find(#{waits := Last, samples := Samples} = Evidence, Limits) ->
    #{lock_waiting := Least} = Limits,
    %% Of each lock the look at which most waited for it.
    Seen = maps:groups_from_list(fun({_, Tag, _, _}) -> Tag end,
        [{length(Some), Tag, Some, Look} || Look <- [Last | maps:get(earlier, Last, [])],
            {Tag, Some} <- locks(Look)]),
    [
        finding(Tag, Some, Mean, Evidence#{waits := Look})
     || Of <- maps:values(Seen), {Most, Tag, Some, Look} <- [lists:last(lists:keysort(1, Of))],
        Most >= Least, Mean <- [waiting(Some, Samples)], Mean >= Least
    ].

locks(#{edges := Edges}) ->
    maps:to_list(maps:groups_from_list(fun(#{tag := Tag}) -> Tag end,
        [Edge || #{how := lock} = Edge <- Edges])).

%% How many of those who wait are sampled in that wait at a time.
waiting(Edges, #{processes := Processes, stacks := Stacks}) ->
    Sites = maps:from_list([{flame_prof_doctor_waits:text(From), flame_prof_doctor_rule:text(Site)}
        || #{from := From, site := Site} <- Edges]),
    lists:sum([
        flame_prof_doctor_stacks:weight(flame_prof_doctor_stacks:anywhere(
            Stacks(Pid, [<<"waiting">>]), [maps:get(Pid, Sites)])) / max(1, All)
     || #{pid := Pid, observations := All} <- Processes, is_map_key(Pid, Sites)
    ]).

finding(Tag, Edges, Mean, #{waits := #{looks := Looks} = Look, span_us := Us}) ->
    Holders = lists:usort([To || #{to := To} <- Edges, is_pid(To)]),
    Waiters = [From || #{from := From} <- Edges],
    Named = [flame_prof_doctor_waits:process(P, Look) || P <- Holders ++ Waiters],
    Function = hd([F || P <- Holders, F <- [flame_prof_doctor_does:at_look(P, Look)],
        F =/= <<>>] ++ [<<>>]),
    Finding = #{
        kind => kind(),
        severity => warning,
        size => Mean,
        title => [number(length(Edges)), " processes wait for the global lock",
            [[" ", flame_prof_waits_text:tag(Tag)] || is_tuple(Tag)]],
        sentences => [S || S <- [
            ["All the time ", number(Mean), " of them are in global:trans or global:set_lock and "
                "try again after random times."],
            [[name(hd(Named)), " had it at the look at which most waited", in(Function), "."]
                || Holders =/= []],
            ["Seen in ", flame_prof_doctor_rule:count(Looks, "look"), " and in samples in ",
                flame_prof_doctor_rule:seconds(Us), "."]
        ], S =/= []],
        command => ["flame_prof waits NODE ", flame_prof_doctor_waits:target(hd(Named))],
        processes => lists:sublist(Named, ?NAMED_MOST),
        numbers => #{waiting => length(Edges), mean => Mean, looks => Looks, span_us => Us}
    },
    maps:merge(Finding, maps:from_list([{function, Function} || Function =/= <<>>])).

in(<<>>) -> "";
in(Function) -> [", in ", Function].
