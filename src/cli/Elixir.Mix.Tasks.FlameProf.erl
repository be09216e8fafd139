%% @doc `mix flame_prof COMMAND': the command line from a project that has flame_prof as a
%% dependency.
%%
%% ```
%% $ mix flame_prof attach shop@myhost --for 30s --report shop.html
%% $ mix flame_prof hot *.erl_perf.log.zst
%% '''
%%
%% mix finds a task by its module's name, in any language: a build without Elixir compiles
%% this one, too. The command runs in a VM of its own, as the distribution of mix's cannot be
%% configured any more, and does without the standard input, which mix reads.
-module('Elixir.Mix.Tasks.FlameProf').

-export([run/1, '__info__'/1]).

%% @doc As mix calls it.
-spec run([binary()]) -> ok | no_return().
run(Words) ->
    Script = filename:join(code:priv_dir(flame_prof), "bin/flame_prof"),
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    Ebin = filename:dirname(code:which(flame_prof_cli)),
    Port = open_port({spawn_executable, "/bin/sh"}, [
        {args, ["-c", "exec \"$0\" \"$@\" </dev/null", Script | Words]},
        {env, [{"FLAME_PROF_ERL", Erl}, {"FLAME_PROF_EBIN", filename:absname(Ebin)},
            {"FLAME_PROF_STARTER", os:getpid()}]},
        nouse_stdio, exit_status
    ]),
    receive
        {Port, {exit_status, 0}} -> ok;
        %% mix ends with this status.
        {Port, {exit_status, Status}} -> exit({shutdown, Status})
    end.

%% @doc What a module of Elixir has; mix asks for the attributes of a task.
-spec '__info__'(atom()) -> [{atom(), [term()]}].
'__info__'(attributes) ->
    [{shortdoc, [<<"Profiles a node: attach, hot, report and the other commands of flame_prof">>]}];
'__info__'(_) ->
    [].
