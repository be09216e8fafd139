%% What it costs a program that its allocations are estimated, one sample a 512 KB: work for each
%% CPU second of the schedulers, with the measurement over without, in pairs of windows. And how
%% right the estimate is: bench_allocation_truth. WORKLOADS="gc allocate" limits the first.
-module(bench_allocations).

-export([run/1]).

-define(WINDOW_MS, 200).
%% Each process is looked at once in the beginning, and has its first turn.
-define(SETTLE_MS, 1000).

-spec run(pos_integer()) -> [bench_results:result()].
run(Seconds) ->
    All = bench_workloads:names() ++ [allocate],
    Wanted = string:lexemes(os:getenv("WORKLOADS", ""), " "),
    Names = [N || N <- All, Wanted =:= [] orelse lists:member(atom_to_list(N), Wanted)],
    bench_allocation_truth:rows() ++ [overhead(Name, 6 * Seconds) || Name <- Names].

overhead(Name, Pairs) ->
    Workload = bench_workloads:start(Name),
    Threads = bench_threads:schedulers(),
    timer:sleep(500),
    Window = fun() -> window(Workload, Threads) end,
    Measured = bench_stats:pairs(Pairs, fun() -> with(Window) end, Window),
    ok = bench_workloads:stop(Workload),
    Ratios = [With / Without || {{With, _}, Without} <- Measured],
    Collections = [N || {{_, N}, _} <- Measured],
    Bar = case Name of allocate -> 0.97; _ -> 0.99 end,
    bench_results:tell(#{
        section => allocations,
        name => iolist_to_binary(io_lib:format("work for a CPU second, allocations, ~s", [Name])),
        value => bench_stats:median(Ratios),
        unit => <<"ratio">>,
        interval => bench_stats:interval(Ratios),
        bar => {at_least, Bar},
        counted => #{
            pairs => Pairs, collections_a_second => round(bench_stats:median(Collections))
        }
    }).

window(Workload, Threads) ->
    {Work0, {Cpu0, _}} = {bench_workloads:work(Workload), bench_threads:cpu_ns(Threads)},
    timer:sleep(?WINDOW_MS),
    {Work, {Cpu, _}} = {bench_workloads:work(Workload), bench_threads:cpu_ns(Threads)},
    (Work - Work0) / (Cpu - Cpu0).

%% The measurement begins before the window and ends after it.
with(Window) ->
    Self = self(),
    Options = #{owner => Self, max_cpu_percent => infinity},
    Pid = spawn_link(fun() ->
        Self ! {self(), flame_prof_allocations:measure(60000, Options)}
    end),
    ok = on(),
    timer:sleep(?SETTLE_MS),
    Rate = Window(),
    #{collections := #{minor := Minor, major := Major}, milliseconds := Ms} = finished(Pid),
    {Rate, (Minor + Major) * 1000 / Ms}.

%% A busy node may not have told what runs.
finished(Pid) ->
    _ = flame_prof_allocations:finish(self()),
    receive {Pid, {ok, Answer}} -> Answer
    after 500 -> finished(Pid)
    end.

%% All flags are set.
on() ->
    case flame_prof_tracing:info() of
        #{processes := N} when N > 0 -> ok;
        _ -> timer:sleep(5), on()
    end.
