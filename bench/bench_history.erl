%% The history of the benchmarks' ratios, and whether one has got worse.
%%
%% Only ratios are kept: two things measured by turns on the same machine, so that a slow
%% machine, or a busy one, changes both. Even so they have noise, which each entry has as
%% its interval; and they differ from machine to machine, which the spread of the entries
%% shows. A ratio has got worse when the whole of its interval is on the bad side of the
%% history's usual interval, widened by that spread and by a margin of the ratio's own.
-module(bench_history).

-export([load/1, append/2, judge/2]).

-export_type([entry/0, ratio/0, verdict/0]).

%% `better' is where the good side is; `margin' is a share of the value.
-type ratio() :: #{value := number(), interval := {number(), number()}, better := higher | lower, margin := float()}.
-type entry() :: #{date := binary(), commit := binary(), otp := binary(), machine := binary(),
                   ratios := #{atom() => ratio()}}.
%% `limit' is what the interval has to reach.
-type verdict() :: {atom(), ratio(), {good | worse, Limit :: float()} | {not_judged, Entries :: non_neg_integer()}}.

%% With fewer entries nobody knows how far they spread; older ones count no more.
-define(FEWEST, 3).
-define(MOST, 20).

%% A file that is not there is a history of nothing.
-spec load(file:filename()) -> {ok, [entry()]} | {error, term()}.
load(File) ->
    case file:consult(File) of
        {error, enoent} -> {ok, []};
        Result -> Result
    end.

%% One line.
-spec append(file:filename(), entry()) -> ok | {error, term()}.
append(File, Entry) ->
    ok = filelib:ensure_dir(File),
    file:write_file(File, unicode:characters_to_binary(io_lib:format("~0tp.~n", [Entry])), [append]).

%% Each ratio of the new entry, against those of the same OTP release.
-spec judge(entry(), [entry()]) -> [verdict()].
judge(#{otp := Otp, ratios := Ratios}, History) ->
    Same = [Old || #{otp := O, ratios := Old} <- History, O =:= Otp],
    [{Name, Ratio, judge_one(Ratio, [R || #{Name := R} <- Same])} || {Name, Ratio} <- lists:sort(maps:to_list(Ratios))].

judge_one(Ratio, All) ->
    case lists:nthtail(max(0, length(All) - ?MOST), All) of
        Known when length(Known) < ?FEWEST -> {not_judged, length(Known)};
        Known -> against(Ratio, Known)
    end.

against(#{interval := {Low, High}, better := Better, margin := Margin}, Known) ->
    Values = [V || #{value := V} <- Known],
    Wider = lists:max(Values) - lists:min(Values) + Margin * bench_stats:median(Values),
    case Better of
        higher -> verdict(bench_stats:median([L || #{interval := {L, _}} <- Known]) - Wider, High, fun erlang:'>='/2);
        lower -> verdict(bench_stats:median([H || #{interval := {_, H}} <- Known]) + Wider, Low, fun erlang:'=<'/2)
    end.

verdict(Limit, End, Reaches) ->
    case Reaches(End, Limit) of
        true -> {good, float(Limit)};
        false -> {worse, float(Limit)}
    end.
