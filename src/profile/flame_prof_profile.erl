%% @doc Files read into a profile: facts, sums and exports of all samples.
%%
%% ```
%% 1> {ok, Profile} = flame_prof_profile:read("2026-11-21@0154.07.erl_perf.log").
%% 2> #{samples := Samples, bad := 0} = flame_prof_profile:info(Profile).
%% 3> flame_prof_profile:export(Profile, collapsed, "/tmp/reductions.txt",
%%        #{by => {delta, reductions}, group_by => [status, process]}).
%% {ok,#{bytes => 51277,total => 91822031}}
%% 4> flame_prof_profile:export(Profile, speedscope, "/tmp/prof.speedscope.json").
%% 5> flame_prof_profile:export(Profile, pprof, "/tmp/prof.pb.gz").
%% '''
%%
%% A profile is a table of texts, a tree of stacks, and a row for each sample. It
%% lives outside of the Erlang heaps. {@link close/1} frees it, or the garbage collection of its
%% last reference. A sample that equals its process' last one takes about 4 bytes, another one 10
%% to 30; its text in the file has about 700.
%%
%% == Why it is safe ==
%% <ul>
%% <li>A profile takes at most `max_memory'. The default is 1 GiB, also in a node in
%%     production: give less there, or read files elsewhere. A file that needs more is
%%     refused with `{error, {memory, _}}'; {@link flame_prof:fold/3} keeps nothing.</li>
%% <li>Files may hold any bytes. Damaged samples are left out, counted as `bad' in
%%     {@link info/1}, and the first ones are named with their lines.</li>
%% <li>Dirty schedulers read, in steps of some hundredths of a second. Reading ends
%%     with the process that reads.</li>
%% <li>An export has mode 0600, and is there whole or not at all.</li>
%% </ul>
-module(flame_prof_profile).

-export([read/1, read/2]).
-export([info/1, processes/1, stacks/2, close/1]).
-export([export/3, export/4, index/2, packed_index/2]).
-export([new/0, open/3, add/2, index_piece/2]).
-export([files_row/0, read_rows/0, thin/2, calls/3, facts/1, is_profile/1]).

-export_type([profile/0, options/0, event/0, info/0, file/0, process/0, stack/0]).
-export_type([format/0, dimension/0, metric/0, export_options/0]).
-export_type([how/0, progress/0]).

-opaque profile() :: reference().

-type options() ::
    #{
        event => event() | flame_prof_options:left_out(),
        max_memory => pos_integer() | flame_prof_options:left_out(),
        progress =>
            fun((file:name_all(), Read :: non_neg_integer(), Size :: non_neg_integer()) -> term())
            | flame_prof_options:left_out()
    }.
%% An option that is left out, `undefined' or `nil' has its default, in brackets.
%%
%% <ul>
%% <li>`event': whose samples are read, where the files have several events, as those of `perf
%%     record -e cycles,instructions': the sum of two would count different things (`first': of the
%%     first sample; {@link info/1} has the others)</li>
%% <li>`max_memory': bytes that the profile may take (1 GiB), at least a
%%     megabyte</li>
%% <li>`progress': is called with the file, the bytes that were read of it, and
%%     its size, every 32 MiB of text</li>
%% </ul>

-type event() :: first | all | unicode:chardata().
%% `all' adds samples of different events up.

-type how() :: {start | continue, whole | part}.
%% @private A `part' is still being written: what is not whole at its end is left out. `continue'
%% reads what the last file has got since.

-type progress() ::
    fun((file:name_all(), Read :: non_neg_integer(), Size :: non_neg_integer()) -> term()).

-type info() ::
    #{
        samples := non_neg_integer(),
        bad := non_neg_integer(),
        damaged := non_neg_integer(),
        cut_off := non_neg_integer(),
        lost_text := non_neg_integer(),
        perf_messages := non_neg_integer(),
        left_out := non_neg_integer(),
        warnings := [flame_prof_samples:warning()],
        first_us := integer(),
        last_us := integer(),
        first_sample_us := integer(),
        is_ordered := boolean(),
        metrics := [binary()],
        own_metrics := [binary()],
        events := [binary()],
        event := all | binary(),
        event_samples := #{binary() => non_neg_integer()},
        periods_differ := boolean(),
        files := [file()],
        processes := non_neg_integer(),
        memory := non_neg_integer(),
        max_memory := non_neg_integer(),
        messages := non_neg_integer(),
        traces := non_neg_integer(),
        calls := non_neg_integer(),
        frames | nodes | stacks | texts => non_neg_integer()
    }.
%% `bad' counts damaged samples, which are left out. `damaged' and `lost_text' are the sums of the
%% files', and `cut_off' is the number of files whose end is missing. Times are microseconds since
%% 1970; `first_sample_us' is of the first sample of a process. `perf_messages' counts lines that
%% perf has put between its samples. `event_samples' has the samples of each event in the files, and
%% `left_out' is the number of those that `event' leaves out. `periods_differ': the periods are
%% weights, and not observations. `processes' counts neither the profiler nor schedulers, and
%% `metrics' are those of processes: `own_metrics' has the profiler's counters and the node
%% metrics. `messages' counts samples of servers with a message in work, `traces' those with
%% OpenTelemetry's ids, and `calls' those with the reference of a call, on either side of it.
%% `frames', `nodes', `stacks' and `texts' are the sizes of the tables.

-type file() ::
    #{
        path := binary(),
        dialect := none | flame_prof | original_flame_prof | perf,
        compression := plain | gzip | zstd,
        bytes := non_neg_integer(),
        text := non_neg_integer(),
        samples := non_neg_integer(),
        observations := non_neg_integer(),
        bad := non_neg_integer(),
        own := binary(),
        damaged := non_neg_integer(),
        cut_off := boolean(),
        shortened := non_neg_integer(),
        lost_text := non_neg_integer(),
        perf_messages := non_neg_integer(),
        perf_lost := non_neg_integer(),
        first_us := integer(),
        last_us := integer()
    }.
%% `own' has the counters and words of the profiler's last own sample in the file, as they stand
%% there; empty where there is none. `bytes' are those of the file, `text'
%% those of the text in it. `observations' is the number that the samples stand for: see
%% {@link metric()}. `damaged' counts the damaged places of compressed text, `cut_off' says
%% that its end is missing, `shortened' counts samples with more frames than any stack has, of
%% which some are left out, and `lost_text' are bytes of text that are missing in both ways, as far
%% as the zstd frames tell their sizes. `perf_messages' are lines of perf's that are no samples:
%% other records, and warnings; `perf_lost' is the number of events that these say are lost.

-type process() ::
    #{
        erl_pid := binary(),
        name := binary(),
        label := binary(),
        initial_call := binary(),
        proc_lib_initial_call := binary(),
        words := binary(),
        is_own := boolean(),
        comm := binary(),
        pid := non_neg_integer(),
        tid := non_neg_integer(),
        samples := pos_integer(),
        first_us := integer(),
        last_us := integer()
    }.
%% Texts as they stand in the file, percent-encoded; empty where there is none.
%% `words' has all of them, also those without a key here. `is_own' is true for the profiler
%% itself, whose samples count in no export.

-type stack() ::
    {
        Groups :: [binary()],
        Frames :: [flame_prof_samples:frame()],
        Weight :: pos_integer(),
        Samples :: pos_integer()
    }.
%% The groups of the dimensions in `group_by', outermost first, and the frames, leaf first, as they
%% stand in the file.

-type format() :: collapsed | perf | speedscope | pprof | firefox.

-type metric() ::
    samples
    | period
    | {value | delta, Name :: atom() | binary()}
    | (Name :: atom() | binary()).
%% What a sample weighs: one; its period; a metric of {@link info/1} as it was; or
%% by how much that changed since the process' sample before. A sample of a process
%% that stands for N observations (`coalesce_idle => true', `cpu_budget') is N samples,
%% and weighs N times its value. An atom is the same as a binary, and a metric alone
%% is its change.

-type dimension() ::
    status | process | pid | node | memory | queue | sign | message | trace | span | event | file.
%% The dimensions by which stacks are grouped, below the root. `process' is the registered name, or
%% else the label, or the initial call; `memory' and `queue' are classes by powers of ten of what
%% the process had, such as `memory_10s_MiB'; `sign' is that of a change; `message' is what a server
%% has in work, such as `call:{get,_}': other samples have no group of it. `trace' and `span' are
%% the ids of OpenTelemetry.

-type export_options() ::
    #{
        top => pos_integer() | all | flame_prof_options:left_out(),
        by => metric() | [metric(), ...] | flame_prof_options:left_out(),
        group_by => [dimension()] | flame_prof_options:left_out(),
        lines => boolean() | flame_prof_options:left_out(),
        stacks => boolean() | flame_prof_options:left_out(),
        chains => boolean() | flame_prof_options:left_out(),
        from => non_neg_integer() | flame_prof_options:left_out(),
        to => pos_integer() | flame_prof_options:left_out(),
        status => all | active | flame_prof:status() | flame_prof_options:left_out(),
        process => pid() | atom() | unicode:chardata() | flame_prof_options:left_out()
    }.
%% <ul>
%% <li>`by' (`samples', of files of allocations `{value, words}'); of several metrics, speedscope
%%     has a profile of the file for each</li>
%% <li>`group_by': outermost first (`[status]', of allocations `[]'); not for perf, pprof and
%%     firefox. Changes always have `sign', as their innermost dimension where it is not named:
%%     growth and release do not cancel each other.</li>
%% <li>`lines': whether two lines of a function are two frames (true; for speedscope false, which
%%     lists a function once for each of its frames). Without, pprof and perf have no lines.</li>
%% <li>`stacks': false: {@link stacks/2} answers one sum for each group, and no
%%     frames (true)</li>
%% <li>`chains': only samples of processes that wait for something, each with the stack of what it
%%     waits for below its own, and so on, down to a process that works: a flame graph of waiting
%%     (false; not for firefox)</li>
%% <li>`top': how many stacks {@link stacks/2} answers (all)</li>
%% <li>`from', `to': milliseconds since the first sample of a process; only samples between them,
%%     `to' not
%%     included (all)</li>
%% <li>`status': only samples with this one; `active' is running, runnable and garbage collecting,
%%     as {@link flame_prof:hot/2} has it (all)</li>
%% <li>`process': only samples of the processes that have this pid, registered name, label or
%%     initial call (all)</li>
%% </ul>
%% `measure' and `measures' are earlier names of `by', and `levels' of `group_by'.

-define(STEP_BYTES, 33554432).
-define(MAX_MEMORY, 1073741824).
-define(PROCESSES_AT_ONCE, 1000).
%% An index has no query.
-define(EVERYTHING, {samples, [], lines, {0, 0, [], all}}).

%% @equiv read(Files, #{})
-spec read(flame_prof_samples:files()) -> {ok, profile()} | {error, flame_prof:reason()}.
read(Files) ->
    read(Files, #{}).

%% @doc Read a file, or several into one profile. Plain, gzip or zstd; of any
%% dialect that {@link flame_prof_samples} knows.
-spec read(flame_prof_samples:files(), options()) -> {ok, profile()} | {error, flame_prof:reason()}.
read(Files, Given) ->
    case flame_prof_schema:checked(read_rows(), Given) of
        {ok, Options} ->
            read_all(flame_prof_samples:list(Files), Options);
        {error, _} = Error ->
            Error
    end.

read_all([], _Options) ->
    {error, {no_files, #{}}};
read_all(Files, #{max_memory := Most, event := Event} = Options) ->
    {ok, Profile} = flame_prof_report_nif:profile_new(Most, Event),
    case read_files(Files, Profile, Options) of
        {ok, _} = Ok ->
            Ok;
        {error, _} = Error ->
            ok = close(Profile),
            Error
    end.

read_files([], Profile, #{event := Event}) ->
    case info(Profile) of
        #{samples := 0, events := [_ | _] = Events} when is_binary(Event) ->
            Accepted = iolist_to_binary(["first, all, or an event of these files: ",
                lists:join(", ", Events)]),
            {error, flame_prof_error:option(event, Event, Accepted)};
        #{} ->
            {ok, Profile}
    end;
read_files([File | Files], Profile, Options) ->
    case read_file(File, Profile, Options) of
        ok -> read_files(Files, Profile, Options);
        {error, Reason} -> {error, flame_prof_error:file(File, Reason)}
    end.

read_file(File, Profile, #{progress := Progress}) ->
    case open(Profile, File, {start, whole}) of
        {ok, Size} -> add(Profile, fun(Read) -> Progress(File, Read, Size) end);
        {error, _} = Error -> Error
    end.

%% @private An empty profile of the default size, for open/3.
-spec new() -> {ok, profile()} | {error, flame_prof:reason()}.
new() ->
    case flame_prof_report_nif:profile_new(?MAX_MEMORY, first) of
        {ok, Profile} -> {ok, Profile};
        {error, {_, Why}} -> {error, {memory, #{reason => Why}}}
    end.

%% @private Open a file to be read into the profile by add/2, behind those before it.
-spec open(profile(), file:name_all(), how()) -> {ok, Size :: non_neg_integer()} | {error, term()}.
open(Profile, File, How) ->
    begin_file(Profile, flame_prof_samples:path(File), How).

%% @private Read the file that open/3 has opened.
-spec add(profile(), fun((Read :: non_neg_integer()) -> term())) -> ok | {error, term()}.
add(Profile, Progress) ->
    case flame_prof_report_nif:profile_step(Profile, ?STEP_BYTES) of
        {more, Read} ->
            _ = Progress(Read),
            add(Profile, Progress);
        done ->
            ok;
        {error, _} = Error ->
            Error
    end.

begin_file(_Profile, {error, _} = Error, _How) -> Error;
begin_file(Profile, {ok, Path}, {start, Kind}) ->
    flame_prof_report_nif:profile_begin(Profile, Path, Kind);
begin_file(Profile, {ok, Path}, {continue, Kind}) ->
    flame_prof_report_nif:profile_continue(Profile, Path, Kind).

%% @doc Facts about the profile: its samples, files, losses and memory.
-spec info(profile()) -> info() | {error, flame_prof:reason()}.
info(Profile) ->
    case flame_prof_report_nif:profile_info(Profile) of
        {error, Unusable} -> {error, {Unusable, #{}}};
        Info -> Info
    end.

%% @doc All processes that were sampled, in the order of their first samples. The
%% words of a process are its last ones.
-spec processes(profile()) -> [process()] | {error, flame_prof:reason()}.
processes(Profile) ->
    processes(Profile, 0).

processes(Profile, From) ->
    case flame_prof_report_nif:profile_processes(Profile, From, ?PROCESSES_AT_ONCE) of
        {error, Unusable} -> {error, {Unusable, #{}}};
        [] -> [];
        Some -> more(Some, processes(Profile, From + length(Some)))
    end.

more(_Some, {error, _} = Error) -> Error;
more(Some, More) -> Some ++ More.

%% @doc Stacks added up, the heaviest first, for tables of your own. `weight' and
%% `samples' are those of all of them, `count' is how many there are.
-spec stacks(profile(), export_options()) ->
    {ok, #{
        weight := non_neg_integer(),
        samples := non_neg_integer(),
        count := non_neg_integer(),
        stacks := [stack()]
    }}
    | {error, flame_prof:reason()}.
stacks(Profile, Given) ->
    case queries(Profile, none, Given) of
        {ok, [Query | _], Top} -> stacks(Profile, Query, most(Top));
        {error, _} = Error -> Error
    end.

stacks(Profile, Query, Most) ->
    case flame_prof_report_nif:profile_stacks(Profile, Query, Most) of
        {ok, {Weight, Samples, Count, Stacks}} ->
            {ok, #{weight => Weight, samples => Samples, count => Count, stacks => Stacks}};
        {error, Refusal} ->
            {error, refused(Refusal)}
    end.

%% @private Not files.
-spec is_profile(profile() | flame_prof_samples:files()) -> boolean().
is_profile(Profile) -> is_reference(Profile).

%% @private The longest calls that were seen at so many ticks, for {@link flame_prof_slow_calls}.
-spec calls(profile(), Ticks :: pos_integer(), Top :: pos_integer() | all) ->
    {ok, {Count :: non_neg_integer(), TickUs :: non_neg_integer(), [#{atom() => term()}]}}
    | {error, flame_prof:reason()}.
calls(Profile, Ticks, Top) ->
    case flame_prof_report_nif:profile_calls(Profile, Ticks, most(Top)) of
        {ok, _} = Ok -> Ok;
        {error, Refusal} -> {error, refused(Refusal)}
    end.

%% @private For {@link flame_prof_doctor_samples}.
-spec facts(profile()) ->
    {ok, {Processes :: [map()], Texts :: [tuple()], Figures :: [map()]}}
    | {error, flame_prof:reason()}.
facts(Profile) ->
    case flame_prof_report_nif:profile_facts(Profile) of
        {ok, _} = Ok -> Ok;
        {error, Refusal} -> {error, refused(Refusal)}
    end.

%% By the library; no file is at fault.
refused(Unusable) when Unusable =:= closed; Unusable =:= busy -> {Unusable, #{}};
refused({_, Why}) -> {memory, #{reason => Why}}.

most(all) -> 1 bsl 60;
most(Top) -> Top.

%% @doc Give the memory of a profile back now. Every call with it answers `{error, {closed,
%% #{}}}' afterwards, and `{error, {busy, #{}}}' while another process uses it.
-spec close(profile()) -> ok | {error, flame_prof:reason()}.
close(Profile) ->
    case flame_prof_report_nif:profile_close(Profile) of
        ok -> ok;
        {error, Unusable} -> {error, {Unusable, #{}}}
    end.

%% @equiv export(Profile, Format, Path, #{})
-spec export(profile(), format(), file:name_all()) ->
    {ok, #{atom() => non_neg_integer()}} | {error, flame_prof:reason()}.
export(Profile, Format, Path) ->
    export(Profile, Format, Path, #{}).

%% @doc Write a file for another tool. An existing file of this name is replaced. The answer has the
%% `bytes' of the file, and:
%%
%% <ul>
%% <li>`collapsed': a line for each stack, for FlameGraph, inferno and speedscope;
%%     `total' is the sum of all weights</li>
%% <li>`perf': `perf script' text with the weight as period: doc/format.md's
%%     weighted export. `samples' were written; of `moved' ones the time was moved
%%     by the rules of the format</li>
%% <li>`speedscope': its JSON, stacks added up</li>
%% <li>`pprof': gzipped protobuf with all metrics as value types: NAME_delta is the
%%     sum of changes, growth less release; NAME that of values. Labels are `pid',
%%     `name' and `status'</li>
%% <li>`firefox': the Firefox Profiler's JSON, compressed where the name ends in `.gz': a track for
%%     each process, the busiest first, its status as category and root frame, markers for changes
%%     of the status and garbage collections</li>
%% </ul>
-spec export(profile(), format(), file:name_all(), export_options()) ->
    {ok, #{atom() => non_neg_integer()}} | {error, flame_prof:reason()}.
export(Profile, Format, Path, Given) ->
    case lists:member(Format, flame_prof_query:formats()) of
        true -> export_as(Profile, Format, Path, queries(Profile, Format, Given));
        false ->
            Accepted = lists:join(", ", [atom_to_binary(F) || F <- flame_prof_query:formats()]),
            {error, flame_prof_error:option(format, Format, iolist_to_binary(Accepted))}
    end.

export_as(_Profile, _Format, _Path, {error, _} = Error) -> Error;
export_as(Profile, Format, Path, {ok, Queries, _Top}) -> write(Profile, Format, Path, Queries).

%% @private Write the index that the viewer loads (doc/dev/viewer_index.md).
-spec index(profile(), file:name_all()) ->
    {ok, #{bytes := non_neg_integer()}} | {error, flame_prof:reason()}.
index(Profile, Path) ->
    write(Profile, index, Path, [?EVERYTHING]).

%% @private Write the rows that the previous pieces lack (doc/dev/viewer_index.md). The first piece
%% is the whole index. `cpu_us' is the CPU time of reading and of all pieces so far.
-spec index_piece(profile(), file:name_all()) ->
    {ok, #{bytes := non_neg_integer(), cpu_us := non_neg_integer()}} | {error, flame_prof:reason()}.
index_piece(Profile, Path) ->
    write(Profile, index_piece, Path, [?EVERYTHING]).

%% @private Merge the samples of a process that have the same stack, in each interval. Only
%% {@link packed_index/2} accepts the result (doc/dev/viewer_index.md, Coarse). The interval of each
%% further call must be a multiple of the previous one.
-spec thin(profile(), IntervalUs :: pos_integer()) -> ok | {error, flame_prof:reason()}.
thin(Profile, IntervalUs) ->
    case flame_prof_report_nif:profile_thin(Profile, IntervalUs) of
        ok -> ok;
        {error, Unusable} -> {error, refused(Unusable)}
    end.

%% @private Write the index with packed rows, which compress well (doc/dev/viewer_index.md).
-spec packed_index(profile(), file:name_all()) ->
    {ok, #{bytes := non_neg_integer()}} | {error, flame_prof:reason()}.
packed_index(Profile, Path) ->
    write(Profile, packed_index, Path, [?EVERYTHING]).

write(Profile, Format, Path, Queries) ->
    case write_to(Profile, Format, flame_prof_samples:path(Path), Queries) of
        {ok, Facts} -> {ok, Facts};
        {error, Unusable} when is_atom(Unusable) -> {error, refused(Unusable)};
        {error, Reason} -> {error, flame_prof_error:file(Path, Reason)}
    end.

write_to(_Profile, _Format, {error, _} = Error, _Queries) -> Error;
write_to(Profile, Format, {ok, Path}, Queries) ->
    flame_prof_report_nif:profile_export(Profile, Format, Path, Queries).

queries(Profile, Format, Given) ->
    case {flame_prof_query:checked(Given), info(Profile)} of
        {{error, _} = Error, _} -> Error;
        {_, {error, _} = Error} -> Error;
        {{ok, #{top := Top} = Options}, Info} ->
            case flame_prof_query:make(Options, Format, Info, fun() -> processes(Profile) end) of
                {ok, Queries} -> {ok, Queries, Top};
                {error, _} = Error -> Error
            end
    end.

%% Options.

%% @private The files of a look.
-spec files_row() -> flame_prof_schema:row().
files_row() ->
    #{key => files, type => {own, fun(Files) -> {ok, Files} end, "a file, or a list of files"},
        word => "FILE", doc => "files of sessions, or of perf"}.

%% @private Of reading.
-spec read_rows() -> [flame_prof_schema:row()].
read_rows() ->
    [
        #{key => event, type => {own, fun event/1, "first, all, or the name of an event"},
            default => first, word => "NAME",
            doc => "of several events in files of perf: only its samples, or all"},
        #{key => max_memory, type => {whole, bytes, 1 bsl 20, (1 bsl 60) - 1},
            default => ?MAX_MEMORY, doc => "that reading may take"},
        #{key => progress, word => none,
            type => {own, fun progress/1, "a function of three arguments"},
            default => fun(_, _, _) -> ok end}
    ].

event(Choice) when Choice =:= first; Choice =:= all -> {ok, Choice};
event(Name) when is_atom(Name) -> error;
event(Name) ->
    try unicode:characters_to_binary(Name) of
        <<_, _/binary>> = Text -> {ok, Text};
        _ -> error
    catch
        error:badarg -> error
    end.

progress(Fun) when is_function(Fun, 3) -> {ok, Fun};
progress(_) -> error.
