%% @private The time and the timers of sessions, triggers and tracings. Tests replace this module by
%% a clock of their own (test/support/virtual_clock.erl), so that an hour passes at once.
-module(flame_prof_clock).

-export([now_ms/0, now_us/0]).
-export([send_after/2, send_at/2, cancel/1, sleep/1]).

%% @doc Monotonic.
-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).

%% @doc Monotonic.
-spec now_us() -> integer().
now_us() -> erlang:monotonic_time(microsecond).

%% @doc The calling process gets the message.
-spec send_after(Ms :: non_neg_integer(), Message :: term()) -> reference().
send_after(Ms, Message) -> erlang:send_after(Ms, self(), Message).

%% @doc The same at a time of now_ms/0.
-spec send_at(Ms :: integer(), Message :: term()) -> reference().
send_at(Ms, Message) -> erlang:send_after(Ms, self(), Message, [{abs, true}]).

%% @doc A message that has been sent stays.
-spec cancel(reference()) -> ok.
cancel(Timer) -> erlang:cancel_timer(Timer, [{async, true}, {info, false}]).

-spec sleep(Ms :: non_neg_integer()) -> ok.
sleep(Ms) -> timer:sleep(Ms).
