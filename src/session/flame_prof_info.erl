%% @private What flame_prof:info/0 and selected/0 answer, put together from the session,
%% its targets and the triggers. A process that ends meanwhile is left out.
-module(flame_prof_info).

-export([info/0, selected/0]).

-spec info() -> flame_prof:info().
info() ->
    add_triggers(
        case flame_prof_session:info() of
            {ok, Info} -> add_targets(Info);
            %% It answers at any time but while the application shuts it down.
            {error, {timeout, _}} -> #{state => stopping};
            {error, _} -> stopped(flame_prof_session:last_run())
        end
    ).

add_triggers(#{state := State} = Info) ->
    case {flame_prof_triggers:info(), State} of
        {{ok, Triggers}, stopped} -> maps:merge(Info#{state := armed}, Triggers);
        {{ok, Triggers}, armed} -> maps:merge(add_last_run(Info), Triggers);
        {{ok, Triggers}, _} -> maps:merge(Info, Triggers);
        {{error, _}, _} -> Info
    end.

add_targets(Info) ->
    case flame_prof_session:targets() of
        {ok, Targets} ->
            try
                Info#{targets => flame_prof_targets:info(Targets)}
            catch
                exit:_ -> Info
            end;
        {error, _} ->
            Info
    end.

%% It keeps what comes before the next one.
add_last_run(Info) ->
    maps:merge(stopped(flame_prof_session:last_run()), Info).

stopped(none) -> #{state => stopped};
stopped(Run) -> #{state => stopped, last_run => Run}.

-spec selected() -> [{pid(), Names :: unicode:chardata()}].
selected() ->
    case flame_prof_session:targets() of
        {ok, Targets} -> [{Pid, shown(Pid)} || Pid <- selected(Targets)];
        {error, _} -> []
    end.

selected(Targets) ->
    try
        flame_prof_targets:selected(Targets)
    catch
        exit:_ -> []
    end.

shown(Pid) ->
    unicode:characters_to_binary(flame_prof_names:show(Pid)).
