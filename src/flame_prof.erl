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

-export([start/0, start/1, stop/0, stop/1]).
-export([info/0, flush/0, flush/1]).
-export([fold/3, fold/4]).
-export([view/1, report/2]).
-export([format_error/1]).

-export_type([options/0, status/0, run/0, info/0, reason/0]).

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
%%     `{top, 0}' nothing is sampled.</li>
%% <li>`auto_process_opts': `#{status => Status}' samples a process only while it
%%     has this status (`all')</li>
%% <li>`engine': `native', `portable', or `auto', which takes the native one where
%%     it can be trusted (`auto')</li>
%% </ul>
%%
%% The same keys in the application's environment (`sys.config') replace the
%% defaults.
-type options() :: flame_prof_options:given().

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
-define(FLUSH_MS, 15000).

%% @equiv start(#{})
-spec start() -> {ok, pid()} | {error, reason()}.
start() ->
    start(#{}).

%% @doc Starts the application where needed, and a session. Nothing is started
%% when an option is refused.
-spec start(options()) -> {ok, pid()} | {error, reason()}.
start(Given) ->
    case flame_prof_options:validate(with_environment(Given)) of
        {ok, Options} -> start_application(Options);
        {error, _} = Error -> Error
    end.

start_application(Options) ->
    case application:ensure_all_started(flame_prof) of
        {ok, _} -> flame_prof_sup:start_session(Options);
        {error, Reason} -> {error, {application, Reason}}
    end.

with_environment(Given) when is_map(Given) ->
    %% The environment is there once the application is loaded.
    _ = application:load(flame_prof),
    Environment = maps:from_list(application:get_all_env(flame_prof)),
    maps:merge(maps:remove(included_applications, Environment), Given);
with_environment(Given) ->
    Given.

%% @equiv stop(30000)
-spec stop() -> {ok, run()} | {error, reason()}.
stop() ->
    stop(?STOP_MS).

%% @doc Ends the session; all samples are in the file, and the file is closed,
%% when it answers. After a timeout the session goes on ending by itself:
%% {@link info/0} tells, and stop can be called again.
-spec stop(timeout()) -> {ok, run()} | {error, reason()}.
stop(Timeout) ->
    flame_prof_session:stop(Timeout).

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
        {ok, Info} -> Info;
        %% It answers at any time but while the application shuts it down.
        {error, {timeout, _}} -> #{state => stopping};
        {error, _} -> stopped(flame_prof_session:last_run())
    end.

stopped(none) -> #{state => stopped};
stopped(Run) -> #{state => stopped, last_run => Run}.

%% @equiv fold(Fun, Acc, Files, #{})
-spec fold(fun((flame_prof_samples:sample(), Acc) -> Acc), Acc, flame_prof_samples:files()) ->
    {ok, Acc, flame_prof_samples:counts()} | {error, reason()}.
fold(Fun, Acc, Files) ->
    flame_prof_samples:fold(Fun, Acc, Files).

%% @doc Calls Fun with each sample of a file, or of several, in order: for
%% analyses of your own. See {@link flame_prof_samples}.
-spec fold(
    fun((flame_prof_samples:sample(), Acc) -> Acc),
    Acc,
    flame_prof_samples:files(),
    flame_prof_samples:options()
) -> {ok, Acc, flame_prof_samples:counts()} | {error, reason()}.
fold(Fun, Acc, Files, Options) ->
    flame_prof_samples:fold(Fun, Acc, Files, Options).

%% @doc Shows the profiles of a directory, or one file, in a browser on this machine:
%% heatmaps and flame graphs. Prints the link, without which nothing is shown to
%% anybody; nothing can be changed through it. It goes on when the shell ends, until
%% `flame_prof_view:stop(Pid)'.
-spec view(file:name_all()) -> {ok, #{pid := pid(), url := binary()}} | {error, reason()}.
view(DirOrFile) ->
    case flame_prof_view:start(DirOrFile) of
        {ok, #{url := Url}} = Started ->
            io:format("~ts~n", [Url]),
            Started;
        {error, _} = Error ->
            Error
    end.

%% @doc Writes the same page with the profile in it, one HTML file that opens from
%% disk. Several files are one profile.
-spec report(flame_prof_samples:files(), Out :: file:name_all()) ->
    {ok, #{bytes := non_neg_integer(), samples := non_neg_integer()}} | {error, reason()}.
report(Files, Out) ->
    flame_prof_report:write(Files, Out).

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
