%% Healthy: bursts of two thousand measurements, one in two seconds, that one process takes in some
%% hundred milliseconds each.
-module(trouble_healthy_bursts).
-behaviour(trouble).
-behaviour(gen_server).

-export([children/0, truth/0]).
-export([start_link/0, source/0]).
-export([init/1, handle_call/3, handle_cast/2]).

-define(BURST, 2000).
-define(PAUSE_MS, 2000).

children() ->
    [#{id => sensor_sink, start => {?MODULE, start_link, []}},
     trouble:process(sensor_source, ?MODULE, source, [])].

truth() ->
    #{problem => healthy_bursts, kind => [], process => [],
      sentence => <<"The queue of sensor_sink comes with each burst and goes.">>}.

start_link() ->
    gen_server:start_link({local, sensor_sink}, ?MODULE, [], []).

init([]) ->
    {ok, 0}.

handle_call(count, _From, Sum) ->
    {reply, Sum, Sum}.

handle_cast({measured, N, Values}, Sum) ->
    {noreply, lists:foldl(fun(V, S) -> erlang:phash2({V, S}) end, Sum + N, Values)}.

source() ->
    [gen_server:cast(sensor_sink, {measured, N, lists:seq(1, 100)}) || N <- lists:seq(1, ?BURST)],
    timer:sleep(?PAUSE_MS),
    source().
