%% A lottery that reads numbers of many digits: one BIF that keeps its scheduler for a part of a
%% second, again and again.
-module(trouble_long_bif).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([lottery/0]).

%% At first: twice as many until one call takes so long, as releases differ by much.
-define(DIGITS, 100000).
%% One of 1,262,611 digits is too large.
-define(DIGITS_MOST, 1200000).
-define(CALL_MS, 300).
-define(PAUSE_MS, 100).

children() ->
    [trouble:process(lottery, ?MODULE, lottery, [])].

truth() ->
    #{problem => long_bif, kind => [scheduler_stuck], severity => warning,
      process => [lottery], function => <<"trouble_long_bif:drawn/1">>,
      sentence => <<"lottery keeps a scheduler in erlang:binary_to_integer/1 for a part of a "
          "second, again and again.">>}.

lottery() ->
    draw(slow(?DIGITS)).

slow(Digits) ->
    Text = binary:copy(<<"7">>, Digits),
    %% The shortest of some: a machine that is busy makes each of them longer.
    case lists:min([element(1, timer:tc(fun() -> drawn(Text) end)) || _ <- [1, 2, 3]]) of
        Us when Us >= 1000 * ?CALL_MS; Digits >= ?DIGITS_MOST -> Text;
        _ -> slow(min(2 * Digits, ?DIGITS_MOST))
    end.

draw(Text) ->
    _ = drawn(Text),
    timer:sleep(?PAUSE_MS),
    draw(Text).

drawn(Text) ->
    binary_to_integer(Text) rem 49.
