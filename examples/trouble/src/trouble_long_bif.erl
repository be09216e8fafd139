%% A lottery that reads numbers of 300,000 digits: one BIF that keeps its scheduler for a part of a
%% second, again and again.
-module(trouble_long_bif).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([lottery/0]).

-define(DIGITS, 300000).
-define(PAUSE_MS, 100).

children() ->
    [trouble:process(lottery, ?MODULE, lottery, [])].

truth() ->
    #{problem => long_bif, kind => [scheduler_stuck], severity => warning,
      process => [lottery], function => <<"trouble_long_bif:drawn/1">>,
      sentence => <<"lottery keeps a scheduler in erlang:binary_to_integer/1 for a part of a "
          "second, again and again.">>}.

lottery() ->
    draw(binary:copy(<<"7">>, ?DIGITS)).

draw(Text) ->
    _ = drawn(Text),
    timer:sleep(?PAUSE_MS),
    draw(Text).

drawn(Text) ->
    binary_to_integer(Text) rem 49.
