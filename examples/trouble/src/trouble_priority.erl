%% A clock that synchronizes itself at priority max, and never waits.
-module(trouble_priority).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([clock/0, client/1]).

-define(CLIENTS, 8).

children() ->
    [(trouble:process(clock_sync, ?MODULE, clock, []))#{
        start => {trouble, spawn, [clock_sync, ?MODULE, clock, [], [{priority, max}]]}}] ++
        [trouble:process({clock_client, N}, ?MODULE, client, [N]) || N <- lists:seq(1, ?CLIENTS)].

truth() ->
    #{problem => priority, kind => [priority, hot_function], severity => warning,
      process => [clock_sync], function => <<"trouble_priority:adjust/1">>,
      sentence => <<"clock_sync keeps a scheduler at priority max, in "
          "trouble_priority:adjust/1.">>}.

clock() ->
    clock(1).

clock(Drift) ->
    clock(adjust(Drift)).

adjust(Drift) ->
    lists:foldl(fun(N, D) -> (D * 16807 + N) rem 2147483647 end, Drift, lists:seq(1, 2000)).

client(N) ->
    _ = lists:sum(lists:seq(1, 20000)),
    timer:sleep(2),
    client(N).
