%% @doc Functions of the original flame_prof of 2020, by which processes of the program choose
%% themselves for the running session. {@link flame_prof} has them by the same names.
-module(flame_prof_original).

-export([apply/1, apply/2, profile_start/0, profile_start/1, profile_stop/0]).

%% There is a BIF of that name.
-compile({no_auto_import, [apply/2]}).

%% @equiv apply(Fun, #{})
-spec apply(fun(() -> Result)) -> Result.
apply(Fun) ->
    ?MODULE:apply(Fun, #{}).

%% @doc Samples the calling process in the running session while it evaluates the fun, and returns
%% the fun's result ({@link flame_prof:profile/1} starts a session of its own). Calls may be nested.
%% Without a session, or if it does not answer within 5 s, the fun is evaluated and not sampled.
%% When the session ends, the fun continues. Raises `{bad_option, Details}' before it calls the fun.
-spec apply(fun(() -> Result), flame_prof:process_options()) -> Result.
apply(Fun, Given) when is_function(Fun, 0) ->
    flame_prof_oneshot:applied(Fun, Given).

%% @equiv profile_start(#{})
-spec profile_start() -> 1.
profile_start() ->
    profile_start(#{}).

%% @doc Samples the calling process in the running session from the next tick on,
%% until {@link profile_stop/0} or the process's end. `follow' adds processes:
%% <ul>
%% <li>`spawn' (the default here): the processes that it spawns, and those that they spawn.
%%     Without tracing. A process that lives for less than 0.2 s may be missed.</li>
%% <li>`send': the local processes that it sends to, and those that they send to. Their sends
%%     are traced.</li>
%% <li>`spawn_and_send', or `true': both</li>
%% <li>`none', or `false': no other process</li>
%% </ul>
%% The session's option `follow_limits' bounds it. `status' is that of `process_options'.
%%
%% Returns 1, the number of processes. Raises `{not_started, flame_prof}' without a session that
%% answers, and `{bad_option, Details}'.
-spec profile_start(flame_prof:process_options()) -> 1.
profile_start(Given) ->
    _ = flame_prof_oneshot:enter(Given),
    1.

%% @doc Ends {@link profile_start/1} for the calling process. Followed processes stay. Returns 1,
%% or 0 when the process was not sampled by it. Never raises.
-spec profile_stop() -> 0 | 1.
profile_stop() ->
    case flame_prof_oneshot:leave(none) of
        none -> 0;
        #{} -> 1
    end.
