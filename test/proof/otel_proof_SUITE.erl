%% How many samples carry the ids of OpenTelemetry that their process had, against what processes
%% have logged of their own spans (otel_app).
-module(otel_proof_SUITE).

-import(sampled_words, [sampled/4, kill/1]).

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, ids_of_their_moment/1]).

%% A sample is of a moment behind its time: the tick reads many processes, and a busy machine may
%% keep it from its CPU meanwhile.
-define(BEFORE_US, 1000).
-define(AFTER_US, 10000).
%% A sample has the time of its tick. Where the sampler's thread waits for a processor in a tick,
%% what it reads is of a later moment.
-define(LATE_US, 1000000).

suite() -> [{timetrap, {minutes, 10}}].
all() -> [ids_of_their_moment].
init_per_suite(Config) -> sampled_words:why_not(Config).
end_per_suite(_) -> ok.

ids_of_their_moment(Config) ->
    Log = otel_app:log(),
    Workers = [otel_app:worker(Log, Release, [{fullsweep_after, F}])
        || Release <- [9, 11], F <- [0, 1, 65535]],
    Samples = sampled(Config, Workers, #{otel => true}, 30000),
    kill(Workers),
    %% Those of the first and last moments are not in the logs.
    Verdicts = [verdict(Log, Sample) || Sample <- lists:sublist(lists:nthtail(100, Samples),
        length(Samples) - 200)],
    Count = fun(Verdict) -> length([x || One <- Verdicts, One =:= Verdict]) end,
    _ = [proof:figure("otel: samples that are ~s, of ~w", [Verdict, length(Verdicts)],
        Count(Verdict), none, "") || Verdict <- [none, missing, collecting, late]],
    proof:figure("otel: samples with wrong ids, of ~w", [length(Verdicts)], Count(wrong), none,
        "0"),
    proof:figure("otel: right ids, percent of those within ~w ms", [?AFTER_US div 1000],
        100 * Count(right) / max(1, Count(right) + Count(missing) + Count(late)), none, "99").

verdict(Log, {Pid, Us, _, Collects, Words}) ->
    Process = list_to_pid(binary_to_list(Pid)),
    Possible = otel_app:possible(Log, Process, {Us - ?BEFORE_US, Us + ?AFTER_US}),
    Told = case Words of
        #{<<"trace">> := <<Trace:32/binary>>, <<"span">> := <<Span:16/binary>>} ->
            {binary_to_integer(Trace, 16), binary_to_integer(Span, 16)};
        #{} -> none
    end,
    case {lists:member(Told, Possible), Told} of
        {true, none} -> none;
        {true, _} -> right;
        {false, none} when Collects -> collecting;
        {false, none} -> missing;
        {false, _} ->
            Later = otel_app:possible(Log, Process, {Us - ?BEFORE_US, Us + ?LATE_US}),
            case lists:member(Told, Later) of true -> late; false -> wrong end
    end.
