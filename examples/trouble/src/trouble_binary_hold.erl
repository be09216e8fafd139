%% A store of thumbnails that forgets none: whole binaries, 8 MiB more each second.
-module(trouble_binary_hold).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([store/0]).

-define(BYTES, 256 * 1024).
-define(PAUSE_MS, 30).
%% 750 MiB.
-define(MOST, 3000).

children() ->
    [trouble:process(thumbnail_store, ?MODULE, store, [])].

truth() ->
    #{problem => binary_hold, kind => [binary_leak], severity => warning,
      process => [thumbnail_store], function => <<"trouble_binary_hold:keep/2">>,
      sentence => <<"The binaries that thumbnail_store holds grow by 8 MiB a second.">>}.

store() ->
    store(#{}).

store(Kept) ->
    Now = keep(map_size(Kept), Kept),
    timer:sleep(?PAUSE_MS),
    store(Now).

keep(N, Kept) when N < ?MOST -> Kept#{N => binary:copy(<<N:64>>, ?BYTES div 8)};
keep(_, Kept) -> Kept.
