%% @doc A sampling profiler for Erlang nodes in production.
%%
%% Many times a second it looks at the busiest processes of this node: what each
%% is doing (its stack and its status) and how it fares (reductions, message
%% queue, memory, heaps). The samples go to a file of Linux `perf script' text,
%% which flame graph and heat map viewers read.
%%
%% ```
%% 1> flame_prof:start(#{basename => "/tmp/prof"}).
%% {ok,<0.92.0>}
%% 2> maps:with([state, engine, files], flame_prof:info()).
%% #{engine => native,state => running,
%%   files => [<<"/tmp/prof/2026-11-21@0154.07.erl_perf.log">>]}
%% 3> {ok, #{files := Files, taken := Taken}} = flame_prof:stop().
%% 4> flame_prof_hot:print(Files, #{by => reductions}).
%% '''
%%
%% Without options it samples the 100 busiest processes every 9 milliseconds and
%% writes to `~/flame_prof'; {@link options()} says what can be chosen.
%%
%% == Why it is safe in production ==
%% <ul>
%% <li>The native engine changes nothing in the node and traces nothing: a thread
%%     of its own reads the processes' memory through the kernel, which answers
%%     a bad address with an error and not with a crash. Where it has not found
%%     every field that it needs in exactly the place it expects, it does not
%%     run, and the portable engine does: with `process_info/2', taking at most
%%     half of one scheduler. {@link info/0} says which one runs, and why.</li>
%% <li>Nothing that it keeps grows with time. A tick that comes too late is left
%%     out, a sample that finds no room is dropped, and both are counted: the
%%     books of {@link info/0} balance, taken = written + torn + dropped + gone
%%     (+ pending while it runs).</li>
%% <li>No process ever waits for the disk. Files are for their owner's eyes only
%%     (mode 0600, in a directory of 0700).</li>
%% <li>A session ends with its process, however that ends; it is never started
%%     again by itself.</li>
%% </ul>
-module(flame_prof).

-export([start/0, start/1, start/2, start_link/0, start_link/1, start_link/2]).
-export([stop/0, stop/1, stop/2]).
-export([info/0, selected/0, metrics/0, flush/0, flush/1]).
-export([apply/1, apply/2, profile_start/0, profile_start/1, profile_stop/0]).
-export([write_perf_map/0]).
-export([format_error/1]).

-export_type([options/0, process_options/0, status/0, run/0, info/0, reason/0]).

%% There is a BIF of that name.
-compile({no_auto_import, [apply/2]}).

%% Every key may be left out or be `undefined': the default is in brackets.
%%
%% <ul>
%% <li>`basename': the directory of the files (`flame_prof' in `$HOME'). Missing
%%     ones are made.</li>
%% <li>`sample_interval': milliseconds between two ticks (9)</li>
%% <li>`flush_interval': milliseconds after which at the latest a sample is in the
%%     file (15000); at least `sample_interval' + 1000</li>
%% <li>`flush_close_max': flushes to one file before the next one is begun (8);
%%     `infinity'; 0 means `infinity'. Checked and kept, but without effect in this
%%     version: a session writes one file.</li>
%% <li>`files_max': files to keep in the directory (15), `infinity'. Checked and
%%     kept, but without effect in this version: no file is ever deleted.</li>
%% <li>`flatten_recursive': neighbouring frames of one function are shown as one
%%     (true)</li>
%% <li>`auto_select': `{top, N}' or `{top, N, Ms}', the N processes with the most
%%     reductions, chosen anew every Ms milliseconds (`{top, 100, 5000}'). With
%%     `{top, 0}' nobody is chosen. A map says more, and a list of maps is several
%%     choices at once: {@link flame_prof_selection}.</li>
%% <li>`auto_process_opts': `#{status => Status}' samples a process only while it
%%     has this status (`all'); `viral' lets profiling spread from those chosen, as
%%     in {@link profile_start/1} (`self_only')</li>
%% <li>`always': a pid or registered name, or a list of them: sampled whatever is
%%     chosen (`[]'). A name is looked up again several times a second.</li>
%% <li>`viral_limits': `#{processes => 200, events => 100000, seconds => 60}'.
%%     Spreading ends when so many were caught, so many messages were looked at, or
%%     tracing has lasted so long.</li>
%% <li>`engine': `native', `portable', or `auto', which takes the native one where
%%     it can be trusted (`auto')</li>
%% </ul>
%%
%% The same keys in the application's environment (`sys.config') replace the
%% defaults.
-type options() :: flame_prof_options:given().

%% Of one process: `status' and `viral', see {@link profile_start/1}.
-type process_options() :: flame_prof_options:process_given().

-type status() :: waiting | runnable | running | garbage_collecting | suspended | exiting.

%% A session that has ended. Counts are explained in doc/sampling.
-type run() ::
    #{
        state := stopped,
        files := [file:filename_all()],
        engine := flame_prof_engine:name(),
        why := binary(),
        options := flame_prof_options:options(),
        started_at := calendar:datetime(),
        elapsed_ms := non_neg_integer(),
        error := binary(),
        taken := non_neg_integer(),
        written := non_neg_integer(),
        torn := non_neg_integer(),
        dropped := non_neg_integer(),
        gone := non_neg_integer(),
        ticks := non_neg_integer(),
        missed := non_neg_integer(),
        rates := #{atom() => float()},
        atom() => term()
    }.

%% While a session runs: what {@link run()} has, with the counts in `books'.
%% Otherwise `#{state => stopped}', with `last_run' when there was one.
-type info() ::
    #{
        state := running | stopping | stopped,
        last_run => run(),
        books => #{atom() => integer()},
        atom() => term()
    }.

-type reason() ::
    {already_started, pid()}
    | flame_prof_options:error()
    | flame_prof_engine:refusal()
    | {session, Error :: atom(), Why :: binary()}
    | {perf_map, Error :: atom(), Why :: binary()}
    | {portable_engine, term()}
    | {application, term()}
    | not_started
    | stopping
    | {timeout, timeout()}
    | {session_ended, term()}
    | {Error :: atom(), Why :: binary()}
    | term().

%% Whoever stops can wait for a slow disk. It is the waiting that ends then, not
%% the stopping.
-define(STOP_MS, 30000).
%% The first session of a node has to find the VM's layout.
-define(START_MS, 30000).
-define(TIMEOUT_MOST_MS, 16#ffffffff).
-define(FLUSH_MS, 15000).

%% @equiv start(#{})
-spec start() -> {ok, pid()} | {error, reason()}.
start() ->
    start(#{}).

%% @doc Starts the application where needed, and a session. Nothing is started
%% when an option is refused. With a time instead of options: {@link start/2}.
-spec start(options() | timeout()) -> {ok, pid()} | {error, reason()}.
start(Timeout) when Timeout =:= infinity; is_integer(Timeout), Timeout >= 0 ->
    start(#{}, Timeout);
start(Given) ->
    start(Given, ?START_MS).

%% @doc Gives up, and leaves nothing behind, when the session has not started
%% within the time.
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

%% @doc As {@link start/2}, and the session ends with the calling process.
-spec start_link(options(), timeout()) -> {ok, pid()} | {error, reason()}.
start_link(Given, Timeout) ->
    start(Given, Timeout, self()).

start(Given, Timeout, Owner) when
    Timeout =:= infinity; is_integer(Timeout), Timeout >= 0, Timeout =< ?TIMEOUT_MOST_MS
->
    case flame_prof_options:validate(flame_prof_config:with_defaults(Given)) of
        {ok, Options} -> start_application(Options, #{timeout => Timeout, owner => Owner});
        {error, _} = Error -> Error
    end;
start(_Given, _Timeout, _Owner) ->
    {error, {bad_option, timeout, <<"milliseconds from 0 to 4294967295, or infinity">>}}.

start_application(Options, How) ->
    case application:ensure_all_started(flame_prof) of
        {ok, _} -> flame_prof_sup:start_session(Options, How);
        {error, Reason} -> {error, {application, Reason}}
    end.

%% @equiv stop(30000)
-spec stop() -> {ok, run()} | {error, reason()}.
stop() ->
    stop(?STOP_MS).

%% @doc Ends the session; all samples are in the file, and the file is closed,
%% when it answers. After a timeout the session goes on ending by itself:
%% {@link info/0} tells, and stop can be called again. With a pid, or the name
%% `flame_prof', instead of a time: {@link stop/2}.
-spec stop(timeout() | pid() | flame_prof) -> {ok, run()} | {error, reason()}.
stop(Timeout) when Timeout =:= infinity; is_integer(Timeout) ->
    stop(?MODULE, Timeout);
stop(Session) ->
    stop(Session, ?STOP_MS).

%% @doc Ends this session and no other.
-spec stop(pid() | flame_prof, timeout()) -> {ok, run()} | {error, reason()}.
stop(Session, Timeout) when is_pid(Session) ->
    case whereis(flame_prof_session) of
        Session -> flame_prof_session:stop(Session, Timeout);
        _ -> {error, not_started}
    end;
stop(?MODULE, Timeout) ->
    flame_prof_session:stop(current, Timeout).

%% @equiv apply(Fun, #{})
-spec apply(fun(() -> Result)) -> Result.
apply(Fun) ->
    ?MODULE:apply(Fun, #{}).

%% @doc Profiles the calling process while it evaluates the fun, whatever
%% `auto_select' chooses, and answers with the fun's result. Afterwards the
%% process is what it was before: calls may be nested. Raises what
%% {@link profile_start/1} does, before the fun is called; the end of the session
%% meanwhile does not disturb the fun.
-spec apply(fun(() -> Result), process_options()) -> Result.
apply(Fun, Given) when is_function(Fun, 0) ->
    Previous = enter(Given),
    try
        Fun()
    after
        leave(Previous)
    end.

%% @equiv profile_start(#{})
-spec profile_start() -> 1.
profile_start() ->
    profile_start(#{}).

%% @doc Profiles the calling process, whatever `auto_select' chooses, from the next
%% tick on, until {@link profile_stop/0} or its end. What is profiled with it says
%% `viral':
%% <ul>
%% <li>`spawn': also the processes that it spawns, and those spawn, and so on. This
%%     is the default here, and costs no tracing. One that lives for less than 0.2
%%     s may be missed.</li>
%% <li>`send': also the local processes that it sends to, and so on. Their sending
%%     is traced for that.</li>
%% <li>`spawn_and_send', or `true': both</li>
%% <li>`self_only', or `false': nobody else</li>
%% </ul>
%% The option `viral_limits' of the session bounds it. `status' is that of
%% `auto_process_opts'.
%%
%% Answers how many processes it has started to profile: 1. Raises
%% `{not_started, flame_prof}' where there is no session, and
%% `{bad_option, Key, Accepted}'.
-spec profile_start(process_options()) -> 1.
profile_start(Given) ->
    _ = enter(Given),
    1.

%% @doc Ends what {@link profile_start/1} has begun, for the calling process.
%% Those that were caught by it stay. Answers how many processes that were: 1, or 0
%% when it was not profiled. Never raises.
-spec profile_stop() -> 0 | 1.
profile_stop() ->
    case leave(none) of
        none -> 0;
        #{} -> 1
    end.

enter(Given) ->
    case flame_prof_options:process(Given, spawn) of
        {ok, Options} -> enter_session(Options);
        {error, Reason} -> error(Reason)
    end.

enter_session(Options) ->
    case flame_prof_session:targets() of
        {ok, Targets} -> flame_prof_targets:enter(Targets, Options);
        {error, _} -> error({not_started, ?MODULE})
    end.

%% Of a session that has ended there is nothing to leave.
leave(Previous) ->
    case flame_prof_session:targets() of
        {ok, Targets} ->
            try
                flame_prof_targets:leave(Targets, Previous)
            catch
                exit:_ -> none
            end;
        {error, _} ->
            none
    end.

%% @equiv flush(15000)
-spec flush() -> ok | {error, reason()}.
flush() ->
    flush(?FLUSH_MS).

%% @doc Every sample taken before the call is in the file when it answers.
-spec flush(timeout()) -> ok | {error, reason()}.
flush(Timeout) ->
    flame_prof_session:flush(Timeout).

%% @doc What runs, why it is this engine, and how the books stand.
-spec info() -> info().
info() ->
    case flame_prof_session:info() of
        {ok, Info} -> add_targets(Info);
        %% It answers at any time but while the application shuts it down.
        {error, {timeout, _}} -> #{state => stopping};
        {error, _} -> stopped(flame_prof_session:last_run())
    end.

add_targets(Info) ->
    case flame_prof_session:targets() of
        {ok, Targets} ->
            try
                Info#{targets => flame_prof_targets:info(Targets)}
            catch
                exit:_ -> Info
            end;
        {error, _} ->
            Info
    end.

stopped(none) -> #{state => stopped};
stopped(Run) -> #{state => stopped, last_run => Run}.

%% @doc Whom the session looks at now, each with its names for a person: registered
%% name or label (OTP 27's `proc_lib:set_label/1'), and what it was started as.
-spec selected() -> [{pid(), Names :: unicode:chardata()}].
selected() ->
    case flame_prof_session:targets() of
        {ok, Targets} -> [{Pid, shown(Pid)} || Pid <- selected(Targets)];
        {error, _} -> []
    end.

selected(Targets) ->
    try
        flame_prof_targets:selected(Targets)
    catch
        exit:_ -> []
    end.

shown(Pid) ->
    unicode:characters_to_binary(flame_prof_names:show(Pid)).

%% @doc The books of the running session in Prometheus' text form, for the answer
%% to a request for `/metrics'. Counters begin anew with each session.
%%
%% ```
%% # HELP flame_prof_up Whether a session is running.
%% # TYPE flame_prof_up gauge
%% flame_prof_up 1
%% '''
-spec metrics() -> binary().
metrics() ->
    flame_prof_metrics:format(info()).

%% @doc Writes `/tmp/perf-PID.map', where Linux `perf' looks for the names of code
%% that is in no file: every Erlang function of this node, on a VM that was not
%% started with `+JPperf'. No session is needed. The file shows the moment of the
%% call: call again for modules that are loaded later. `perf report' reads it when
%% it reports, so the end of a recording is a good time. Takes some 10 ms for 1,000
%% functions, on a dirty scheduler.
%%
%% ```
%% 1> flame_prof:write_perf_map().
%% {ok,#{bytes => 339800,file => <<"/tmp/perf-13449.map">>,
%%       functions => 8186,left_out => 0,memory => memfd}}
%% '''
%%
%% `memory => memfd' says that the VM maps its code twice, out of a memfd, as it
%% does by default. perf takes that for a file and does not ask the map. It does
%% once the mapping is renamed in the recording, to a name of the same length:
%%
%% ```
%% LC_ALL=C sed -i 's|/memfd:vmem (deleted)|//anon\x0\x0\x0\x0\x0\x0\x0\x0\x0\x0\x0\x0\x0\x0\x0|g' perf.data
%% '''
%%
%% Nothing of the kind is needed with `memory => anonymous', on a VM started with
%% `+JMsingle true' (not in OTP 25).
%%
%% The file is for its owner's eyes only (mode 0600), new each time, and put into
%% place by rename: a link that lies there is replaced and not followed. perf
%% believes it when it belongs to root or to whoever runs perf; root needs `perf
%% report -f' for another user's. PID is what the node's own pid namespace calls
%% it, and `/tmp' is its own: perf on a container's host looks there, under that
%% name, as long as the container runs.
%%
%% `left_out' counts functions that are still in memory but whose module was
%% purged, or replaced by another of the same name. Told by the MD5 of the current
%% code: purged code whose MD5 is the same stays in the file, and while a module
%% has old code every copy of it does. No process runs any of these.
%%
%% Refused where the native engine is, and where the VM writes the file itself
%% (`+JPperf true' or `map').
-spec write_perf_map() -> {ok, flame_prof_perf_map:written()} | {error, reason()}.
write_perf_map() ->
    flame_prof_perf_map:write().

%% @doc One sentence for a person, from the reason of any `{error, Reason}'.
-spec format_error(reason()) -> unicode:chardata().
format_error({bad_option, _, _} = Reason) ->
    flame_prof_options:format_error(Reason);
format_error({already_started, Pid}) ->
    io_lib:format("a session is running already, ~p", [Pid]);
format_error({native_engine, _, Text}) ->
    ["the native engine can not be used here: ", Text];
format_error({session, _, Text}) ->
    Text;
format_error({perf_map, _, Text}) ->
    Text;
format_error({not_started, _}) ->
    "no session is running";
format_error(not_started) ->
    "no session is running";
format_error(stopping) ->
    "the session is ending";
format_error({timeout, Ms}) ->
    io_lib:format("no answer within ~p ms; it goes on in the background", [Ms]);
format_error({_, Text}) when is_binary(Text) ->
    Text;
format_error(Reason) ->
    io_lib:format("~0tP", [Reason, 20]).
