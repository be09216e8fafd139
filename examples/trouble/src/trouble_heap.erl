%% A log of visits on a heap that only grows: some 15 MB a second.
-module(trouble_heap).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([log/0]).

-define(VISITS, 5000).
-define(PAUSE_MS, 50).
-define(MOST, 4000000).

children() ->
    [trouble:process(visit_log, ?MODULE, log, [])].

truth() ->
    #{problem => heap_growth, kind => [heap_growth], severity => warning,
      process => [visit_log], function => <<"trouble_heap:add/2">>,
      sentence => <<"The heap of visit_log grows by 15 MB a second, in trouble_heap:add/2.">>}.

log() ->
    log([], 0).

log(Visits, N) when N < ?MOST ->
    More = add(N, Visits),
    timer:sleep(?PAUSE_MS),
    log(More, N + ?VISITS);
log(Visits, N) ->
    timer:sleep(1000),
    log(Visits, N).

add(N, Visits) ->
    lists:foldl(fun(I, Of) -> [{visit, I, {page, I * 7}, [I, I + 1]} | Of] end, Visits,
        lists:seq(N, N + ?VISITS - 1)).
