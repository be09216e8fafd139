%% A server with a large heap of which it replaces a part all the time: what
%% keeps a garbage collector busy.
-module(demo_statistics).
-behaviour(gen_server).

-export([start_link/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(PAUSE_MS, 60).
-define(SERIES, 30000).
-define(UPDATES, 8000).

start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

init([]) ->
    Series = maps:from_list([{N, samples(N)} || N <- lists:seq(1, ?SERIES)]),
    erlang:send_after(?PAUSE_MS, self(), update),
    {ok, Series}.

handle_call(Request, _From, Series) ->
    {reply, {unknown, Request}, Series}.

handle_cast(_, Series) ->
    {noreply, Series}.

handle_info(update, Series) ->
    Series1 = update(?UPDATES, Series),
    erlang:send_after(?PAUSE_MS, self(), update),
    {noreply, Series1}.

update(0, Series) ->
    Series;
update(N, Series) ->
    Key = rand:uniform(?SERIES),
    #{Key := Samples} = Series,
    Smoothed = smooth([rand:uniform(1000) | lists:droplast(Samples)]),
    update(N - 1, Series#{Key := Smoothed}).

smooth([A, B | Rest]) -> [(A + B) div 2 | smooth([B | Rest])];
smooth(Last) -> Last.

samples(N) ->
    [erlang:phash2({N, I}, 1000) || I <- lists:seq(1, 10)].
