%% Healthy: a node that starts up while it is looked at: processes, tables, atoms and heaps come for
%% three seconds, as many as it needs, and then no more.
-module(trouble_healthy_start).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([boot/0, service/1]).

-define(STEPS, 30).
-define(STEP_MS, 100).
-define(SERVICES, 20).

children() ->
    [trouble:process(boot_sequence, ?MODULE, boot, [])].

truth() ->
    #{problem => healthy_start, kind => [], process => [],
      sentence => <<"The node starts up: it grows for 3 s, and then no more.">>}.

boot() ->
    boot_table = ets:new(boot_table, [named_table, public]),
    steps(1).

steps(N) when N =< ?STEPS ->
    [spawn_link(?MODULE, service, [{N, I}]) || I <- lists:seq(1, ?SERVICES)],
    [ets:insert(boot_table, {{N, I}, lists:seq(1, 20)}) || I <- lists:seq(1, 200)],
    _ = [list_to_atom("boot_key_" ++ integer_to_list(N * 100 + I)) || I <- lists:seq(1, 20)],
    timer:sleep(?STEP_MS),
    steps(N + 1);
steps(_) ->
    receive stop -> ok end.

service(Id) ->
    receive {ask, From} -> From ! Id end,
    service(Id).
