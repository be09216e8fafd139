%% What the viewer should show of a profile, computed from the text of the file by
%% the reader in Erlang, which shares nothing with the index or the page.
%%
%%     viewer_oracle:main(["FILE", "OUT.json"])
%%
%% Each query has the state that the page is to be put in (`hash'), and what it then
%% saves as CSV: viewer/test/run.mjs compares.
-module(viewer_oracle).

-export([main/1]).

-define(SECOND, 1000000).
-define(SAMPLED_WITHIN, 1500000).

main([File, Out]) ->
    {ok, Reversed, _} = reader_oracle:fold(fun(S, Acc) -> [slim(S) | Acc] end, [], File),
    Samples = lists:reverse(Reversed),
    Start = maps:get(time_us, hd(Samples)),
    Rows = with_since([S#{at := T - Start} || #{at := T} = S <- named(Samples)]),
    Metrics = lists:sort(maps:keys(maps:get(metrics, hd(Rows)))),
    {ok, Own, _} = reader_oracle:own(File),
    #{figures := #{<<"ticks">> := {Ticks, _}, <<"dropped">> := {Dropped, _}}} = lists:last(Own),
    Result = #{samples => lists:sum([N || #{looks := N} <- Rows]), ticks => Ticks,
        isWhole => Dropped =:= 0 andalso lists:all(fun(#{looks := N}) -> N =:= 1 end, Rows),
        lines => lines(File, Start),
        heat => heats(Rows, Metrics), flame => flames(Rows, Metrics),
        compare => [compared(Rows, {0, ?SECOND}, {2 * ?SECOND, 3 * ?SECOND}, M)
                    || M <- [samples, {delta, <<"reductions">>}, {value, <<"memory">>}]],
        processes => [processes(Rows, Range) || Range <- [all, {?SECOND, 2 * ?SECOND}]],
        functions => [functions(Rows, M) || M <- [samples, {delta, <<"reductions">>}]]},
    ok = file:write_file(Out, flame_prof_json:encode_for_page(Result)).

slim(#{time_us := Time, period := Looks, status := Status, frames := Frames, metrics := Metrics,
    words := Words, pid := OsPid}) ->
    Lines = lists:reverse([shown(binary:copy(F)) || {F, _} <- Frames]),
    #{time_us => Time, at => Time, looks => Looks, status => Status, metrics => Metrics,
        os_pid => OsPid, lines => Lines, frames => [without_line(F) || F <- Lines],
      words => maps:map(fun(_, W) -> binary:copy(W) end, Words)}.

%% A process is called what it was called last.
named(Samples) ->
    Words = lists:foldl(fun(#{words := #{<<"erl_pid">> := Pid} = W}, Acc) -> Acc#{Pid => W} end,
                        #{}, Samples),
    [S#{pid => Pid, label => label(maps:get(Pid, Words))}
     || #{words := #{<<"erl_pid">> := Pid}} = S <- Samples].

%% What stands for several looks had them since the process' sample before.
with_since(Rows) ->
    {All, _} = lists:mapfoldl(fun(#{pid := Pid, at := At} = S, Last) ->
        {S#{since => maps:get(Pid, Last, At)}, Last#{Pid => At}} end,
        #{}, Rows),
    All.

label(Words) ->
    [Text | _] = [T || Key <- [<<"name">>, <<"label">>, <<"proc_lib_initial_call">>,
                               <<"initial_call">>, <<"erl_pid">>],
                       {ok, T} <- [maps:find(Key, Words)]],
    shown(Text).

shown(Text) -> flame_prof_names:function(flame_prof_frames:decode(Text)).

%% The page opens on what was on a CPU or ready; the oracle counts all, unless it says so, and
%% looks at the heatmap.
text(Parts) ->
    Text = iolist_to_binary(Parts),
    case binary:match(Text, <<"&show=">>) of
        nomatch -> <<Text/binary, "&heat=1&show=all">>;
        _ -> <<Text/binary, "&heat=1">>
    end.

%%% Heatmaps: [CellUs, Sum, Samples] of the cells that have samples.

heats(Rows, Metrics) ->
    [heat(Rows, samples, N) || N <- [10, 25, 50, 100]] ++
        [heat(Rows, {Kind, M}, 50) || M <- Metrics, Kind <- [value, delta]].

heat(Rows, {value, Metric} = Measure, PerSecond) ->
    CellUs = ?SECOND div PerSecond,
    Process = fun(#{os_pid := Os, pid := Pid}) -> {Os, Pid} end,
    Steps = [Step || One <- maps:values(maps:groups_from_list(Process, Rows)),
        Step <- steps(lists:keysort(1, [{At, figure(Measure, S)} || #{at := At} = S <- One]))],
    Areas = lists:foldl(fun(Step, Acc) -> area(Step, CellUs, Acc) end, #{}, Steps),
    End = lists:max([At || #{at := At} <- Rows]),
    #{hash => text([<<"measure=">>, Metric, <<"&rows=">>, integer_to_binary(PerSecond)]),
      cells => [[C * CellUs, Area / min(CellUs, End - C * CellUs)]
                || {C, Area} <- lists:sort(maps:to_list(Areas))]};
heat(Rows, Measure, PerSecond) ->
    CellUs = ?SECOND div PerSecond,
    Cells = lists:foldl(fun(#{at := At} = S, Acc) ->
        {W, N} = last_look(Measure, S),
        maps:update_with(floor(At / CellUs), fun({Sum, Looks}) -> {Sum + W, Looks + N} end,
            {W, N}, Acc)
    end, #{}, Rows),
    #{hash => text([<<"measure=">>, id(Measure), <<"&rows=">>, integer_to_binary(PerSecond)]),
      cells => [[C * CellUs, Sum, N] || {C, {Sum, N}} <- lists:sort(maps:to_list(Cells))]}.

%% A process has what its last sample said until its next one, unless that comes too late.
steps([{From, Value} | [{To, _} | _] = Next]) when To - From =< ?SAMPLED_WITHIN ->
    [{From, To, Value} | steps(Next)];
steps([_ | Next]) -> steps(Next);
steps([]) -> [].

%% From cell to cell.
area({From, To, _}, _, Areas) when From >= To -> Areas;
area({From, To, Value}, CellUs, Areas) ->
    Cell = floor(From / CellUs),
    Until = min(To, (Cell + 1) * CellUs),
    Area = Value * (Until - From),
    area({Until, To, Value}, CellUs, maps:update_with(Cell, fun(A) -> A + Area end, Area, Areas)).

%% Of several looks only the last one has a time that the file tells. What changed, changed there.
last_look(samples, #{looks := N}) when N > 1 -> {1, 1};
last_look(Measure, #{looks := N} = S) -> {weight(Measure, S), min(1, N)}.

weight(samples, #{looks := N}) -> N;
weight({value, _} = Measure, #{looks := N} = S) -> N * figure(Measure, S);
weight(Measure, S) -> figure(Measure, S).

figure({value, M}, #{metrics := Metrics}) -> element(1, maps:get(M, Metrics));
figure({delta, M}, #{metrics := Metrics}) -> element(2, maps:get(M, Metrics)).

id(samples) -> <<"samples">>;
id({value, M}) -> M;
id({delta, M}) -> <<M/binary, ".delta">>.

%%% Lines: [Second, RateMillihertz, RunQueues, Memory, Missed, Dropped, Active,
%%% Total], of the flush that came in that second or next after it; the last two are
%%% times of schedulers, 0 where they are not told.

lines(File, Start) ->
    {ok, Own, _} = reader_oracle:own(File),
    {Lines, _} = lists:mapfoldl(fun(#{time_us := Time, figures := Figures}, From) ->
        To = (Time - Start) div ?SECOND,
        Of = fun(Key) -> maps:get(Key, Figures) end,
        {Rate, _} = Of(<<"rate_millihertz">>),
        {Queues, _} = Of(<<"node_run_queues">>),
        {Memory, _} = Of(<<"node_memory_total">>),
        {_, Missed} = Of(<<"missed">>),
        {_, Dropped} = Of(<<"dropped">>),
        {_, Active} = maps:get(<<"node_schedulers_active">>, Figures, {0, 0}),
        {_, Total} = maps:get(<<"node_schedulers_total">>, Figures, {0, 0}),
        {[[Second, Rate, Queues, Memory, Missed, Dropped, Active, Total]
            || Second <- lists:seq(From, To)], To + 1}
    end, 0, Own),
    lists:append(Lines).

%%% Flame graphs: what each stack has itself, [Path, Weight, Samples].

flames(Rows, Metrics) ->
    Every = [samples] ++ [{Kind, M} || M <- Metrics, Kind <- [value, delta]],
    Delta = {delta, <<"memory">>},
    [flame(Rows, M, all, default(M), []) || M <- Every] ++
        [flame(Rows, M, Range, default(M), [])
         || M <- [samples, {delta, <<"reductions">>}, {value, <<"memory">>}],
            Range <- [{0, ?SECOND}, {1 * ?SECOND + 20000, 2 * ?SECOND + 500000}]] ++
        [flame(Rows, M, all, Levels, [])
         || {M, Levels} <- [{samples, [memory, status]}, {samples, [status, memory]},
                            {samples, []}, {samples, [process]}, {samples, [node, pid]},
                            {samples, [queue, process, status]},
                            {Delta, [sign, memory, queue]}, {Delta, [status, sign]},
                            {{value, <<"memory">>}, [memory, queue, status, process]}]] ++
        [flame(Rows, M, all, default(M), [O])
         || M <- [samples, {delta, <<"reductions">>}], O <- [inverted, merge, lines, busy]] ++
        [flame(Rows, samples, all, [status], [{hide, <<"gen_server">>}])].

default({delta, _}) -> [sign, status];
default(_) -> [status].

flame(Rows, Measure, Range, Levels, Options) ->
    Stacks = stacks([S || S <- Rows, in(Range, S)], Measure, Levels, Options),
    #{hash => text([<<"measure=">>, id(Measure),
        <<"&levels=">>, levels(Levels), range(<<"range">>, Range), [option(O) || O <- Options]]),
      stacks => [[Path, W, N] || {Path, {W, N}} <- maps:to_list(Stacks)]}.

levels(Levels) -> lists:join(<<".">>, [atom_to_binary(L) || L <- Levels]).

range(_, all) -> [];
range(Key, {From, To}) -> [<<"&">>, Key, <<"=">>, integer_to_binary(From),
    <<"-">>, integer_to_binary(To)].

option(busy) -> <<"&show=busy">>;
option({hide, Module}) -> [<<"&hide=">>, Module];
option(Option) -> [<<"&">>, atom_to_binary(Option), <<"=1">>].

in(all, _) -> true;
in({From, To}, #{at := At}) -> At >= From andalso At < To.

stacks(Rows, Measure, Levels, Options) ->
    Kept = [S || #{status := Status} = S <- Rows,
                 not lists:member(busy, Options) orelse lists:member(Status,
                     [<<"running">>, <<"runnable">>, <<"garbage_collecting">>])],
    lists:foldl(fun(#{looks := Looks} = S, Acc) ->
        case weight(Measure, S) of
            0 -> Acc;
            W ->
                Path = [level(L, S, W) || L <- Levels] ++ frames(S, Options),
                maps:update_with(iolist_to_binary(lists:join(<<";">>, Path)),
                                 fun({Sum, N}) ->
                                     {Sum + abs(W), N + Looks} end, {abs(W), Looks}, Acc)
        end
    end, #{}, Kept).

frames(#{frames := Frames}, []) -> Frames;
frames(#{frames := Frames, lines := Lines}, Options) ->
    Frames1 = case lists:member(lines, Options) of true -> Lines; false -> Frames end,
    Frames2 = [F || F <- Frames1, [] =:= [M || {hide, M} <- Options,
        hd(binary:split(F, <<":">>)) =:= M]],
    Frames3 = case lists:member(inverted, Options) of
        true -> lists:reverse(Frames2);
        false -> Frames2
    end,
    case lists:member(merge, Options) of true -> merged(Frames3); false -> Frames3 end.

merged([F, F | Frames]) -> merged([F | Frames]);
merged([F | Frames]) -> [F | merged(Frames)];
merged([]) -> [].

without_line(Frame) -> re:replace(Frame, "(/[0-9]+):[0-9]+$", "\\1", [{return, binary}]).

level(sign, _, W) when W < 0 -> <<"negative">>;
level(sign, _, _) -> <<"positive">>;
level(status, #{status := Status}, _) -> Status;
level(process, #{label := Label}, _) -> Label;
level(pid, #{pid := Pid}, _) -> Pid;
level(node, #{os_pid := Pid}, _) -> <<"os_pid_", (integer_to_binary(Pid))/binary>>;
level(memory, S, _) ->
    class(<<"memory">>, figure({value, <<"memory">>}, S), 1024,
          [<<"_B">>, <<"_KiB">>, <<"_MiB">>, <<"_GiB">>]);
level(queue, S, _) ->
    class(<<"queue">>, figure({value, <<"message_queue_len">>}, S), 1000,
          [<<>>, <<"_k">>, <<"_M">>]).

class(What, 0, _Base, _Units) -> <<What/binary, "_0">>;
class(What, N, Base, [_ | Units]) when N >= Base -> class(What, N div Base, Base, Units);
class(What, N, _Base, [Unit | _]) when N >= 100 -> <<What/binary, "_100s", Unit/binary>>;
class(What, N, _Base, [Unit | _]) when N >= 10 -> <<What/binary, "_10s", Unit/binary>>;
class(What, _, _Base, [Unit | _]) -> <<What/binary, "_1s", Unit/binary>>.

%%% Comparison: [Path, Self of A, Self of B] of all stacks of either.

compared(Rows, A, B, Measure) ->
    Levels = default(Measure),
    [Here, There] = [stacks([S || S <- Rows, in(R, S)], Measure, Levels, []) || R <- [A, B]],
    Paths = lists:usort(maps:keys(Here) ++ maps:keys(There)),
    Of = fun(Path, Map) -> element(1, maps:get(Path, Map, {0, 0})) end,
    #{hash => text([<<"view=compare&measure=">>, id(Measure),
        range(<<"range">>, A), range(<<"otherRange">>, B)]),
      stacks => [[P, Of(P, Here), Of(P, There)] || P <- Paths]}.

%%% Tables

processes(Rows, Range) ->
    Table = lists:foldl(
        fun(#{pid := Pid, label := Label, status := Status, looks := Looks} = S, Acc) ->
            New = #{pid => Pid, name => Label, samples => 0, reductions => 0, queue_peak => 0,
                    memory_peak => 0, binaries_peak => 0, growth => 0, statuses => #{}},
            #{samples := N, reductions := R, queue_peak := Q, memory_peak := M, growth := G,
              binaries_peak := B, statuses := Statuses} = P = maps:get(Pid, Acc, New),
            Acc#{Pid => P#{samples := N + Looks,
                           reductions := R + weight({delta, <<"reductions">>}, S),
                           queue_peak := max(Q, figure({value, <<"message_queue_len">>}, S)),
                           memory_peak := max(M, figure({value, <<"memory">>}, S)),
                           binaries_peak := max(B, binaries(S)),
                           growth := G + weight({delta, <<"memory">>}, S),
                           statuses := maps:update_with(Status, fun(C) -> C + Looks end, Looks,
                               Statuses)}}
        end, #{}, [S || S <- Rows, in(Range, S)]),
    #{hash => text([<<"view=processes">>, range(<<"range">>, Range)]), rows => maps:values(Table)}.

%% Metrics of words, in bytes.
binaries(S) ->
    8 * lists:sum([figure({value, M}, S) || M <- [<<"bin_vheap_size">>, <<"bin_old_vheap_size">>]]).

functions(Rows, Measure) ->
    Table = lists:foldl(fun(#{frames := Frames} = S, Acc) ->
        W = abs(weight(Measure, S)),
        Leaf = lists:last([none | Frames]),
        lists:foldl(fun(Name, In) ->
            Self = case Name of Leaf -> W; _ -> 0 end,
            maps:update_with(Name, fun({T, L}) -> {T + W, L + Self} end, {W, Self}, In)
        end, Acc, lists:usort(Frames))
    end, #{}, [S || S <- Rows, weight(Measure, S) =/= 0]),
    #{hash => text([<<"view=sandwich&measure=">>, id(Measure)]),
      rows => [[Name, Total, Self] || {Name, {Total, Self}} <- maps:to_list(Table)]}.
