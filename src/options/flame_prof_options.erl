%% @doc What a session can be told, and what it does when told nothing.
%%
%% The same rules serve the argument of {@link flame_prof:start/1}, the
%% application's environment (`sys.config') and the command line. Every key may
%% be left out or be `undefined', which both mean the default; a key that is not
%% listed here, and a value that is not accepted, are refused with the key and
%% with what would have been accepted:
%%
%% ```
%% 1> flame_prof_options:validate(#{sample_interval => 0}).
%% {error,{bad_option,sample_interval,
%%                    <<"whole milliseconds from 1 to 60000">>}}
%% '''
%%
%% Nothing here starts, opens or writes anything. Only the default of `basename'
%% looks outside: at `$HOME' or, where there is none, at the current directory.
-module(flame_prof_options).

-export([validate/1, keys/0, accepts/1]).
-export([process/2]).
-export([spare_memory/1]).
-export([format_error/1]).

-export_type([given/0, options/0, key/0, error/0, auto_select/0]).
-export_type([process_given/0, process/0, viral/0, viral_limits/0]).

-type given() ::
    #{
        basename => file:name_all() | undefined,
        sample_interval => pos_integer() | undefined,
        flush_interval => pos_integer() | undefined,
        flush_close_max => non_neg_integer() | infinity | undefined,
        file_max_bytes => pos_integer() | infinity | undefined,
        files_max => pos_integer() | infinity | undefined,
        total_max_bytes => pos_integer() | infinity | undefined,
        sync => none | flush | close | undefined,
        compress => zstd | none | undefined,
        idle_samples => all | changes | undefined,
        cpu_budget => number() | infinity | undefined,
        memory_budget => pos_integer() | undefined,
        flatten_recursive => boolean() | undefined,
        auto_select => auto_select() | undefined,
        auto_process_opts => process_given() | undefined,
        always => pid() | atom() | [pid() | atom()],
        viral_limits => #{atom() => pos_integer() | undefined} | undefined,
        triggers => flame_prof_trigger:given() | [flame_prof_trigger:given()] | undefined,
        pre_roll => non_neg_integer() | undefined,
        mode => processes | schedulers | undefined,
        running_stacks => boolean() | undefined,
        native_frames => boolean() | undefined,
        engine => auto | native | portable | undefined
    }.

-type auto_select() :: flame_prof_selection:given().

%% How the profiling of a process spreads: to what it spawns, to what it sends to.
%% `true' is `spawn_and_send', `false' is `self_only'.
-type viral() :: self_only | spawn | send | spawn_and_send.

-type process_given() ::
    #{status => all | flame_prof:status() | undefined, viral => viral() | boolean() | undefined}.

-type process() :: #{status := all | flame_prof:status(), viral := viral()}.

%% Where spreading ends: processes that were caught, messages looked at, seconds
%% of tracing.
-type viral_limits() ::
    #{processes := pos_integer(), events := pos_integer(), seconds := pos_integer()}.

-type options() ::
    #{
        basename := binary(),
        sample_interval := pos_integer(),
        flush_interval := pos_integer(),
        flush_close_max := pos_integer() | infinity,
        file_max_bytes := pos_integer() | infinity,
        files_max := pos_integer() | infinity,
        total_max_bytes := pos_integer() | infinity,
        sync := none | flush | close,
        compress := zstd | none,
        idle_samples := all | changes,
        cpu_budget := number() | infinity,
        memory_budget := pos_integer(),
        flatten_recursive := boolean(),
        auto_select := flame_prof_selection:normal(),
        auto_process_opts := process(),
        always := [pid() | atom()],
        viral_limits := viral_limits(),
        triggers := [flame_prof_trigger:spec()],
        pre_roll := non_neg_integer(),
        mode := processes | schedulers,
        running_stacks := boolean(),
        native_frames := boolean(),
        engine := auto | native | portable
    }.

-type key() ::
    basename
    | sample_interval
    | flush_interval
    | flush_close_max
    | file_max_bytes
    | files_max
    | total_max_bytes
    | sync
    | compress
    | idle_samples
    | cpu_budget
    | memory_budget
    | flatten_recursive
    | auto_select
    | auto_process_opts
    | always
    | viral_limits
    | triggers
    | pre_roll
    | mode
    | running_stacks
    | native_frames
    | engine.

%% The key is what was given, so it may be any term; `options' when what was
%% given is not a map, `{auto_process_opts, Key}' for a key inside that map, and
%% likewise with `viral_limits' and `triggers'.
-type error() :: {bad_option, Key :: term(), Accepted :: binary()}.

-define(IS_WITHIN(Value, Least, Most),
    (is_integer(Value) andalso Value >= Least andalso Value =< Most)
).

%% 9 ms and not 10: a whole divisor of a second beats with the host's timers.
-define(SAMPLE_INTERVAL_MS, 9).
-define(SAMPLE_INTERVAL_MOST_MS, 60000).
-define(FLUSH_INTERVAL_MS, 15000).
%% A flush that is hardly longer than a tick would write an empty frame each.
-define(FLUSH_OVER_SAMPLE_MS, 1000).
-define(FLUSH_CLOSE_MAX, 8).
-define(FILES_MAX, 15).
-define(AUTO_SELECT, {top, 100, 5000}).
%% See flame_prof_targets.
-define(ALWAYS_MOST, 100).
-define(VIRAL_LIMITS, #{processes => 200, events => 100000, seconds => 60}).
-define(VIRAL_MOST, #{processes => 400, events => 100000000, seconds => 86400}).
%% Half an hour of a busy node is some 400 MB: these are for what was not thought
%% of.
-define(FILE_MAX_BYTES, 134217728).
-define(TOTAL_MAX_BYTES, 1073741824).
%% Less would make a file of every block that is written.
-define(FILE_LEAST_BYTES, 1048576).
-define(TOTAL_LEAST_BYTES, 4194304).
-define(BYTES_MOST, 1125899906842624).
%% Percent of one core.
-define(CPU_BUDGET, 2.0).
-define(CPU_BUDGET_LEAST, 0.1).
-define(CPU_BUDGET_MOST, 6400).
-define(MEMORY_BUDGET, 100663296).
%% What does not depend on the options: the blocks that wait for the disk (5.5 MiB),
%% compression and the table of frames (6.75 MiB), the tables of processes, stacks,
%% frames and functions (12 MiB), the words of stacks (16 MiB), the pinned processes
%% (3.5 MiB), and a mebibyte each for ring and texts.
-define(MEMORY_LEAST_BYTES, 47972352).
%% What is kept of a selected process: its structure three times over, its texts.
-define(PROCESS_BYTES, 3584).
%% What there is memory for depends on what there is to say: see flame_prof_triggers.
-define(PRE_ROLL_LEAST_MS, 1000).
-define(PRE_ROLL_MOST_MS, 60000).
-define(DAY_MS, 86400000).
-define(COUNT_MOST, 1000000).
%% Of a path, with room for the file's own name below Linux's 4096.
-define(BASENAME_MOST_BYTES, 4000).

%% @doc All keys filled in and every value in its one normal form.
-spec validate(term()) -> {ok, options()} | {error, error()}.
validate(Given) when is_map(Given) ->
    case lists:sort(maps:keys(maps:without(keys(), Given))) of
        [] -> validate(keys(), Given, #{});
        [Unknown | _] -> {error, {bad_option, Unknown, no_such_option()}}
    end;
validate(_) ->
    {error, {bad_option, options, <<"a map of options">>}}.

validate([], _Given, Options) ->
    intervals(Options);
validate([Key | Keys], Given, Options) ->
    case option(Key, maps:get(Key, Given, undefined)) of
        {ok, Value} -> validate(Keys, Given, Options#{Key => Value});
        error -> {error, {bad_option, Key, accepts(Key)}};
        {error, _} = Error -> Error
    end.

intervals(#{sample_interval := Sample, flush_interval := Flush} = Options) when
    Flush >= Sample + ?FLUSH_OVER_SAMPLE_MS
->
    memory(Options);
intervals(_) ->
    {error, {bad_option, flush_interval, accepts(flush_interval)}}.

memory(Options) ->
    case spare_memory(Options) >= 0 of
        true -> mode(Options);
        false -> {error, {bad_option, memory_budget, accepts(memory_budget)}}
    end.

%% What schedulers run can only be had by asking them.
mode(#{mode := schedulers, running_stacks := false}) ->
    {error, {bad_option, mode, accepts(mode)}};
mode(#{mode := schedulers, engine := portable}) ->
    {error, {bad_option, mode, accepts(mode)}};
mode(Options) ->
    pre_roll(Options).

%% Before what?
pre_roll(#{pre_roll := Ms, triggers := []}) when Ms > 0 ->
    {error, {bad_option, pre_roll, accepts(pre_roll)}};
pre_roll(Options) ->
    {ok, Options}.

%% @doc What the budget leaves for the ring and the stacks' texts, beyond a
%% mebibyte for each.
-spec spare_memory(options()) -> integer().
spare_memory(#{memory_budget := Budget, auto_select := Select}) ->
    Top = flame_prof_selection:top(flame_prof_selection:rules(Select)),
    Budget - ?MEMORY_LEAST_BYTES - Top * ?PROCESS_BYTES.

%% @doc Every option, in the order in which they are looked at.
-spec keys() -> [key(), ...].
keys() ->
    [
        basename,
        sample_interval,
        flush_interval,
        flush_close_max,
        file_max_bytes,
        files_max,
        total_max_bytes,
        sync,
        compress,
        idle_samples,
        cpu_budget,
        memory_budget,
        flatten_recursive,
        auto_select,
        auto_process_opts,
        always,
        viral_limits,
        triggers,
        pre_roll,
        mode,
        running_stacks,
        native_frames,
        engine
    ].

%% Undefined means the default. One clause an option, here and in default/1.
option(Key, undefined) -> {ok, default(Key)};
option(basename, Path) ->
    basename(Path);
option(sample_interval, Ms) when ?IS_WITHIN(Ms, 1, ?SAMPLE_INTERVAL_MOST_MS) ->
    {ok, Ms};
option(flush_interval, Ms) when ?IS_WITHIN(Ms, 1, ?DAY_MS) ->
    {ok, Ms};
option(flush_close_max, Flushes) when Flushes =:= infinity; Flushes =:= 0 ->
    {ok, infinity};
option(flush_close_max, Flushes) when ?IS_WITHIN(Flushes, 1, ?COUNT_MOST) ->
    {ok, Flushes};
option(file_max_bytes, infinity) ->
    {ok, infinity};
option(file_max_bytes, Bytes) when ?IS_WITHIN(Bytes, ?FILE_LEAST_BYTES, ?BYTES_MOST) ->
    {ok, Bytes};
option(files_max, infinity) ->
    {ok, infinity};
option(files_max, Files) when ?IS_WITHIN(Files, 1, ?COUNT_MOST) ->
    {ok, Files};
option(total_max_bytes, infinity) ->
    {ok, infinity};
option(total_max_bytes, Bytes) when ?IS_WITHIN(Bytes, ?TOTAL_LEAST_BYTES, ?BYTES_MOST) ->
    {ok, Bytes};
option(sync, Sync) when Sync =:= none; Sync =:= flush; Sync =:= close ->
    {ok, Sync};
option(compress, Compress) when Compress =:= zstd; Compress =:= none ->
    {ok, Compress};
option(idle_samples, Idle) when Idle =:= all; Idle =:= changes ->
    {ok, Idle};
option(cpu_budget, infinity) ->
    {ok, infinity};
option(cpu_budget, Percent) when
    is_number(Percent), Percent >= ?CPU_BUDGET_LEAST, Percent =< ?CPU_BUDGET_MOST
->
    {ok, Percent};
option(memory_budget, Bytes) when ?IS_WITHIN(Bytes, 1, ?BYTES_MOST) ->
    {ok, Bytes};
option(flatten_recursive, Flatten) when is_boolean(Flatten) ->
    {ok, Flatten};
option(auto_select, Given) ->
    flame_prof_selection:validate(Given);
option(auto_process_opts, Given) when is_map(Given) ->
    named(auto_process_opts, process(Given, self_only));
option(always, Given) when is_list(Given) ->
    always(Given);
option(always, Given) ->
    always([Given]);
option(viral_limits, Given) when is_map(Given) ->
    viral_limits(lists:sort(maps:keys(Given)), Given, ?VIRAL_LIMITS);
option(triggers, Given) ->
    flame_prof_trigger:validate(Given);
option(pre_roll, 0) ->
    {ok, 0};
option(pre_roll, Ms) when ?IS_WITHIN(Ms, ?PRE_ROLL_LEAST_MS, ?PRE_ROLL_MOST_MS) ->
    {ok, Ms};
option(mode, Mode) when Mode =:= processes; Mode =:= schedulers ->
    {ok, Mode};
option(running_stacks, Capture) when is_boolean(Capture) ->
    {ok, Capture};
option(native_frames, Show) when is_boolean(Show) ->
    {ok, Show};
option(engine, Engine) when Engine =:= auto; Engine =:= native; Engine =:= portable ->
    {ok, Engine};
option(_, _) ->
    error.

default(basename) -> default_basename();
default(sample_interval) -> ?SAMPLE_INTERVAL_MS;
default(flush_interval) -> ?FLUSH_INTERVAL_MS;
default(flush_close_max) -> ?FLUSH_CLOSE_MAX;
default(file_max_bytes) -> ?FILE_MAX_BYTES;
default(files_max) -> ?FILES_MAX;
default(total_max_bytes) -> ?TOTAL_MAX_BYTES;
default(sync) -> close;
default(compress) -> zstd;
default(idle_samples) -> all;
default(cpu_budget) -> ?CPU_BUDGET;
default(memory_budget) -> ?MEMORY_BUDGET;
default(flatten_recursive) -> true;
default(auto_select) -> ?AUTO_SELECT;
default(auto_process_opts) -> #{status => all, viral => self_only};
default(always) -> [];
default(viral_limits) -> ?VIRAL_LIMITS;
default(triggers) -> [];
default(pre_roll) -> 0;
default(mode) -> processes;
default(running_stacks) -> true;
default(native_frames) -> true;
default(engine) -> auto.

%% @doc Of one process: for `auto_process_opts', and for who profiles itself. What
%% is meant by no `viral' is not the same for both.
-spec process(term(), viral()) -> {ok, process()} | {error, error()}.
process(Given, Viral) when is_map(Given) ->
    case lists:sort(maps:keys(maps:without([status, viral], Given))) of
        [] -> process(maps:get(status, Given, undefined), maps:get(viral, Given, undefined), Viral);
        [Unknown | _] -> {error, {bad_option, Unknown,
            <<"no such option; there are: status, viral">>}}
    end;
process(_, _) ->
    {error, {bad_option, options, <<"a map of options">>}}.

process(Status, Viral, Default) ->
    case {lists:member(Status, [undefined, all | statuses()]), viral(Viral, Default)} of
        {false, _} -> {error, {bad_option, status, accepts_status()}};
        {true, error} -> {error, {bad_option, viral, accepts_viral()}};
        {true, Normal} when Status =:= undefined -> {ok, #{status => all, viral => Normal}};
        {true, Normal} -> {ok, #{status => Status, viral => Normal}}
    end.

viral(undefined, Default) -> Default;
viral(true, _) -> spawn_and_send;
viral(false, _) -> self_only;
viral(V, _) when V =:= spawn; V =:= send; V =:= spawn_and_send; V =:= self_only -> V;
viral(_, _) -> error.

named(_Outer, {ok, _} = Ok) -> Ok;
named(Outer, {error, {bad_option, Key, Accepted}}) -> {error, {bad_option, {Outer, Key}, Accepted}}.

always(Given) ->
    try
        length(Given) =< ?ALWAYS_MOST andalso
            lists:all(fun(P) -> is_atom(P) orelse (is_pid(P) andalso node(P) =:= node()) end, Given)
    of
        true -> {ok, Given};
        false -> error
    catch
        error:badarg -> error
    end.

viral_limits([], _Given, Limits) ->
    {ok, Limits};
viral_limits([Key | Keys], Given, Limits) ->
    case {maps:get(Key, Given), maps:get(Key, ?VIRAL_MOST, none)} of
        {_, none} ->
            {error, {bad_option, {viral_limits, Key},
                <<"no such limit; there are: events, processes, seconds">>}};
        {undefined, _} ->
            viral_limits(Keys, Given, Limits);
        {Value, Most} when ?IS_WITHIN(Value, 1, Most) ->
            viral_limits(Keys, Given, Limits#{Key => Value});
        {_, Most} ->
            Accepted = ["a count from 1 to ", integer_to_list(Most)],
            {error, {bad_option, {viral_limits, Key}, iolist_to_binary(Accepted)}}
    end.

statuses() ->
    [waiting, runnable, running, garbage_collecting, suspended, exiting].

default_basename() ->
    Home =
        case os:getenv("HOME") of
            Unset when Unset =:= false; Unset =:= "" -> ".";
            Path -> Path
        end,
    case basename(filename:join(Home, "flame_prof")) of
        {ok, Basename} -> Basename;
        error -> <<"flame_prof">>
    end.

%% A path travels to C and into messages to people, so it is UTF-8 without
%% control characters: NUL would cut it, a line feed would fake a log line.
basename(Path) when is_binary(Path); is_list(Path) ->
    try unicode:characters_to_binary(Path) of
        Binary when is_binary(Binary) -> printable(Binary);
        _ -> error
    catch
        error:_ -> error
    end;
basename(_) ->
    error.

printable(Path) when byte_size(Path) >= 1, byte_size(Path) =< ?BASENAME_MOST_BYTES ->
    case re:run(Path, "[\\x{00}-\\x{1f}\\x{7f}-\\x{9f}]", [unicode, {capture, none}]) of
        nomatch -> {ok, Path};
        match -> error
    end;
printable(_) ->
    error.

%% @doc What an option takes, for an error message or a help text.
-spec accepts(key()) -> binary().
accepts(basename) ->
    <<"a directory: a string or UTF-8 binary of 1 to 4000 bytes, no control characters">>;
accepts(sample_interval) ->
    <<"whole milliseconds from 1 to 60000">>;
accepts(flush_interval) ->
    <<"whole milliseconds to 86400000, at least sample_interval + 1000">>;
accepts(flush_close_max) ->
    <<"a count from 1 to 1000000, or infinity (0 means infinity)">>;
accepts(file_max_bytes) ->
    <<"a count of bytes from 1048576 to 1125899906842624, or infinity">>;
accepts(files_max) ->
    <<"a count from 1 to 1000000, or infinity">>;
accepts(total_max_bytes) ->
    <<"a count of bytes from 4194304 to 1125899906842624, or infinity">>;
accepts(sync) ->
    <<"none, flush or close">>;
accepts(compress) ->
    <<"zstd or none">>;
accepts(idle_samples) ->
    <<"all or changes">>;
accepts(cpu_budget) ->
    <<"percent of one core, a number from 0.1 to 6400, or infinity">>;
accepts(memory_budget) ->
    <<"a count of bytes, at least 47972352 and 3584 more for each process of auto_select">>;
accepts(flatten_recursive) ->
    <<"true or false">>;
accepts(auto_select) ->
    flame_prof_selection:accepts();
accepts(auto_process_opts) ->
    <<"a map, #{status => all | Status, viral => Viral}">>;
accepts(always) ->
    <<"a pid of this node or a registered name, or a list of up to 100 of them">>;
accepts(viral_limits) ->
    <<"a map, #{processes => Count, events => Count, seconds => Count}">>;
accepts(triggers) ->
    flame_prof_trigger:accepts();
accepts(pre_roll) ->
    <<"whole milliseconds from 1000 to 60000, with triggers; or 0">>;
accepts(mode) ->
    <<"processes, or schedulers (with the native engine and running_stacks)">>;
accepts(running_stacks) ->
    <<"true or false">>;
accepts(native_frames) ->
    <<"true or false">>;
accepts(engine) ->
    <<"auto, native or portable">>.

accepts_status() ->
    Names = [atom_to_binary(Status) || Status <- statuses()],
    iolist_to_binary(["all or one of: ", lists:join(", ", Names)]).

accepts_viral() ->
    <<"spawn, send, spawn_and_send or self_only; true (spawn_and_send) or false (self_only)">>.

no_such_option() ->
    Names = [atom_to_binary(Key) || Key <- keys()],
    iolist_to_binary(["no such option; there are: ", lists:join(", ", Names)]).

%% @doc One sentence for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({bad_option, {Outer, Key}, Accepted}) when
    Outer =:= auto_process_opts; Outer =:= viral_limits; Outer =:= triggers
->
    io_lib:format("~tp, ~tp: ~ts", [Outer, Key, Accepted]);
format_error({bad_option, Key, Accepted}) ->
    io_lib:format("~tp: ~ts", [Key, Accepted]).
