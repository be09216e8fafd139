%% What tracing costs the process that is traced: measured calls, readable events. In pairs: with
%% the tracing, and the same calls without it right before or after.
-module(bench_tracing).

-export([run/1, row/5, with_process/4, ns/1, tracer/0]).

-spec run(pos_integer()) -> [bench_results:result()].
run(Seconds) ->
    bench_traced_calls:run(Seconds) ++ bench_readable_trace:run(Seconds).

%% The two of pairs answer {nanoseconds, messages that wait for a tracer in the end}.
-spec row(unicode:chardata(), pos_integer(), fun(() -> {number(), non_neg_integer()}),
    fun(() -> {number(), non_neg_integer()}), map()) -> bench_results:result().
row(Name, Rounds, With, Without, More) ->
    Pairs = bench_stats:pairs(Rounds, With, Without),
    Differences = [Ns - Plain || {{Ns, _}, {Plain, _}} <- Pairs],
    bench_results:tell(More#{
        section => tracing,
        name => unicode:characters_to_binary(Name),
        value => bench_stats:median(Differences),
        unit => <<"ns more">>,
        interval => bench_stats:interval(Differences),
        counted => #{
            pairs => Rounds,
            without_ns => bench_stats:median([Plain || {_, {Plain, _}} <- Pairs]),
            waiting => lists:max([Waiting || {{_, Waiting}, _} <- Pairs])
        }
    }).

%% In a new process: nanoseconds of the fun, the fastest of so many times, because one that another
%% program interrupts says nothing; and what Stop says of what Start has answered.
-spec with_process(fun(() -> State), pos_integer(), fun(() -> ok),
    fun((State) -> non_neg_integer())) -> {non_neg_integer(), non_neg_integer()}.
with_process(Start, Times, Run, Stop) ->
    Self = self(),
    Pid = spawn_link(fun() ->
        State = Start(),
        Ns = [ns(Run) || _ <- lists:seq(1, Times)],
        Self ! {self(), {lists:min(Ns), Stop(State)}}
    end),
    receive {Pid, Answer} -> Answer end.

%% How long it takes.
-spec ns(fun(() -> ok)) -> integer().
ns(Run) ->
    Began = erlang:monotonic_time(nanosecond),
    ok = Run(),
    erlang:monotonic_time(nanosecond) - Began.

%% A process that gets the events, and does nothing with them.
-spec tracer() -> no_return().
tracer() -> receive _ -> tracer() end.
