%% A supervisor of game rooms whose children take long to start, one after the other; fifty
%% players wait for a room.
-module(trouble_starts).
-behaviour(trouble).
-behaviour(supervisor).

-export([children/0, truth/0]).
-export([start_link/0, start_room/0, room/1, player/1]).
-export([init/1]).

-define(PLAYERS, 50).
-define(START_MS, 30).
-define(PLAYS_MS, 200).

children() ->
    [#{id => room_sup, start => {?MODULE, start_link, []}, type => supervisor}] ++
        [trouble:process({player, N}, ?MODULE, player, [N]) || N <- lists:seq(1, ?PLAYERS)].

truth() ->
    #{problem => supervisor_starts, kind => [bottleneck, chain], severity => warning,
      process => [room_sup], function => <<"trouble_starts:start_room/0">>,
      sentence => <<"50 processes wait for room_sup, which starts one child in 30 ms.">>}.

start_link() ->
    supervisor:start_link({local, room_sup}, ?MODULE, []).

init([]) ->
    Room = #{id => room, start => {?MODULE, start_room, []}, restart => temporary},
    {ok, {#{strategy => simple_one_for_one}, [Room]}}.

start_room() ->
    proc_lib:start_link(?MODULE, room, [self()]).

room(Supervisor) ->
    timer:sleep(?START_MS),
    proc_lib:init_ack(Supervisor, {ok, self()}),
    timer:sleep(?PLAYS_MS).

player(N) ->
    {ok, _} = supervisor:start_child(room_sup, []),
    player(N).
