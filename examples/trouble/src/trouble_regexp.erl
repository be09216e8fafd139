%% A filter of spam whose expression backtracks: each long word takes seconds.
-module(trouble_regexp).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([filter/0]).

-define(PAUSE_MS, 20).

children() ->
    [trouble:process(spam_filter, ?MODULE, filter, [])].

truth() ->
    #{problem => regexp, kind => [scheduler_stuck, hot_function], severity => warning,
      process => [spam_filter], function => <<"trouble_regexp:is_spam/2">>,
      sentence => <<"spam_filter backtracks in re:run/3, called by trouble_regexp:is_spam/2.">>}.

filter() ->
    {ok, Expression} = re:compile("^(a+)+$"),
    words(Expression, 30).

words(Expression, Length) ->
    _ = is_spam(Expression, lists:duplicate(Length, $a) ++ "!"),
    timer:sleep(?PAUSE_MS),
    words(Expression, 28 + (Length + 1) rem 4).

is_spam(Expression, Word) ->
    nomatch =/= re:run(Word, Expression, [{match_limit, 50000000}]).
