%% Is a burst of 20 ms where it was? A process computes for 20 ms each second, at a
%% time of the second that it chooses anew, and keeps its own record of begin and end
%% by the system's clock. Compared with that are the samples' times in the file, and
%% the cells of the heatmap that the viewer's own code makes of the file's index: a
%% cell is right when the burst was going on in it, or within a tick of it, because a
%% sample tells what was then.
-module(bench_timing).

-export([run/1]).
%% So that they stand on the stack.
-export([burst/1]).

-define(BURST_MS, 20).
-define(PERIOD_MS, 1000).
%% Rows a second, and what the heat is.
-define(HEATMAPS, [{50, "samples"}, {50, "reductions.delta"}, {100, "samples"}]).
-define(DIRECTORY, "_build/bench/timing").

%% By the system's clock, in microseconds.
-type burst() :: {Begin :: integer(), End :: integer()}.

-spec run(pos_integer()) -> [bench_results:result()].
run(Seconds) ->
    %% Selected from the start, so that no selection has to find it.
    lists:append([
        of_engine(Engine, Hz, max(3, 4 * Seconds))
     || Engine <- [native, portable], Hz <- [99, 333]
    ]).

of_engine(Engine, Hz, Bursts) ->
    Burster = spawn_link(fun() -> bursts(Bursts, []) end),
    Options = bench_session:options(20, Hz),
    {ok, _} = flame_prof:start(Options#{
        engine => Engine, dir => ?DIRECTORY, include => [Burster]
    }),
    timer:sleep(300),
    Burster ! {self(), begin_},
    Recorded = receive {Burster, Done} -> Done end,
    timer:sleep(300),
    {ok, #{files := Files}} = flame_prof:stop(),
    Name = fun(What) -> iolist_to_binary(io_lib:format("~w, ~w Hz: ~ts", [Engine, Hz, What])) end,
    TickUs = 1000 * bench_session:interval(Hz),
    Rows = of_samples(Name, samples(Files, pid(Burster)), Recorded, TickUs) ++
        of_heat(os:find_executable("node"), Name, Files, pid(Burster), Recorded, TickUs),
    unlink(Burster),
    exit(Burster, kill),
    ok = bench_session:remove(Files),
    Rows.

pid(Pid) -> list_to_binary(pid_to_list(Pid)).

told(Name, Value, Unit, Counted) ->
    bench_results:tell((bar(Name, Unit))#{
        section => timing, name => Name, value => Value, unit => Unit, counted => Counted
    }).

%% The portable engine sees a process that runs when that can be interrupted.
bar(<<"native", _/binary>>, <<"%">>) -> #{bar => {at_least, 99}};
bar(_, _) -> #{}.

%% ----------------------------------------------------------------- the bursts --

bursts(Count, Recorded) ->
    receive
        {From, begin_} ->
            From ! {self(), lists:reverse(bursts(Count, erlang:monotonic_time(millisecond),
                Recorded))}
    end,
    receive never -> ok end.

bursts(0, _, Recorded) ->
    Recorded;
bursts(Count, Due, Recorded) ->
    Phase = rand:uniform(?PERIOD_MS - 2 * ?BURST_MS),
    timer:sleep(max(0, Due + Phase - erlang:monotonic_time(millisecond))),
    Begin = os:system_time(microsecond),
    _ = burst(Begin + 1000 * ?BURST_MS),
    bursts(Count - 1, Due + ?PERIOD_MS, [{Begin, os:system_time(microsecond)} | Recorded]).

-spec burst(Until :: integer()) -> integer().
burst(Until) ->
    _ = spin(1000, 0),
    case os:system_time(microsecond) of
        Now when Now >= Until -> Now;
        _ -> burst(Until)
    end.

spin(0, Acc) -> Acc;
spin(N, Acc) -> spin(N - 1, Acc bxor N).

%% ---------------------------------------------------------------- the samples --

%% Times of those whose stack has the burst.
samples(Files, Pid) ->
    {ok, Times, _} = flame_prof:fold(
        fun
            (#{time_us := Us, frames := Frames, words := #{<<"erl_pid">> := P}}, Acc)
                when P =:= Pid ->
                case [S || {S, _} <- Frames, is_burst(S)] of
                    [] -> Acc;
                    _ -> [Us | Acc]
                end;
            (_, Acc) ->
                Acc
        end,
        [],
        Files
    ),
    lists:reverse(Times).

is_burst(<<"bench_timing:burst/1", _/binary>>) -> true;
is_burst(_) -> false.

of_samples(Name, Times, Recorded, TickUs) ->
    Offsets = [offset(Time, Time, Recorded) || Time <- Times],
    Inside = length([1 || 0 <- Offsets]),
    Seen = length([1 || {Begin, End} <- Recorded, lists:any(fun(T) -> T >= Begin
        andalso T =< End end, Times)]),
    Lasted = lists:sum([End - Begin || {Begin, End} <- Recorded]),
    Counted = #{samples => length(Times), expected => Lasted div TickUs,
        bursts => length(Recorded)},
    [
        told(Name("samples of a burst inside of it"), percent(Inside, length(Times)),
            <<"%">>, Counted),
        told(Name("bursts seen"), percent(Seen, length(Recorded)), <<"%">>, #{}),
        told(Name("farthest sample from its burst"), lists:max([0 | Offsets]) / 1000, <<"ms">>, #{})
    ].

percent(_, 0) -> 0.0;
percent(N, All) -> 100 * N / All.

%% Microseconds from [From, To] to the nearest burst; 0 when they meet.
-spec offset(integer(), integer(), [burst()]) -> non_neg_integer().
offset(From, To, Recorded) ->
    lists:min([max(0, max(Begin - To, From - End)) || {Begin, End} <- Recorded]).

%% ---------------------------------------------------------------- the heatmap --

of_heat(false, _, _, _, _, _) ->
    io:format("no heatmap: node, which runs the viewer's code, is not installed~n"),
    [];
of_heat(Node, Name, Files, Pid, Recorded, TickUs) ->
    Index = ?DIRECTORY ++ "/bench.index",
    {ok, Profile} = flame_prof_profile:read(Files),
    {ok, _} = flame_prof_profile:index(Profile, Index),
    ok = flame_prof_profile:close(Profile),
    Rows = [
        of_cells(Name, N, Measure, cells(Node, Index, Pid, N, Measure), Recorded, TickUs)
     || {N, Measure} <- ?HEATMAPS
    ],
    ok = file:delete(Index),
    Rows.

%% By Unix time: [{FromUs, ToUs, Value}].
cells(Node, Index, Pid, Rows, Measure) ->
    Said = Index ++ ".cells",
    "" = os:cmd(lists:flatten(lists:join(" ", [
        Node, "bench/heat_cells.mjs", Index, [$', binary_to_list(Pid), $'], integer_to_list(Rows),
            Measure, ">", Said
    ]))),
    {ok, [{start_us, Start} | [_ | _] = Cells]} = file:consult(Said),
    ok = file:delete(Said),
    [{Start + From, Start + To, Value} || {cell, From, To, Value} <- Cells].

of_cells(Name, Rows, Measure, Cells, Recorded, TickUs) ->
    Slack = slack(Measure, TickUs),
    Right = [Cell || {From, To, _} = Cell <- Cells, offset(From, To, Recorded) =< Slack],
    Hot = length([1 || {Begin, End} <- Recorded,
                       lists:any(fun({From, To, _}) -> From =< End
                           andalso To >= Begin end, Cells)]),
    Farthest = lists:max([0 | [offset(From, To, Recorded) || {From, To, _} <- Cells]]),
    told(Name(io_lib:format("~s, in right ones of ~w rows", [Measure, Rows])),
         percent(heat(Right), heat(Cells)), <<"%">>, #{
             cells => length(Cells), percent_of_bursts => percent(Hot, length(Recorded)),
             farthest_ms => Farthest / 1000
         }).

%% A change is told by the tick after it.
slack("samples", _) -> 0;
slack("reductions.delta", TickUs) -> TickUs.

heat(Cells) -> lists:sum([Value || {_, _, Value} <- Cells]).
