%% What a profiler costs the program that it looks at: ours beside its peers.
%%
%% Each tool is compared with nothing, in pairs of neighbouring windows (bench_stats).
%% The session of a window begins and ends while the workers are suspended, so neither
%% its start nor its end is in the measured time; the requests go on. Of each window
%% are kept the units of work, the CPU time of the schedulers and that of the whole VM,
%% and the latency of each request.
%%
%% From the environment: WORKLOADS and VARIANTS (words, all without), PAIRS for top 100
%% at 99 Hz, PEER_PAIRS for all others, WINDOW_MS.
-module(bench_overhead).

-export([main/1]).

%% For bench_rabbitmq.
-export([compare/3, settings/0]).

-export_type([subject/0, settings/0]).

%% What is measured. `call' applies a function of bench_peers in its VM.
-type subject() :: #{
    name := atom(),
    work := fun(() -> integer()),
    cpu_ns := fun(() -> {Schedulers :: integer(), All :: integer()}),
    requests := bench_requests:client() | pid(),
    call := fun((atom(), [term()]) -> term()),
    pause := fun(() -> ok),
    resume := fun(() -> ok),
    processes := [pid()]
}.
-type settings() :: #{pairs := pos_integer(), peer_pairs := pos_integer(),
    window_ms := pos_integer(),
                      variants := [bench_peers:name()], workloads := [bench_workloads:name()]}.

-define(RESULTS, "_build/bench/results").
-define(BARRED, {native, 10, 100}).
%% Ours is to have seen the stacks that there are and to have chosen once, as it has in
%% all of a session but its begin.
-define(SETTLE_MS, 50).
-define(OWN_SETTLE_MS, 150).
%% A tool gets so long for each of its pairs, and a grace for what starts slowly.
-define(PAIR_LIMIT_MS, 2000).
-define(GRACE_MS, 20000).
%% Fewer say nothing.
-define(FEWEST_PAIRS, 5).

%% `with_perf': this VM writes a map for perf, and only perf is measured in it.
main([Which]) ->
    _ = logger:set_primary_config(level, emergency),
    erlang:system_flag(backtrace_depth, 255),
    #{workloads := Workloads, variants := Variants} = Settings = settings(),
    Wanted = [V || V <- Variants, is_for(Which, V)],
    {ok, _} = flame_prof_calibration:ensure(),
    heading(Which, Settings),
    _ = [workload(Name, Settings#{variants := Wanted}) || Name <- Workloads, Wanted =/= []],
    halt(0).

is_for(with_perf, Variant) -> is_tuple(Variant) andalso element(1, Variant) =:= perf;
is_for(all_else, Variant) -> not is_for(with_perf, Variant).

heading(with_perf, _) ->
    io:format("~nThe same in a VM that writes perf's map (+JPperf true)~n");
heading(all_else, #{window_ms := Ms}) ->
    io:format(
        "~nOverhead on the profiled program, OTP ~s, ~b schedulers, saturated; pairs of windows of ~b ms:~n"
        "work with the tool over work without, for each CPU second of the schedulers (95 % interval), of~n"
        "the whole VM, and for each second; the same of the latencies of requests; samples or events a second~n",
        [erlang:system_info(otp_release), erlang:system_info(schedulers_online), Ms]
    ).

-spec settings() -> settings().
settings() ->
    #{
        pairs => number("PAIRS", 100),
        peer_pairs => number("PEER_PAIRS", 10),
        window_ms => number("WINDOW_MS", 100),
        workloads => chosen("WORKLOADS", [{atom_to_list(N), N} || N <- bench_workloads:names()]),
        variants => chosen("VARIANTS", [{bench_peers:word(N), N} || N <- bench_peers:names()])
    }.

number(Variable, Default) ->
    Text = os:getenv(Variable, integer_to_list(Default)),
    case string:to_integer(Text) of
        {N, ""} when N > 0 -> N;
        _ -> refuse("~s is a whole number above 0, not ~ts", [Variable, Text])
    end.

chosen(Variable, All) ->
    Words = string:lexemes(os:getenv(Variable, string:join([W || {W, _} <- All], " ")), " "),
    case [W || W <- Words, not lists:keymember(W, 1, All)] of
        [] -> [Name || {Word, Name} <- All, lists:member(Word, Words)];
        [Word | _] -> refuse("~s: there is no ~ts; there are ~s",
            [Variable, Word, string:join([W || {W, _} <- All], " ")])
    end.

refuse(Format, Args) ->
    io:format(standard_error, "bench: " ++ Format ++ "~n", Args),
    halt(2).

workload(Name, Settings) ->
    io:format("~n~s~n", [Name]),
    Workload = bench_workloads:start(Name),
    Threads = bench_threads:schedulers(),
    Workers = bench_workloads:workers(Workload),
    timer:sleep(500),
    compare(#{
        name => Name,
        work => fun() -> bench_workloads:work(Workload) end,
        cpu_ns => fun() -> bench_threads:cpu_ns(Threads) end,
        requests => bench_workloads:requests(Workload),
        call => fun(Function, Args) -> apply(bench_peers, Function, Args) end,
        pause => fun() -> lists:foreach(fun(P) -> true =
            erlang:suspend_process(P, [asynchronous]) end, Workers) end,
        resume => fun() -> lists:foreach(fun(P) -> true = erlang:resume_process(P) end,
            Workers) end,
        processes => bench_workloads:processes(Workload)
    }, Settings, fun available/1),
    bench_workloads:stop(Workload).

available(Variant) -> bench_peers:available(Variant).

%% All tools on one subject, each printed and kept.
-spec compare(subject(), settings(), fun((bench_peers:name()) -> ok | {no, binary()})) -> ok.
compare(Subject, #{variants := Variants} = Settings, Available) ->
    lists:foreach(
        fun(Variant) ->
            case Available(Variant) of
                ok -> keep(one(Subject, Variant, Settings));
                {no, Why} -> told(Variant, Why)
            end
        end,
        Variants
    ).

told(Variant, Why) -> io:format("  ~-36ts ~ts~n", [bench_peers:title(Variant), Why]).

keep(Results) -> bench_results:append(?RESULTS, Results).

%% In a process of its own, so that nothing that a tool does can keep us.
one(#{name := Name} = Subject, Variant, Settings) ->
    Begin = erlang:monotonic_time(millisecond),
    Limit = Begin + ?GRACE_MS + ?PAIR_LIMIT_MS * pairs(Variant, Settings),
    Parent = self(),
    {Pid, Monitor} = spawn_opt(
        fun() -> Parent ! {self(), measure(Subject, Variant, Settings, Limit)} end,
        [monitor, {priority, high}]
    ),
    receive
        {Pid, {Pairs, Counted}} when length(Pairs) >= ?FEWEST_PAIRS ->
            demonitor(Monitor, [flush]),
            results(Name, Variant, Pairs, Counted);
        {Pid, {Pairs, _}} ->
            demonitor(Monitor, [flush]),
            left_out(Subject, Variant, Begin,
                io_lib:format("~b pairs of windows in its time", [length(Pairs)]));
        {'DOWN', Monitor, _, _, Reason} ->
            left_out(Subject, Variant, Begin, io_lib:format("failed: ~0tP", [Reason, 12]))
    after Limit + ?GRACE_MS - Begin ->
        exit(Pid, kill),
        receive {'DOWN', Monitor, _, _, _} -> ok end,
        left_out(Subject, Variant, Begin, "did not come back")
    end.

left_out(#{name := Name, call := Call, resume := Resume}, Variant, Begin, Why) ->
    Call(give_up, []),
    resumed(Resume),
    Note = unicode:characters_to_binary(["not measured: ", Why]),
    told(Variant, Note),
    [#{
        section => overhead_left_out,
        name => label(Name, Variant, "given"),
        workload => Name,
        tool => bench_peers:title(Variant),
        note => Note,
        value => (erlang:monotonic_time(millisecond) - Begin) / 1000,
        unit => <<"s">>
    }].

%% It may have failed before or after it suspended them.
resumed(Resume) ->
    try
        Resume()
    catch
        error:badarg -> ok
    end.

pairs(?BARRED, #{pairs := N}) -> N;
pairs(off, #{peer_pairs := N}) -> 2 * N;
%% What traces costs so much that few pairs show it.
pairs(Variant, #{peer_pairs := N}) ->
    case bench_peers:kind(Variant) of
        traces -> max(?FEWEST_PAIRS, N div 2);
        _ -> N
    end.

%%% ------------------------------------------------------------------- measuring --

measure(#{call := Call} = Subject, Variant, Settings, Limit) ->
    Prepared = Call(prepare, [Variant]),
    Window = fun(Tool) -> window(Subject, Tool, Settings#{settle_ms => settle_ms(Variant)}) end,
    Measured = bench_stats:pairs_until(
        Limit, pairs(Variant, Settings),
        fun() -> Window(Prepared) end,
        fun() -> Window({off, none}) end
    ),
    {Measured, Call(release, [Prepared])}.

settle_ms(Variant) ->
    case bench_peers:kind(Variant) of
        own -> ?OWN_SETTLE_MS;
        _ -> ?SETTLE_MS
    end.

window(#{call := Call, pause := Pause, resume := Resume, processes := Processes} = Subject,
       Prepared, #{window_ms := Ms, settle_ms := SettleMs}) ->
    Pause(),
    Session = Call(start, [Prepared, Processes]),
    Resume(),
    timer:sleep(SettleMs),
    Window = observed(Subject, Session, Ms),
    Pause(),
    ok = Call(stop, [Session]),
    Resume(),
    Window.

observed(#{work := Work, cpu_ns := Cpu, requests := Requests, call := Call}, Session, Ms) ->
    Before = {erlang:monotonic_time(), Call(counted, [Session])},
    {Time0, Work0, {Schedulers0, All0}} = {erlang:monotonic_time(), Work(), Cpu()},
    timer:sleep(Ms),
    {Time1, Work1, {Schedulers1, All1}} = {erlang:monotonic_time(), Work(), Cpu()},
    Latencies = bench_requests:latencies(Requests, Time0, Time1),
    After = {erlang:monotonic_time(), Call(counted, [Session])},
    #{
        work => Work1 - Work0,
        ns => ns(Time1 - Time0),
        schedulers_ns => Schedulers1 - Schedulers0,
        vm_ns => All1 - All0,
        latencies => Latencies,
        counted => counted(Before, After)
    }.

counted({Begin, Before}, {End, After}) ->
    Differences = maps:map(fun(Key, N) -> N - maps:get(Key, Before, 0) end, After),
    Differences#{ns => ns(End - Begin)}.

ns(Native) -> erlang:convert_time_unit(Native, native, nanosecond).

%%% --------------------------------------------------------------------- results --

results(Name, Variant, Pairs, Released) ->
    Counted = figures(Variant, [C || {#{counted := C}, _} <- Pairs], Released, Pairs),
    Throughput = [throughput(Measure, Key, Pairs) || {Measure, Key} <- [
        {work_per_scheduler_second, schedulers_ns}, {work_per_vm_second, vm_ns},
            {work_per_second, ns}
    ]],
    Latency = [latency(Measure, Share, Pairs) || {Measure, Share} <- [
        {p50, 0.5}, {p99, 0.99}, {p999, 0.999}
    ]],
    Results = [
        Result#{
            section => overhead,
            name => label(Name, Variant, Measure),
            workload => Name,
            tool => bench_peers:title(Variant)
        }
     || #{measure := Measure} = Result <- with_bars(Variant, with_counted(Counted, Throughput) ++
         Latency)
    ],
    show(Variant, Results, Counted),
    Results.

label(Name, Variant, Measure) ->
    unicode:characters_to_binary(io_lib:format("~s: ~ts: ~s",
        [Name, bench_peers:title(Variant), Measure])).

with_counted(Counted, [First | Rest]) -> [First#{counted => Counted} | Rest].

with_bars(?BARRED, Results) -> [with_bar(Result) || Result <- Results];
with_bars(_, Results) -> Results.

with_bar(#{measure := work_per_scheduler_second} = Result) -> Result#{bar => {at_least, 0.99}};
with_bar(#{measure := work_per_vm_second} = Result) -> Result#{bar => {at_least, 0.985}};
with_bar(#{measure := p99} = Result) -> Result#{bar => {not_above, 1.0}};
with_bar(Result) -> Result.

throughput(Measure, Key, Pairs) ->
    Ratios = [rate(Key, With) / rate(Key, Without) || {With, Without} <- Pairs],
    #{measure => Measure, value => bench_stats:median(Ratios),
        interval => bench_stats:interval(Ratios),
      unit => <<"ratio">>}.

%% No work at all in a window is a ratio of (nearly) 0, not a crash.
rate(Key, #{work := Work} = Window) -> max(Work, 1.0e-3) / max(1, maps:get(Key, Window)).

latency(Measure, Share, Pairs) ->
    #{value := Ratio, interval := Interval, with := With, without := Without} =
        bench_latency:ratio(Share, [{A, B} || {#{latencies := A}, #{latencies := B}} <- Pairs]),
    #{measure => Measure, value => Ratio, interval => Interval, unit => <<"ratio">>,
      counted => #{with_us => With div 1000, without_us => Without div 1000}}.

%% What was counted in the windows with the tool, by the second.
figures(Variant, Windows, Released, Pairs) ->
    Sum = fun(Key) -> lists:sum([maps:get(Key, W, 0) || W <- Windows]) end,
    Seconds = Sum(ns) / 1.0e9,
    Rates = maps:from_list([
        {Rate, round(Sum(Key) / Seconds)}
     || {Rate, Key} <- [{samples_per_second, samples}, {events_per_second, events},
                        {trace_bytes_per_second, trace_bytes}],
        Sum(Key) > 0
    ]),
    Own = maps:merge(Rates, own_figures(bench_peers:kind(Variant), Sum)),
    (maps:merge(Own, over_all(Released, Pairs)))#{pairs => length(Pairs)}.

own_figures(own, Sum) ->
    #{
        own_cpu_percent => 100 * (Sum(sampler_cpu_ns) + Sum(writer_cpu_ns)) / Sum(ns),
        signals => Sum(signals),
        handler_ns => Sum(handler_ns) div max(1, Sum(signals)),
        handler_percent => 100 * Sum(handler_ns) / Sum(ns),
        missed_percent => 100 * Sum(missed) / max(1, Sum(missed) + Sum(ticks))
    };
own_figures(_, _) ->
    #{}.

%% A tool that counts only at its end was up in the settling time as well.
over_all(#{samples := Samples}, Pairs) ->
    Seconds = lists:sum([Ns / 1.0e9 + ?SETTLE_MS / 1000 || {#{ns := Ns}, _} <- Pairs]),
    #{samples_per_second => round(Samples / Seconds)};
over_all(#{}, _) ->
    #{}.

show(Variant, Results, Counted) ->
    [Schedulers, Vm, Wall, P50, P99, P999] = Results,
    #{interval := {Low, High}} = Schedulers,
    io:format("  ~-36ts ~6.4f (~6.4f-~6.4f) ~6.4f ~6.4f  p50 ~5.2f p99 ~ts p999 ~5.2f  ~ts~n", [
        bench_peers:title(Variant), value(Schedulers), Low, High, value(Vm), value(Wall),
        value(P50), with_interval(P99), value(P999), rate_text(Counted)
    ]),
    _ = [bench_results:tell(Result) || #{bar := _} = Result <- Results],
    ok.

value(#{value := Value}) -> Value * 1.0.

with_interval(#{value := Value, interval := {Low, High}}) ->
    io_lib:format("~5.2f (~.2f-~.2f)", [Value * 1.0, Low * 1.0, High * 1.0]).

rate_text(#{samples_per_second := N}) -> [integer_to_list(N), " samples/s"];
rate_text(#{events_per_second := N}) -> [integer_to_list(N), " events/s"];
rate_text(#{trace_bytes_per_second := N}) -> [integer_to_list(N div 1000), " kB/s of trace"];
rate_text(#{}) -> "".
