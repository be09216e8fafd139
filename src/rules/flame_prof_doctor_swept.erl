%% @private What only grows of a heap that full sweeps make smaller now and then.
-module(flame_prof_doctor_swept).

-export([growth/2]).

%% As those of flame_prof_doctor_series.
-define(PARTS, 8).
-define(LATE_SHARE, 0.25). % of the growth is in the later half
-define(EDGE, 0.375). % of the time: at its end never as small as the most at its begin
-define(SWEPT_STEP, 0.1). % of the growth: more is a step of what full sweeps leave
-define(SWEPT_STEPS, 2).

%% @doc As flame_prof_doctor_series:growth/2, of a heap that full sweeps make smaller now and then:
%% what is left at the last of them, in the later half, is what it has grown to. Never again is it
%% as small as before: that least value rises in steps, and is more in the end than ever in the
%% begin.
-spec growth(flame_prof_doctor_samples:series(), LeastUs :: number()) ->
    flame_prof_doctor_series:growth() | none.
growth([{First, _, _, _} | _] = Series, LeastUs) ->
    {Last, _, _, _} = lists:last(Series),
    case Last - First >= LeastUs of
        true ->
            Edge = round(?EDGE * (Last - First)),
            Most = lists:max([Max || {TimeUs, _, Max, _} <- Series, TimeUs =< First + Edge]),
            Least = lists:min([Min || {TimeUs, Min, _, _} <- Series, TimeUs >= Last - Edge]),
            case Least > Most of
                true ->
                    through_sweeps(
                        flame_prof_doctor_series:floors(Series, First, Last - First));
                false -> none
            end;
        false -> none
    end;
growth([], _) ->
    none.

through_sweeps(Floors) ->
    Count = length(Floors),
    %% What it never falls below from then on, up to the last fall.
    [{FromUs, From} | Rest] = Left = lists:sublist(least_later(Floors), last_fall(Floors)),
    {ToUs, To} = lists:last(Left),
    {_, Middle} = lists:nth((length(Left) + 1) div 2, Left),
    IsSeen = Count >= ?PARTS - 1 andalso 2 * length(Left) > Count,
    IsLate = To > From andalso To - Middle >= ?LATE_SHARE * (To - From),
    Steps = length([1 || {{_, A}, {_, B}} <- lists:zip(lists:droplast(Left), Rest),
        B - A > ?SWEPT_STEP * (To - From)]),
    case IsSeen andalso IsLate andalso Steps >= ?SWEPT_STEPS of
        true -> #{from => From, to => To, from_us => FromUs, to_us => ToUs};
        false -> none
    end.

least_later(Floors) ->
    {Least, _} = lists:mapfoldr(fun({TimeUs, Floor}, Later) ->
        {{TimeUs, min(Floor, Later)}, min(Floor, Later)}
    end, element(2, lists:last(Floors)), Floors),
    Least.

%% The place of the last part that is below the one before it; 1: it never falls.
last_fall(Floors) ->
    Places = lists:zip3(lists:seq(2, length(Floors)), lists:droplast(Floors), tl(Floors)),
    lists:max([1 | [Place || {Place, {_, A}, {_, B}} <- Places, B < A]]).
