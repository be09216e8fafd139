%% @doc The file of Linux `perf' for this node's code: {@link flame_prof:write_perf_map/0}.
%%
%% The C library finds every function in memory by itself (c_src/erts/functions).
%% What memory does not tell is which of them are still in use: the VM does not
%% wipe code that was purged. Erlang therefore passes the loaded modules and the MD5 of their
%% current code.
%%
%% `memory => memfd' says that the VM maps its code twice, out of a memfd, as it
%% does by default. perf takes that for a file and does not ask the map. It does
%% once the mapping is renamed in the recording, to a name of the same length:
%%
%% ```
%% LC_ALL=C sed -i 's|/memfd:vmem (deleted)|//anon\x0\x0\x0\x0\x0\x0\x0\x0\x0\x0\x0\x0\x0\x0\x0|g'
%% perf.data
%% '''
%%
%% Nothing of the kind is needed with `memory => anonymous', on a VM started with
%% `+JMsingle true' (not in OTP 25).
%%
%% The file is for its owner's eyes only (mode 0600), new each time, and put into
%% place by rename: a link that lies there is replaced and not followed. perf
%% believes it when it belongs to root or to the user who runs perf; root needs `perf
%% report -f' for another user's. PID is what the node's own pid namespace calls
%% it, and `/tmp' is its own: perf on a container's host looks there, under that
%% name, as long as the container runs.
%%
%% `left_out' counts functions that are still in memory but whose module was
%% purged, or replaced by another of the same name. Told by the MD5 of the current
%% code: purged code whose MD5 is the same stays in the file, and while a module
%% has old code every copy of it does. No process runs any of these.
%%
%% Refused where the native engine is, and where the VM writes the file itself
%% (`+JPperf true' or `map').
-module(flame_prof_perf_map).

-export([write/0]).

-export_type([written/0, loaded/0]).

-type written() :: #{
    file := binary(),
    functions := pos_integer(),
    bytes := pos_integer(),
    left_out := non_neg_integer(),
    memory := anonymous | memfd
}.
%% `left_out': functions whose code is in memory but not loaded any more.
%% `memory': how the VM has mapped its code, see above.

-type loaded() :: {module(), Md5 :: binary(), HasOldCode :: boolean()}.
%% The MD5 is empty where there is old code alone.

%% @private
-spec write() -> {ok, written()} | {error, flame_prof:reason()}.
write() ->
    %% Where code is, and what precedes it, is known where the native engine is.
    case flame_prof_engine:choose(native) of
        {ok, _} ->
            Loaded = [loaded(M) || M <- erlang:loaded()],
            case flame_prof_looks:with(fun() -> flame_prof_looks_nif:write_perf_map(Loaded) end) of
                {ok, Written} -> {ok, Written};
                {error, {library, #{}}} = Error -> Error;
                {error, Refusal} -> {error, refused(Refusal)}
            end;
        {error, _} = Refusal ->
            Refusal
    end.

%% The VM writes the file itself: it is the file that is refused, not the engine.
refused({bad_state, Why}) -> flame_prof_error:of_library({io, Why}, file());
refused(Refusal) -> flame_prof_error:of_library(Refusal, file()).

file() -> iolist_to_binary(["/tmp/perf-", os:getpid(), ".map"]).

loaded(Module) ->
    {Module, md5(Module), erlang:check_old_code(Module)}.

%% Not Module:module_info/1, which would load a module that has just gone.
md5(Module) ->
    try
        erlang:get_module_info(Module, md5)
    catch
        error:badarg -> <<>>
    end.
