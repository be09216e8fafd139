%% @private The application and its supervisor, which holds at most one session, and what
%% the last one left behind.
%%
%% A session is temporary: a profiler that failed is not started again behind
%% the operator's back on a machine that is in trouble already. Nothing here is ever
%% restarted, so that no failure here can end this supervisor, and with it a release in
%% which the application is permanent.
%%
%% Starting the application starts a session only where `autostart' in `sys.config' is
%% true, in a process of its own: finding the VM's layout takes a moment, and a release
%% must not wait for its profiler. An error of the configuration or of the disk is logged and is in
%% flame_prof:info/0; the release runs without a profile.
-module(flame_prof_sup).

-behaviour(application).
-behaviour(supervisor).

-include("flame_prof_internal.hrl").
-include_lib("kernel/include/logger.hrl").

%% The application.
-export([start/2, prep_stop/1, stop/1]).
-export([start_autostart/0, autostart/0]).
%% The supervisor.
-export([start_link/0, ensure_started/0, start_child/1]).
-export([start_session/2, start_session_with_application/2, start_bounded/2]).
-export([init/1]).

%% More than flame_prof_session gives the writer thread to finish its file.
-define(SHUTDOWN_MS, 15000).

%% How often, at most, to ask again while a dead session is still listed.
-define(ATTEMPTS, 1000).

-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_Type, _Args) ->
    start_link().

%% @doc The session ends now, while there is somewhere to keep what it says at its end.
-spec prep_stop(State) -> State.
prep_stop(State) ->
    _ = [supervisor:terminate_child(?MODULE, Place)
        || Place <- [flame_prof_session_beside, flame_prof_session]],
    ok = flame_prof_tracing:stop_all(),
    ok = flame_prof_history:outlive(),
    State.

-spec stop(term()) -> ok.
stop(_State) ->
    _ = flame_prof_looks:purge(),
    ok.

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    case supervisor:start_link({local, ?MODULE}, ?MODULE, []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    %% It has little to do, and a busy node would keep each start waiting for it.
    _ = process_flag(priority, high),
    ok = flame_prof_history:create(),
    Autostart = #{
        id => flame_prof_autostart,
        start => {?MODULE, start_autostart, []},
        restart => temporary,
        shutdown => brutal_kill
    },
    {ok, {#{strategy => one_for_one}, [Autostart]}}.

%% Autostart.

-spec start_autostart() -> {ok, pid()} | ignore.
start_autostart() ->
    case flame_prof_env:autostart() of
        no -> ignore;
        _ -> {ok, proc_lib:spawn_link(?MODULE, autostart, [])}
    end.

-spec autostart() -> ok.
autostart() ->
    case flame_prof_env:autostart() of
        no -> ok;
        {ok, Options} -> autostart(Options);
        {error, Reason} -> refused(Reason)
    end.

autostart(Options) ->
    case start_session(Options, #{timeout => infinity, owner => none}) of
        {ok, _Session} -> ok;
        %% Another process was faster.
        {error, {already_started, _}} -> ok;
        {error, Reason} -> refused(Reason)
    end.

refused(Reason) ->
    ok = flame_prof_history:keep_error(Reason),
    Why = flame_prof:format_error(Reason),
    ?LOG_ERROR("flame_prof: ~ts~ts", [without_session(Reason), Why], ?LOG_META).

%% A mistake in the environment is refused with autostart or without.
without_session({bad_env, _}) -> "";
without_session(_) -> "autostart failed: ".

%% Sessions.

%% @doc Starts the application, too, where it is not running.
-spec start_session_with_application(flame_prof_options:options(), flame_prof_session:how()) ->
    {ok, pid()} | {error, flame_prof:reason()}.
start_session_with_application(Options, How) ->
    %% The start of an application ends a VM that has no process left.
    case flame_prof_shortage:check(session) of
        ok ->
            case ensure_started() of
                ok -> start_session(Options, How);
                {error, _} = Error -> Error
            end;
        {error, _} = Shortage ->
            Shortage
    end.

%% @doc The same for a session of bounded length. If triggers have the place of the session, it runs
%% beside them, within their CPU budget: they stay armed, and neither their samples nor their folder
%% get anything of it.
-spec start_bounded(flame_prof_options:options(), flame_prof_session:how()) ->
    {ok, pid()} | {error, flame_prof:reason()}.
start_bounded(#{cpu_budget := Budget} = Options, How) ->
    case start_session_with_application(Options, How) of
        {error, {already_started, #{pid := Pid}}} = Error ->
            case flame_prof_triggers:cpu_budget(Pid) of
                {ok, Theirs} ->
                    start_session(Options#{cpu_budget := min(Budget, Theirs)},
                        How#{name => flame_prof_session_beside});
                {error, _} ->
                    Error
            end;
        Started ->
            Started
    end.

%% @doc The application alone: application:ensure_all_started/1 would start its optional
%% applications in the node, too.
-spec ensure_started() -> ok | {error, flame_prof:reason()}.
ensure_started() ->
    case application:start(flame_prof) of
        ok -> ok;
        {error, {already_started, flame_prof}} -> ok;
        {error, Reason} -> {error, flame_prof_error:of_application({flame_prof, Reason})}
    end.

%% @doc As supervisor:start_child/2. The application may end meanwhile.
-spec start_child(supervisor:child_spec()) -> supervisor:startchild_ret().
start_child(Spec) ->
    try
        supervisor:start_child(?MODULE, Spec)
    catch
        exit:{Reason, _Call} -> {error, {Reason, none}}
    end.

-spec start_session(flame_prof_options:options(), flame_prof_session:how()) ->
    {ok, pid()} | {error, flame_prof:reason()}.
start_session(Options, How) ->
    start_session(Options, How, ?ATTEMPTS).

start_session(Options, How, Attempts) ->
    case start_child(session_spec(Options, How)) of
        {ok, Pid} when is_pid(Pid) ->
            ok = flame_prof_history:forget_error(),
            {ok, Pid};
        {error, {already_started, Pid}} when is_pid(Pid) ->
            already_started(Pid, Options, How, Attempts);
        {error, {{shutdown, {refused, Reason}}, _Child}} ->
            {error, with_note(Reason, flame_prof_options:is_homeless(Options))};
        {error, {timeout, _Child}} ->
            {error, {timeout, #{ms => maps:get(timeout, How), request => start}}};
        {error, {Reason, _Child}} ->
            {error, flame_prof_error:of_exit(Reason)}
    end.

with_note({file, Details}, true) ->
    {file, Details#{note => <<"HOME is not set; the option dir names another folder">>}};
with_note(Reason, _IsHomeless) ->
    Reason.

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
        id => maps:get(name, How, flame_prof_session),
        start => {Module, start_link, [Options, How]},
        modules => [Module],
        restart => temporary,
        shutdown => ?SHUTDOWN_MS
    }.

%% In its place is what waits for a trigger, and what has no library.
session_module(_Options, #{remote_writer := _}) -> flame_prof_remote_sampler;
session_module(#{triggers := []}, _How) -> flame_prof_session;
session_module(_Options, _How) -> flame_prof_triggers.
