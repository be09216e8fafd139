%% @private The agent in a node without flame_prof: loads the library and the modules, and
%% removes them. `flame_prof attach' (flame_prof_attach) sends this module alone, and calls
%% start/1 in the same request; everything else is its argument.
%%
%% Two processes. The agent loads the modules and the library and holds the
%% session. The cleanup process waits for the agent's end and removes everything. The agent
%% ends on request, when its controller ends (a monitor), and after `heartbeat_ms' without a
%% heartbeat. When the cleanup process ends, the agent does its work.
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
-export([init/2, cleanup/2]).

-export_type([config/0, lent/0, refusal/0]).

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

-record(agent, {
    heartbeat_ms :: pos_integer(),
    modules :: [module()],
    %% Of the library and its samples.
    folder :: none | file:filename(),
    cleanup :: {pid(), reference()},
    controller :: reference()
}).

-define(READY_MS, 20000).
%% Less than the caller waits.
-define(START_MS, 10000).
-define(CLOSE_MS, 45000).
%% The session gives the disk 10 s, its supervisor 15.
-define(SESSION_MS, 20000).
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
    ask(Agent, {start_session, Options, Writer}, ?READY_MS).

%% @doc Never waits.
-spec renew(pid()) -> ok.
renew(Agent) ->
    Agent ! renew,
    ok.

%% @doc Returns when everything but this module is removed; this module is removed a moment
%% later. With the error the library had to stay mapped.
-spec close(pid()) -> ok | {error, unicode:chardata() | flame_prof:reason()}.
close(Agent) ->
    ask(Agent, close, ?CLOSE_MS).

ask(Agent, Request, Timeout) ->
    Monitor = monitor(process, Agent),
    Agent ! {Request, self(), Monitor},
    receive
        {Monitor, Answer} ->
            true = demonitor(Monitor, [flush]),
            Answer;
        {'DOWN', Monitor, process, Agent, Reason} ->
            {error, flame_prof_error:of_exit(Reason)}
    after Timeout ->
        true = demonitor(Monitor, [flush]),
        {error, {timeout, #{ms => Timeout}}}
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
    case {is_alone(), has_own(modules(Config))} of
        {false, _} ->
            %% The process that is there takes this module away in the end.
            Caller ! {self(), {error, {attached, "another flame_prof is attached"}}},
            ok;
        {true, true} ->
            _ = spawn(?MODULE, cleanup, [self(), []]),
            answered(Caller, {error, {present, "it has flame_prof already"}});
        {true, false} ->
            begun(Config, Caller)
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

begun(#{controller := Controller} = Config, Caller) ->
    Cleanup = spawn_monitor(?MODULE, cleanup, [self(), modules(Config)]),
    case lend(Config, Cleanup) of
        {ok, Library} ->
            Caller ! {self(), {ok, #{agent => self(), library => Library}}},
            loop(#agent{
                heartbeat_ms = maps:get(heartbeat_ms, Config),
                modules = modules(Config),
                folder = folder(Library),
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
            sweep(State#agent.modules, State#agent.folder);
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

lend(#{modules := Modules, library := Library} = Config, {Cleanup, _}) ->
    case {load(lists:keydelete(flame_prof_nif, 1, Modules)), Library} of
        {ok, {none, _}} -> {ok, Library};
        {ok, _} -> library(candidates(), Config, Cleanup, []);
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

%% As this node sees its files, and as its user may use them.
candidates() ->
    Current = [Folder || {ok, Folder} <- [file:get_cwd()]],
    Named = fun(Name) -> [Folder || Folder <- [os:getenv(Name)], is_list(Folder)] end,
    Named("TMPDIR") ++ ["/tmp", "/var/tmp", "/dev/shm"] ++ Named("HOME") ++ Current.

library([], #{may_lack := true}, Cleanup, Why) ->
    Cleanup ! {folder, none},
    {ok, {none, unicode:characters_to_binary(["it cannot be loaded there: ", reasons(Why)])}};
library([], _Config, _Cleanup, Why) ->
    {error, {library, reasons(Why)}};
library([Candidate | Candidates], Config, Cleanup, Why) ->
    Folder = filename:join(Candidate, unique()),
    Cleanup ! {folder, Folder},
    case may_execute(Candidate) andalso lodged(Folder, Config) of
        ok ->
            {ok, Folder};
        false ->
            Text = "no library may be run from there (noexec)",
            library(Candidates, Config, Cleanup, [{Candidate, Text} | Why]);
        {error, Text} ->
            _ = file:del_dir_r(Folder),
            library(Candidates, Config, Cleanup, [{Candidate, text(Text)} | Why])
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
lodged(Folder, #{library := Library, companions := Companions, modules := Modules}) ->
    Nif = lists:keyfind(flame_prof_nif, 1, Modules),
    try
        ok = placed(Folder),
        ok = written(Folder, [{?LIBRARY ++ ".so", Library}]),
        Path = filename:join(Folder, ?LIBRARY),
        case mapped(Path, Nif) of
            ok ->
                ok;
            {error, _} ->
                ok = written(Folder, Companions),
                mapped(Path, Nif)
        end
    catch
        throw:{error, Reason} -> {error, file:format_error(Reason)}
    after
        _ = [file:delete(filename:join(Folder, Name))
            || {Name, _} <- [{?LIBRARY ++ ".so", Library} | Companions]]
    end.

%% A new folder, of mode 0700 before anything is in it.
placed(Folder) ->
    ok = done(file:make_dir(Folder)),
    done(file:change_mode(Folder, 8#700)).

written(Folder, Files) ->
    lists:foreach(
        fun({Name, Bytes}) ->
            done(file:write_file(filename:join(Folder, Name), Bytes, [exclusive, raw]))
        end,
        Files
    ).

done(ok) -> ok;
done({error, _} = Error) -> throw(Error).

unique() ->
    Text = io_lib:format("flame_prof.~ts.~.36b",
        [os:getpid(), erlang:phash2({make_ref(), node()}, 1 bsl 32)]),
    lists:flatten(Text).

%% Not simply tried: where it may not, glibc leaves a part of the library mapped.
may_execute(Folder) ->
    case file:read_file("/proc/self/mounts") of
        {ok, Mounts} ->
            Lines = binary:split(Mounts, <<"\n">>, [global]),
            Options = mounted(Lines, unicode:characters_to_binary(Folder), 0, <<>>),
            not lists:member(<<"noexec">>, binary:split(Options, <<",">>, [global]));
        {error, _} ->
            true
    end.

%% With the options of the deepest mount above the folder, the last of several.
mounted([], _Folder, _Depth, Options) ->
    Options;
mounted([Line | Lines], Folder, Depth, Options) ->
    case binary:split(Line, <<" ">>, [global]) of
        [_, Point, _, Those | _] when byte_size(Point) >= Depth ->
            case is_below(Folder, Point) of
                true -> mounted(Lines, Folder, byte_size(Point), Those);
                false -> mounted(Lines, Folder, Depth, Options)
            end;
        _ ->
            mounted(Lines, Folder, Depth, Options)
    end.

is_below(_Folder, <<"/">>) -> true;
is_below(Folder, Point) -> lists:prefix(filename:split(Point), filename:split(Folder)).

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
    true = register(flame_prof_cleanup, self()),
    wait(monitor(process, Agent), Modules, none, no_caller).

wait(Monitor, Modules, Folder, To) ->
    receive
        {folder, Next} ->
            wait(Monitor, Modules, Next, To);
        {tell, Told} ->
            wait(Monitor, Modules, Folder, Told);
        {'DOWN', Monitor, process, _, _} ->
            _ = told(To, swept(Modules, Folder)),
            leave()
    end.

told(no_caller, Outcome) ->
    Outcome;
told({From, Ref}, Outcome) ->
    From ! {Ref, Outcome}.

sweep(Modules, Folder) ->
    _ = swept(Modules, Folder),
    leave().

%% An error is what had to stay.
swept(Modules, Folder) ->
    ok = end_session(whereis(flame_prof_sup)),
    ok = end_tracing(lists:member(flame_prof_tracing, Modules)
        andalso erlang:module_loaded(flame_prof_tracing)),
    IsLoaded = lists:member(flame_prof_nif, Modules) andalso erlang:module_loaded(flame_prof_nif),
    Outcome = retire(IsLoaded andalso failure() =:= none, ?RETIRE_ATTEMPTS),
    ok = forget(),
    _ = Folder =/= none andalso file:del_dir_r(Folder),
    ok = end_servers(Modules),
    ok = unload_all(Modules),
    Outcome.

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
