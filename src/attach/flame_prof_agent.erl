%% @private The agent in a node without flame_prof: loads the library and the modules, and
%% removes them. `flame_prof attach' (flame_prof_attach) sends this module alone, and calls
%% start/1 in the same request; everything else is its argument.
%%
%% Two processes. The agent loads the modules and the library and holds the
%% session. The cleanup process waits for the agent's end and removes everything. The agent
%% ends on request, when its controller ends (a monitor), and after `heartbeat_ms' without a
%% heartbeat. When the cleanup process ends, the agent does its work.
%%
%% No file operation goes through the server of files (file_server_2): where one hangs in it, all
%% others would.
%%
%% Atoms stay, and modules of OTP that flame_prof's modules loaded. In particular:
%%
%% <ul>
%% <li>the library's file is deleted as soon as it is mapped, and the folder of the
%%     samples at the end;</li>
%% <li>what is traced is switched off;</li>
%% <li>the session ends as it does when its application is stopped;</li>
%% <li>the schedulers drop their registration ({@link flame_prof_schedulers:retire/0}),
%%     so that the library can be unmapped;</li>
%% <li>the modules are deleted and purged, this one last, by a process that runs
%%     OTP's code only.</li>
%% </ul>
-module(flame_prof_agent).

-export([start/1, start_session/3, renew/1, close/1, read/3]).
-export([init/2, cleanup/2, tried/1]).

-export_type([config/0, lent/0, left/0, refusal/0]).

%% `modules': with their object code. `library': the NIF's bytes, or why there is none for
%% this node. `may_lack': go on without one where none can be had. `companions': libraries
%% that it is linked with, for where they are missing.
-type config() ::
    #{
        controller := pid(),
        heartbeat_ms := pos_integer(),
        modules := [{module(), binary()}],
        library := binary() | {none, Why :: binary()},
        may_lack := boolean(),
        companions := [{file:filename(), binary()}]
    }.

-type lent() :: #{agent := pid(), library := file:filename() | {none, Why :: binary()}}.
%% `attached': another agent runs. `present': the node has flame_prof of its own.
-type refusal() :: {attached | present | library | module, unicode:chardata()}.
%% Folders that are still there: their file system hangs.
-type left() :: {left, [file:filename(), ...]}.

-record(agent, {
    heartbeat_ms :: pos_integer(),
    modules :: [module()],
    %% Of the library and its samples.
    folder :: none | file:filename(),
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
-define(LATE, "no file is written there in time").
%% Less than the caller waits.
-define(START_MS, 10000).
-define(CLOSE_MS, 45000).
%% The session gives the disk 10 s, its supervisor 15.
-define(SESSION_MS, 20000).
-define(REMOVED_MS, 10000).
-define(ANSWERED_MS, 5000).
-define(RETIRE_ATTEMPTS, 5).
-define(RETIRE_PAUSE_MS, 1000).
-define(LIBRARY, "flame_prof_nif").
-define(ENVIRONMENT, flame_prof_attached).

%% @doc When it answers an error, nothing is left already or will be in a moment.
-spec start(config()) -> {ok, lent()} | {error, refusal()}.
start(Config) ->
    {Agent, Monitor} = spawn_monitor(?MODULE, init, [Config, self()]),
    receive
        {Agent, Answer} ->
            true = erlang:demonitor(Monitor, [flush]),
            Answer;
        {'DOWN', Monitor, process, Agent, _Reason} ->
            {error, {module, "the agent ended while it loaded them; the node's log says why"}}
    after ?READY_MS ->
        exit(Agent, kill),
        {error, {module, "loading took too long"}}
    end.

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

%% @doc Never waits.
-spec renew(pid()) -> ok.
renew(Agent) ->
    Agent ! renew,
    ok.

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
    case {is_alone(), has_own(modules(Config))} of
        {false, _} ->
            %% The process that is there takes this module away in the end.
            Caller ! {self(), {error, {attached, "another flame_prof is attached"}}},
            ok;
        {true, true} ->
            _ = spawn(?MODULE, cleanup, [self(), []]),
            answered(Caller, {error, {present, "it has flame_prof already"}});
        {true, false} ->
            begun(Config, Caller, Until)
    end.

%% Registered, so that no session samples the agent, and that there is one. The cleanup
%% process of an agent that has ended may still be at work.
is_alone() ->
    try register(?MODULE, self()) of
        true -> whereis(flame_prof_cleanup) =:= undefined
    catch
        error:badarg -> false
    end.

%% The agent would replace the node's own modules, and the node's supervisor run them.
has_own(Modules) ->
    whereis(flame_prof_sup) =/= undefined orelse lists:any(fun erlang:module_loaded/1, Modules).

begun(#{controller := Controller} = Config, Caller, Until) ->
    Cleanup = spawn_monitor(?MODULE, cleanup, [self(), modules(Config)]),
    case lend(Config, Cleanup, Until) of
        {ok, Library, Folders} ->
            Caller ! {self(), {ok, #{agent => self(), library => Library}}},
            loop(#agent{
                heartbeat_ms = maps:get(heartbeat_ms, Config),
                modules = modules(Config),
                folder = folder(Library),
                folders = Folders,
                cleanup = Cleanup,
                controller = monitor(process, Controller)
            });
        {error, _} = Error ->
            answered(Caller, Error)
    end.

folder({none, _Why}) -> none;
folder(Folder) -> Folder.

%% The caller runs this module until it has the answer, and ends then.
answered(Caller, Answer) ->
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
        {'DOWN', CleanupMonitor, process, _, _} ->
            sweep(State#agent.modules, State#agent.folders);
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
    case {flame_prof_options:validate(Given#{dir => basename(Folder)}), Writer} of
        {{ok, Options}, none} -> start_session_now(Options, How, whereis(flame_prof_sup));
        {{ok, Options}, _} -> start_session_now(Options, How#{remote_writer => Writer},
            whereis(flame_prof_sup));
        {{error, _} = Error, _} -> Error
    end.

%% Without a library nothing is written here.
basename(none) -> "/";
basename(Folder) -> Folder.

%% Linked to the agent. Without the application, whose start and stop are logged.
start_session_now(Options, How, undefined) ->
    _ = flame_prof_sup:start_link(),
    start_session_now(Options, How, whereis(flame_prof_sup));
start_session_now(Options, How, Supervisor) ->
    case is_lent(Supervisor) of
        true -> flame_prof_sup:start_session(Options, How);
        false ->
            Why = <<"the application flame_prof was started meanwhile">>,
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
    case {load(lists:keydelete(flame_prof_nif, 1, Modules)), Library} of
        {ok, {none, _}} -> {ok, Library, []};
        {ok, _} -> library(candidates(Until), Config, Cleanup, Until);
        {{error, _} = Error, _} -> Error
    end.

%% At once: on a busy node each request to the code server waits for its turn to run.
load(Modules) ->
    case code:atomic_load([{Module, "flame_prof_attached", Code} || {Module, Code} <- Modules]) of
        ok ->
            ok;
        {error, [{Module, badfile} | _]} ->
            Text = "~ts: it was compiled for too old a release",
            {error, {module, io_lib:format(Text, [Module])}};
        {error, [{Module, Reason} | _]} ->
            {error, {module, io_lib:format("~ts cannot be loaded: ~ts", [Module, Reason])}}
    end.

%% This one has code to run when it is loaded.
load_nif({Module, Code}) ->
    case code:load_binary(Module, "flame_prof_attached", Code) of
        {module, Module} -> ok;
        {error, Reason} -> {error, {module, atom_to_list(Reason)}}
    end.

%% As this node sees its files, and as its user may use them. Where its current one is not told in
%% time, no file operation goes on: all dirty I/O schedulers are taken.
candidates(Until) ->
    case in_time(fun prim_file:get_cwd/0, Until) of
        late -> late;
        Told -> places([Folder || {ok, Folder} <- [Told]])
    end.

places(Current) ->
    Named = fun(Name) -> [Folder || Folder <- [os:getenv(Name)], is_list(Folder)] end,
    Named("TMPDIR") ++ ["/tmp", "/var/tmp", "/dev/shm"] ++ Named("HOME") ++ Current.

library(late, Config, Cleanup, Until) ->
    one_of([], {Config, Cleanup, Until}, [{"/", ?LATE}], []);
library(Candidates, Config, Cleanup, Until) ->
    one_of(Candidates, {Config, Cleanup, Until}, [], []).

one_of([], {#{may_lack := true}, _, _}, Why, Folders) ->
    Text = unicode:characters_to_binary(["it cannot be loaded there: ", reasons(Why)]),
    {ok, {none, Text}, Folders};
one_of([], _, Why, _Folders) ->
    {error, {library, reasons(Why)}};
one_of([Candidate | Candidates], {Config, Cleanup, Until} = To, Why, Others) ->
    Folder = filename:join(Candidate, flame_prof_temporary:name()),
    Folders = [Folder | Others],
    Cleanup ! {folder, Folder},
    case lodged(Candidate, Folder, Config, Until) of
        ok ->
            {ok, Folder, Folders};
        false ->
            Text = "no library may be run from there (noexec)",
            one_of(Candidates, To, [{Candidate, Text} | Why], Folders);
        late ->
            %% It is removed in the end: now that would hang as well.
            one_of(Candidates, To, [{Candidate, ?LATE} | Why], Folders);
        {error, Text} ->
            _ = in_time(fun() -> removed(Folder) end, Until),
            one_of(Candidates, To, [{Candidate, text(Text)} | Why], Folders)
    end.

%% A loader's names the file, which is in another folder each time.
text(Text) ->
    re:replace(Text, "/[^ ]*/flame_prof\\.[^ ]*/", "", [global, unicode, {return, list}]).

%% /tmp, /var/tmp: file too large; /dev/shm: ...
reasons(Why) ->
    Texts = lists:usort([Text || {_, Text} <- Why]),
    lists:join("; ", [
        [lists:join(", ", [Folder || {Folder, T} <- lists:reverse(Why), T =:= Text]), ": ", Text]
     || Text <- Texts
    ]).

%% Nothing lies there any more when it is mapped.
lodged(Candidate, Folder, Config, Until) ->
    #{library := Library, companions := Companions, modules := Modules} = Config,
    Nif = lists:keyfind(flame_prof_nif, 1, Modules),
    Own = [{?LIBRARY ++ ".so", Library}],
    Place = fun() -> flame_prof_temporary:may_execute(Candidate) andalso placed(Folder, Own) end,
    Complete = fun() -> in_time(fun() -> written(Folder, Companions) end, Until) end,
    Path = filename:join(Folder, ?LIBRARY),
    Outcome = mapped(in_time(Place, Until), Path, Nif, Complete),
    Delete = fun() ->
        [file:delete(filename:join(Folder, Name), [raw]) || {Name, _} <- Own ++ Companions]
    end,
    _ = Outcome =/= late andalso in_time(Delete, Until),
    Outcome.

mapped(ok, Path, Nif, Complete) ->
    case mapped(Path, Nif) of
        ok ->
            ok;
        {error, _} ->
            case Complete() of
                ok -> mapped(Path, Nif);
                Failed -> Failed
            end
    end;
mapped(Failed, _Path, _Nif, _Complete) ->
    Failed.

now_ms() -> erlang:monotonic_time(millisecond).

%% By another process: one that hangs in a file system is ended as soon as that lets it go.
in_time(Fun, Latest) ->
    awaited(trying(Fun), min(Latest, now_ms() + ?FILES_MS)).

trying(Fun) -> spawn_opt(?MODULE, tried, [Fun], [link, monitor, {priority, high}]).

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
    exit({?MODULE, try Fun()
    catch
        throw:{error, Reason} -> {error, file:format_error(Reason)};
        _:_ -> {error, "an internal error"}
    end}).

placed(Folder, Files) ->
    ok = done(flame_prof_temporary:make_folder(Folder)),
    written(Folder, Files).

%% With all that is in it. A link is deleted, not followed.
removed(Path) ->
    case {file:delete(Path, [raw]), prim_file:list_dir_all(Path)} of
        {{error, _}, {ok, Names}} ->
            _ = [removed(filename:join(Path, Name)) || Name <- Names],
            _ = prim_file:del_dir(Path);
        _ ->
            ok
    end,
    case prim_file:read_link_info(Path) of
        {ok, _} -> left;
        {error, _} -> gone
    end.

written(Folder, Files) ->
    lists:foreach(
        fun({Name, Bytes}) ->
            done(flame_prof_temporary:write_file(filename:join(Folder, Name), Bytes))
        end,
        Files
    ).

done(ok) -> ok;
done({error, _} = Error) -> throw(Error).

mapped(Path, Nif) ->
    ok = application:set_env(?ENVIRONMENT, library, Path),
    Outcome = mapped(load_nif(Nif)),
    ok = forget(),
    Outcome.

%% That the module is there says nothing: flame_prof_nif:load_lent/1.
mapped(ok) ->
    case failure() of
        none ->
            ok;
        {_, Text} ->
            _ = unload(flame_prof_nif),
            {error, Text}
    end;
mapped({error, {_, Text}}) ->
    {error, Text}.

failure() -> application:get_env(?ENVIRONMENT, failure, none).

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
    true = register(flame_prof_cleanup, self()),
    wait(monitor(process, Agent), Modules, [], no_caller).

wait(Monitor, Modules, Folders, To) ->
    receive
        {folder, Folder} ->
            wait(Monitor, Modules, [Folder | Folders], To);
        {tell, Told} ->
            wait(Monitor, Modules, Folders, Told);
        {'DOWN', Monitor, process, _, _} ->
            ok = told(To, swept(Modules, Folders)),
            leave()
    end.

%% Who asked runs this module until it has the answer, and ends then.
told(no_caller, _Outcome) ->
    ok;
told({From, Ref}, Outcome) ->
    Monitor = monitor(process, From),
    From ! {Ref, Outcome},
    receive
        {'DOWN', Monitor, process, _, _} -> ok
    after ?ANSWERED_MS -> ok
    end.

sweep(Modules, Folders) ->
    _ = swept(Modules, Folders),
    leave().

%% An error is what had to stay. Folders go last: a file system may hang.
swept(Modules, Folders) ->
    ok = end_session(whereis(flame_prof_sup)),
    ok = end_tracing(lists:member(flame_prof_tracing, Modules)
        andalso erlang:module_loaded(flame_prof_tracing)),
    IsLoaded = lists:member(flame_prof_nif, Modules) andalso erlang:module_loaded(flame_prof_nif),
    Outcome = retire(IsLoaded andalso failure() =:= none, ?RETIRE_ATTEMPTS),
    ok = forget(),
    ok = end_servers(Modules),
    ok = unload_all(Modules),
    Trying = [{Folder, trying(fun() -> removed(Folder) end)} || Folder <- Folders],
    Until = now_ms() + ?REMOVED_MS,
    case {Outcome, [Folder || {Folder, By} <- Trying, awaited(By, Until) =/= gone]} of
        {ok, [_ | _] = Left} -> {error, {left, Left}};
        _ -> Outcome
    end.

%% At once, as they are loaded: each step is by the code server or by the purger, one for all.
unload_all(Modules) ->
    Unloading = [
        spawn_opt(fun() -> unload(Module) end, [monitor, {priority, high}])
     || Module <- Modules
    ],
    lists:foreach(
        fun({Pid, Monitor}) -> receive {'DOWN', Monitor, process, Pid, _} -> ok end end, Unloading).

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
    case flame_prof_schedulers:retire() of
        {error, _} when Attempts > 1 ->
            timer:sleep(?RETIRE_PAUSE_MS),
            retire(true, Attempts - 1);
        Outcome ->
            Outcome
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

%% No code of flame_prof runs when the last module goes: neither this code, which is old
%% when another agent has loaded its own meanwhile, nor that one, which was refused.
leave() ->
    Steps = [fun code:purge/1, fun code:delete/1, fun code:purge/1],
    _ = spawn(lists, zipwith, [fun erlang:apply/2, Steps, [[?MODULE] || _ <- Steps]]),
    ok.
