%% Does something stay that should have gone? Measured at checkpoints, where the
%% storms are at rest, no session runs and all processes have collected their garbage.
%%
%% No single figure says it: allocators keep what they may need again. What a session
%% leaves behind makes a line that rises with the sessions, so it is the slope that
%% is judged: the median of the slopes between all pairs of checkpoints (Theil and
%% Sen), which a few odd ones do not move. The first quarter of them is left out: code
%% is loaded, tables and arenas get their size. A slope alone may be noise, so a leak
%% has to have amounted to something as well, from the first checkpoint judged to the
%% last (by the medians of three at each end).
-module(soak_leaks).

-export([measure/1, judge/1, limits/0]).

-define(LEAST_CHECKPOINTS, 6).

%% {What, leak by a session, and altogether}. Of what is counted nothing may stay; in
%% 1 of 20 sessions is still a leak, and two may be somebody else's for a moment. Atoms:
%% whoever makes one a session is found. Of RssAnon: a session's tables are 30 MB and
%% more, so that one in 100 that stays is 300 KiB a session; storms alone move the
%% figure by some 10 MiB, as fragments of the VM's own carriers.
limits() ->
    [{descriptors, 0.05, 3}, {threads, 0.05, 3}, {processes, 0.05, 3}, {ports, 0.05, 3},
        {tables, 0.05, 3}, {atoms, 0.5, 20}, {mappings, 0.5, 100}, {rss_kib, 128, 49152}].

%% After so many sessions.
measure(Sessions) ->
    [erlang:garbage_collect(Pid) || Pid <- erlang:processes()],
    #{sessions => Sessions, descriptors => entries("/proc/self/fd"),
        threads => entries("/proc/self/task"), mappings => lines("/proc/self/maps"),
        processes => length(erlang:processes()), ports => length(erlang:ports()),
        tables => length(ets:all()), atoms => erlang:system_info(atom_count),
        rss_kib => storm_memory:status("RssAnon")}.

entries(Directory) ->
    {ok, Names} = file:list_dir(Directory),
    length(Names).

lines(File) ->
    {ok, Text} = file:read_file(File),
    length(binary:matches(Text, <<"\n">>)).

%% Of the checkpoints, the oldest first: #{What => #{first, last, slope, leaks}}; the
%% slope is `unknown' where there are too few.
judge(Checkpoints) ->
    Judged = lists:nthtail(length(Checkpoints) div 4, Checkpoints),
    maps:from_list([{What, judge(What, Limits, Judged, Checkpoints)}
        || {What, _, _} = Limits <- limits()]).

judge(What, {_, SlopeMost, GrowthMost}, Judged, All) ->
    Points = [{S, maps:get(What, C)} || #{sessions := S} = C <- Judged],
    Slope = slope(Points),
    Values = [V || {_, V} <- Points],
    Growth = at_end(lists:reverse(Values)) - at_end(Values),
    #{first => maps:get(What, hd(All)), last => maps:get(What, lists:last(All)), slope => Slope,
        leaks => is_number(Slope) andalso Slope > SlopeMost andalso Growth > GrowthMost}.

slope(Points) when length(Points) < ?LEAST_CHECKPOINTS -> unknown;
slope(Points) ->
    Slopes = [(V2 - V1) / (S2 - S1) || {S1, V1} <- Points, {S2, V2} <- Points, S2 > S1],
    round(1000 * median(Slopes)) / 1000.

at_end(Values) -> median(lists:sublist(Values, 3)).

median([]) -> 0;
median(Values) -> lists:nth((length(Values) + 1) div 2, lists:sort(Values)).
