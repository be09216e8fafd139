%% @private What the C library is told of a session: one flat map, out of options
%% that have been validated.
-module(flame_prof_config).

-export([session/4, portable/2]).

%% One second of samples that all differ, of 280 bytes each, should fit: the
%% writer may be kept from its CPU or its disk for as long.
-define(SAMPLE_BYTES, 280).
-define(RING_LEAST_BYTES, 4194304).
-define(RING_MOST_BYTES, 67108864).

%% The application's own processes tell nothing about the program.
-define(OWN_NAMES, [flame_prof_sup, flame_prof_lease, flame_prof_janitor]).

%% @doc By the process that will own the session. `IsCapturing': the schedulers
%% are asked for the stacks of running processes. `Name': of the file.
-spec session(flame_prof_engine:name(), flame_prof_options:options(), boolean(), binary()) ->
    flame_prof_nif:config().
session(Engine, Options, IsCapturing, Name) ->
    #{
        basename := Basename,
        sample_interval := SampleMs,
        flush_interval := FlushMs,
        flatten_recursive := Flatten,
        auto_select := {top, Top, SelectMs},
        auto_process_opts := #{status := Status},
        mode := Mode,
        native_frames := NativeFrames
    } = Options,
    #{
        engine => Engine,
        mode => Mode,
        running_stacks => IsCapturing,
        native_frames => NativeFrames,
        schedulers_online => erlang:system_info(schedulers_online),
        directory => filename:absname(Basename),
        name => Name,
        sample_interval_us => SampleMs * 1000,
        flush_interval_ms => FlushMs,
        flatten_recursive => Flatten,
        top => Top,
        select_interval_ms => SelectMs,
        status => Status,
        exclude => own_processes(),
        ring_bytes => ring_bytes(Top, SampleMs),
        pid_number_bits => pid_number_bits()
    }.

%% @doc For the portable engine, by the owner of the session.
-spec portable(flame_prof_nif:session(), flame_prof_options:options()) ->
    flame_prof_portable:config().
portable(Ref, Options) ->
    #{
        sample_interval := SampleMs,
        auto_select := {top, Top, SelectMs},
        auto_process_opts := #{status := Status}
    } = Options,
    #{
        session => Ref,
        sample_interval_ms => SampleMs,
        top => Top,
        select_interval_ms => SelectMs,
        status => Status,
        exclude => own_processes()
    }.

own_processes() ->
    [self() | [Pid || Name <- ?OWN_NAMES, Pid <- [whereis(Name)], is_pid(Pid)]].

%% erl_term.h, _PID_NUM_SIZE: pids grew with OTP 26.
pid_number_bits() ->
    case list_to_integer(erlang:system_info(otp_release)) of
        Old when Old < 26 -> 15;
        _ -> 28
    end.

ring_bytes(Top, SampleMs) ->
    Wanted = Top * ?SAMPLE_BYTES * (1000 div SampleMs + 1),
    min(?RING_MOST_BYTES, max(?RING_LEAST_BYTES, Wanted)).
