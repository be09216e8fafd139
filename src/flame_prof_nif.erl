%% @private The stubs of the C library, and nothing else.
%%
%% What each function takes and answers is said where it is used:
%% {@link flame_prof_session} and {@link flame_prof_portable} for `session_*',
%% {@link flame_prof_calibration} for the rest.
-module(flame_prof_nif).

-export([platform/0]).
-export([calibration_open/0, calibration_probe/1, calibration_solve/2]).
-export([layout_info/0, snapshot/1, select_top/2]).
-export([session_start/1, session_push/2, session_flush/1]).
-export([session_stop/1, session_close/1, session_info/1]).
-export([session_figures/2]).
-export([unzst_open/0, unzst_read/3]).

-export_type([platform/0, session/0, config/0, item/0, mfa_text/0]).

-on_load(load/0).

-define(NOT_LOADED, erlang:nif_error({not_loaded, ?MODULE})).

-type session() :: reference().

-type platform() ::
    #{
        native := boolean(),
        why := binary(),
        arch := binary(),
        libuv := binary(),
        zstd := binary()
    }.

-type config() ::
    #{
        engine := native | portable,
        directory := binary(),
        compress := boolean(),
        sync := none | flush | close,
        %% 0: without limit.
        flush_close_max := non_neg_integer(),
        files_max := non_neg_integer(),
        file_max_bytes := non_neg_integer(),
        total_max_bytes := non_neg_integer(),
        sample_interval_us := pos_integer(),
        flush_interval_ms := pos_integer(),
        flatten_recursive := boolean(),
        merge_idle := boolean(),
        top := non_neg_integer(),
        select_interval_ms := pos_integer(),
        status := all | flame_prof:status(),
        exclude := [pid()],
        ring_bytes := pos_integer(),
        %% For the stacks' texts; 0: 32 MiB.
        text_bytes := non_neg_integer(),
        %% Of a pid's data, how many are its number: what <0.Number.Serial> shows.
        pid_number_bits := 15 | 28
    }.

-type mfa_text() :: {binary(), binary(), arity()}.

-type item() ::
    {process, Slot :: 0..16383, Number :: non_neg_integer(), Serial :: non_neg_integer(),
        RegisteredName :: binary(), InitialCall :: none | mfa_text(),
        ProcLibInitialCall :: none | mfa_text()}
    | {frame, Id :: 0..65535, Module :: binary(), Function :: binary(), arity(),
        Line :: non_neg_integer(), File :: binary()}
    | {stack, Slot :: 0..8191, [Id :: -2..65535]}
    | {sample, ProcessSlot :: 0..16383, StackSlot :: 0..8191, Status :: 0..5, Values :: tuple()}
    | {tick, Missed :: non_neg_integer()}
    | {gone, non_neg_integer()}
    | {torn, non_neg_integer()}
    | {cpu, Nanoseconds :: non_neg_integer()}
    | {selection, Processes :: non_neg_integer(), Selected :: non_neg_integer()}.

-spec platform() -> platform().
platform() -> ?NOT_LOADED.

-spec calibration_open() -> term().
calibration_open() -> ?NOT_LOADED.

-spec calibration_probe(term()) -> term().
calibration_probe(_) -> ?NOT_LOADED.

-spec calibration_solve(term(), term()) -> term().
calibration_solve(_, _) -> ?NOT_LOADED.

-spec layout_info() -> term().
layout_info() -> ?NOT_LOADED.

-spec snapshot(term()) -> term().
snapshot(_) -> ?NOT_LOADED.

-spec select_top(term(), term()) -> term().
select_top(_, _) -> ?NOT_LOADED.

-spec session_start(config()) -> {ok, session()} | {error, {atom(), binary()}}.
session_start(_) -> ?NOT_LOADED.

-spec session_push(session(), [item()]) ->
    {Taken :: non_neg_integer(), Dropped :: non_neg_integer()} | {error, closed}.
session_push(_, _) -> ?NOT_LOADED.

-spec session_flush(session()) -> Ticket :: pos_integer() | {error, closed}.
session_flush(_) -> ?NOT_LOADED.

-spec session_stop(session()) -> ok.
session_stop(_) -> ?NOT_LOADED.

-spec session_close(session()) -> ok.
session_close(_) -> ?NOT_LOADED.

-spec session_info(session()) -> #{atom() => atom() | binary() | non_neg_integer()}.
session_info(_) -> ?NOT_LOADED.

%% For the sample that the session takes of itself: names of [a-z_], at most 64.
-spec session_figures(session(), [{atom(), integer()}]) -> ok | {error, closed}.
session_figures(_, _) -> ?NOT_LOADED.

%% A decompressor of zstd frames, one after the other.
-spec unzst_open() -> reference().
unzst_open() -> ?NOT_LOADED.

%% Reads on in Input, from a place in it: at most 256 KiB of text, and the place
%% to go on at, which is the end of Input when it needs more of it. `is_between'
%% says that no frame is open there. After an error it is as if newly opened.
-spec unzst_read(reference(), Input :: binary(), From :: non_neg_integer()) ->
    {ok, Text :: binary(), Next :: non_neg_integer(), IsBetween :: boolean()}
    | {error, Why :: binary()}.
unzst_read(_, _, _) -> ?NOT_LOADED.

load() ->
    erlang:load_nif(filename:join(priv_dir(), ?MODULE_STRING), 0).

%% Beside the beam file when the application is run from a plain build folder,
%% which the code server knows under no application's name.
priv_dir() ->
    case code:priv_dir(flame_prof) of
        {error, bad_name} ->
            Ebin = filename:dirname(code:which(?MODULE)),
            filename:join([Ebin, "..", "priv"]);
        Directory ->
            Directory
    end.
