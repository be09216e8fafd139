%% @private A short recording of a node as the tree that `flame_prof hot' prints. Nothing of it is
%% kept, there or here.
-module(flame_prof_mcp_hot).

-export([seen/3]).

-define(FOR_MS, 10000).
%% To start, to stop, and to send the files.
-define(MORE_MS, 40000).
-define(WIDTH, 120).

%% @doc The node has flame_prof_recording.
-spec seen(node(), pos_integer(), flame_prof_cli_args:parsed()) ->
    {ok, flame_prof_cli_looks:seen()} | {error, flame_prof:reason()}.
seen(Node, Timeout, Parsed) ->
    Ms = maps:get(for, Parsed, ?FOR_MS),
    Args = [Ms, maps:with([mode], Parsed), self()],
    Answer = flame_prof_remote:call(Node, flame_prof_recording, record, Args,
        Ms + ?MORE_MS + Timeout),
    case flame_prof_cli_nodes:outcome(Node, Answer) of
        {ok, Files} -> told(Node, Files, maps:with([by, idle, chains, top, min], Parsed));
        {error, _} = Error -> Error
    end.

%% Profiles are read from files.
told(Node, Files, Options) ->
    flame_prof_temporary:with_files(Files, fun(Paths) ->
        read(flame_prof_profile:read(Paths), Node, Options)
    end).

read({ok, Profile}, Node, Options) ->
    Info = flame_prof_profile:info(Profile),
    Report = flame_prof_tree:of_profile(Profile, Options),
    ok = flame_prof_profile:close(Profile),
    shown(Report, Node, flame_prof_file_losses:texts(Info));
read({error, _} = Error, _Node, _Options) ->
    Error.

shown({ok, Report}, Node, Losses) ->
    Text = [flame_prof_tree:format(Report, ?WIDTH, "idle: true"), [[Loss, "\n"] || Loss <- Losses]],
    Json = flame_prof_look:envelope(flame_prof_tree, Node, flame_prof_tree:json(Report)),
    {ok, #{text => unicode:characters_to_binary(Text), json => flame_prof_json:encode(Json)}};
shown({error, _} = Error, _Node, _Losses) ->
    Error.
