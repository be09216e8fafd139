%% @private The stubs of flame_prof_report_nif.so, which reads profile files back, and
%% nothing else. A profiled node does not load it.
%%
%% {@link flame_prof_samples} documents the arguments and results of `reader_*',
%% {@link flame_prof_profile} those of `profile_*'.
-module(flame_prof_report_nif).

-export([reader_open/2, reader_next/2, reader_info/1, reader_close/1]).
-export([profile_new/2, profile_begin/3, profile_continue/3, profile_step/2, profile_close/1]).
-export([profile_thin/2]).
-export([profile_info/1, profile_processes/3, profile_stacks/3, profile_export/4]).
-export([profile_calls/3, profile_facts/1]).
-export([demangled/1]).

-export_type([query/0, unusable/0]).

-on_load(load/0).

-define(NOT_LOADED, erlang:nif_error({not_loaded, ?MODULE})).

-type query() ::
    {
        Measure :: samples | period | {value | delta, binary()},
        [flame_prof_profile:dimension()],
        Frames :: lines | functions | none | line_chains | function_chains | chains,
        {
            FromUs :: integer(),
            ToUs :: integer(),
            Statuses :: [binary()],
            Processes :: all | binary()
        }
    }.
%% An empty list is any status. `Processes' has a byte for each of the profile's: 0 leaves it out.

-type unusable() :: closed | busy.
%% `busy': in use by another process.

-spec reader_open(Path :: binary(), processes | profiler) ->
    {ok, reference()} | {error, {atom(), binary()}}.
reader_open(_, _) -> ?NOT_LOADED.

-spec reader_next(reference(), Most :: non_neg_integer()) ->
    {more | done, [flame_prof_samples:sample()]} | {error, {atom(), binary()}}.
reader_next(_, _) -> ?NOT_LOADED.

-spec reader_info(reference()) -> #{atom() => term()}.
reader_info(_) -> ?NOT_LOADED.

-spec reader_close(reference()) -> ok.
reader_close(_) -> ?NOT_LOADED.

-spec profile_new(MaxMemory :: non_neg_integer(), Event :: first | all | binary()) ->
    {ok, reference()} | {error, {atom(), binary()}}.
profile_new(_, _) -> ?NOT_LOADED.

-spec profile_begin(reference(), Path :: binary(), whole | part) ->
    {ok, Bytes :: non_neg_integer()} | {error, {atom(), binary()}}.
profile_begin(_, _, _) -> ?NOT_LOADED.

-spec profile_continue(reference(), Path :: binary(), whole | part) ->
    {ok, Bytes :: non_neg_integer()} | {error, {atom(), binary()}}.
profile_continue(_, _, _) -> ?NOT_LOADED.

-spec profile_step(reference(), Bytes :: non_neg_integer()) ->
    {more, BytesRead :: non_neg_integer()} | done | {error, {atom(), binary()}}.
profile_step(_, _) -> ?NOT_LOADED.

-spec profile_close(reference()) -> ok | {error, unusable()}.
profile_close(_) -> ?NOT_LOADED.

-spec profile_thin(reference(), IntervalUs :: pos_integer()) ->
    ok | {error, unusable() | {atom(), binary()}}.
profile_thin(_, _) -> ?NOT_LOADED.

-spec profile_info(reference()) -> flame_prof_profile:info() | {error, unusable()}.
profile_info(_) -> ?NOT_LOADED.

-spec profile_processes(reference(), From :: non_neg_integer(), Most :: non_neg_integer()) ->
    [flame_prof_profile:process()] | {error, unusable()}.
profile_processes(_, _, _) -> ?NOT_LOADED.

-spec profile_stacks(reference(), query(), Most :: non_neg_integer()) ->
    {ok, {
        Weight :: non_neg_integer(),
        Samples :: non_neg_integer(),
        Count :: non_neg_integer(),
        [flame_prof_profile:stack()]
    }}
    | {error, unusable() | {atom(), binary()}}.
profile_stacks(_, _, _) -> ?NOT_LOADED.

-spec profile_calls(reference(), Ticks :: pos_integer(), Most :: non_neg_integer()) ->
    {ok, {Count :: non_neg_integer(), TickUs :: non_neg_integer(), [#{atom() => term()}]}}
    | {error, unusable() | {atom(), binary()}}.
profile_calls(_, _, _) -> ?NOT_LOADED.

%% The processes as profile_processes/3 has them; what they wait for and serve; the profiler's own
%% metrics. c_src/report/facts.h says what is in a process' facts.
-spec profile_facts(reference()) ->
    {ok, {
        [#{atom() => term()}],
        [{Process :: non_neg_integer(), waits_for | serves, binary(), pos_integer()}],
        [#{time_us | binary() => integer() | {Value :: integer(), Change :: integer()}}]
    }}
    | {error, unusable() | {atom(), binary()}}.
profile_facts(_) -> ?NOT_LOADED.

-spec profile_export(reference(),
    flame_prof_profile:format() | index | packed_index | index_piece, binary(),
    [query()]) ->
    {ok, #{atom() => non_neg_integer()}} | {error, unusable() | {atom(), binary()}}.
profile_export(_, _, _, _) -> ?NOT_LOADED.

%% The name of a C++ function; any other text as it is.
-spec demangled(binary()) -> binary().
demangled(_) -> ?NOT_LOADED.

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
