%% @private Profiles of the calling process, and of bounded length: what is behind
%% flame_prof:profile/2, apply/2 and profile_start/1.
-module(flame_prof_oneshot).

-include("flame_prof.hrl").

-export([profile/2, unshown/2]).
-export([enter/1, leave/1, applied/2]).

-export_type([what/0, done/0, unshown/0]).

-type what() :: pos_integer() | fun(() -> term()) | {module(), atom(), [term()]}.
%% `result' is what the function returned; `report' the page that was asked for.
-type done() :: #{files := [file:filename_all()], result => term(), report => file:name_all()}.
-type unshown() ::
    {Class :: atom(), #{files => [file:filename_all()], result => term(), atom() => term()}}.
%% A {@link flame_prof_error:reason()} whose details have what was done before, too.

-define(MOST_MS, 3600000).
-define(START_MS, 30000).
-define(STOP_MS, 30000).
-define(ONCE, #{triggers => [], lookback => 0}).
%% The function's processes, often: it may be over soon.
-define(OF_FUNCTION, ?ONCE#{select => {top, 0}, sample_interval => 1}).

%% @doc The answer has the options that are left for flame_prof:hot/2.
-spec profile(what(), map()) ->
    {ok, done(), flame_prof_tree:options()} | {error, flame_prof:reason() | unshown()}.
profile(What, Given) ->
    case {task(What), flame_prof_schema:values(rows() ++ flame_prof_options:rows(), Given)} of
        {error, _} ->
            {error, {badarg, #{argument => what, value => What, accepted => accepts()}}};
        {_, {error, Refused}} ->
            {error, {bad_option, Refused}};
        {Task, {ok, Values}} ->
            Names = flame_prof_schema:names(rows()),
            Hot = maps:with(Names -- [report], Values),
            with_hot(Hot, start(Task, maps:without(Names, Values), maps:find(report, Values)))
    end.

%% Options that would fail after the run are refused here.
rows() ->
    [#{key => report, type => {own, fun report/1, "the name of a file"}}
        | [of_own_files(Row) || Row <- flame_prof_tree:rows()]].

report(File) ->
    case flame_prof_samples:path(File) of
        {ok, _} -> {ok, File};
        {error, _} -> error
    end.

of_own_files(#{key := by} = Row) ->
    Metrics = [atom_to_binary(Metric) || Metric <- ?FLAME_PROF_METRICS],
    Accepted = ["samples, period, {value, Metric}, {delta, Metric}, or a metric: ",
        lists:join(", ", Metrics)],
    Row#{type := {own, fun by/1, Accepted}};
of_own_files(Row) ->
    Row.

by(Plain) when Plain =:= samples; Plain =:= period -> {ok, Plain};
by({Kind, Metric} = By) when Kind =:= value; Kind =:= delta -> by(Metric, By);
by(Metric) -> by(Metric, Metric).

by(Metric, By) ->
    Metrics = ?FLAME_PROF_METRICS,
    case lists:member(Metric, Metrics ++ [atom_to_binary(M) || M <- Metrics]) of
        true -> {ok, By};
        false -> error
    end.

task(Ms) when is_integer(Ms), Ms >= 1, Ms =< ?MOST_MS -> Ms;
task(Fun) when is_function(Fun, 0) -> Fun;
task({Module, Function, Arguments}) when
    is_atom(Module), is_atom(Function), is_list(Arguments), length(Arguments) >= 0
->
    fun() -> erlang:apply(Module, Function, Arguments) end;
task(_) -> error.

accepts() ->
    <<"milliseconds from 1 to 3600000, a function without arguments, or "
        "{Module, Function, Arguments}">>.

with_hot(Hot, {ok, Done}) -> {ok, Done, Hot};
with_hot(_Hot, {error, _} = Error) -> Error.

start(Task, Given, Page) ->
    case flame_prof_env:validate(defaults(Task, Given)) of
        {ok, #{triggers := [_ | _] = Triggers}} ->
            Accepted = <<"none, because this profile starts at once">>,
            {error, flame_prof_error:option(triggers, Triggers, Accepted)};
        {ok, Options} ->
            start_valid(Task, Options, Page);
        {error, _} = Error ->
            Error
    end.

defaults(Ms, Given) when is_integer(Ms) -> maps:merge(?ONCE, Given);
defaults(_Fun, Given) -> maps:merge(?OF_FUNCTION, Given).

start_valid(Task, Options, Page) ->
    How = #{timeout => ?START_MS, owner => none, caller => self()},
    case with_folder(Options) of
        {ok, InFolder} ->
            case flame_prof_sup:start_bounded(InFolder, How) of
                {ok, Session} -> reported(Page, stopped(Session, run(Task, Session)));
                {error, _} = Error -> without_folder(InFolder, Options), Error
            end;
        {error, _} = Error ->
            Error
    end.

%% A folder of its own among the temporary ones where the default of `dir' has no HOME.
with_folder(Options) ->
    case flame_prof_options:is_homeless(Options) of
        true ->
            case flame_prof_temporary:make_folder() of
                {ok, Folder} -> {ok, Options#{dir := unicode:characters_to_binary(Folder)}};
                {error, _} = Error -> Error
            end;
        false ->
            {ok, Options}
    end.

%% It is empty: nothing was written.
without_folder(#{dir := Dir}, #{dir := Dir}) -> ok;
without_folder(#{dir := Folder}, _Options) -> prim_file:del_dir(Folder).

%% As long as the session runs.
run(Ms, Session) when is_integer(Ms) ->
    Monitor = erlang:monitor(process, Session),
    receive
        {'DOWN', Monitor, process, _, _} -> #{}
    after Ms ->
        _ = erlang:demonitor(Monitor, [flush]),
        #{}
    end;
run(Fun, Session) ->
    Previous = entered_if_there(Session),
    try
        #{result => Fun()}
    catch
        Class:Reason:Stack ->
            _ = flame_prof_session:stop(Session, ?STOP_MS),
            erlang:raise(Class, Reason, Stack)
    after
        leave(Session, Previous)
    end.

%% If the session has ended already, the function is evaluated all the same.
entered_if_there(Session) ->
    {ok, Options} = flame_prof_options:process(#{}, spawn),
    case entered(Session, Options) of
        {ok, Previous} -> Previous;
        {error, _} -> none
    end.

stopped(Session, Done) ->
    case flame_prof_session:stop(Session, ?STOP_MS) of
        {ok, #{files := Files}} -> {ok, Done#{files => Files}};
        {error, {not_started, _}} -> ended(flame_prof_history:run(Session), Done);
        {error, _} = Error -> unshown(Error, Done)
    end.

%% Another process has stopped it.
ended(#{files := Files}, Done) -> {ok, Done#{files => Files}};
ended(none, Done) -> unshown({error, flame_prof_error:of_exit(killed)}, Done).

reported({ok, Page}, {ok, #{files := Files} = Done}) ->
    case flame_prof_report:write(Files, Page) of
        {ok, _} -> {ok, Done#{report => Page}};
        {error, _} = Error -> unshown(Error, Done)
    end;
reported(_Page, Outcome) ->
    Outcome.

%% @doc An error after the run, which may not be repeatable: with what the run has left.
-spec unshown({error, flame_prof:reason()}, map()) -> {error, unshown()}.
unshown({error, {Class, Details}}, Done) ->
    {error, {Class, maps:merge(Done, Details)}}.

%% The calling process, in the session that runs.

%% @doc Raises `{not_started, flame_prof}' where there is none. Returns what the process
%% was before.
-spec enter(flame_prof:process_options()) -> flame_prof_targets:previous().
enter(Given) ->
    case flame_prof_options:process(Given, spawn) of
        {ok, Options} -> enter_session(Options);
        {error, Reason} -> error(Reason)
    end.

%% @doc Evaluates Fun and samples the calling process. Without a session, or if it does not answer
%% or ends, Fun is evaluated all the same: it is code of the program.
-spec applied(fun(() -> Result), flame_prof:process_options()) -> Result.
applied(Fun, Given) ->
    case flame_prof_options:process(Given, spawn) of
        {ok, Options} -> applied(Fun, Options, entered(current, Options));
        {error, Reason} -> error(Reason)
    end.

applied(Fun, _Options, {ok, Previous}) ->
    try
        Fun()
    after
        leave(Previous)
    end;
applied(Fun, _Options, {error, _}) ->
    Fun().

enter_session(Options) ->
    case entered(current, Options) of
        {ok, Previous} -> Previous;
        {error, _} -> error({not_started, flame_prof})
    end.

entered(Session, Options) ->
    case flame_prof_session:targets(Session) of
        {ok, Targets} -> flame_prof_targets:enter(Targets, Options);
        {error, _} = Error -> Error
    end.

%% @doc Of a session that has ended there is nothing to leave.
-spec leave(flame_prof_targets:previous()) -> flame_prof_targets:previous().
leave(Previous) -> leave(current, Previous).

leave(Session, Previous) ->
    case flame_prof_session:targets(Session) of
        {ok, Targets} ->
            try
                flame_prof_targets:leave(Targets, Previous)
            catch
                exit:_ -> none
            end;
        {error, _} ->
            none
    end.
