%% @private A long chain of calls: each process waits for the next one, and all have the speed of
%% the last one, which often sleeps.
%%
%% == False alarms ==
%% A request that goes through several servers is a chain for as long as it lasts. It is a finding
%% where many wait behind it all the time, or where the same calls have lasted for a second; calls
%% that have just begun again, too, where each process of the chain is sampled in its call for
%% `always' of the time and one behind them has waited for a second. A last process that has no work
%% is a server that answers later, and those who wait for it have all that they ask for.
-module(flame_prof_doctor_chain).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, explained_by/0, unseen/2]).

-import(flame_prof_doctor_rule, [name/1, number/1, seconds/1]).

kind() -> chain.

needs() -> [waits].

explained_by() -> [deadlock, bottleneck, file_io, busy_port].

thresholds() ->
    [
        {calls, 3, <<"calls from the first process of a chain to the last one">>},
        {waiting, 6, <<"processes that wait behind a chain all the time">>},
        {long_ms, 1000, <<"milliseconds: calls that have lasted as long are a finding alone">>},
        {critical_ms, 5000, <<"milliseconds: critical">>},
        {always, 0.8, <<"of the time each process waits for the next one: they need not last">>}
    ].

find(#{waits := #{roots := Roots} = Look} = Evidence, #{calls := Calls} = Limits) ->
    [
        told(Root, Path, Look, Evidence, Limits)
     || #{process := Last} = Root <- Roots, is_pid(Last),
        #{path := Path} = Fan <- [flame_prof_doctor_waits:fan(Root)],
        length(Path) + 1 >= Calls,
        is_map_key(waits, Root) orelse flame_prof_doctor_waits:is_at_work(Last, Look),
        lasts(Fan, Look, Evidence, Limits)
    ].

unseen(#{waits := Look}, _) -> flame_prof_doctor_rule:portable(Look).

%% The first of the path is the call of the process that most wait for.
lasts(#{process := Pid, direct := Direct, path := Path}, Look, Evidence, Limits) ->
    #{waiting := Least, long_ms := LongMs} = Limits,
    (Direct >= Least andalso flame_prof_doctor_waits:lasting(Pid, Least, Evidence)) orelse
        flame_prof_doctor_waits:longest(Pid, Look) >= LongMs andalso
            lists:all(fun(Edge) -> maps:get(since_ms, Edge, 0) >= LongMs orelse
                is_always(Edge, Evidence, Limits) end, Path).

is_always(#{from := From, to := To}, Evidence, #{always := Share}) when is_pid(From), is_pid(To) ->
    case flame_prof_doctor_waits:sampled(From, Evidence) of
        #{waits_for := Waits, observations := All} ->
            Pid = flame_prof_doctor_waits:text(To),
            proplists:get_value(Pid, Waits, 0) >= Share * max(1, All);
        none ->
            false
    end;
is_always(_, _, _) ->
    false.

told(#{process := Last, all := All} = Root, Path, Look, Evidence, Limits) ->
    {#{looks := Looks}, #{span_us := Us}} = {Look, Evidence},
    Process = flame_prof_doctor_waits:process(Last, Look),
    {Function, _} = flame_prof_doctor_does:function(Last, Evidence, Look),
    Ms = lists:max([maps:get(since_ms, Edge, 0) || Edge <- Path]),
    Between = [flame_prof_doctor_waits:process(From, Look) || #{from := From} <- Path],
    Finding = #{
        kind => kind(),
        severity => case Ms >= maps:get(critical_ms, Limits) of true -> critical; _ -> warning end,
        size => All,
        title => [name(Process), " is the end of a chain of calls, ", number(All),
            " processes wait for it"],
        sentences => [
            ["The chain is ", lists:join(", ", [name(P) || P <- Between ++ [Process]]),
                ": each waits for the next one."],
            [name(Process), " ", does(Root, Last, Look), in(Function), "."],
            case Ms of
                0 -> "The calls are short, but each one is behind others.";
                _ -> ["The same calls last for ", seconds(1000 * Ms), " or more."]
            end,
            ["Seen in ", number(Looks), " looks in ", seconds(Us), "."]
        ],
        command => ["flame_prof waits NODE ", flame_prof_doctor_waits:target(Process)],
        processes => [Process | lists:reverse(Between)],
        numbers => #{waiting => All, calls => length(Path) + 1, longest_ms => Ms,
            looks => Looks, span_us => Us}
    },
    maps:merge(Finding, maps:from_list([{function, Function} || Function =/= <<>>])).

does(#{waits := #{how := timer}}, _, _) -> "sleeps";
does(#{waits := #{how := How}}, _, _) -> ["waits for a ", atom_to_list(How)];
does(#{}, Last, #{processes := Told}) ->
    case Told of
        #{Last := #{status := waiting}} -> "waits for a message";
        #{} -> "works"
    end.

in(<<>>) -> "";
in(Function) -> [" in ", Function].
