%% Waiting for what is to come, in tests. Not timed: how often is looked is bounded,
%% generously, for machines that are slow.
-module(waiting).

-export([eventually/1, eventually/2]).
-export([suspend/1]).

-define(LOOKS, 6000).
-define(PAUSE_MS, 10).

%% Until Look answers true, or {true, Found}: then Found. A look that fails is one too many
%% or too early: on a slow machine info/0 may say no more than that it got no answer.
eventually(Look) -> eventually(Look, ?LOOKS).

eventually(Look, Looks) -> eventually(Look, Looks, false).

eventually(Look, 0, Last) ->
    error({never, Look, {Last, catch flame_prof:info()}});
eventually(Look, Looks, _) ->
    case looked(Look) of
        true -> ok;
        {true, Found} -> Found;
        Other -> timer:sleep(?PAUSE_MS), eventually(Look, Looks - 1, Other)
    end.

looked(Look) ->
    try
        Look()
    catch
        Class:Reason:Stack -> {Class, Reason, Stack}
    end.

%% erlang:suspend_process/1 answers internal_error now and then, on a busy machine, about a
%% process that lives.
suspend(Pid) ->
    try
        erlang:suspend_process(Pid)
    catch
        error:internal_error -> suspend(Pid)
    end.
