%% @private The session of {@link flame_prof_blame}: samples all schedulers of this node, and leaves
%% no file.
-module(flame_prof_blame_session).

-export([with/2, record/1]).

-export_type([about/0]).

-type about() :: #{
    elapsed_ms := pos_integer(),
    interval_ms := pos_integer(),
    inconsistent := non_neg_integer()
}.

%% A second, of all schedulers.
-define(SAMPLES_MOST, 4000).
%% Interval of the checks for schedulers that went online or offline: there is no event for it.
-define(SCHEDULERS_MS, 1000).
%% The longest wait for the last samples to be written.
-define(CLOSE_MS, 30000).
%% Of all files: they are one message.
-define(BYTES_MOST, 67108864).

%% @doc Samples for so many milliseconds, and calls Fun with the files. They are deleted afterwards.
-spec with(pos_integer(), fun(([file:filename()], about()) -> Answer)) ->
    Answer | {error, flame_prof:reason()}.
with(Ms, Fun) ->
    case flame_prof_shortage:check(sampling) of
        ok -> capture(Ms, Fun);
        {error, _} = Shortage -> Shortage
    end.

%% @doc The same; the files are in the answer. For a call from another node.
-spec record(pos_integer()) ->
    {ok, {[flame_prof_recording:file()], about()}} | {error, flame_prof:reason()}.
record(Ms) ->
    with(Ms, fun(Files, About) ->
        case lists:sum([filelib:file_size(File, prim_file) || File <- Files]) of
            Bytes when Bytes > ?BYTES_MOST ->
                {error, flame_prof_error:file(hd(Files), <<"it has too many samples">>)};
            _ ->
                {ok, {[{name(File), content(File)} || File <- Files], About}}
        end
    end).

name(File) -> unicode:characters_to_binary(filename:basename(File)).

content(File) ->
    {ok, Bytes} = prim_file:read_file(File),
    Bytes.

capture(Ms, Fun) ->
    case flame_prof_engine:capture() of
        {ok, Known} ->
            flame_prof_temporary:in_folder(fun(Directory, CallerMonitor) ->
                session(Directory, CallerMonitor, Ms, Known, Fun)
            end);
        {error, _} = Refusal ->
            Refusal
    end.

session(Directory, Monitor, Ms, Known, Fun) ->
    IntervalMs = interval_ms(erlang:system_info(schedulers_online)),
    {ok, Options} = flame_prof_options:validate(#{
        dir => Directory,
        mode => schedulers,
        %% Its length is bounded, and so is its rate.
        cpu_budget => infinity,
        max_total_bytes => infinity,
        sample_interval => IntervalMs,
        flush_interval => 10 * Ms + ?CLOSE_MS
    }),
    Config = flame_prof_config:session(native, Options, true, []),
    case flame_prof_nif:session_start(Config) of
        {ok, Ref} ->
            Started = now_ms(),
            Outcome = wait(Ref, Monitor, Started + Ms, Known),
            Elapsed = max(1, now_ms() - Started),
            About = #{elapsed_ms => Elapsed, interval_ms => IntervalMs},
            sampled(stop(Ref, Outcome), Directory, About, Fun);
        {error, Refusal} ->
            {error, flame_prof_error:of_library(Refusal, Directory)}
    end.

sampled({ok, #{inconsistent := Inconsistent}}, Directory, About, Fun) ->
    {ok, Names} = file:list_dir(Directory),
    Files = [filename:join(Directory, Name) || Name <- lists:sort(Names)],
    Fun(Files, About#{inconsistent => Inconsistent});
sampled({error, _} = Error, _Directory, _About, _Fun) ->
    Error.

interval_ms(Schedulers) ->
    max(1, (1000 * Schedulers + ?SAMPLES_MOST - 1) div ?SAMPLES_MOST).

now_ms() ->
    erlang:monotonic_time(millisecond).

wait(Ref, Monitor, Until, Known) ->
    Left = max(0, Until - now_ms()),
    receive
        {'DOWN', Monitor, process, _, _} -> caller_ended;
        {flame_prof_nif, Ref, {stopped, Result}} -> {stopped, Result}
    after min(Left, ?SCHEDULERS_MS) ->
        case Left =< ?SCHEDULERS_MS of
            true -> due;
            false -> wait(Ref, Monitor, Until, refreshed(Ref, Known))
        end
    end.

refreshed(Ref, Known) ->
    Online = erlang:system_info(schedulers_online),
    _ = flame_prof_nif:session_schedulers_online(Ref, Online),
    flame_prof_schedulers:refresh(Known).

stop(Ref, {stopped, Result}) ->
    stopped(Ref, Result);
stop(Ref, Outcome) ->
    ok = flame_prof_nif:session_stop(Ref),
    receive
        {flame_prof_nif, Ref, {stopped, _}} when Outcome =:= caller_ended -> exit(normal);
        {flame_prof_nif, Ref, {stopped, Result}} -> stopped(Ref, Result)
    after ?CLOSE_MS ->
        %% The library goes on alone, and cleans up when the disk answers.
        Text = <<"the disk did not take the samples in time">>,
        {error, flame_prof_error:file(flame_prof_temporary:directory(), Text)}
    end.

stopped(Ref, Result) ->
    Info = flame_prof_nif:session_info(Ref),
    ok = flame_prof_nif:session_close(Ref),
    case Result of
        ok -> {ok, Info};
        {error, Refusal} ->
            {error, flame_prof_error:of_library(Refusal, flame_prof_temporary:directory())}
    end.
