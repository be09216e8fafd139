%% @private The stubs of flame_prof_looks_nif.so, the library of looks and of tracing, and nothing
%% else. {@link flame_prof_looks} loads it for who uses it.
%%
%% What each function takes and answers is said where it is used: {@link flame_prof_calibration} for
%% `calibration_*', {@link flame_prof_top_sampler} for `selector_*', {@link flame_prof_mailbox} for
%% `mailbox_*', {@link flame_prof_perf_map} for `write_perf_map', {@link flame_prof_allocators} for
%% `allocators_solve/3', {@link flame_prof_tables_layout} and {@link flame_prof_tables} for
%% `tables_*', {@link flame_prof_memory} for `memory_rss/0', {@link flame_prof_tracing} for
%% `tracer_*'.
-module(flame_prof_looks_nif).

-export([calibration_open/0, calibration_probe/1, calibration_solve/2]).
-export([write_perf_map/1, sends_open/1, sends_seen/1, sends_end/1, enabled/3, enabled_call/3]).
-export([enabled_garbage_collection/3, trace/5, tracer_open/3, tracer_heartbeat/2, tracer_end/1]).
-export([tracer_counters/1, tracer_due/1, tracer_read/2, tracer_close/1, selector_new/4]).
-export([selector_next/2, mailbox_open/2, mailbox_next/2, allocators_solve/3]).
-export([memory_rss/0, tables_probe/0, tables_solve/3, tables_read/0, tables_objects/1]).
-export([xray_open/2, xray_next/2, binaries_look/2, stack_terms/1, monitor_terms/1]).
-export([monitor_counts/1, wait_sites_learn/2, waits_look/1, waits_served/1]).
-export([wait_sites_value/2, wait_sites/0, value/1, value_take/1]).
-export([load/0, is_loaded/0]).

-export_type([tracer_state/0, allocator_fact/0, fix_facts/0]).
-export_type([table_fact/0, table_figures/0]).
-export_type([view/0, wait/0, wait_tag/0, ref_numbers/0]).

-define(NOT_LOADED, erlang:nif_error({not_loaded, ?MODULE})).

-spec calibration_open() -> term().
calibration_open() -> ?NOT_LOADED.

-spec calibration_probe(term()) -> term().
calibration_probe(_) -> ?NOT_LOADED.

-spec calibration_solve(term(), term()) -> term().
calibration_solve(_, _) -> ?NOT_LOADED.

-spec write_perf_map([flame_prof_perf_map:loaded()]) ->
    {ok, flame_prof_perf_map:written()} | {error, {atom(), binary()}}.
write_perf_map(_) -> ?NOT_LOADED.

%% The state of a tracer {flame_prof_looks_nif, State} for the flag `send'. The caller
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

-spec tracer_counters(tracer_state()) ->
    #{broken_invariant => binary(), atom() => non_neg_integer()}.
tracer_counters(_) -> ?NOT_LOADED.

%% Processes whose flags are to be set before the next call.
-spec tracer_due(tracer_state()) -> [pid()].
tracer_due(_) -> ?NOT_LOADED.

-spec tracer_read(tracer_state(), term()) -> term() | {error, bad_state}.
tracer_read(_, _) -> ?NOT_LOADED.

-spec tracer_close(tracer_state()) -> ok | {error, bad_state}.
tracer_close(_) -> ?NOT_LOADED.

-spec selector_new(Metric :: atom(), IsDelta :: boolean(), Top :: non_neg_integer(),
    Growers :: 0..100) -> {ok, reference()} | {error, atom()}.
selector_new(_, _, _, _) -> ?NOT_LOADED.

-spec selector_next(reference(), Slots :: pos_integer()) ->
    more | {Processes :: non_neg_integer(), [{pid(), Score :: integer()}]}.
selector_next(_, _) -> ?NOT_LOADED.

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

%% Resident bytes by kind of memory; without `carriers' these are in `malloc' and `other'.
-spec memory_rss() -> #{atom() => non_neg_integer()} | {error, atom() | {atom(), binary()}}.
memory_rss() -> ?NOT_LOADED.

%% The scheduler that runs this is where the tables of the next tables_solve/3 were made. `known':
%% the layout is.
-spec tables_probe() -> ok | known | {error, atom() | {atom(), binary()}}.
tables_probe() -> ?NOT_LOADED.

%% Erlang's data of a table: c_src/looks_nif/tables_nif.c.
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

%% The kind of a term: identifiers and shapes, no values.
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

%% The sites as a value, for both libraries. The mark, of 64 bits, is kept beside them.
-spec wait_sites_value(
    [{Address :: integer(), flame_prof_nif:site_role(), Slot :: non_neg_integer()}],
    Mark :: non_neg_integer()
) -> {ok, binary()} | {error, term()}.
wait_sites_value(_, _) -> ?NOT_LOADED.

%% The same for looks alone: samples keep the sites that they have.
-spec wait_sites_learn(
    [{Address :: integer(), flame_prof_nif:site_role(), Slot :: non_neg_integer()}],
    Mark :: non_neg_integer()
) -> ok | {error, term()}.
wait_sites_learn(_, _) -> ?NOT_LOADED.

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

%% IsValid: the code there is what it was; AreValid: at all of them.
-spec wait_sites() ->
    {Mark :: non_neg_integer(), AreValid :: boolean(), [
        {mfa() | none, [{flame_prof_nif:site_role(), Slot :: non_neg_integer()}],
            Address :: integer(), IsValid :: boolean()}
    ]}
    | none.
wait_sites() -> ?NOT_LOADED.

%% As the agent's functions of these names.
-spec value(flame_prof_nif:value_name()) -> binary() | undefined.
value(_) -> ?NOT_LOADED.

-spec value_take(binary()) -> ok | {error, atom()}.
value_take(_) -> ?NOT_LOADED.

%% @doc Not when the module is loaded, as an embedded system loads all modules at its start.
-spec load() -> ok | {error, {atom(), string()}}.
load() ->
    case application:get_env(flame_prof_attached, library) of
        {ok, Folder} -> erlang:load_nif(filename:join(Folder, ?MODULE_STRING), 0);
        undefined -> erlang:load_nif(filename:join(flame_prof_nif:priv_dir(), ?MODULE_STRING), 0)
    end.

%% @doc True; an error where the module is loaded and the library is not.
-spec is_loaded() -> true.
is_loaded() -> ?NOT_LOADED.
