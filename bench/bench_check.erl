%% The few ratios of which CI keeps a history, measured in a minute or two, and judged
%% by bench_history. `record' appends them to it, unless one has got worse.
%%
%% Where one looks worse it is measured again: it is worse only when it is so each time.
%% What this machine cannot tell is said, and counted in the entry, and no failure; nor is
%% what could not be measured here, unless nothing could.
-module(bench_check).

-export([main/1]).

-define(HISTORY, "doc/benchmarks/history").
-define(FOLDER, "_build/bench/check").

%% All in all; a ratio of which there are fewer pairs by then is not told.
-define(BUDGET_MS, 150000).
-define(FEWEST_PAIRS, 6).

-define(PAIRS, 40).
-define(COST_PAIRS, 12).
-define(COST_MS, 250).
-define(SETTLE_MS, 150).
-define(READER_PAIRS, 12).
-define(READ_SAMPLES, 20000).
-define(NOISE_PAIRS, 20).

main([What]) ->
    _ = logger:set_primary_config(level, emergency),
    _ = process_flag(priority, high),
    erlang:system_flag(backtrace_depth, 255),
    {ok, History} = bench_history:load(?HISTORY),
    case flame_prof_calibration:ensure() of
        {ok, _} ->
            check(What, History);
        {error, Reason} ->
            io:format("NOT TOLD  there is no native engine here: ~ts~n",
                [flame_prof_calibration:format_error(Reason)]),
            halt(0)
    end.

check(What, History) ->
    Until = erlang:monotonic_time(millisecond) + ?BUDGET_MS,
    Entry = entry(Until),
    io:format("  ~ts; by itself the machine is off by a factor of ~.3f~n",
        [maps:get(machine, Entry), maps:get(noise, Entry)]),
    Told = [{Name, told(Name, Measure, Entry, History)} || {Name, Measure} <- ratios(Until)],
    Untold = [Name || {Name, {_, {{not_told, _}, _}}} <- Told],
    Ratios = maps:from_list([{Name, Ratio} || {Name, {#{} = Ratio, _}} <- Told]),
    ended(What, Entry#{ratios => Ratios, not_told => Untold},
        [Name || {Name, {_, {worse, _}}} <- Told]).

ended(_, #{ratios := Ratios}, _) when map_size(Ratios) =:= 0 ->
    io:format("FAIL  not one of the ratios could be measured~n"),
    halt(1);
ended(_, _, [_ | _] = Worse) ->
    io:format("FAIL  got worse by more than the noise, each time: ~ts (see ~s)~n",
        [names(Worse), ?HISTORY]),
    halt(1);
ended(What, #{not_told := Untold} = Entry, []) ->
    _ = [io:format("NOT TOLD  on this machine, at this time: ~ts~n", [names(Untold)])
        || Untold =/= []],
    _ = [recorded(bench_history:append(?HISTORY, Entry)) || What =:= record],
    halt(0).

recorded(ok) -> io:format("Added to ~s~n", [?HISTORY]);
recorded({error, Why}) -> io:format("NOT ADDED to ~s: ~ts~n", [?HISTORY, file:format_error(Why)]).

names(Names) -> lists:join(", ", [atom_to_list(Name) || Name <- Names]).

told(Name, Measure, Entry, History) ->
    Told = bench_history:told(
        Measure,
        fun(Ratio) -> bench_history:judge({Name, Ratio}, Entry, History) end,
        fun(Ratio, Verdict) -> tell(Name, Ratio, Verdict) end
    ),
    _ = [io:format("  ~-34s could not be measured: ~0tP~n", [Name, Why, 30])
         || {_, {{not_told, {not_measured, Why}}, none}} <- [Told]],
    Told.

tell(Name, #{value := Value, interval := {Low, High}, better := Better}, Verdict) ->
    io:format("  ~-34s ~8.4f (~.4f to ~.4f), ~s is better: ~s~n",
        [Name, Value * 1.0, Low * 1.0, High * 1.0, Better, text(Verdict)]).

text({good, Limit}) -> io_lib:format("good, the limit is ~.4f", [Limit]);
text({worse, Limit}) -> io_lib:format("WORSE than the limit of ~.4f", [Limit]);
text({{not_told, noisy}, Limit}) -> io_lib:format("not told, the limit of ~.4f is within the noise",
    [Limit]);
text({{not_told, {few, N}}, none}) -> io_lib:format("not told, the history has ~b of this OTP",
    [N]).

entry(Until) ->
    #{otp := Otp} = bench_results:machine(),
    #{
        date => list_to_binary(calendar:system_time_to_rfc3339(os:system_time(second),
            [{offset, "Z"}])),
        commit => list_to_binary(os:getenv("COMMIT", "unknown")),
        otp => Otp,
        machine => machine(),
        noise => noise(Until)
    }.

%% Two of the same name may be of different generations; and of the time of a sample much
%% is the kernel's.
machine() ->
    #{processor := Processor, schedulers := Schedulers} = bench_results:machine(),
    {ok, Text} = file:read_file("/proc/cpuinfo"),
    Figure = fun(Key) ->
        case re:run(Text, ["(?m)^", Key, "\\s*: (\\S+)"], [{capture, all_but_first, list}]) of
            {match, [Found]} -> Found;
            nomatch -> "?"
        end
    end,
    {_, Name} = os:type(),
    Kernel = case os:version() of
        {Major, Minor, _} -> io_lib:format("~b.~b", [Major, Minor]);
        Other -> Other
    end,
    unicode:characters_to_binary(io_lib:format("~ts, family ~s, model ~s, ~b schedulers, ~s ~s", [
        Processor, Figure("cpu family"), Figure("model"), Schedulers, Name, Kernel
    ])).

%% Nothing against nothing: by which factor the same thing seems to differ from itself.
noise(Until) ->
    #{interval := {Low, High}} = compared(Until, ?NOISE_PAIRS, fun reference_ns/0,
        fun reference_ns/0),
    max(1.0, max(High, 1 / Low)).

ratios(Until) ->
    [
        {work_per_cpu_second_with_native, fun() ->
            (work(Until))#{better => higher, margin => 0.02, anywhere => true}
        end},
        {portable_sample_per_native_sample, fun() ->
            Ratio = compared(Until, ?COST_PAIRS, fun() -> cost(portable) end,
                fun() -> cost(native) end),
            Ratio#{better => higher, margin => 0.25}
        end},
        {native_sample_per_reference, fun() ->
            Ratio = compared(Until, ?COST_PAIRS, fun() -> cost(native) end, fun reference_ns/0),
            Ratio#{better => lower, margin => 0.5}
        end},
        {reader_per_zstd, fun() ->
            File = written(),
            Ratio = compared(Until, ?READER_PAIRS, fun() -> reader_ns(File) end,
                fun() -> zstd_ns(File) end),
            ok = file:del_dir_r(?FOLDER),
            Ratio#{better => lower, margin => 0.25}
        end}
    ].

compared(Until, Count, A, B) ->
    case [X / Y || {X, Y} <- bench_stats:pairs_until(Until, Count, A, B)] of
        Ratios when length(Ratios) >= ?FEWEST_PAIRS ->
            #{value => bench_stats:median(Ratios), interval => bench_stats:interval(Ratios)};
        Few ->
            error({out_of_time, length(Few)})
    end.

%%% ---------------------------------------------------------------- with, without --

%% Work of a program that only computes for each CPU second of its schedulers, top 100 at
%% 99 Hz over without.
work(Until) ->
    Workload = bench_workloads:start(cpu),
    Schedulers = bench_threads:schedulers(),
    timer:sleep(300),
    Window = fun(Tool) -> window(Tool, Workload, Schedulers) end,
    Ratio = compared(Until, ?PAIRS, fun() -> Window({native, 10, 100}) end,
        fun() -> Window(off) end),
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

%% A file of a program's work, 1000 ticks a second.
written() ->
    Workload = bench_workloads:start(messages),
    {ok, _} = flame_prof:start(#{
        dir => filename:absname(?FOLDER), engine => native, sample_interval => 1,
            cpu_budget => infinity
    }),
    ok = until_written(?READ_SAMPLES),
    {ok, #{files := [File]}} = flame_prof:stop(),
    bench_workloads:stop(Workload),
    File.

until_written(Count) ->
    case flame_prof:info() of
        #{counters := #{written := Written}} when Written >= Count -> ok;
        #{state := running} -> timer:sleep(20), until_written(Count)
    end.

reader_ns(File) ->
    {_, Cpu0} = bench_threads:cpu_ns([]),
    {ok, _} = flame_prof_profile:read(File),
    {_, Cpu1} = bench_threads:cpu_ns([]),
    max(1, Cpu1 - Cpu0).

%% User and system time of `zstd -d', in ms.
zstd_ns(File) ->
    Said = os:cmd("LC_ALL=C bash -c 'TIMEFORMAT=\"%3U %3S\"; time zstd -dcq \"$1\" >/dev/null' zstd '" ++
                  unicode:characters_to_list(File) ++ "'"),
    {ok, [User, System], _} = io_lib:fread("~f ~f", Said),
    1.0e9 * max(0.001, User + System).
