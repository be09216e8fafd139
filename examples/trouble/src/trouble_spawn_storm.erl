%% A process that spawns another one for each small step of its work: thousands a second.
-module(trouble_spawn_storm).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([start_link/0, init/0, visit/1]).

-define(PAUSE_MS, 3).
-define(VISITS, 150).

children() ->
    [#{id => fanout, start => {?MODULE, start_link, []}}].

truth() ->
    #{problem => spawn_storm,
      kind => [spawn_storm],
      severity => note,
      finding => spawn,
      process => fanout,
      function => <<"trouble_spawn_storm:fan_out/1">>,
      sentence => <<"fanout spawns thousands of processes a second in "
          "trouble_spawn_storm:fan_out/1; each lives for less than a millisecond.">>}.

start_link() ->
    proc_lib:start_link(?MODULE, init, []).

init() ->
    register(fanout, self()),
    proc_lib:init_ack({ok, self()}),
    rounds(1).

rounds(Round) ->
    ok = fan_out(Round),
    rounds(Round + 1).

fan_out(Round) ->
    Monitors = [Monitor || N <- lists:seq(1, ?VISITS),
                           {_, Monitor} <- [spawn_monitor(?MODULE, visit, [Round + N])]],
    %% Never more than one round at a time.
    [receive {'DOWN', Monitor, process, _, _} -> ok end || Monitor <- Monitors],
    timer:sleep(?PAUSE_MS),
    ok.

visit(N) ->
    lists:foldl(fun(I, Sum) -> erlang:phash2({I, Sum}) end, N, lists:seq(1, 50)).
