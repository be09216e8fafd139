%% Waiting for what is to come, in tests. Not timed: how often is looked is bounded,
%% generously, for machines that are slow.
-module(waiting).

-export([eventually/1, eventually/2]).

-define(LOOKS, 6000).
-define(PAUSE_MS, 10).

%% Until Look answers true, or {true, Found}: then Found.
eventually(Look) -> eventually(Look, ?LOOKS).

eventually(Look, 0) ->
    error({never, Look, catch flame_prof:info()});
eventually(Look, Looks) ->
    case Look() of
        true -> ok;
        {true, Found} -> Found;
        _ -> timer:sleep(?PAUSE_MS), eventually(Look, Looks - 1)
    end.
