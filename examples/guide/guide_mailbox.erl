%% A mailbox piles up: whose, and what is its owner doing instead of reading it?
-module(guide_mailbox).

-export([run/1]).

run(Directory) ->
    Logger = spawn(fun slow/0),
    true = register(audit_log, Logger),
    _ = spawn(fun() -> chatter(Logger) end),
    {ok, _} = flame_prof:start(#{
        dir => Directory,
        select => #{top => 3, by => message_queue_len, delta => true, interval => 500}
    }),
    timer:sleep(3000),
    {ok, #{files := Files}} = flame_prof:stop(),
    flame_prof:hot(Files, #{by => message_queue_len, top => 3}).

chatter(To) ->
    To ! {event, erlang:monotonic_time()},
    timer:sleep(1),
    chatter(To).

%% It formats each event ten times slower than they come.
slow() ->
    receive
        {event, Time} -> format(Time, 60000)
    end,
    slow().

format(_, 0) -> ok;
format(Time, N) -> _ = integer_to_list(Time * N), format(Time, N - 1).
