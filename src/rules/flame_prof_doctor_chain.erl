%% @private A long chain of calls: each process waits for the next one, and all have the speed of
%% the last one, which often sleeps.
%%
%% == False alarms ==
%% A request that goes through several servers is a chain for as long as it lasts. It is a finding
%% where many wait behind it all the time, or where the same calls have lasted for a second; calls
%% that have just begun again, too, where each process of the chain is sampled in its call for
%% `always' of the time and one behind them has waited for a second. A last process that has no work
%% is a server that answers later, and those who wait for it have all that they ask for. One that is
%% over at the last look is a finding if `waiting' processes were behind it: a single request that
%% took seconds is none.
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
        {long_ms, 1000, <<"milliseconds: calls of this length are a finding by themselves">>},
        {critical_ms, 5000, <<"milliseconds from which it is critical">>},
        {always, 0.8,
            <<"share of the time in which each process waits for the next one: such calls may be short">>}
    ].

find(Evidence, Limits) ->
    flame_prof_doctor_lasting:in_each(fun(When, Of) -> found(When, Of, Limits) end, Evidence).

found(When, #{waits := #{roots := Roots} = Look} = Evidence, #{calls := Calls} = Limits) ->
    [
        finding(When, Root, Path, Evidence, Limits)
     || #{process := Last} = Root <- Roots, is_pid(Last),
        #{path := Path} = Fan <- [flame_prof_doctor_waits:fan(Root)],
        length(Path) + 1 >= Calls,
        is_map_key(waits, Root) orelse flame_prof_doctor_waits:is_at_work(Last, Look),
        lasts(When, Root, Fan, Evidence, Limits)
    ].

unseen(#{waits := Look}, _) -> flame_prof_doctor_rule:portable(Look).

%% The first of the path is the call of the process that most wait for.
lasts(past, #{all := All}, #{path := Path}, _, #{waiting := Least}) ->
    All >= Least andalso lists:all(fun flame_prof_doctor_lasting:has_lasted/1, Path);
lasts(now, _, #{process := Pid, direct := Direct, path := Path}, Evidence, Limits) ->
    #{waiting := Least, long_ms := LongMs} = Limits,
    #{waits := Look} = Evidence,
    (Direct >= Least andalso flame_prof_doctor_lasting:lasting(Pid, Least, Evidence)) orelse
        flame_prof_doctor_lasting:longest(Pid, Look) >= LongMs andalso
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

finding(When, #{process := Last, all := All} = Root, Path, Evidence, Limits) ->
    #{waits := #{looks := Looks} = Look, span_us := Us} = Evidence,
    Process = flame_prof_doctor_waits:process(Last, Look),
    {Function, _} = flame_prof_doctor_does:function_of(When, Last, [], Evidence),
    Ms = lists:max([maps:get(since_ms, Edge, 0) || Edge <- Path]),
    Between = [flame_prof_doctor_waits:process(From, Look) || #{from := From} <- Path],
    Finding = #{
        kind => kind(),
        severity => case Ms >= maps:get(critical_ms, Limits) of true -> critical; _ -> warning end,
        size => All,
        title => [name(Process), verb(When, " is", " was"), " the end of a chain of calls, ",
            number(All), " processes ", verb(When, "wait", "waited"), " for it"],
        sentences => [
            ["The chain ", verb(When, "is ", "was "),
                lists:join(", ", [name(P) || P <- Between ++ [Process]]), ": each ",
                verb(When, "waits", "waited"), " for the next one."],
            [name(Process), " ", does(When, Root, Last, Look), in(Function), "."],
            case Ms of
                0 -> "The calls are short, but each one is behind others.";
                _ -> ["The same calls ", verb(When, "last", "lasted"), " for ", seconds(1000 * Ms),
                    " or more", verb(When, "", ", and were over before the last look"), "."]
            end,
            ["Seen in ", flame_prof_doctor_lasting:looks(When, Looks), " in ", seconds(Us), "."]
        ],
        command => ["flame_prof waits NODE ", flame_prof_doctor_waits:target(Process)],
        processes => [Process | lists:reverse(Between)],
        numbers => #{waiting => All, calls => length(Path) + 1, longest_ms => Ms,
            looks => Looks, span_us => Us}
    },
    maps:merge(Finding, maps:from_list([{function, Function} || Function =/= <<>>])).

verb(now, Is, _) -> Is;
verb(past, _, Was) -> Was.

does(When, #{waits := #{how := timer}}, _, _) -> verb(When, "sleeps", "slept");
does(When, #{waits := #{how := How}}, _, _) ->
    [verb(When, "waits", "waited"), " for a ", atom_to_list(How)];
does(When, #{}, Last, #{processes := Told}) ->
    case Told of
        #{Last := #{status := waiting}} -> [verb(When, "waits", "waited"), " for a message"];
        #{} -> verb(When, "works", "worked")
    end.

in(<<>>) -> "";
in(Function) -> [" in ", Function].
