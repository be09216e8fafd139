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
        {ok, Files} -> in_folder(Files, maps:with([by, idle, chains, top, min], Parsed));
        {error, _} = Error -> Error
    end.

%% Profiles are read from files.
in_folder(Files, Options) ->
    Name = io_lib:format("flame_prof.~ts.~.36b", [os:getpid(), erlang:unique_integer([positive])]),
    Folder = filename:join(os:getenv("TMPDIR", "/tmp"), lists:flatten(Name)),
    try
        ok = file:make_dir(Folder),
        ok = file:change_mode(Folder, 8#700),
        Paths = [filename:join(Folder, filename:basename(File)) || {File, _} <- Files],
        _ = [ok = file:write_file(Path, Bytes) || {Path, {_, Bytes}} <- lists:zip(Paths, Files)],
        read(flame_prof_profile:read(Paths), Options)
    catch
        error:{badmatch, {error, Reason}} -> {error, flame_prof_error:file(Folder, Reason)}
    after
        _ = file:del_dir_r(Folder)
    end.

read({ok, Profile}, Options) ->
    Info = flame_prof_profile:info(Profile),
    Report = flame_prof_tree:of_profile(Profile, Options),
    ok = flame_prof_profile:close(Profile),
    told(Report, flame_prof_file_losses:texts(Info));
read({error, _} = Error, _Options) ->
    Error.

told({ok, Report}, Losses) ->
    Text = [flame_prof_tree:format(Report, ?WIDTH, "idle: true"), [[Loss, "\n"] || Loss <- Losses]],
    {ok, #{text => unicode:characters_to_binary(Text), json => flame_prof_json:encode(Report)}};
told({error, _} = Error, _Losses) ->
    Error.
