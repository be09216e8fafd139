%% What flame_prof and Linux perf say of the same schedulers in the same seconds, and
%% what is true: the workers time their slices. Needs a VM that writes perf's map
%% itself (+JPperf true) and perf (Debian: linux-perf) that may count cpu-clock:u.
%%
%% Compared with each other is what runs on top of each sample: an Erlang function by
%% its name; C by its library, because names of a stripped library are a matter of
%% convention (perf takes the symbol before the address, we want the address to be
%% inside of it); the JIT's shared code as one. Compared with the truth are shares of
%% Erlang functions that call nothing, since perf has only what is on top.
-module(bench_agreement).

-export([run/1]).

-define(HZ, 499).
-define(INTERVAL_MS, 2).
-define(SHOWN, 15).
-define(SLICE_NS, 2000000).
-define(LEAVES, [leaf_a, leaf_b, floats, maps, binaries, dictionary, messages, exceptions, funs,
                 guard_bif, light_bif, tables, nif]).
-define(PURE, [{leaf_a, 60}, {leaf_b, 30}, {leaf_c, 10}]).

-spec run(pos_integer()) -> [bench_results:result()].
run(Seconds) ->
    ok = running_test_nif:build(),
    case os:find_executable("perf") of
        false -> skip("perf is missing (Debian: linux-perf)");
        _ -> compared(2 * Seconds)
    end.

compared(Seconds) ->
    Results = of_all_kinds(Seconds) ++ of_functions(Seconds),
    _ = file:delete("/tmp/perf-" ++ os:getpid() ++ ".map"),
    Results.

skip(Why) ->
    io:format("not compared with perf: ~ts~n", [Why]),
    [].

of_all_kinds(Seconds) ->
    Slices = [{Leaf, rounds(Leaf, ?SLICE_NS)} || Leaf <- ?LEAVES],
    case both(untimed_slices, Slices, Seconds) of
        {error, Said} ->
            skip(["it has no samples here: ", Said]);
        {Ours, Theirs, _} ->
            ok = show(Ours, Theirs),
            Shared = bench_shares:percent(Theirs),
            [
                row(<<"perf and native, 13 kinds of work: distance of all shares">>,
                    bench_shares:distance(Ours, Theirs), counted(Ours, Theirs)),
                row(<<"the same without the JIT's shared code">>,
                    bench_shares:distance(maps:remove(shared, Ours), maps:remove(shared, Theirs)),
                    #{percent_shared_of_perf => bench_shares:get(shared, Shared)})
            ]
    end.

of_functions(Seconds) ->
    Sum = lists:sum([Weight || {_, Weight} <- ?PURE]),
    Slices = [{Leaf, rounds(Leaf, 10 * ?SLICE_NS * Weight div Sum)} || {Leaf, Weight} <- ?PURE],
    case both(slices, Slices, Seconds) of
        {error, _} ->
            [];
        {Ours, Theirs, Times} ->
            True = maps:from_list([{{erlang, function(L)}, maps:get({cpu, L}, Times)}
                || {L, _} <- ?PURE]),
            lists:append([
                errors(Who, maps:with(maps:keys(True), Seen), True)
             || {Who, Seen} <- [{<<"native beside perf">>, Ours}, {<<"perf">>, Theirs}]
            ])
    end.

errors(Who, Seen, True) ->
    {_, Largest} = bench_shares:largest(bench_shares:errors(Seen, True)),
    Name = <<"functions' CPU time, ", Who/binary, ": largest error">>,
    [row(Name, abs(Largest), #{samples => bench_shares:total(Seen)})].

function(Leaf) -> maps:get(Leaf, running_work:leaves()).

rounds(Leaf, Ns) -> max(1, Ns * 1000 div max(1, running_work:calibrate(Leaf))).

row(Name, Value, Counted) ->
    bench_results:tell(#{
        section => accuracy, name => Name, value => Value, unit => <<"points">>, counted => Counted
    }).

counted(Ours, Theirs) ->
    #{ours => bench_shares:total(Ours), perfs => bench_shares:total(Theirs)}.

%% ------------------------------------------------------- both at the same time --

both(Timed, Slices, Seconds) ->
    Workers = [running_work:start(S, {Timed, Slices})
               || S <- lists:seq(1, erlang:system_info(schedulers_online))],
    {ok, _} = flame_prof:start(#{
        dir => filename:join(["_build", "bench", "files"]), mode => schedulers,
        sample_interval => ?INTERVAL_MS, cpu_budget => infinity
    }),
    Data = filename:join(["_build", "bench", "perf.data"]),
    {Begin, End, Said} = bench_perf:record(Data, ?HZ, Seconds),
    {ok, #{files := Files}} = flame_prof:stop(),
    Times = bench_shares:sum([running_work:stop(W) || W <- Workers]),
    Ours = ours(Files, Begin, End),
    Theirs = theirs(bench_perf:samples(Data)),
    ok = bench_session:remove(Files),
    _ = file:delete(Data),
    case maps:size(Theirs) of
        0 -> {error, Said};
        _ -> {Ours, Theirs, Times}
    end.

theirs(Samples) ->
    maps:fold(fun(Frame, N, Acc) -> bench_shares:add(of_perf(Frame), N, Acc) end, #{}, Samples).

%% beam_jit_main.cpp: `$module:function/arity' for functions.
of_perf({<<$$, Function/binary>>, _Dso}) ->
    case re:run(Function, "^.+:.+/[0-9]+(-[A-Z]+)?$", [{capture, none}]) of
        match -> {erlang, hd(binary:split(Function, <<"-CodeInfo">>))};
        nomatch -> shared
    end;
of_perf({_Symbol, Dso}) ->
    case re:run(Dso, "perf-[0-9]+\\.map|memfd|^//anon|jitted", [{capture, none}]) of
        match -> shared;
        nomatch -> {library, filename:basename(Dso)}
    end.

ours(Files, Begin, End) ->
    {ok, Counts, _} = flame_prof:fold(
        fun
            (#{time_us := Us, frames := Frames}, Acc) when Us >= Begin, Us =< End ->
                add(top(Frames), Acc);
            (_, Acc) ->
                Acc
        end,
        #{},
        Files
    ),
    Counts.

add(idle, Counts) -> Counts;
add(Top, Counts) -> bench_shares:add(Top, 1, Counts).

top([{<<"[idle]">>, <<"flame_prof">>} | _]) -> idle;
top([{<<"[gc]">>, <<"flame_prof">>} | _]) -> {library, <<"beam.smp">>};
top([{_, <<"flame_prof">>} | _]) -> shared;
%% The BIF or NIF itself is C that has no frames: its library is not known.
top([{_, Kind} | _]) when Kind =:= <<"bif">>; Kind =:= <<"nif">> -> {library, Kind};
top([{Symbol, Dso} | _]) ->
    case filename:extension(Dso) of
        <<".erl">> -> {erlang, flame_prof_frames:decode(running_profile:plain(Symbol))};
        _ -> {library, Dso}
    end.

%% -------------------------------------------------------------------- shown --

show(Ours, Theirs) ->
    {A, B} = {bench_shares:percent(Ours), bench_shares:percent(Theirs)},
    Rows = [{bench_shares:get(K, A), bench_shares:get(K, B), K}
        || K <- maps:keys(maps:merge(A, B))],
    io:format("~8s ~8s ~8s~n", ["ours %", "perf %", "differ"]),
    lists:foreach(
        fun({O, T, Key}) -> io:format("~8.2f ~8.2f ~8.2f  ~ts~n",
            [1.0 * O, 1.0 * T, 1.0 * O - T, text(Key)]) end,
        lists:sublist(lists:reverse(lists:sort(Rows)), ?SHOWN)
    ),
    io:format("~n").

text(shared) -> "[the JIT's shared code]";
text({erlang, Function}) -> Function;
text({library, Library}) -> ["[", Library, "]"].
