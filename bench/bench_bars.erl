%% What a sample costs, as a table: each figure beside its bar, and as a ratio to a yardstick that
%% is timed before and after it in the same run, because machines differ and drift. A bar of a ratio
%% is the bar of the figure, in units of the yardstick as it was on the machine and in the
%% run in which the bars were set (OTP 25).
%%
%% The yardstick: one process_info/2 of the stack and the figures of a process that waits, 20
%% frames deep.
-module(bench_bars).

-export([run/1]).

-define(TOP, 100).
-define(FRAMES, 20).
-define(WINDOWS, 5).
-define(ITEMS, [
    current_stacktrace, status, reductions, message_queue_len, memory, total_heap_size,
    garbage_collection, binary, registered_name, dictionary
]).
%% The yardstick of a sample where the bars were set, in ns.
-define(PROCESS_INFO_NS, 6000).

-spec run(pos_integer()) -> [bench_results:result()].
run(Seconds) ->
    Ms = Seconds * 1000,
    Demo = bench_processes:demo(fun() -> windows(111, Ms) end),
    Idle = bench_processes:waiting(2 * ?TOP, ?FRAMES, fun() -> windows(111, Ms) end),
    Share = bench_processes:demo(fun() -> windows(99, Ms) end),
    [
        row(<<"demo's mix, all of a sample">>, Demo, fun sample_ns/1, <<"ns">>, 1000),
        row(<<"idle node, 20 frames, all of a sample">>, Idle, fun sample_ns/1, <<"ns">>, 400),
        row(<<"top 100 at 99 Hz on the demo's mix">>, Share, fun percent/1, <<"% core">>, 1.0)
        | parts(Demo)
    ].

%% [{what the counters grew by, ns of the yardstick around it}]
windows(Hz, Ms) ->
    Options = bench_session:options(?TOP, Hz),
    Stand = spawn_link(fun() -> wait(?FRAMES - 2) end),
    timer:sleep(100),
    Windows = [
        begin
            Before = yardstick(Stand),
            Window = bench_session:measure(Options, Ms),
            {Window, (Before + yardstick(Stand)) / 2}
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

row(Name, Windows, Figure, Unit, Bar) ->
    Ratios = [Figure(W) / Ns || {W, Ns} <- Windows],
    Figures = [Figure(W) || {W, _} <- Windows],
    bench_results:tell(#{
        section => bars,
        name => Name,
        value => bench_stats:median(Figures),
        unit => Unit,
        interval => {lists:min(Figures), lists:max(Figures)},
        bar => {at_most, Bar},
        counted => #{
            yardstick_ns => bench_stats:median([Ns || {_, Ns} <- Windows]),
            ratio => bench_stats:median(Ratios),
            ratio_bar => Bar / ?PROCESS_INFO_NS
        }
    }).

%% Where the time of a sample goes.
parts(Windows) ->
    Of = fun(Name, Figure) ->
        Figures = [Figure(W) / max(1, maps:get(written, W)) || {W, _} <- Windows],
        bench_results:tell(#{
            section => bars, name => <<"of it: ", Name/binary>>, unit => <<"ns">>,
            value => bench_stats:median(Figures),
            interval => {lists:min(Figures), lists:max(Figures)}
        })
    end,
    [
        Of(<<"sampling">>, fun(#{sampler_cpu_ns := Ns}) -> Ns end),
        Of(<<"formatting">>, fun(#{writer_cpu_ns := Ns, compress_cpu_ns := Compress,
            file_cpu_ns := File}) -> Ns - Compress - File end),
        Of(<<"compressing">>, fun(#{compress_cpu_ns := Ns}) -> Ns end),
        Of(<<"file">>, fun(#{file_cpu_ns := Ns}) -> Ns end)
    ].
