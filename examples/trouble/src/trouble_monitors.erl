%% A service of presence that monitors a session at each sign of life, and forgets to end the
%% monitor of the last one.
-module(trouble_monitors).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([presence/0, session/0]).

-define(SESSIONS, 50).
-define(PAUSE_MS, 20).
-define(MOST, 1000000).

children() ->
    [trouble:process(presence, ?MODULE, presence, [])].

truth() ->
    #{problem => monitor_leak, kind => [monitor_growth], severity => warning,
      process => [presence], function => <<"trouble_monitors:seen/1">>,
      sentence => <<"presence has 2,500 monitors more each second.">>}.

presence() ->
    Sessions = [spawn_link(?MODULE, session, []) || _ <- lists:seq(1, ?SESSIONS)],
    presence(Sessions, 0).

presence(Sessions, N) ->
    [seen(Session) || N < ?MOST, Session <- Sessions],
    timer:sleep(?PAUSE_MS),
    presence(Sessions, N + ?SESSIONS).

seen(Session) ->
    erlang:monitor(process, Session).

session() ->
    receive sign_off -> ok end.
