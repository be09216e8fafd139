%% What sampling costs, on this machine, in this run. The native engine's CPU is
%% read from the clocks of our own threads; the portable one works on the
%% program's schedulers, so there it is the CPU of the whole VM above that of
%% the same VM left alone.
-module(bench).

-export([main/1, selection/0, capture_overhead/1, files/1]).

-define(TOP, 100).
-define(FRAMES, 20).

main([Seconds]) ->
    erlang:system_flag(backtrace_depth, 255),
    T = max(2, list_to_integer(atom_to_list(Seconds)) div 12) * 1000,
    {ok, _} = flame_prof_calibration:ensure(),
    warm_up_page_cache(),
    io:format("OTP ~s, ~w schedulers, ~w s a measurement~n~n", [
        erlang:system_info(otp_release), erlang:system_info(schedulers_online), T div 1000
    ]),
    io:format(
        "CPU ns of our threads a process-sample, to formatted bytes = sampler + formatting;~n"
        "beside it what compression and the kernel take until they are in the file, which the~nshare includes~n~n"
        "~-48s ~7s = ~5s + ~5s ~8s ~6s ~9s ~6s ~6s~n",
        ["", "ns", "smp", "fmt", "file ns", "bytes", "samples/s", "% core", "miss %"]
    ),
    Idle = with_processes(quiet, fun() -> native("native, idle node, waiting, 20 frames", 9, T) end),
    Moving = with_processes(moving, fun() ->
        native("native, 100 processes that move, 20 frames", 9, T)
    end),
    Saturated = with_processes(moving, fun() -> saturated(fun() ->
        native("native, the same with saturated schedulers", 9, T) end)
    end),
    Mix = with_demo(fun() -> native("native, demo workload (realistic mix)", 9, T) end),
    Share = with_demo(fun() -> native("native, demo workload, top 100 at 99 Hz", 10, T) end),
    io:format("~n~-48s ~10s ~12s~n", ["The portable engine", "ns/sample", "samples/s"]),
    PortableIdle = with_processes(quiet, fun() ->
        vm_cpu("idle node: CPU of the whole VM for it", T)
    end),
    with_processes(moving, fun() -> saturated(fun() ->
        elapsed("saturated schedulers: elapsed time in its ticks", T) end)
    end),
    io:format("~n"),
    bar("process-sample on a realistic mix, all in", Mix, 1500, "ns"),
    bar("top 100 at 99 Hz, share of a core", share(Share), 1.5, "%"),
    %% The same work costs no less CPU where it has to wait for it.
    io:format("portable (its CPU on an idle node) / native: ~.1f x saturated, ~.1f x idle "
              "(bar: at least 10 x)~n",
              [PortableIdle / cost(Saturated), PortableIdle / cost(Idle)]),
    _ = Moving,
    with_demo(fun() -> files(list_to_integer(atom_to_list(Seconds)) * 1000) end),
    capture_overhead(T),
    halt(0).

%%% ------------------------------------------------------------------- files --

%% What reaches the disk in so many ms of the demo's work: how large a sample is and
%% how fast the writer makes it; then, with schedulers that have no time to spare,
%% whether ticks are missed and flushes leave gaps.
files(Ms) ->
    io:format("~nFiles of ~w s, demo workload, top ~w at 100 Hz~n", [Ms div 1000, ?TOP]),
    #{written := Written, bytes := Text, files := Files, compress_cpu_ns := Compress,
      writer_cpu_ns := Writer, file_cpu_ns := File} = record(fun() -> timer:sleep(Ms) end),
    Bytes = lists:sum([filelib:file_size(F) || F <- Files]),
    [file:delete(F) || F <- Files],
    bar("bytes a sample on the disk", Bytes / Written, 25, "B"),
    io:format("~-48s ~8w MB/s (bar: at least 400)~n~-48s ~8w MB/s~n", [
        "text formatted and compressed a second of CPU", 1000 * Text div (Writer - File),
        "of that, compression alone", 1000 * Text div Compress
    ]),
    ticks(record(fun() -> saturated(fun() -> timer:sleep(Ms) end) end)).

record(Fun) ->
    {ok, _} = flame_prof:start((options(native, 10))#{flush_interval => 5000}),
    Fun(),
    {ok, Run} = flame_prof:stop(),
    Run.

ticks(#{files := Files, ticks := Ticks, missed := Missed}) ->
    {ok, Times, _} = flame_prof_reader:fold(
        fun(#{time_us := Time}, Seen) -> Seen#{Time => []} end, #{}, Files
    ),
    {ok, Own, _} = flame_prof_reader:own(Files),
    [file:delete(F) || F <- Files],
    Gaps = gaps(lists:sort(maps:keys(Times))),
    AtFlush = [Gap || {From, To, Gap} <- Gaps, #{time_us := F} <- Own, F >= From, F =< To],
    io:format("with saturated schedulers:~n"),
    bar("missed ticks", 100 * Missed / (Ticks + Missed), 0.5, "%"),
    bar("longest time between two ticks at a flush", lists:max(AtFlush) / 1000, 30, "ms"),
    io:format("~-48s ~8.2f ms~n", ["longest time between two ticks anywhere",
                                   lists:max([Gap || {_, _, Gap} <- Gaps]) / 1000]).

gaps(Times) ->
    [{From, To, To - From} || {From, To} <- lists:zip(lists:droplast(Times), tl(Times))].

%%% ---------------------------------------------------------- running stacks --

%% What the capture of running stacks costs a program that only computes: work done
%% for each second of its schedulers' CPU time, with capture over without, all else
%% the same. Machines drift by more than what is measured here, so many short
%% windows, with and without by turns in a random order, each compared with its
%% neighbour; the median of their ratios, and an interval by resampling them.
-define(WINDOW_MS, 200).

capture_overhead(T) ->
    Pairs = max(30, T div 200),
    Steal = steal(),
    %% Windows end when they should, whatever the schedulers have to do.
    _ = process_flag(priority, high),
    Measured = burning(fun(Counter) ->
        [capture_pair(Counter) || _ <- lists:seq(1, Pairs)]
    end),
    Ratios = [With / Without || {{With, _}, {Without, _}} <- Measured],
    {Low, High} = bootstrap(Ratios),
    Signals = lists:sum([N || {{_, #{signals := N}}, _} <- Measured]),
    Ns = lists:sum([N || {{_, #{handler_ns := N}}, _} <- Measured]),
    io:format(
        "~nCapture of running stacks, top 100 at 100 Hz, schedulers saturated, ~w pairs of ~w ms~n"
        "  work per CPU second, with / without: median ~.4f, 95 % interval ~.4f to ~.4f~n"
        "  ~w signals, ~w ns of handler each: ~.3f % of the schedulers' time; stolen ~.1f %~n",
        [
            Pairs, ?WINDOW_MS, median(Ratios), Low, High, Signals, Ns div max(1, Signals),
            100 * Ns / (1.0e6 * ?WINDOW_MS * Pairs * erlang:system_info(schedulers_online)),
            100 * (steal() - Steal) / max(1, 2 * Pairs * ?WINDOW_MS / 10
                                              * erlang:system_info(schedulers_online))
        ]
    ),
    io:format("~-48s ~8.4f   (bar: at least 0.99) ~s~n", [
        "work per CPU second with capture of stacks", median(Ratios),
        case median(Ratios) >= 0.99 of true -> "met"; false -> "NOT MET" end
    ]).

capture_pair(Counter) ->
    case rand:uniform(2) of
        1 ->
            With = capture_window(true, Counter),
            {With, capture_window(false, Counter)};
        2 ->
            Without = capture_window(false, Counter),
            {capture_window(true, Counter), Without}
    end.

capture_window(Capture, Counter) ->
    {ok, _} = flame_prof:start((options(native, 10))#{running_stacks => Capture}),
    timer:sleep(100),
    {Work0, Cpu0, #{books := A}} = {counters:get(Counter, 1), scheduler_cpu_ns(), flame_prof:info()},
    timer:sleep(?WINDOW_MS),
    {Work1, Cpu1, #{books := B}} = {counters:get(Counter, 1), scheduler_cpu_ns(), flame_prof:info()},
    {ok, #{files := Files}} = flame_prof:stop(),
    [file:delete(F) || F <- Files],
    {
        (Work1 - Work0) / (Cpu1 - Cpu0),
        maps:map(fun(K, V) -> V - maps:get(K, A) end, maps:with([signals, handler_ns], B))
    }.

%% Of the normal schedulers' threads, from the kernel's own clock of each.
scheduler_cpu_ns() ->
    {ok, Threads} = file:list_dir("/proc/self/task"),
    lists:sum([thread_cpu_ns("/proc/self/task/" ++ Thread) || Thread <- Threads]).

thread_cpu_ns(Thread) ->
    case file:read_file(Thread ++ "/comm") of
        {ok, Comm} ->
            case re:run(Comm, "^([0-9]+_scheduler|erts_sched_[0-9]+)", [{capture, none}]) of
                match -> on_cpu_ns(Thread);
                nomatch -> 0
            end;
        {error, _} ->
            0
    end.

%% schedstat has nanoseconds; where the kernel has none, stat has ticks of 10 ms.
on_cpu_ns(Thread) ->
    case file:read_file(Thread ++ "/schedstat") of
        {ok, Text} ->
            [Ns | _] = binary:split(Text, <<" ">>),
            binary_to_integer(Ns);
        {error, _} ->
            {ok, Stat} = file:read_file(Thread ++ "/stat"),
            [_, Rest] = binary:split(Stat, <<") ">>),
            Fields = binary:split(Rest, <<" ">>, [global]),
            10000000 * lists:sum([binary_to_integer(lists:nth(N, Fields)) || N <- [12, 13]])
    end.

%% Ticks of 10 ms that the host gave to others, of all processors.
steal() ->
    {ok, Text} = file:read_file("/proc/stat"),
    [Line | _] = binary:split(Text, <<"\n">>),
    binary_to_integer(lists:nth(9, string:lexemes(Line, " "))).

median(Values) ->
    lists:nth((length(Values) + 1) div 2, lists:sort(Values)).

bootstrap(Values) ->
    All = list_to_tuple(Values),
    N = tuple_size(All),
    Medians = lists:sort([
        median([element(rand:uniform(N), All) || _ <- lists:seq(1, N)])
     || _ <- lists:seq(1, 1000)
    ]),
    {lists:nth(25, Medians), lists:nth(976, Medians)}.

%% A virtual machine's memory that was never touched costs its host a fault for
%% each page: the first gigabyte that any program writes to a file is then
%% several times slower than all later ones. What is measured is the latter.
warm_up_page_cache() ->
    File = filename:join(["_build", "bench", "warm_up"]),
    {ok, Fd} = file:open(File, [write, raw, binary]),
    [ok = file:write(Fd, binary:copy(<<"w">>, 1 bsl 20)) || _ <- lists:seq(1, 1024)],
    ok = file:close(Fd),
    ok = file:delete(File).

bar(What, Value, Bar, Unit) when is_tuple(Value) ->
    bar(What, cost(Value), Bar, Unit);
bar(What, Value, Bar, Unit) ->
    io:format("~-48s ~8.2f ~s (bar: ~w) ~s~n",
              [What, Value * 1.0, Unit, Bar,
               case Value =< Bar of true -> "met"; false -> "NOT MET" end]).

cost({Ns, _}) -> Ns.
share({_, Share}) -> Share.

%%% ------------------------------------------------------------- native cost --

native(Name, IntervalMs, T) ->
    {ok, _} = flame_prof:start(options(native, IntervalMs)),
    %% The first selections and the first sight of every stack are not the
    %% steady state.
    timer:sleep(1500),
    #{books := A} = flame_prof:info(),
    timer:sleep(T),
    #{books := B} = flame_prof:info(),
    {ok, #{files := Files}} = flame_prof:stop(),
    [file:delete(F) || F <- Files],
    D = fun(Key) -> maps:get(Key, B) - maps:get(Key, A) end,
    Written = max(1, D(written)),
    [Sampler, Writer, Compress, File] =
        [D(K) div Written || K <- [sampler_cpu_ns, writer_cpu_ns, compress_cpu_ns, file_cpu_ns]],
    Share = (D(sampler_cpu_ns) + D(writer_cpu_ns)) / (T * 1.0e4),
    io:format("~-48s ~7w = ~5w + ~5w ~8w ~6w ~9w ~6.2f ~6.2f~n", [
        Name, Sampler + Writer - Compress - File, Sampler, Writer - Compress - File, Compress + File,
        D(bytes) div Written, Written * 1000 div T, Share,
        100 * D(missed) / max(1, D(missed) + D(ticks))
    ]),
    {Sampler + Writer - Compress - File, Share}.

options(Engine, IntervalMs) ->
    #{
        basename => filename:join(["_build", "bench", "files"]),
        engine => Engine,
        sample_interval => IntervalMs,
        cpu_budget => infinity,
        auto_select => {top, ?TOP, 1000}
    }.

%%% ------------------------------------------------------------ the portable --

%% On an idle node, all CPU of the VM above that without sampling is ours.
vm_cpu(Name, T) ->
    Without = vm_cpu_during(T),
    {ok, _} = flame_prof:start(options(portable, 9)),
    timer:sleep(1500),
    #{books := A} = flame_prof:info(),
    With = vm_cpu_during(T),
    #{books := B} = flame_prof:info(),
    {ok, #{files := Files}} = flame_prof:stop(),
    [file:delete(F) || F <- Files],
    Samples = maps:get(written, B) - maps:get(written, A),
    Ns = (With - Without) div max(1, Samples),
    io:format("~-48s ~10w ~12w~n", [Name, Ns, Samples * 1000 div T]),
    Ns.

%% User and system time of the whole VM, in ns, from /proc (ticks of 10 ms).
vm_cpu_during(T) ->
    A = vm_cpu_ns(),
    timer:sleep(T),
    vm_cpu_ns() - A.

vm_cpu_ns() ->
    {ok, Stat} = file:read_file("/proc/self/stat"),
    [_, Rest] = binary:split(Stat, <<") ">>),
    Fields = binary:split(Rest, <<" ">>, [global]),
    10000000 * lists:sum([binary_to_integer(lists:nth(N, Fields)) || N <- [12, 13]]).

%% Its process shares the schedulers with the program: what a sample takes there
%% is mostly waiting, and far fewer are taken than were asked for.
elapsed(Name, T) ->
    {ok, _} = flame_prof:start(options(portable, 9)),
    timer:sleep(1500),
    #{books := A} = flame_prof:info(),
    timer:sleep(T),
    #{books := B} = flame_prof:info(),
    {ok, #{files := Files}} = flame_prof:stop(),
    [file:delete(F) || F <- Files],
    Samples = max(1, maps:get(written, B) - maps:get(written, A)),
    Ns = (maps:get(sampler_cpu_ns, B) - maps:get(sampler_cpu_ns, A)) div Samples,
    io:format("~-48s ~10w ~12w   (asked for: ~w)~n",
              [Name, Ns, Samples * 1000 div T, ?TOP * 1000 div 9]),
    Ns.

burning(Fun) ->
    Counter = counters:new(1, [write_concurrency]),
    Pids = [spawn_link(fun() -> count(Counter) end)
            || _ <- lists:seq(1, erlang:system_info(schedulers_online))],
    Result = Fun(Counter),
    [begin unlink(P), exit(P, kill) end || P <- Pids],
    Result.

count(Counter) ->
    counters:add(Counter, 1, spin(2000, 0)),
    count(Counter).

spin(0, _) -> 1;
spin(N, Acc) -> spin(N - 1, Acc bxor N).

%%% --------------------------------------------------------------- selection --

selection() ->
    {ok, _} = flame_prof_calibration:ensure(),
    io:format("~n~-58s ~12s ~12s~n", [
        "Selection of 100 by reductions, CPU", "native ms", "process_info"
    ]),
    Selections = [selection(N) || N <- [1000, 10000, 100000, 1000000]],
    {100000, Ms, _} = lists:keyfind(100000, 1, Selections),
    io:format("~n"),
    bar("100,000 processes selected", Ms, 40, "ms"),
    halt(0).

selection(N) ->
    Pids = spawn_many(N - erlang:system_info(process_count), []),
    timer:sleep(500),
    {Count, _, Ns} = flame_prof_nif:select_top(?TOP, 3),
    {Us, _} = timer:tc(fun() -> public_top(?TOP) end),
    io:format("~-58s ~12.1f ~12.1f~n",
              [io_lib:format("~w processes", [Count]), Ns / 1.0e6, Us / 1000]),
    [exit(P, kill) || P <- Pids],
    settle(),
    {N, Ns / 1.0e6, Us / 1000}.

spawn_many(N, Acc) when N =< 0 -> Acc;
spawn_many(N, Acc) -> spawn_many(N - 1, [spawn(fun() -> receive never -> ok end end) | Acc]).

%% What a person would write.
public_top(N) ->
    Reductions = [{R, P} || P <- erlang:processes(),
                            {reductions, R} <- [erlang:process_info(P, reductions)]],
    lists:sublist(lists:reverse(lists:sort(Reductions)), N).

settle() ->
    timer:sleep(200),
    case erlang:system_info(process_count) < 1000 of
        true -> ok;
        false -> settle()
    end.

%%% --------------------------------------------------------------- workloads --

%% More than ?TOP processes that wait at a depth of ?FRAMES frames; moving ones
%% are woken now and then, each time they do a little.
with_processes(Kind, Fun) ->
    Pids = [spawn_link(fun() -> dig(?FRAMES - 2) end) || _ <- lists:seq(1, 2 * ?TOP)],
    Driver = case Kind of
        quiet -> none;
        moving -> spawn_link(fun() -> drive(list_to_tuple(Pids), 1) end)
    end,
    timer:sleep(200),
    Result = Fun(),
    [begin unlink(P), exit(P, kill) end || P <- [Driver | Pids], is_pid(P)],
    timer:sleep(100),
    Result.

dig(0) -> serve();
dig(N) when N rem 2 =:= 0 -> [dig(N - 1)];
dig(N) -> {dig(N - 1)}.

serve() ->
    receive
        work ->
            _ = lists:sum(lists:seq(1, 100)),
            serve()
    end.

%% Half of the set moves between two ticks.
drive(Pids, I) ->
    [element(1 + (I + K) rem tuple_size(Pids), Pids) ! work || K <- lists:seq(1, ?TOP)],
    timer:sleep(8),
    drive(Pids, I + ?TOP).

saturated(Fun) ->
    burning(fun(_) -> Fun() end).

with_demo(Fun) ->
    {ok, _} = demo_workload:start(),
    timer:sleep(1000),
    Result = Fun(),
    demo_workload:stop(),
    Result.
