%% How right the estimate of allocations is, on programs that count the words that they allocate
%% (test/support/counted_allocations.erl): in rounds, until there are ?SAMPLES samples. The counts
%% themselves are held against tprof's, where it exists (OTP 27).
-module(bench_allocation_truth).

-export([rows/0]).

-define(SAMPLES, 10000).
-define(ROUNDS, 20).
-define(ROUND_MS, 2000).
-define(TPROF_MS, 300).

-spec rows() -> [bench_results:result()].
rows() ->
    [tprof(Name) || Name <- [one_process, small_terms_of_bifs], has_tprof()] ++
        lists:append([program(Name) || Name <- counted_allocations:names()]).

program(Name) ->
    #{words := Words, counted := Counted, stacks := Stacks, counts := Counts, samples := Samples,
        error := Error} = rounds(Name, none, ?ROUNDS),
    Told = maps:fold(fun(_, N, Sum) -> Sum + N end, 0, Stacks),
    Points = [{F, 100 * (of_function(F, Stacks) / Told - N / Counted)} || {F, N} <- Counts],
    [
        row(Name, "largest error of a function's share", lists:max([abs(P) || {_, P} <- Points]),
            <<"points">>, #{samples => Samples, functions => length(Points)}),
        row(Name, "error of the sum", 100 * abs(Words / Counted - 1), <<"%">>,
            #{mb => Counted * 8 div 1000000, standard_error => 100 * Error / Counted})
    ].

row(Name, What, Value, Unit, Counted) ->
    bench_results:tell(#{
        section => allocations,
        name => iolist_to_binary(io_lib:format("allocations, ~s: ~s", [Name, What])),
        value => Value,
        unit => Unit,
        bar => {at_most, 1},
        counted => Counted
    }).

rounds(_Name, #{samples := Samples} = Sum, _Left) when Samples >= ?SAMPLES -> Sum;
rounds(_Name, Sum, 0) -> Sum;
rounds(Name, Sum, Left) -> rounds(Name, added(once(Name), Sum), Left - 1).

once(Name) ->
    Program = counted_allocations:start(Name, ?ROUND_MS),
    Starter = counted_allocations:when_traced(fun() -> counted_allocations:go(Program) end),
    Options = #{bytes => bytes(Name), max_cpu_percent => infinity},
    {ok, Answer} = flame_prof_allocations:measure(?ROUND_MS + 500, Options),
    true = unlink(Starter),
    ok = counted_allocations:stop(Program),
    case Answer of
        #{ended := asked, lost := #{events := Events}} when Events < 5 -> told(Answer, Program);
        %% The machine was too busy to watch over it.
        _ -> once(Name)
    end.

told(Answer, Program) ->
    #{words := Words, words_error := Error, samples := Samples, stacks := Stacks} = Answer,
    #{
        words => Words,
        error => Error,
        samples => Samples,
        stacks => maps:from_list(Stacks),
        counted => counted_allocations:all(Program),
        counts => counted_allocations:counts(Program)
    }.

%% Each of its few collections has a sample.
bytes(large_heap) -> 65536;
%% 20 or 30 samples of one process tell no more than one.
bytes(brief_processes) -> 2097152;
bytes(_) -> 131072.

added(Once, none) ->
    Once;
added(Once, Sum) ->
    Plus = fun(Key) -> maps:get(Key, Once) + maps:get(Key, Sum) end,
    Sum#{
        words := Plus(words),
        error := math:sqrt(math:pow(maps:get(error, Once), 2) + math:pow(maps:get(error, Sum), 2)),
        samples := Plus(samples),
        counted := Plus(counted),
        stacks := maps:merge_with(fun(_, A, B) -> A + B end, maps:get(stacks, Once),
            maps:get(stacks, Sum)),
        counts := [{F, A + B} || {{F, A}, {F, B}} <-
            lists:zip(maps:get(counts, Once), maps:get(counts, Sum))]
    }.

of_function({M, F, A}, Stacks) ->
    lists:sum([Words || {Stack, Words} <- maps:to_list(Stacks),
        lists:any(fun({M1, F1, A1, _}) -> {M1, F1, A1} =:= {M, F, A}; (_) -> false end, Stack)]).

%%% ------------------------------------------------------------------ tprof --

has_tprof() ->
    code:ensure_loaded(tprof) =:= {module, tprof}.

%% The words of its functions, as the VM counts them call by call, and as the program does.
tprof(Name) ->
    Program = counted_allocations:start(Name, ?TPROF_MS),
    Pids = counted_allocations:pids(Program),
    Run = fun() ->
        ok = counted_allocations:go(Program),
        timer:sleep(?TPROF_MS + 200)
    end,
    {_, {call_memory, Traced}} = tprof:profile(Run, #{
        type => call_memory,
        report => return,
        rootset => Pids,
        pattern => {counted_allocations, '_', '_'}
    }),
    ok = counted_allocations:stop(Program),
    Words = fun({_, F, A}) ->
        lists:sum([N || {_, F1, A1, Of} <- Traced, {F1, A1} =:= {F, A}, {_, _, N} <- Of])
    end,
    Counted = counted_allocations:all(Program),
    Told = lists:sum([N || {_, _, _, Of} <- Traced, {_, _, N} <- Of]),
    Points = [abs(100 * Words(F) / Told - 100 * N / Counted)
        || {F, N} <- counted_allocations:counts(Program)],
    row(Name, "its own counts beside tprof's", lists:max(Points), <<"points">>,
        #{sum_percent => 100 * abs(Told / Counted - 1)}).
