%% @private The one tracing of this node: what latency, readable traces and allocations share.
%%
%% ```
%%   who asked <----monitor---- owner (this process) <--monitor--> guard <--monitor-- second guard
%%                                |  a heartbeat, and reads the limits: each 20 ms, and each 3 ms
%%                                v  while a limit is near
%%                       c_src/tracer: discards without heartbeats
%% '''
%%
%% The owner switches off when who asked for it ends or its node is gone, when a limit is
%% reached, and when the guard ends. When the owner ends in any other way than these, the guard
%% switches off. When both are killed, the second guard does. When all three are killed, there are
%% no heartbeats, and every event is discarded; in OTP 27 and later their trace sessions go with
%% them, and before it their breakpoints go when the next tracing starts.
%%
%% A limit that is reached stops the measuring in C at once; the breakpoints go within 50 ms, and
%% `off_after_ms' tells how soon they went. The results stay until {@link stop/1}, the end of the
%% starting process, or a minute.
-module(flame_prof_tracing).

-behaviour(gen_server).

-export([start_asker/2]).
-export([start/1, off/1, add/3, stop/1, stop_all/0, info/0, counters/1, read/2, limits/0]).
-export([look_rows/1, as_limits/1]).
-export([init/1, handle_call/3, handle_info/2, handle_cast/2, terminate/2]).
-export([guard/2, second_guard/3]).

-export_type([spec/0, ended/0, stopped/0, limits/0]).

-type kind() :: latency | trace | allocations.

%% `max_cpu_percent': of what all schedulers online can do, as the library reckons it: a price for
%% each event. Every limit has a default that is a number. `infinity' takes a limit away, for who
%% writes it in a call of Erlang: no command and no page can. Tracing that ends with a session has
%% no `max_events' and no `max_seconds'. The library discards events when the owner's last heartbeat
%% is older than `heartbeat_ms'.
-type limits() ::
    #{
        max_cpu_percent => number() | infinity,
        max_events_per_second => pos_integer() | infinity,
        max_events => pos_integer() | infinity,
        max_seconds => pos_integer() | infinity,
        heartbeat_ms => pos_integer()
    }.

%% As of {@link flame_prof_tracepoints}. `owner': with it the tracing ends; it gets
%% `{flame_prof_tracing, Ref, {ended, Ended}}' when the tracing ends and it has not asked for that.
%% `asked_by': the process that is reported as the starter (default: the owner). `config': what the
%% kind in the library is given. `follows': what it switches on later by itself, for {@link info/0}.
-type spec() ::
    #{
        kind := kind(),
        owner := pid(),
        asked_by => pid(),
        flags => [flame_prof_tracepoints:tracer_flag()],
        processes => every | chosen | none | [pid()],
        patterns => [{tuple(), term(), [atom()]}],
        message_patterns => [{send | 'receive', term()}],
        limits => limits(),
        follows => #{follow => atom(), flags => [flame_prof_tracepoints:tracer_flag()]},
        config => term()
    }.

%% `heartbeat': the owner was not scheduled for more than a second. `broken_invariant': a mistake of
%% the library, whose place is a key of this name in stopped().
-type ended() :: asked | {limit, atom()} | {down, pid()}.

%% `no': it runs. `off_after_ms': from the limit, or whatever has ended it, to the last breakpoint;
%% not there while it runs. `processes': of chosen ones, those that had the flags when it began.
-type stopped() ::
    #{
        ended := no | ended(),
        events := non_neg_integer(),
        discarded := non_neg_integer(),
        lost := non_neg_integer(),
        broken_invariants := non_neg_integer(),
        functions := non_neg_integer(),
        processes := non_neg_integer(),
        left_alone := non_neg_integer(),
        off_after_ms => float(),
        atom() => term()
    }.

-record(tracing, {
    ref :: reference(),
    spec :: spec(),
    tracer :: flame_prof_looks_nif:tracer_state(),
    since :: calendar:datetime(),
    guard :: {pid(), reference()},
    second :: pid(),
    asker :: reference(),
    set :: flame_prof_tracepoints:set(),
    counts = #{functions => 0, processes => 0, left_alone => 0} :: flame_prof_tracepoints:counts(),
    %% By add/3: how many, and the first of them.
    added = {0, []} :: {non_neg_integer(), [pid()]},
    added_flags = [] :: [flame_prof_tracepoints:tracer_flag()],
    %% Of `chosen' ones, those that another tracer has.
    others = #{} :: #{pid() => []},
    ended = no :: no | ended(),
    off_after_ms = none :: none | float()
}).

%% Five times as long as from one to the next.
-define(HEARTBEAT_MS, 100).
-define(POLL_MS, 20).
%% While some of what may be spent at once is spent.
-define(NEAR_MS, 3).
%% More pids are a number only.
-define(LISTED, 100).
-define(KEPT_MS, 60000).
-define(START_MS, 30000).
-define(CALL_MS, 30000).
-define(INFO_MS, 1000).

%% @doc The limits, with their defaults, as options.
-spec limits() -> [flame_prof_schema:row()].
limits() ->
    [case Row of
        #{key := heartbeat_ms} -> Row;
        #{} -> or_infinity(Row)
    end || Row <- finite_limits()].

finite_limits() ->
    Most = 16#ffffffff,
    [
        #{key => max_cpu_percent, type => {number, percent, 0.01, 100}, default => 5},
        #{key => max_events_per_second, type => {whole, count, 1, Most}, default => 1000000},
        #{key => max_events, type => {whole, count, 1, Most}, default => 100000000},
        #{key => max_seconds, type => {whole, count, 1, 86500}, default => 60},
        #{key => heartbeat_ms, type => {whole, ms, 100, 60000}, default => ?HEARTBEAT_MS}
    ].

%% @doc The same limits as looks have them, by these names.
-spec look_rows([max_cpu | max_rate | max_events | heartbeat_ms]) -> [flame_prof_schema:row()].
look_rows(Keys) ->
    Finite = finite_limits(),
    [flame_prof_look_options:infinite((flame_prof_schema:row(Own, Finite))#{
            key => Key, doc => Doc, alias => Aliases})
        || {Key, Own, Aliases, Doc} <- look_names(), lists:member(Key, Keys)] ++
        [(flame_prof_schema:row(Key, Finite))#{word => none}
            || Key <- [heartbeat_ms], lists:member(Key, Keys)].

look_names() ->
    [
        {max_cpu, max_cpu_percent, [max_cpu_percent],
            "percent of the node's CPU time, at which it ends"},
        {max_rate, max_events_per_second, [max_events_per_second],
            "measured calls a second, at which it ends"},
        {max_events, max_events, [max_calls], "measured calls, at which it ends"}
    ].

%% @doc Options of a look with the names that limits have here.
-spec as_limits(#{atom() => term()}) -> #{atom() => term()}.
as_limits(Options) ->
    lists:foldl(
        fun({Key, Own, _, _}, Renamed) ->
            case maps:take(Key, Renamed) of
                {Value, Rest} -> Rest#{Own => Value};
                error -> Renamed
            end
        end,
        Options,
        look_names()
    ).

or_infinity(#{key := Key} = Row) ->
    Normal = fun
        (infinity) ->
            {ok, infinity};
        (Given) ->
            case flame_prof_schema:values([Row], #{Key => Given}) of
                {ok, #{Key := Value}} -> {ok, Value};
                _ -> error
            end
    end,
    Row#{type := {own, Normal, flame_prof_schema:accepts(Row)}}.

%% @doc Starts the process that reads what is traced: it calls start/1.
-spec start_asker(module(), term()) -> {ok, pid()} | {error, flame_prof:reason()}.
start_asker(Module, Arguments) ->
    case flame_prof_shortage:check(tracing) of
        ok ->
            case gen_server:start(Module, Arguments, []) of
                {ok, Asker} -> {ok, Asker};
                {error, {shutdown, {refused, Reason}}} -> {error, Reason};
                {error, Reason} -> {error, flame_prof_error:of_exit(Reason)}
            end;
        {error, _} = Shortage ->
            Shortage
    end.

%% @doc Returns when everything is on.
-spec start(spec()) -> {ok, reference()} | {error, flame_prof:reason()}.
start(#{kind := _, owner := Asker} = Given) when is_pid(Asker) ->
    Defaults = #{
        flags => [], processes => none, patterns => [], message_patterns => [], limits => #{},
        config => none
    },
    Spec = maps:merge(Defaults, Given),
    case flame_prof_schema:checked(limits(), maps:get(limits, Spec)) of
        {ok, Limits} -> start_loaded(flame_prof_engine:load(), Spec#{limits := Limits});
        {error, _} = Error -> Error
    end.

start_loaded(ok, Spec) -> start_owner(Spec);
start_loaded({error, _} = Error, _Spec) -> Error.

start_owner(Spec) ->
    Ref = make_ref(),
    Options = [{timeout, ?START_MS}, {spawn_opt, [{priority, high}]}],
    case gen_server:start({local, ?MODULE}, ?MODULE, {Ref, Spec}, Options) of
        {ok, _} -> {ok, Ref};
        {error, {already_started, _}} -> {error, busy(info())};
        {error, {shutdown, {refused, Reason}}} -> {error, Reason};
        {error, timeout} -> {error, {timeout, #{ms => ?START_MS, request => start}}};
        {error, Reason} -> {error, flame_prof_error:of_exit(Reason)}
    end.

%% The mark: the only refusal that passes by itself.
busy(#{kind := Kind, since := {_, {H, M, S}}, owner := Asker}) ->
    Format = "one tracing at a time: ~ts runs since ~2..0b:~2..0b:~2..0b UTC, started by ~p",
    {tracing, #{busy => true, reason => text(Format, [Kind, H, M, S, Asker])}};
busy(_) ->
    {tracing, #{busy => true, reason => <<"one tracing at a time: another one starts or ends">>}}.

text(Format, Args) ->
    unicode:characters_to_binary(io_lib:format(Format, Args)).

%% @doc Switches off, unless that has been done. The results are gone.
-spec stop(reference()) -> {ok, stopped()} | {error, flame_prof:reason()}.
stop(Ref) ->
    call({stop, Ref}).

%% @doc Switches off; what was measured stays until {@link stop/1}.
-spec off(reference()) -> ok | {error, flame_prof:reason()}.
off(Ref) ->
    call({off, Ref}).

%% @doc Processes that are followed, with their flags; `silent' ends for them.
-spec add(reference(), [pid()], [flame_prof_tracepoints:tracer_flag()]) ->
    ok | {error, flame_prof:reason()}.
add(Ref, Pids, Flags) ->
    call({add, Ref, Pids, Flags}).

%% @doc Whatever runs, for an application that stops.
-spec stop_all() -> ok.
stop_all() ->
    _ = call({stop, any}),
    ok.

%% @doc What runs; an empty map for nothing.
-spec info() -> #{atom() => term()}.
info() ->
    case call(info, ?INFO_MS) of
        #{} = Info -> Info;
        {error, _} -> #{}
    end.

-spec counters(reference()) -> {ok, stopped()} | {error, flame_prof:reason()}.
counters(Ref) ->
    call({counters, Ref}).

%% @doc What the kind in the library answers; the caller waits, not the owner.
-spec read(reference(), term()) -> {ok, term()} | {error, flame_prof:reason()}.
read(Ref, What) ->
    case call({tracer, Ref}) of
        {ok, Tracer} ->
            case flame_prof_looks_nif:tracer_read(Tracer, What) of
                {error, bad_state} -> {error, gone()};
                {error, Error} -> {error, flame_prof_error:of_library(Error, <<>>)};
                Answer -> {ok, Answer}
            end;
        {error, _} = Error ->
            Error
    end.

gone() ->
    {tracing, #{reason => <<"this tracing has ended, and its results are gone">>}}.

call(Request) ->
    call(Request, ?CALL_MS).

call(Request, Timeout) ->
    try
        gen_server:call(?MODULE, Request, Timeout)
    catch
        exit:{timeout, _} -> {error, {timeout, #{ms => Timeout}}};
        exit:_ -> {error, gone()}
    end.

%% The owner.

-spec init({reference(), spec()}) -> {ok, #tracing{}} | {stop, term()}.
init({Ref, #{kind := Kind, owner := Asker, limits := Limits, config := Config} = Spec}) ->
    _ = process_flag(trap_exit, true),
    Monitor = monitor(process, Asker),
    case open(Kind, in_library(Limits), Config) of
        {ok, Tracer} ->
            Set = flame_prof_tracepoints:off(#{tracer => Tracer}),
            {Guard, _} = Guarding = start_guard(Set),
            set(#tracing{
                ref = Ref,
                spec = Spec,
                tracer = Tracer,
                since = calendar:universal_time(),
                guard = Guarding,
                second = start_second_guard(Guard, Set),
                asker = Monitor,
                set = Set
            });
        {error, busy} ->
            refused(busy(none));
        {error, {library, #{}} = Reason} ->
            refused(Reason);
        {error, Error} ->
            refused(flame_prof_error:of_library(Error, <<>>))
    end.

%% The library is not purged before the owner's end.
open(Kind, Limits, Config) ->
    case flame_prof_looks:hold() of
        ok -> flame_prof_looks_nif:tracer_open(Kind, Limits, Config);
        {error, _} = Error -> Error
    end.

in_library(Limits) ->
    #{
        max_cpu_percent := Percent, max_events_per_second := PerSecond,
        max_events := Events, max_seconds := Seconds
    } = Limits,
    Schedulers = erlang:system_info(schedulers_online),
    Cpu = case Percent of infinity -> 0; _ -> round(Percent * 10000000 * Schedulers) end,
    #{
        events => or_none(Events), events_per_second => or_none(PerSecond),
        cpu_ns_per_second => Cpu, seconds => or_none(Seconds)
    }.

%% The library has no limit where it gets 0.
or_none(infinity) -> 0;
or_none(Limit) -> Limit.

refused(Reason) ->
    {stop, {shutdown, {refused, Reason}}}.

set(#tracing{spec = Spec, tracer = Tracer, set = None} = Tracing) ->
    #tracing{guard = {Guard, _}, second = Second} = Tracing,
    Tell = fun(Set) -> [Pid ! {self(), set, Set} || Pid <- [Guard, Second]] end,
    Check = fun() -> ok = check_asker(Tracing) end,
    try flame_prof_tracepoints:set(Spec#{tracer => Tracer}, Tell, Check) of
        {ok, Set, Counts} ->
            begun(Tracing#tracing{set = Set, counts = Counts});
        {error, Why} ->
            undo(Tracing, {tracing, #{reason => Why}})
    catch
        throw:asker_is_gone -> undo(Tracing, gone());
        error:Reason:Stack ->
            undo(Tracing#tracing{set = None}, flame_prof_error:of_exit({Reason, Stack}))
    end.

begun(Tracing0) ->
    case chosen(Tracing0) of
        {ok, Tracing} ->
            _ = heartbeat(Tracing),
            _ = flame_prof_clock:send_after(?POLL_MS, poll),
            {ok, Tracing};
        {error, Error} ->
            undo(Tracing0, flame_prof_error:of_library(Error, <<>>))
    end.

%% The first heartbeat is due when all is set.
check_asker(#tracing{asker = Monitor}) ->
    receive
        {'DOWN', Monitor, process, _, _} -> throw(asker_is_gone)
    after 0 -> ok
    end.

%% The guard knows the active tracepoints.
undo(#tracing{guard = {Guard, Monitor}}, Reason) ->
    Guard ! {self(), clear},
    receive
        {'DOWN', Monitor, process, Guard, _} -> refused(Reason)
    end.

handle_call(info, _From, Tracing) ->
    {reply, about(Tracing), Tracing};
handle_call({stop, any}, From, #tracing{ref = Ref} = Tracing) ->
    handle_call({stop, Ref}, From, Tracing);
handle_call({stop, Ref}, From, #tracing{ref = Ref} = Tracing0) ->
    Tracing = switch_off(why(Tracing0), Tracing0),
    Stopped = stopped(Tracing),
    ok = close(Tracing),
    _ = unregister(?MODULE),
    gen_server:reply(From, {ok, Stopped}),
    {stop, normal, Tracing};
handle_call({off, Ref}, _From, #tracing{ref = Ref, ended = no} = Tracing) ->
    _ = flame_prof_clock:send_after(?KEPT_MS, forget),
    {reply, ok, switch_off(asked, Tracing)};
handle_call({off, Ref}, _From, #tracing{ref = Ref} = Tracing) ->
    {reply, ok, Tracing};
handle_call({add, Ref, Pids, Flags}, _From, #tracing{ref = Ref, ended = no, set = Set} = Tracing) ->
    {Count, Listed} = Tracing#tracing.added,
    Added = {Count + length(Pids), lists:sublist(Listed ++ Pids, ?LISTED)},
    {reply, flame_prof_tracepoints:add(Set, Pids, Flags),
        Tracing#tracing{added = Added, added_flags = Flags}};
handle_call({counters, Ref}, _From, #tracing{ref = Ref} = Tracing) ->
    {reply, {ok, stopped(Tracing)}, Tracing};
handle_call({tracer, Ref}, _From, #tracing{ref = Ref, tracer = Tracer} = Tracing) ->
    {reply, {ok, Tracer}, Tracing};
handle_call(_Request, _From, Tracing) ->
    {reply, {error, gone()}, Tracing}.

heartbeat(#tracing{tracer = Tracer, spec = #{limits := #{heartbeat_ms := Ms}}}) ->
    flame_prof_looks_nif:tracer_heartbeat(Tracer, Ms).

%% A limit may have ended it since the last poll.
why(Tracing) ->
    case heartbeat(Tracing) of
        Pressure when is_integer(Pressure) -> asked;
        Limit -> {limit, Limit}
    end.

handle_cast(_, Tracing) ->
    {noreply, Tracing}.

handle_info(poll, #tracing{ended = no} = Tracing) ->
    case heartbeat(Tracing) of
        Pressure when is_integer(Pressure) ->
            _ = flame_prof_clock:send_after(poll_ms(Pressure), poll),
            {noreply, turns(Tracing)};
        Limit ->
            {noreply, ended({limit, Limit}, Tracing)}
    end;
handle_info({'DOWN', Monitor, process, Pid, _}, #tracing{asker = Monitor} = Tracing) ->
    {stop, normal, switch_off({down, Pid}, Tracing)};
handle_info({'DOWN', Monitor, process, Guard, _}, #tracing{guard = {Guard, Monitor}} = Tracing) ->
    {noreply, ended({down, Guard}, Tracing)};
handle_info(forget, Tracing) ->
    {stop, normal, Tracing};
handle_info(_, Tracing) ->
    {noreply, Tracing}.

poll_ms(0) -> ?POLL_MS;
poll_ms(_) -> ?NEAR_MS.

terminate(_Reason, Tracing) ->
    close(switch_off(asked, Tracing)).

%% The library chooses whose collections are traced: all, or a share of many processes.
chosen(#tracing{spec = #{processes := chosen}, tracer = Tracer} = Tracing) ->
    case flame_prof_looks_nif:tracer_read(Tracer, choose) of
        {error, Error} -> {error, Error};
        Pids -> {ok, lists:foldl(fun choose/2, Tracing, lists:delete(self(), Pids))}
    end;
chosen(Tracing) ->
    {ok, Tracing}.

choose(Pid, Tracing0) ->
    ok = check_asker(Tracing0),
    case flag(Pid, Tracing0) of
        {ok, #tracing{counts = #{processes := All} = Counts} = Tracing} ->
            Tracing#tracing{counts = Counts#{processes := All + 1}};
        {_, Tracing} ->
            Tracing
    end.

%% One that another tracer has is tried again while it takes turns, and counts once.
flag(Pid, #tracing{spec = #{flags := Flags}, set = Set, counts = Counts} = Tracing) ->
    case flame_prof_tracepoints:flag(Set, Pid, Flags) of
        other ->
            Others = (Tracing#tracing.others)#{Pid => []},
            {other, Tracing#tracing{
                others = Others, counts = Counts#{left_alone := map_size(Others)}
            }};
        Outcome ->
            {Outcome, Tracing}
    end.

turns(#tracing{spec = #{processes := chosen}, tracer = Tracer} = Tracing) ->
    flagged(flame_prof_looks_nif:tracer_due(Tracer), Tracing);
turns(Tracing) ->
    Tracing.

%% A flag that cannot be set at once waits until its process runs no more: the heartbeat goes on
%% meanwhile.
flagged([], Tracing) ->
    Tracing;
flagged([Pid | Pids], Tracing0) ->
    {_, Tracing} = flag(Pid, Tracing0),
    case heartbeat(Tracing) of
        Pressure when is_integer(Pressure) -> flagged(Pids, Tracing);
        _ -> Tracing
    end.

ended(Ended, #tracing{ref = Ref, spec = #{owner := Asker}} = Tracing) ->
    Off = switch_off(Ended, Tracing),
    _ = flame_prof_clock:send_after(?KEPT_MS, forget),
    Asker ! {?MODULE, Ref, {ended, Ended}},
    Off.

%% C first: nothing is measured any more, whatever the VM still has to do. The flags of many
%% processes are no urgent work.
switch_off(Ended, #tracing{ended = no, tracer = Tracer, set = Set} = Tracing) ->
    ok = flame_prof_looks_nif:tracer_end(Tracer),
    ok = flame_prof_tracepoints:clear(Set#{flags := []}),
    #{ended_for_ns := Ns} = flame_prof_looks_nif:tracer_counters(Tracer),
    _ = process_flag(priority, normal),
    ok = flame_prof_tracepoints:clear(Set#{sessions := [], points := [], messages := []}),
    ok = flame_prof_tracepoints:forget(),
    Tracing#tracing{ended = Ended, off_after_ms = Ns / 1.0e6};
switch_off(_Ended, Tracing) ->
    Tracing.

close(#tracing{tracer = Tracer, guard = {Guard, Monitor}, second = Second}) ->
    _ = flame_prof_looks_nif:tracer_close(Tracer),
    true = demonitor(Monitor, [flush]),
    _ = [Pid ! {self(), over} || Pid <- [Guard, Second]],
    ok.

stopped(#tracing{tracer = Tracer, counts = Counts, ended = Ended, off_after_ms = OffMs}) ->
    Counters = maps:without([ended_for_ns], flame_prof_looks_nif:tracer_counters(Tracer)),
    maps:merge(off(OffMs, Counts#{ended => Ended}), Counters).

off(none, Stopped) -> Stopped;
off(Ms, Stopped) -> Stopped#{off_after_ms => Ms}.

%% All that is on: what was asked for, and what was added since. `pids' are the first of as many as
%% `processes' tells, `every' with new ones.
about(#tracing{ref = Ref, spec = Spec, since = Since, added = {Count, Added}} = Tracing) ->
    #{
        kind := Kind, owner := Asker, limits := Limits, flags := Flags, patterns := Patterns,
        processes := Processes, message_patterns := Messages
    } = Spec,
    Followed = #{processes => Count, pids => Added, flags => Tracing#tracing.added_flags},
    (stopped(Tracing))#{
        ref => Ref, kind => Kind, owner => maps:get(asked_by, Spec, Asker), since => Since,
        limits => Limits, flags => Flags,
        patterns => [MFA || {MFA, _, _} <- Patterns],
        message_patterns => [Event || {Event, _} <- Messages],
        pids => case Processes of
            _ when Processes =:= every; Processes =:= chosen -> every;
            none -> [];
            Pids -> lists:sublist(Pids, ?LISTED)
        end,
        follows => maps:get(follows, Spec, #{}),
        followed => Followed
    }.

%% The guards.

start_guard(Set) ->
    spawn_opt(?MODULE, guard, [self(), Set], [monitor, {priority, high}]).

start_second_guard(Guard, Set) ->
    spawn_opt(?MODULE, second_guard, [self(), Guard, Set], [{priority, high}]).

-spec guard(pid(), flame_prof_tracepoints:set()) -> ok.
guard(Owner, Set) ->
    _ = process_flag(trap_exit, true),
    guard(Owner, monitor(process, Owner), Set).

guard(Owner, Monitor, Set) ->
    receive
        {Owner, set, New} -> guard(Owner, Monitor, New);
        {Owner, over} -> ok;
        {Owner, clear} -> cleared(Set);
        {'DOWN', Monitor, process, Owner, _} -> cleared(Set)
    end.

cleared(#{tracer := Tracer} = Set) ->
    ok = flame_prof_looks_nif:tracer_end(Tracer),
    ok = flame_prof_tracepoints:clear(Set),
    ok = flame_prof_tracepoints:forget(),
    _ = flame_prof_looks_nif:tracer_close(Tracer),
    ok.

%% @doc Clears when owner and guard have both been killed. A guard that ends by itself has cleared,
%% or nothing is left to clear.
-spec second_guard(pid(), pid(), flame_prof_tracepoints:set()) -> ok.
second_guard(Owner, Guard, Set) ->
    _ = process_flag(trap_exit, true),
    second_guard(Owner, Guard, monitor(process, Guard), Set).

second_guard(Owner, Guard, Monitor, Set) ->
    receive
        {Owner, set, New} -> second_guard(Owner, Guard, Monitor, New);
        {Owner, over} -> ok;
        {'DOWN', Monitor, process, Guard, normal} -> ok;
        {'DOWN', Monitor, process, Guard, _} -> guard(Owner, Set)
    end.
