%% @private The controller's side of an agent: whether this flame_prof fits a node,
%% sending it there. See flame_prof_agent for the other side, flame_prof_fetching for the files.
%%
%% Needs a connected node. The process that opens an agent is its controller: the
%% agent ends with it.
-module(flame_prof_attach).

-export([open/1, open/2, open/3, lacks/1, has_writer/1, close/1]).
-export([start_sessions/2, figures/1, stop/1, fetching/2]).

-export_type([agent/0, lent/0, without/0]).

%% The writer of its files: the node itself, or a remote writer here.
-opaque agent() :: #{
    node := node(),
    agent := pid(),
    heartbeat := pid(),
    library := file:filename() | {none, Why :: binary()},
    remote_writer := none | pid()
}.
%% Where the library is incompatible: the node is refused; or the command does not need the
%% library; or the portable engine samples there, and the files are written here, below a
%% folder.
-type without() :: refused | bare | {writer, file:filename()}.
-define(HEARTBEAT_MS, 15000).
-define(HEART_MS, 2000).
-define(OPEN_MS, 30000).
-define(CALL_MS, 15000).
-define(STOP_MS, 35000).
-define(CLOSE_MS, 50000).
%% 10 ms each. The last purge asks every process, and a busy node has others to run.
-define(GONE_ATTEMPTS, 1000).
-define(AGENT, flame_prof_agent).
%% The file name of the modules in a node that has the agent.
-define(FROM, "flame_prof_attached").
%% Between two looks at a node that is not free.
-define(PAUSE_MS, 200).
%% Called from here, or as children of supervisors, beside those of looks.
-define(ROOTS, [?AGENT, flame_prof_info, flame_prof_sup, flame_prof_triggers,
    flame_prof_remote_sampler, flame_prof_recording]).

%% The function that the agent calls if it starts no session.
-define(AGENT_CALLS, [flame_prof_agent_library, flame_prof_error, flame_prof_schedulers,
    flame_prof_temporary]).

%% The modules for the node: these with the modules that they call, or all that can be sent, for a
%% command.
-type lent() :: flame_prof_preflight:command() | {look, [module(), ...]}.

%% @doc Send everything to the node. Refused where the library is incompatible, or
%% an agent runs.
-spec open(node()) -> {ok, agent()} | {error, flame_prof:reason()}.
open(Node) ->
    open(Node, refused).

%% @doc The same where the library may be incompatible.
-spec open(node(), without()) -> {ok, agent()} | {error, flame_prof:reason()}.
open(Node, Without) ->
    open(Node, Without, attach).

%% @doc The same for what is to be done: for one look the node gets what that calls, and no
%% sessions. To purge a module, the VM looks through the heap of each process. Nothing is sent to a
%% node that is short of what the command takes there.
-spec open(node(), without(), lent()) -> {ok, agent()} | {error, flame_prof:reason()}.
open(Node, Without, Lent) ->
    try
        #{library := Library} = Config = config(Without, Lent),
        [Release, OsPid, Architecture] = each(Node, [
            {fun erlang:system_info/1, [otp_release]},
            {fun os:getpid/0, []},
            {fun erlang:system_info/1, [system_architecture]}
        ], ?CALL_MS),
        ok = release(Node, Release),
        Short = flame_prof_preflight:ask(Node, Lent, Without =/= refused),
        %% Why the library cannot run there, as far as that is known before it is loaded.
        Why = incompatibility(Short, Architecture, Node, Library),
        Fitting = fitting(Node, Why, Config),
        Agent = lent(Node, is_left(Node, Fitting, free, 0), Fitting),
        {ok, with_writer(Without, list_to_integer(OsPid), Release, Agent)}
    catch
        throw:{error, _} = Error -> Error
    end.

%% @doc Why there is no library in the node.
-spec lacks(agent()) -> {true, Why :: binary()} | false.
lacks(#{library := {none, Why}}) -> {true, Why};
lacks(#{}) -> false.

%% @doc Does a remote writer here take its samples?
-spec has_writer(agent()) -> boolean().
has_writer(#{remote_writer := Writer}) -> Writer =/= none.

%% Made before the node is looked at: little time is to pass from that until it has
%% an agent.
config(Without, Lent) ->
    Modules = lent_modules(Lent),
    #{
        controller => self(),
        heartbeat_ms => ?HEARTBEAT_MS,
        modules => Modules,
        library => [{Nif, library(Nif)} || Nif <- [flame_prof_nif, flame_prof_looks_nif],
            lists:keymember(Nif, 1, Modules)],
        may_lack => Without =/= refused,
        companions => companions()
    }.

incompatibility({error, _} = Error, _Architecture, _Node, _Library) ->
    throw(Error);
incompatibility({less, Why}, _Architecture, _Node, _Library) ->
    Why;
incompatibility(late, Architecture, _Node, Library) ->
    incompatibility(Architecture, late, Library);
incompatibility(none, Architecture, Node, Library) ->
    incompatibility(Architecture, flame_prof_remote:read_file(Node, "/proc/self/maps"), Library).

%% Writing the library would hang as well.
incompatibility(Architecture, {ok, Maps}, [{_, Library} | _]) ->
    flame_prof_compatible:incompatibility(Architecture, Maps, Library);
incompatibility(_Architecture, late, _Library) ->
    "its dirty I/O schedulers, which read and write files, are all taken: no file is read in time";
incompatibility(_Architecture, {error, _} = Error, _Library) ->
    throw(Error).

%% Modules that run in the VM of the command only are not sent.
fitting(_Node, none, Config) ->
    Config;
fitting(_Node, Why, #{may_lack := true} = Config) ->
    Config#{library := {none, unicode:characters_to_binary(Why)}, companions := []};
fitting(Node, Why, _Config) ->
    refuse(incompatible, Node, "~ts", [Why]).

%% Asks the node nothing: an error here is to leave no agent.
with_writer({writer, Output}, OsPid, Release, #{node := Node, library := {none, Why}} = Agent) ->
    Config = #{node => Node, os_pid => OsPid, release => Release, engine_reason => Why,
        output => Output},
    case writer(code:ensure_loaded(flame_prof_nif), Config) of
        {ok, Writer} ->
            Agent#{remote_writer := Writer};
        {error, _} = Error ->
            _ = close(Agent),
            throw(Error)
    end;
with_writer(_, _, _, Agent) ->
    Agent.

writer({module, _}, Config) ->
    case flame_prof_remote_writer:start_link(Config) of
        {ok, Writer} -> {ok, Writer};
        {error, {shutdown, {folder, Folder, Reason}}} ->
            {error, flame_prof_error:file(Folder, Reason)}
    end;
writer({error, _}, #{node := Node}) ->
    Path = library_path(flame_prof_nif),
    Why = io_lib:format("it cannot be loaded here, where it must write the files of ~ts", [Node]),
    {error, flame_prof_error:file(Path, Why)}.

%% In one request. Others may attach at the same moment, with a module of the same
%% name: atomic_load never purges what an agent runs, and the agent that registers
%% first is the one that is there. A module that was left behind may be there twice.
lent(Node, IsLeft, Config) ->
    Module = {?AGENT, ?FROM, object_code(?AGENT)},
    Calls = [{fun code:soft_purge/1, [?AGENT]} || IsLeft] ++
        [{fun code:atomic_load/1, [[Module]]}, {fun ?AGENT:start/1, [Config]}],
    case answer_of_agent(lists:last(each(Node, Calls, ?OPEN_MS))) of
        {ok, #{agent := Agent, library := Library}} ->
            Heartbeat = spawn_link(fun() -> heartbeat(Agent) end),
            #{node => Node, agent => Agent, heartbeat => Heartbeat, library => Library,
                remote_writer => none};
        {error, {attached, _}} ->
            attached(Node);
        {error, {present, _}} ->
            present(Node);
        {error, {left, Text}} ->
            refuse(refused, Node, "an earlier flame_prof left something there: ~ts", [Text]);
        {error, {processes, Text}} ->
            refuse(refused, Node, "~ts", [Text]);
        {error, {Kind, Text}} ->
            refuse(incompatible, Node, "it cannot take the ~ts: ~ts", [Kind, Text])
    end.

%% After the steps that have removed the agent's module.
answer_of_agent([_ | _] = Steps) -> lists:last(Steps);
answer_of_agent(Answer) -> Answer.

%% One request; only OTP's code runs there but for these.
each(Node, Calls, Timeout) ->
    {Funs, Args} = lists:unzip(Calls),
    call(Node, lists, zipwith, [fun erlang:apply/2, Funs, Args], Timeout).

%% Not as a message to this process, which may be busy with a file.
heartbeat(Agent) ->
    Monitor = monitor(process, Agent),
    Agent ! renew,
    receive
        {'DOWN', Monitor, process, _, _} -> ok
    after ?HEART_MS ->
        true = demonitor(Monitor, [flush]),
        heartbeat(Agent)
    end.

%% What runs there, with all that it calls: newer releases call fewer of
%% them. flame_prof itself calls everything, but not in what is called there.
lent_modules({look, Modules}) ->
    lent_modules(Modules ++ ?AGENT_CALLS, [?AGENT]);
lent_modules(_Command) ->
    Looks = [flame_prof_look:lent(Look) || Look <- flame_prof_look:modules()],
    lent_modules(?ROOTS ++ lists:append([Modules || {_, Modules} <- Looks]), []).

lent_modules(Roots, NotFollowed) ->
    Known = [{Module, object_code(Module)} || Module <- [flame_prof | NotFollowed]],
    lists:keydelete(?AGENT, 1, lists:foldl(fun needed/2, Known, Roots)).

needed(Module, Known) ->
    case lists:keymember(Module, 1, Known) of
        true ->
            Known;
        false ->
            Code = object_code(Module),
            {ok, {Module, [{imports, Imports}]}} = beam_lib:chunks(Code, [imports]),
            Needed = [M || {M, _, _} <- lists:ukeysort(1, Imports), is_own(atom_to_list(M))],
            lists:foldl(fun needed/2, [{Module, Code} | Known], Needed)
    end.

is_own(Name) -> lists:prefix("flame_prof", Name).

object_code(Module) ->
    case code:get_object_code(Module) of
        {Module, Code, _} ->
            {ok, {Module, Stripped}} = beam_lib:strip(Code),
            Stripped;
        %% A release may keep its code elsewhere than in files.
        error ->
            throw({error, flame_prof_error:file(atom_to_list(Module) ++ ".beam", enoent)})
    end.

library(Nif) ->
    Path = library_path(Nif),
    case file:read_file(Path) of
        {ok, Library} -> Library;
        {error, Reason} -> throw({error, flame_prof_error:file(Path, Reason)})
    end.

library_path(Nif) ->
    Ebin = filename:dirname(code:which(?AGENT)),
    filename:join([Ebin, "..", "priv", atom_to_list(Nif) ++ ".so"]).

%% The libraries that the library is linked with, by soname: a node in a container may
%% lack them.
companions() ->
    _ = code:ensure_loaded(flame_prof_nif),
    Pattern = "/\\S+/(lib(?:uv|zstd|z)\\.so\\.\\d+)\\S*$",
    %% Without /proc the node has to have them.
    linked_libraries(file:read_file("/proc/self/maps"), Pattern).

linked_libraries({ok, Maps}, Pattern) ->
    case re:run(Maps, Pattern, [global, multiline, {capture, all, list}]) of
        {match, Found} ->
            [{Name, Bytes} || [Path, Name] <- lists:usort(Found),
                {ok, Bytes} <- [file:read_file(Path)]];
        nomatch ->
            []
    end;
linked_libraries({error, _}, _Pattern) ->
    [].

%% Does it fit?

release(Node, Release) ->
    Own = erlang:system_info(otp_release),
    try list_to_integer(Release) of
        N when N < 25 ->
            refuse(incompatible, Node, "it runs OTP ~ts; flame_prof needs 25 or newer", [Release]);
        N ->
            N >= list_to_integer(Own) orelse
                refuse(incompatible, Node,
                    "it runs OTP ~b, and this flame_prof was built with ~ts; use one that was "
                    "built with OTP ~b or older (25 at least)",
                    [N, Own, N]),
            ok
    catch
        error:badarg -> refuse(incompatible, Node, "OTP ~ts is an unknown release", [Release])
    end.

%% Returns whether a killed agent left modules. Refuses a node with a living agent, and a node that
%% has any module of its own flame_prof: it may not have needed the library yet. The agent checks
%% again, as the node may change until then.
is_left(Node, #{modules := Lent} = Config, Before, Count) ->
    State = state(Node, [?AGENT | [Module || {Module, _} <- Lent]]),
    Looks = case State of
        Before -> Count + 1;
        _ -> 1
    end,
    case State of
        free -> false;
        own -> present(Node);
        _ ->
            case Looks < looks(State) of
                true -> timer:sleep(?PAUSE_MS), is_left(Node, Config, State, Looks);
                false when State =:= left -> true;
                false when State =:= supervised -> present(Node);
                false when State =:= attached -> attached(Node);
                false when State =:= leaving ->
                    refuse(refused, Node, "another flame_prof is still being removed from it", [])
            end
    end.

%% The names come first: an agent has a registered process as long as its modules are loaded.
state(Node, Modules) ->
    Names = [flame_prof_sup, ?AGENT, flame_prof_cleanup],
    {[Supervisor | Processes], AreLoaded} = lists:split(length(Names), each(Node,
        [{fun erlang:whereis/1, [Name]} || Name <- Names] ++
            [{fun erlang:module_loaded/1, [Module]} || Module <- Modules], ?CALL_MS)),
    %% The code server, which answers late on a busy node, is asked of few modules or none.
    Files = [File || {file, File} <- each(Node, [{fun code:is_loaded/1, [Module]}
        || {Module, true} <- lists:zip(Modules, AreLoaded)], ?CALL_MS)],
    case {lists:member(?FROM, Files), Processes} of
        {false, _} when Files =:= [], Supervisor =:= undefined -> free;
        {false, _} -> own;
        {true, [undefined, undefined]} when Supervisor =:= undefined -> left;
        {true, [undefined, undefined]} -> supervised;
        {true, [undefined, _]} -> leaving;
        {true, _} -> attached
    end.

%% So many equal states in a row decide: a command may have just begun or just ended.
looks(left) -> 4;
looks(supervised) -> 10;
looks(attached) -> 10;
looks(leaving) -> 75.

-spec attached(node()) -> no_return().
attached(Node) ->
    refuse(refused, Node, "another flame_prof is attached to it", []).

-spec present(node()) -> no_return().
present(Node) ->
    refuse(refused, Node, "it has flame_prof already; use start, info and stop with --node ~ts",
        [Node]).

%% @doc Returns when the agent is removed from the node, also when files here fail.
-spec close(agent()) -> ok | {error, flame_prof:reason()}.
close(#{remote_writer := Writer} = Agent) ->
    Answer = given_back(Agent),
    _ = [flame_prof_remote_writer:close(Writer) || Writer =/= none],
    Answer.

given_back(#{node := Node, agent := Agent, heartbeat := Heartbeat}) ->
    true = unlink(Heartbeat),
    true = exit(Heartbeat, kill),
    try
        Said = flame_prof_remote:at_once(Node, ?AGENT, close, [Agent], ?CLOSE_MS),
        ok = gone(Node, ?GONE_ATTEMPTS),
        closed(Node, Said)
    catch
        throw:{error, _} = Error -> Error
    end.

closed(Node, {ok, {error, <<Why/binary>>}}) ->
    refuse(refused, Node, "the library and its signal handler stay in memory: ~ts",
        [Why]);
closed(Node, {ok, {error, {left, Folders}}}) ->
    refuse(refused, Node, "the removal failed or took too long; still there: ~ts",
        [lists:join(", ", Folders)]);
closed(_Node, _) ->
    ok.

gone(Node, 0) ->
    refuse(refused, Node, "it still has modules of flame_prof; they are removed within a minute",
        []);
gone(Node, Attempts) ->
    case each(Node, [{fun erlang:whereis/1, [?AGENT]}, {fun erlang:whereis/1, [flame_prof_cleanup]},
        {fun erlang:module_loaded/1, [?AGENT]}, {fun erlang:check_old_code/1, [?AGENT]}],
        ?CALL_MS) of
        [_, _, false, false] ->
            ok;
        %% The names come first: one is registered until the module is purged.
        [undefined, undefined, _, _] ->
            Text = "the process that removes flame_prof from it was killed; the next command "
                "removes the rest",
            refuse(refused, Node, Text, []);
        _ ->
            timer:sleep(10),
            gone(Node, Attempts - 1)
    end.

%% @doc At the same moment in all of them.
-spec start_sessions([agent()], flame_prof:options()) -> 
    [{node(), {ok, pid()} | {error, flame_prof:reason()}}].
start_sessions(Agents, Options) ->
    Ready = [{Agent, ready(Agent, Options)} || Agent <- Agents],
    Requests = [{Agent, requested(Agent, IsReady, Options)} || {Agent, IsReady} <- Ready],
    [{Node, begun(Agent, answer(Node, Request))} || {#{node := Node} = Agent, Request} <- Requests].

ready(#{remote_writer := none}, _Options) -> ok;
ready(#{remote_writer := Writer}, Options) -> flame_prof_remote_writer:open(Writer, Options).

requested(#{node := Node, agent := Agent, remote_writer := Writer}, ok, Options) ->
    {asked, erpc:send_request(Node, ?AGENT, start_session, [Agent, Options, Writer])};
requested(_Agent, {error, _} = Error, _Options) ->
    Error.

answer(Node, {asked, Request}) -> received(Node, Request, ?CALL_MS);
answer(_Node, {error, _} = Error) -> Error.

begun(#{remote_writer := Writer}, {ok, Sampler} = Begun) when is_pid(Writer) ->
    ok = flame_prof_remote_writer:begun(Writer, Sampler),
    Begun;
begun(_Agent, Answer) ->
    Answer.

received(Node, Request, Timeout) ->
    try
        erpc:receive_response(Request, Timeout)
    catch
        error:{erpc, Reason} when Reason =:= noconnection; Reason =:= timeout ->
            Why = <<"no answer: ", (atom_to_binary(Reason))/binary>>,
            {error, {node, #{node => Node, reason => Why}}};
        _:Reason ->
            {session_ended, #{reason := Why}} = flame_prof_error:of_exit(Reason),
            {error, refusal(refused, Node, "the session did not start: ~ts", [Why])}
    end.

%% @doc How the session stands: flame_prof:info/0.
-spec figures(agent()) -> {ok, flame_prof:info()} | {error, flame_prof:reason()}.
figures(#{node := Node, remote_writer := none}) ->
    flame_prof_remote:call(Node, flame_prof, info, [], ?CALL_MS);
figures(#{remote_writer := Writer}) ->
    flame_prof_remote_writer:info(Writer).

-spec stop(agent()) -> {ok, flame_prof:run()} | {error, flame_prof:reason()}.
stop(#{node := Node, remote_writer := none}) ->
    case flame_prof_remote:call(Node, flame_prof, stop, [], ?STOP_MS) of
        {ok, Answer} -> Answer;
        {error, _} = Error -> Error
    end;
stop(#{remote_writer := Writer}) ->
    flame_prof_remote_writer:stop(Writer, ?STOP_MS).

%% @doc Its files are to go to this folder.
-spec fetching(agent(), file:filename()) -> flame_prof_fetching:fetching().
fetching(#{node := Node, remote_writer := none}, Output) ->
    flame_prof_fetching:new(Node, Node, Output);
fetching(#{node := Node}, Output) ->
    flame_prof_fetching:new(Node, here, Output).

call(Node, Module, Function, Args, Timeout) ->
    case flame_prof_remote:at_once(Node, Module, Function, Args, Timeout) of
        {ok, Answer} -> Answer;
        {error, _} = Error -> throw(Error)
    end.

-spec refuse(incompatible | refused, node(), string(), [term()]) -> no_return().
refuse(Cause, Node, Format, Args) ->
    throw({error, refusal(Cause, Node, Format, Args)}).

refusal(Cause, Node, Format, Args) ->
    Why = unicode:characters_to_binary(io_lib:format(Format, Args)),
    {attach, #{node => Node, reason => Why, cause => Cause}}.
