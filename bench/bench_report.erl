%% The results of a run: judged, as JSON, as a chart, as the summary in doc/benchmarks.md
%% and as the tables of doc/benchmarks/tables.md.
-module(bench_report).

-export([main/1]).

-define(RESULTS, "_build/bench/results").
-define(JSON, "_build/bench/results.json").
-define(CHART, "doc/pictures/overhead.svg").
-define(PAGE, "doc/benchmarks.md").
-define(TABLES, "doc/benchmarks/tables.md").
-define(BEGIN, <<"<!-- begin: make bench-doc -->\n">>).
-define(END, <<"<!-- end: make bench-doc -->\n">>).

%% Ours takes ten times the samples of a peer, at the least.
-define(TIMES, 10).

%% `json' is for each run; `doc' puts it into the repository as well.
main([What]) ->
    case bench_results:load(?RESULTS) of
        {ok, Measured} ->
            Results = Measured ++ verdicts(Measured),
            ok = bench_results:save_json(?JSON, Results),
            ok = bench_results:record(os:getenv("PROOF_FIGURES"), Results),
            show(What, Results),
            halt(0);
        {error, Reason} ->
            io:format(standard_error, "bench: ~s: ~ts; `make bench' writes it~n", [
                ?RESULTS, file:format_error(Reason)
            ]),
            halt(1)
    end.

show(json, Results) ->
    io:format("~nEvery bar~n"),
    _ = [bench_results:tell(Result) || #{bar := _} = Result <- Results],
    io:format("~n~s has all of it~n", [?JSON]);
show(doc, Results) ->
    %% A run of other parts has no overhead, and would empty the page.
    [_ | _] = [Tool || #{section := overhead, tool := Tool} <- Results],
    ok = file:write_file(?CHART, bench_chart:svg(Results)),
    {ok, Page} = file:read_file(?PAGE),
    [Before, Rest] = binary:split(Page, ?BEGIN),
    [_, After] = binary:split(Rest, ?END),
    ok = file:write_file(?PAGE, [Before, ?BEGIN, summary(Results), ?END, After]),
    ok = file:write_file(?TABLES, tables(Results)),
    io:format("~s, ~s and ~s are of this run~n", [?PAGE, ?TABLES, ?CHART]).

%%% -------------------------------------------------------------------- verdicts --

%% Ours against each peer on each workload: in CPU time of the program's schedulers, and
%% in that of the whole VM, where our own threads count. perf's process counts nowhere,
%% which is in its favour.
verdicts(Results) ->
    Workloads = ordered([W || #{section := overhead, workload := W} <- Results]),
    [Row || W <- Workloads, Peer <- peers(W, Results), Row <- verdict(W, Peer, Results)].

peers(Workload, Results) ->
    [P || P <- bench_peers:names(), lists:member(bench_peers:kind(P), [samples, traces]),
          is_found(Workload, P, Results), opponent(Workload, P, Results) =/= none].

is_found(Workload, Tool, Results) ->
    found(Workload, bench_peers:title(Tool), work_per_vm_second, Results) =/= none.

verdict(Workload, Peer, Results) ->
    Own = bench_peers:title(opponent(Workload, Peer, Results)),
    Title = bench_peers:title(Peer),
    Costs = [
        row(Workload, Own, Title, Measure, <<"%">>, {not_above, Theirs}, #{
            value => Ours, interval => {Low, High}
        })
     || Measure <- [work_per_scheduler_second, work_per_vm_second],
        {Ours, Low, High} <- [cost(Workload, Own, Measure, Results)],
        {Theirs, _, _} <- [cost(Workload, Title, Measure, Results)]
    ],
    Costs ++ times(Workload, Peer, Own, Title, Results).

%% Percent of the CPU time.
cost(Workload, Title, Measure, Results) ->
    #{value := Ratio, interval := {Low, High}} = found(Workload, Title, Measure, Results),
    {100 * (1 - Ratio), 100 * (1 - High), 100 * (1 - Low)}.

%% The first of flame_prof's rows that took ten times the samples of a peer on this workload, or the
%% one that took the most; against those that trace, which take none, top 100 at 99 Hz.
opponent(Workload, Peer, Results) ->
    Least = ?TIMES * samples(Workload, bench_peers:title(Peer), Results),
    Ours = lists:sort([
        {samples(Workload, bench_peers:title(Name), Results), Name}
     || {native, _, _} = Name <- bench_peers:names(), is_found(Workload, Name, Results)
    ]),
    case {[Name || {Samples, Name} <- Ours, Samples >= Least], Ours} of
        {[First | _], _} -> First;
        {[], []} -> none;
        {[], _} -> element(2, lists:last(Ours))
    end.

times(Workload, Peer, Own, Title, Results) ->
    case {bench_peers:kind(Peer), samples(Workload, Own, Results),
        samples(Workload, Title, Results)} of
        {samples, Ours, Theirs} when Ours > 0, Theirs > 0 ->
            [row(Workload, Own, Title, samples,
                <<"times">>, {at_least, ?TIMES}, #{value => Ours / Theirs})];
        _ ->
            []
    end.

samples(Workload, Title, Results) ->
    case found(Workload, Title, work_per_scheduler_second, Results) of
        #{counted := #{samples_per_second := N}} -> N;
        _ -> 0
    end.

row(Workload, Own, Peer, Measure, Unit, Bar, Figures) ->
    Name = io_lib:format("~s: ~ts against ~ts: ~s", [Workload, Own, Peer, Measure]),
    Figures#{section => overhead_peers, workload => Workload, tool => Own, peer => Peer,
        measure => Measure,
             unit => Unit, bar => Bar, name => unicode:characters_to_binary(Name)}.

found(Workload, Title, Measure, Results) ->
    Found = [R || #{section := overhead, workload := W, tool := T, measure := M} = R <- Results,
                  W =:= Workload, T =:= Title, M =:= Measure],
    case Found of
        [] -> none;
        _ -> lists:last(Found)
    end.

%% Each once, in the order of their first appearance.
ordered(Things) ->
    lists:foldl(fun(T, Seen) -> Seen ++ [T || not lists:member(T, Seen)] end, [], Things).

%%% --------------------------------------------------------------------- summary --

%% Tools by workloads: percent of the VM's CPU time that each tool takes.
summary(Results) ->
    Rows = [R || #{section := overhead, measure := work_per_vm_second} = R <- Results],
    Workloads = ordered([W || #{workload := W} <- Rows]),
    Tools = ordered([T || #{tool := T} <- Rows]),
    unicode:characters_to_binary([
        machine(), "\n",
        cells(["" | [atom_to_binary(W) || W <- Workloads]]),
        "|", lists:duplicate(length(Workloads) + 1, "---|"), "\n",
        [cells([Tool | [taken(W, Tool, Results) || W <- Workloads]]) || Tool <- Tools], "\n"
    ]).

taken(Workload, Tool, Results) ->
    case found(Workload, Tool, work_per_vm_second, Results) of
        none -> "";
        #{value := Ratio} -> io_lib:format("~.1f", [100.0 * (1 - Ratio)])
    end.

machine() ->
    #{otp := Otp, schedulers := Schedulers, processor := Processor} = bench_results:machine(),
    {Date, _} = calendar:universal_time(),
    io_lib:format("~nOTP ~ts, ~b schedulers, ~ts, ~4..0b-~2..0b-~2..0b.~n",
                  [Otp, Schedulers, Processor | tuple_to_list(Date)]).

%%% ---------------------------------------------------------------------- tables --

tables(Results) ->
    unicode:characters_to_binary([
        "# Benchmark tables\n\nWritten by `make bench-doc`; [benchmarks.md](../benchmarks.md) has "
        "the summary.\n", machine(),
        [section(S, Results) || S <- ordered([S || #{section := S} <- Results])]
    ]).

section(overhead, Results) ->
    ["\n### Overhead, for each workload\n", [overhead(W, Results) || W <- ordered(
        [W || #{section := overhead, workload := W} <- Results])],
     "\n### Overhead: the bars\n", table([R || #{section := overhead, bar := _} = R <- Results])];
section(overhead_peers, Results) ->
    Rows = [R || #{section := overhead_peers} = R <- Results],
    [
        "\n### Overhead: flame_prof against each peer\n\n"
        "CPU time that each takes, in percent, and whether flame_prof's is above by more than its\n"
        "interval; flame_prof's samples for one of the peer's, where the peer takes samples.\n\n"
        "| | flame_prof | of the schedulers | | of the whole VM | | samples | |\n|---|---|---|---|---|---|---|---|\n",
        [against(Pair, Rows) || Pair <- ordered([{W, P, T}
            || #{workload := W, peer := P, tool := T} <- Rows])]
    ];
section(Section, Results) ->
    ["\n### ", heading(Section), "\n", table([R || #{section := S} = R <- Results, S =:= Section])].

against({Workload, Peer, Own}, Rows) ->
    Figures = [[R || #{workload := W, peer := P, measure := M} = R <- Rows, W =:= Workload,
        P =:= Peer, M =:= Measure]
            || Measure <- [work_per_scheduler_second, work_per_vm_second, samples]],
    cells([[atom_to_binary(Workload), ": ", Peer],
        Own | lists:append([judged(Found) || Found <- Figures])]).

judged([]) ->
    ["", ""];
judged([#{value := Value, bar := {not_above, Theirs}} = Row]) ->
    [io_lib:format("~.1f, peer ~.1f", [Value * 1.0, Theirs * 1.0]), met(Row)];
judged([#{value := Value} = Row]) ->
    [io_lib:format("~.1f", [Value * 1.0]), met(Row)].

heading(overhead_left_out) -> "Overhead: what was not measured";
heading(Section) ->
    [First | Rest] = atom_to_list(Section),
    [string:to_upper(First) | string:replace(Rest, "_", " ", all)].

overhead(Workload, Results) ->
    Tools = ordered([T || #{section := overhead, workload := W, tool := T} <- Results,
        W =:= Workload]),
    [
        io_lib:format("~n**~s**~n~n", [Workload]),
        "| | work for a CPU second of the schedulers | of the whole VM | for a second | p50 | p99 | p99.9 | a second |\n"
        "|---|---|---|---|---|---|---|---|\n",
        [tool(Workload, Tool, Results) || Tool <- Tools]
    ].

tool(Workload, Tool, Results) ->
    Cell = fun(Measure, Show) -> Show(found(Workload, Tool, Measure, Results)) end,
    cells([
        Tool,
        Cell(work_per_scheduler_second, fun with_interval/1),
            Cell(work_per_vm_second, fun with_interval/1),
        Cell(work_per_second, fun plain/1), Cell(p50, fun plain/1), Cell(p99, fun with_interval/1),
        Cell(p999, fun plain/1), Cell(work_per_scheduler_second, fun rate/1)
    ]).

plain(none) -> "";
plain(#{value := Value}) -> io_lib:format("~.3f", [Value * 1.0]).

with_interval(none) -> "";
with_interval(#{value := Value, interval := {Low, High}}) ->
    io_lib:format("~.3f (~.3f to ~.3f)", [Value * 1.0, Low * 1.0, High * 1.0]).

rate(#{counted := #{samples_per_second := N}}) -> io_lib:format("~b samples", [N]);
rate(#{counted := #{events_per_second := N}}) -> io_lib:format("~b calls", [N]);
rate(#{counted := #{trace_bytes_per_second := N}}) -> io_lib:format("~b kB of trace", [N div 1000]);
rate(_) -> "".

table(Rows) ->
    ["\n| | value | 95 % | bar | |\n|---|---|---|---|---|\n", [cells(line(Row)) || Row <- Rows]].

line(#{name := Name, value := Value, unit := Unit} = Row) ->
    [
        Name,
        [bench_results:number(Value), " ", Unit],
        case Row of
            #{interval := {Low, High}} ->
                [bench_results:number(Low), " to ", bench_results:number(High)];
            #{} -> ""
        end,
        case Row of
            #{bar := {Kind, Bar}} -> [words(Kind), " ", bench_results:number(Bar), ": ", met(Row)];
            #{} -> ""
        end,
        case Row of
            #{note := Note} -> Note;
            #{counted := Counted} ->
                lists:join(", ", [[string:replace(atom_to_list(K), "_", " ", all), " ",
                    bench_results:number(N)]
                                  || {K, N} <- lists:sort(maps:to_list(Counted))]);
            #{} -> ""
        end
    ].

words(at_least) -> "at least";
words(at_most) -> "at most";
words(not_above) -> "within noise of".

met(Row) ->
    case bench_results:meets_bar(Row) of
        true -> "met";
        false -> "**not met**"
    end.

cells(Texts) -> ["| ", lists:join(" | ", [escaped(T) || T <- Texts]), " |\n"].

escaped(Text) -> string:replace(unicode:characters_to_binary(Text), "|", "\\|", all).
