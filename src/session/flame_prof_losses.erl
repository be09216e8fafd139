%% @private What a session says of its losses. In the log each once: samples or ticks in a report of
%% level notice, what it has no room for as a warning. No process.
-module(flame_prof_losses).

-include("flame_prof_internal.hrl").
-include_lib("kernel/include/logger.hrl").

-export([log/3, missed_ticks/1]).
-export([format/1]).

%% Of the samples or of the ticks, from one call to the next.
-define(LOSS_PERCENT, 1).

%% @doc `150 of 1,128 ticks missed': of all that were due.
-spec missed_ticks(#{ticks => non_neg_integer(), missed => non_neg_integer(), _ => _}) ->
    unicode:chardata().
missed_ticks(Counters) ->
    {Done, Missed} = {maps:get(ticks, Counters, 0), maps:get(missed, Counters, 0)},
    [flame_prof_text:grouped(Missed), " of ", flame_prof_text:grouped(Done + Missed),
        " ticks missed"].

%% @doc `Before': the counters of the last call. Returns whether losses were logged, in
%% this call or, as `IsLogged' says, in one before.
-spec log(
    none | flame_prof_run:counters(), flame_prof_run:counters(), IsLogged :: boolean()
) -> boolean().
log(Before, Counters, IsLogged) ->
    ok = log_left_out(code_ranges_left_out, Before, Counters),
    ok = log_left_out(libraries_left_out, Before, Counters),
    Lost = {Samples, Ticks} = {percent_lost(Counters, Before), percent_missed(Counters, Before)},
    case not IsLogged andalso max(Samples, Ticks) > ?LOSS_PERCENT of
        true -> log_losses(Lost);
        false -> IsLogged
    end.

log_losses({Samples, Ticks}) ->
    %% A node that was lent flame_prof does not have it any more when a person reads this.
    Counters = case whereis(flame_prof_agent) of
        undefined -> "flame_prof:info() has the counters";
        _ -> "attach prints the counters at its end"
    end,
    Report = #{what => sampling_loss, samples_percent => Samples, ticks_percent => Ticks,
        counters => Counters},
    Meta = ?LOG_META,
    ?LOG_NOTICE(Report, Meta#{report_cb => fun ?MODULE:format/1}),
    true.

%% @doc The report as logger prints it.
-spec format(logger:report()) -> {io:format(), [term()]}.
format(#{what := sampling_loss, samples_percent := Samples, ticks_percent := Ticks} = Report) ->
    {"flame_prof loses ~.1f % of its samples and ~.1f % of its ticks; ~ts",
        [Samples, Ticks, maps:get(counters, Report)]}.

%% Once, when the first of them has no room.
log_left_out(Key, Before, Counters) ->
    case {left_out(Key, Before), left_out(Key, Counters)} of
        {0, N} when N > 0 -> ?LOG_WARNING(left_out_text(Key), [N], ?LOG_META);
        _ -> ok
    end.

left_out(_Key, none) -> 0;
left_out(Key, Counters) -> maps:get(Key, Counters, 0).

left_out_text(code_ranges_left_out) ->
    "flame_prof leaves out frames in ~b or more mappings of code: it has room for 64 mappings";
left_out_text(libraries_left_out) ->
    "flame_prof leaves out C frames below ~b C libraries, for which memory_budget has no room".

percent_lost(Counters, Before) ->
    Since = fun(Keys) -> since(Keys, Counters, Before) end,
    100 * Since([inconsistent, dropped]) / max(1, Since([attempted])).

percent_missed(Counters, Before) ->
    Since = fun(Keys) -> since(Keys, Counters, Before) end,
    100 * Since([missed]) / max(1, Since([ticks, missed])).

since(Keys, Counters, none) ->
    lists:sum([maps:get(Key, Counters) || Key <- Keys]);
since(Keys, Counters, Before) ->
    since(Keys, Counters, none) - since(Keys, Before, none).
