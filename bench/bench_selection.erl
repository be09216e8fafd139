%% CPU time to choose the 100 busiest of a node's processes and 25 that grow, and beside it that of
%% the obvious loop over process_info/2. The size of the process table counts, too (+P): a million
%% processes need 2^21 slots; with fewer the VM has its default of 2^18.
-module(bench_selection).

-export([run/1]).

-define(TOP, 100).
-define(GROWERS, 25).
%% More slots than a process table can have.
-define(ALL, 16#ffffffff).
-define(LOOPS, 3).
%% The first pass counts from each process' start, and fills the tables.
-define(PASSES, 12).

-spec run(pos_integer()) -> [bench_results:result()].
run(_Seconds) ->
    Limit = erlang:system_info(process_limit),
    lists:append([of_processes(N, Limit) || N <- counts(Limit)]).

counts(Limit) when Limit > 1000000 -> [1000, 1000000];
counts(_) -> [1000, 10000, 100000].

of_processes(N, Limit) ->
    bench_processes:with_idle(N, fun() ->
        Loop = bench_stats:median([loop_ms() || _ <- lists:seq(1, loops(N))]),
        Passes = pass_ms(),
        Pass = bench_stats:median(Passes),
        [
            told(N, Limit, <<"native">>, Pass, #{
                bar => {at_most, bar(N, Limit)},
                counted => #{
                    passes => length(Passes),
                    longest_ms => lists:max(Passes),
                    per_loop => Pass / Loop
                }
            }),
            told(N, Limit, <<"process_info/2">>, Loop, #{})
        ]
    end).

bar(1000, _) -> 1;
bar(10000, _) -> 2;
bar(100000, _) -> 8;
bar(1000000, _) -> 60.

%% The passes run on dirty schedulers.
pass_ms() ->
    Threads = bench_threads:dirty(),
    {ok, Selector} = flame_prof_looks_nif:selector_new(reductions, true, ?TOP, ?GROWERS),
    [_ | Ms] = [
        cpu_ms(Threads, fun() -> {_, _} = flame_prof_looks_nif:selector_next(Selector, ?ALL) end)
     || _ <- lists:seq(0, ?PASSES)
    ],
    Ms.

loop_ms() ->
    cpu_ms(bench_threads:schedulers(), fun() -> busiest(?TOP) end).

cpu_ms(Threads, Fun) ->
    {Before, _} = bench_threads:cpu_ns(Threads),
    _ = Fun(),
    {After, _} = bench_threads:cpu_ns(Threads),
    (After - Before) / 1.0e6.

loops(N) when N >= 1000000 -> 1;
loops(_) -> ?LOOPS.

told(N, Limit, How, Ms, More) ->
    bench_results:tell(More#{
        section => selection,
        name => iolist_to_binary(
            io_lib:format("100 of ~w processes, ~w slots, ~s", [N, Limit, How])
        ),
        value => Ms,
        unit => <<"ms">>
    }).

%% What a person would write.
busiest(N) ->
    Reductions = [{R, P} || P <- erlang:processes(),
                            {reductions, R} <- [erlang:process_info(P, reductions)]],
    lists:sublist(lists:reverse(lists:sort(Reductions)), N).
