%% @private The warnings of a session about what it loses: each once when its limit is
%% passed, and the one of samples and ticks again when they have been below. No process.
-module(flame_prof_losses).

-include_lib("kernel/include/logger.hrl").

-export([warn/3]).

-define(LOG_META, #{application => flame_prof}).

%% Of the samples or of the ticks, from one call to the next.
-define(LOSS_PERCENT, 1).

%% @doc `Before': the counts of the last call. Whether the losses are high now.
-spec warn(none | flame_prof_books:books(), flame_prof_books:books(), WasLosing :: boolean()) ->
    IsLosing :: boolean().
warn(Before, Books, WasLosing) ->
    ok = log_code_ranges(Before, Books),
    Lost = {Samples, Ticks} = {percent_lost(Books, Before), percent_missed(Books, Before)},
    IsLosing = max(Samples, Ticks) > ?LOSS_PERCENT,
    ok = log_losses(WasLosing, IsLosing, Lost),
    IsLosing.

log_losses(false, true, {Samples, Ticks}) ->
    ?LOG_WARNING(
        "flame_prof loses more than ~b %: ~.1f % of its samples, ~.1f % of its ticks",
        [?LOSS_PERCENT, Samples, Ticks],
        ?LOG_META
    );
log_losses(_, _, _) ->
    ok.

%% Once, when the first mapping of code has no room.
log_code_ranges(#{code_ranges_left_out := N}, _) when N > 0 ->
    ok;
log_code_ranges(_, #{code_ranges_left_out := N}) when N > 0 ->
    ?LOG_WARNING(
        "flame_prof leaves out frames in ~b or more mappings of code: it has room for 64 mappings",
        [N],
        ?LOG_META
    );
log_code_ranges(_, _) ->
    ok.

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
