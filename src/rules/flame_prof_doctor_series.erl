%% @private Numbers over time, and what they do.
-module(flame_prof_doctor_series).

-export([growth/2, floors/3, growing/2, long/2, climb/3]).

-export_type([growth/0]).

-type growth() :: #{from := number(), to := number(), from_us := integer(), to_us := integer()}.

%% What only grows does so in each of these parts of its time.
-define(PARTS, 8).
-define(PARTS_THAT_GROW, 4). % steps between parts: a heap grows in few large steps
-define(STEP, 0.02). % of the whole growth: more is a step
-define(DRAWDOWN, 0.1). % of the whole growth: less is no fall
-define(LATE_SHARE, 0.25). % of the growth is in the later half: what just starts up stops growing
-define(UNSEEN_US, 1500000). % a process that is sampled has a sample each second

%% @doc What is left whenever least is left (of a heap, behind its collections) only grows, and
%% still does; or none. In less time than that nothing is said: garbage may pile up for so long
%% before it is collected.
-spec growth(flame_prof_doctor_samples:series(), LeastUs :: number()) -> growth() | none.
growth([{First, _, _, _} | _] = Series, LeastUs) ->
    {Last, _, _, _} = lists:last(Series),
    case Last - First >= LeastUs of
        true -> growing(floors(Series, First, Last - First), ?PARTS_THAT_GROW);
        false -> none
    end;
growth([], _) ->
    none.

%% @doc The time is taken in eight parts: the least value of each.
-spec floors(flame_prof_doctor_samples:series(), First :: integer(), Span :: pos_integer()) ->
    [{TimeUs :: integer(), number()}].
floors(Series, First, Span) ->
    Parts = maps:groups_from_list(
        fun({TimeUs, _, _, _}) -> min(?PARTS - 1, ?PARTS * (TimeUs - First) div Span) end, Series),
    [
        {TimeUs, lists:min([Min || {_, Min, _, _} <- Some])}
     || {_, [{TimeUs, _, _, _} | _] = Some} <- lists:sort(maps:to_list(Parts))
    ].

%% @doc The same of values that are few: each is a part, and so many steps at least go upwards.
-spec growing([{TimeUs :: integer(), number()}], pos_integer()) -> growth() | none.
growing([{FromUs, From} | Rest] = Floors, Steps) when Rest =/= [] ->
    {ToUs, To} = lists:last(Rest),
    {_, Middle} = lists:nth((length(Floors) - 1) div 2 + 1, Floors),
    Least = min(Steps, length(Rest)),
    IsLate = length(Floors) < 3 orelse To - Middle >= ?LATE_SHARE * (To - From),
    case To > From andalso IsLate andalso steps(Rest, From, To - From, 0) of
        Grown when is_integer(Grown), Grown >= Least ->
            #{from => From, to => To, from_us => FromUs, to_us => ToUs};
        _ ->
            none
    end;
growing(_, _) ->
    none.

%% How often it grew; false: it fell.
steps([{_, Floor} | _], Most, Growth, _Grown) when Floor < Most - ?DRAWDOWN * Growth ->
    false;
steps([{_, Floor} | Floors], Most, Growth, Grown) when Floor > Most + ?STEP * Growth ->
    steps(Floors, Floor, Growth, Grown + 1);
steps([{_, Floor} | Floors], Most, Growth, Grown) ->
    steps(Floors, max(Floor, Most), Growth, Grown);
steps([], _Most, _Growth, Grown) ->
    Grown.

%% @doc The way to the most: from the last time that it was least before. `unseen_us' is the time
%% without a sample behind that, if that is most of the way. A part that rises has its most at its
%% end: where the next one begins, or all ends.
-spec climb(flame_prof_doctor_samples:series(), number(), EndUs :: integer()) -> #{from := number(),
    from_us := integer(), to_us := integer(), unseen_us := non_neg_integer()}.
climb(Series, Most, EndUs) ->
    {Before, [{PeakUs, Min, _, _} | After]} =
        lists:splitwith(fun({_, _, Max, _}) -> Max < Most end, Series),
    {FromUs, From} = lists:foldl(
        fun({At, Low, _, _}, {_, Least}) when Low =< Least -> {At, Low}; (_, Least) -> Least end,
        {PeakUs, Min}, Before),
    ToUs = case After of
        _ when Min =:= Most -> PeakUs;
        [{Us, _, _, _} | _] -> Us;
        [] -> EndUs
    end,
    NextUs = lists:min([At || {At, _, _, _} <- Before, At > FromUs] ++ [PeakUs]),
    Unseen = max(0, NextUs - FromUs),
    IsMost = Unseen > ?UNSEEN_US andalso 2 * Unseen > ToUs - FromUs,
    #{from => From, from_us => FromUs, to_us => ToUs,
        unseen_us => if IsMost -> Unseen; true -> 0 end}.

%% @doc The longest time for which it stays at that value or above.
-spec long(flame_prof_doctor_samples:series(), number()) -> non_neg_integer().
long(Series, Least) -> long(Series, Least, none, 0).

long([{TimeUs, Min, _, _} | Rest], Least, none, Longest) when Min >= Least ->
    long(Rest, Least, TimeUs, Longest);
long([{TimeUs, Min, _, _} | Rest], Least, Since, Longest) when Min < Least, Since =/= none ->
    long(Rest, Least, none, max(Longest, TimeUs - Since));
long([{TimeUs, _, _, _}], _Least, Since, Longest) when Since =/= none ->
    max(Longest, TimeUs - Since);
long([_ | Rest], Least, Since, Longest) ->
    long(Rest, Least, Since, Longest);
long([], _Least, _Since, Longest) ->
    Longest.
