%% A transcript that is appended to at its end: each line copies all lines before it.
-module(trouble_append).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([transcript/0]).

-define(MOST, 60000).

children() ->
    [trouble:process(transcript, ?MODULE, transcript, [])].

truth() ->
    #{problem => append, kind => [append], severity => warning,
      process => [transcript], function => <<"trouble_append:say/2">>,
      sentence => <<"transcript copies all of its lines to append one, in "
          "trouble_append:say/2.">>}.

transcript() ->
    transcript(lists:seq(1, ?MOST div 2), ?MOST div 2).

transcript(_Lines, ?MOST) ->
    transcript();
transcript(Lines, N) ->
    transcript(say(Lines, {line, N}), N + 1).

say(Lines, Line) ->
    Lines ++ [Line].
