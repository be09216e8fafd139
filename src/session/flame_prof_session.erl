%% @private One profiling run: owns the library's session, answers for it.
%%
%% ```
%%            stop                       portable engine ended
%%  running --------> halting -------------------------------> closing
%%     |    (portable)                                          ^   |
%%     +--------------------------------------------------------+   | {stopped, _}
%%       stop (native), or the portable engine failed               v
%%                                                          the process ends
%% '''
%%
%% No call blocks this process: flush and stop are asked of the library, which
%% sends a message when it is done, and the callers wait meanwhile. Only init/1
%% and a shutdown by the supervisor wait. When this process dies, whatever the
%% way, the library's threads end and the file is closed, because it is the
%% session's owner; the portable engine is linked.
-module(flame_prof_session).

-behaviour(gen_server).

-include("flame_prof_internal.hrl").
-include_lib("kernel/include/logger.hrl").

-export([start_link/2, flush/1, follow/1, stop/2, kill/1, info/1, targets/1]).
-export([commit/2, end_soon/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([how/0]).

%% `lookback_ms': what is sampled is kept in memory for so long, and written from
%% commit/2 on. `note': why it was started, for the file and for info/0.
-type how() ::
    #{
        timeout := timeout(),
        owner := none | pid(),
        name => flame_prof_session | flame_prof_session_beside,
        %% The session ends with it, which is not linked.
        caller => pid(),
        lookback_ms => pos_integer(),
        note => binary(),
        %% Of a flame_prof_remote_sampler.
        remote_writer => pid()
    }.

-record(session, {
    owner = none :: none | pid(),
    caller = none :: none | reference(),
    targets :: pid(),
    %% Of this session, not to be sampled.
    own :: [pid()],
    options :: flame_prof_options:options(),
    choice :: flame_prof_engine:choice(),
    node :: pid(),
    ref :: undefined | flame_prof_nif:session(),
    started_at :: calendar:datetime(),
    started_ms :: integer(),
    phase = running :: running | halting | closing | closed,
    %% Nothing has been written yet, and nothing will be before commit/2.
    has_lookback = false :: boolean(),
    trigger = none :: none | binary(),
    portable = none :: none | flame_prof_portable:engine(),
    schedulers = {off, <<>>} :: flame_prof_schedulers:use(),
    words = #{} :: flame_prof_run:words(),
    allocations = {none, {off, <<>>}} :: flame_prof_session_allocations:allocations(),
    failure = none :: none | {targets | portable_engine | library, term()},
    %% Of this session and still there, the newest first.
    files = [] :: [binary()],
    %% Why no file takes bytes now; empty when one does.
    trouble = <<>> :: binary(),
    %% The counters when the losses were last looked at, and whether they were logged.
    looked_at = none :: none | map(),
    are_losses_logged = false :: boolean(),
    flushing = #{} :: #{Ticket :: pos_integer() => gen_server:from()},
    stopping = [] :: [gen_server:from()]
}).

%% The portable engine's last tick is over by then, unless a process that it
%% asks does not answer.
-define(HALT_MS, 1000).
%% Time for the disk at a shutdown of the application.
-define(CLOSE_MS, 10000).

%% Time for the disk and the session in kill/1.
-define(KILL_CLOSE_MS, 500).
-define(KILL_MS, 2000).
-define(SCHEDULERS_MS, 1000).

%% @doc A session that has not started within the time is given up. It is linked to
%% its owner, and ends with it.
-spec start_link(flame_prof_options:options(), how()) -> {ok, pid()} | {error, term()}.
start_link(Options, #{timeout := Timeout} = How) ->
    Name = {local, maps:get(name, How, ?MODULE)},
    case gen_server:start_link(Name, ?MODULE, {Options, How}, [{timeout, Timeout}]) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

%% @doc A page follows this file. If it is the session's, the samples reach it each second for some
%% time, and not only at each flush.
-spec follow(file:filename_all()) -> ok.
follow(Path) ->
    gen_server:cast(?MODULE, {follow, filename:basename(Path)}).

-spec flush(timeout()) -> ok | {error, flame_prof:reason()}.
flush(Timeout) ->
    call(flush, Timeout).

%% @doc Returns when the process has ended, so that another can be started.
-spec stop(current | pid(), timeout()) ->
    {ok, flame_prof_run:run()} | {error, flame_prof:reason()}.
stop(current, Timeout) ->
    stop(whereis(?MODULE), Timeout);
stop(undefined, _Timeout) ->
    {error, {not_started, #{}}};
stop(Pid, Timeout) ->
    flame_prof_run:stop(Pid, Timeout).

%% @doc Writes what it holds, and all that comes from now on.
-spec commit(pid(), Note :: binary()) -> ok | {error, flame_prof:reason()}.
commit(Pid, Note) ->
    flame_prof_run:call(Pid, {commit, Note}, 5000).

%% @doc Only asks: a linked process hears of the end.
-spec end_soon(pid()) -> ok.
end_soon(Pid) ->
    gen_server:cast(Pid, stop).

%% @doc What the disk does not take at once is lost. Returns when the process has ended.
-spec kill(pid()) -> ok.
kill(Pid) ->
    flame_prof_run:kill(Pid, ?KILL_MS).

%% @doc And the process that knows what is sampled, while that is running.
-spec info(timeout()) ->
    {ok, map(), Targets :: none | pid()} | {error, flame_prof:reason()}.
info(Timeout) ->
    call(info, Timeout).

%% @doc The process that selects what this session samples: flame_prof_targets.
-spec targets(current | pid()) -> {ok, pid()} | {error, flame_prof:reason()}.
targets(current) -> call(targets, 5000);
targets(Session) -> flame_prof_run:call(Session, targets, 5000).

call(Request, Timeout) ->
    flame_prof_run:call(?MODULE, Request, Timeout).

%% Start: the engine, the directory, the library's session, the portable engine.

-spec init({flame_prof_options:options(), how()}) -> {ok, #session{}} | {stop, term()}.
init({Options, How}) ->
    _ = process_flag(trap_exit, true),
    %% Its work is short, and a busy node would delay each step of a start or an end.
    _ = process_flag(priority, high),
    case flame_prof_engine:choose(maps:get(engine, Options)) of
        {ok, Choice} ->
            ok = log_choice(Options, Choice),
            started(How, open_within_memory(Options, Choice, How));
        {error, Reason} ->
            refused(Reason)
    end.

%% Linked only now: the caller that starts a session that cannot be gets an answer, and no
%% signal.
started(#{owner := Owner} = How, {ok, #session{options = #{duration := Duration}} = State}) ->
    _ = [link(Owner) || is_pid(Owner)],
    Caller = hd([monitor(process, Pid) || #{caller := Pid} <- [How]] ++ [none]),
    _ = [flame_prof_clock:send_after(Duration, duration_is_over) || Duration =/= infinity],
    ok = tell_started(State),
    {ok, State#session{owner = Owner, caller = Caller}};
started(_How, {error, Reason}) ->
    refused(Reason).

tell_started(#session{has_lookback = true}) ->
    ok;
tell_started(State) ->
    flame_prof_event:session_started(describe(State), State#session.trigger).

%% Not a crash to be reported: the caller that starts a session gets the reason.
refused(Reason) ->
    {stop, {shutdown, {refused, Reason}}}.

log_choice(#{engine := auto}, #{engine := portable, engine_reason := Why}) ->
    ?LOG_NOTICE("flame_prof does not use its native engine; ~ts", [Why], ?QUIET_META);
log_choice(_, _) ->
    ok.

open_within_memory(Options, #{engine := Engine} = Choice, How) ->
    case flame_prof_memory_budget:check(Engine, Options) of
        ok -> open(Options, Choice, How);
        {error, _} = Error -> Error
    end.

open(Options, #{engine := Engine} = Choice, How) ->
    Schedulers = flame_prof_engine:schedulers(Engine, Options),
    case flame_prof_engine:usable(Engine, Options, Schedulers) of
        ok -> open(Options, Choice, How, {Schedulers, flame_prof_run:words(Engine, Options)});
        {error, _} = Error -> Error
    end.

open(#{dir := Directory} = Options, Choice, How, Asked) ->
    case make_parents(flame_prof_config:absolute(Directory)) of
        ok -> open_in_folder(Options, Choice, How, Asked);
        {error, _} = Error -> Error
    end.

open_in_folder(Options, #{engine := Engine} = Choice, How, {Schedulers, Words}) ->
    Node = flame_prof_node:start_link(),
    Targets = start_targets(Engine, Options, Node),
    %% First: its processes are not to be sampled.
    Allocations = flame_prof_session_allocations:start(Options, How),
    #{messages := Found, otel := Otel} = Words,
    {Finder, Messages} = flame_prof_messages:start_link(Engine, Options, Found),
    Own = [Pid || Pid <- [Node, Finder], is_pid(Pid)] ++ flame_prof_targets:processes(Targets),
    Config = (maps:merge(
        flame_prof_config:session(Engine, Options, element(1, Schedulers) =:= on, Own),
        maps:with([lookback_ms, note], How)
    ))#{messages => flame_prof_messages:config(Messages, Finder), otel => Otel =:= on},
    State = #session{
        targets = Targets,
        own = Own,
        options = Options,
        choice = Choice,
        node = Node,
        schedulers = Schedulers,
        words = Words#{messages := Messages},
        allocations = Allocations,
        has_lookback = is_map_key(lookback_ms, How),
        trigger = maps:get(note, How, none),
        started_at = calendar:local_time(),
        started_ms = flame_prof_clock:now_ms()
    },
    opened(flame_prof_nif:session_start(Config), State).

opened({ok, Ref}, #session{choice = #{engine := Engine}, schedulers = Schedulers} = State) ->
    #{path := Path} = flame_prof_nif:session_info(Ref),
    ok = watch_schedulers(Schedulers),
    ok = watch_losses(State),
    Files = [Path || Path =/= <<>>],
    attach_targets(start_engine(Engine, State#session{ref = Ref, files = Files}));
opened({error, Refusal}, #session{options = #{dir := Directory}}) ->
    {error, flame_prof_error:of_library(Refusal, Directory)}.

%% Schedulers come and go without a message.
watch_schedulers({on, _}) ->
    _ = flame_prof_clock:send_after(?SCHEDULERS_MS, schedulers),
    ok;
watch_schedulers({off, _}) ->
    ok.

watch_losses(#session{options = #{flush_interval := FlushMs}}) ->
    _ = flame_prof_clock:send_after(FlushMs, look_at_losses),
    ok.

%% The native engine does the rankings without filters itself.
start_targets(Engine, #{select := Select} = Options, Node) ->
    Rules = flame_prof_selection:rules(Select),
    flame_prof_targets:start_link(#{
        options => Options,
        rules => [R || R <- Rules, Engine =:= native, flame_prof_selection:is_filtered(R)],
        exclude => [Node | flame_prof_config:own_processes()]
    }).

attach_targets({ok, #session{targets = Targets, portable = none, ref = Ref}} = Started) ->
    ok = flame_prof_targets:attach(Targets, {native, Ref}),
    Started;
attach_targets({ok, #session{targets = Targets, portable = Engine}} = Started) ->
    ok = flame_prof_targets:attach(Targets, {portable, Engine}),
    Started;
attach_targets({error, _} = Error) ->
    Error.

start_engine(native, State) ->
    {ok, watched(State)};
start_engine(portable, #session{options = Options, ref = Ref, own = Own} = State) ->
    case start_portable(Ref, Options, Own) of
        {ok, Engine} ->
            {ok, watched(State#session{portable = Engine})};
        {error, Reason} ->
            ok = close_now(State, ?CLOSE_MS),
            {error, flame_prof_engine:portable_error(Reason)}
    end.

start_portable(Ref, Options, Own) ->
    Transport = flame_prof_transport:library(Ref),
    flame_prof_portable:start_link(flame_prof_config:portable(Transport, Options, Own)).

%% The node's own figures, for each flush.
watched(#session{ref = Ref, node = Node, choice = #{engine := Engine}} = State) ->
    ok = flame_prof_node:watch(Node, flame_prof_transport:library(Ref), Engine,
        State#session.options),
    State.

%% The library makes the directory itself, for its user's eyes only.
make_parents(Directory) ->
    Parent = filename:dirname(Directory),
    %% The server of files, which may hang in another file, is asked where it has to be made.
    case filelib:is_dir(Parent, prim_file) orelse filelib:ensure_dir(Directory) of
        {error, Reason} -> {error, flame_prof_error:file(Parent, Reason)};
        _ -> ok
    end.

%% Calls and messages.

-spec handle_call(term(), gen_server:from(), #session{}) ->
    {noreply, #session{}} | {reply, term(), #session{}}.
handle_call(info, _From, #session{phase = running, targets = Targets} = State) ->
    {reply, {ok, describe(State), Targets}, State};
handle_call(info, _From, State) ->
    {reply, {ok, describe(State), none}, State};
handle_call(targets, _From, #session{phase = running, targets = Targets} = State) ->
    {reply, {ok, Targets}, State};
handle_call(targets, _From, State) ->
    {reply, {error, {stopping, #{}}}, State};
handle_call({commit, Note}, _From, #session{phase = running, has_lookback = true} = State) ->
    #session{ref = Ref} = State,
    case flame_prof_nif:session_commit(Ref, Note) of
        ok ->
            Committed = State#session{has_lookback = false, trigger = Note},
            ok = flame_prof_session_allocations:commit(State#session.allocations, Note),
            ok = tell_started(Committed),
            {reply, ok, Committed};
        {error, _} ->
            {reply, {error, {stopping, #{}}}, State}
    end;
handle_call({commit, _Note}, _From, State) ->
    {reply, {error, {stopping, #{}}}, State};
handle_call(flush, _From, #session{has_lookback = true} = State) ->
    {reply, {error, {armed, #{}}}, State};
handle_call(flush, From, #session{phase = running, ref = Ref, flushing = Flushing} = State) ->
    case flame_prof_nif:session_flush(Ref) of
        {error, closed} ->
            {reply, {error, {stopping, #{}}}, State};
        Ticket ->
            ok = flame_prof_session_allocations:flush(State#session.allocations),
            {noreply, State#session{flushing = Flushing#{Ticket => From}}}
    end;
handle_call(flush, _From, State) ->
    {reply, {error, {stopping, #{}}}, State};
handle_call(stop, From, #session{stopping = Callers} = State) ->
    {noreply, begin_stop(State#session{stopping = [From | Callers]})};
handle_call(_, _From, State) ->
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #session{}) -> {noreply, #session{}} | {stop, term(), #session{}}.
handle_cast(stop, State) ->
    {noreply, begin_stop(State)};
handle_cast({follow, Name}, #session{phase = running, ref = Ref, files = [Path | _]} = State) ->
    _ = filename:basename(Path) =:= Name andalso flame_prof_nif:session_follow(Ref),
    ok = flame_prof_session_allocations:follow(State#session.allocations, Name),
    {noreply, State};
handle_cast(kill, State) ->
    ok = close_now(State, ?KILL_CLOSE_MS),
    {stop, {shutdown, killed}, State#session{phase = closed}};
handle_cast(_, State) ->
    {noreply, State}.

-spec handle_info(term(), #session{}) -> {noreply, #session{}} | {stop, term(), #session{}}.
handle_info({flame_prof_nif, Ref, {flushed, Ticket, Result}}, #session{ref = Ref} = State) ->
    {noreply, flushed(Ticket, Result, State)};
handle_info({flame_prof_nif, Ref, {file, Event, Text}}, #session{ref = Ref} = State) ->
    {noreply, file(Event, Text, State)};
handle_info({flame_prof_nif, Ref, {stopped, Result}}, #session{ref = Ref} = State) ->
    %% By itself, too, when it had to end the run.
    closed(Result, State);
handle_info({'EXIT', Owner, _}, #session{owner = Owner} = State) ->
    {noreply, begin_stop(State)};
handle_info({'EXIT', Targets, Reason}, #session{phase = running, targets = Targets} = State) ->
    Why = flame_prof_error:exit_text(Reason),
    ?LOG_ERROR("flame_prof stops: the selection of its processes ended: ~ts", [Why], ?LOG_META),
    {noreply, begin_stop(State#session{failure = {targets, Reason}})};
handle_info({'EXIT', Node, _}, #session{phase = running, node = Node} = State) ->
    %% Purged with the code that it was running, say. A session that fails at once would fail again
    %% and again.
    _ = flame_prof_clock:send_after(map_get(flush_interval, State#session.options), restart_node),
    {noreply, State};
handle_info(restart_node, #session{phase = running} = State) ->
    {noreply, watched(State#session{node = flame_prof_node:start_link()})};
handle_info({flame_prof_node, Node, Memory}, #session{node = Node, words = Words} = State) ->
    {noreply, State#session{words = Words#{node_memory => Memory}}};
handle_info({flame_prof_messages, _, Messages}, #session{words = Words} = State) ->
    {noreply, State#session{words = Words#{messages := Messages}}};
handle_info({'EXIT', Pid, _} = Exit, #session{allocations = {Pid, _} = Allocations} = State) ->
    Told = flame_prof_session_allocations:told(Exit, Allocations),
    {noreply, State#session{allocations = Told}};
handle_info({flame_prof_session_allocations, _, _} = Said, State) ->
    Told = flame_prof_session_allocations:told(Said, State#session.allocations),
    {noreply, State#session{allocations = Told}};
handle_info({'EXIT', Pid, Reason}, #session{portable = Engine} = State) when Engine =/= none ->
    case flame_prof_portable:pid(Engine) of
        Pid -> {noreply, halted(Reason, State)};
        _ -> {noreply, State}
    end;
handle_info({'DOWN', Caller, process, _, _}, #session{caller = Caller} = State) ->
    {noreply, begin_stop(State)};
handle_info(duration_is_over, State) ->
    {noreply, begin_stop(State)};
handle_info(schedulers, #session{schedulers = {on, Known}, ref = Ref} = State) ->
    On = {on, flame_prof_schedulers:refresh(Known)},
    _ = flame_prof_nif:session_schedulers_online(Ref, erlang:system_info(schedulers_online)),
    ok = watch_schedulers(On),
    {noreply, State#session{schedulers = On}};
handle_info(look_at_losses, #session{phase = running} = State) ->
    ok = watch_losses(State),
    {noreply, look_at_losses(flame_prof_run:counters(State#session.ref), State)};
handle_info(halt_now, #session{phase = halting, portable = Engine} = State) ->
    ok = flame_prof_portable:kill(Engine),
    {noreply, State};
handle_info(_, State) ->
    {noreply, State}.

-spec terminate(term(), #session{}) -> ok.
terminate(_Reason, #session{phase = closed}) -> ok;
terminate(_Reason, State) -> close_now(State, ?CLOSE_MS).

%% Losses.

look_at_losses(Counters, #session{looked_at = Before, are_losses_logged = Are} = State) ->
    ok = flame_prof_schedulers:log_loss(State#session.schedulers, Before, Counters),
    AreNow = flame_prof_losses:log(Before, Counters, Are),
    State#session{looked_at = Counters, are_losses_logged = AreNow}.

%% Flush.

flushed(Ticket, Result, #session{flushing = Flushing} = State) ->
    case maps:take(Ticket, Flushing) of
        {From, Others} ->
            gen_server:reply(From, written(Result, State)),
            State#session{flushing = Others};
        error ->
            State
    end.

written(ok, _State) -> ok;
written({error, Refusal}, State) ->
    {error, flame_prof_error:of_library(Refusal, last_place(State))}.

%% Files.

file(failed, Text, State) ->
    ?LOG_WARNING("flame_prof cannot write: ~ts. It keeps trying", [Text], ?LOG_META),
    State#session{trouble = Text};
file(healed, Path, State) ->
    ?LOG_NOTICE("flame_prof can write again: ~ts", [Path], ?QUIET_META),
    State#session{trouble = <<>>};
file(Event, Path, #session{files = Files} = State) ->
    State#session{files = flame_prof_run:files(Event, Path, Files)}.

%% Stop.

begin_stop(#session{phase = running, portable = none} = State) ->
    close(State);
begin_stop(#session{phase = running, portable = Engine} = State) ->
    ok = flame_prof_portable:stop(Engine),
    _ = flame_prof_clock:send_after(?HALT_MS, halt_now),
    State#session{phase = halting};
begin_stop(State) ->
    State.

%% The portable engine has ended: because it was told to, or on its own.
halted(Reason, #session{portable = Engine, phase = Phase} = State) ->
    ok = flame_prof_portable:restore(Engine),
    Failure = portable_failure(Phase, Reason, State),
    close(State#session{portable = none, failure = Failure}).

%% When it was told to, there may be a failure that was the reason.
portable_failure(halting, _Reason, #session{failure = Failure}) ->
    Failure;
portable_failure(_, Reason, _State) ->
    Why = flame_prof_error:exit_text(Reason),
    ?LOG_ERROR("flame_prof stops: its portable engine ended: ~ts", [Why], ?LOG_META),
    {portable_engine, Reason}.

close(#session{ref = Ref, node = Node, targets = Targets} = State) ->
    ok = flame_prof_session_allocations:end_soon(State#session.allocations),
    ok = flame_prof_targets:stop(Targets),
    ok = flame_prof_node:stop(Node),
    ok = flame_prof_nif:session_stop(Ref),
    State#session{phase = closing}.

%% Everything is written and the file closed.
closed(Result, State0) ->
    Failure = library_failure(Result, State0),
    State = without_allocations(?CLOSE_MS, State0#session{failure = Failure}),
    ok = release_portable(State),
    Run = run(State),
    ok = flame_prof_nif:session_close(State#session.ref),
    ok = settle(flame_prof_run:outcome(Result, last_place(State), Run), Run, State),
    {stop, exit_reason(State), State#session{phase = closed}}.

%% It ends meanwhile, and has been told to end before.
without_allocations(Ms, #session{allocations = Allocations} = State) ->
    ok = flame_prof_session_allocations:end_soon(Allocations),
    State#session{allocations = flame_prof_session_allocations:ended(Allocations, Ms)}.

%% In any other phase the library ended the run by itself.
library_failure(_Result, #session{phase = closing, failure = Failure}) ->
    Failure;
library_failure(Result, State) ->
    ?LOG_ERROR("flame_prof has stopped by itself~ts", [why_stopped(Result, State)], ?LOG_META),
    {library, Result}.

why_stopped(ok, _State) ->
    "";
why_stopped({error, Refusal}, State) ->
    [": ", flame_prof_error:format(flame_prof_error:of_library(Refusal, last_place(State)))].

%% The callers of flush have their samples in the file now, too.
settle(Answer, Run, #session{flushing = Flushing, stopping = Stopping} = State) ->
    Outcome = case Answer of {ok, _} -> ok; {error, _} -> Answer end,
    ok = keep(Outcome, Run, State),
    _ = [gen_server:reply(From, Outcome) || From <- maps:values(Flushing)],
    _ = [gen_server:reply(From, Answer) || From <- Stopping],
    ok.

%% A session that never wrote anything leaves no last run.
keep(_Outcome, _Run, #session{has_lookback = true}) ->
    ok;
keep(Outcome, Run, _State) ->
    ok = flame_prof_history:keep_run(Run),
    flame_prof_event:session_stopped(Run, Outcome).

exit_reason(#session{failure = none}) -> normal;
exit_reason(#session{failure = Failure}) -> {shutdown, Failure}.

%% The same, waiting: the supervisor ends this process.
close_now(#session{ref = Ref, targets = Targets} = State0, Ms) ->
    Until = erlang:monotonic_time(millisecond) + Ms,
    ok = flame_prof_session_allocations:end_soon(State0#session.allocations),
    ok = flame_prof_targets:stop(Targets),
    ok = release_portable(State0),
    ok = stop_library(State0),
    receive
        {flame_prof_nif, Ref, {stopped, Result}} ->
            Left = max(0, Until - erlang:monotonic_time(millisecond)),
            Told = told(without_allocations(Left, State0)),
            Run = run(Told),
            ok = flame_prof_nif:session_close(Ref),
            settle(flame_prof_run:outcome(Result, last_place(Told), Run), Run, Told)
    after Ms ->
        %% The library goes on alone, and cleans up when the disk answers.
        Told = told(without_allocations(0, State0)),
        Reason = flame_prof_error:file(last_place(Told), io_lib:format("no answer in ~b ms", [Ms])),
        Text = unicode:characters_to_binary(flame_prof_error:format(Reason)),
        Silent = Told#session{trouble = Text},
        settle({error, Reason}, run(Silent), Silent)
    end.

%% The newest file; the directory where there is none yet.
last_place(#session{files = [File | _]}) -> File;
last_place(#session{options = #{dir := Directory}}) -> Directory.

%% The library's last report on its files before it stopped.
told(#session{ref = Ref} = State) ->
    receive
        {flame_prof_nif, Ref, {file, Event, Text}} -> told(file(Event, Text, State))
    after 0 -> State
    end.

stop_library(#session{phase = closing}) -> ok;
stop_library(#session{ref = Ref, node = Node}) ->
    ok = flame_prof_node:stop(Node),
    flame_prof_nif:session_stop(Ref).

release_portable(#session{portable = none}) ->
    ok;
release_portable(#session{portable = Engine}) ->
    ok = flame_prof_portable:kill(Engine),
    flame_prof_portable:restore(Engine).

%% Its own state.

describe(#session{ref = Ref, started_ms = Started, files = Files, trouble = Trouble} = State) ->
    About = (capture_classes(about(State), State))#{
        state => state_name(State),
        files => lists:reverse(Files),
        error => Trouble
    },
    #{counters := Counters} = Description = flame_prof_run:describe(Ref, Started, About),
    maps:merge(State#session.words, Description#{
        allocations => element(2, State#session.allocations),
        running_stacks => flame_prof_schedulers:state(State#session.schedulers, Counters)
    }).

%% Disabled features with their reasons.
capture_classes(About, #session{schedulers = {on, _}}) ->
    About#{capture_classes => flame_prof_capture_classes:off()};
capture_classes(About, _State) ->
    About.

run(State) ->
    flame_prof_run:ended(describe(State)).

about(#session{trigger = Note} = State) when Note =/= none ->
    (about(State#session{trigger = none}))#{trigger => Note};
about(#session{choice = Choice, options = Options, started_at = StartedAt}) ->
    Choice#{options => Options, started_at => StartedAt}.

state_name(#session{phase = running, has_lookback = true}) -> armed;
state_name(#session{phase = running}) -> running;
state_name(_) -> stopping.
