%% What a process-sample costs: CPU time of our own threads, from the kernel's clocks
%% of them, for one look at one process up to formatted bytes. Beside it what comes
%% after: compression, and the kernel until they are in the file.
-module(bench_cost).

-export([run/1]).

-define(TOP, 100).
-define(HZ, 99).
-define(FRAMES, 20).
%% Readings of the node's memory in a round, and rounds.
-define(FIGURES, 500).
-define(FIGURES_ROUNDS, 7).
%% What the selections are made of: those that move, and as many again that wait.
-define(PROCESSES, 1000).

-spec run(pos_integer()) -> [bench_results:result()].
run(Seconds) ->
    warm_up_page_cache(),
    Ms = Seconds * 1000,
    Figures = node_figures(),
    {Costs, Saturated, Idle} = whole_nodes(Ms),
    io:format("~n"),
    Curves = by_processes(Ms div 2) ++ by_depth(Ms div 2) ++ by_rate(Ms div 2),
    io:format("~n"),
    [Figures | Costs] ++ Curves ++ bench_portable:run(Ms, Saturated, Idle).

%% A virtual machine's memory that was never touched costs its host a fault for
%% each page: the first gigabyte that any program writes to a file is then
%% several times slower than all later ones. What is measured is the latter.
warm_up_page_cache() ->
    File = filename:join(["_build", "bench", "warm_up"]),
    {ok, Fd} = file:open(File, [write, raw, binary]),
    [ok = file:write(Fd, binary:copy(<<"w">>, 1 bsl 20)) || _ <- lists:seq(1, 1024)],
    ok = file:close(Fd),
    ok = file:delete(File).

%% The CPU time of the whole VM, which does nothing else, while the node's memory is read again and
%% again: as a part of a core at one reading a second.
node_figures() ->
    {_, Source} = flame_prof_node_memory:figures(flame_prof_node_memory:new(native)),
    Us = [figures_us(Source) || _ <- lists:seq(1, ?FIGURES_ROUNDS)],
    bench_results:tell(#{
        section => cost,
        name => <<"the node's memory, one reading a second">>,
        value => bench_stats:median(Us) / 10000,
        unit => <<"% core">>,
        interval => {lists:min(Us) / 10000, lists:max(Us) / 10000},
        bar => {at_most, 0.05},
        counted => #{readings => ?FIGURES_ROUNDS * ?FIGURES}
    }).

figures_us(Source) ->
    {Before, _} = statistics(runtime),
    _ = [flame_prof_node_memory:figures(Source) || _ <- lists:seq(1, ?FIGURES)],
    {After, _} = statistics(runtime),
    1000 * (After - Before) / ?FIGURES.

%% ------------------------------------------------------------- whole nodes --

whole_nodes(Ms) ->
    Cost = fun(Name) -> told(Name, #{}, bench_session:measure(options(111), Ms)) end,
    Idle = bench_processes:waiting(2 * ?TOP, ?FRAMES,
        fun() -> Cost(<<"idle node, 20 frames">>) end),
    Moving = bench_processes:moving(2 * ?TOP, ?FRAMES, fun() ->
        Cost(<<"100 processes that move, 20 frames">>)
    end),
    Saturated = bench_processes:moving(2 * ?TOP, ?FRAMES, fun() ->
        bench_processes:saturated(fun() -> Cost(<<"the same, schedulers saturated">>) end)
    end),
    Demo = bench_processes:demo(fun() -> bench_session:measure(options(111), Ms) end),
    Mix = told(<<"the demo's workload (a realistic mix)">>, #{}, Demo),
    Share = share(bench_processes:demo(fun() -> bench_session:measure(options(?HZ), Ms) end)),
    {[Idle, Moving, Saturated, Mix, Share], Saturated, Idle}.

share(Window) ->
    bench_results:tell(#{
        section => cost,
        name => <<"top 100 at 99 Hz on the demo's workload">>,
        value => percent_of_core(Window),
        unit => <<"% core">>,
        counted => maps:with([written, missed], Window)
    }).

options(Hz) -> bench_session:options(?TOP, Hz).

%% ------------------------------------------------------------------ curves --

by_processes(Ms) ->
    [
        of_processes(Selected, All, Ms)
     || All <- [1000, 100000], Selected <- [10, 100, 1000]
    ].

of_processes(Selected, All, Ms) ->
    %% All thousand of a thousand are chosen, whether they move or not.
    Moving = min(2 * Selected, ?PROCESSES),
    Name = io_lib:format("~w of ~w processes at ~w Hz, ~w frames", [Selected, All, ?HZ, ?FRAMES]),
    point(Name, Moving, All, ?FRAMES, bench_session:options(Selected, ?HZ), Ms).

by_depth(Ms) ->
    [
        point(io_lib:format("~w frames, ~w processes at ~w Hz", [Depth, ?TOP, ?HZ]),
              2 * ?TOP, ?PROCESSES, Depth, options(?HZ), Ms)
     || Depth <- [5, 20, 100, 500]
    ].

by_rate(Ms) ->
    [
        point(io_lib:format("~w Hz, ~w processes, ~w frames", [Hz, ?TOP, ?FRAMES]),
              2 * ?TOP, ?PROCESSES, ?FRAMES, options(Hz), Ms)
     || Hz <- [10, 99, 333, 999]
    ].

point(Name, Moving, All, Depth, Options, Ms) ->
    bench_processes:moving(Moving, Depth, fun() ->
        bench_processes:with_idle(All, fun() ->
            told(Name, #{}, bench_session:measure(Options, Ms))
        end)
    end).

%% -------------------------------------------------------------------- rows --

told(Name, More, #{written := Written0, ms := Ms} = Window) ->
    Written = max(1, Written0),
    Each = maps:map(
        fun(_, Ns) -> Ns div Written end,
        maps:with([sampler_cpu_ns, writer_cpu_ns, compress_cpu_ns, file_cpu_ns], Window)
    ),
    #{sampler_cpu_ns := Sampler, writer_cpu_ns := Writer, compress_cpu_ns := Compress,
      file_cpu_ns := File} = Each,
    Format = Writer - Compress - File,
    bench_results:tell(More#{
        section => cost,
        name => iolist_to_binary(Name),
        value => Sampler + Format,
        unit => <<"ns">>,
        counted => #{
            sampling_ns => Sampler,
            formatting_ns => Format,
            compressing_ns => Compress,
            file_ns => File,
            text_bytes => maps:get(bytes, Window) div Written,
            samples_per_second => Written0 * 1000 div Ms,
            percent_of_core => percent_of_core(Window),
            percent_missed => percent_missed(Window)
        }
    }).

percent_of_core(#{sampler_cpu_ns := Sampler, writer_cpu_ns := Writer, ms := Ms}) ->
    (Sampler + Writer) / (Ms * 1.0e4).

percent_missed(#{missed := Missed, ticks := Ticks}) ->
    100 * Missed / max(1, Missed + Ticks).
