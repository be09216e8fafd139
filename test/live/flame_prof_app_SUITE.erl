%% The application on a real node: what it leaves alone, what it survives. What its environment
%% starts: test/unit/flame_prof_app_tests.
-module(flame_prof_app_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2,
    optional_applications_are_left_as_they_are/1, its_file_names_what_it_registers/1,
    modules_can_be_loaded_again_while_profiling/1,
    the_figures_of_the_node_survive_a_purge_in_their_midst/1]).
%% In another VM.
-export([with_optional_applications/0]).

-import(waiting, [eventually/1]).

suite() -> [{timetrap, {minutes, 2}}].
all() -> suite_cases:list(?MODULE, []).

init_per_testcase(Case, Config) ->
    _ = application:stop(flame_prof),
    Name = atom_to_list(Case) ++ integer_to_list(erlang:unique_integer([positive])),
    [{directory, filename:join(proplists:get_value(priv_dir, Config), Name)} | Config].

end_per_testcase(_Case, _Config) ->
    _ = application:stop(flame_prof),
    [application:unset_env(flame_prof, Key) || {Key, _} <- application:get_all_env(flame_prof)],
    ok.

%% A node may have inets and telemetry and not run them: neither a session nor the viewer
%% starts them.
optional_applications_are_left_as_they_are(_Config) ->
    ?assertEqual([flame_prof], peer_vm:value(?MODULE, with_optional_applications, [])).

with_optional_applications() ->
    Before = application:which_applications(),
    ok = application:load(inets),
    ok = application:load({application, telemetry,
        [{vsn, "1"}, {modules, []}, {registered, []}, {applications, [kernel, stdlib]}]}),
    Folder = filename:join("/tmp", "flame_prof_app_" ++ os:getpid()),
    {ok, _} = flame_prof:start(#{dir => Folder, engine => portable}),
    {ok, #{url := Url}} = flame_prof:view(Folder),
    ?assertMatch({ok, "HTTP/1.1 200 OK" ++ _}, page(uri_string:parse(Url))),
    {ok, _} = flame_prof:stop(),
    ok = file:del_dir_r(Folder),
    [Name || {Name, _, _} <- application:which_applications() -- Before].

page(#{host := Host, port := Port, path := Path}) ->
    {ok, Socket} = gen_tcp:connect(binary_to_list(Host), Port, [{active, false}]),
    ok = gen_tcp:send(Socket, ["GET ", Path, " HTTP/1.1\r\nHost: ", Host, "\r\n\r\n"]),
    gen_tcp:recv(Socket, 0).

its_file_names_what_it_registers(Config) ->
    Before = registered(),
    {ok, _} = flame_prof:start(#{dir => directory(Config)}),
    {ok, _} = flame_prof:view(directory(Config)),
    Registered = [Name || Name <- registered() -- Before,
        lists:prefix("flame_prof", atom_to_list(Name))],
    {ok, _} = flame_prof:stop(),
    {ok, Waiting} = flame_prof:start(#{dir => directory(Config),
        triggers => #{on => run_queue, above => 1000000}}),
    {registered_name, Triggers} = process_info(Waiting, registered_name),
    {ok, _} = flame_prof:stop(),
    {ok, Named} = application:get_key(flame_prof, registered),
    ?assert(lists:member(flame_prof_session, Registered)),
    ?assertEqual([], [Triggers | Registered] -- Named).

%% Twice each, so that the first copy is purged.
modules_can_be_loaded_again_while_profiling(Config) ->
    {ok, Modules} = application:get_key(flame_prof, modules),
    [begin
        {ok, Session} = flame_prof:start(#{dir => directory(Config), engine => Engine,
                                           select => {top, 20, 60000}}),
        sampled(),
        [begin
            _ = code:purge(Module),
            {module, Module} = code:load_file(Module)
        end || _ <- [first, second], Module <- Modules -- [flame_prof_nif, flame_prof_report_nif]],
        _ = [code:purge(Module) || Module <- Modules -- [flame_prof_nif, flame_prof_report_nif]],
        sampled(),
        ?assertEqual(Session, whereis(flame_prof_session)),
        ?assertEqual(ok, flame_prof:flush()),
        {ok, #{files := [File]}} = flame_prof:stop(),
        {ok, _} = perf_script_grammar:check(File)
    end || Engine <- [auto, portable]].

%% As a purge ends a process that executes old code.
the_figures_of_the_node_survive_a_purge_in_their_midst(Config) ->
    [figures_go_on(Config, Engine) || Engine <- [auto, portable]].

kill_node(Session) ->
    [Node] = nodes_of(Session),
    Monitor = monitor(process, Node),
    exit(Node, kill),
    receive {'DOWN', Monitor, process, Node, killed} -> ok end.

nodes_of(Session) ->
    {links, Links} = process_info(Session, links),
    [Pid || Pid <- Links, is_pid(Pid),
        proc_lib:translate_initial_call(Pid) =:= {flame_prof_node, init, 1}].

figures_go_on(Config, Engine) ->
    {ok, Session} = flame_prof:start(#{
        dir => directory(Config), engine => Engine, flush_interval => 1009}),
    Before = eventually(fun told_processes/0),
    _ = kill_node(Session),
    Others = [spawn_link(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 1000)],
    eventually(fun() ->
        {true, Now} = told_processes(),
        Now >= Before + 900
    end),
    [Pid ! stop || Pid <- Others],
    ?assertEqual(Session, whereis(flame_prof_session)),
    {ok, _} = flame_prof:stop().

%% What the newest flush says.
told_processes() ->
    ok = flame_prof:flush(),
    #{files := Files} = flame_prof:info(),
    {ok, Own, _} = reader_oracle:own(Files),
    case [N || #{figures := #{<<"node_processes">> := {N, _}}} <- Own] of
        [] -> false;
        Told -> {true, lists:last(Told)}
    end.

directory(Config) -> proplists:get_value(directory, Config).

sampled() ->
    #{counters := #{written := Before}} = flame_prof:info(),
    eventually(fun() ->
        #{counters := #{written := Now}} = flame_prof:info(),
        Now > Before
    end).

