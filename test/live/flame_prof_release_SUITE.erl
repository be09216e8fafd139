%% A real release, made by rebar3, that profiles itself: it is started from
%% `sys.config', upgraded and downgraded with the appup while it profiles, stopped
%% and started again. Skipped where there is no rebar3.
-module(flame_prof_release_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1,
    a_release_profiles_from_boot_through_upgrades/1]).
%% For a peer.
-export([finds/0]).

-define(OLD, "0.1.0").
-define(NEW, "0.1.1").

suite() -> [{timetrap, {minutes, 5}}].
all() -> [a_release_profiles_from_boot_through_upgrades].

init_per_suite(Config) ->
    %% run_erl, which makes a release a daemon, wants a pseudo terminal; a changed root
    %% may have none, and its script then waits for ever.
    case {os:find_executable("rebar3"), file:read_file_info("/dev/pts/ptmx")} of
        {false, _} -> skip("rebar3 is not installed", []);
        {_, {error, _}} -> skip("there are no pseudo terminals (/dev/pts)", []);
        _ -> distributed(Config)
    end.

%% The release is a node of a short name: where this machine's own name does not resolve,
%% or leads elsewhere, nobody finds it.
distributed(Config) ->
    _ = os:cmd("epmd -daemon"),
    case net_kernel:start([name("test"), shortnames]) of
        {ok, _} ->
            case peer_vm:value(?MODULE, finds, ["-sname", atom_to_list(name("probe")),
                    "-setcookie", atom_to_list(erlang:get_cookie()),
                    "-found", atom_to_list(node())]) of
                pong -> with_release(Config);
                Other -> skip("~ts is not found by its name: does the name of this machine "
                    "resolve? (~0p)", [node(), Other])
            end;
        {error, Reason} -> skip("no distribution: ~p", [Reason])
    end.

finds() ->
    {ok, [[Node]]} = init:get_argument(found),
    net_adm:ping(list_to_atom(Node)).

skip(Format, Arguments) ->
    Why = lists:flatten(io_lib:format(Format, Arguments)),
    io:format(user, "    skip  ~ts~n", [Why]),
    {skip, Why}.

end_per_suite(_Config) -> net_kernel:stop().
name(Role) -> list_to_atom("flame_prof_" ++ Role ++ "_" ++ os:getpid()).

%% The old version is built before the case, which builds the new one: each has a bound of its own.
with_release(Config) ->
    Top = filename:join(proplists:get_value(priv_dir, Config), "release"),
    ok = make_project(Top, filename:join(Top, "files")),
    ok = make_release(Top, ?OLD, "release"),
    _ = sh("cp -a ~ts ~ts", [built(Top), filename:join(Top, "target")]),
    [{top, Top} | Config].

a_release_profiles_from_boot_through_upgrades(Config) ->
    Top = proplists:get_value(top, Config),
    Target = filename:join(Top, "target"),
    Files = filename:join(Top, "files"),
    ok = make_package(Top, Target),
    Node = start_release(Target),
    try
        #{files := [First], engine := Engine} = profiling(Node),
        {ok, Docs} = rpc(Node, code, get_doc, [flame_prof]),
        ?assertMatch(#{<<"en">> := _}, element(5, Docs)),
        ok = install(Node, ?NEW),
        #{files := [Second], engine := Engine} = profiling(Node),
        ?assertEqual(?NEW, version(Node)),
        ok = install(Node, ?OLD),
        #{files := [Third]} = profiling(Node),
        ?assertEqual(?OLD, version(Node)),
        ok = rpc(Node, application, stop, [flame_prof]),
        ?assertMatch(#{state := stopped, last_run := _}, rpc(Node, flame_prof, info, [])),
        ok = rpc(Node, application, start, [flame_prof, permanent]),
        #{files := [Fourth]} = profiling(Node),
        All = [First, Second, Third, Fourth],
        ?assertEqual(4, length(lists:usort(All))),
        %% Releases have inets, an optional application of flame_prof.
        {ok, #{url := _}} = rpc(Node, flame_prof, view, [Files]),
        %% Each that was ended on the way is whole.
        [{ok, _} = perf_script_grammar:check(finished(File)) || File <- [First, Second, Third]],
        %% A bad configuration does not stop a release.
        ok = rpc(Node, application, stop, [flame_prof]),
        ok = rpc(Node, application, set_env, [flame_prof, profile, #{sample_interval => 0}]),
        ok = rpc(Node, application, start, [flame_prof, permanent]),
        ?assertMatch(#{state := stopped, last_error := {bad_env, _}},
            rpc(Node, flame_prof, info, []))
    after stop_release(Node)
    end.

%% ---- the project -----------------------------------------------------------

%% A project that has this checkout as its dependency.
make_project(Top, Files) ->
    Checkout = filename:join([Top, "_checkouts", "flame_prof"]),
    ok = filelib:ensure_dir(filename:join(Checkout, "x")),
    Root = filename:dirname(checkout:path("rebar.config")),
    %% The files of the package, and what was built of them, which is not built again.
    _ = [sh("cd ~ts && cp -a --parents ~ts ~ts", [Root, Name, Checkout])
         || Name <- ["priv" | packaged(Root)], filelib:is_file(filename:join(Root, Name))],
    ok = filelib:ensure_dir(filename:join([Checkout, "_build", "x"])),
    _ = sh("cp -a ~ts/_build/c ~ts/_build/", [Root, Checkout]),
    ok = write([Top, "src", "host.app.src"],
        "{application, host, [{description, \"A host\"}, {vsn, \"1\"},"
        " {applications, [kernel, stdlib]}]}.\n"),
    ok = write([Top, "config", "vm.args"],
        io_lib:format("-sname ~s~n-setcookie ~s~n", [name("host"), erlang:get_cookie()])),
    write([Top, "config", "sys.config"],
        io_lib:format("~tp.~n", [[{flame_prof, [{autostart, true},
            {profile, #{dir => Files, select => {top, 50, 200}}}]}]])).

packaged(Root) ->
    {ok, [{application, flame_prof, Keys}]} =
        file:consult(filename:join([Root, "src", "flame_prof.app.src"])),
    {files, Files} = lists:keyfind(files, 1, Keys),
    Files.

built(Top) -> filename:join([Top, "_build", "default", "rel", "host"]).

%% The new version, and how the old one becomes it.
make_package(Top, Target) ->
    ok = make_release(Top, ?NEW, "do release, relup -n host -v " ?NEW " -u " ?OLD
        ", tar -n host -v " ?NEW),
    Package = filename:join([Target, "releases", ?NEW, "host.tar.gz"]),
    ok = filelib:ensure_dir(Package),
    {ok, _} = file:copy(filename:join(built(Top), "host-" ?NEW ".tar.gz"), Package),
    ok.

make_release(Top, Version, Commands) ->
    ok = write([Top, "rebar.config"], "{deps, [flame_prof]}.\n"
        "{relx, [{release, {host, \"" ++ Version ++ "\"}, [sasl, host, flame_prof]},\n"
        "        {sys_config, \"config/sys.config\"}, {vm_args, \"config/vm.args\"},\n"
        "        {include_erts, true}, {extended_start_script, true}, {dev_mode, false}]}.\n"),
    App = filename:join([Top, "_checkouts", "flame_prof", "src", "flame_prof.app.src"]),
    {ok, [{application, flame_prof, Keys}]} = file:consult(App),
    Changed = {application, flame_prof, lists:keyreplace(vsn, 1, Keys, {vsn, Version})},
    ok = file:write_file(App, io_lib:format("~tp.~n", [Changed])),
    _ = sh("cd ~ts && env -u ERL_LIBS ERL_FLAGS= rebar3 ~ts", [Top, Commands]),
    ok.

sh(Format, Arguments) ->
    Command = lists:flatten(io_lib:format(Format, Arguments)),
    Said = os:cmd("(" ++ Command ++ ") 2>&1; echo status $?"),
    case lists:suffix("status 0\n", Said) of
        true -> Said;
        false -> ct:fail("~ts~n~ts", [Command, Said])
    end.

write(Path, Text) ->
    File = filename:join(Path),
    ok = filelib:ensure_dir(File),
    file:write_file(File, Text).

%% ---- the node --------------------------------------------------------------

start_release(Target) ->
    _ = sh("cd ~ts && env -u ERL_LIBS bin/host daemon", [Target]),
    [_, Host] = string:lexemes(atom_to_list(node()), "@"),
    Node = list_to_atom(atom_to_list(name("host")) ++ "@" ++ Host),
    ok = waiting:eventually(fun() -> net_adm:ping(Node) =:= pong end),
    ok = waiting:eventually(fun() ->
        is_list(rpc:call(Node, release_handler, which_releases, []))
    end),
    Node.

stop_release(Node) ->
    true = erlang:monitor_node(Node, true),
    ok = rpc(Node, init, stop, []),
    receive
        {nodedown, Node} -> ok
    after 300000 -> ct:fail("the release does not stop")
    end.

install(Node, Version) ->
    Releases = [V || {"host", V, _, _} <- rpc(Node, release_handler, which_releases, [])],
    _ = [{ok, Version} = rpc(Node, release_handler, unpack_release, [Version ++ "/host"])
         || not lists:member(Version, Releases)],
    {ok, _, []} = rpc(Node, release_handler, install_release, [Version]),
    ok = rpc(Node, release_handler, make_permanent, [Version]).

version(Node) ->
    {flame_prof, _, Version} = lists:keyfind(flame_prof, 1,
        rpc(Node, application, which_applications, [])),
    %% What runs is what is installed.
    Beam = rpc(Node, code, which, [flame_prof_nif]),
    ?assertNotEqual(nomatch, string:find(Beam, "flame_prof-" ++ Version ++ "/")),
    Version.

%% Its name once it is not in progress any more.
finished(File) ->
    ".part" = filename:extension(unicode:characters_to_list(File)),
    filename:rootname(File).

%% What info/0 says when samples have been written.
profiling(Node) ->
    ok = waiting:eventually(fun() ->
        case rpc(Node, flame_prof, info, []) of
            #{state := running, counters := #{written := Written}} -> Written > 500;
            _ -> false
        end
    end),
    rpc(Node, flame_prof, info, []).

rpc(Node, Module, Function, Arguments) -> rpc:call(Node, Module, Function, Arguments, 300000).
