%% @private Waits for a trigger, and profiles what follows.
%%
%% ```
%%              a trigger fires                duration, or stop/2 of that session
%%   armed  ---------------------> profiling ----------------------------> armed
%%     |                                                                     |
%%     +----- stop/1 of all: the session is ended, and this process ---------+
%% '''
%%
%% It takes the place of the one session that there may be, and starts the sessions
%% itself, one at a time: with `lookback' one that keeps what it samples in memory
%% (c_src/store/sink.h) until a trigger fires, without it one when a trigger fires.
%% They are linked: they end with this process, however that ends.
%%
%% It waits only for the start of a session: each probe is a process of its own
%% ({@link flame_prof_condition}) with a time limit.
-module(flame_prof_triggers).

-behaviour(gen_server).

-include("flame_prof.hrl").
-include("flame_prof_internal.hrl").
-include_lib("kernel/include/logger.hrl").

-export([start_link/2, stop/2, kill/1, info/0, cpu_budget/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-record(watch, {
    trigger :: flame_prof_trigger:trigger(),
    memory = none :: flame_prof_condition:memory(),
    %% The probe that runs, since when, and its limit.
    probe = none :: none | {pid(), reference(), integer(), reference()},
    %% The VM has reported an event since the last probe.
    was_told = false :: boolean(),
    failures = 0 :: non_neg_integer(),
    %% Why it cannot fire.
    trouble = none :: none | binary()
}).

-type id() :: pos_integer().

-record(state, {
    %% Of the sessions.
    options :: flame_prof_options:options(),
    lookback :: non_neg_integer(),
    owner :: none | pid(),
    watches :: #{id() => #watch{}},
    events = none :: none | flame_prof_system_events:handle(),
    %% The one that holds, or that a trigger has started.
    session = none :: none | pid(),
    %% A request to end without a profile is pending: until then nothing fires.
    is_closing = false :: boolean(),
    %% Whose profile runs, and its end.
    firing = none :: none | {id(), End :: reference()},
    %% The last one.
    run :: flame_prof_run:run(),
    stopping = [] :: [gen_server:from()]
}).

%% A probe that takes T is followed by a rest of 19 T.
-define(REST, 19).
%% After one that could not be started.
-define(AGAIN_MS, 10000).
%% A session's clock is the system's at its start: one that waits is replaced, so
%% that its times are right when it matters.
-define(RENEW_MS, 3600000).
-define(CLOSE_MS, 12000).
%% Longer than a session takes for it.
-define(KILL_MS, 3000).
%% The room for this text in a file (FP_NOTE_ROOM).
-define(NOTE_BYTES, 400).

-spec start_link(flame_prof_options:options(), flame_prof_session:how()) ->
    {ok, pid()} | {error, term()}.
start_link(Options, #{timeout := Timeout, owner := Owner}) ->
    case gen_server:start_link({local, ?MODULE}, ?MODULE, {Options, Owner}, [{timeout, Timeout}]) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

%% @doc Disarms, ends the profile if one runs, and returns when that is closed.
%% Answers the last run and what info/0 has of the triggers.
-spec stop(pid(), timeout()) -> {ok, flame_prof_run:run()} | {error, flame_prof:reason()}.
stop(Pid, Timeout) ->
    flame_prof_run:stop(Pid, Timeout).

%% @doc With the session that it has: flame_prof_session:kill/1.
-spec kill(pid()) -> ok.
kill(Pid) ->
    flame_prof_run:kill(Pid, ?KILL_MS).

-spec info() -> {ok, map()} | {error, flame_prof:reason()}.
info() ->
    flame_prof_run:call(?MODULE, info, 5000).

%% @doc That of their sessions; an error if Pid is not the process of the triggers.
-spec cpu_budget(pid()) -> {ok, number() | infinity} | {error, flame_prof:reason()}.
cpu_budget(Pid) ->
    case whereis(?MODULE) of
        Pid -> flame_prof_run:call(Pid, cpu_budget, 5000);
        _ -> {error, {not_started, #{}}}
    end.

-spec init({flame_prof_options:options(), none | pid()}) -> {ok, #state{}} | {stop, term()}.
init({#{triggers := Specs, lookback := Lookback} = Options, Owner}) ->
    _ = process_flag(trap_exit, true),
    _ = process_flag(priority, high),
    %% An impossible trigger is reported at the start, and not at three in the morning.
    case flame_prof_engine:choose(maps:get(engine, Options)) of
        {ok, Choice} ->
            OfSessions = Options#{triggers := [], lookback := 0},
            armed(arm(#state{
                options = OfSessions,
                lookback = Lookback,
                owner = Owner,
                watches = watches(Specs),
                run = flame_prof_run:nothing(OfSessions, Choice)
            }));
        {error, Reason} ->
            refused(Reason)
    end.

watches(Specs) ->
    Numbered = lists:zip(lists:seq(1, length(Specs)), Specs),
    maps:from_list([{Id, #watch{trigger = flame_prof_trigger:new(S)}} || {Id, S} <- Numbered]).

armed({ok, #state{owner = Owner, watches = Watches} = State}) ->
    _ = [link(Owner) || is_pid(Owner)],
    ok = measure_schedulers(Watches),
    Listening = listen(State),
    ok = maps:foreach(fun(Id, Watch) -> look_after(interval(Watch), Id) end, Watches),
    {ok, Listening};
armed({error, Reason}) ->
    refused(Reason).

%% Not a crash to be reported: the caller of start gets the reason.
refused(Reason) ->
    {stop, {shutdown, {refused, Reason}}}.

%% The VM counts the processes that switched it on, and switches it off at the end of the last.
measure_schedulers(Watches) ->
    case lists:any(fun(W) -> on(W) =:= scheduler_utilisation end, maps:values(Watches)) of
        true ->
            _ = erlang:system_flag(scheduler_wall_time, true),
            ok;
        false ->
            ok
    end.

listen(#state{watches = Watches} = State) ->
    case maps:fold(fun(_, Watch, Events) -> add_event(spec(Watch), Events) end, #{}, Watches) of
        None when map_size(None) =:= 0 ->
            State;
        Wanted ->
            case flame_prof_system_events:open(Wanted) of
                {ok, Handle} -> State#state{events = Handle};
                {error, Why} -> deaf(Why, State)
            end
    end.

add_event(#{on := busy_port}, Events) ->
    Events#{busy_port => true};
add_event(#{on := On, above := Above}, Events) ->
    case flame_prof_trigger:is_event(On) of
        true -> maps:update_with(On, fun(Least) -> min(Least, Above) end, Above, Events);
        false -> Events
    end;
add_event(_, Events) ->
    Events.

%% No event of the VM is available. All other triggers stay.
deaf(Why, #state{watches = Watches} = State) ->
    Deaf = [on(Watch) || Watch <- maps:values(Watches), is_event(Watch)],
    ?LOG_WARNING("flame_prof has no trigger on ~0tp: ~ts", [Deaf, Why], ?LOG_META),
    Mark = fun(_, Watch) ->
        case is_event(Watch) of
            true -> Watch#watch{trouble = Why};
            false -> Watch
        end
    end,
    State#state{events = none, watches = maps:map(Mark, Watches)}.

spec(#watch{trigger = Trigger}) -> flame_prof_trigger:spec(Trigger).

on(Watch) -> maps:get(on, spec(Watch)).

is_event(Watch) -> flame_prof_trigger:is_event(on(Watch)).

interval(Watch) -> maps:get(interval, spec(Watch)).

look_after(Ms, Id) ->
    _ = flame_prof_clock:send_after(Ms, {probe, Id}),
    ok.

now_ms() -> flame_prof_clock:now_ms().

%% Sessions.

%% One that holds, where something is to be known of the time before.
arm(#state{lookback = 0} = State) ->
    {ok, State};
arm(#state{lookback = Ms} = State) ->
    case start(#{lookback_ms => Ms}, State) of
        {ok, Session} ->
            _ = flame_prof_clock:send_after(?RENEW_MS, {renew, Session}),
            {ok, State#state{session = Session}};
        {error, _} = Error ->
            Error
    end.

start(How, #state{options = Options}) ->
    case flame_prof_session:start_link(Options, How#{timeout => infinity, owner => none}) of
        {ok, Session} -> {ok, Session};
        {error, {shutdown, {refused, Reason}}} -> {error, Reason};
        {error, Reason} -> {error, flame_prof_error:of_exit(Reason)}
    end.

rearm(State) ->
    case arm(State) of
        {ok, Armed} ->
            Armed;
        {error, Reason} ->
            complain("keep the samples before a trigger", Reason),
            again(State)
    end.

again(State) ->
    _ = flame_prof_clock:send_after(?AGAIN_MS, arm),
    State.

complain(What, Reason) ->
    Why = flame_prof_error:format(Reason),
    ?LOG_WARNING("flame_prof cannot ~ts: ~ts", [What, Why], ?LOG_META).

begin_profile(Note, #state{session = none} = State) ->
    start(#{note => Note}, State);
begin_profile(Note, #state{session = Session}) ->
    case flame_prof_session:commit(Session, Note) of
        ok -> {ok, Session};
        %% It is late, and will read what it was told: a node in trouble is what
        %% triggers are for.
        {error, {timeout, _}} -> {ok, Session};
        {error, _} = Error -> Error
    end.

%% Its 'EXIT' arms again.
close_session(#state{session = none} = State) ->
    State;
close_session(#state{session = Session} = State) ->
    ok = flame_prof_session:end_soon(Session),
    State#state{is_closing = true}.

%% Calls and messages.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {noreply, #state{}} | {reply, term(), #state{}} | {stop, normal, term(), #state{}}.
handle_call(info, _From, State) ->
    {reply, {ok, describe(State)}, State};
handle_call(cpu_budget, _From, #state{options = #{cpu_budget := Budget}} = State) ->
    {reply, {ok, Budget}, State};
handle_call(stop, _From, #state{session = none} = State) ->
    {stop, normal, stopped(State), State};
handle_call(stop, From, #state{session = Session, stopping = Callers} = State) ->
    ok = flame_prof_session:end_soon(Session),
    {noreply, State#state{stopping = [From | Callers]}};
handle_call(_, _From, State) ->
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_cast(kill, #state{session = Session} = State) ->
    _ = [flame_prof_session:kill(Session) || is_pid(Session)],
    {stop, {shutdown, killed}, State#state{session = none}};
handle_cast(_, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, normal, #state{}}.
handle_info({probe, Id}, #state{watches = Watches} = State) ->
    {noreply, probe(Id, maps:get(Id, Watches), State)};
handle_info({limit, Pid}, State) ->
    %% One of flame_prof's, or none any more.
    true = exit(Pid, kill),
    {noreply, State};
handle_info({'DOWN', Monitor, process, _, Outcome}, #state{watches = Watches} = State) ->
    case [Id || {Id, #watch{probe = {_, M, _, _}}} <- maps:to_list(Watches), M =:= Monitor] of
        [Id] -> {noreply, probed(Id, maps:get(Id, Watches), Outcome, State)};
        [] -> {noreply, State}
    end;
handle_info({monitor, _, _, _} = Message, #state{events = Events} = State) when Events =/= none ->
    {noreply, told(flame_prof_system_events:event(Message), State)};
handle_info({over, Session}, #state{session = Session} = State) ->
    ok = flame_prof_session:end_soon(Session),
    {noreply, State};
handle_info({renew, Session}, #state{session = Session, firing = none} = State) ->
    {noreply, close_session(State)};
handle_info(arm, #state{session = none, firing = none} = State) ->
    {noreply, rearm(State)};
handle_info({'EXIT', Session, Reason}, #state{session = Session} = State) ->
    ended(Reason, State#state{session = none, is_closing = false});
handle_info({'EXIT', Owner, _}, #state{owner = Owner} = State) ->
    {stop, normal, State};
handle_info(_, State) ->
    {noreply, State}.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{events = Events, session = Session, watches = Watches}) ->
    _ = [flame_prof_system_events:close(Events) || Events =/= none],
    _ = [exit(Pid, kill) || #watch{probe = {Pid, _, _, _}} <- maps:values(Watches)],
    end_now(Session).

%% Its file is closed when the triggers have ended.
end_now(none) ->
    ok;
end_now(Session) ->
    Monitor = erlang:monitor(process, Session),
    true = exit(Session, shutdown),
    receive
        {'DOWN', Monitor, process, _, _} -> ok
    after ?CLOSE_MS -> ok
    end.

%% The end of a session.

ended(_Reason, #state{stopping = [_ | _] = Callers} = State0) ->
    State = finished(State0),
    _ = [gen_server:reply(From, stopped(State)) || From <- Callers],
    {stop, normal, State};
ended(Reason, #state{firing = none} = State) when Reason =/= normal ->
    %% It has said why.
    {noreply, again(State)};
ended(_Reason, State) ->
    {noreply, rearm(finished(State))}.

finished(#state{firing = none} = State) ->
    State;
finished(#state{firing = {Id, End}, watches = Watches} = State) ->
    ok = flame_prof_clock:cancel(End),
    Cooling = fun(#watch{trigger = Trigger} = Watch) ->
        Watch#watch{trigger = flame_prof_trigger:ended(now_ms(), Trigger)}
    end,
    State#state{
        firing = none,
        watches = maps:update_with(Id, Cooling, Watches),
        run = last_run(flame_prof_history:run(), State)
    }.

last_run(none, #state{run = Run}) -> Run;
last_run(Run, _State) -> Run.

stopped(#state{run = Run} = State) ->
    {ok, maps:merge(Run, describe(State))}.

%% Looks.

probe(Id, #watch{trouble = Why} = Watch, State) when Why =/= none ->
    %% Without events nothing is going to change.
    put_watch(Id, Watch, State);
probe(Id, Watch, State) ->
    case is_event(Watch) of
        true ->
            ok = look_after(interval(Watch), Id),
            look_back(Id, Watch, State);
        false ->
            put_watch(Id, begin_look(Watch, is_free(State)), State)
    end.

%% It is answered within its limit, when a time that it has to wait may be over.
begin_look(#watch{trigger = Trigger, memory = Memory} = Watch, IsFree) ->
    #{timeout := Limit} = Spec = spec(Watch),
    MayFire = flame_prof_trigger:may_fire(now_ms() + Limit, IsFree, Trigger),
    {Pid, Monitor} = flame_prof_condition:probe(Spec, MayFire, Memory),
    Timer = flame_prof_clock:send_after(Limit, {limit, Pid}),
    Watch#watch{probe = {Pid, Monitor, now_ms(), Timer}}.

probed(Id, #watch{probe = {_, _, Since, Timer}} = Watch0, Outcome, State) ->
    ok = flame_prof_clock:cancel(Timer),
    Watch = Watch0#watch{probe = none},
    ok = look_after(max(interval(Watch), ?REST * (now_ms() - Since)), Id),
    case Outcome of
        {flame_prof_condition, Value, Detail, Memory} ->
            answered(Id, Watch#watch{memory = Memory}, Value, Detail, State);
        _ ->
            put_watch(Id, failed(Outcome, Watch), State)
    end.

%% There is nothing that a number alone could be compared with.
answered(Id, Watch, Value, Detail, State) ->
    case is_boolean(Value) orelse is_map_key(above, spec(Watch)) of
        true -> step(Id, Watch, Value, Detail, State);
        false -> put_watch(Id, failed({no_above, Value}, Watch), State)
    end.

failed(Reason, #watch{failures = Before} = Watch) ->
    #{on := On, timeout := Limit} = spec(Watch),
    %% It may fail at every probe from now on.
    Before =:= 0 andalso
        ?LOG_WARNING(
            "flame_prof cannot check its trigger on ~ts: ~ts. It keeps trying, without further "
            "messages",
            [flame_prof_trigger:name(On), failure(Reason, Limit)],
            ?LOG_META
        ),
    Watch#watch{failures = Before + 1}.

failure(killed, Limit) ->
    io_lib:format("no answer within ~b ms, or too much memory", [Limit]);
failure({no_above, Value}, _) ->
    io_lib:format("it returned ~0tp: a number needs `above', true and false do not", [Value]);
failure({error, {no_boolean_and_no_number, _}, _}, _) ->
    "it returned neither a boolean nor a number";
failure({_Class, Reason, {_, _, _, _} = Call}, _) ->
    [failure_name(Reason), " in ", flame_prof_error:place(Call)];
failure(_, _) ->
    "it failed".

%% Without the terms that an error of a user's function may have.
failure_name(Name) when is_atom(Name) -> atom_to_list(Name);
failure_name(Tagged) when is_tuple(Tagged), is_atom(element(1, Tagged)) ->
    atom_to_list(element(1, Tagged));
failure_name(_) -> "an error".

%% Of an event: was there any since the previous probe?
look_back(Id, #watch{was_told = true} = Watch, State) ->
    listen_again(on(Watch), put_watch(Id, Watch#watch{was_told = false}, State));
look_back(Id, Watch, State) ->
    Listening = #state{watches = #{Id := Same}} = listen_again(on(Watch), State),
    step(Id, Same, false, <<>>, Listening).

%% For those that have not been told since their last probe, and for what they want:
%% what others have been told of may come a thousand times in a second.
listen_again(Event, #state{watches = Watches, events = Events} = State) ->
    Untold = maps:filter(fun(_, #watch{was_told = WasTold}) -> not WasTold end, Watches),
    Bound =
        case maps:fold(fun(_, W, Wanted) -> add_event(spec(W), Wanted) end, #{}, Untold) of
            #{Event := Least} -> Least;
            _ -> off
        end,
    heard(flame_prof_system_events:set(Event, Bound, Events), State).

heard({ok, Events}, State) -> State#state{events = Events};
heard({error, Why}, State) -> deaf(Why, State).

%% Once for each probe: what comes meanwhile is the same.
told(none, State) ->
    State;
told({Event, Said, Detail}, #state{watches = Watches, events = Events} = State) ->
    Value = lists:max([Said | least(Event, Watches)]),
    case [Id || {Id, Watch} <- maps:to_list(Watches), is_told(Event, Value, Watch)] of
        [] ->
            %% One is enough, and there may be many: off until the next probe.
            heard(flame_prof_system_events:set(Event, off, Events), State);
        Ids ->
            Listening = listen_again(Event, lists:foldl(fun mark_told/2, State, Ids)),
            lists:foldl(fun(Id, S) -> tell(Id, Value, Detail, S) end, Listening, Ids)
    end.

mark_told(Id, #state{watches = Watches} = State) ->
    put_watch(Id, (maps:get(Id, Watches))#watch{was_told = true}, State).

%% The VM would not have told of less, however it has counted.
least(Event, Watches) ->
    Bounds = [
        Above
     || Watch <- maps:values(Watches), #{on := On, above := Above} <- [spec(Watch)], On =:= Event
    ],
    lists:sublist(lists:sort(Bounds), 1).

is_told(Event, Value, #watch{was_told = false} = Watch) ->
    case spec(Watch) of
        #{on := Event, above := Above} -> Value >= Above;
        #{on := Event} -> true;
        _ -> false
    end;
is_told(_, _, _) ->
    false.

tell(Id, Value, Detail, #state{watches = Watches} = State) ->
    Watch = maps:get(Id, Watches),
    step(Id, Watch, reached(Value, spec(Watch)), Detail, State).

%% If the VM has applied the bound itself.
reached(Value, #{above := _}) -> Value;
reached(_, _) -> true.

put_watch(Id, Watch, #state{watches = Watches} = State) ->
    State#state{watches = Watches#{Id := Watch}}.

%% Firing.

step(Id, #watch{trigger = Trigger} = Watch, Value, Detail, State0) ->
    {What, Stepped} = flame_prof_trigger:step(Value, now_ms(), is_free(State0), Trigger),
    State = put_watch(Id, Watch#watch{trigger = Stepped}, State0),
    case What of
        fire -> fire(Id, spec(Watch), Value, Detail, State);
        rest -> State
    end.

is_free(#state{firing = none, stopping = [], is_closing = false}) -> true;
is_free(_) -> false.

fire(Id, #{on := On, duration := Duration} = Spec, Value, Said, State) ->
    Detail = with_function(On, Said),
    case begin_profile(note(Spec, Value, Detail), State) of
        {ok, Session} ->
            End = flame_prof_clock:send_after(Duration, {over, Session}),
            ok = tell_fired(Spec, Value, Detail, Session, State),
            State#state{session = Session, firing = {Id, End}};
        {error, Reason} ->
            complain(["profile what its trigger on ", flame_prof_trigger:name(On), " is for"],
                Reason),
            #{Id := #watch{trigger = Trigger} = Watch} = State#state.watches,
            Ended = flame_prof_trigger:ended(now_ms(), Trigger),
            close_session(put_watch(Id, Watch#watch{trigger = Ended}, State))
    end.

%% Of a long collection, where the allocations of a session are traced: the code that had no room.
with_function(long_gc, <<"<", _/binary>> = Process) ->
    case flame_prof_session_allocations:function_of(list_to_pid(binary_to_list(Process))) of
        none -> Process;
        Call -> <<Process/binary, " in ", (flame_prof_names:call(Call))/binary>>
    end;
with_function(_, Detail) ->
    Detail.

tell_fired(#{on := On, duration := Duration} = Spec, Value, Detail, Session, State) ->
    flame_prof_event:emit(
        ?FLAME_PROF_EVENT_TRIGGER_FIRE,
        #{value => number(Value)},
        #{
            trigger => flame_prof_trigger:name(On),
            above => maps:get(above, Spec, true),
            detail => Detail,
            session => Session,
            duration => Duration,
            lookback => State#state.lookback
        }
    ).

number(true) -> 1;
number(Value) -> Value.

%% The text in the file: `run_queue 57, above 50'.
note(#{on := On} = Spec, Value, Detail) ->
    Above =
        case Spec of
            #{above := Bound} -> [" ", shown(Value), ", above ", shown(Bound)];
            _ -> []
        end,
    Of = [[", ", Detail] || Detail =/= <<>>],
    cut(unicode:characters_to_binary([flame_prof_trigger:name(On), Above, Of])).

shown(Value) when is_float(Value) -> io_lib:format("~.1f", [Value]);
shown(Value) -> io_lib:format("~w", [Value]).

cut(Note) ->
    %% No name of a process ends it, in C.
    Text = binary:replace(Note, <<0>>, <<"?">>, [global]),
    case unicode:characters_to_binary(binary:part(Text, 0, min(?NOTE_BYTES, byte_size(Text)))) of
        Whole when is_binary(Whole) -> Whole;
        {_, Good, _} -> Good
    end.

%% The part of info/0.

describe(#state{watches = Watches, lookback = Lookback, firing = Firing}) ->
    #{
        lookback => Lookback,
        profiling =>
            case Firing of
                none -> false;
                {Id, _} -> on(maps:get(Id, Watches))
            end,
        triggers => [described(Watch) || {_, Watch} <- lists:sort(maps:to_list(Watches))]
    }.

described(#watch{trigger = Trigger, failures = Failures, trouble = Trouble}) ->
    Info = (flame_prof_trigger:info(Trigger))#{failures => Failures},
    case Trouble of
        none -> Info;
        Why -> Info#{trouble => Why}
    end.
