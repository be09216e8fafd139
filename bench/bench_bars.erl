%% What a sample costs, as a table: each figure, and as a ratio to a yardstick that is timed before
%% and after it in the same run, because machines differ and drift: a bar holds when the bar of the
%% ratio does.
%%
%% The yardstick: one process_info/2 of the stack and the figures of a process that waits, 20
%% frames deep. The bars of ratios were set on OTP 25: the ratio of the tree
%% before, 1.63, 0.80 and 0.00186, times by how much the figure was to fall (of 2,781 and 938 ns
%% and 2.84 %).
%%
%% A sampler that reads nothing has to wake for each tick: what that alone costs on this machine is
%% timed in the same run, and told for each sample.
-module(bench_bars).

-export([run/1]).

-define(TOP, 100).
-define(FRAMES, 20).
-define(WINDOWS, 5).
-define(ITEMS, [
    current_stacktrace, status, reductions, message_queue_len, memory, total_heap_size,
    garbage_collection, binary, registered_name, dictionary
]).

-spec run(pos_integer()) -> [bench_results:result()].
run(Seconds) ->
    Ms = Seconds * 1000,
    Demo = bench_processes:demo(fun() -> windows(111, Ms) end),
    Idle = bench_processes:waiting(2 * ?TOP, ?FRAMES, fun() -> windows(111, Ms) end),
    Share = bench_processes:demo(fun() -> windows(99, Ms) end),
    rows(<<"demo's mix, all of a sample">>, Demo, fun sample_ns/1, <<"ns">>, {1000, 0.585}) ++
        parts(Demo) ++
        rows(<<"idle node, 20 frames, all of a sample">>, Idle, fun sample_ns/1, <<"ns">>,
            {400, 0.340}) ++
        parts(Idle) ++
        rows(<<"top 100 at 99 Hz on the demo's mix">>, Share, fun percent/1, <<"% core">>,
            {1.0, 0.00065}).

%% [{what the counters grew by, ns of the yardstick around it}]
windows(Hz, Ms) ->
    Options = bench_session:options(?TOP, Hz),
    Stand = spawn_link(fun() -> wait(?FRAMES - 2) end),
    timer:sleep(100),
    Windows = [
        begin
            Before = yardstick(Stand),
            Window = bench_session:measure(Options, Ms),
            Wake = bench_threads:sleep_ns(1000 * bench_session:interval(Hz), Hz) / Hz,
            {Window#{wake_ns => Wake}, (Before + yardstick(Stand)) / 2}
        end
     || _ <- lists:seq(1, ?WINDOWS)
    ],
    ok = bench_processes:kill([Stand]),
    Windows.

wait(N) when N =< 0 -> receive never -> ok end;
wait(N) -> [delve(N - 1)].

delve(N) when N =< 0 -> receive never -> ok end;
delve(N) -> {wait(N - 1)}.

%% The fastest of many short runs: a run that somebody interrupts says nothing of the machine.
yardstick(Pid) ->
    lists:min([
        begin
            {Us, ok} = timer:tc(fun() -> ask(Pid, 200) end),
            1000 * Us / 200
        end
     || _ <- lists:seq(1, 50)
    ]).

ask(_, 0) -> ok;
ask(Pid, N) -> _ = process_info(Pid, ?ITEMS), ask(Pid, N - 1).

sample_ns(#{sampler_cpu_ns := Sampler, writer_cpu_ns := Writer, written := Written}) ->
    (Sampler + Writer) / max(1, Written).

percent(#{sampler_cpu_ns := Sampler, writer_cpu_ns := Writer, ms := Ms}) ->
    (Sampler + Writer) / (Ms * 1.0e4).

rows(Name, Windows, Figure, Unit, {Bar, RatioBar}) ->
    Yardsticks = [Ns || {_, Ns} <- Windows],
    [
        row(Name, [Figure(W) || {W, _} <- Windows], Unit,
            #{counted => #{asked => Bar, yardstick_ns => bench_stats:median(Yardsticks)}}),
        row(<<Name/binary, ", over the yardstick">>, [Figure(W) / Ns || {W, Ns} <- Windows],
            <<"">>, #{bar => {at_most, RatioBar}})
    ].

%% The interval is from the least to the most: that is the noise.
row(Name, Figures, Unit, More) ->
    bench_results:tell(More#{
        section => bars, name => Name, unit => Unit, value => bench_stats:median(Figures),
        interval => {lists:min(Figures), lists:max(Figures)}
    }).

%% Where the time of a sample goes.
parts(Windows) ->
    Of = fun(Name, Figure) ->
        row(<<"of it: ", Name/binary>>,
            [Figure(W) / max(1, maps:get(written, W)) || {W, _} <- Windows], <<"ns">>, #{})
    end,
    [
        Of(<<"sampling">>, fun(#{sampler_cpu_ns := Ns}) -> Ns end),
        Of(<<"... of which waking, as an empty thread does">>,
            fun(#{ticks := Ticks, wake_ns := Ns}) -> Ticks * Ns end),
        Of(<<"formatting">>, fun(#{writer_cpu_ns := Ns, compress_cpu_ns := Compress,
            file_cpu_ns := File}) -> Ns - Compress - File end),
        Of(<<"compressing">>, fun(#{compress_cpu_ns := Ns}) -> Ns end),
        Of(<<"file">>, fun(#{file_cpu_ns := Ns}) -> Ns end)
    ].
