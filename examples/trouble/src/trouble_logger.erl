%% An intake of orders whose processes log a line for each step: more than the handler can write.
-module(trouble_logger).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([intake/2]).

-include_lib("kernel/include/logger.hrl").

-define(PROCESSES, 30).

children() ->
    [trouble:process({order_intake, N}, ?MODULE, intake, [N, 1])
     || N <- lists:seq(1, ?PROCESSES)].

truth() ->
    #{problem => logger, kind => [logger], severity => warning,
      process => [], function => <<"trouble_logger:step/2">>,
      sentence => <<"The logger's default handler has more than it can write; it makes 30 processes "
          "wait, or drops.">>}.

intake(N, Order) ->
    step(N, Order),
    Order rem 100 =:= 0 andalso timer:sleep(5),
    intake(N, Order + 1).

step(N, Order) ->
    ?LOG_ERROR("intake ~b takes order ~b: ~p", [N, Order, lists:seq(Order, Order + 20)]).
