%% A lottery that prints numbers of 180,000 digits: one BIF that keeps its scheduler for a part of
%% a second, again and again.
-module(trouble_long_bif).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([lottery/0]).

-define(BITS, 600000).
-define(PAUSE_MS, 200).

children() ->
    [trouble:process(lottery, ?MODULE, lottery, [])].

truth() ->
    #{problem => long_bif, kind => [scheduler_stuck], severity => warning,
      process => [lottery], function => <<"trouble_long_bif:printed/1">>,
      sentence => <<"lottery keeps a scheduler in erlang:integer_to_binary/1 for half a second and "
          "more.">>}.

lottery() ->
    draw((1 bsl ?BITS) - 1).

draw(Number) ->
    _ = printed(Number),
    timer:sleep(?PAUSE_MS),
    draw(Number - 1).

printed(Number) ->
    byte_size(integer_to_binary(Number)) - 1.
