%% A telephone exchange whose legs never hang up: 300 processes more each second.
-module(trouble_processes).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([exchange/0, leg/1]).

-define(CALLS, 15).
-define(PAUSE_MS, 50).
-define(MOST, 60000).

children() ->
    [trouble:process(call_exchange, ?MODULE, exchange, [])].

truth() ->
    #{problem => process_leak, kind => [process_growth], severity => warning,
      process => [], function => <<"trouble_processes:leg/1">>,
      sentence => <<"300 processes of trouble_processes:leg/1 come each second, and none ends.">>}.

exchange() ->
    process_flag(trap_exit, true),
    exchange(0).

exchange(N) ->
    [spawn_link(?MODULE, leg, [I]) || N < ?MOST, I <- lists:seq(1, ?CALLS)],
    receive {'EXIT', _, shutdown} -> exit(shutdown) after ?PAUSE_MS -> ok end,
    exchange(N + ?CALLS).

leg(N) ->
    receive {hang_up, N} -> ok end.
