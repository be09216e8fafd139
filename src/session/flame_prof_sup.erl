%% @private Holds at most one session, and what the last one left behind.
%%
%% A session is temporary: a profiler that failed is not started again behind
%% the operator's back on a machine that is in trouble already.
-module(flame_prof_sup).

-behaviour(supervisor).

-export([start_link/0, start_session/2]).
-export([init/1]).

%% More than flame_prof_session gives the writer thread to finish its file.
-define(SHUTDOWN_MS, 15000).

%% How often, at most, to ask again while a dead session is still listed.
-define(ATTEMPTS, 1000).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    case supervisor:start_link({local, ?MODULE}, ?MODULE, []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

-spec start_session(flame_prof_options:options(), flame_prof_session:how()) ->
    {ok, pid()} | {error, flame_prof:reason()}.
start_session(Options, How) ->
    start_session(Options, How, ?ATTEMPTS).

start_session(Options, How, Attempts) ->
    case supervisor:start_child(?MODULE, session_spec(Options, How)) of
        {ok, Pid} when is_pid(Pid) ->
            {ok, Pid};
        {error, {already_started, Pid}} when is_pid(Pid) ->
            already_started(Pid, Options, How, Attempts);
        {error, {{shutdown, {refused, Reason}}, _Child}} ->
            {error, Reason};
        {error, {timeout, _Child}} ->
            {error, {timeout, #{ms => maps:get(timeout, How), request => start}}};
        {error, {Reason, _Child}} ->
            {error, flame_prof_error:of_exit(Reason)}
    end.

%% The supervisor may not have heard yet of a session that ended just now.
already_started(Pid, Options, How, Attempts) ->
    case Attempts > 0 andalso not is_process_alive(Pid) of
        true ->
            timer:sleep(1),
            start_session(Options, How, Attempts - 1);
        false ->
            {error, {already_started, #{pid => Pid}}}
    end.

session_spec(Options, How) ->
    Module = session_module(Options, How),
    #{
        id => flame_prof_session,
        start => {Module, start_link, [Options, How]},
        modules => [Module],
        restart => temporary,
        shutdown => ?SHUTDOWN_MS
    }.

%% In its place is what waits for a trigger, and what has no library.
session_module(_Options, #{scribe := _}) -> flame_prof_outpost;
session_module(#{triggers := []}, _How) -> flame_prof_session;
session_module(_Options, _How) -> flame_prof_triggers.

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    ok = flame_prof_session:create_last_run(),
    {ok, {#{strategy => one_for_one}, [autostart_spec()]}}.

%% Nothing here is ever restarted, so that no failure here can end this
%% supervisor, and with it a release in which the application is permanent.
autostart_spec() ->
    #{
        id => flame_prof_autostart,
        start => {flame_prof_autostart, start_link, []},
        restart => temporary,
        shutdown => brutal_kill
    }.
