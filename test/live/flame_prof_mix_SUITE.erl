%% `mix flame_prof' in a project of Elixir that has this checkout as a dependency.
%% Skipped where mix or rebar3 is not installed.
-module(flame_prof_mix_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, a_file_is_reported/1,
    a_node_is_attached_to/1, a_killed_mix_leaves_nothing/1,
    only_json_is_on_the_standard_output/1, documents_and_appup_are_in_the_build/1,
    mix_help_lists_it/1, a_release_without_telemetry_is_made_and_starts/1]).

-import(command_line, [until/1, cookie/0, call/4]).

suite() -> [{timetrap, {minutes, 5}}].
all() -> native_node:cases(?MODULE).

init_per_suite(Config) ->
    case {os:find_executable("mix"), os:find_executable("rebar3")} of
        {false, _} -> {skip, "mix is not installed"};
        {_, false} -> {skip, "rebar3 is not installed"};
        _ -> with_project(Config)
    end.

end_per_suite(_Config) -> ok.

with_project(Config) ->
    Top = filename:join(proplists:get_value(priv_dir, Config), "project"),
    Copy = filename:join(Top, "flame_prof"),
    ok = filelib:ensure_dir(filename:join([Copy, "_build", "x"])),
    ok = filelib:ensure_dir(filename:join([Top, "lib", "x"])),
    Root = filename:dirname(filename:dirname(command_line:script())),
    %% With the objects and their times: they are not made again.
    _ = [{0, _} = command_line:shell(["cp -a ", Root, "/", Name, " ", Copy, "/", To])
         || {Name, To} <- [{Name, ""} || Name <- ["c_src", "src", "include", "priv", "tools",
                "Makefile", "rebar.config"]] ++ [{"_build/c", "_build/"}]],
    %% The libraries are linked as mix has them linked.
    _ = [ok = file:delete(File) || File <- filelib:wildcard(filename:join(Copy, "priv/*.so*"))],
    ok = file:write_file(filename:join(Top, "mix.exs"), "defmodule Shop.MixProject do\n"
        "  use Mix.Project\n"
        "  def project, do: [app: :shop, version: \"1.0.0\", deps: deps()]\n"
        "  defp deps, do: [{:flame_prof, path: \"flame_prof\", manager: :rebar3}]\n"
        "end\n"),
    Project = [{project, Top} | Config],
    {0, _} = mix(["deps.compile"], Project),
    Project.

corpus(Name) ->
    Root = filename:dirname(filename:dirname(command_line:script())),
    filename:join([Root, "test", "corpus", Name]).

%% What is damaged in it is the status of the command.
a_file_is_reported(Config) ->
    Report = filename:join(proplists:get_value(project, Config), "a report.html"),
    {4, _} = mix(["flame_prof", "report", corpus("damaged.log"), "--output", Report], Config),
    {ok, <<"<!doctype html>", _/binary>>} = file:read_file(Report).

a_node_is_attached_to(Config) ->
    with_node(fun(#{name := Name}) ->
        Output = filename:join(proplists:get_value(project, Config), "profiles"),
        {0, Text} = mix(["flame_prof", "attach", Name, "--cookie", cookie(), "--for",
            "300ms", "--output", Output], Config),
        {match, _} = re:run(Text, "[0-9] samples active"),
        [_] = filelib:wildcard(filename:join(Output, "*." ++ Name ++ ".*"))
    end).

%% As by Ctrl-C and `a' in mix: the command is in a VM of its own, and follows.
a_killed_mix_leaves_nothing(Config) ->
    with_node(fun(#{name := Name, node := Node}) ->
        Port = started(["flame_prof", "attach", Name, "--cookie", cookie(), "--for", "1h",
            "--output", proplists:get_value(priv_dir, Config)], Config),
        IsThere = fun() -> call(Node, code, is_loaded, [flame_prof_agent]) =/= false end,
        until(IsThere),
        {os_pid, Pid} = erlang:port_info(Port, os_pid),
        _ = os:cmd("kill -9 " ++ integer_to_list(Pid)),
        until(fun() -> not IsThere() end)
    end).

%% With the variable that the documents name: what mix and rebar3 say comes before otherwise.
only_json_is_on_the_standard_output(Config) ->
    Project = proplists:get_value(project, Config),
    ok = file:delete(filename:join(Project, "_build/dev/lib/flame_prof/ebin/flame_prof_json.beam")),
    Output = filename:join(proplists:get_value(priv_dir, Config), "hot.json"),
    {0, _} = command_line:await(open_port({spawn_executable, "/bin/sh"}, [
        {args, ["-c", "MIX_QUIET=1 exec mix flame_prof hot " ++ corpus("ours.log")
            ++ " --json >" ++ Output]}
            | options(Config)])),
    {ok, Json} = file:read_file(Output),
    ?assertMatch(#{<<"all_samples">> := 6}, foreign_formats:json(Json)).

documents_and_appup_are_in_the_build(Config) ->
    Ebin = filename:join(proplists:get_value(project, Config), "_build/dev/lib/flame_prof/ebin"),
    {ok, [{_, _, _}]} = file:consult(filename:join(Ebin, "flame_prof.appup")),
    {ok, {flame_prof, [{"Docs", Docs}]}} =
        beam_lib:chunks(filename:join(Ebin, "flame_prof.beam"), ["Docs"]),
    ?assertMatch({docs_v1, _, erlang, _, #{}, _, [_ | _]}, binary_to_term(Docs)).

mix_help_lists_it(Config) ->
    {0, All} = mix(["help"], Config),
    ?assertMatch({match, _}, re:run(All, "mix flame_prof +# Profiles a node")).

%% The dependency alone, in a release of Elixir that knows no optional applications.
a_release_without_telemetry_is_made_and_starts(Config) ->
    Release = filename:join(proplists:get_value(priv_dir, Config), "release"),
    {0, _} = mix(["release", "--path", Release], Config),
    Expression = "{:ok, _} = Application.ensure_all_started(:flame_prof); "
        "{:ok, _} = :flame_prof.start(%{dir: \"" ++ Release ++ "/samples\"}); "
        "{:ok, run} = :flame_prof.stop(); IO.inspect(run.files)",
    {0, Text} = command_line:await(open_port({spawn_executable,
        filename:join(Release, "bin/shop")}, [{args, ["eval", Expression]} | options(Config)])),
    ?assertMatch({match, _}, re:run(Text, "erl_perf")),
    [Priv] = filelib:wildcard(filename:join(Release, "lib/flame_prof-*/priv")),
    ?assertMatch([_ | _], filelib:wildcard(filename:join(Priv, "*.so"))),
    ?assertEqual([], filelib:wildcard(filename:join(Priv, "*.debug"))).

with_node(Fun) -> command_line:with_shared({start_node, [[]]}, Fun).
mix(Words, Config) -> command_line:await(started(Words, Config)).

started(Words, Config) ->
    open_port({spawn_executable, os:find_executable("mix")}, [{args, Words} | options(Config)]).

options(Config) ->
    Project = proplists:get_value(project, Config),
    [{cd, Project}, exit_status, stderr_to_stdout, binary,
        {env, [{"ERL_LIBS", false}, {"ERL_FLAGS", false}, {"LC_ALL", "C.UTF-8"},
            {"MIX_REBAR3", os:find_executable("rebar3")},
            {"MIX_HOME", filename:join(Project, ".mix")}]}].
