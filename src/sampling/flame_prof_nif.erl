%% @private The stubs of flame_prof_nif.so, the agent, and nothing else.
%%
%% What each function takes and answers is said where it is used:
%% {@link flame_prof_session} and {@link flame_prof_portable} for `session_*',
%% {@link flame_prof_schedulers} for `scheduler*', {@link flame_prof_top_sampler} for
%% `selector_*', {@link flame_prof_mailbox} for `mailbox_*', {@link flame_prof_pstack} for
%% `snapshot/1', {@link flame_prof_perf_map} for `write_perf_map',
%% {@link flame_prof_allocators} for `allocators_*', {@link flame_prof_tables_layout} and
%% {@link flame_prof_tables} for `tables_*', {@link flame_prof_memory} for `memory_rss/0',
%% {@link flame_prof_tracing} for `tracer_*', {@link flame_prof_calibration} for the rest.
-module(flame_prof_nif).

-export([platform/0]).
-export([calibration_open/0, calibration_probe/1, calibration_solve/2]).
-export([layout_info/0, snapshot/1]).
-export([term_view/2]).
-export([write_perf_map/1]).
-export([session_start/1, session_push/2, session_flush/1, session_follow/1, session_commit/2]).
-export([session_stop/1, session_close/1, session_info/1]).
-export([session_schedulers_online/2]).
-export([session_pin/2, session_selected/1]).
-export([sends_open/1, sends_seen/1, sends_end/1]).
%% As a tracer of the VM: erl_tracer.
-export([enabled/3, enabled_call/3, enabled_garbage_collection/3, trace/5]).
-export([tracer_open/3, tracer_heartbeat/2, tracer_end/1, tracer_counters/1]).
-export([tracer_read/2, tracer_due/1, tracer_close/1]).
-export([capture_probe/1, captures_off/1]).
-export([schedulers_prepare/1, scheduler_register/1]).
-export([schedulers_retire_begin/0, scheduler_retire/1, schedulers_retire_end/0]).
-export([selector_new/4, selector_next/2]).
-export([session_node_metrics/2]).
-export([mailbox_open/2, mailbox_next/2]).
-export([xray_open/2, xray_next/2, binaries_look/2]).
-export([stack_terms/1, monitor_terms/1, monitor_counts/1]).
-export([wait_sites_set/2, wait_sites_learn/2, wait_sites/0]).
-export([waits_look/1, waits_served/1]).
-export([trace_term/2]).
-export([allocators_solve/3, allocators_read/0, allocators_sums/0, memory_rss/0]).
-export([tables_probe/0, tables_solve/3, tables_read/0, tables_objects/1]).

-export_type([platform/0, session/0, config/0, item/0, mfa_text/0]).
-export_type([pinned/0, tracer_state/0]).
-export_type([allocator_fact/0, allocator_figures/0, allocator_sums/0, fix_facts/0]).
-export_type([table_fact/0, table_figures/0]).
-export_type([view/0, wait/0, wait_tag/0, ref_numbers/0, site_role/0]).

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
        %% alloc_words: no engine samples; a tracing of kind allocations is read with
        %% {move, Session}.
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
        hold_ms := non_neg_integer(),
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

%% What the library's walker sees of a term: for tests. c_src/agent_nif/term_nif.h has the
%% shapes. As a message: its kind, tag, who waits for the answer, the call's reference, and how
%% many reads of memory it has cost. As
%% OpenTelemetry's context: the ids of its current span.
-spec term_view(term(), Depth :: 0..4) -> term();
    (term(), message) ->
        {atom(), Tag :: {atom, atom()} | {tuple, atom(), arity()} | other | unknown,
            pid() | none, {non_neg_integer(), non_neg_integer(), non_neg_integer()} | none,
            Reads :: non_neg_integer()}
        | {error, bad_state};
    (term(), otel) -> {Trace :: <<_:128>>, Span :: <<_:64>>} | none | {error, bad_state}.
term_view(_, _) -> ?NOT_LOADED.

-spec write_perf_map([flame_prof_perf_map:loaded()]) ->
    {ok, flame_prof_perf_map:written()} | {error, {atom(), binary()}}.
write_perf_map(_) -> ?NOT_LOADED.

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

%% What is held goes to a file, and all that comes from now on. A note has at most
%% 511 bytes, and no zero byte.
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

%% The state of a tracer {flame_prof_nif, State} for the flag `send'. The caller
%% gets {flame_prof_sends, Sender, Receiver} and at the end, when there were that
%% many events, {flame_prof_sends, over, Events}.
-spec sends_open(MaxEvents :: non_neg_integer()) -> reference().
sends_open(_) -> ?NOT_LOADED.

-spec sends_seen(reference()) -> non_neg_integer().
sends_seen(_) -> ?NOT_LOADED.

-spec sends_end(reference()) -> ok.
sends_end(_) -> ?NOT_LOADED.

%% The state is a reference of sends_open/1, or an integer of tracer_open/3.
-spec enabled(atom(), reference() | tracer_state(), pid()) -> trace | discard | remove.
enabled(_, _, _) -> ?NOT_LOADED.

-spec enabled_call(atom(), reference() | tracer_state(), pid()) -> trace | discard.
enabled_call(_, _, _) -> ?NOT_LOADED.

-spec enabled_garbage_collection(atom(), reference() | tracer_state(), pid()) ->
    trace | discard.
enabled_garbage_collection(_, _, _) -> ?NOT_LOADED.

-spec trace(atom(), reference() | tracer_state(), pid(), term(), map()) -> ok.
trace(_, _, _, _, _) -> ?NOT_LOADED.

%% c_src/tracer/tracer.h: the generation and, in the lowest 16 bits, the index of a pattern.
-type tracer_state() :: non_neg_integer().

-spec tracer_open(Kind :: atom(), Limits :: #{atom() => non_neg_integer()}, Config :: term()) ->
    {ok, tracer_state()} | {error, busy | atom() | {atom(), binary()}}.
tracer_open(_, _, _) -> ?NOT_LOADED.

%% How much of what may be spent at once is spent, while it runs; else what ended it.
-spec tracer_heartbeat(tracer_state(), pos_integer()) -> 0..255 | atom().
tracer_heartbeat(_, _) -> ?NOT_LOADED.

-spec tracer_end(tracer_state()) -> ok.
tracer_end(_) -> ?NOT_LOADED.

-spec tracer_counters(tracer_state()) -> #{atom() => non_neg_integer()}.
tracer_counters(_) -> ?NOT_LOADED.

%% What is to be done before the next call: processes whose flags are to be set; `new_processes':
%% these shall have them from then on, or not, and the next call follows at once; `look': that is to
%% be read. And when the next call is due; 0: as usual.
-spec tracer_due(tracer_state()) ->
    {[pid()] | {new_processes, boolean()} | look, Ms :: non_neg_integer()}.
tracer_due(_) -> ?NOT_LOADED.

-spec tracer_read(tracer_state(), term()) -> term() | {error, bad_state}.
tracer_read(_, _) -> ?NOT_LOADED.

-spec tracer_close(tracer_state()) -> ok | {error, bad_state}.
tracer_close(_) -> ?NOT_LOADED.

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

-spec selector_new(Metric :: atom(), IsDelta :: boolean(), Top :: non_neg_integer(),
    Growers :: 0..100) -> {ok, reference()} | {error, atom()}.
selector_new(_, _, _, _) -> ?NOT_LOADED.

-spec selector_next(reference(), Slots :: pos_integer()) ->
    more | {Processes :: non_neg_integer(), [{pid(), Score :: integer()}]}.
selector_next(_, _) -> ?NOT_LOADED.

%% For the sample that the session takes of itself: names of [a-z_], at most 64.
-spec session_node_metrics(session(), [{atom(), integer()}]) -> ok | {error, closed}.
session_node_metrics(_, _) -> ?NOT_LOADED.

-spec mailbox_open(pid(), Limits :: #{atom() => non_neg_integer()}) ->
    {ok, reference()} | {error, atom() | {atom(), binary()}}.
mailbox_open(_, _) -> ?NOT_LOADED.

-spec mailbox_next(reference(), Nodes :: pos_integer()) -> more | map().
mailbox_next(_, _) -> ?NOT_LOADED.

%% What `system_info({allocator, A})' says of an instance, as words: c_src/erts/allocators.h.
-type allocator_fact() ::
    {atom(), Instance :: non_neg_integer(), Statistics :: [non_neg_integer()],
        Pool :: [non_neg_integer()] | none, HasTree :: boolean()}.

%% Bytes of each fixed size, by instance; the bits are of the sizes that belong to processes.
-type fix_facts() ::
    none | {Bits :: non_neg_integer(), [{Instance :: non_neg_integer(), [non_neg_integer()]}]}.

-spec allocators_solve(
    [allocator_fact()], fix_facts(), Super :: none | [non_neg_integer()]
) -> ok | {error, {atom(), binary()}}.
allocators_solve(_, _, _) -> ?NOT_LOADED.

%% The carriers of mseg, their bytes; those of sys_alloc, their bytes; blocks, their bytes.
-type carriers_figures() :: {
    non_neg_integer(), non_neg_integer(), non_neg_integer(), non_neg_integer(),
    non_neg_integer(), non_neg_integer()
}.
%% Of multi-block carriers, of single-block carriers; of the pool: carriers, bytes, blocks, bytes.
-type allocator_figures() :: {
    atom(), Instance :: non_neg_integer(), carriers_figures(), carriers_figures(),
    none | {non_neg_integer(), non_neg_integer(), non_neg_integer(), non_neg_integer()},
    LargestFree :: none | non_neg_integer()
}.

%% `undefined': not solved yet.
-spec allocators_read() -> undefined | [allocator_figures()] | {error, atom()}.
allocators_read() -> ?NOT_LOADED.

%% Bytes of all instances: carriers, blocks, single-block carriers, those in the pool, the largest
%% free block; carriers from mseg and from malloc, those in the pool left out; blocks in
%% single-block carriers.
-type allocator_sums() :: {
    atom(), non_neg_integer(), non_neg_integer(), non_neg_integer(), non_neg_integer(),
    none | non_neg_integer(), non_neg_integer(), non_neg_integer(), non_neg_integer()
}.

%% Calls that took carriers and gave them back; bytes of fixed sizes that belong to processes; size
%% and used bytes of the super carrier.
-spec allocators_sums() ->
    undefined
    | {[allocator_sums()], Taken :: non_neg_integer(), GivenBack :: non_neg_integer(),
        Fix :: none | non_neg_integer(),
        Super :: none | {non_neg_integer(), non_neg_integer()}}
    | {error, atom()}.
allocators_sums() -> ?NOT_LOADED.

%% Resident bytes by kind of memory; without `carriers' these are in `malloc' and `other'.
-spec memory_rss() -> #{atom() => non_neg_integer()} | {error, atom() | {atom(), binary()}}.
memory_rss() -> ?NOT_LOADED.

%% The scheduler that runs this is where the tables of the next tables_solve/3 were made. `known':
%% the layout is.
-spec tables_probe() -> ok | known | {error, atom() | {atom(), binary()}}.
tables_probe() -> ?NOT_LOADED.

%% What Erlang says of a table: c_src/agent_nif/tables_nif.c.
-type table_fact() :: {
    reference(), ref_numbers(), Owner :: pid(), Heir :: pid() | none, Name :: atom(),
    Keypos :: pos_integer(), Status :: non_neg_integer(), Objects :: non_neg_integer(),
    Words :: pos_integer(), Decentralized :: boolean(), Compressed :: boolean()
}.

-spec tables_solve([table_fact()], ArrayBytes :: pos_integer(), Schedulers :: pos_integer()) ->
    ok | {error, {atom(), binary()}}.
tables_solve(_, _, _) -> ?NOT_LOADED.

%% Objects and bytes: -1 where a snapshot was under way. Flags: 1 decentralized, 2 compressed.
-type table_figures() :: {
    ref_numbers(), Name :: atom(), Owner :: pid(), Status :: non_neg_integer(),
    Keypos :: pos_integer(), Objects :: integer(), Bytes :: integer(), Flags :: 0..3
}.

%% With the number of schedulers whose list is incomplete, and of tables that were left out.
-spec tables_read() ->
    undefined
    | {[table_figures()], Incomplete :: non_neg_integer(), LeftOut :: non_neg_integer()}
    | {error, atom() | {atom(), binary()}}.
tables_read() -> ?NOT_LOADED.

%% What Erlang has put into a table: buckets in use or the kind of an ordered_set, objects,
%% binaries.
-type objects_fact() :: {
    reference(), pos_integer() | tree | concurrent_tree, Objects :: non_neg_integer(), [binary()]
}.

%% After tables_solve/3. `ok' is the answer to any facts where it is known.
-spec tables_objects([objects_fact()]) -> ok | {error, {atom(), binary()}}.
tables_objects(_) -> ?NOT_LOADED.

-spec xray_open(pid(), Limits :: #{kilobytes := pos_integer(), time_ms := pos_integer()}) ->
    {ok, reference()} | {error, atom() | {atom(), binary()}}.
xray_open(_, _) -> ?NOT_LOADED.

-spec xray_next(reference(), Objects :: pos_integer()) -> more | map().
xray_next(_, _) -> ?NOT_LOADED.

-spec binaries_look([pid()] | all, Limits :: #{atom() => pos_integer()}) ->
    {ok, map()} | {error, atom() | {atom(), binary()}}.
binaries_look(_, _) -> ?NOT_LOADED.

%% N0, N1, N2 of #Ref<0.N2.N1.N0>.
-type ref_numbers() :: {non_neg_integer(), non_neg_integer(), non_neg_integer()}.

%% What a term is: identifiers and shapes, no values.
-type view() ::
    {atom, atom()}
    | {pid, pid()}
    | {port, port()}
    | {ref, ref_numbers()}
    | {tuple, Arity :: non_neg_integer(), [view()]}
    | {list, Head :: view(), Tail :: view()}
    | list
    | nil
    | other
    | unreadable.

%% c_src/waits/sites.h.
-type site_role() ::
    call | request | loop | timer | start | port | socket | lock | message | serves | cast
    | event | queue | from | module | read | only | some.

-type wait_tag() :: {atom, atom()} | {tuple, atom(), non_neg_integer()} | other | unknown.

%% c_src/waits/waits.h. `monitor' is no proof: a receive written by hand whose frame
%% holds one live monitor may take other messages, too.
-type wait() :: {
    pid(),
    How :: call | monitor | monitor_only | named | start | port | socket | timer | lock | unknown,
    Target :: pid()
    | port()
    | {remote, node(), Number :: integer(), Serial :: integer(), Creation :: integer()}
    | {Name :: atom(), node()}
    | atom(),
    Ref :: ref_numbers() | none,
    wait_tag(),
    Site :: mfa() | none,
    Address :: integer()
}.

%% The frames of waiting processes, leaf first: address, function, slots.
-spec stack_terms([pid()]) ->
    {ok, [{pid(), {ok, [{integer(), mfa() | none, [view()]}]} | {error, gone | torn}}]}
    | {error, term()}.
stack_terms(_) -> ?NOT_LOADED.

%% The monitor tree of a waiting process. IsOrigin: it monitors, and is not what another
%% node's process monitors.
-spec monitor_terms(pid()) ->
    {ok, [{ref_numbers(), Type :: atom(), IsOrigin :: boolean(), view(), Name :: atom()}]}
    | {error, term()}.
monitor_terms(_) -> ?NOT_LOADED.

%% About how many monitors those processes have that wait and have 256 or more. Not known: those
%% that moved, and those that were left when 300,000 monitors had been counted.
-spec monitor_counts([pid()]) ->
    {ok, [{pid(), pos_integer()}], Moved :: [pid()], Left :: [pid()]} | {error, term()}.
monitor_counts(_) -> ?NOT_LOADED.

%% The mark, of 64 bits, is kept beside them.
-spec wait_sites_set(
    [{Address :: integer(), site_role(), Slot :: non_neg_integer()}], Mark :: non_neg_integer()
) -> ok | {error, term()}.
wait_sites_set(_, _) -> ?NOT_LOADED.

%% The same for looks alone: samples keep the sites that they have.
-spec wait_sites_learn(
    [{Address :: integer(), site_role(), Slot :: non_neg_integer()}], Mark :: non_neg_integer()
) -> ok | {error, term()}.
wait_sites_learn(_, _) -> ?NOT_LOADED.

%% IsValid: the code there is what it was; AreValid: at all of them.
-spec wait_sites() ->
    {Mark :: non_neg_integer(), AreValid :: boolean(), [
        {mfa() | none, [{site_role(), Slot :: non_neg_integer()}], Address :: integer(),
            IsValid :: boolean()}
    ]}
    | none.
wait_sites() -> ?NOT_LOADED.

%% All processes once; without those. `bad_state': no calibration, or no sites were set.
-spec waits_look([pid()]) ->
    {ok, [wait()], #{atom() => non_neg_integer()}} | {error, term()}.
waits_look(_) -> ?NOT_LOADED.

%% What these have in work, as far as they are servers that are not on CPU.
-spec waits_served([pid()]) ->
    {ok, [
        {pid(), Kind :: atom(), wait_tag(), ref_numbers() | none, From :: pid() | none,
            CallbackModule :: atom()}
    ]}
    | {error, term()}.
waits_served(_) -> ?NOT_LOADED.

%% A term as a readable trace shows it: c_src/terms/term_copy.h says what is left out, and how.
-spec trace_term(term(), #{depth | bytes | items => non_neg_integer()}) -> term().
trace_term(_, _) -> ?NOT_LOADED.

load() ->
    case application:get_env(flame_prof_attached, library) of
        {ok, Path} -> load_lent(Path);
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
