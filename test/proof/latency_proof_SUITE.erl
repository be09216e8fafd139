%% How right the quantiles of latency are, against calls that know how long they took.
-module(latency_proof_SUITE).

-export([all/0, suite/0, few_calls/1, many_calls/1]).
%% Measured.
-export([busy/1]).

suite() -> [{timetrap, {minutes, 5}}].
all() -> [few_calls, many_calls].

few_calls(_) ->
    quantiles("300 calls of 0.1 to 1 ms", [100000 + 3000 * N || N <- lists:seq(1, 300)],
        [{p50_ns, 0.5}, {p90_ns, 0.9}, {p99_ns, 0.99}]).

%% As many in each octave: two neighbours differ by less than a thousandth.
many_calls(_) ->
    Calls = 20000,
    quantiles("20,000 calls of 20 us to 1 ms",
        [round(20000 * math:pow(50, (N * 7919 rem Calls) / Calls)) || N <- lists:seq(1, Calls)],
        [{p50_ns, 0.5}, {p90_ns, 0.9}, {p99_ns, 0.99}, {p999_ns, 0.999}]).

%% A call that loses its CPU between the two clocks is slow for the outer one alone: the truth lies
%% between two neighbouring ranks.
quantiles(Name, Lengths, Quantiles) ->
    {ok, Measurement} = flame_prof_latency:start([{?MODULE, busy, 1}], #{
        max_cpu_percent => infinity, max_events_per_second => infinity, heartbeat_ms => 60000}),
    True = lists:sort([?MODULE:busy(Ns) || Ns <- Lengths]),
    {ok, #{calls := Calls} = Answer} = flame_prof_latency:stop(Measurement),
    proof:figure("latency: ~s: calls that were measured", [Name], Calls, none,
        integer_to_list(length(Lengths))),
    _ = [begin
        Truth = rank(Q, True),
        [Least, Most] = [100 * (rank(Q + By, True) / Truth - 1) || By <- [-0.0005, 0.0005]],
        proof:figure("latency: ~s: ~s, percent off", [Name, Key],
            100 * (maps:get(Key, Answer) / Truth - 1), {Least, Most}, "-2 to 2")
    end || {Key, Q} <- Quantiles],
    ok.

%% Computes for Ns nanoseconds and answers how many it took.
busy(Ns) ->
    Began = erlang:monotonic_time(nanosecond),
    spin(Began + Ns),
    erlang:monotonic_time(nanosecond) - Began.

spin(Until) ->
    case erlang:monotonic_time(nanosecond) of Now when Now < Until -> spin(Until); _ -> ok end.

rank(Q, Sorted) -> lists:nth(min(length(Sorted), max(1, ceil(Q * length(Sorted)))), Sorted).
