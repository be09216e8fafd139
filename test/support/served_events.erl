%% A handler of gen_event that sleeps in each event (served).
-module(served_events).

-behaviour(gen_event).

-export([init/1, handle_event/2, handle_call/2, handle_info/2]).

init(Log) -> {ok, Log}.

handle_event(_Event, Log) ->
    ok = timer:sleep(4),
    {ok, Log}.

handle_call(_Request, Log) ->
    ok = timer:sleep(4),
    {ok, ok, Log}.

handle_info(_Message, Log) ->
    ok = timer:sleep(4),
    {ok, Log}.
