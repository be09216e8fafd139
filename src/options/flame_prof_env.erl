%% @private What `sys.config' says.
%%
%% ```
%% {flame_prof, [
%%     {autostart, true},
%%     {profile, #{auto_select => {top, 100, 5000}, basename => "/var/log/prof"}},
%%     {sample_interval, 11}
%% ]}
%% '''
%%
%% `profile' is what is started with the application when `autostart' is true.
%% Every other key is an option that replaces the default of every session.
-module(flame_prof_env).

-export([autostart/0, with_defaults/1]).

-export_type([error/0]).

-type error() :: flame_prof_options:error() | {bad_option, autostart | profile, binary()}.

%% Not options of a session. The controller of applications adds the last one.
-define(OTHER_KEYS, [autostart, profile, included_applications]).

%% @doc Whether to start a session, and which. Validated by the clauses that
%% serve `flame_prof:start/1'.
-spec autostart() -> no | {ok, flame_prof_options:options()} | {error, error()}.
autostart() ->
    case application:get_env(flame_prof, autostart, false) of
        false -> no;
        true -> profile(application:get_env(flame_prof, profile, #{}));
        _ -> {error, {bad_option, autostart, <<"true or false">>}}
    end.

profile(Profile) when is_map(Profile) ->
    flame_prof_options:validate(with_defaults(Profile));
profile(_) ->
    {error, {bad_option, profile, <<"a map of options">>}}.

%% @doc What was given, over what the environment says. Anything else than a map
%% is left to be refused.
-spec with_defaults(term()) -> term().
with_defaults(Given) when is_map(Given) ->
    %% The environment is there once the application is loaded.
    _ = application:load(flame_prof),
    Environment = maps:from_list(application:get_all_env(flame_prof)),
    maps:merge(maps:without(?OTHER_KEYS, Environment), Given);
with_defaults(Given) ->
    Given.
