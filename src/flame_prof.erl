%% @doc A sampling profiler for live Erlang nodes.
%%
%% It samples the 100 busiest processes about 110 times a second. Each sample has the process's
%% status, its stack and 16 metrics, among them reductions, message queue length and memory.
%% {@link help/0} prints the functions that answer most questions:
%%
%% ```
%% 1> flame_prof:doctor().                      % what is wrong, in sentences, after ten seconds
%% 2> flame_prof:profile(5000).                 % what is active, for five seconds
%% 3> flame_prof:top().                         % the busiest processes, live
%% 4> flame_prof:blame(gc, 3000).               % the callers of a function, here of the collector
%% '''
%%
%% A session in the background writes files, as Linux `perf script' text:
%%
%% ```
%% 5> {ok, _} = flame_prof:start(#{dir => "/tmp/prof"}).
%% 6> {ok, #{files := Files}} = flame_prof:stop().
%% 7> flame_prof:hot(Files).
%% 8> flame_prof:view("/tmp/prof").
%% '''
%%
%% A look answers one question about a node, this one or another one: `flame_prof:tables()',
%% `flame_prof:tables(#{by => growth, node => 'shop@myhost'})' print, and {@link look/2} has terms.
%%
%% `ht(flame_prof, options)' in the shell prints the {@link options()} of a session. All errors
%% are `{error, {Class, Details}}', and {@link format_error/1} makes a sentence of each.
%% doc/safety.md says what a session does in the node.
-module(flame_prof).

-export([help/0, profile/1, profile/2]).
-export([start/0, start/1, start/2, start_link/0, start_link/1, start_link/2]).
-export([stop/0, stop/1, stop/2, kill/0]).
-export([i/0, info/0, selected/0, metrics/0, flush/0, flush/1]).
%% Of flame_prof_original.
-export([apply/1, apply/2, profile_start/0, profile_start/1, profile_stop/0]).
-export([write_perf_map/0, fold/3, fold/4, view/1, view/2, view_stop/0, report/2]).
-export([look/2, format_error/1]).
%% Looks: `make options' writes these and their functions, below, out of their list.
-export([
    doctor/0, doctor/1, top/0, top/1, pstack/0, pstack/1, pstack/2, blame/1, blame/2, hot/1,
    hot/2, waits/0, waits/1, waits/2, mailbox/1, mailbox/2, slow_calls/1, slow_calls/2,
    latency/1, latency/2, trace/1, trace/2, memory/0, memory/1, xray/1, xray/2, binaries/0,
    binaries/1, tables/0, tables/1, allocations/0, allocations/1, allocations/2
]).

-export_type([options/0, process_options/0, status/0, run/0, info/0, reason/0]).

%% There is a BIF of that name.
-compile({no_auto_import, [apply/2]}).

-type options() :: flame_prof_options:given().
%% An option that is left out, `undefined' or `nil' has its default, in brackets. The same keys in
%% the application's environment (`sys.config') replace the defaults. doc/options.md has what each
%% accepts, and the older names, which are accepted, too.
%%
%% <ul>
%% <li>`dir': directory of the files; a missing directory is created (~/flame_prof)</li>
%% <li>`sample_interval': time between two samples of a process, in milliseconds (`9')</li>
%% <li>`flush_interval': time until a sample is in the file, in milliseconds (15000, or
%%     sample_interval + 1000)</li>
%% <li>`node_interval': time between two readings of the node metrics, in milliseconds (`5000')</li>
%% <li>`flushes_per_file': flushes to a file before the next file begins (`8')</li>
%% <li>`max_file_bytes': size at which the next file begins (`134217728')</li>
%% <li>`max_files': files of this node to keep in `dir', the open file included; the oldest finished
%%     files are deleted (`15')</li>
%% <li>`max_total_bytes': size of all files of this node in `dir'; a file is closed at a quarter of
%%     it (`1073741824')</li>
%% <li>`sync': when files are synchronized with the disk: at each `flush', at the `close' of a file,
%%     or when the kernel decides. Only a crash of the machine loses flushed samples (`close')</li>
%% <li>`compress': compression of the files (`zstd')</li>
%% <li>`coalesce_idle': write an unchanged waiting process once a second, with the number of
%%     observations as its weight (`false')</li>
%% <li>`cpu_budget': percent of one core that the native engine may use; beyond it the engine
%%     samples less (`2.0')</li>
%% <li>`memory_budget': memory of a session in bytes, outside of the VM's allocators (100663296, or
%%     142606336 with allocations)</li>
%% <li>`collapse_recursion': write neighbouring frames of one function as one frame (`true')</li>
%% <li>`select': processes to sample. `{top, N, Ms}': the N processes with the most reductions,
%%     selected again every Ms milliseconds (`{top, 100, 5000}')</li>
%% <li>`growers': further processes, at most a quarter of those of `select', whose queue or memory
%%     grew most since the previous selection (25 with {top, N}, 0 with maps)</li>
%% <li>`process_options': options of each selected process (`#{follow => none, status => all}')</li>
%% <li>`include': processes to sample in addition to `select'; a name is looked up several times a
%%     second (`[]')</li>
%% <li>`duration': time after which the session stops by itself, in milliseconds (`infinity')</li>
%% <li>`follow_limits': limits of `follow'; following ends when any limit is reached (`#{events =>
%%     100000, processes => 200, seconds => 60}')</li>
%% <li>`triggers': conditions that start a profile of bounded length; before that no file is written
%%     (`[]')</li>
%% <li>`lookback': milliseconds before a trigger whose samples the file includes; the session
%%     samples all the time and buffers in 5.5 MiB of memory (`0')</li>
%% <li>`mode': `processes': sample the selected processes. `schedulers', or `cpu': sample the
%%     process that each normal scheduler runs, so that shares are of CPU time (`processes')</li>
%% <li>`running_stacks': capture the stacks of running processes, by a signal to their schedulers;
%%     if that is impossible, `info/0' says why (`true')</li>
%% <li>`c_frames': write the C functions of running processes (`true')</li>
%% <li>`messages': write the message that each server has in work and the call that a process waits
%%     for: tags, pids and references; native engine only (`true')</li>
%% <li>`otel': write the trace id and the span id that OpenTelemetry keeps in the dictionary of a
%%     process; native engine only (`false')</li>
%% <li>`allocations': write which code allocates, to further files `*.erl_alloc.log'; `#{}' switches
%%     it on with its defaults (`off')</li>
%% <li>`engine': `native' reads memory, `portable' calls `process_info/2', `auto' chooses native if
%%     a check shows that it works (`auto')</li>
%% </ul>

-type process_options() :: flame_prof_options:process_given().
%% Of one process: `status' and `follow', see {@link flame_prof_original:profile_start/1}.

-type status() :: waiting | runnable | running | garbage_collecting | suspended | exiting.

-type run() :: flame_prof_info:run().
%% A session that has ended.

-type info() :: flame_prof_info:info().
%% The session that runs or has ended.

-type reason() ::
    flame_prof_error:reason().
%% `{Class, Details}'; {@link flame_prof_error} has the classes.

%% The caller of stop can wait for a slow disk. It is the waiting that ends then, not
%% the stopping.
-define(STOP_MS, 30000).
%% The first session of a node has to find the VM's layout.
-define(START_MS, 30000).
-define(TIMEOUT_MOST_MS, 16#ffffffff).
-define(TIMEOUT_ACCEPTED, <<"milliseconds from 0 to 4294967295, or infinity">>).
-define(IS_TIMEOUT(Ms),
    (Ms =:= infinity orelse (is_integer(Ms) andalso Ms >= 0 andalso Ms =< ?TIMEOUT_MOST_MS))
).
-define(FLUSH_MS, 15000).

%% @doc Prints the functions that answer most questions.
-spec help() -> ok.
help() ->
    io:put_chars(flame_prof_look_doc:help()).

%% @equiv profile(What, #{})
-spec profile(flame_prof_oneshot:what()) ->
    {ok, flame_prof_oneshot:done()} | {error, reason() | flame_prof_oneshot:unshown()}.
profile(What) ->
    profile(What, #{}).

%% @doc Runs a session of bounded length and prints what was active: for a number of
%% milliseconds, or while a function runs in the calling process. With a function it samples
%% the calling process and the processes that it spawns, every millisecond; options change that.
%%
%% ```
%% 1> flame_prof:profile(5000).
%% 2> flame_prof:profile(fun() -> my_cache:rebuild() end).
%% 3> flame_prof:profile({my_cache, rebuild, []}, #{by => reductions, report => "x.html"}).
%% '''
%%
%% The options are those of {@link start/1} and of {@link hot/2}, and `report', a file for
%% the page of {@link report/2}. The answer has the files, which stay, and a function's
%% `result'; so have the details of an error after the run. An exception of the function is
%% raised again, after the end of the session. Refused with `already_started' while a session runs:
%% {@link flush/0} and {@link hot/1} show its samples. Beside triggers it runs; they stay armed.
-spec profile(flame_prof_oneshot:what(), options() | flame_prof_tree:options() | map()) ->
    {ok, flame_prof_oneshot:done()} | {error, reason() | flame_prof_oneshot:unshown()}.
profile(What, Given) ->
    case flame_prof_oneshot:profile(What, Given) of
        {ok, #{files := Files} = Done, Hot} -> named(Files, shown(Done, hot(Files, Hot)));
        {error, {_, #{files := Files}}} = Error -> named(Files, Error);
        {error, _} = Error -> Error
    end.

shown(Done, ok) -> {ok, Done};
shown(Done, {error, _} = Error) -> flame_prof_oneshot:unshown(Error, Done).

named(Files, Answer) ->
    ok = io:format("~nSamples: ~ts~n", [lists:join(", ", Files)]),
    Answer.

%% @equiv start(#{})
-spec start() -> {ok, pid()} | {error, reason()}.
start() ->
    start(#{}).

%% @doc Starts a session with {@link options()}, and the application if it does not run. When an
%% option is refused, nothing starts. `start(Timeout)' is the original's name of
%% `start(#{}, Timeout)'.
-spec start(options() | timeout()) -> {ok, pid()} | {error, reason()}.
start(Timeout) when Timeout =:= infinity; is_integer(Timeout), Timeout >= 0 ->
    start(#{}, Timeout);
start(Given) ->
    start(Given, ?START_MS).

%% @doc The same. When the session has not started within `Timeout', the start is undone.
-spec start(options(), timeout()) -> {ok, pid()} | {error, reason()}.
start(Given, Timeout) ->
    start(Given, Timeout, none).

%% @equiv start_link(#{})
-spec start_link() -> {ok, pid()} | {error, reason()}.
start_link() ->
    start_link(#{}).

%% @doc As {@link start/1}, and the session ends with the calling process: it is
%% linked to it.
-spec start_link(options() | timeout()) -> {ok, pid()} | {error, reason()}.
start_link(Timeout) when Timeout =:= infinity; is_integer(Timeout), Timeout >= 0 ->
    start_link(#{}, Timeout);
start_link(Given) ->
    start_link(Given, ?START_MS).

%% @doc As {@link start/2}, and the session ends with the calling process: over `rpc' that is
%% at once.
-spec start_link(options(), timeout()) -> {ok, pid()} | {error, reason()}.
start_link(Given, Timeout) ->
    start(Given, Timeout, self()).

start(Given, Timeout, Owner) when ?IS_TIMEOUT(Timeout) ->
    case flame_prof_env:validate(Given) of
        {ok, Options} ->
            How = #{timeout => Timeout, owner => Owner},
            flame_prof_sup:start_session_with_application(Options, How);
        {error, _} = Error -> Error
    end;
start(_Given, Timeout, _Owner) ->
    {error, refused(timeout, Timeout, ?TIMEOUT_ACCEPTED)}.

%% @equiv stop(30000)
-spec stop() -> {ok, run()} | {error, reason()}.
stop() ->
    stop(?STOP_MS).

%% @doc Ends the session. Returns once the file is complete and closed, with the session's
%% counters. The error `file' has the number of samples that could not be written. After a
%% timeout, on a disk that does not answer, the session continues to end: {@link info/0} has the
%% unwritten samples as `pending', and stop can be called again.
%%
%% A session with triggers ends together with the profile that a trigger has started; the answer
%% is that of the last profile, with `triggers' as in {@link info/0}. With a pid instead of a
%% time it is {@link stop/2}; `stop(flame_prof)' is the original's name of `stop()'.
-spec stop(timeout() | pid() | flame_prof) -> {ok, run()} | {error, reason()}.
stop(Timeout) when Timeout =:= infinity; is_integer(Timeout) ->
    stop(?MODULE, Timeout);
stop(Session) when is_pid(Session); Session =:= ?MODULE ->
    stop(Session, ?STOP_MS);
stop(Session) ->
    {error, refused(session, Session, <<"the pid of a session, flame_prof, or milliseconds">>)}.

%% @doc Ends the session of this process. When a trigger has started it, the triggers stay active.
-spec stop(pid() | flame_prof, timeout()) -> {ok, run()} | {error, reason()}.
stop(_Session, Timeout) when not ?IS_TIMEOUT(Timeout) ->
    {error, refused(timeout, Timeout, ?TIMEOUT_ACCEPTED)};
stop(Session, Timeout) when is_pid(Session) ->
    case {whereis(flame_prof_session), whereis(flame_prof_triggers)} of
        {Session, _} -> flame_prof_session:stop(Session, Timeout);
        {_, Session} -> flame_prof_triggers:stop(Session, Timeout);
        _ -> {error, {not_started, #{}}}
    end;
stop(?MODULE, Timeout) ->
    case whereis(flame_prof_triggers) of
        undefined -> flame_prof_session:stop(current, Timeout);
        Triggers -> flame_prof_triggers:stop(Triggers, Timeout)
    end;
stop(Session, _Timeout) ->
    {error, refused(session, Session, <<"the pid of a session, or flame_prof">>)}.

refused(Argument, Value, Accepted) ->
    {badarg, #{argument => Argument, value => Value, accepted => Accepted}}.

%% @doc Ends what runs, a session or the waiting for triggers, at once: for an emergency.
%% What the disk does not take within half a second is lost, the file is whole, and
%% `last_run' of {@link info/0} has the counters. Returns within 3 seconds: a session that
%% has not reacted within 2 seconds is killed, and leaves no `last_run'.
-spec kill() -> ok | {error, reason()}.
kill() ->
    _ = [flame_prof_session:kill(P) || P <- [whereis(flame_prof_session_beside)], is_pid(P)],
    case {whereis(flame_prof_triggers), whereis(flame_prof_session)} of
        {undefined, undefined} -> {error, {not_started, #{}}};
        {undefined, Session} -> flame_prof_session:kill(Session);
        {Triggers, _} -> flame_prof_triggers:kill(Triggers)
    end.

%% @private
-spec apply(fun(() -> Result)) -> Result.
apply(Fun) -> flame_prof_original:apply(Fun).

%% @private
-spec apply(fun(() -> Result), process_options()) -> Result.
apply(Fun, Given) -> flame_prof_original:apply(Fun, Given).

%% @private
-spec profile_start() -> 1.
profile_start() -> flame_prof_original:profile_start().

%% @private
-spec profile_start(process_options()) -> 1.
profile_start(Given) -> flame_prof_original:profile_start(Given).

%% @private
-spec profile_stop() -> 0 | 1.
profile_stop() -> flame_prof_original:profile_stop().

%% @equiv flush(15000)
-spec flush() -> ok | {error, reason()}.
flush() ->
    flush(?FLUSH_MS).

%% @doc Writes all samples taken before the call to the file, where they survive the end of the
%% node; with `sync => flush' to the disk. When the file cannot be written, the error has the
%% reason, the samples are buffered, and the session tries again.
-spec flush(timeout()) -> ok | {error, reason()}.
flush(Timeout) when ?IS_TIMEOUT(Timeout) ->
    flame_prof_session:flush(Timeout);
flush(Timeout) ->
    {error, refused(timeout, Timeout, ?TIMEOUT_ACCEPTED)}.

%% @doc Prints {@link info/0} in eight lines: what runs, its rates, its losses, its file.
-spec i() -> ok.
i() ->
    io:put_chars(flame_prof_info:format(node(), info())).

%% @doc The running session, or the last one: state, engine and its reason, counters, rates.
-spec info() -> info().
info() ->
    flame_prof_info:info().

%% @doc The processes that the session samples now, each with its registered name or label (OTP
%% 27's `proc_lib:set_label/1') and its initial call.
-spec selected() -> [{pid(), Names :: unicode:chardata()}].
selected() ->
    flame_prof_info:selected().

%% @doc The counters of the running session as Prometheus text, to answer `/metrics' with, and
%% histograms of calls while {@link flame_prof_latency} measures some. Counters restart with each
%% session, histograms with each measurement.
-spec metrics() -> binary().
metrics() ->
    flame_prof_metrics:all().

%% @doc Writes `/tmp/perf-PID.map' with the names of all Erlang functions of this node for Linux
%% `perf', on a VM that was not started with `+JPperf'. It needs no session. `perf report' reads
%% the file, so call it at the end of a recording; modules that are loaded later are not in it.
%% {@link flame_prof_perf_map} has the steps with perf, and what the map leaves out.
-spec write_perf_map() -> {ok, flame_prof_perf_map:written()} | {error, reason()}.
write_perf_map() ->
    flame_prof_perf_map:write().

%% @equiv fold(Fun, Acc, Files, #{})
-spec fold(fun((flame_prof_samples:sample(), Acc) -> Acc), Acc, flame_prof_samples:files()) ->
    {ok, Acc, flame_prof_samples:counts()} | {error, reason()}.
fold(Fun, Acc, Files) ->
    flame_prof_samples:fold(Fun, Acc, Files).

%% @doc Calls Fun with each sample of one or more files, in order. See {@link flame_prof_samples}.
-spec fold(
    fun((flame_prof_samples:sample(), Acc) -> Acc),
    Acc,
    flame_prof_samples:files(),
    flame_prof_samples:options()
) -> {ok, Acc, flame_prof_samples:counts()} | {error, reason()}.
fold(Fun, Acc, Files, Options) ->
    flame_prof_samples:fold(Fun, Acc, Files, Options).

%% @equiv view(DirOrFile, #{})
-spec view(file:name_all()) -> {ok, flame_prof_view:started()} | {error, reason()}.
view(DirOrFile) ->
    view(DirOrFile, #{}).

%% @doc Shows the profiles of a directory, or one file, in a browser: heatmaps and flame graphs.
%% Prints the link, which has a token, and the `ssh' command to open it from another machine: the
%% server listens on 127.0.0.1, by `#{port => 8080}' on that port, 0: any free one. It runs until
%% {@link view_stop/0} or the end of the application.
-spec view(file:name_all(), flame_prof_view:options()) ->
    {ok, flame_prof_view:started()} | {error, reason()}.
view(DirOrFile, Options) ->
    case flame_prof_view:start(DirOrFile, Options) of
        {ok, Started} -> {io:put_chars(flame_prof_view:format(Started)), Started};
        {error, _} = Error -> Error
    end.

%% @doc Ends all viewers of this node.
-spec view_stop() -> ok.
view_stop() -> flame_prof_view:stop().

%% @doc Writes the viewer's page and the profile as one HTML file. Several files are one profile.
%% Reading takes memory of the calling node, at most 1 GiB. `bad' counts the damaged samples and
%% parts that are left out, `losses' says so in sentences. `samples' are those in the files, and
%% `observations' the number that they stand for, which the page shows. Of a long profile the page
%% has samples merged in intervals of `coarse_us': sums are exact, times are coarse.
-spec report(flame_prof_samples:files(), Out :: file:name_all()) ->
    {ok, flame_prof_report:written()} | {error, reason()}.
report(Files, Out) ->
    flame_prof_report:write(Files, Out).

%% @doc A sentence for the reason of any `{error, Reason}'.
-spec format_error(reason()) -> unicode:chardata().
format_error(Reason) ->
    flame_prof_error:format(Reason).

%% @doc The answer of a look as terms: {@link flame_prof_look} has what is the same for all looks.
%%
%% ```
%% 1> {ok, #{findings := Findings}} = flame_prof:look(doctor, #{for => 10000}).
%% 2> {ok, #{allocators := [_ | _]}} = flame_prof:look(memory, #{node => 'shop@myhost'}).
%% '''
-spec look(atom(), flame_prof_look:given()) -> {ok, term()} | {error, reason()}.
look(Name, Options) ->
    flame_prof_shell:look(Name, Options).

%% Looks: `make options' writes what follows.

%% @equiv doctor(#{})
-spec doctor() -> ok | {error, reason()}.
doctor() -> flame_prof_shell:print(flame_prof_doctor, []).

%% @doc What is wrong with a node, in sentences, the cause first. It is printed; {@link look/2} has
%% terms. Costs at most 2 % of one CPU for samples, and looks at waits of 15 to 65 ms of one CPU for
%% 100,000 processes, 11 of them. {@link flame_prof_doctor} has the options.
-spec doctor(
    node() | flame_prof_doctor:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
doctor(NodeOrOptions) -> flame_prof_shell:print(flame_prof_doctor, [NodeOrOptions]).

%% @equiv top(#{})
-spec top() -> ok | {ok, term()} | {error, reason()}.
top() -> flame_prof_shell:print(flame_prof_top, []).

%% @doc The first processes of a node by a column, live: rates, status, queue, memory and its
%% growth, and the function in which each was most often. It is printed; {@link look/2} has terms.
%% Costs a pass over all processes (0.1 to 0.3 microseconds each, 3 to 10 with a filter or by name).
%% {@link flame_prof_top} has the options.
-spec top(
    node() | flame_prof_top:options() | [{atom(), term()}]
) -> ok | {ok, term()} | {error, reason()}.
top(NodeOrOptions) -> flame_prof_shell:print(flame_prof_top, [NodeOrOptions]).

%% @equiv pstack(#{})
-spec pstack() -> ok | {error, reason()}.
pstack() -> flame_prof_shell:print(flame_prof_pstack, []).

%% @doc What every scheduler runs now, or the stacks of some processes, with BIFs, NIFs, C functions
%% and garbage collection. It is printed; {@link look/2} has terms. Costs some 5 ms and an
%% interruption of 6 microseconds for each scheduler; processes are not asked. {@link
%% flame_prof_pstack} has the options.
-spec pstack(
    flame_prof_pstack:processes() | flame_prof_pstack:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
pstack(Process) -> flame_prof_shell:print(flame_prof_pstack, [Process]).

%% @doc The same, with options beside the argument.
-spec pstack(
    flame_prof_pstack:processes(),
    flame_prof_pstack:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
pstack(Process, Options) ->
    flame_prof_shell:print(flame_prof_pstack, [Process, Options]).

%% @doc The callers of a function, by share, and the processes that ran it: of an Erlang function, a
%% BIF, a NIF, a C function, a library, or of garbage collection. It is printed; {@link look/2} has
%% terms. Costs a sample of each scheduler 1,000 times a second, 4,000 a second in all, and 4 MB a
%% second in a temporary folder. {@link flame_prof_blame} has the options.
-spec blame(
    flame_prof_blame:target() | flame_prof_blame:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
blame(Function) -> flame_prof_shell:print(flame_prof_blame, [Function]).

%% @doc The same, with options beside the argument.
-spec blame(
    flame_prof_blame:target(),
    flame_prof_blame:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
blame(Function, Options) ->
    flame_prof_shell:print(flame_prof_blame, [Function, Options]).

%% @doc What was active in files of a session: stacks as a tree, functions and processes. It is
%% printed; {@link look/2} has terms. Takes memory of the node in which the files are read: at most
%% max_memory. {@link flame_prof_tree} has the options.
-spec hot(
    flame_prof_samples:files() | flame_prof_tree:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
hot(Files) -> flame_prof_shell:print(flame_prof_tree, [Files]).

%% @doc The same, with options beside the argument.
-spec hot(
    flame_prof_samples:files(),
    flame_prof_tree:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
hot(Files, Options) ->
    flame_prof_shell:print(flame_prof_tree, [Files, Options]).

%% @equiv waits(#{})
-spec waits() -> ok | {error, reason()}.
waits() -> flame_prof_shell:print(flame_prof_waits, []).

%% @doc Which processes wait for which: chains, their ends, and deadlocks. It is printed; {@link
%% look/2} has terms. Costs 15 to 65 ms of one CPU for 100,000 processes; no process is interrupted.
%% {@link flame_prof_waits} has the options.
-spec waits(
    flame_prof_target:target() | flame_prof_waits:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
waits(Process) -> flame_prof_shell:print(flame_prof_waits, [Process]).

%% @doc The same, with options beside the argument.
-spec waits(
    flame_prof_target:target(),
    flame_prof_waits:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
waits(Process, Options) ->
    flame_prof_shell:print(flame_prof_waits, [Process, Options]).

%% @doc The mailbox of a process: messages by sender and by tag, the oldest messages, and their
%% memory. It is printed; {@link look/2} has terms. Costs up to the time limit on a dirty scheduler;
%% the process is not interrupted, and no message is copied. {@link flame_prof_mailbox} has the
%% options.
-spec mailbox(
    flame_prof_target:target() | flame_prof_mailbox:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
mailbox(Process) -> flame_prof_shell:print(flame_prof_mailbox, [Process]).

%% @doc The same, with options beside the argument.
-spec mailbox(
    flame_prof_target:target(),
    flame_prof_mailbox:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
mailbox(Process, Options) ->
    flame_prof_shell:print(flame_prof_mailbox, [Process, Options]).

%% @doc The longest calls between processes, in files of a session: how long, caller, callee,
%% request and both stacks. It is printed; {@link look/2} has terms. Takes memory of the node in
%% which the files are read: at most max_memory. {@link flame_prof_slow_calls} has the options.
-spec slow_calls(
    flame_prof_samples:files() | flame_prof_slow_calls:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
slow_calls(Files) -> flame_prof_shell:print(flame_prof_slow_calls, [Files]).

%% @doc The same, with options beside the argument.
-spec slow_calls(
    flame_prof_samples:files(),
    flame_prof_slow_calls:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
slow_calls(Files, Options) ->
    flame_prof_shell:print(flame_prof_slow_calls, [Files, Options]).

%% @doc How long calls of functions take: quantiles, a histogram, by process and by caller. It is
%% printed; {@link look/2} has terms. Traces the functions, within limits: at more than max_cpu or
%% max_rate it ends. {@link flame_prof_latency} has the options.
-spec latency(
    flame_prof_latency:functions() | flame_prof_latency:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
latency(Functions) -> flame_prof_shell:print(flame_prof_latency, [Functions]).

%% @doc The same, with options beside the argument.
-spec latency(
    flame_prof_latency:functions(),
    flame_prof_latency:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
latency(Functions, Options) ->
    flame_prof_shell:print(flame_prof_latency, [Functions, Options]).

%% @doc Calls, returns, exceptions, messages and the lives of processes as text: limited in rate,
%% number and size. It is printed; {@link look/2} has terms. Traces, within limits; an event beyond
%% the rate is dropped in 0.4 microseconds. {@link flame_prof_trace} has the options.
-spec trace(
    flame_prof_trace_spec:spec() | flame_prof_trace:options() | [{atom(), term()}]
) -> ok | {ok, term()} | {error, reason()}.
trace(Patterns) -> flame_prof_shell:print(flame_prof_trace, [Patterns]).

%% @doc The same, with options beside the argument.
-spec trace(
    flame_prof_trace_spec:spec(),
    flame_prof_trace:options() | [{atom(), term()}]
) -> ok | {ok, term()} | {error, reason()}.
trace(Patterns, Options) ->
    flame_prof_shell:print(flame_prof_trace, [Patterns, Options]).

%% @equiv memory(#{})
-spec memory() -> ok | {error, reason()}.
memory() -> flame_prof_shell:print(flame_prof_memory, []).

%% @doc The parts of the node's resident memory, and the size, use and fragmentation of each
%% allocator. It is printed; {@link look/2} has terms. Costs some milliseconds, more for each
%% gigabyte. Only the first look asks the schedulers. {@link flame_prof_memory} has the options.
-spec memory(
    node() | flame_prof_memory:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
memory(NodeOrOptions) -> flame_prof_shell:print(flame_prof_memory, [NodeOrOptions]).

%% @doc What a process holds: its memory by path and by type, and the binaries that it keeps. It is
%% printed; {@link look/2} has terms. Costs up to the time limit and max_memory on a dirty
%% scheduler; the process goes on. {@link flame_prof_xray} has the options.
-spec xray(
    flame_prof_target:target() | flame_prof_xray:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
xray(Process) -> flame_prof_shell:print(flame_prof_xray, [Process]).

%% @doc The same, with options beside the argument.
-spec xray(
    flame_prof_target:target(),
    flame_prof_xray:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
xray(Process, Options) ->
    flame_prof_shell:print(flame_prof_xray, [Process, Options]).

%% @equiv binaries(#{})
-spec binaries() -> ok | {error, reason()}.
binaries() -> flame_prof_shell:print(flame_prof_binaries, []).

%% @doc Processes and ETS tables that hold the refc binaries, their growth, and binaries kept by
%% small parts. It is printed; {@link look/2} has terms. Costs 50 ms of CPU for 100,000 binaries in
%% 1,000 processes, 0.3 s for 100,000 processes. No process is asked, stopped or collected, no table
%% is locked. {@link flame_prof_binaries} has the options.
-spec binaries(
    node() | flame_prof_binaries:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
binaries(NodeOrOptions) -> flame_prof_shell:print(flame_prof_binaries, [NodeOrOptions]).

%% @equiv tables(#{})
-spec tables() -> ok | {error, reason()}.
tables() -> flame_prof_shell:print(flame_prof_tables, []).

%% @doc The ETS tables: owner, objects, memory, growth; and the number of atoms, modules and
%% persistent terms. It is printed; {@link look/2} has terms. Costs 20 ms of CPU for 10,000 tables.
%% No table is locked or asked. {@link flame_prof_tables} has the options.
-spec tables(
    node() | flame_prof_tables:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
tables(NodeOrOptions) -> flame_prof_shell:print(flame_prof_tables, [NodeOrOptions]).

%% @equiv allocations(#{})
-spec allocations() -> ok | {error, reason()}.
allocations() -> flame_prof_shell:print(flame_prof_allocations, []).

%% @doc Which code allocates, by stack and by process, how much survives, and the garbage
%% collections. It is printed; {@link look/2} has terms. Traces the collections of some processes,
%% within max_cpu. {@link flame_prof_allocations} has the options.
-spec allocations(
    pos_integer() | flame_prof_allocations:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
allocations(For) -> flame_prof_shell:print(flame_prof_allocations, [For]).

%% @doc The same, with options beside the argument.
-spec allocations(
    pos_integer(),
    flame_prof_allocations:options() | [{atom(), term()}]
) -> ok | {error, reason()}.
allocations(For, Options) ->
    flame_prof_shell:print(flame_prof_allocations, [For, Options]).
