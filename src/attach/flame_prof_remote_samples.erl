%% @private Samples a node on which the library does not run, during a look: by a remote sampler
%% there and a remote writer here, as attach does. The files are part of the answer.
-module(flame_prof_remote_samples).

-export([without/1, beside/2]).

%% A writer's file is finished within that, or its end is lost.
-define(FLUSH_MS, 5000).
%% As flame_prof_recording has it for the files of one look.
-define(BYTES_MOST, 50331648).

%% @doc For {@link flame_prof_attach:open/2}: a writer here if there can be one, below the folder of
%% temporary files. The native engine is never replaced.
-spec without(auto | native | portable) -> flame_prof_attach:without().
without(native) ->
    bare;
without(_) ->
    Folder = flame_prof_temporary:directory(),
    case {code:ensure_loaded(flame_prof_nif), flame_prof_temporary:may_write(Folder)} of
        {{module, _}, true} -> {writer, Folder};
        _ -> bare
    end.

%% @doc Adds samples to what Fun collects. Fun gets an option for {@link
%% flame_prof_doctor_evidence:collect/1}, which then takes no samples. Without a writer Fun
%% collects everything.
-spec beside(none | flame_prof_attach:agent(),
    fun((#{samples => none}) ->
        {ok, flame_prof_doctor_evidence:collected()} | {error, flame_prof:reason()})) ->
    {ok, flame_prof_doctor_evidence:collected()} | {error, flame_prof:reason()}.
beside(none, Fun) ->
    Fun(#{});
beside(Agent, Fun) ->
    case flame_prof_attach:has_writer(Agent) of
        true -> sampled(Agent, Fun);
        false -> Fun(#{})
    end.

sampled(Agent, Fun) ->
    Options = #{select => {top, 100, 2500}, sample_interval => 10, flush_interval => ?FLUSH_MS,
        flushes_per_file => 60, max_total_bytes => ?BYTES_MOST, sync => none},
    [{_, Started}] = flame_prof_attach:start_sessions([Agent], Options),
    with_samples(Fun(#{samples => none}), stopped(Started, Agent)).

stopped({ok, _}, Agent) ->
    case flame_prof_attach:stop(Agent) of
        {ok, #{files := Files}} -> read(Files);
        {error, _} = Error -> Error
    end;
stopped({error, _} = Error, _Agent) ->
    Error.

read(Files) ->
    Read = [{File, file:read_file(File)} || File <- Files],
    case [flame_prof_error:file(File, Reason) || {File, {error, Reason}} <- Read] of
        [] -> {ok, [{filename:basename(File), Bytes} || {File, {ok, Bytes}} <- Read]};
        [Reason | _] -> {error, Reason}
    end.

with_samples({ok, {Evidence, []}}, {ok, [_ | _] = Files}) ->
    {ok, {Evidence, Files}};
with_samples({ok, {#{unseen := Unseen} = Evidence, []}}, NoSamples) ->
    Why = case NoSamples of
        {ok, []} -> <<"nothing was sampled">>;
        {error, Reason} -> unicode:characters_to_binary(flame_prof_error:format(Reason))
    end,
    {ok, {Evidence#{unseen := Unseen#{samples => Why}}, []}};
with_samples({error, _} = Error, _Samples) ->
    Error.
