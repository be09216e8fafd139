%% @private What ended sessions leave behind: the last run, and why the last autostart was
%% refused. In a table of the supervisor; the last run outlives the application, too.
-module(flame_prof_history).

-export([create/0, keep_run/1, run/0, run/1, outlive/0]).
-export([keep_error/1, error/0, forget_error/0]).

%% @doc By the supervisor.
-spec create() -> ok.
create() ->
    ?MODULE = ets:new(?MODULE, [named_table, public]),
    _ = persistent_term:erase(?MODULE),
    ok.

%% @doc By the session. One beside triggers is not the last run of the node.
-spec keep_run(flame_prof_run:run()) -> ok.
keep_run(Run) ->
    case whereis(flame_prof_session_beside) =:= self() of
        true -> keep(beside, {self(), Run});
        false -> keep(run, Run)
    end.

%% @doc Of this session, if no other has ended since.
-spec run(Session :: pid()) -> none | flame_prof_run:run().
run(Session) ->
    case kept(beside) of
        {ok, {Session, Run}} -> Run;
        _ -> run()
    end.

%% @doc The last one; that of an application that has ended, until it starts again.
-spec run() -> none | flame_prof_run:run().
run() ->
    case kept(run) of
        {ok, Run} -> Run;
        none -> persistent_term:get(?MODULE, none)
    end.

%% @doc By the application, whose end takes the table with it.
-spec outlive() -> ok.
outlive() ->
    case kept(run) of
        {ok, Run} -> persistent_term:put(?MODULE, Run);
        none -> ok
    end.

-spec keep_error(flame_prof:reason()) -> ok.
keep_error(Reason) ->
    keep(error, Reason).

-spec error() -> none | {error, flame_prof:reason()}.
error() ->
    case kept(error) of
        {ok, Reason} -> {error, Reason};
        none -> none
    end.

%% @doc A session has started.
-spec forget_error() -> ok.
forget_error() ->
    try ets:delete(?MODULE, error) of
        true -> ok
    catch
        error:badarg -> ok
    end.

%% The supervisor, which ends meanwhile, takes the table with it.
keep(Key, Value) ->
    try ets:insert(?MODULE, {Key, Value}) of
        true -> ok
    catch
        error:badarg -> ok
    end.

kept(Key) ->
    try ets:lookup(?MODULE, Key) of
        [{Key, Value}] -> {ok, Value};
        [] -> none
    catch
        error:badarg -> none
    end.
