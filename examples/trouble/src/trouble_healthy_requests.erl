%% Healthy: a hundred connections that send requests to a pool of workers, more than a core's worth;
%% each worker's queue is short.
-module(trouble_healthy_requests).
-behaviour(trouble).
-behaviour(gen_server).

-export([children/0, truth/0]).
-export([start_link/1, connection/1]).
-export([init/1, handle_call/3, handle_cast/2]).

-define(CONNECTIONS, 100).
-define(WORKERS, 16).
-define(PAUSE_MS, 60).

children() ->
    [#{id => {page_worker, N}, start => {?MODULE, start_link, [worker(N)]}}
     || N <- lists:seq(1, ?WORKERS)] ++
        [trouble:process({connection, N}, ?MODULE, connection, [N])
         || N <- lists:seq(1, ?CONNECTIONS)].

truth() ->
    #{problem => healthy_requests, kind => [], process => [],
      sentence => <<"100 connections ask 16 workers for 1,500 pages a second.">>}.

worker(N) -> list_to_atom("page_worker_" ++ integer_to_list(N)).

start_link(Name) ->
    gen_server:start_link({local, Name}, ?MODULE, [], []).

init([]) ->
    {ok, 0}.

handle_call({page, N}, _From, Count) ->
    Rows = [{row, I, integer_to_binary(I * N)} || I <- lists:seq(1, 200)],
    {reply, erlang:phash2(lists:reverse(Rows)), Count + 1}.

handle_cast(_, Count) ->
    {noreply, Count}.

connection(N) ->
    Worker = worker(1 + erlang:phash2({N, erlang:monotonic_time()}, ?WORKERS)),
    _ = gen_server:call(Worker, {page, N}, infinity),
    timer:sleep(?PAUSE_MS div 2 + erlang:phash2({erlang:monotonic_time(), N}, ?PAUSE_MS)),
    connection(N).
