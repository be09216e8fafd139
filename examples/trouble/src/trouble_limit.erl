%% A chat whose rooms stay for ever: nearly as many processes as the node may have (`+P 4096').
-module(trouble_limit).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([lobby/0, room/1]).

-define(ROOMS, 3400).

children() ->
    [trouble:process(lobby, ?MODULE, lobby, [])].

truth() ->
    #{problem => limit, kind => [limit], severity => critical, flags => ["+P", "4096"],
      process => [], function => <<"trouble_limit:room/1">>,
      sentence => <<"The node may have 4,096 processes, and 3,400 rooms of the chat are some.">>}.

lobby() ->
    _ = [spawn_link(?MODULE, room, [N]) || N <- lists:seq(1, ?ROOMS)],
    receive stop -> ok end.

room(N) ->
    receive {enter, Who} -> Who ! {room, N}, room(N) end.
