%% @private Starts the session that `sys.config' asks for, once the application
%% is up.
%%
%% A process of its own: finding the VM's layout takes a moment, and a release
%% must not wait for its profiler. Whatever is wrong, with the configuration or
%% with the disk, is logged; the release goes on without being profiled.
-module(flame_prof_autostart).

-include_lib("kernel/include/logger.hrl").

-export([start_link/0]).
-export([run/0]).

-define(LOG_META, #{application => flame_prof}).

-spec start_link() -> {ok, pid()} | ignore.
start_link() ->
    case application:get_env(flame_prof, autostart, false) of
        false -> ignore;
        _ -> {ok, proc_lib:spawn_link(?MODULE, run, [])}
    end.

-spec run() -> ok.
run() ->
    case flame_prof_env:autostart() of
        no -> ok;
        {ok, Options} -> start(Options);
        {error, Reason} -> refused("the environment of flame_prof is refused: ", Reason)
    end.

start(Options) ->
    started(flame_prof_sup:start_session(Options, #{timeout => infinity, owner => none})).

started({ok, _Session}) -> ok;
%% Somebody was faster, from a shell.
started({error, {already_started, _}}) -> ok;
started({error, Reason}) -> refused("it cannot start: ", Reason).

refused(What, Reason) ->
    ?LOG_ERROR(
        "flame_prof does not profile; ~ts~ts",
        [What, flame_prof:format_error(Reason)],
        ?LOG_META
    ).
