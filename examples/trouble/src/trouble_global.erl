%% A cinema whose tills book seats one at a time, each under one lock of `global'.
-module(trouble_global).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([till/0]).

-define(TILLS, 40).
-define(BOOKING_MS, 400).

children() ->
    [trouble:process({till, N}, ?MODULE, till, []) || N <- lists:seq(1, ?TILLS)].

truth() ->
    #{problem => global_lock, kind => [bottleneck], severity => warning,
      process => [], function => <<"trouble_global:book/0">>,
      sentence => <<"Forty tills wait for the lock of the seats, which one has in "
          "trouble_global:book/0.">>}.

till() ->
    booked = global:trans({seats, self()}, fun book/0, [node()]),
    till().

book() ->
    ok = timer:sleep(?BOOKING_MS),
    booked.
