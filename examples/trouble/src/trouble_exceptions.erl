%% A gate for readings of sensors that tells good ones from bad by exceptions, deep in its stack.
-module(trouble_exceptions).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([gate/0]).

%% So many that the pause is short beside them, on a machine of any load.
-define(READINGS, 40000).
-define(DEPTH, 30).
-define(PAUSE_MS, 2).

children() ->
    [trouble:process(sensor_gate, ?MODULE, gate, [])].

truth() ->
    #{problem => exceptions, kind => [exceptions], severity => note,
      process => [sensor_gate], function => <<"trouble_exceptions:check/2">>,
      sentence => <<"sensor_gate raises hundreds of thousands of exceptions a second, in "
          "trouble_exceptions:check/2.">>}.

gate() ->
    [accept(N) || N <- lists:seq(1, ?READINGS)],
    timer:sleep(?PAUSE_MS),
    gate().

accept(N) ->
    try check(N, ?DEPTH)
    catch error:{badreading, _}:Stack -> length(Stack)
    end.

check(N, 0) -> error({badreading, N});
check(N, Depth) -> 1 + check(N, Depth - 1).
