%% @private The agent in a node without flame_prof: loads the library and the modules, and
%% removes them. `flame_prof attach' (flame_prof_attach) sends this module alone, and calls
%% start/1 in the same request; everything else is its argument.
%%
%% Two processes. The agent loads the modules and the library (flame_prof_agent_library) and holds
%% the session. The cleanup process waits for the agent's end and removes everything. The agent
%% ends on request, when its controller ends (a monitor), and after `heartbeat_ms' without a
%% heartbeat. When the cleanup process ends, the agent does its work.
%%
%% One of the two registered names exists from the load of the first module to the purge of the last
%% one. Modules without such a process were left by an agent that was killed together with its
%% cleanup process. The next agent removes them first.
%%
%% No file operation goes through the server of files (file_server_2): where one hangs in it, all
%% others would.
%%
%% Atoms stay, and modules of OTP that flame_prof's modules loaded. The library's file is deleted as
%% soon as it is mapped, the folder of the samples at the end. Tracing is switched off. The session
%% ends as it does when its application is stopped. The schedulers drop their registration ({@link
%% flame_prof_schedulers:retire/0}), so that the library can be unmapped. The modules are deleted
%% and purged, this one last: its process goes on in OTP's code only.
-module(flame_prof_agent).

-include_lib("kernel/include/file.hrl").

-export([start/1, start_session/3, close/1, read/3]).
%% For flame_prof_agent_library.
-export([in_time/2, remove/1, failure/0, forget/0, places/1]).
-export([init/2, cleanup/2, tried/1]).

-export_type([config/0, lent/0, left/0, refusal/0]).

%% `modules': with their object code. `library': the bytes of each module's NIFs, the agent's first,
%% or why there are none for this node. `may_lack': go on without where none can be had.
%% `companions': libraries that they are linked with, for where they are missing.
-type config() ::
    #{
        controller := pid(),
        heartbeat_ms := pos_integer(),
        modules := [{module(), binary()}],
        library := [{module(), binary()}, ...] | {none, Why :: binary()},
        may_lack := boolean(),
        companions := [{file:filename(), binary()}]
    }.

-type lent() :: #{agent := pid(), library := file:filename() | {none, Why :: binary()}}.
%% `attached': another agent runs. `present': the node has flame_prof of its own. `processes': its
%% process table is full.
-type refusal() :: {attached | present | library | module | processes, unicode:chardata()}.
%% Folders that are still there: their file system hangs.
-type left() :: {left, [file:filename(), ...]}.

-record(agent, {
    heartbeat_ms :: pos_integer(),
    modules :: [module()],
    %% Of the library and its samples.
    folder :: file:filename(),
    %% All that may have been made.
    folders :: [file:filename()],
    cleanup :: {pid(), reference()},
    controller :: reference()
}).

-define(READY_MS, 20000).
%% Of that, until the files of the library are there or are not.
-define(LENT_MS, 14000).
%% One step in one folder.
-define(FILES_MS, 2500).
%% Less than the caller waits.
-define(START_MS, 10000).
-define(CLOSE_MS, 45000).
%% The session gives the disk 10 s, its supervisor 15.
-define(SESSION_MS, 20000).
-define(REMOVED_MS, 10000).
-define(ANSWERED_MS, 5000).
-define(RETIRE_ATTEMPTS, 5).
-define(RETIRE_PAUSE_MS, 1000).
-define(ENVIRONMENT, flame_prof_attached).
%% The file name of what is lent.
-define(FROM, "flame_prof_attached").

%% @doc After an error nothing is left, or the cleanup process removes the rest in a moment. The
%% error is the last element of a list if the calling process has removed this module.
-spec start(config()) -> {ok, lent()} | {error, refusal()} | [term(), ...].
start(Config) ->
    try spawn_monitor(?MODULE, init, [Config, self()]) of
        {Agent, Monitor} -> wait_for_agent(Agent, Monitor)
    catch
        error:system_limit -> leave({error, no_process()})
    end.

wait_for_agent(Agent, Monitor) ->
    receive
        {Agent, Answer} ->
            true = erlang:demonitor(Monitor, [flush]),
            Answer;
        %% Without a cleanup process, this process removes the module.
        {'DOWN', Monitor, process, Agent, _Reason} ->
            Why = "the agent ended while it loaded them; the node's log says why",
            leave({error, {module, Why}})
    after ?READY_MS ->
        exit(Agent, kill),
        {error, {module, "loading took too long"}}
    end.

no_process() ->
    {processes, io_lib:format("no process can be started there: its process table has ~b entries",
        [erlang:system_info(process_limit)])}.

%% @doc Options as for {@link flame_prof:start/1}; the folder is the agent's. Without a
%% library the samples go to a remote writer (flame_prof_remote_writer).
-spec start_session(pid(), flame_prof:options(), Writer :: none | pid()) ->
    {ok, pid()} | {error, flame_prof:reason()}.
start_session(Agent, Options, Writer) ->
    Monitor = monitor(process, Agent),
    Agent ! {{start_session, Options, Writer}, self(), Monitor},
    receive
        {Monitor, Answer} ->
            true = demonitor(Monitor, [flush]),
            Answer;
        {'DOWN', Monitor, process, Agent, Reason} ->
            {error, flame_prof_error:of_exit(Reason)}
    after ?READY_MS ->
        true = demonitor(Monitor, [flush]),
        {error, {timeout, #{ms => ?READY_MS}}}
    end.

%% @doc Returns when everything but this module is removed; this module is removed a moment
%% later. With the error the library had to stay mapped, or folders had to stay.
-spec close(pid()) -> ok | {error, unicode:chardata() | left() | flame_prof:reason()}.
close(Agent) ->
    %% The agent ends at once: it is the cleanup process that answers.
    Monitor = monitor(process, flame_prof_cleanup),
    Agent ! {close, self(), Monitor},
    receive
        {Monitor, Answer} ->
            true = demonitor(Monitor, [flush]),
            Answer;
        {'DOWN', Monitor, process, _, _} ->
            {error, "it ended before it answered"}
    after ?CLOSE_MS ->
        true = demonitor(Monitor, [flush]),
        {error, {timeout, #{ms => ?CLOSE_MS}}}
    end.

%% @doc Part of a file of the agent.
-spec read(file:filename_all(), non_neg_integer(), pos_integer()) ->
    {ok, binary()} | eof | {error, file:posix() | badarg | terminated}.
read(File, Offset, Bytes) ->
    case file:open(File, [read, raw, binary]) of
        {ok, Device} ->
            Answer = file:pread(Device, Offset, Bytes),
            _ = file:close(Device),
            Answer;
        {error, _} = Error ->
            Error
    end.

%% The agent.

-spec init(config(), pid()) -> ok.
init(Config, Caller) ->
    %% Its log events and its processes do not go to the controller.
    true = group_leader(whereis(init), self()),
    _ = process_flag(trap_exit, true),
    %% It has little to do, and a busy node would keep it waiting for each step.
    _ = process_flag(priority, high),
    Until = now_ms() + ?LENT_MS,
    case is_alone() of
        true -> alone(owner(modules(Config)), Config, Caller, Until);
        false -> refuse_second(whereis(flame_prof_cleanup), Caller)
    end.

%% Registered, so that no session samples the agent, and that there is one. The cleanup
%% process of an agent that has ended may still be at work.
is_alone() ->
    try register(?MODULE, self()) andalso whereis(flame_prof_cleanup) =:= undefined
    catch error:badarg -> false
    end.

%% The process that is there removes this module in the end, unless it has ended meanwhile.
refuse_second(Cleanup, Caller) ->
    Monitor = monitor(process, Cleanup),
    answer(Caller, {error, {attached, "another flame_prof is attached"}}),
    _ = whereis(?MODULE) =:= self() andalso
        receive {'DOWN', Monitor, process, _, _} -> ok end,
    leave(ok).

alone(node, _Config, Caller, _Until) ->
    answer(Caller, {error, {present, "it has flame_prof already"}}),
    leave(ok);
alone(none, Config, Caller, Until) ->
    begin_lending(Config, Caller, Until);
alone(agent, Config, Caller, Until) ->
    case remove_left(Until) of
        ok ->
            begin_lending(Config, Caller, Until);
        {error, Why} ->
            answer(Caller, {error, {left, Why}}),
            leave(ok)
    end.

%% The owner of the loaded modules. The agent would replace the node's own modules, and the node's
%% supervisor run them. Modules of an agent were left behind: no other agent lives.
owner(Modules) ->
    Files = [code:is_loaded(Module) || Module <- Modules, erlang:module_loaded(Module)],
    case {whereis(flame_prof_sup), [File || File <- Files, File =/= {file, ?FROM}]} of
        {undefined, []} ->
            case Files =/= [] orelse erlang:check_old_code(?MODULE) of
                true -> agent;
                false -> none
            end;
        _ -> node
    end.

%% Removes what a killed agent left. It may be of another version: the file name identifies its
%% modules, and the prefix its folders.
remove_left(Until) ->
    Modules = [Module || {Module, ?FROM} <- code:all_loaded(), Module =/= ?MODULE],
    Prefix = "flame_prof." ++ os:getpid() ++ ".",
    Listed = in_time(fun() ->
        [Path || Place <- places([]), {ok, Names} <- [prim_file:list_dir(Place)], Name <- Names,
            lists:prefix(Prefix, Name), Path <- [filename:join(Place, Name)], is_private(Path)]
    end, Until),
    Folders = [Folder || is_list(Listed), Folder <- Listed],
    case sweep(Modules, Folders) of
        ok -> ok;
        {error, {left, [Folder | _]}} -> {error, [Folder, " cannot be removed"]};
        {error, Why} -> {error, ["the library stays in memory: ", Why]}
    end.

%% Anybody may make a folder of that name, and a link in its place.
is_private(Path) ->
    {ok, #file_info{uid = Own}} = prim_file:read_file_info("/proc/self"),
    case prim_file:read_link_info(Path) of
        {ok, #file_info{type = directory, uid = Own, mode = Mode}} -> Mode band 8#777 =:= 8#700;
        _ -> false
    end.

begin_lending(#{controller := Controller} = Config, Caller, Until) ->
    case start_cleanup(modules(Config)) of
        {ok, Cleanup} ->
            case lend(Config, Cleanup, Until) of
                {ok, Library, Folders} ->
                    _ = report_ready(Caller, Library),
                    loop(#agent{
                        heartbeat_ms = maps:get(heartbeat_ms, Config),
                        modules = modules(Config),
                        folder = folder(Library),
                        folders = Folders,
                        cleanup = Cleanup,
                        controller = monitor(process, Controller)
                    });
                {error, _} = Error ->
                    answer(Caller, Error)
            end;
        error ->
            answer(Caller, {error, no_process()}),
            leave(ok)
    end.

%% The process is registered before anything is loaded, and removes that after any failure.
start_cleanup(Modules) ->
    try
        {Pid, _} = Cleanup = spawn_monitor(?MODULE, cleanup, [self(), Modules]),
        true = register(flame_prof_cleanup, Pid),
        {ok, Cleanup}
    catch
        error:_ -> error
    end.

%% Without the caller no controller gets the pid of this agent.
report_ready(Caller, Library) ->
    case is_process_alive(Caller) of
        true -> Caller ! {self(), {ok, #{agent => self(), library => Library}}};
        false -> self() ! leave
    end.

%% Without a library nothing is written here.
folder({none, _Why}) -> "/";
folder(Folder) -> Folder.

%% The caller runs this module until it has the answer, and ends then.
answer(Caller, Answer) ->
    Monitor = monitor(process, Caller),
    Caller ! {self(), Answer},
    receive
        {'DOWN', Monitor, process, _, _} -> ok
    after ?ANSWERED_MS -> ok
    end.

modules(#{modules := Modules}) -> [Module || {Module, _} <- Modules].

loop(#agent{heartbeat_ms = Ms} = State) ->
    #agent{cleanup = {_, CleanupMonitor} = Cleanup, controller = ControllerMonitor} = State,
    receive
        renew ->
            loop(State);
        {{start_session, Options, Writer}, From, Ref} ->
            From ! {Ref, session(Options, Writer, State)},
            loop(State);
        {close, From, Ref} ->
            finish({From, Ref}, Cleanup);
        leave ->
            finish(no_caller, Cleanup);
        {'DOWN', CleanupMonitor, process, _, _} ->
            _ = sweep(State#agent.modules, State#agent.folders),
            leave(ok);
        {'DOWN', ControllerMonitor, process, _, _} ->
            finish(no_caller, Cleanup);
        _ ->
            loop(State)
    after Ms ->
        finish(no_caller, Cleanup)
    end.

finish(To, {Cleanup, _}) ->
    Cleanup ! {tell, To},
    ok.

session(Given, Writer, #agent{folder = Folder}) ->
    How = #{timeout => ?START_MS, owner => none},
    case {flame_prof_options:validate(Given#{dir => Folder}), Writer} of
        {{ok, Options}, none} -> start_session_now(Options, How, whereis(flame_prof_sup));
        {{ok, Options}, _} -> start_session_now(Options, How#{remote_writer => Writer},
            whereis(flame_prof_sup));
        {{error, _} = Error, _} -> Error
    end.

%% Linked to the agent. Without the application, whose start and stop are logged.
start_session_now(Options, How, undefined) ->
    _ = flame_prof_sup:start_link(),
    start_session_now(Options, How, whereis(flame_prof_sup));
start_session_now(Options, How, Supervisor) ->
    case is_lent(Supervisor) of
        true -> flame_prof_sup:start_session(Options, How);
        false ->
            Why = <<"the application flame_prof was started at the same time">>,
            {error, {attach, #{node => node(), reason => Why, cause => refused}}}
    end.

%% Not the supervisor of an application, which the agent must not use or end.
is_lent(Supervisor) ->
    case process_info(Supervisor, dictionary) of
        {dictionary, Words} -> lists:member(?MODULE, proplists:get_value('$ancestors', Words, []));
        undefined -> false
    end.

%% Lending.

lend(#{modules := Modules, library := Library} = Config, {Cleanup, _}, Until) ->
    Note = fun(Folder) -> Cleanup ! {folder, Folder} end,
    Nifs = [flame_prof_nif, flame_prof_looks_nif],
    case {load([Module || {Name, _} = Module <- Modules, not lists:member(Name, Nifs)]), Library} of
        {ok, {none, _}} -> {ok, Library, []};
        {ok, _} -> flame_prof_agent_library:load(Config, Note, Until);
        {{error, _} = Error, _} -> Error
    end.

%% At once: on a busy node each request to the code server waits for its turn to run. It prepares
%% each module in a process of its own.
load(Modules) ->
    case code:atomic_load([{Module, ?FROM, Code} || {Module, Code} <- Modules]) of
        ok ->
            ok;
        {error, [{Module, badfile} | _]} ->
            Text = "~ts: it was compiled for too old a release",
            {error, {module, io_lib:format(Text, [Module])}};
        {error, [{Module, Reason} | _]} when is_atom(Reason) ->
            {error, {module, io_lib:format("~ts cannot be loaded: ~ts", [Module, Reason])}};
        {error, _} ->
            {error, no_process()}
    end.

now_ms() -> erlang:monotonic_time(millisecond).

%% @doc By another process: one that hangs in a file system is ended as soon as that lets it go.
-spec in_time(fun(() -> Answer), Latest :: integer()) -> Answer | late | {error, string()}.
in_time(Fun, Latest) ->
    awaited(trying(Fun), min(Latest, now_ms() + ?FILES_MS)).

%% If the process table is full, this process runs Fun itself.
trying(Fun) ->
    try
        spawn_opt(?MODULE, tried, [Fun], [link, monitor, {priority, high}])
    catch
        error:system_limit ->
            Ref = make_ref(),
            self() ! {'DOWN', Ref, process, self(), {?MODULE, try_to(Fun)}},
            {self(), Ref}
    end.

awaited({Pid, Monitor}, Until) ->
    receive
        {'DOWN', Monitor, process, Pid, {?MODULE, Answer}} -> Answer;
        {'DOWN', Monitor, process, Pid, _} -> late
    after max(0, Until - now_ms()) ->
        true = demonitor(Monitor, [flush]),
        true = exit(Pid, kill),
        late
    end.

%% @private Without a report in the log.
-spec tried(fun(() -> term())) -> no_return().
tried(Fun) ->
    exit({?MODULE, try_to(Fun)}).

try_to(Fun) ->
    try Fun()
    catch
        throw:{error, Reason} -> {error, file:format_error(Reason)};
        _:_ -> {error, "the file operation failed for an unknown reason"}
    end.

%% @doc With all that is in it. A link is deleted, not followed.
-spec remove(file:filename()) -> gone | left.
remove(Path) ->
    case {file:delete(Path, [raw]), prim_file:list_dir_all(Path)} of
        {{error, _}, {ok, Names}} ->
            _ = [remove(filename:join(Path, Name)) || Name <- Names],
            _ = prim_file:del_dir(Path);
        _ ->
            ok
    end,
    case prim_file:read_link_info(Path) of
        {ok, _} -> left;
        {error, _} -> gone
    end.

%% As this node sees its files, and as its user may use them.
-spec places([file:filename()]) -> [file:filename()].
places(Current) ->
    Named = fun(Name) -> [Folder || Folder <- [os:getenv(Name)], is_list(Folder)] end,
    Named("TMPDIR") ++ ["/tmp", "/var/tmp", "/dev/shm"] ++ Named("HOME") ++ Current.

%% Why the library was not loaded, by {@link flame_prof_nif}.
-spec failure() -> none | {atom(), unicode:chardata()}.
failure() -> application:get_env(?ENVIRONMENT, failure, none).

-spec forget() -> ok.
forget() ->
    ok = application:unset_env(flame_prof_tracepoints, set),
    ok = application:unset_env(?ENVIRONMENT, library),
    application:unset_env(?ENVIRONMENT, failure).

%% The cleanup process.

-spec cleanup(pid(), [module()]) -> ok.
cleanup(Agent, Modules) ->
    true = group_leader(whereis(init), self()),
    _ = process_flag(priority, high),
    %% Of those that remove folders.
    _ = process_flag(trap_exit, true),
    wait(monitor(process, Agent), Modules, [], no_caller).

wait(Monitor, Modules, Folders, To) ->
    receive
        {folder, Folder} ->
            wait(Monitor, Modules, [Folder | Folders], To);
        {tell, Told} ->
            wait(Monitor, Modules, Folders, Told);
        {'DOWN', Monitor, process, _, _} ->
            ok = told(To, sweep(Modules, Folders)),
            leave(ok)
    end.

%% The calling process runs this module until it has the reply, and then ends.
told(no_caller, _Outcome) ->
    ok;
told({From, Ref}, Outcome) ->
    Monitor = monitor(process, From),
    From ! {Ref, Outcome},
    receive
        {'DOWN', Monitor, process, _, _} -> ok
    after ?ANSWERED_MS -> ok
    end.

%% An error is what had to stay. Folders go last: a file system may hang. A failed step does not
%% stop the others.
sweep(Modules, Folders) ->
    _ = catching(fun() -> end_session(whereis(flame_prof_sup)) end),
    _ = catching(fun() ->
        end_tracing(lists:member(flame_prof_tracing, Modules)
            andalso erlang:module_loaded(flame_prof_tracing))
    end),
    IsLoaded = lists:member(flame_prof_nif, Modules) andalso erlang:module_loaded(flame_prof_nif),
    Outcome = retire(IsLoaded andalso failure() =:= none, ?RETIRE_ATTEMPTS),
    ok = forget(),
    _ = catching(fun() -> end_servers(Modules) end),
    ok = unload_all(Modules),
    Trying = [{Folder, trying(fun() -> remove(Folder) end)} || Folder <- Folders],
    Until = now_ms() + ?REMOVED_MS,
    case {Outcome, [Folder || {Folder, By} <- Trying, awaited(By, Until) =/= gone]} of
        {ok, [_ | _] = Left} -> {error, {left, Left}};
        _ -> Outcome
    end.

catching(Step) ->
    try Step() catch _:Reason -> {error, Reason} end.

%% At once, as they are loaded: each step is by the code server or by the purger, one for all.
unload_all(Modules) ->
    Unloading = lists:append([unloading(Module) || Module <- Modules]),
    lists:foreach(
        fun({Pid, Monitor}) -> receive {'DOWN', Monitor, process, Pid, _} -> ok end end, Unloading).

unloading(Module) ->
    try
        [spawn_opt(fun() -> unload(Module) end, [monitor, {priority, high}])]
    catch
        error:system_limit ->
            _ = unload(Module),
            []
    end.

%% While its owner and guard have code to run: purging it kills both.
end_tracing(true) -> flame_prof_tracing:stop_all();
end_tracing(false) -> ok.

%% Those that keep what they have measured for who asks. A gen_server without its module does not
%% end: it ignores what it would give to handle_info/2, and its asker waits for ever.
end_servers(Modules) ->
    Servers = [
        {Pid, monitor(process, Pid)}
     || Pid <- processes(),
        {current_function, {gen_server, loop, _}} <- [process_info(Pid, current_function)],
        is_of(Pid, Modules)
    ],
    _ = [exit(Pid, kill) || {Pid, _} <- Servers],
    _ = [receive {'DOWN', Monitor, process, Pid, _} -> ok end || {Pid, Monitor} <- Servers],
    ok.

is_of(Pid, Modules) ->
    case process_info(Pid, dictionary) of
        {dictionary, Dictionary} ->
            case lists:keyfind('$initial_call', 1, Dictionary) of
                {_, {Module, init, 1}} -> lists:member(Module, Modules);
                _ -> false
            end;
        undefined ->
            false
    end.

%% A scheduler may be kept from answering, by a long NIF for example.
retire(false, _Attempts) ->
    ok;
retire(true, Attempts) ->
    case catching(fun flame_prof_schedulers:retire/0) of
        ok ->
            ok;
        {error, _} when Attempts > 1 ->
            timer:sleep(?RETIRE_PAUSE_MS),
            retire(true, Attempts - 1);
        {error, Why} when is_binary(Why) ->
            {error, Why};
        {error, _} ->
            {error, <<"its schedulers could not be asked to give it back">>}
    end.

%% It ends with the agent, its parent; this waits for the end.
end_session(undefined) ->
    ok;
end_session(Supervisor) ->
    case is_lent(Supervisor) of
        true -> end_lent(Supervisor);
        false -> ok
    end.

end_lent(Supervisor) ->
    Monitor = monitor(process, Supervisor),
    true = exit(Supervisor, shutdown),
    receive
        {'DOWN', Monitor, process, _, _} -> ok
    after ?SESSION_MS ->
        exit(Supervisor, kill),
        ok
    end.

unload(Module) ->
    _ = code:purge(Module),
    _ = code:delete(Module),
    code:purge(Module).

%% The last call of a registered process: no code of flame_prof runs when the last module is purged,
%% neither this code, which is old if another agent has loaded its own meanwhile, nor the code of
%% that agent, which was refused. If another process is registered, that one removes the module.
leave(Answer) ->
    Steps = [fun code:purge/1, fun code:delete/1, fun code:purge/1, fun erlang:hd/1],
    case has_name() of
        true -> lists:zipwith(fun erlang:apply/2, Steps,
            [[?MODULE], [?MODULE], [?MODULE], [[Answer]]]);
        false -> Answer
    end.

has_name() ->
    case {whereis(?MODULE), whereis(flame_prof_cleanup)} of
        {Agent, Cleanup} when Agent =:= self(); Cleanup =:= self() -> true;
        {undefined, undefined} ->
            try register(?MODULE, self()) catch error:badarg -> false end;
        _ -> false
    end.
