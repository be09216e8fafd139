%% @private The application's environment (`sys.config').
%%
%% ```
%% {flame_prof, [
%%     {autostart, true},
%%     {profile, #{select => {top, 100, 5000}, dir => "/var/log/prof"}},
%%     {sample_interval, 11}
%% ]}
%% '''
%%
%% With `autostart' the application starts a session, with the options of `profile'. Every other
%% key is an option that replaces the default of every session.
-module(flame_prof_env).

-export([autostart/0, validate/1, load/0]).
%% Spawned.
-export([load_file/1]).

%% Not options of a session. The application controller adds the last one.
-define(OTHER_KEYS, [autostart, profile, included_applications]).

%% @doc Whether a session starts with the application, and its options. A mistake anywhere in
%% the environment is an error, with `autostart' or without.
-spec autostart() ->
    no | {ok, flame_prof_options:options()} | {error, flame_prof_options:error()}.
autostart() ->
    Profile = application:get_env(flame_prof, profile, #{}),
    case {application:get_env(flame_prof, autostart, false), profile(Profile)} of
        {_, {error, _} = Error} -> Error;
        {false, _} -> no;
        {true, {ok, _} = Validated} -> Validated;
        {Other, _} -> refused(autostart, Other, "true or false")
    end.

profile(Profile) ->
    case validate(Profile) of
        {error, {bad_option, #{option := options}}} ->
            refused(profile, Profile, "a map of options");
        {error, {bad_option, #{option := Key} = Refused}} ->
            {error, {bad_env, Refused#{option := {profile, Key}}}};
        Validated -> Validated
    end.

refused(Key, Value, Accepted) ->
    {error, {bad_env, flame_prof_schema:refused(Key, Value, Accepted)}}.

%% @doc The options of a session: what was given, or else what the environment says. A mistake
%% in the environment is `bad_env'.
-spec validate(term()) -> {ok, flame_prof_options:options()} | {error, flame_prof_options:error()}.
validate(Given) ->
    %% The environment is there once the application is loaded. An agent's node has none, and is
    %% not to look for its file.
    _ = whereis(flame_prof_agent) =:= undefined andalso load(),
    Environment = maps:from_list(application:get_all_env(flame_prof)),
    flame_prof_options:validate(Given, maps:without(?OTHER_KEYS, Environment)).

%% @doc The application is loaded, now if it was not. Its file is read here: where the heaps of all
%% processes are limited (`+hmax'), the text of the file is too much for the application controller,
%% whose end is that of the VM.
-spec load() -> ok.
load() ->
    %% Beside the code: a search by the code server would list all folders of its path.
    case {application:get_key(flame_prof, vsn), code:which(?MODULE)} of
        {undefined, [_ | _] = Beam} ->
            File = filename:join(filename:dirname(Beam), "flame_prof.app"),
            %% A node without a free process has no room for a session either.
            try spawn_opt(?MODULE, load_file, [File], [monitor, {max_heap_size, #{size => 0}}]) of
                {Pid, Monitor} -> receive {'DOWN', Monitor, process, Pid, _} -> ok end
            catch
                error:system_limit -> ok
            end;
        _ ->
            ok
    end.

%% @private
-spec load_file(file:filename()) -> ok | {error, term()}.
load_file(File) ->
    load_read(prim_file:read_file(File)).

load_read({ok, Bytes}) ->
    {ok, Tokens, _} = erl_scan:string(unicode:characters_to_list(Bytes)),
    {ok, Application} = erl_parse:parse_term(Tokens),
    application:load(Application);
load_read({error, _}) ->
    application:load(flame_prof).
