%% The benchmarks' own arithmetic: a figure that nobody can check is to be worth something.
-module(bench_history_tests).

-include_lib("eunit/include/eunit.hrl").

-define(MODULES, [bench_stats, bench_latency, bench_results, bench_requests, bench_history]).

bench_history_test_() ->
    {setup, fun load/0, fun unload/1, [
        {"a ratio that got worse by more than noise and spread is refused, in either direction",
            fun worse/0},
        {"one that is worse within the noise, or better, is not", fun as_good/0},
        {"a history whose entries differ more allows more", fun spread/0},
        {"a tenth worse, with narrow intervals, is refused", fun a_tenth/0},
        {"a machine that differs from itself by more is allowed as much", fun noisy_machine/0},
        {"on another machine what differs between machines is refused only when it is far off",
            fun elsewhere/0},
        {"what is the same on all machines is judged on any", fun anywhere/0},
        {"with fewer than three entries of the same OTP nothing is told", fun few/0},
        {"only the last twenty entries count", fun last_twenty/0},
        {"what is worse is so three times, each measured anew", fun worse_each_time/0},
        {"what is good once is good, and kept is the surest", fun good_once/0},
        {"what cannot be measured is not told, and what was measured before is kept",
            fun not_measured/0},
        {"of regressions of a tenth all are found, of noise of a third nothing is refused",
            {timeout, 3000, fun drawn/0}},
        {"what is appended is read again, and no file is no history", fun kept/0},
        {"latencies' quantiles are those of all windows together", fun quantiles/0},
        {"twice the latency is a ratio of two, and none is within the noise of one",
            fun latency_ratio/0},
        {"one bad window in many is noise", fun one_bad_window/0},
        {"`not above' is met when the interval reaches the bar", fun bars/0},
        {"requests that were due in a stall have its latency, sent or not",
            {timeout, 600, fun stall/0}}]}.

load() ->
    Bench = checkout:path("bench"),
    lists:foreach(fun(Module) ->
        {ok, Module, Beam} = compile:file(filename:join(Bench, Module), [binary, report]),
        {module, Module} = code:load_binary(Module, "bench", Beam)
    end, ?MODULES).

unload(_) ->
    [begin code:delete(M), code:purge(M) end || M <- ?MODULES].

worse() ->
    Overhead = [entry(higher, V, 0.01) || V <- [0.995, 0.998, 1.0]],
    ?assertMatch({worse, _}, judged(entry(higher, 0.90, 0.01), Overhead)),
    Cost = [entry(lower, V, 1) || V <- [10, 11, 12]],
    ?assertMatch({worse, _}, judged(entry(lower, 20, 1), Cost)).

as_good() ->
    Cost = [entry(lower, V, 1) || V <- [10, 11, 12]],
    [?assertMatch({good, _}, judged(entry(lower, V, Noise), Cost))
        || {V, Noise} <- [{11, 1}, {3, 1}, {14, 1}]],
    %% Beyond the limit, but nobody can be sure.
    [?assertMatch({{not_told, noisy}, _}, judged(entry(lower, V, Noise), Cost))
     || {V, Noise} <- [{20, 10}, {40, 15}, {15, 1}]],
    Overhead = [entry(higher, V, 0.01) || V <- [0.995, 0.998, 1.0]],
    [?assertMatch({good, _}, judged(entry(higher, V, Noise), Overhead))
        || {V, Noise} <- [{0.99, 0.01}, {1.5, 0.01}]],
    ?assertMatch({{not_told, noisy}, _}, judged(entry(higher, 0.7, 0.4), Overhead)).

spread() ->
    New = entry(lower, 20, 1),
    ?assertMatch({worse, _}, judged(New, [entry(lower, V, 1) || V <- [10, 11, 12]])),
    ?assertMatch({good, _}, judged(New, [entry(lower, V, 1) || V <- [10, 11, 18]])).

a_tenth() ->
    Cost = [entry(lower, V, 0.05) || V <- [10.0, 10.05, 10.1]],
    ?assertMatch({worse, _}, judged(entry(lower, 11.0, 0.05), Cost)),
    Speed = [entry(higher, V, 0.05) || V <- [10.0, 10.05, 10.1]],
    ?assertMatch({worse, _}, judged(entry(higher, 9.0, 0.05), Speed)).

noisy_machine() ->
    Cost = [entry(lower, V, 0.05) || V <- [10.0, 10.05, 10.1]],
    New = entry(lower, 12.0, 0.05),
    ?assertMatch({worse, _}, judged(New, Cost)),
    ?assertMatch({worse, _}, judged(New#{noise => 1.1}, Cost)),
    ?assertMatch({good, _}, judged(New#{noise => 1.2}, Cost)),
    Speed = [entry(higher, V, 0.05) || V <- [10.0, 10.05, 10.1]],
    ?assertMatch({good, _}, judged((entry(higher, 8.5, 0.05))#{noise => 1.2}, Speed)).

elsewhere() ->
    Cost = [(entry(lower, V, 0.05))#{machine => <<"y">>} || V <- [10.0, 10.05, 10.1]],
    ?assertMatch({good, _}, judged(entry(lower, 20.0, 0.05), Cost)),
    ?assertMatch({worse, _}, judged(entry(lower, 40.0, 0.05), Cost)),
    %% As soon as the history knows this machine, by this machine alone.
    Here = [entry(lower, V, 0.05) || V <- [5.0, 5.05, 5.1]],
    ?assertMatch({worse, _}, judged(entry(lower, 10.0, 0.05), Cost ++ Here)).

anywhere() ->
    Overhead = [(entry(higher, V, 0.01))#{machine => <<"y">>} || V <- [0.995, 0.998, 1.0]],
    New = #{ratios := #{x := Ratio}} = entry(higher, 0.90, 0.01),
    ?assertMatch({good, _}, judged(New, Overhead)),
    ?assertMatch({worse, _}, judged(New#{ratios := #{x => Ratio#{anywhere => true}}}, Overhead)).

few() ->
    Bad = entry(lower, 1000, 1),
    Two = [entry(lower, 10, 1), entry(lower, 11, 1)],
    ?assertEqual({{not_told, {few, 0}}, none}, judged(Bad, [])),
    ?assertEqual({{not_told, {few, 2}}, none}, judged(Bad, Two)),
    ?assertEqual({{not_told, {few, 2}}, none},
        judged(Bad, Two ++ [E#{otp := <<"99">>} || E <- Two])).

worse_each_time() ->
    {_, {worse, _}} = told([20.0, 21.0, 22.0]),
    ?assertEqual(no_more, get(values)).

good_once() ->
    {Kept, {good, _}} = told([20.0, 10.0, never]),
    ?assertEqual([never], get(values)),
    %% Of its value, its interval is the smaller share.
    ?assertMatch(#{value := V} when V =:= 20.0, Kept),
    ?assertMatch({_, {good, _}}, told([20.0, 20.0, 10.0])),
    ?assertMatch({_, {good, _}}, told([10.0])).

not_measured() ->
    ?assertMatch({none, {{not_told, {not_measured, {{badmatch, 7}, _}}}, none}}, told([broken])),
    ?assertMatch({#{value := 20.0}, {{not_told, {not_measured, _}}, none}}, told([20.0, broken])).

%% Each of these as the next one measured, with an interval of 0.05 to each side.
told(Values) ->
    put(values, Values),
    bench_history:told(fun measure/0, fun judge_cost/1, fun(_, _) -> ok end).

measure() ->
    [Value | Values] = get(values),
    put(values, case Values of [] -> no_more; _ -> Values end),
    case Value of
        broken -> 6 = binary_to_term(term_to_binary(7));
        _ -> maps:get(x, maps:get(ratios, entry(lower, Value, 0.05)))
    end.

judge_cost(Ratio) ->
    Cost = [entry(lower, V, 0.05) || V <- [10.0, 10.05, 10.1]],
    bench_history:judge({x, Ratio}, entry(lower, 0, 0), Cost).

%% Measured as the benchmarks do it: medians of pairs and what resampling says of them.
drawn() ->
    _ = rand:seed(exsss, {1, 2, 3}),
    Quiet = fun(Value) -> measured(Value, 0.01, 0.0) end,
    History = [with(Quiet(10.0)) || _ <- lists:seq(1, 5)],
    Judge = fun(Ratio) -> bench_history:judge({x, Ratio}, with(Ratio), History) end,
    Verdict = fun(Measure) -> element(1, element(2,
        bench_history:told(Measure, Judge, fun(_, _) -> ok end))) end,
    ?assertEqual([worse], lists:usort([Verdict(fun() -> Quiet(11.0) end)
        || _ <- lists:seq(1, 20)])),
    ?assertEqual([good], lists:usort([Verdict(fun() -> Quiet(10.0) end) || _ <- lists:seq(1, 20)])),
    %% Each pair is off by some third; a quarter of them by ten times.
    Noisy = [Verdict(fun() -> measured(10.0, 0.33, 0.25) end) || _ <- lists:seq(1, 60)],
    ?assertNot(lists:member(worse, Noisy)).

measured(Value, Noise, Bad) ->
    Pairs = [Value * (1 + Noise * rand:normal()) * case rand:uniform() < Bad of true -> 10; false ->
        1 end || _ <- lists:seq(1, 40)],
    #{value => bench_stats:median(Pairs), interval => bench_stats:interval(Pairs), better => lower,
        margin => 0.02}.

with(Ratio) -> (entry(lower, 0, 0))#{ratios := #{x => Ratio}}.

last_twenty() ->
    Old = [entry(lower, 1000, 1) || _ <- lists:seq(1, 5)],
    New = [entry(lower, 10, 1) || _ <- lists:seq(1, 20)],
    ?assertMatch({worse, _}, judged(entry(lower, 100, 1), Old ++ New)).

kept() ->
    File = filename:join(filename:dirname(code:which(?MODULE)), "history." ++ os:getpid()),
    ?assertEqual({ok, []}, bench_history:load(File)),
    Entries = [entry(lower, 10, 1), entry(higher, 0.99, 0.01)],
    try
        [ok = bench_history:append(File, Entry) || Entry <- Entries],
        ?assertEqual({ok, Entries}, bench_history:load(File))
    after file:delete(File)
    end.

judged(#{ratios := #{x := Ratio}} = Entry, History) ->
    bench_history:judge({x, Ratio}, Entry, History).

entry(Better, Value, Noise) ->
    Ratio = #{value => Value, interval => {Value - Noise, Value + Noise}, better => Better,
        margin => 0.02},
    #{date => <<"2026-11-21T00:00:00Z">>,
        commit => <<"0123456">>, otp => <<"25">>, machine => <<"x">>, ratios => #{x => Ratio}}.

quantiles() ->
    Windows = [[rand:uniform(1000) || _ <- lists:seq(1, rand:uniform(50))]
        || _ <- lists:seq(1, 20)],
    [?assertEqual(bench_stats:quantile(Q, lists:append(Windows)),
        bench_latency:quantile(Q, Windows)) || Q <- [0.5, 0.9, 0.99, 0.999, 1.0]].

latency_ratio() ->
    Windows = [{[2 * L || L <- Ls], Ls} || _ <- lists:seq(1, 30), Ls <- [lists:seq(1000, 1100)]],
    [begin
         #{value := Value, interval := {Low, High}} = bench_latency:ratio(Q, Windows),
         ?assert(abs(Value - 2) < 0.01),
         ?assert(Low > 1.9 andalso High < 2.1)
     end || Q <- [0.5, 0.99]].

one_bad_window() ->
    Quiet = {lists:seq(1000, 1100), lists:seq(1000, 1100)},
    Stalled = {lists:duplicate(101, 50000), lists:seq(1000, 1100)},
    #{interval := {Low, High}} = bench_latency:ratio(0.99, [Stalled | lists:duplicate(30, Quiet)]),
    ?assert(Low =< 1.0),
    ?assert(High > 10).

bars() ->
    Row = fun(Bar, Value, Interval) ->
        bench_results:meets_bar(#{section => x, name => <<"x">>, unit => <<>>, bar => Bar,
                                  value => Value, interval => Interval})
    end,
    ?assert(Row({not_above, 1.0}, 1.3, {0.9, 2.0})),
    ?assertNot(Row({not_above, 1.0}, 1.3, {1.1, 2.0})),
    ?assert(Row({at_least, 0.99}, 0.99, {0.9, 1.0})),
    ?assertNot(Row({at_most, 1.5}, 1.6, {1.4, 1.7})).

%% The servers answer nothing until they are told to: a client that waited for answers
%% would have no more than one latency for each of them.
stall() ->
    Gate = spawn_link(fun() -> receive open -> gate() end end),
    From = erlang:monotonic_time(),
    Client = bench_requests:start_link(fun(_) -> Gate ! {self(), pass}, receive pass -> ok end end),
    await_requests(Client, From, 40),
    Gate ! open,
    [begin unlink(P), exit(P, kill) end || P <- [Gate | bench_requests:processes(Client)]].

gate() ->
    receive {Pid, pass} -> Pid ! pass end,
    gate().

await_requests(Client, From, Least) ->
    To = erlang:monotonic_time(),
    Latencies = bench_requests:latencies(Client, From, To),
    case length(Latencies) >= Least of
        true ->
            %% Each is as old as it is, none as young as the last.
            Age = erlang:convert_time_unit(To - From, native, nanosecond),
            ?assert(lists:max(Latencies) > lists:min(Latencies)),
            ?assert(lists:max(Latencies) =< Age);
        false ->
            timer:sleep(10),
            await_requests(Client, From, Least)
    end.
