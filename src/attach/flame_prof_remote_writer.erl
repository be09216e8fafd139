%% @private Writes the files of a node that cannot run the library: the session of the
%% library is here, the portable engine (flame_prof_remote_sampler) there. flame_prof_transport
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
-module(flame_prof_remote_writer).

-behaviour(gen_server).

-export([start_link/1, open/2, begun/2, info/1, stop/2, close/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([config/0]).

%% `node', `os_pid', `release': of the sampled node. `why': the library does not run there.
%% `output': the parent of the writer's folder.
-type config() ::
    #{
        node := node(),
        os_pid := non_neg_integer(),
        release := string(),
        engine_reason := binary(),
        output := file:filename()
    }.

-record(writer, {
    config :: config(),
    folder :: binary(),
    ref = none :: none | flame_prof_nif:session(),
    options = #{} :: map(),
    phase = idle :: idle | running | ending | closing | stopped,
    sampler = none :: none | pid(),
    %% Batches of an earlier one cannot be understood any more.
    generation = 1 :: pos_integer(),
    started_ms = 0 :: integer(),
    started_at = none :: none | calendar:datetime(),
    files = [] :: [binary()],
    trouble = <<>> :: binary(),
    %% The reason of an end without a request, or what is unknown about the end.
    failure = none :: none | unicode:chardata(),
    run = none :: none | {ok, map()} | {error, flame_prof:reason()},
    stopping = [] :: [gen_server:from()]
}).

-define(CALL_MS, 5000).
%% For the engine's last words; more than the remote sampler gives it.
-define(HALT_MS, 4000).
%% For a disk that stands still.
-define(CLOSE_MS, 10000).

%% @doc By the controller of an agent: linked.
-spec start_link(config()) -> {ok, pid()} | {error, term()}.
start_link(Config) ->
    case gen_server:start_link(?MODULE, Config, []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

%% @doc A file is begun; samples may come from now on.
-spec open(pid(), flame_prof:options()) -> ok | {error, flame_prof:reason()}.
open(Writer, Options) ->
    flame_prof_run:call(Writer, {open, Options}, ?CALL_MS).

%% @doc The remote sampler: when it ends, the file is finished.
-spec begun(pid(), Sampler :: pid()) -> ok.
begun(Writer, Sampler) ->
    gen_server:cast(Writer, {begun, Sampler}).

%% @doc As flame_prof:info/0. `failure': why it ended without being told to, or why its
%% end is not known: then no counter has what the engine dropped last.
-spec info(pid()) -> {ok, map()} | {error, flame_prof:reason()}.
info(Writer) ->
    flame_prof_run:call(Writer, info, ?CALL_MS).

%% @doc As flame_prof:stop/0; `failure' as for info/1.
-spec stop(pid(), timeout()) -> {ok, map()} | {error, flame_prof:reason()}.
stop(Writer, Timeout) ->
    flame_prof_run:call(Writer, stop, Timeout).

%% @doc It ends, and its files are no more; later where the disk stands still.
-spec close(pid()) -> ok.
close(Writer) ->
    try
        gen_server:stop(Writer, normal, ?CLOSE_MS)
    catch
        exit:_ -> ok
    end.

-spec init(config()) -> {ok, #writer{}} | {stop, term()}.
init(#{output := Output} = Config) ->
    _ = process_flag(trap_exit, true),
    Folder = native(filename:join(Output, unique())),
    case made(Folder) of
        ok -> {ok, #writer{config = Config, folder = Folder}};
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

-spec handle_call(term(), gen_server:from(), #writer{}) ->
    {reply, term(), #writer{}} | {noreply, #writer{}}.
handle_call({open, Given}, _From, #writer{phase = idle, folder = Folder} = State) ->
    case flame_prof_options:validate(Given#{dir => Folder}) of
        {ok, Options} -> opened(Options, State);
        {error, _} = Error -> {reply, Error, State}
    end;
handle_call(info, _From, #writer{phase = idle} = State) ->
    {reply, {error, {not_started, #{}}}, State};
handle_call(info, _From, #writer{phase = stopped, run = Run} = State) ->
    {reply, Run, State};
handle_call(info, _From, State) ->
    {reply, {ok, describe(State)}, State};
handle_call(stop, _From, #writer{phase = idle} = State) ->
    {reply, {error, {not_started, #{}}}, State};
handle_call(stop, _From, #writer{phase = stopped, run = Run} = State) ->
    {reply, Run, State};
handle_call(stop, From, #writer{stopping = Callers} = State) ->
    {noreply, ending(State#writer{stopping = [From | Callers]})};
handle_call(_, _From, State) ->
    {reply, {error, unknown_call}, State}.

opened(Options, #writer{config = Config, folder = Folder} = State) ->
    #{node := Node, os_pid := OsPid, release := Release} = Config,
    Session = flame_prof_config:remote_writer(Options, Node, OsPid, Release),
    case flame_prof_nif:session_start(Session) of
        {ok, Ref} ->
            #{path := Path} = flame_prof_nif:session_info(Ref),
            {reply, ok, State#writer{
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

-spec handle_cast(term(), #writer{}) -> {noreply, #writer{}}.
handle_cast({begun, Sampler}, State) ->
    _ = monitor(process, Sampler),
    {noreply, State#writer{sampler = Sampler}};
handle_cast(_, State) ->
    {noreply, State}.

-spec handle_info(term(), #writer{}) -> {noreply, #writer{}}.
handle_info({flame_prof_batch, Engine, Generation, Batch}, State0) ->
    State = taken(Generation, flame_prof_transport:opened(Batch), State0),
    Engine ! {flame_prof_taken, byte_size(Batch), State#writer.generation},
    {noreply, State};
handle_info({flame_prof_figures, Figures}, #writer{phase = running, ref = Ref} = State) ->
    try
        _ = flame_prof_nif:session_node_metrics(Ref, Figures),
        {noreply, State}
    catch
        error:badarg -> {noreply, nonsense(State)}
    end;
handle_info({flame_prof_over, _Engine, Items}, State) ->
    {noreply, over(push(Items, State))};
handle_info({'DOWN', _, process, Sampler, Reason}, #writer{sampler = Sampler} = State) ->
    {noreply, gone(Reason, State)};
handle_info(halt_now, #writer{config = #{node := Node}} = State) ->
    {noreply, finish(failed(io_lib:format("~ts did not confirm the end of its engine", [Node]),
        State))};
handle_info({flame_prof_nif, Ref, {file, failed, Text}}, #writer{ref = Ref} = State) ->
    {noreply, State#writer{trouble = Text}};
handle_info({flame_prof_nif, Ref, {file, healed, _}}, #writer{ref = Ref} = State) ->
    {noreply, State#writer{trouble = <<>>}};
handle_info({flame_prof_nif, Ref, {file, Event, Path}},
    #writer{ref = Ref, files = Files} = State) ->
    {noreply, State#writer{files = flame_prof_run:files(Event, Path, Files)}};
handle_info({flame_prof_nif, Ref, {stopped, Result}}, #writer{ref = Ref} = State) ->
    {noreply, stopped(Result, State)};
handle_info(_, State) ->
    {noreply, State}.

-spec terminate(term(), #writer{}) -> ok.
terminate(_Reason, #writer{ref = Ref, folder = Folder}) ->
    _ = [flame_prof_nif:session_close(Ref) || Ref =/= none],
    _ = file:del_dir_r(Folder),
    ok.

%% Batches.

taken(_Generation, _Items, #writer{phase = Phase} = State)
    when Phase =/= running, Phase =/= ending ->
    State;
taken(_Generation, error, State) ->
    nonsense(State);
taken(Generation, {ok, Items}, #writer{generation = Wanted} = State) when Generation < Wanted ->
    push(flame_prof_transport:without_samples(Items), State);
taken(Generation, {ok, [{lost, _, _, _} = Lost | Items]}, State) ->
    %% The sampler knows of these: it does not get their number again.
    taken(Generation, {ok, Items}, push([Lost], State));
taken(Generation, {ok, Items}, #writer{ref = Ref} = State) ->
    try flame_prof_nif:session_push(Ref, Items) of
        {_Taken, Dropped} when is_integer(Dropped), Dropped > 0 ->
            State#writer{generation = Generation + 1};
        _ ->
            State
    catch
        error:badarg -> nonsense(State)
    end.

%% Items that are only counted.
push(Items, #writer{phase = Phase, ref = Ref} = State) when Phase =:= running; Phase =:= ending ->
    try
        _ = flame_prof_nif:session_push(Ref, Items),
        State
    catch
        error:badarg -> nonsense(State)
    end;
push(_Items, State) ->
    State.

nonsense(#writer{config = #{node := Node}} = State) ->
    ending(failed(io_lib:format("~ts sent no valid samples", [Node]), State)).

%% The end.

ending(#writer{phase = running, sampler = none} = State) ->
    finish(State);
ending(#writer{phase = running, sampler = Sampler} = State) ->
    ok = flame_prof_remote_sampler:end_soon(Sampler),
    _ = erlang:send_after(?HALT_MS, self(), halt_now),
    State#writer{phase = ending};
ending(State) ->
    State.

%% Without a request to stop, it failed.
over(#writer{phase = ending} = State) -> finish(State);
over(State) -> finish(failed("the engine there has ended", State)).

gone(noconnection, #writer{config = #{node := Node}} = State) ->
    finish(failed(io_lib:format("the connection to ~ts is gone", [Node]), State));
gone(_Reason, #writer{phase = ending} = State) ->
    finish(State);
gone(Reason, State) ->
    finish(failed(["the engine there has ended: ", flame_prof_error:exit_text(Reason)], State)).

%% The first reason is the reason.
failed(Why, #writer{failure = none, phase = Phase} = State) when Phase =:= running;
    Phase =:= ending ->
    State#writer{failure = Why};
failed(_Why, State) ->
    State.

finish(#writer{phase = Phase, ref = Ref} = State) when Phase =:= running; Phase =:= ending ->
    ok = flame_prof_nif:session_stop(Ref),
    State#writer{phase = closing};
finish(State) ->
    State.

%% Everything is written and the file closed.
stopped(Result, #writer{stopping = Callers, folder = Folder} = State) ->
    Run = flame_prof_run:outcome(Result, Folder, flame_prof_run:ended(describe(State))),
    _ = [gen_server:reply(From, Run) || From <- Callers],
    State#writer{phase = stopped, run = Run, stopping = []}.

describe(#writer{config = #{engine_reason := Why}, ref = Ref, files = Files} = State) ->
    Words = flame_prof_run:words(portable, State#writer.options),
    Description = flame_prof_run:describe(Ref, State#writer.started_ms, Words#{
        state => state_name(State),
        engine => portable,
        engine_reason => <<"portable: ", Why/binary>>,
        running_stacks => flame_prof_run:without_captures(),
        options => State#writer.options,
        started_at => State#writer.started_at,
        files => lists:reverse(Files),
        error => State#writer.trouble
    }),
    case State#writer.failure of
        none -> Description;
        Failure -> Description#{failure => unicode:characters_to_binary(Failure)}
    end.

state_name(#writer{phase = running}) -> running;
state_name(_) -> stopping.
