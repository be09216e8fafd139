%% A gateway whose link crashes as often as its supervisor starts it again: some ten times a
%% second.
-module(trouble_restarts).
-behaviour(trouble).
-behaviour(supervisor).

-export([children/0, truth/0]).
-export([start_link/0, connect/0]).
-export([init/1]).

-define(LIVES_MS, 80).

children() ->
    [#{id => gateway_sup, start => {?MODULE, start_link, []}, type => supervisor}].

truth() ->
    #{problem => restart_loop, kind => [restart_loop], severity => warning,
      process => [gateway_sup], function => <<"trouble_restarts:connect/0">>,
      sentence => <<"gateway_sup starts gateway_link again ten times a second.">>}.

start_link() ->
    supervisor:start_link({local, gateway_sup}, ?MODULE, []).

init([]) ->
    {ok, {#{intensity => 1000, period => 1},
        [trouble:process(gateway_link, ?MODULE, connect, [])]}}.

connect() ->
    timer:sleep(?LIVES_MS),
    error(connection_refused).
