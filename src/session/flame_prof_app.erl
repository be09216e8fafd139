%% @private Starting the application starts no profiling, unless `autostart' says so:
%% flame_prof:start/1 does.
-module(flame_prof_app).

-behaviour(application).

-export([start/2, stop/1]).

-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_Type, _Args) ->
    flame_prof_sup:start_link().

-spec stop(term()) -> ok.
stop(_State) ->
    ok.
