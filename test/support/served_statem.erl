%% A gen_statem that sleeps in each event (served).
-module(served_statem).

-behaviour(gen_statem).

-export([callback_mode/0, init/1, handle_event/4]).

callback_mode() -> handle_event_function.
init(Log) -> {ok, open, Log}.

handle_event({call, {Caller, _} = From}, Request, open, Log) ->
    true = ets:insert(Log, {served:reference(From), self(), Caller, Request}),
    ok = timer:sleep(4),
    {keep_state_and_data, [{reply, From, ok}, {state_timeout, 0, over}]};
handle_event(_Type, _Content, open, _Log) ->
    ok = timer:sleep(4),
    keep_state_and_data.
