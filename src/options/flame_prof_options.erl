%% @doc The options of a session: what each accepts and what is its default.
%%
%% One table, `rows/0', serves {@link flame_prof:start/1}, the application's environment
%% (`sys.config'), the command line, and doc/options.md, which `make options' writes. An
%% option that is left out, `undefined' or `nil' has its default. A key that is not in the
%% table, and a value that is not accepted, are refused with the key and with what is accepted:
%%
%% ```
%% 1> flame_prof_options:validate(#{sample_interval => 0}).
%% {error,{bad_option,#{accepted => <<"whole milliseconds from 1 to 60000">>,
%%                      option => sample_interval,value => 0}}}
%% '''
%%
%% Older names of options are accepted: those of the original flame_prof and of earlier
%% versions. Nothing here starts, opens or writes anything. Only `dir' looks outside, at
%% `$HOME'.
-module(flame_prof_options).

-include("flame_prof.hrl").
-include("flame_prof_internal.hrl").

-export([validate/1, validate/2, keys/0, names/0, accepts/1]).
-export([rows/0, process_rows/0, limit_rows/0, allocation_rows/0]).
-export([process/2, in_home/1, is_homeless/1]).
-export([spare_memory/1, growers/1]).

-export_type([given/0, options/0, error/0, select/0, left_out/0]).
-export_type([process_given/0, process/0, follow/0, follow_limits/0]).

-type given() ::
    #{
        dir => file:name_all() | left_out(),
        sample_interval => pos_integer() | left_out(),
        flush_interval => pos_integer() | left_out(),
        node_interval => pos_integer() | left_out(),
        flushes_per_file => non_neg_integer() | infinity | left_out(),
        max_file_bytes => pos_integer() | infinity | left_out(),
        max_files => pos_integer() | infinity | left_out(),
        max_total_bytes => pos_integer() | infinity | left_out(),
        sync => none | flush | close | left_out(),
        compress => zstd | none | left_out(),
        coalesce_idle => boolean() | left_out(),
        cpu_budget => number() | infinity | left_out(),
        memory_budget => pos_integer() | left_out(),
        collapse_recursion => boolean() | left_out(),
        select => select() | left_out(),
        growers => non_neg_integer() | left_out(),
        process_options => process_given() | left_out(),
        include => flame_prof_target:target() | [flame_prof_target:target()] | left_out(),
        duration => pos_integer() | infinity | left_out(),
        follow_limits => #{atom() => pos_integer() | left_out()} | left_out(),
        triggers => flame_prof_trigger:given() | [flame_prof_trigger:given()] | left_out(),
        lookback => non_neg_integer() | left_out(),
        mode => processes | schedulers | cpu | left_out(),
        running_stacks => boolean() | left_out(),
        c_frames => boolean() | left_out(),
        messages => boolean() | left_out(),
        otel => boolean() | left_out(),
        allocations => off | #{atom() => number() | infinity | left_out()} | left_out(),
        engine => auto | native | portable | left_out(),
        %% Older names.
        basename => file:name_all() | left_out(),
        flush_close_max => non_neg_integer() | infinity | left_out(),
        file_max_bytes => pos_integer() | infinity | left_out(),
        files_max => pos_integer() | infinity | left_out(),
        total_max_bytes => pos_integer() | infinity | left_out(),
        idle_samples => all | changes | left_out(),
        flatten_recursive => boolean() | left_out(),
        auto_select => select() | left_out(),
        auto_process_opts => process_given() | left_out(),
        always => flame_prof_target:target() | [flame_prof_target:target()] | left_out(),
        viral_limits => #{atom() => pos_integer() | left_out()} | left_out(),
        pre_roll => non_neg_integer() | left_out(),
        native_frames => boolean() | left_out()
    }.
%% See {@link flame_prof:options()}.

-type left_out() :: undefined | nil.

-type select() :: flame_prof_selection:given().

-type follow() :: none | spawn | send | spawn_and_send.
%% Processes sampled in addition: those that it spawns, those that it sends to, and so on.

-type process_given() ::
    #{
        status => all | flame_prof:status() | left_out(),
        follow => follow() | self_only | boolean() | left_out(),
        %% The older name.
        viral => follow() | self_only | boolean() | left_out()
    }.

-type process() :: #{status := all | flame_prof:status(), follow := follow()}.

-type follow_limits() ::
    #{processes := pos_integer(), events := pos_integer(), seconds := pos_integer()}.
%% Following ends when so many processes were added, so many messages were traced, or tracing
%% has lasted so long.

-type options() :: #{atom() => term()}.
%% Every key of `rows/0' with a value in its normal form.

-type error() :: {bad_option | bad_env, flame_prof_schema:refused()}.
%% `bad_env' is of the application's environment. `option' is the name that was given, so it
%% can be any term: `{Option, Key}' for a key inside an option that is a map, `options' when
%% the options are not a map.

%% Less than a second between flushes and ticks would write an empty frame each.
-define(FLUSH_OVER_SAMPLE_MS, 1000).
-define(FLUSH_INTERVAL_MS, 15000).
-define(DAY_MS, 86400000).
-define(GROWERS, 25).
%% FP_GROWERS_MAX.
-define(GROWERS_MOST, 100).
%% See flame_prof_targets.
-define(INCLUDE_MOST, 100).
-define(FOLLOW_LIMITS, #{processes => 200, events => 100000, seconds => 60}).
-define(COUNT_MOST, 1000000).
-define(BYTES_MOST, 1125899906842624).
%% What does not depend on the options: the blocks that wait for the disk (5.5 MiB),
%% compression and the table of frames (6.75 MiB), the tables of processes, stacks,
%% frames and functions (12 MiB), the words of stacks (16 MiB), the pinned processes
%% (3.5 MiB), and a mebibyte each for ring and texts.
-define(MEMORY_LEAST_BYTES, 47972352).
%% At most what is kept of a selected process: its structure twice over, its texts.
-define(PROCESS_BYTES, 3584).
%% A second writer with its tables, blocks, ring and texts, and what the tracing keeps.
-define(ALLOCATIONS_BYTES, 41943040).
-define(MEMORY_BYTES, 100663296).
%% Of a path, with room for the file's own name below Linux's 4096.
-define(DIR_MOST_BYTES, 4000).

%% @private Every option, in the order in which they are checked and documented.
-spec rows() -> [flame_prof_schema:row(), ...].
rows() ->
    file_rows() ++ sample_rows() ++ trigger_rows() ++ engine_rows().

file_rows() ->
    [
        #{key => dir, alias => basename, type => {own, fun dir/1,
            "a directory: a string or UTF-8 binary of 1 to 4000 bytes, no control characters, "
            "with ~/ for $HOME"},
            default => {computed, fun(_) -> default_dir() end, "~/flame_prof"},
            doc => "directory of the files; a missing directory is created"},
        %% 9 ms and not 10: a whole divisor of a second beats with the host's timers.
        #{key => sample_interval, type => {whole, ms, 1, 60000}, default => 9,
            doc => "time between two samples of a process, in milliseconds"},
        #{key => flush_interval, type => {whole, ms, 1, ?DAY_MS},
            also => "at least sample_interval + 1000",
            default => {computed, fun default_flush_interval/1,
                "15000, or sample_interval + 1000"},
            doc => "time until a sample is in the file, in milliseconds"},
        #{key => node_interval, type => {whole, ms, 1000, ?DAY_MS}, default => 5000,
            doc => "time between two readings of the node metrics, in milliseconds"},
        #{key => flushes_per_file, alias => flush_close_max, default => 8,
            type => {either, [{infinity, infinity}, {0, infinity}],
                {whole, count, 1, ?COUNT_MOST}},
            doc => "flushes to a file before the next file begins"},
        %% Half an hour of a busy node is some 400 MB: these two are for the unforeseen. A
        %% smaller file would hold one block.
        #{key => max_file_bytes, alias => file_max_bytes, default => 134217728,
            type => limit(bytes, 1048576, ?BYTES_MOST),
            doc => "size at which the next file begins"},
        #{key => max_files, alias => files_max, default => 15,
            type => limit(count, 1, ?COUNT_MOST),
            doc => "files of this node to keep in `dir`, the open file included; the oldest "
            "finished files are deleted"},
        #{key => max_total_bytes, alias => total_max_bytes, default => 1073741824,
            type => limit(bytes, 4194304, ?BYTES_MOST),
            doc => "size of all files of this node in `dir`; a file is closed at a quarter of it"},
        #{key => sync, type => {one_of, [none, flush, close]}, default => close,
            doc => "when files are synchronized with the disk: at each `flush`, at the `close` of "
            "a file, or when the kernel decides. Only a crash of the machine loses flushed "
            "samples"},
        #{key => compress, type => {one_of, [zstd, none]}, default => zstd,
            doc => "compression of the files"}
    ].

sample_rows() ->
    [
        #{key => coalesce_idle, alias => {idle_samples, [{all, false}, {changes, true}]},
            type => boolean, default => false,
            doc => "write an unchanged waiting process once a second, with the number of "
            "observations as its weight"},
        #{key => cpu_budget, type => limit(number, core_percent, 0.1, 6400), default => 2.0,
            doc => "percent of one core that the native engine may use; beyond it the engine samples "
            "less"},
        #{key => memory_budget, type => {own, fun memory_budget/1,
            "bytes, at least 47972352, and 3584 more for each process of select and growers, and "
            "41943040 more with allocations"},
            default => {computed, fun default_memory_budget/1,
                "100663296, or 142606336 with allocations"},
            doc => "memory of a session in bytes, outside of the VM's allocators"},
        #{key => collapse_recursion, alias => flatten_recursive, type => boolean,
            default => true, doc => "write neighbouring frames of one function as one frame"},
        #{key => select, alias => auto_select, default => {top, 100, 5000},
            type => {own, fun flame_prof_selection:validate/1, flame_prof_selection:accepts()},
            doc => "processes to sample. `{top, N, Ms}`: the N processes with the most "
            "reductions, selected again every Ms milliseconds"},
        #{key => growers, type => {whole, count, 0, ?GROWERS_MOST},
            default => {computed, fun default_growers/1, "25 with {top, N}, 0 with maps"},
            doc => "further processes, at most a quarter of those of `select`, whose queue or memory "
            "grew most since the previous selection"},
        #{key => process_options, alias => auto_process_opts,
            type => {own, fun(Given) -> process_options(Given) end,
                "a map, #{status => all | Status, follow => Follow}"},
            default => #{status => all, follow => none},
            doc => "options of each selected process"},
        #{key => include, alias => always, type => {own, fun include/1,
            <<(flame_prof_target:accepts())/binary, ", or a list of up to 100 of these">>},
            default => [],
            doc => "processes to sample in addition to `select`; a name is looked up several "
            "times a second"},
        #{key => duration, type => limit(ms, 1, 16#ffffffff), default => infinity,
            also => "without triggers, each of which has its own",
            doc => "time after which the session stops by itself, in milliseconds"},
        #{key => follow_limits, alias => viral_limits, default => ?FOLLOW_LIMITS,
            type => {own, fun follow_limits/1,
                "a map, #{processes => Count, events => Count, seconds => Count}"},
            doc => "limits of `follow`; following ends when any limit is reached"}
    ].

trigger_rows() ->
    [
        #{key => triggers, default => [],
            type => {own, fun flame_prof_trigger:validate/1, flame_prof_trigger:accepts()},
            doc => "conditions that start a profile of bounded length; before that no file is "
            "written"},
        %% What there is memory for depends on what there is to say: see flame_prof_triggers.
        #{key => lookback, alias => pre_roll, default => 0,
            type => {either, [{0, 0}], {whole, ms, 1000, 60000}}, also => "with triggers",
            doc => "milliseconds before a trigger whose samples the file includes; the session "
            "samples all the time and buffers in 5.5 MiB of memory"}
    ].

engine_rows() ->
    [
        #{key => mode, default => processes,
            type => {either, [{cpu, schedulers}], {one_of, [processes, schedulers]}},
            also => "the latter with the native engine and running_stacks only",
            doc => "`processes`: sample the selected processes. `schedulers`, or `cpu`: sample the "
            "process that each normal scheduler runs, so that shares are of CPU time"},
        #{key => running_stacks, type => boolean, default => true,
            doc => "capture the stacks of running processes, by a signal to their schedulers; "
            "if that is impossible, `info/0` says why"},
        #{key => c_frames, alias => native_frames, type => boolean, default => true,
            doc => "write the C functions of running processes"},
        #{key => messages, type => boolean, default => true,
            doc => "write the message that each server has in work and the call that a process "
            "waits for: tags, pids and references; native engine only"},
        #{key => otel, type => boolean, default => false,
            doc => "write the trace id and the span id that OpenTelemetry keeps in the dictionary "
            "of a process; native engine only"},
        #{key => allocations, default => off,
            type => {either, [{off, off}], {own, fun allocations/1,
                "a map, #{bytes => Bytes, long_gc_us => Count, max_cpu_percent => Percent}, with "
                "the native engine only"}},
            doc => "write which code allocates, to further files `*.erl_alloc.log`; `#{}` switches it "
            "on with its defaults"},
        #{key => engine, type => {one_of, [auto, native, portable]}, default => auto,
            doc => "`native` reads memory, `portable` calls `process_info/2`, `auto` chooses "
            "native if a check shows that it works"}
    ].

%% @private Of one process: for `process_options', and for a process that profiles itself.
-spec process_rows() -> [flame_prof_schema:row(), ...].
process_rows() ->
    [
        #{key => status, type => {one_of, [all | ?FLAME_PROF_STATUSES]}, default => all,
            doc => "sample a process only in this status"},
        #{key => follow, alias => viral, default => none,
            type => {either, [{true, spawn_and_send}, {false, none}, {self_only, none}],
                {one_of, [none, spawn, send, spawn_and_send]}},
            doc => "sample also the processes that the process spawns (`spawn`, no tracing), the "
            "local processes that it sends to (`send`, traces its sends), or both; `follow` "
            "applies to these processes, too"}
    ].

%% @private
-spec limit_rows() -> [flame_prof_schema:row(), ...].
limit_rows() ->
    #{processes := Processes, events := Events, seconds := Seconds} = ?FOLLOW_LIMITS,
    [
        #{key => processes, type => {whole, count, 1, 400}, default => Processes,
            doc => "processes that `follow` adds"},
        #{key => events, type => {whole, count, 1, 100000000}, default => Events,
            doc => "traced messages"},
        #{key => seconds, type => {whole, count, 1, 86400}, default => Seconds,
            doc => "duration of tracing, in seconds"}
    ].

%% @private
-spec allocation_rows() -> [flame_prof_schema:row(), ...].
allocation_rows() ->
    [
        #{key => bytes, type => {whole, bytes, 4096, 1 bsl 32}, default => 524288,
            doc => "mean number of bytes that all processes allocate between two samples"},
        #{key => long_gc_us, type => {whole, count, 1, 1000000000}, default => 1000,
            doc => "microseconds: each garbage collection of this length or more is in the file, with "
            "its cause"},
        #{key => max_cpu_percent, type => limit(number, percent, 0.01, 100), default => 5,
            doc => "percent of the time of all schedulers that the tracing may take, the estimated "
            "part of the VM included; above it the tracing ends, and the session goes on"},
        #{key => heartbeat_ms, type => {whole, ms, 100, 60000}, default => 100,
            doc => "the library discards events if the process that checks these limits has not run "
            "for this time, in milliseconds"}
    ].

limit(Unit, Least, Most) -> limit(whole, Unit, Least, Most).

limit(Kind, Unit, Least, Most) -> {either, [{infinity, infinity}], {Kind, Unit, Least, Most}}.

%% @private
-spec validate(term()) -> {ok, options()} | {error, error()}.
validate(Given) ->
    validate(Given, #{}).

%% @private Every option in its normal form: as given, or else as the environment says, or else its
%% default.
-spec validate(term(), Environment :: map()) -> {ok, options()} | {error, error()}.
validate(Given, Environment) ->
    case {values(bad_env, Environment), values(bad_option, Given)} of
        {_, {error, _} = Error} -> Error;
        {{error, _} = Error, _} -> Error;
        {{ok, Env}, {ok, Values}} ->
            Options = flame_prof_schema:complete(rows(), maps:merge(Env, Values)),
            case conflict(Options) of
                none -> {ok, Options};
                Key -> {error, {class(Key, Values, Env), conflicting(Key, Options)}}
            end
    end.

values(Class, Given) ->
    case flame_prof_schema:values(rows(), Given) of
        {ok, Values} -> {ok, Values};
        {error, Refused} -> {error, {Class, Refused}}
    end.

%% The environment is at fault only for a conflict that it has without the caller's options.
class(Key, Given, _Environment) when is_map_key(Key, Given) ->
    bad_option;
class(Key, _Given, Environment) ->
    case conflict(flame_prof_schema:complete(rows(), Environment)) of
        Key -> bad_env;
        _ -> bad_option
    end.

conflicting(Key, Options) ->
    flame_prof_schema:refused(Key, maps:get(Key, Options), accepts(Key)).

conflict(Options) ->
    Conflicts = [{flush_interval, fun flushes_early/1}, {memory_budget, fun lacks_memory/1},
        {mode, fun cannot_ask/1}, {allocations, fun cannot_trace/1},
        {lookback, fun lacks_triggers/1}, {duration, fun is_ambiguous/1}],
    hd([Key || {Key, Is} <- Conflicts, Is(Options)] ++ [none]).

flushes_early(#{sample_interval := Sample, flush_interval := Flush}) ->
    Flush < Sample + ?FLUSH_OVER_SAMPLE_MS.

lacks_memory(Options) ->
    spare_memory(Options) < 0.

%% Only a scheduler can say what it runs.
cannot_ask(#{mode := schedulers, running_stacks := false}) -> true;
cannot_ask(#{mode := schedulers, engine := portable}) -> true;
cannot_ask(#{}) -> false.

%% The portable engine sees no collection of garbage.
cannot_trace(#{allocations := Allocations, engine := Engine}) ->
    Allocations =/= off andalso Engine =:= portable.

%% The time of the waiting, or of the profiles.
is_ambiguous(#{duration := Ms, triggers := Triggers}) ->
    Ms =/= infinity andalso Triggers =/= [].

lacks_triggers(#{lookback := Ms, triggers := Triggers}) ->
    Ms > 0 andalso Triggers =:= [].

%% @private What the budget leaves for the ring and the stacks' texts, beyond a
%% mebibyte for each.
-spec spare_memory(options()) -> integer().
spare_memory(#{memory_budget := Budget} = Options) ->
    Budget - ?MEMORY_LEAST_BYTES - (top(Options) + growers(Options)) * ?PROCESS_BYTES -
        allocations_bytes(Options).

allocations_bytes(#{allocations := #{}}) -> ?ALLOCATIONS_BYTES;
allocations_bytes(#{}) -> 0.

%% @private How many places there are for processes that grow.
-spec growers(options()) -> non_neg_integer().
growers(#{growers := Growers} = Options) ->
    min(Growers, top(Options) div 4).

top(#{select := Select}) ->
    flame_prof_selection:top(flame_prof_selection:rules(Select)).

%% @private Every option, by its documented name.
-spec keys() -> [atom(), ...].
keys() ->
    [Key || #{key := Key} <- rows()].

%% @private Every name that is accepted, older ones included.
-spec names() -> [atom(), ...].
names() ->
    flame_prof_schema:names(rows()).

%% @private What an option takes, for an error message or a help text.
-spec accepts(atom()) -> binary().
accepts(Key) ->
    flame_prof_schema:accepts(flame_prof_schema:row(Key, rows())).

%% @private Of one process. `Follow' is the default, which is not the same for selected processes
%% and for one that profiles itself.
-spec process(term(), follow()) -> {ok, process()} | {error, error()}.
process(Given, Follow) ->
    case flame_prof_schema:values(process_rows(), Given) of
        {ok, Values} -> {ok, maps:merge(#{status => all, follow => Follow}, Values)};
        {error, Refused} -> {error, {bad_option, Refused}}
    end.

process_options(Given) -> inner(process_rows(), Given).

follow_limits(Given) -> inner(limit_rows(), Given).

allocations(Given) -> inner(allocation_rows(), Given).

inner(Rows, Given) ->
    case flame_prof_schema:as_map(Given) of
        {ok, Map} ->
            case flame_prof_schema:values(Rows, Map) of
                {ok, Values} -> {ok, flame_prof_schema:complete(Rows, Values)};
                {error, _} = Error -> Error
            end;
        error ->
            error
    end.

include(Given) ->
    case flame_prof_target:parse(Given) of
        {ok, Targets} when length(Targets) =< ?INCLUDE_MOST -> {ok, Targets};
        _ -> error
    end.

memory_budget(Bytes) when ?IS_WITHIN(Bytes, 1, ?BYTES_MOST) -> {ok, Bytes};
memory_budget(_) -> error.

default_memory_budget(#{allocations := #{}}) -> ?MEMORY_BYTES + ?ALLOCATIONS_BYTES;
default_memory_budget(#{}) -> ?MEMORY_BYTES.

%% Rules select what they say.
default_growers(#{select := {top, _, _}}) -> ?GROWERS;
default_growers(#{}) -> 0.

default_flush_interval(#{sample_interval := Ms}) ->
    max(?FLUSH_INTERVAL_MS, Ms + ?FLUSH_OVER_SAMPLE_MS).

default_dir() ->
    Home =
        case home() of
            {ok, Path} -> Path;
            error -> "."
        end,
    case path(filename:join(Home, "flame_prof")) of
        {ok, Dir} -> Dir;
        error -> <<"flame_prof">>
    end.

%% @private `dir' has its default, which lies in the current folder for want of a HOME.
-spec is_homeless(options()) -> boolean().
is_homeless(#{dir := Dir}) ->
    home() =:= error andalso Dir =:= default_dir().

home() ->
    case os:getenv("HOME") of
        Unset when Unset =:= false; Unset =:= "" -> error;
        Path -> {ok, Path}
    end.

%% A shell expands `~'; a directory that is named so would be a surprise.
dir(Given) ->
    case path(Given) of
        {ok, <<"~", Next, _/binary>>} when Next =/= $/ -> error;
        {ok, Path} -> path(in_home(Path));
        error -> error
    end.

%% @private A path with `~' for `$HOME', as a shell has it.
-spec in_home(binary()) -> binary() | error.
in_home(<<"~">>) ->
    in_home(<<"~/">>);
in_home(<<"~/", Rest/binary>>) ->
    case home() of
        {ok, Home} ->
            Text = unicode:characters_to_binary(Home),
            %% One name, as an absolute second one would replace the first.
            filename:join([<<Text/binary, $/, Rest/binary>>]);
        error ->
            error
    end;
in_home(Path) ->
    Path.

%% A path travels to C and into messages to people, so it is UTF-8 without
%% control characters: NUL would cut it, a line feed would fake a log line.
path(Path) when is_binary(Path); is_list(Path) ->
    try unicode:characters_to_binary(Path) of
        Binary when is_binary(Binary) -> printable(Binary);
        _ -> error
    catch
        error:_ -> error
    end;
path(_) ->
    error.

printable(Path) when byte_size(Path) >= 1, byte_size(Path) =< ?DIR_MOST_BYTES ->
    case re:run(Path, "[\\x{00}-\\x{1f}\\x{7f}-\\x{9f}]", [unicode, {capture, none}]) of
        nomatch -> {ok, Path};
        match -> error
    end;
printable(_) ->
    error.
