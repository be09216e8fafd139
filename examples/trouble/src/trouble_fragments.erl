%% An import that made three quarters of a million small objects for as long as it lasted, and kept
%% one of some hundred: their carriers stay.
-module(trouble_fragments).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([import/0]).

-define(OBJECTS, 750000).
-define(KEPT, 150).

children() ->
    [trouble:process(bulk_import, ?MODULE, import, [])].

truth() ->
    #{problem => fragmentation, kind => [fragmentation], severity => note,
      process => [], function => <<"trouble_fragments:import/0">>,
      sentence => <<"Of the carriers of binaries nearly all is free.">>}.

import() ->
    Objects = [binary:copy(<<N:64>>, 60) || N <- lists:seq(1, ?OBJECTS)],
    Kept = kept(Objects, 0),
    erlang:garbage_collect(),
    receive stop -> Kept end.

kept([], _) -> [];
kept([Object | Objects], N) when N rem ?KEPT =:= 0 -> [Object | kept(Objects, N + 1)];
kept([_ | Objects], N) -> kept(Objects, N + 1).
