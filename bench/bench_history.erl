%% The history of the benchmarks' ratios, and whether one has got worse.
%%
%% Only ratios are kept: two things measured by turns on the same machine, so that a slow
%% machine, or a busy one, changes both. Even so they have noise, which each entry has as
%% its interval; and one machine's are not another's. A ratio has got worse when the whole
%% of its interval is on the bad side of the history's usual interval, widened by how far
%% the entries are apart, by a margin of the ratio's own, and by what this run could not
%% tell apart where there was nothing to tell (its noise). On a machine of which the
%% history knows too little that is multiplied by ?ELSEWHERE, but for ratios that are the
%% same anywhere: what is left is what nobody would call noise.
%%
%% What is beyond the limit, but not for certain, is not told: neither good nor worse.
-module(bench_history).

-export([load/1, append/2, judge/3, told/3]).

-export_type([entry/0, ratio/0, verdict/0]).

%% `better' is where the good side is; `margin' is a share of the value; `anywhere' says
%% that machines do not differ in it.
-type ratio() :: #{value := number(), interval := {number(), number()}, better := higher | lower,
                   margin := float(), anywhere => boolean()}.
-type entry() :: #{date := binary(), commit := binary(), otp := binary(), machine := binary(),
                   ratios := #{atom() => ratio()}, noise => number(), not_told => [atom()]}.
%% The limit is what the interval has to reach.
-type verdict() :: {good | worse | {not_told, noisy}, Limit :: float()}
                 | {{not_told, {few, Entries :: non_neg_integer()} | {not_measured, term()}}, none}.

%% With fewer entries nobody knows how far they spread; older ones count no more.
-define(FEWEST, 3).
-define(MOST, 20).
-define(ELSEWHERE, 3).
%% An interval as wide as this share of its value says nothing.
-define(NOISY, 0.5).
%% Once may be the machine's bad minute, and so may twice.
-define(ATTEMPTS, 3).

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
    case filelib:ensure_dir(File) of
        ok -> file:write_file(File, unicode:characters_to_binary(io_lib:format("~0tp.~n", [Entry])),
            [append]);
        {error, _} = Error -> Error
    end.

%%% --------------------------------------------------------------------- measuring --

%% Measures a ratio, and again while it looks worse. Judged is the best that was seen:
%% what got worse is so each time. Kept is the surest.
-spec told(fun(() -> ratio()), fun((ratio()) -> verdict()), fun((ratio(), verdict()) -> term())) ->
    {ratio() | none, verdict()}.
told(Measure, Judge, Tell) ->
    told(Measure, Judge, Tell, []).

told(Measure, Judge, Tell, Before) ->
    try [Measure() | Before] of
        [Ratio | _] = All ->
            _ = Tell(Ratio, Judge(Ratio)),
            case Judge(best(All)) of
                {worse, _} when length(All) < ?ATTEMPTS -> told(Measure, Judge, Tell, All);
                Verdict -> {surest(All), Verdict}
            end
    catch
        _:Reason:Stack -> {surest(Before), {{not_told, {not_measured, {Reason, Stack}}}, none}}
    end.

best([#{better := higher} | _] = All) -> last_by(fun(#{interval := {_, High}}) -> High end, All);
best([#{better := lower} | _] = All) -> last_by(fun(#{interval := {Low, _}}) -> -Low end, All).

surest([]) -> none;
surest(All) -> last_by(fun(Ratio) -> -width(Ratio) end, All).

last_by(Key, List) -> element(2, lists:last(lists:keysort(1, [{Key(E), E} || E <- List]))).

width(#{value := Value, interval := {Low, High}}) -> (High - Low) / Value.

%%% ----------------------------------------------------------------------- judging --

%% A ratio of the new entry, which has no ratios yet, against those of its OTP release.
-spec judge({Name :: atom(), ratio()}, map(), [entry()]) -> verdict().
judge({Name, Ratio}, #{otp := Otp, machine := Machine} = Entry, History) ->
    All = [{M, R} || #{otp := O, machine := M, ratios := #{Name := R}} <- History, O =:= Otp],
    Here = last([R || {M, R} <- All, M =:= Machine]),
    Anywhere = last([R || {_, R} <- All]),
    Noise = maps:get(noise, Entry, 1),
    case {length(Here) >= ?FEWEST, length(Anywhere) >= ?FEWEST, maps:get(anywhere, Ratio, false)} of
        {true, _, false} -> against(Ratio, Here, Noise);
        {_, true, true} -> against(Ratio, Anywhere, Noise);
        {_, true, false} -> against(Ratio, Anywhere, ?ELSEWHERE * Noise);
        {_, false, _} -> {{not_told, {few, length(Anywhere)}}, none}
    end.

last(All) -> lists:nthtail(max(0, length(All) - ?MOST), All).

against(#{better := Better, margin := Margin} = Ratio, Known, Factor) ->
    Values = [V || #{value := V} <- Known],
    Wider = lists:max(Values) - lists:min(Values) + Margin * bench_stats:median(Values),
    case Better of
        higher -> verdict(Ratio, (bench_stats:median([L
            || #{interval := {L, _}} <- Known]) - Wider) / Factor);
        lower -> verdict(Ratio, (bench_stats:median([H
            || #{interval := {_, H}} <- Known]) + Wider) * Factor)
    end.

verdict(#{value := Value, interval := {Low, High}, better := Better} = Ratio, Limit) ->
    Reaches = fun(End) -> case Better of higher -> End >= Limit; lower -> End =< Limit end end,
    Best = case Better of higher -> High; lower -> Low end,
    case {Reaches(Value), Reaches(Best) orelse width(Ratio) > ?NOISY} of
        {true, _} -> {good, float(Limit)};
        {false, true} -> {{not_told, noisy}, float(Limit)};
        {false, false} -> {worse, float(Limit)}
    end.
