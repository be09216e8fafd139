%% @private The warnings of a session about what it loses: each once when its limit is
%% passed, and the one of samples and ticks again after a calm. No process.
-module(flame_prof_losses).

-include_lib("kernel/include/logger.hrl").

-export([warn/3]).

-define(LOG_META, #{application => flame_prof}).

%% Of the samples or of the ticks, from one call to the next.
-define(LOSS_PERCENT, 1).

%% Calls in a row below that, until the next loss is logged. The missed ticks of an engine that is
%% held up are counted when it goes on, so one call below is no recovery.
-define(CALM, 4).

%% @doc `Before': the counts of the last call; `Calm': what the last call returned, 0 at first.
%% Returns how many calls without losses are left until the next loss is logged.
-spec warn(none | flame_prof_books:books(), flame_prof_books:books(), Calm :: non_neg_integer()) ->
    non_neg_integer().
warn(Before, Books, Calm) ->
    ok = log_left_out(code_ranges_left_out, Before, Books),
    ok = log_left_out(libraries_left_out, Before, Books),
    Lost = {Samples, Ticks} = {percent_lost(Books, Before), percent_missed(Books, Before)},
    case max(Samples, Ticks) > ?LOSS_PERCENT of
        true ->
            ok = log_losses(Calm, Lost),
            ?CALM;
        false ->
            max(0, Calm - 1)
    end.

log_losses(0, {Samples, Ticks}) ->
    ?LOG_WARNING(
        "flame_prof loses more than ~b %: ~.1f % of its samples, ~.1f % of its ticks",
        [?LOSS_PERCENT, Samples, Ticks],
        ?LOG_META
    );
log_losses(_, _) ->
    ok.

%% Once, when the first of them has no room.
log_left_out(Key, Before, Books) ->
    case {left_out(Key, Before), left_out(Key, Books)} of
        {0, N} when N > 0 -> ?LOG_WARNING(left_out_text(Key), [N], ?LOG_META);
        _ -> ok
    end.

left_out(_Key, none) -> 0;
left_out(Key, Books) -> maps:get(Key, Books, 0).

left_out_text(code_ranges_left_out) ->
    "flame_prof leaves out frames in ~b or more mappings of code: it has room for 64 mappings";
left_out_text(libraries_left_out) ->
    "flame_prof leaves out C frames below ~b C libraries, for which memory_budget has no room".

percent_lost(Books, Before) ->
    Since = fun(Keys) -> since(Keys, Books, Before) end,
    100 * Since([torn, dropped]) / max(1, Since([taken])).

percent_missed(Books, Before) ->
    Since = fun(Keys) -> since(Keys, Books, Before) end,
    100 * Since([missed]) / max(1, Since([ticks, missed])).

since(Keys, Books, none) ->
    lists:sum([maps:get(Key, Books) || Key <- Keys]);
since(Keys, Books, Before) ->
    since(Keys, Books, none) - since(Keys, Before, none).
