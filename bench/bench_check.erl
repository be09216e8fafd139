%% The few ratios of which CI keeps a history, measured in less than a minute, and judged
%% by bench_history. `record' appends them to it, unless one has got worse.
%%
%% Where one looks worse all are measured once more: it is worse only when it is so twice.
-module(bench_check).

-export([main/1]).

-define(HISTORY, "doc/benchmarks/history").
-define(FOLDER, "_build/bench/check").

-define(PAIRS, 40).
-define(COST_PAIRS, 12).
-define(COST_MS, 250).
-define(SETTLE_MS, 150).
-define(READER_PAIRS, 12).
-define(READ_MS, 500).

main([What]) ->
    _ = logger:set_primary_config(level, emergency),
    _ = process_flag(priority, high),
    erlang:system_flag(backtrace_depth, 255),
    {ok, _} = flame_prof_calibration:ensure(),
    {ok, History} = bench_history:load(?HISTORY),
    Entry = entry(),
    case worse(told(Entry, History)) of
        [] ->
            ended(What, Entry);
        Suspects ->
            io:format("Once more, as ~s may have been the machine's bad minute~n", [names(Suspects)]),
            Second = entry(),
            Again = worse(told(Second, History)),
            ended(What, Second, [Name || Name <- Suspects, lists:member(Name, Again)])
    end.

ended(What, Entry, []) ->
    ended(What, Entry);
ended(_, _, Worse) ->
    io:format("FAIL  got worse by more than the noise, twice: ~s (see ~s)~n", [names(Worse), ?HISTORY]),
    halt(1).

ended(record, Entry) ->
    ok = bench_history:append(?HISTORY, Entry),
    io:format("Added to ~s~n", [?HISTORY]),
    halt(0);
ended(check, _) ->
    halt(0).

worse(Verdicts) -> [Name || {Name, _, {worse, _}} <- Verdicts].

names(Names) -> lists:join(", ", [atom_to_list(Name) || Name <- Names]).

told(Entry, History) ->
    Verdicts = bench_history:judge(Entry, History),
    _ = [tell(Verdict) || Verdict <- Verdicts],
    Verdicts.

tell({Name, #{value := Value, interval := {Low, High}, better := Better}, Verdict}) ->
    io:format("  ~-34s ~8.4f (~.4f to ~.4f), ~s is better: ~s~n", [Name, Value * 1.0, Low * 1.0, High * 1.0, Better, text(Verdict)]).

text({good, Limit}) -> io_lib:format("good, the limit is ~.4f", [Limit]);
text({worse, Limit}) -> io_lib:format("WORSE than the limit of ~.4f", [Limit]);
text({not_judged, N}) -> io_lib:format("not judged, the history has ~b of this OTP", [N]).

entry() ->
    #{processor := Processor, otp := Otp} = bench_results:machine(),
    #{
        date => list_to_binary(calendar:system_time_to_rfc3339(os:system_time(second), [{offset, "Z"}])),
        commit => list_to_binary(os:getenv("COMMIT", "unknown")),
        otp => Otp,
        machine => Processor,
        ratios => ratios()
    }.

ratios() ->
    File = written(),
    Portable = compared(?COST_PAIRS, fun() -> cost(portable) end, fun() -> cost(native) end),
    Reference = compared(?COST_PAIRS, fun() -> cost(native) end, fun reference_ns/0),
    Reader = compared(?READER_PAIRS, fun() -> reader_ns(File) end, fun() -> zstd_ns(File) end),
    ok = file:del_dir_r(?FOLDER),
    #{
        work_per_cpu_second_with_native => (work())#{better => higher, margin => 0.02},
        portable_sample_per_native_sample => Portable#{better => higher, margin => 0.25},
        native_sample_per_reference => Reference#{better => lower, margin => 0.5},
        reader_per_zstd => Reader#{better => lower, margin => 0.25}
    }.

compared(Count, A, B) ->
    ratio([X / Y || {X, Y} <- bench_stats:pairs(Count, A, B)]).

ratio(Ratios) ->
    #{value => bench_stats:median(Ratios), interval => bench_stats:interval(Ratios)}.

%%% ---------------------------------------------------------------- with, without --

%% Work of a program that only computes for each CPU second of its schedulers, top 100 at
%% 99 Hz over without.
work() ->
    Workload = bench_workloads:start(cpu),
    Schedulers = bench_threads:schedulers(),
    timer:sleep(300),
    Window = fun(Tool) -> window(Tool, Workload, Schedulers) end,
    Ratio = compared(?PAIRS, fun() -> Window({native, 10, 100}) end, fun() -> Window(off) end),
    bench_workloads:stop(Workload),
    Ratio.

window(Tool, Workload, Schedulers) ->
    Session = bench_peers:start(bench_peers:prepare(Tool), []),
    timer:sleep(?SETTLE_MS),
    {Work0, {Cpu0, _}} = {bench_workloads:work(Workload), bench_threads:cpu_ns(Schedulers)},
    timer:sleep(100),
    {Work1, {Cpu1, _}} = {bench_workloads:work(Workload), bench_threads:cpu_ns(Schedulers)},
    ok = bench_peers:stop(Session),
    max(1, Work1 - Work0) / max(1, Cpu1 - Cpu0).

%%% ------------------------------------------------------------------- of a sample --

%% CPU ns of a sample, of a VM that does nothing else: all that the VM takes while a
%% session is up, over what it has taken.
cost(Engine) ->
    Tool = case Engine of native -> {native, 10, 100}; portable -> portable end,
    Bystanders = [spawn_link(fun() -> wait(18) end) || _ <- lists:seq(1, 100)],
    Session = bench_peers:start(bench_peers:prepare(Tool), []),
    timer:sleep(?SETTLE_MS),
    #{samples := Samples0} = bench_peers:counted(Session),
    {_, Cpu0} = bench_threads:cpu_ns([]),
    timer:sleep(?COST_MS),
    {_, Cpu1} = bench_threads:cpu_ns([]),
    #{samples := Samples1} = bench_peers:counted(Session),
    ok = bench_peers:stop(Session),
    _ = [begin unlink(P), exit(P, kill) end || P <- Bystanders],
    max(1, Cpu1 - Cpu0) / max(1, Samples1 - Samples0).

wait(0) -> receive never -> ok end;
wait(N) -> [wait(N - 1)].

%% A fixed computation: CPU ns for the digest of 10 kB.
reference_ns() ->
    Bytes = binary:copy(<<"flame_prof">>, 1000),
    {_, Cpu0} = bench_threads:cpu_ns([]),
    _ = [erlang:md5(Bytes) || _ <- lists:seq(1, 500)],
    {_, Cpu1} = bench_threads:cpu_ns([]),
    max(1, Cpu1 - Cpu0) / 500.

%%% ----------------------------------------------------------------------- reading --

%% A file of so many ms of a program's work, 1000 ticks a second.
written() ->
    Workload = bench_workloads:start(messages),
    {ok, _} = flame_prof:start(#{
        basename => filename:absname(?FOLDER), engine => native, sample_interval => 1, cpu_budget => infinity
    }),
    timer:sleep(?READ_MS),
    {ok, #{files := [File]}} = flame_prof:stop(),
    bench_workloads:stop(Workload),
    File.

reader_ns(File) ->
    {_, Cpu0} = bench_threads:cpu_ns([]),
    {ok, _} = flame_prof_profile:read(File),
    {_, Cpu1} = bench_threads:cpu_ns([]),
    max(1, Cpu1 - Cpu0).

%% User and system time of `zstd -d', in ms.
zstd_ns(File) ->
    Said = os:cmd("bash -c 'TIMEFORMAT=\"%3U %3S\"; time zstd -dcq \"$1\" >/dev/null' zstd '" ++
                  unicode:characters_to_list(File) ++ "'"),
    {ok, [User, System], _} = io_lib:fread("~f ~f", Said),
    1.0e9 * max(0.001, User + System).
