%% A deduplicator that remembers each message it has seen in an ETS table, and forgets
%% none.
-module(trouble_table).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([start_link/0, init/0]).

-define(PAUSE_MS, 10).
-define(MESSAGES, 200).
%% About 300 MB: then it remembers no more.
-define(REMEMBERED, 1000000).

children() ->
    [#{id => deduplicator, start => {?MODULE, start_link, []}}].

truth() ->
    #{problem => table,
      kind => [table_growth],
      severity => warning,
      finding => memory,
      process => deduplicator,
      function => <<"trouble_table:remember/1">>,
      sentence => <<"The memory of ETS tables only grows; the table seen_ids of deduplicator "
          "grows in trouble_table:remember/1.">>}.

start_link() ->
    proc_lib:start_link(?MODULE, init, []).

init() ->
    register(deduplicator, self()),
    seen_ids = ets:new(seen_ids, [named_table, protected, set]),
    proc_lib:init_ack({ok, self()}),
    receive_all(1).

receive_all(N) ->
    IsFull = ets:info(seen_ids, size) >= ?REMEMBERED,
    ok = remember([Id || not IsFull, Id <- lists:seq(N, N + ?MESSAGES - 1)]),
    receive_all(N + ?MESSAGES).

remember(Messages) ->
    [ets:insert_new(seen_ids, {erlang:md5(<<N:64>>), N, lists:seq(N, N + 12)}) || N <- Messages],
    timer:sleep(?PAUSE_MS),
    ok.
