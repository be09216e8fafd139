%% Shares against known truth. Workers (test/support/running_work.erl) do slices of known
%% work and time each; who samples them takes turns in a random order, each turn
%% with workers and a truth of its own, so that nobody is in the other's way and the
%% machine's moods meet all of them. Judged are shares of elapsed time, since ticks
%% are of that.
-module(bench_accuracy).

-export([run/1]).

-define(INTERVAL_MS, 2).
-define(TURN_MS, 1500).

%% Erlang functions in unequal shares; all kinds of work alike, by function; and by
%% what was being done: an Erlang function, a BIF, a NIF, the collector.
-type program() :: functions | kinds_of_work | categories.
-type sampler() :: native | schedulers | portable | poller.

-spec run(pos_integer()) -> [bench_results:result()].
run(Seconds) ->
    ok = running_test_nif:build(),
    lists:append([of_program(Program, 1 + Seconds)
        || Program <- [functions, kinds_of_work, categories]]).

-spec of_program(program(), Rounds :: pos_integer()) -> [bench_results:result()].
of_program(Program, Rounds) ->
    Slices = slices(Program),
    Turns = lists:append([in_random_order(samplers()) || _ <- lists:seq(1, Rounds)]),
    Taken = [{Sampler, turn(Sampler, Program, Slices)} || Sampler <- Turns],
    Each = [{Sampler, together(Sampler, Taken)} || Sampler <- samplers()],
    show(Program, Each),
    lists:append([rows(Program, Sampler, Seen, True) || {Sampler, {Seen, True}} <- Each]).

-spec samplers() -> [sampler(), ...].
samplers() -> [native, schedulers, portable, poller].

in_random_order(List) ->
    [E || {_, E} <- lists:sort([{rand:uniform(), E} || E <- List])].

together(Sampler, Taken) ->
    Own = [Turn || {S, Turn} <- Taken, S =:= Sampler],
    {bench_shares:sum([Seen || {Seen, _} <- Own]), bench_shares:sum([True || {_, True} <- Own])}.

%% -------------------------------------------------------------- the program --

slices(functions) -> sized([{leaf_a, 60}, {leaf_b, 30}, {leaf_c, 10}]);
slices(categories) -> sized([{erlang, 1}, {light_bif, 1}, {nif, 1}, {heavy_bif, 1}]);
slices(kinds_of_work) -> sized([{Leaf, 1} || Leaf <- kinds_of_work()]).

kinds_of_work() ->
    [leaf_a, floats, maps, binaries, dictionary, messages, exceptions, funs, guard_bif, light_bif,
        heavy_bif, tables, nif].

%% Rounds, so that slices have these shares and take about ?SLICE_NS each. What a
%% collection takes depends on what the worker has on its heap, so the first guess is
%% put right by a pilot.
-define(SLICE_NS, 5000000).
-define(PILOT_MS, 500).

sized(Weights) ->
    Sum = lists:sum([Weight || {_, Weight} <- Weights]),
    Ns = ?SLICE_NS * length(Weights),
    Guess = [{Leaf, Ns * Weight * 1000 / (Sum * max(1, running_work:calibrate(Leaf)))}
             || {Leaf, Weight} <- Weights],
    Pilot = running_work:start(1, {slices, [{Leaf, rounds(Rounds)} || {Leaf, Rounds} <- Guess]}),
    timer:sleep(?PILOT_MS),
    Times = running_work:stop(Pilot),
    Factors = [Weight / maps:get(Leaf, Times) || {Leaf, Weight} <- Weights],
    Usual = bench_stats:median(Factors),
    [{Leaf, rounds(Rounds * F / Usual)} || {{Leaf, Rounds}, F} <- lists:zip(Guess, Factors)].

rounds(Rounds) -> max(1, round(Rounds)).

%% Where a slice's time belongs. The BIF of heavy_bif is the collector, and nearly
%% nothing else.
truth(Program, Times) ->
    maps:fold(
        fun
            (Leaf, Ns, Acc) when is_atom(Leaf) ->
                bench_shares:add(true_key(Program, Leaf), Ns, Acc);
            ({cpu, _}, _, Acc) -> Acc
        end,
        #{},
        Times
    ).

true_key(categories, erlang) -> erlang;
true_key(categories, light_bif) -> bif;
true_key(categories, nif) -> nif;
true_key(categories, heavy_bif) -> gc;
true_key(_, Leaf) -> Leaf.

%% ------------------------------------------------------------------ samplers --

turn(Sampler, Program, Slices) ->
    {Seen, Times} = sampled(Sampler, fun(Sampling) ->
        Workers = [running_work:start(S, {slices, Slices})
                   || S <- lists:seq(1, erlang:system_info(schedulers_online))],
        Answer = Sampling([Pid || {Pid, _, _} <- Workers], fun() -> timer:sleep(?TURN_MS) end),
        {Answer, bench_shares:sum([running_work:stop(W) || W <- Workers]), Workers}
    end),
    Counts = maps:fold(
        fun(Sample, N, Acc) -> bench_shares:add(seen_key(Program, Sample), N, Acc) end, #{}, Seen
    ),
    %% Between two slices nothing is timed.
    {maps:remove(none, Counts), truth(Program, Times)}.

%% What it was seen in: {Leaf, Category} each.
sampled(poller, Work) ->
    {Samples, Times, _} = Work(fun(Pids, Wait) ->
        Poller = bench_poller:start(Pids, ?INTERVAL_MS),
        Wait(),
        bench_poller:stop(Poller)
    end),
    {keyed(fun polled/1, Samples), Times};
sampled(Sampler, Work) ->
    {_, Samples, Times} = running_profile:record(
        options(Sampler), filename:join(["_build", "bench", "files"]),
        fun() ->
            {_, Times, Workers} = Work(fun(_, Wait) -> Wait() end),
            {Times, [Pid || {Pid, _, _} <- Workers]}
        end
    ),
    {keyed(fun profiled/1, Samples), Times}.

options(native) -> #{engine => native, sample_interval => ?INTERVAL_MS};
options(schedulers) -> #{engine => native, mode => schedulers, sample_interval => ?INTERVAL_MS};
options(portable) -> #{engine => portable, sample_interval => ?INTERVAL_MS}.

keyed(Key, Samples) ->
    maps:fold(fun(Sample, N, Acc) -> bench_shares:add(Key(Sample), N, Acc) end, #{}, Samples).

profiled({<<"waiting">>, _}) -> {none, erlang};
profiled({<<"garbage_collecting">>, Frames}) -> {leaf(Frames), gc};
profiled({_, Frames}) -> running_profile:leaf_of(Frames).

leaf(Frames) -> element(1, running_profile:leaf_of(Frames)).

polled({waiting, _}) ->
    {none, erlang};
polled({Status, Stack}) ->
    Frames = [{iolist_to_binary(io_lib:format("~w:~w/~w", [M, F, A])), <<>>} || {M, F, A} <- Stack],
    {leaf(Frames), category(Status, Stack)}.

category(garbage_collecting, _) -> gc;
category(_, [{running_test_nif, spin, 1} | _]) -> nif;
category(_, [{M, F, A} | _]) ->
    case erlang:is_builtin(M, F, A) of
        true -> bif;
        false -> erlang
    end;
category(_, []) -> erlang.

%% A worker that is in none of its slices is not counted by anybody.
seen_key(_, {none, _}) -> none;
seen_key(categories, {heavy_bif, bif}) -> gc;
seen_key(categories, {_, Category}) -> Category;
seen_key(_, {Leaf, _}) -> Leaf.

%% --------------------------------------------------------------------- shown --

%% Of each share what is true and what was seen, in percent: the truth of the
%% native engine's turns, and the errors of all.
show(Program, [{_, {_, True}} | _] = Each) ->
    Shares = bench_shares:percent(True),
    Keys = lists:usort(lists:append([maps:keys(bench_shares:errors(S, T)) || {_, {S, T}} <- Each])),
    io:format("~n~-14w ~8s", [Program, "true %"]),
    _ = [io:format(" ~11w", [Sampler]) || {Sampler, _} <- Each],
    io:format("   (points off)~n"),
    lists:foreach(
        fun(Key) ->
            io:format("~-14w ~8.2f", [Key, 1.0 * bench_shares:get(Key, Shares)]),
            _ = [io:format(" ~11.2f", [1.0 * bench_shares:get(Key, bench_shares:errors(S, T))])
                 || {_, {S, T}} <- Each],
            io:format("~n")
        end,
        Keys
    ),
    io:format("~n").

rows(Program, Sampler, Seen, True) ->
    Errors = bench_shares:errors(Seen, True),
    {_, Largest} = bench_shares:largest(Errors),
    Name = fun(What) -> iolist_to_binary(io_lib:format("~w, ~w: ~s", [Program, Sampler, What])) end,
    Row = #{section => accuracy, unit => <<"points">>},
    [
        bench_results:tell(Row#{
            name => Name("largest error of a share"),
            value => abs(Largest),
            counted => #{samples => bench_shares:total(Seen), shares => maps:size(Errors)}
        }),
        bench_results:tell(Row#{
            name => Name("total variation distance"), value => bench_shares:distance(Seen, True)
        })
        | [Row#{section => shares, name => Name(io_lib:format("~w, seen less true", [Key])),
            value => Error}
           || {Key, Error} <- lists:sort(maps:to_list(Errors))]
    ].
