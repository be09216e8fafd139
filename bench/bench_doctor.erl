%% What the doctor costs the node that it looks at.
%%
%% Work for each CPU second of the whole VM, with the looks on the node and without, in pairs of
%% neighbouring windows in random order; and the CPU time of the looks themselves. A
%% window with them is an examination from its first look to its answer. To judge is not in it: the
%% command does that elsewhere.
-module(bench_doctor).

-export([run/1]).

-define(FOR_MS, 10000).
-define(WORKLOADS, [messages, ets, spawn]).
%% To show what the median is made of.
-define(PAIRS_LEAST, 5).

-spec run(pos_integer()) -> [bench_results:result()].
run(Seconds) ->
    %% The first one calibrates.
    _ = collect(),
    lists:append([workload(Name, max(?PAIRS_LEAST, Seconds)) || Name <- ?WORKLOADS]).

workload(Name, Count) ->
    Workload = bench_workloads:start(Name),
    timer:sleep(500),
    Pairs = bench_stats:pairs(Count,
        fun() -> window(Workload, fun collect/0) end,
        fun() -> window(Workload, fun() -> timer:sleep(?FOR_MS) end) end),
    ok = bench_workloads:stop(Workload),
    Ratios = [(Work * CpuWithout) / max(1, WorkWithout * Cpu)
        || {{Work, Cpu}, {WorkWithout, CpuWithout}} <- Pairs],
    %% What is beyond the work's own, as it takes without: on a machine that is busy with other
    %% things the node has little CPU time, and this is a larger part of it.
    Own = [(Cpu - Work * CpuWithout / max(1, WorkWithout)) / 1.0e6
        || {{Work, Cpu}, {WorkWithout, CpuWithout}} <- Pairs],
    [told(Name, Ratios), told_own(Name, Own)].

told_own(Name, Own) ->
    bench_results:tell(#{
        section => doctor,
        name => <<"CPU time of an examination of 10 s: ", (atom_to_binary(Name))/binary>>,
        value => bench_stats:median(Own),
        unit => <<"ms">>,
        interval => bench_stats:interval(Own),
        counted => #{pairs => length(Own)}
    }).

told(Name, Ratios) ->
    bench_results:tell(#{
        section => doctor,
        name => <<"work for a CPU second of the VM while the doctor looks: ",
            (atom_to_binary(Name))/binary>>,
        value => bench_stats:median(Ratios),
        unit => <<"of 1">>,
        interval => bench_stats:interval(Ratios),
        counted => #{pairs => length(Ratios)}
    }).

collect() ->
    {#{unseen := _}, _Files} =
        flame_prof_doctor_evidence:collect(#{for => ?FOR_MS, engine => auto}),
    ok.

window(Workload, Fun) ->
    {_, Cpu} = bench_threads:cpu_ns([]),
    Work = bench_workloads:work(Workload),
    _ = Fun(),
    Done = bench_workloads:work(Workload) - Work,
    {_, CpuAfter} = bench_threads:cpu_ns([]),
    {Done, CpuAfter - Cpu}.
