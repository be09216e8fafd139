%% @private The stubs of flame_prof_nif.so, the agent, and nothing else.
%%
%% What each function takes and answers is said where it is used:
%% {@link flame_prof_session} and {@link flame_prof_portable} for `session_*',
%% {@link flame_prof_schedulers} for `scheduler*', {@link flame_prof_pstack} for `snapshot/1',
%% {@link flame_prof_looks} for `value*', {@link flame_prof_calibration} for the rest.
-module(flame_prof_nif).

-export([platform/0, layout_info/0, snapshot/1, session_start/1, session_push/2]).
-export([session_flush/1, session_follow/1, session_commit/2, session_stop/1, session_close/1]).
-export([session_info/1, session_schedulers_online/2, session_pin/2, session_selected/1]).
-export([capture_probe/1, captures_off/1, schedulers_prepare/1, scheduler_register/1]).
-export([schedulers_retire_begin/0, scheduler_retire/1, schedulers_retire_end/0]).
-export([session_node_metrics/2, allocators_read/0, value/1, value_take/1, session_weights/2]).

-export_type([platform/0, session/0, config/0, item/0, mfa_text/0, pinned/0]).
-export_type([allocator_row/0, site_role/0, value_name/0]).

-export([priv_dir/0]).

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

%% The user's options have their own names and values. c_src/agent_nif/session_options.c
%% has a row for each key that the library reads.
-type config() ::
    #{
        engine := native | portable,
        %% alloc_words: no engine samples; words come by session_weights/2.
        event := cpu_clock | alloc_words,
        running_stacks := boolean(),
        messages := boolean(),
        otel := boolean(),
        directory := binary(),
        %% In the files' names, and whose files `max_files' counts; <<>>: the node has none.
        node := binary(),
        schedulers_online := pos_integer(),
        sample_interval_us := pos_integer(),
        %% Of one core; 0: no limit.
        cpu_permille := non_neg_integer(),
        %% More than 0: until session_commit/2, the samples of the last so many
        %% milliseconds are kept in memory, and nothing is written.
        lookback_ms := non_neg_integer(),
        %% For the session's samples of itself; <<>>: nothing.
        note := binary(),
        about := binary(),
        %% The interval is that of a pass; a rule takes part in every EveryPasses-th.
        rules := [
            {
                flame_prof_selection:metric(),
                IsDelta :: boolean(),
                Top :: non_neg_integer(),
                EveryPasses :: pos_integer()
            }
        ],
        growers := 0..100,
        select_interval_ms := pos_integer(),
        status := all | flame_prof:status(),
        exclude := [pid()],
        ring_bytes := pos_integer(),
        %% Of a set of C libraries, of which two exist at most.
        libraries_bytes := non_neg_integer(),
        %% For the stacks' texts; 0: 32 MiB.
        text_bytes := non_neg_integer(),
        %% Of the VM that is sampled; 0: of this one.
        os_pid := non_neg_integer(),
        %% Of a pid's data, how many are its number: what <0.Number.Serial> shows.
        pid_number_bits := 15 | 28,
        atom() => term()
    }.

%% A `chosen' one may be left out to keep within the budget.
-type pinned() :: {pid(), all | flame_prof:status(), pinned | selected}.

-type mfa_text() :: {binary(), binary(), arity()}.

-type item() ::
    {process, Slot :: 0..16383, Number :: non_neg_integer(), Serial :: non_neg_integer(),
        RegisteredName :: binary(), InitialCall :: none | mfa_text(),
        ProcLibInitialCall :: none | mfa_text(), Label :: binary()}
    | {frame, Id :: 0..65535, Module :: binary(), Function :: binary(), arity(),
        Line :: non_neg_integer(), File :: binary()}
    | {stack, Slot :: 0..8191, [Id :: -2..65535]}
    | {sample, ProcessSlot :: 0..16383, StackSlot :: 0..8191, Status :: 0..5, Values :: tuple()}
    | {tick, Missed :: non_neg_integer(), UnixTimeUs :: pos_integer(), StepUs :: integer()}
    %% Of ticks that were done, and their samples, which did not come so far.
    | {lost, Ticks :: non_neg_integer(), Missed :: non_neg_integer(), Samples :: non_neg_integer()}
    | {exited, non_neg_integer()}
    | {inconsistent, non_neg_integer()}
    | {cpu, Nanoseconds :: non_neg_integer()}
    | {selection, Processes :: non_neg_integer(), Selected :: non_neg_integer(),
        Growers :: non_neg_integer()}.

-spec platform() -> platform().
platform() -> ?NOT_LOADED.

-spec layout_info() -> term().
layout_info() -> ?NOT_LOADED.

-spec snapshot(term()) -> term().
snapshot(_) -> ?NOT_LOADED.

-spec session_start(config()) -> {ok, session()} | {error, {atom(), binary()}}.
session_start(_) -> ?NOT_LOADED.

-spec session_push(session(), [item()]) ->
    {Attempted :: non_neg_integer(), Dropped :: non_neg_integer()} | {error, closed}.
session_push(_, _) -> ?NOT_LOADED.

-spec session_flush(session()) -> Ticket :: pos_integer() | {error, closed}.
session_flush(_) -> ?NOT_LOADED.

%% For ten seconds the samples reach the file each second: a page follows it.
-spec session_follow(session()) -> ok | {error, closed}.
session_follow(_) -> ?NOT_LOADED.

%% The buffered samples and all later ones go to a file. A note has at most 511 bytes, and no zero
%% byte.
-spec session_commit(session(), Note :: binary()) -> ok | {error, closed | state}.
session_commit(_, _) -> ?NOT_LOADED.

-spec session_stop(session()) -> ok.
session_stop(_) -> ?NOT_LOADED.

-spec session_close(session()) -> ok.
session_close(_) -> ?NOT_LOADED.

-spec session_info(session()) -> #{atom() => atom() | binary() | non_neg_integer()}.
session_info(_) -> ?NOT_LOADED.

-spec session_schedulers_online(session(), pos_integer()) -> ok | {error, closed}.
session_schedulers_online(_, _) -> ?NOT_LOADED.

%% At most 1024, whatever the rules choose; all others that were wanted before are
%% wanted no more.
-spec session_pin(session(), [pinned()]) ->
    ok | {error, closed | state}.
session_pin(_, _) -> ?NOT_LOADED.

-spec session_selected(session()) -> [pid()] | {error, closed}.
session_selected(_) -> ?NOT_LOADED.

%% Spins for so many microseconds: flame_prof_capture_check.
-spec capture_probe(Microseconds :: 0..500) -> ok.
capture_probe(_) -> ?NOT_LOADED.

%% These classes and no others are off: flame_prof_capture_classes.
-spec captures_off([flame_prof_capture_check:class()]) -> ok.
captures_off(_) -> ?NOT_LOADED.

-spec schedulers_prepare(pos_integer()) ->
    {ok, Registered :: non_neg_integer()} | {error, {atom(), binary()}}.
schedulers_prepare(_) -> ?NOT_LOADED.

-spec scheduler_register(pos_integer()) -> ok | {error, {atom(), binary()}}.
scheduler_register(_) -> ?NOT_LOADED.

-spec schedulers_retire_begin() -> {ok, [pos_integer()]} | {error, {atom(), binary()}}.
schedulers_retire_begin() -> ?NOT_LOADED.

-spec scheduler_retire(pos_integer()) -> ok | {error, {atom(), binary()}}.
scheduler_retire(_) -> ?NOT_LOADED.

-spec schedulers_retire_end() -> ok | {error, {atom(), binary()}}.
schedulers_retire_end() -> ?NOT_LOADED.

%% For the sample that the session takes of itself: names of [a-z_], at most 64.
-spec session_node_metrics(session(), [{atom(), integer()}]) -> ok | {error, closed}.
session_node_metrics(_, _) -> ?NOT_LOADED.

%% Of an instance: allocator, number; of its multi-block carriers those of mseg, their bytes, those
%% of sys_alloc, their bytes, blocks, their bytes; the same of its single-block carriers; of the
%% pool carriers, bytes, blocks, bytes; calls that took carriers, and that gave one back; bytes of
%% the largest free block, or `none'. c_src/erts/allocators.h.
-type allocator_row() :: tuple().

%% HasPool: instances give carriers to the pool. Fix: bytes of fixed sizes that belong to processes.
%% Super: size and used bytes of the super carrier.
-spec allocators_read() ->
    undefined
    | {Rows :: [allocator_row()], HasPool :: boolean(), Fix :: none | non_neg_integer(),
        Super :: none | {non_neg_integer(), non_neg_integer()}}
    | {error, atom()}.
allocators_read() -> ?NOT_LOADED.

%% c_src/erts/sites.h.
-type site_role() ::
    call | request | loop | timer | start | port | socket | lock | message | serves | cast
    | event | queue | from | module | read | only | some.

-type value_name() :: layout | allocators | sites.

%% This library's knowledge of the VM as a value, for the library of looks. `undefined': nothing, or
%% of the sites: the code at one of them has changed.
-spec value(value_name()) -> binary() | undefined.
value(_) -> ?NOT_LOADED.

%% From now on it knows that. `full': the sites have changed too often.
-spec value_take(binary()) -> ok | {error, atom()}.
value_take(_) -> ?NOT_LOADED.

%% Samples of words, as `move' of a tracing of kind allocations answers them: how many bytes were
%% taken. The others come again, once the writer has made room.
-spec session_weights(session(), binary()) -> {ok, non_neg_integer()} | {error, closed}.
session_weights(_, _) -> ?NOT_LOADED.

load() ->
    case application:get_env(flame_prof_attached, library) of
        {ok, Folder} -> load_lent(filename:join(Folder, ?MODULE_STRING));
        undefined -> load_own(filename:join(priv_dir(), ?MODULE_STRING))
    end.

%% The code server writes why to the node's log; flame_prof_engine has it for the caller, too.
load_own(Path) ->
    case erlang:load_nif(Path, 0) of
        ok ->
            ok;
        {error, {_, Text}} = Error ->
            ok = keep_failure(unicode:characters_to_binary(Text)),
            Error
    end.

%% At the start of an embedded system there may be no environment yet.
keep_failure(Text) ->
    try application:set_env(?MODULE, failure, Text)
    catch
        exit:_ -> ok
    end.

%% See flame_prof_agent, which takes this module away again: of an error the code server
%% would write to the node's log only.
load_lent(Path) ->
    case erlang:load_nif(Path, 0) of
        ok -> ok;
        {error, Reason} -> application:set_env(flame_prof_attached, failure, Reason)
    end.

%% @doc Beside the beam file when the application is run from a plain build folder,
%% which the code server knows under no application's name.
-spec priv_dir() -> file:filename().
priv_dir() ->
    case code:priv_dir(flame_prof) of
        {error, bad_name} ->
            Ebin = filename:dirname(code:which(?MODULE)),
            filename:join([Ebin, "..", "priv"]);
        Directory ->
            Directory
    end.
