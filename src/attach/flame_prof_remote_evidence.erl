%% @private What the doctor judges, of another node: collected there, by what is lent to it for the
%% time if it has no flame_prof. The command line has its own way, with progress and a deadline.
-module(flame_prof_remote_evidence).

-export([collect/2]).

-define(CALL_MS, 10000).
%% More than the looks on the node take after their time.
-define(ANSWER_MS, 14000).
-define(AFTER_MS, 2000).

-spec collect(node(), #{for := pos_integer(), engine := auto | native | portable, _ => _}) ->
    {ok, flame_prof_doctor_evidence:collected()} | {error, flame_prof:reason()}.
collect(Node, #{engine := Engine} = Options) ->
    case flame_prof_remote:lacks(Node, flame_prof_doctor_evidence, ?CALL_MS) of
        {ok, true} ->
            case flame_prof_attach:open(Node, flame_prof_remote_samples:without(Engine), doctor) of
                {ok, Agent} ->
                    try flame_prof_remote_samples:beside(Agent,
                        fun(More) -> ask(Node, maps:merge(Options, More)) end)
                    after
                        _ = flame_prof_attach:close(Agent)
                    end;
                {error, _} = Error ->
                    Error
            end;
        %% It has flame_prof, of which the first look loads all modules.
        {ok, false} ->
            case flame_prof_preflight:ask(Node, doctor, true) of
                {error, _} = Error -> Error;
                _ -> ask(Node, Options)
            end;
        {error, _} = Error ->
            Error
    end.

ask(Node, #{for := Ms} = Options) ->
    Collected = (maps:with([for, engine, samples], Options))#{
        within => Ms + ?ANSWER_MS - ?AFTER_MS,
        caller => self()
    },
    flame_prof_remote:at_once(Node, flame_prof_doctor_evidence, collect, [Collected],
        Ms + ?ANSWER_MS).
