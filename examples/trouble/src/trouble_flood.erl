%% A chat room that one of its guests floods: it takes some 3,000 lines a second, and this guest
%% alone says 6,000. Other guests say a few.
-module(trouble_flood).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([room/0, guest/2]).

-define(GUESTS, 20).
%% Of lines that wait: then the bot waits, too.
-define(LINES_MOST, 400000).

children() ->
    [trouble:process(chat_lobby, ?MODULE, room, []),
     trouble:process(gossip_bot, ?MODULE, guest, [60, 10])] ++
        [trouble:process({guest, N}, ?MODULE, guest, [1, 500]) || N <- lists:seq(1, ?GUESTS)].

truth() ->
    #{problem => flood, kind => [mailbox], severity => warning,
      process => [chat_lobby], function => <<"trouble_flood:show/1">>,
      sentence => <<"gossip_bot alone sends 6,000 lines a second to chat_lobby, which takes "
          "half of them.">>}.

room() ->
    receive
        {line, Line} ->
            show(Line),
            room()
    end.

show(Line) ->
    Until = erlang:monotonic_time(microsecond) + 300,
    show(Line, Until).

show(Line, Until) ->
    _ = erlang:phash2(Line),
    case erlang:monotonic_time(microsecond) < Until of
        true -> show(Line, Until);
        false -> ok
    end.

guest(Lines, PauseMs) ->
    {_, Waiting} = process_info(whereis(chat_lobby), message_queue_len),
    [chat_lobby ! {line, {hello, N}} || Waiting < ?LINES_MOST, N <- lists:seq(1, Lines)],
    timer:sleep(PauseMs),
    guest(Lines, PauseMs).
