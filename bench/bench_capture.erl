%% What the capture of running stacks costs a program that only computes: work done
%% for each second of its schedulers' CPU time, with capture over without, all else
%% the same, in pairs of short windows. Beside it what can be counted: signals, and
%% the time of their handlers.
-module(bench_capture).

-export([run/1]).

-define(TOP, 100).
-define(HZ, 99).
-define(WINDOW_MS, 200).
-define(SETTLE_MS, 100).

-spec run(pos_integer()) -> [bench_results:result()].
run(Seconds) ->
    %% Windows end when they should, whatever the schedulers have to do.
    _ = process_flag(priority, high),
    Count = Seconds * 20,
    Counter = counters:new(1, [write_concurrency]),
    Threads = bench_threads:schedulers(),
    Stolen = stolen_ticks(),
    Measured = bench_processes:saturated(Counter, fun() ->
        bench_stats:pairs(
            Count,
            fun() -> window(true, Counter, Threads) end,
            fun() -> window(false, Counter, Threads) end
        )
    end),
    [told(Measured, stolen_ticks() - Stolen)].

window(Capture, Counter, Threads) ->
    {ok, _} = flame_prof:start((bench_session:options(?TOP, ?HZ))#{running_stacks => Capture}),
    timer:sleep(?SETTLE_MS),
    {Work0, {Cpu0, _}, Books0} = look(Counter, Threads),
    timer:sleep(?WINDOW_MS),
    {Work1, {Cpu1, _}, Books1} = look(Counter, Threads),
    {ok, #{files := Files}} = flame_prof:stop(),
    ok = bench_session:remove(Files),
    Grown = maps:map(fun(K, V) -> V - maps:get(K, Books0) end, Books1),
    Grown#{rate => (Work1 - Work0) / (Cpu1 - Cpu0)}.

look(Counter, Threads) ->
    #{counters := Counters} = flame_prof:info(),
    {counters:get(Counter, 1), bench_threads:cpu_ns(Threads),
        maps:with([signals, handler_ns], Counters)}.

told(Measured, Stolen) ->
    Ratios = [With / Without || {#{rate := With}, #{rate := Without}} <- Measured],
    Signals = lists:sum([N || {#{signals := N}, _} <- Measured]),
    Ns = lists:sum([N || {#{handler_ns := N}, _} <- Measured]),
    Ms = ?WINDOW_MS * length(Measured) * erlang:system_info(schedulers_online),
    bench_results:tell(#{
        section => cost,
        name => <<"work per CPU second, with running stacks / without">>,
        value => bench_stats:median(Ratios),
        unit => <<"">>,
        interval => bench_stats:interval(Ratios),
        bar => {at_least, 0.99},
        counted => #{
            pairs => length(Measured),
            signals => Signals,
            handler_ns => Ns div max(1, Signals),
            percent_in_handlers => 100 * Ns / (1.0e6 * Ms),
            percent_stolen => 100 * Stolen * 10 / (2 * Ms)
        }
    }).

%% Of 10 ms, that the host gave to others, of all processors, while all of this ran.
stolen_ticks() ->
    {ok, Text} = file:read_file("/proc/stat"),
    [Line | _] = binary:split(Text, <<"\n">>),
    binary_to_integer(lists:nth(9, string:lexemes(Line, " "))).
