%% Payments whose processes log a line each, and a handler of the logger that asks a slow collector
%% for each line, in the process that logs.
-module(trouble_slow_handler).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([collect/0, pay/1, log/2]).

-include_lib("kernel/include/logger.hrl").

-define(PROCESSES, 40).
-define(LINE_MS, 20).

children() ->
    [trouble:process(line_collector, ?MODULE, collect, []) |
        [trouble:process({payment, N}, ?MODULE, pay, [N]) || N <- lists:seq(1, ?PROCESSES)]].

truth() ->
    #{problem => slow_handler, kind => [logger, bottleneck], severity => warning,
      process => [], function => <<"trouble_slow_handler:log/2">>,
      sentence => <<"About 40 processes that log wait in the handler trouble_slow_handler:log/2, "
          "which writes 50 lines a second.">>}.

%% It has the handler for as long as it lives.
collect() ->
    _ = logger:remove_handler(?MODULE),
    ok = logger:add_handler(?MODULE, ?MODULE, #{filter_default => stop, filters =>
        [{payments, {fun logger_filters:domain/2, {log, sub, [payments]}}}]}),
    lines().

lines() ->
    receive
        {line, From, Ref, _} ->
            timer:sleep(?LINE_MS),
            From ! {written, Ref},
            lines()
    end.

log(#{msg := Line}, _) ->
    Ref = make_ref(),
    line_collector ! {line, self(), Ref, Line},
    receive {written, Ref} -> ok end.

pay(N) ->
    timer:sleep(100),
    ?LOG_ERROR("payment ~b is done", [N], #{domain => [payments]}),
    pay(N).
