%% What reaches the disk of a real node's samples: how large one is and how fast the
%% writer makes it; then, with schedulers that have no time to spare, whether ticks
%% come when they should, also while a flush is on its way.
-module(bench_files).

-export([run/1]).

-define(TOP, 100).
-define(HZ, 99).
-define(TICK_APART_US, 500).

-spec run(pos_integer()) -> [bench_results:result()].
run(Seconds) ->
    Ms = 2 * Seconds * 1000,
    bench_processes:demo(fun() ->
        sizes(record(fun() -> timer:sleep(Ms) end)) ++
            ticks(record(fun() -> bench_processes:saturated(fun() -> timer:sleep(Ms) end) end))
    end).

record(Fun) ->
    {ok, _} = flame_prof:start((bench_session:options(?TOP, ?HZ))#{flush_interval => 5000}),
    Fun(),
    {ok, Run} = flame_prof:stop(),
    Run.

sizes(#{written := Written, bytes := Text, files := Files, compress_cpu_ns := Compress,
        writer_cpu_ns := Writer, file_cpu_ns := File}) ->
    Bytes = lists:sum([filelib:file_size(F) || F <- Files]),
    ok = bench_session:remove(Files),
    [
        told(files, <<"bytes a sample on the disk">>, Bytes / Written, <<"B">>, #{
            bar => {at_most, 18}, counted => #{samples => Written, text_bytes => Text div Written}
        }),
        told(files, <<"text formatted and compressed a second of CPU">>,
             1000 * Text div (Writer - File), <<"MB/s">>, #{bar => {at_least, 400}}),
        told(files, <<"of that, compression alone">>, 1000 * Text div Compress, <<"MB/s">>, #{})
    ].

ticks(#{files := Files, ticks := Ticks, missed := Missed}) ->
    {ok, Times, _} = flame_prof:fold(
        fun(#{time_us := Time}, Seen) -> Seen#{Time => []} end, #{}, Files
    ),
    {ok, Own, _} = flame_prof_samples:own(Files),
    ok = bench_session:remove(Files),
    Sorted = begun(lists:sort(maps:keys(Times))),
    Gaps = gaps(Sorted),
    AtFlush = [Gap || {From, To, Gap} <- Gaps, #{time_us := F} <- Own, F >= From, F =< To],
    Ms = [Gap / 1000 || {_, _, Gap} <- Gaps],
    told(rate, <<"saturated schedulers: ">>, [
        {<<"ticks a second">>, length(Gaps) * 1.0e6 / (lists:last(Sorted) - hd(Sorted)), <<"Hz">>,
         #{counted => #{asked => 1000 / bench_session:interval(?HZ), ticks => Ticks}}},
        {<<"missed ticks">>, 100 * Missed / (Ticks + Missed), <<"%">>, #{bar => {at_most, 0.2}}},
        {<<"between two ticks, median">>, bench_stats:median(Ms), <<"ms">>, #{}},
        {<<"between two ticks, 99 of 100">>, bench_stats:quantile(0.99, Ms), <<"ms">>, #{}},
        {<<"between two ticks, longest">>, lists:max(Ms), <<"ms">>, #{}},
        {<<"longest at a flush">>, lists:max([0 | AtFlush]) / 1000, <<"ms">>,
         #{bar => {at_most, 30}, counted => #{flushes => length(AtFlush)}}}
    ]).

%% Samples of one tick may be some microseconds apart (doc/format.md).
begun([First | Times]) ->
    lists:reverse(lists:foldl(
        fun
            (Time, [Last | _] = Ticks) when Time - Last > ?TICK_APART_US -> [Time | Ticks];
            (_, Ticks) -> Ticks
        end,
        [First],
        Times
    )).

gaps(Times) ->
    [{From, To, To - From} || {From, To} <- lists:zip(lists:droplast(Times), tl(Times))].

told(Section, Prefix, Rows) ->
    [told(Section, <<Prefix/binary, Name/binary>>, Value, Unit, More)
        || {Name, Value, Unit, More} <- Rows].

told(Section, Name, Value, Unit, More) ->
    bench_results:tell(More#{section => Section, name => Name, value => Value, unit => Unit}).
