%% Flags of features that are written anew with each request, some hundred times a second: with each
%% one all processes are looked through, and two of them hold the old value.
-module(trouble_persistent).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([flags/0, reader/0]).

-define(PAUSE_MS, 8).

children() ->
    [trouble:process(feature_flags, ?MODULE, flags, [])] ++
        [trouble:process({flag_reader, N}, ?MODULE, reader, []) || N <- [1, 2]].

truth() ->
    #{problem => persistent_term, kind => [persistent_term], severity => warning,
      process => [feature_flags], function => <<"trouble_persistent:flip/1">>,
      sentence => <<"feature_flags writes a persistent term a hundred times a second, in "
          "trouble_persistent:flip/1.">>}.

flags() ->
    flags(1).

flags(N) ->
    flip(N),
    timer:sleep(?PAUSE_MS),
    flags(N + 1).

flip(N) ->
    persistent_term:put({?MODULE, flags}, {N, lists:seq(N, N + 20000)}).

reader() ->
    _ = persistent_term:get({?MODULE, flags}, none),
    timer:sleep(10),
    reader().
