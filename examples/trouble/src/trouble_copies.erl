%% A scoreboard that sends all of its tables to each of forty screens, ten times a second.
-module(trouble_copies).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([board/0, screen/0]).

-define(SCREENS, 40).
-define(ROWS, 15000).
-define(PAUSE_MS, 100).

children() ->
    [trouble:process(score_board, ?MODULE, board, [])].

truth() ->
    #{problem => copies, kind => [copies], severity => note,
      process => [score_board], function => <<"trouble_copies:publish/2">>,
      sentence => <<"score_board copies 1 MB to each of 40 processes, ten times a second.">>}.

board() ->
    Rows = [{N, {team, N}, [N, N + 1, N + 2]} || N <- lists:seq(1, ?ROWS)],
    rounds([spawn_link(?MODULE, screen, []) || _ <- lists:seq(1, ?SCREENS)], Rows).

rounds(Screens, Rows) ->
    publish(Screens, Rows),
    [receive {shown, Screen} -> ok end || Screen <- Screens],
    timer:sleep(?PAUSE_MS),
    rounds(Screens, Rows).

publish(Screens, Rows) ->
    [Screen ! {rows, self(), Rows} || Screen <- Screens].

screen() ->
    receive
        {rows, From, _} -> From ! {shown, self()}
    end,
    erlang:garbage_collect(),
    screen().
