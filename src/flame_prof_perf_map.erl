%% @private The file of Linux `perf' for this node's code.
%%
%% The C library finds every function in memory by itself (c_src/erts/functions).
%% What memory does not tell is which of them are still in use: the VM does not
%% wipe code that was purged. So it is told here which modules are loaded, and
%% the MD5 of their current code.
-module(flame_prof_perf_map).

-export([write/0]).

-export_type([written/0, loaded/0, reason/0]).

%% `left_out': functions whose code is in memory but not loaded any more.
%% `memory': how the VM has mapped its code, see {@link
%% flame_prof:write_perf_map/0}.
-type written() :: #{
    file := binary(),
    functions := pos_integer(),
    bytes := pos_integer(),
    left_out := non_neg_integer(),
    memory := anonymous | memfd
}.

%% The MD5 is empty where there is old code alone.
-type loaded() :: {module(), Md5 :: binary(), HasOldCode :: boolean()}.

-type reason() :: flame_prof_engine:refusal() | {perf_map, Error :: atom(), Why :: binary()}.

-spec write() -> {ok, written()} | {error, reason()}.
write() ->
    %% Where code is, and what precedes it, is known where the native engine is.
    case flame_prof_engine:choose(native) of
        {ok, _} ->
            case flame_prof_nif:write_perf_map([loaded(M) || M <- erlang:loaded()]) of
                {ok, Written} -> {ok, Written};
                {error, {Error, Why}} -> {error, {perf_map, Error, Why}}
            end;
        {error, _} = Refusal ->
            Refusal
    end.

loaded(Module) ->
    {Module, md5(Module), erlang:check_old_code(Module)}.

%% Not Module:module_info/1, which would load a module that has just gone.
md5(Module) ->
    try
        erlang:get_module_info(Module, md5)
    catch
        error:badarg -> <<>>
    end.
