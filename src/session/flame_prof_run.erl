%% @private What one run of the library's session is, in terms: its counters and rates, its
%% files, its description while it runs and after its end; and the calls to the servers
%% that own one. No process: flame_prof_session and flame_prof_remote_writer share it.
-module(flame_prof_run).

-export([counters/1, describe/3, ended/1, nothing/2, outcome/3]).
-export([without_captures/0, words/2]).
-export([files/3]).
-export([call/3, stop/2, kill/2, own/1]).

-export_type([counters/0, description/0, run/0, file_event/0, words/0]).

-type counters() :: #{atom() => non_neg_integer() | binary()}.
%% Of a run: `elapsed_ms', the groups `counters' and `rates', and what the owner adds.
-type description() :: #{atom() => term()}.
%% After the end: the description, with the counters beside the other keys.
-type run() :: #{atom() => term()}.
-type words() :: #{messages | otel | node_memory => on | {off, Why :: binary()}}.
-type file_event() :: begun | finished | removed.

%% @doc `pending' samples are between the engine and the file: 0 after the end. `dropped'
%% includes `lost', the samples that the file refused.
-spec counters(flame_prof_nif:session()) -> counters().
counters(Session) ->
    Counts = maps:without([state, path], flame_prof_nif:session_info(Session)),
    #{dropped := Refused, lost := Lost} = Counts,
    #{attempted := Attempted, written := Written, inconsistent := Inconsistent} = Counts,
    #{exited := Exited, evicted := Evicted} = Counts,
    Dropped = Refused + Lost,
    Pending = Attempted - Written - Inconsistent - Dropped - Exited - Evicted,
    Counts#{dropped := Dropped, pending => Pending}.

%% @doc `StartedMs' is monotonic time; `About' is what the owner knows.
-spec describe(flame_prof_nif:session(), StartedMs :: integer(), map()) -> description().
describe(Session, StartedMs, About) ->
    Counters = counters(Session),
    Elapsed = flame_prof_clock:now_ms() - StartedMs,
    About#{elapsed_ms => Elapsed, counters => Counters, rates => rates(Counters, Elapsed)}.

%% @doc The description of a run that has ended, counters beside the other keys.
-spec ended(description()) -> run().
ended(#{counters := Counters} = Description) ->
    maps:merge(maps:remove(counters, Description#{state => stopped}), Counters).

%% @doc The run of triggers that never fired: every count that a run has is 0.
-spec nothing(flame_prof_options:options(), flame_prof_engine:choice()) -> run().
nothing(Options, Choice) ->
    Names = [attempted, written, inconsistent, dropped, exited, evicted, pending, lost, ticks,
        missed, bytes, sampler_cpu_ns, writer_cpu_ns, handler_ns],
    Counters = maps:from_list([{Name, 0} || Name <- Names]),
    ended((maps:with([engine, engine_reason], Choice))#{
        options => Options,
        started_at => calendar:local_time(),
        elapsed_ms => 0,
        files => [],
        error => <<>>,
        counters => Counters,
        rates => rates(Counters, 0)
    }).

%% @doc What `stop' answers: after an error of the library at the place, with the number of
%% samples that it cost.
-spec outcome(ok | {error, {atom(), binary()}}, file:name_all(), run()) ->
    {ok, run()} | {error, flame_prof:reason()}.
outcome(ok, _Place, Run) ->
    {ok, Run};
outcome({error, Refusal}, Place, #{lost := Lost}) ->
    Reason = flame_prof_error:of_library(Refusal, Place),
    {error, flame_prof_error:add_lost(Reason, Lost)}.

%% @doc Why the portable engine has no stacks of running processes.
-spec without_captures() -> {off, binary()}.
without_captures() ->
    {off, <<"the portable engine sees running processes only from outside">>}.

%% @doc Which words of their own samples will have: `messages' and calls, `otel'. Without them all
%% else works as well.
-spec words(flame_prof_engine:name(), flame_prof_options:options()) -> words().
words(Engine, Options) ->
    #{messages => flame_prof_messages:state(Engine, Options), otel => otel(Engine, Options)}.

%% The native engine knows by now how this VM lays out a context.
otel(_Engine, #{otel := false}) ->
    {off, <<"not asked for">>};
otel(portable, _Options) ->
    {off, <<"needs the native engine: process_info/2 would copy the whole dictionary">>};
otel(native, _Options) ->
    case flame_prof_nif:layout_info() of
        #{otel := true} -> on;
        _ -> {off, <<"the terms of a context are not laid out as expected in this VM">>}
    end.

rates(Counters, ElapsedMs) ->
    #{ticks := Ticks, missed := Missed, attempted := Attempted, bytes := Bytes} = Counters,
    #{sampler_cpu_ns := SamplerNs, writer_cpu_ns := WriterNs, handler_ns := HandlerNs} = Counters,
    Seconds = max(1, ElapsedMs) / 1000,
    #{
        ticks_per_second => rounded(Ticks / Seconds),
        samples_per_second => rounded(Attempted / Seconds),
        bytes_per_second => rounded(Bytes / Seconds),
        missed_percent => rounded(100 * Missed / max(1, Ticks + Missed)),
        %% Of one core.
        sampler_cpu_percent => rounded(SamplerNs / 1.0e7 / Seconds),
        writer_cpu_percent => rounded(WriterNs / 1.0e7 / Seconds),
        %% Of one core, spent on the schedulers themselves.
        handler_cpu_percent => rounded(HandlerNs / 1.0e7 / Seconds)
    }.

rounded(Float) ->
    round(Float * 100) / 100.

%% @doc The files that exist after the library's event, the newest first.
-spec files(file_event(), Path :: binary(), [binary()]) -> [binary()].
files(begun, Path, Files) -> [Path | Files];
files(finished, Path, Files) -> [Path | Files -- in_progress(Files)];
files(removed, Path, Files) -> lists:delete(Path, Files).

%% The newest one, if it is.
in_progress([Path | _]) ->
    case filename:extension(Path) of
        <<".part">> -> [Path];
        _ -> []
    end;
in_progress([]) ->
    [].

%% @doc The server's answer; `timeout', `not_started' or `session_ended' where it has none.
-spec call(gen_server:server_ref(), term(), timeout()) -> term().
call(Server, Request, Timeout) ->
    try
        gen_server:call(Server, Request, Timeout)
    catch
        exit:{timeout, _} -> {error, timeout_error(Request, Timeout)};
        exit:{Reason, _} when Reason =:= noproc; Reason =:= normal -> {error, {not_started, #{}}};
        exit:{Reason, _} -> {error, flame_prof_error:of_exit(Reason)}
    end.

timeout_error(Request, Ms) when Request =:= stop; Request =:= flush ->
    {timeout, #{ms => Ms, request => Request}};
timeout_error(_Request, Ms) ->
    {timeout, #{ms => Ms}}.

%% @doc The answer to `stop', once the server has ended, so that another can be started.
%% The server itself, in a handler of logger, gets no more than its end begun.
-spec stop(pid(), timeout()) -> term().
stop(Pid, _Timeout) when Pid =:= self() ->
    ok = gen_server:cast(Pid, stop),
    {error, {stopping, #{}}};
stop(Pid, Timeout) ->
    Monitor = erlang:monitor(process, Pid),
    case call(Pid, stop, Timeout) of
        {error, {timeout, _}} = Error ->
            _ = erlang:demonitor(Monitor, [flush]),
            Error;
        Answer ->
            receive
                {'DOWN', Monitor, process, _, _} -> Answer
            end
    end.

%% @doc Asks the server to end at once, which is no crash; kills it where it does not.
-spec kill(pid(), Ms :: pos_integer()) -> ok.
kill(Pid, Ms) ->
    Monitor = erlang:monitor(process, Pid),
    ok = gen_server:cast(Pid, kill),
    receive
        {'DOWN', Monitor, process, _, _} -> ok
    after Ms ->
        %% Its processes first: they would report its end as a crash of their own.
        %% The portable engine has to restore what it has set in the VM.
        Engine = {flame_prof_portable, init, 1},
        _ = [exit(P, kill) || P <- own(Pid) ++ [Pid], initial_call(P) =/= Engine],
        receive
            {'DOWN', Monitor, process, _, _} -> ok
        end
    end.

%% @doc The processes that a session has started for itself.
-spec own(pid()) -> [pid()].
own(Pid) ->
    {links, Links} = info(Pid, links, []),
    [Link || Link <- Links, is_pid(Link), is_own(Link, Pid)].

is_own(Process, Parent) ->
    {registered_name, Name} = info(Parent, registered_name, none),
    lists:member(hd(word(Process, '$ancestors', [none])), [Parent, Name]).

initial_call(Process) -> word(Process, '$initial_call', none).

word(Process, Word, Default) ->
    {dictionary, Words} = info(Process, dictionary, []),
    proplists:get_value(Word, Words, Default).

info(Pid, Item, Default) ->
    case process_info(Pid, Item) of
        {Item, _} = Info -> Info;
        _ -> {Item, Default}
    end.
