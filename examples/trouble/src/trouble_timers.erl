%% A reminder that sets and cancels some hundred thousand timers a second, one for each thing that
%% it sees.
-module(trouble_timers).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([reminder/0]).

-define(TIMERS, 4000).
-define(PAUSE_MS, 10).

children() ->
    [trouble:process(reminder, ?MODULE, reminder, [])].

truth() ->
    #{problem => timers, kind => [timers], severity => note,
      process => [reminder], function => <<"trouble_timers:remind/1">>,
      sentence => <<"reminder sets and cancels hundreds of thousands of timers a second.">>}.

reminder() ->
    Timers = [remind(N) || N <- lists:seq(1, ?TIMERS)],
    timer:sleep(?PAUSE_MS),
    [erlang:cancel_timer(Timer) || Timer <- Timers],
    reminder().

remind(N) ->
    erlang:start_timer(60000 + N, self(), {remind, N}).
