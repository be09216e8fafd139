%% @private Writes the files of a node that cannot run the library: the session of the
%% library is here, the portable engine (flame_prof_outpost) there. flame_prof_outlet
%% says what is between them.
%%
%% ```
%%        open           stop, or it ends there              {stopped, _}
%%  idle ------> running -----------------------> ending ... -------------> stopped
%%                  |                               |  over, or its end        |
%%                  +-------------------------------+--- closing --------------+
%% '''
%%
%% The files are in a folder of its own, which goes with it: they are to be fetched as
%% those of any node (flame_prof_attach), which gives them their names.
-module(flame_prof_scribe).

-behaviour(gen_server).

-export([start_link/1, open/2, begun/2, info/1, stop/2, close/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([config/0]).

%% Of the node whose samples come; why they come; and in what folder ours is made.
-type config() ::
    #{
        node := node(),
        os_pid := non_neg_integer(),
        release := string(),
        why := binary(),
        output := file:filename()
    }.

-record(scribe, {
    config :: config(),
    folder :: binary(),
    ref = none :: none | flame_prof_nif:session(),
    options = #{} :: map(),
    phase = idle :: idle | running | ending | closing | stopped,
    outpost = none :: none | pid(),
    %% Batches of an earlier one cannot be understood any more.
    generation = 1 :: pos_integer(),
    started_ms = 0 :: integer(),
    started_at = none :: none | calendar:datetime(),
    files = [] :: [binary()],
    trouble = <<>> :: binary(),
    %% Why it ended without being told to, or what is not known of its end.
    failure = none :: none | unicode:chardata(),
    run = none :: none | {ok, map()} | {error, flame_prof:reason()},
    stopping = [] :: [gen_server:from()]
}).

-define(CALL_MS, 5000).
%% For the engine's last words; more than the outpost gives it.
-define(HALT_MS, 4000).
%% For a disk that stands still.
-define(CLOSE_MS, 10000).

%% @doc By the controller of a lease: linked.
-spec start_link(config()) -> {ok, pid()} | {error, term()}.
start_link(Config) ->
    case gen_server:start_link(?MODULE, Config, []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

%% @doc A file is begun; samples may come from now on.
-spec open(pid(), flame_prof:options()) -> ok | {error, flame_prof:reason()}.
open(Scribe, Options) ->
    flame_prof_run:call(Scribe, {open, Options}, ?CALL_MS).

%% @doc Who samples: when it ends, the file is finished.
-spec begun(pid(), Outpost :: pid()) -> ok.
begun(Scribe, Outpost) ->
    gen_server:cast(Scribe, {begun, Outpost}).

%% @doc As flame_prof:info/0. `failure': why it ended without being told to, or why its
%% end is not known: then no counter has what the engine dropped last.
-spec info(pid()) -> {ok, map()} | {error, flame_prof:reason()}.
info(Scribe) ->
    flame_prof_run:call(Scribe, info, ?CALL_MS).

%% @doc As flame_prof:stop/0; `failure' as for info/1.
-spec stop(pid(), timeout()) -> {ok, map()} | {error, flame_prof:reason()}.
stop(Scribe, Timeout) ->
    flame_prof_run:call(Scribe, stop, Timeout).

%% @doc It ends, and its files are no more; later where the disk stands still.
-spec close(pid()) -> ok.
close(Scribe) ->
    try
        gen_server:stop(Scribe, normal, ?CLOSE_MS)
    catch
        exit:_ -> ok
    end.

-spec init(config()) -> {ok, #scribe{}} | {stop, term()}.
init(#{output := Output} = Config) ->
    _ = process_flag(trap_exit, true),
    Folder = native(filename:join(Output, unique())),
    case made(Folder) of
        ok -> {ok, #scribe{config = Config, folder = Folder}};
        {error, Reason} -> {stop, {shutdown, {folder, Folder, Reason}}}
    end.

%% The library takes names as they are, not as this VM's locale would have them.
native(Path) when is_binary(Path) -> Path;
native(Path) ->
    case unicode:characters_to_binary(Path, unicode, file:native_name_encoding()) of
        Name when is_binary(Name) -> Name;
        _ -> unicode:characters_to_binary(Path)
    end.

unique() ->
    Unique = erlang:phash2({make_ref(), node()}, 1 bsl 32),
    lists:flatten(io_lib:format(".flame_prof.~ts.~.36b", [os:getpid(), Unique])).

made(Folder) ->
    case file:make_dir(Folder) of
        ok -> file:change_mode(Folder, 8#700);
        {error, _} = Error -> Error
    end.

-spec handle_call(term(), gen_server:from(), #scribe{}) ->
    {reply, term(), #scribe{}} | {noreply, #scribe{}}.
handle_call({open, Given}, _From, #scribe{phase = idle, folder = Folder} = State) ->
    case flame_prof_options:validate(Given#{dir => Folder}) of
        {ok, Options} -> opened(Options, State);
        {error, _} = Error -> {reply, Error, State}
    end;
handle_call(info, _From, #scribe{phase = idle} = State) ->
    {reply, {error, {not_started, #{}}}, State};
handle_call(info, _From, #scribe{phase = stopped, run = Run} = State) ->
    {reply, Run, State};
handle_call(info, _From, State) ->
    {reply, {ok, describe(State)}, State};
handle_call(stop, _From, #scribe{phase = idle} = State) ->
    {reply, {error, {not_started, #{}}}, State};
handle_call(stop, _From, #scribe{phase = stopped, run = Run} = State) ->
    {reply, Run, State};
handle_call(stop, From, #scribe{stopping = Callers} = State) ->
    {noreply, ending(State#scribe{stopping = [From | Callers]})};
handle_call(_, _From, State) ->
    {reply, {error, unknown_call}, State}.

opened(Options, #scribe{config = Config, folder = Folder} = State) ->
    #{node := Node, os_pid := OsPid, release := Release} = Config,
    case flame_prof_nif:session_start(flame_prof_config:scribe(Options, Node, OsPid, Release)) of
        {ok, Ref} ->
            #{path := Path} = flame_prof_nif:session_info(Ref),
            {reply, ok, State#scribe{
                ref = Ref,
                options = Options,
                phase = running,
                files = [Path],
                started_ms = erlang:monotonic_time(millisecond),
                started_at = calendar:local_time()
            }};
        {error, Error} ->
            {reply, {error, flame_prof_error:of_library(Error, Folder)}, State}
    end.

-spec handle_cast(term(), #scribe{}) -> {noreply, #scribe{}}.
handle_cast({begun, Outpost}, State) ->
    _ = monitor(process, Outpost),
    {noreply, State#scribe{outpost = Outpost}};
handle_cast(_, State) ->
    {noreply, State}.

-spec handle_info(term(), #scribe{}) -> {noreply, #scribe{}}.
handle_info({flame_prof_batch, Engine, Generation, Batch}, State0) ->
    State = taken(Generation, flame_prof_outlet:opened(Batch), State0),
    Engine ! {flame_prof_taken, byte_size(Batch), State#scribe.generation},
    {noreply, State};
handle_info({flame_prof_figures, Figures}, #scribe{phase = running, ref = Ref} = State) ->
    try
        _ = flame_prof_nif:session_figures(Ref, Figures),
        {noreply, State}
    catch
        error:badarg -> {noreply, nonsense(State)}
    end;
handle_info({flame_prof_over, _Engine, Items}, State) ->
    {noreply, over(push(Items, State))};
handle_info({'DOWN', _, process, Outpost, Reason}, #scribe{outpost = Outpost} = State) ->
    {noreply, gone(Reason, State)};
handle_info(halt_now, #scribe{config = #{node := Node}} = State) ->
    {noreply, finish(failed(io_lib:format("~ts did not say that its engine has ended", [Node]),
        State))};
handle_info({flame_prof_nif, Ref, {file, failed, Text}}, #scribe{ref = Ref} = State) ->
    {noreply, State#scribe{trouble = Text}};
handle_info({flame_prof_nif, Ref, {file, healed, _}}, #scribe{ref = Ref} = State) ->
    {noreply, State#scribe{trouble = <<>>}};
handle_info({flame_prof_nif, Ref, {file, Event, Path}},
    #scribe{ref = Ref, files = Files} = State) ->
    {noreply, State#scribe{files = flame_prof_run:files(Event, Path, Files)}};
handle_info({flame_prof_nif, Ref, {stopped, Result}}, #scribe{ref = Ref} = State) ->
    {noreply, stopped(Result, State)};
handle_info(_, State) ->
    {noreply, State}.

-spec terminate(term(), #scribe{}) -> ok.
terminate(_Reason, #scribe{ref = Ref, folder = Folder}) ->
    _ = [flame_prof_nif:session_close(Ref) || Ref =/= none],
    _ = file:del_dir_r(Folder),
    ok.

%% Batches.

taken(_Generation, _Items, #scribe{phase = Phase} = State)
    when Phase =/= running, Phase =/= ending ->
    State;
taken(_Generation, error, State) ->
    nonsense(State);
taken(Generation, {ok, Items}, #scribe{generation = Wanted} = State) when Generation < Wanted ->
    push(flame_prof_outlet:without_samples(Items), State);
taken(Generation, {ok, [{lost, _, _, _} = Lost | Items]}, State) ->
    %% Of these, nobody is to be told that they were dropped.
    taken(Generation, {ok, Items}, push([Lost], State));
taken(Generation, {ok, Items}, #scribe{ref = Ref} = State) ->
    try flame_prof_nif:session_push(Ref, Items) of
        {_Taken, Dropped} when is_integer(Dropped), Dropped > 0 ->
            State#scribe{generation = Generation + 1};
        _ ->
            State
    catch
        error:badarg -> nonsense(State)
    end.

%% What only counts.
push(Items, #scribe{phase = Phase, ref = Ref} = State) when Phase =:= running; Phase =:= ending ->
    try
        _ = flame_prof_nif:session_push(Ref, Items),
        State
    catch
        error:badarg -> nonsense(State)
    end;
push(_Items, State) ->
    State.

nonsense(#scribe{config = #{node := Node}} = State) ->
    ending(failed(io_lib:format("what ~ts sent are no samples", [Node]), State)).

%% The end.

ending(#scribe{phase = running, outpost = none} = State) ->
    finish(State);
ending(#scribe{phase = running, outpost = Outpost} = State) ->
    ok = flame_prof_outpost:end_soon(Outpost),
    _ = erlang:send_after(?HALT_MS, self(), halt_now),
    State#scribe{phase = ending};
ending(State) ->
    State.

%% Unless we have asked for it, it failed.
over(#scribe{phase = ending} = State) -> finish(State);
over(State) -> finish(failed("the engine there has ended", State)).

gone(noconnection, #scribe{config = #{node := Node}} = State) ->
    finish(failed(io_lib:format("the connection to ~ts is gone", [Node]), State));
gone(_Reason, #scribe{phase = ending} = State) ->
    finish(State);
gone(Reason, State) ->
    finish(failed(["the engine there has ended: ", flame_prof_error:exit_text(Reason)], State)).

%% The first reason is the reason.
failed(Why, #scribe{failure = none, phase = Phase} = State) when Phase =:= running;
    Phase =:= ending ->
    State#scribe{failure = Why};
failed(_Why, State) ->
    State.

finish(#scribe{phase = Phase, ref = Ref} = State) when Phase =:= running; Phase =:= ending ->
    ok = flame_prof_nif:session_stop(Ref),
    State#scribe{phase = closing};
finish(State) ->
    State.

%% Everything is written and the file closed.
stopped(Result, #scribe{stopping = Callers, folder = Folder} = State) ->
    Run = flame_prof_run:outcome(Result, Folder, flame_prof_run:ended(describe(State))),
    _ = [gen_server:reply(From, Run) || From <- Callers],
    State#scribe{phase = stopped, run = Run, stopping = []}.

describe(#scribe{config = #{why := Why}, ref = Ref, files = Files} = State) ->
    Description = flame_prof_run:describe(Ref, State#scribe.started_ms, #{
        state => state_name(State),
        engine => portable,
        why => <<"portable: ", Why/binary>>,
        running_stacks => flame_prof_run:without_captures(),
        options => State#scribe.options,
        started_at => State#scribe.started_at,
        files => lists:reverse(Files),
        error => State#scribe.trouble
    }),
    case State#scribe.failure of
        none -> Description;
        Failure -> Description#{failure => unicode:characters_to_binary(Failure)}
    end.

state_name(#scribe{phase = running}) -> running;
state_name(_) -> stopping.
