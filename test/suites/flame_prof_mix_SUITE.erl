%% `mix flame_prof' in a project of Elixir that has this checkout as a dependency.
%% Skipped where mix or rebar3 is not installed.
-module(flame_prof_mix_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([
    files_are_shown_and_reported/1,
    a_node_is_attached_to/1,
    a_killed_mix_leaves_nothing/1,
    the_status_is_that_of_the_command/1
]).

-import(command_line, [until/1, cookie/0, call/4]).

suite() -> [{timetrap, {minutes, 10}}].

all() ->
    [
        files_are_shown_and_reported,
        a_node_is_attached_to,
        a_killed_mix_leaves_nothing,
        the_status_is_that_of_the_command
    ].

init_per_suite(Config) ->
    case {os:find_executable("mix"), os:find_executable("rebar3")} of
        {false, _} -> {skip, "mix is not installed"};
        {_, false} -> {skip, "rebar3 is not installed"};
        _ -> with_project(Config)
    end.

end_per_suite(_Config) ->
    ok.

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
    ok = file:write_file(filename:join(Top, "mix.exs"),
        "defmodule Shop.MixProject do\n"
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

files_are_shown_and_reported(Config) ->
    {0, Hot} = mix(["flame_prof", "hot", corpus("ours.log")], Config),
    {match, _} = re:run(Hot, "2 of 6 samples active"),
    Report = filename:join(proplists:get_value(project, Config), "a report.html"),
    {0, _} = mix(["flame_prof", "report", corpus("ours.log"), "--output", Report], Config),
    {ok, <<"<!doctype html>", _/binary>>} = file:read_file(Report).

a_node_is_attached_to(Config) ->
    with_node(fun(#{name := Name}) ->
        Output = filename:join(proplists:get_value(project, Config), "profiles"),
        {0, Text} = mix(["flame_prof", "attach", Name, "--cookie", cookie(), "--for", "1s",
            "--output", Output], Config),
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

the_status_is_that_of_the_command(Config) ->
    {2, Text} = mix(["flame_prof", "nix"], Config),
    {match, _} = re:run(Text, "unknown command \"nix\""),
    {4, _} = mix(["flame_prof", "check", corpus("damaged.log")], Config).

with_node(Fun) ->
    Node = command_line:start_node([]),
    try
        Fun(Node)
    after
        command_line:stop_node(Node)
    end.

mix(Words, Config) ->
    command_line:await(started(Words, Config)).

started(Words, Config) ->
    Project = proplists:get_value(project, Config),
    open_port({spawn_executable, os:find_executable("mix")}, [
        {args, Words}, {cd, Project}, exit_status, stderr_to_stdout, binary,
        {env, [{"ERL_LIBS", false}, {"ERL_FLAGS", false}, {"LC_ALL", "C.UTF-8"},
            {"MIX_REBAR3", os:find_executable("rebar3")},
            {"MIX_HOME", filename:join(Project, ".mix")}]}
    ]).
