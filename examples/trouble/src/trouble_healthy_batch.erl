%% Healthy: a worker of batches that makes much garbage and keeps none: each batch is a process.
-module(trouble_healthy_batch).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([batches/0, batch/1]).

-define(ROWS, 30000).
-define(PAUSE_MS, 150).

children() ->
    [trouble:process(nightly_batch, ?MODULE, batches, [])].

truth() ->
    #{problem => healthy_batch, kind => [], process => [],
      sentence => <<"nightly_batch does its work in processes that end, five a second.">>}.

batches() ->
    batches(1).

batches(N) ->
    {_, Monitor} = spawn_monitor(?MODULE, batch, [N]),
    receive {'DOWN', Monitor, process, _, _} -> ok end,
    timer:sleep(?PAUSE_MS),
    batches(N + 1).

batch(N) ->
    Rows = [{I, integer_to_binary(I * N), {cents, I rem 997}} || I <- lists:seq(1, ?ROWS)],
    Sorted = lists:sort(fun({_, _, A}, {_, _, B}) -> A =< B end, Rows),
    maps:size(maps:from_list([{I, {Text, Cents}} || {I, Text, {cents, Cents}} <- Sorted])).
