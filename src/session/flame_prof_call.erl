%% @private Calls of the servers that the interface talks to, with the errors of the
%% interface for answers.
-module(flame_prof_call).

-export([call/3, stop/2]).

%% What the server answers; `timeout', `not_started' or `session_ended' where it does not.
-spec call(gen_server:server_ref(), term(), timeout()) -> term().
call(Server, Request, Timeout) ->
    try
        gen_server:call(Server, Request, Timeout)
    catch
        exit:{timeout, _} -> {error, timeout_error(Request, Timeout)};
        exit:{Reason, _} when Reason =:= noproc; Reason =:= normal -> {error, {not_started, #{}}};
        exit:{Reason, _} -> {error, flame_prof_error:of_exit(Reason)}
    end.

timeout_error(Request, Ms) when Request =:= stop; Request =:= flush ->
    {timeout, #{ms => Ms, request => Request}};
timeout_error(_Request, Ms) ->
    {timeout, #{ms => Ms}}.

%% @doc What it answers to `stop', once it has ended, so that another can be started.
-spec stop(pid(), timeout()) -> term().
stop(Pid, Timeout) ->
    Monitor = erlang:monitor(process, Pid),
    case call(Pid, stop, Timeout) of
        {error, {timeout, _}} = Error ->
            _ = erlang:demonitor(Monitor, [flush]),
            Error;
        Answer ->
            receive
                {'DOWN', Monitor, process, _, _} -> Answer
            end
    end.
