%% A registry of metrics that makes an atom of each name: 3,000 a second that stay for ever.
-module(trouble_atoms).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([registry/0]).

-define(NAMES, 60).
-define(PAUSE_MS, 20).
-define(MOST, 400000).

children() ->
    [trouble:process(metric_registry, ?MODULE, registry, [])].

truth() ->
    #{problem => atom_growth, kind => [atom_growth], severity => warning,
      process => [], function => <<"trouble_atoms:register_names/1">>,
      sentence => <<"Atoms grow by 3,000 a second; none is ever freed.">>}.

registry() ->
    registry(0).

registry(N) ->
    register_names([I || N < ?MOST, I <- lists:seq(N, N + ?NAMES - 1)]),
    timer:sleep(?PAUSE_MS),
    registry(N + ?NAMES).

register_names(Numbers) ->
    [list_to_atom("metric_of_user_" ++ integer_to_list(N)) || N <- Numbers].
