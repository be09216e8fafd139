%% @private The processes that a session samples beside those that its rankings select.
%%
%% ```
%%   profile_start/1 ---> explicit --+
%%   include -----------> included --+--> wanted: to the sampler, at its next tick
%%   rules with filters > filtered --+
%%   follow ------------> followed --+
%% '''
%%
%% Explicit processes are those that profile themselves. What they do, and what selected
%% processes do where `process_options' says so, adds further processes:
%% <ul>
%% <li>`spawn': the processes that one spawns. Nothing is traced: every process
%%     knows its parent, and new processes are asked. A process that lives shorter
%%     than a poll is not followed. Polls take at most a twentieth of one
%%     scheduler.</li>
%% <li>`send': the local processes that one sends to. That takes tracing: in a session of
%%     its own where OTP has them (from 27 on). Before that a process has at most one
%%     tracer: a process that is traced already is left alone.
%%     The tracer is the library itself (c_src/agent_nif/sends.c): it looks at the
%%     receiver, never at the message.</li>
%% </ul>
%% All that is bounded by `follow_limits'. When a limit is reached, following ends
%% for good in this session, which is logged and in `info/0'; followed processes stay.
-module(flame_prof_targets).

-behaviour(gen_server).

-include("flame_prof.hrl").
-include("flame_prof_internal.hrl").

-export([start_link/1, attach/2, stop/1]).
-export([processes/1, enter/2, leave/2, info/2, selected/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export([ask_registries/1]).

-export_type([config/0, engine/0, previous/0]).

-type engine() :: {native, flame_prof_nif:session()} | {portable, flame_prof_portable:engine()}.

-type config() ::
    #{
        options := flame_prof_options:options(),
        %% Rules with filters, under the native engine.
        rules := [flame_prof_selection:rule()],
        exclude := [pid()]
    }.

%% The state of a process before it profiled itself.
-type previous() :: none | flame_prof_options:process().

-record(explicit, {options :: flame_prof_options:process(), monitor :: reference()}).

%% The tracer's state; in a session of its own, or as each process' only tracer.
-record(tracing, {
    state :: reference(),
    session :: none | term(),
    traced = #{} :: #{pid() => []}
}).

-record(targets, {
    owner :: pid(),
    engine = none :: none | engine(),
    selector = none :: none | pid(),
    auto :: flame_prof_options:process(),
    include :: [flame_prof_target:parsed()],
    %% Who has names of `include' that a registry knows, and the process that asks these: one that
    %% hangs holds up nobody who calls this server.
    registered = [] :: [pid()],
    finder = none :: none | reference(),
    limits :: flame_prof_options:follow_limits(),
    exclude :: #{pid() => []},
    explicit = #{} :: #{pid() => #explicit{}},
    filtered = #{} :: flame_prof_selector:selected(),
    %% Each with the options of the process that it was followed from.
    followed = #{} :: #{pid() => flame_prof_options:process()},
    %% Explicit ones that have ended or left since the last poll: what they have
    %% spawned is theirs all the same. None where no poll would come to empty it.
    late = #{} :: #{pid() => flame_prof_options:process()},
    %% All processes at the last poll: one that is not among them is new.
    known = none :: none | #{pid() => []},
    poll = none :: none | reference(),
    tracing = none :: none | #tracing{},
    ended = no :: no | processes | events | seconds,
    wanted = [] :: [flame_prof_nif:pinned()]
}).

-define(POLL_MS, 200).
%% A poll that takes T is followed by a rest of 19 T.
-define(REST, 19).

%% @doc Ends with the caller, its session. The session is not the parent that gen_server knows:
%% gen_server would report its end by kill, with the state.
-spec start_link(config()) -> pid().
start_link(Config) ->
    {ok, Pid} = gen_server:start(?MODULE, {self(), Config}, []),
    Pid.

%% @doc To be called once, when the engine runs. Until then no process is pinned.
-spec attach(pid(), engine()) -> ok.
attach(Pid, Engine) ->
    gen_server:cast(Pid, {attach, Engine}).

%% @doc Its own processes, which are not sampled.
-spec processes(pid()) -> [pid()].
processes(Pid) ->
    gen_server:call(Pid, processes).

-spec stop(pid()) -> ok.
stop(Pid) ->
    try
        gen_server:stop(Pid, normal, 1000)
    catch
        exit:_ -> ok
    end.

%% @doc From the next tick on. Answers what the process was before. After an error it
%% is not profiled.
-spec enter(pid(), flame_prof_options:process()) -> {ok, previous()} | {error, not_started}.
enter(Pid, Options) ->
    try
        {ok, gen_server:call(Pid, {enter, self(), Options})}
    catch
        exit:_ ->
            %% It may only be late; this comes after it.
            ok = gen_server:cast(Pid, {leave, self()}),
            {error, not_started}
    end.

%% @doc Back to what it was.
-spec leave(pid(), previous()) -> previous().
leave(Pid, Previous) ->
    gen_server:call(Pid, {leave, self(), Previous}).

-spec info(pid(), timeout()) -> map().
info(Pid, Timeout) ->
    gen_server:call(Pid, info, Timeout).

%% @doc All sampled processes.
-spec selected(pid()) -> [pid()].
selected(Pid) ->
    gen_server:call(Pid, selected).

-spec init({pid(), config()}) -> {ok, #targets{}}.
init({Session, #{options := Options, rules := Rules, exclude := Exclude}}) ->
    _ = process_flag(trap_exit, true),
    true = link(Session),
    %% A session starts when this has.
    _ = process_flag(priority, high),
    #{process_options := Auto, include := Include, follow_limits := Limits} = Options,
    Own = [self() | Exclude],
    {ok, #targets{
        owner = Session,
        selector = start_selector(Rules, Own),
        auto = Auto,
        include = Include,
        limits = Limits,
        exclude = maps:from_keys(Own, [])
    }}.

start_selector([], _) -> none;
start_selector(Rules, Own) -> 
    flame_prof_selector:start_link(#{rules => Rules, growers => 0, exclude => Own}).

-spec handle_call(term(), gen_server:from(), #targets{}) -> {reply, term(), #targets{}}.
handle_call({enter, Pid, Options}, _From, #targets{explicit = Explicit} = State0) ->
    {Previous, State} = forget(Pid, State0),
    Monitor = erlang:monitor(process, Pid),
    Entry = #explicit{options = Options, monitor = Monitor},
    Entered = State#targets{explicit = Explicit#{Pid => Entry}},
    {reply, Previous, want(begin_following(Pid, Options, Entered))};
handle_call({leave, Pid, none}, _From, State0) ->
    {Previous, State} = forget(Pid, State0),
    {reply, Previous, want(State)};
handle_call({leave, Pid, Options}, From, State) ->
    handle_call({enter, Pid, Options}, From, State);
handle_call(processes, _From, #targets{selector = Selector} = State) ->
    {reply, [self() | [Selector || is_pid(Selector)]], State};
handle_call(selected, _From, #targets{engine = {native, Session}} = State) ->
    case flame_prof_nif:session_selected(Session) of
        {error, closed} -> {reply, [], State};
        Pids -> {reply, lists:sort(Pids), State}
    end;
handle_call(selected, _From, #targets{engine = {portable, Engine}, wanted = Wanted} = State) ->
    Pids = flame_prof_portable:chosen(Engine) ++ [Pid || {Pid, _, _} <- Wanted],
    {reply, lists:usort(Pids), State};
handle_call(info, _From, State) ->
    {reply, describe(State), State};
handle_call(_, _From, State) ->
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #targets{}) -> {noreply, #targets{}}.
handle_cast({attach, Engine}, State) ->
    _ = process_flag(priority, normal),
    {noreply, want(schedule(0, State#targets{engine = Engine}))};
handle_cast({leave, Pid}, State0) ->
    {_, State} = forget(Pid, State0),
    {noreply, want(State)};
handle_cast(_, State) ->
    {noreply, State}.

-spec handle_info(term(), #targets{}) -> {noreply, #targets{}} | {stop, term(), #targets{}}.
handle_info(poll, State0) ->
    Begun = flame_prof_clock:now_ms(),
    State = want(poll(look_up(State0#targets{poll = none}))),
    Took = flame_prof_clock:now_ms() - Begun,
    {noreply, schedule(max(?POLL_MS, ?REST * Took), State)};
handle_info({selected, _Selector, _Counts, Filtered}, State) ->
    {noreply, want(State#targets{filtered = Filtered})};
handle_info({flame_prof_sends, over, _Events}, State) ->
    {noreply, end_following(events, State)};
handle_info({flame_prof_sends, From, To}, State) ->
    {noreply, want(follow_receiver(From, To, State))};
handle_info(seconds_are_over, State) ->
    {noreply, end_following(seconds, State)};
handle_info({'DOWN', Finder, process, _, Outcome}, #targets{finder = Finder} = State) ->
    Found = case Outcome of {?MODULE, Pids} -> Pids; _ -> [] end,
    {noreply, want(State#targets{finder = none, registered = Found})};
handle_info({'DOWN', Monitor, process, Pid, _}, #targets{explicit = Explicit} = State) ->
    case Explicit of
        #{Pid := #explicit{monitor = Monitor}} ->
            {_, Without} = forget(Pid, State),
            {noreply, want(Without)};
        _ ->
            %% A followed one.
            {noreply, want(State#targets{followed = maps:remove(Pid, State#targets.followed)})}
    end;
handle_info({'EXIT', Owner, _}, #targets{owner = Owner} = State) ->
    {stop, normal, State};
%% The selector.
handle_info({'EXIT', _, Reason}, State) ->
    {stop, Reason, State};
handle_info(_, State) ->
    {noreply, State}.

-spec terminate(term(), #targets{}) -> ok.
terminate(_Reason, State) ->
    end_tracing(State).

describe(#targets{explicit = Explicit, filtered = Filtered, followed = Followed} = State) ->
    #{
        explicit => map_size(Explicit),
        included => length(included(State)),
        filtered => map_size(Filtered),
        followed => map_size(Followed),
        following => following(State)
    }.

following(#targets{ended = Limit}) when Limit =/= no -> {ended, Limit};
following(#targets{tracing = #tracing{state = Tracer}}) ->
    {traces, flame_prof_looks_nif:sends_seen(Tracer)};
following(State) ->
    case is_following(State) of
        true -> polls;
        false -> off
    end.

%% The message to the sampler.

%% In the order of their right to a place. A pinned process stays when the engine has to
%% do with fewer to keep within its budget.
want(#targets{engine = none} = State) ->
    State;
want(#targets{explicit = Explicit, filtered = Filtered, followed = Followed} = State) ->
    #targets{auto = #{status := Status}, wanted = Before, exclude = Exclude} = State,
    All =
        [
            {Pid, S, pinned}
         || {Pid, #explicit{options = #{status := S}}} <- maps:to_list(Explicit)
        ] ++
            [{Pid, Status, pinned} || Pid <- included(State)] ++
            [{Pid, Status, selected} || Pid <- maps:keys(Filtered)] ++
            [{Pid, S, selected} || {Pid, #{status := S}} <- maps:to_list(Followed)],
    Wanted = lists:sublist(unique(All, Exclude, []), ?FP_PINNED_MAX),
    ok = tell(Wanted, Before, State#targets.engine),
    State#targets{wanted = Wanted}.

unique([], _Seen, Unique) ->
    lists:reverse(Unique);
unique([{Pid, _, _} | Rest], Seen, Unique) when is_map_key(Pid, Seen) ->
    unique(Rest, Seen, Unique);
unique([{Pid, _, _} = Wanted | Rest], Seen, Unique) ->
    unique(Rest, Seen#{Pid => []}, [Wanted | Unique]).

tell(Wanted, Wanted, _Engine) ->
    ok;
tell(Wanted, _Before, {native, Session}) ->
    case flame_prof_nif:session_pin(Session, Wanted) of
        ok -> ok;
        %% The session is ending.
        {error, closed} -> ok
    end;
tell(Wanted, _Before, {portable, Engine}) ->
    flame_prof_portable:want(Engine, [{Pid, Status} || {Pid, Status, _} <- Wanted]).

included(#targets{include = Include, registered = Registered}) ->
    found([Who || Who <- Include, not is_tuple(Who)]) ++ Registered.

found(Names) -> [Pid || Who <- Names, Pid <- [flame_prof_target:find(Who)], is_pid(Pid)].

%% @private
-spec ask_registries([flame_prof_target:parsed()]) -> no_return().
ask_registries(Names) -> exit({?MODULE, found(Names)}).

look_up(#targets{include = Include, finder = none} = State) ->
    case [Who || Who <- Include, is_tuple(Who)] of
        [] ->
            State;
        Names ->
            %% The next poll tries again if there is no room for a process.
            try spawn_monitor(?MODULE, ask_registries, [Names]) of
                {_, Monitor} -> State#targets{finder = Monitor}
            catch
                error:system_limit -> State
            end
    end;
look_up(State) ->
    State.

forget(Pid, #targets{explicit = Explicit} = State) ->
    case maps:take(Pid, Explicit) of
        {#explicit{options = Options, monitor = Monitor}, Others} ->
            _ = erlang:demonitor(Monitor, [flush]),
            {Options, add_late(Pid, Options, State#targets{explicit = Others})};
        error ->
            {none, State}
    end.

add_late(Pid, Options, #targets{ended = no, late = Late} = State) ->
    case follows_spawns(Options) of
        true -> State#targets{late = Late#{Pid => Options}};
        false -> State
    end;
add_late(_Pid, _Options, State) ->
    State.

%% Spreading.

%% The next poll, where there is something to look for.
schedule(Ms, #targets{poll = none, include = Include} = State) ->
    case Include =/= [] orelse is_following(State) of
        true -> State#targets{poll = flame_prof_clock:send_after(Ms, poll)};
        false -> State
    end;
schedule(_Ms, State) ->
    State.

is_following(#targets{ended = no, auto = Auto, explicit = Explicit, followed = Followed,
    late = Late}) ->
    follows(Auto) orelse map_size(Late) > 0 orelse
        lists:any(fun follows/1, maps:values(Followed)) orelse
        lists:any(fun(#explicit{options = Options}) -> follows(Options) end, maps:values(Explicit));
is_following(_) ->
    false.

follows(#{follow := Follow}) -> Follow =/= none.

follows_spawns(#{follow := Follow}) -> Follow =:= spawn orelse Follow =:= spawn_and_send.

follows_sends(#{follow := Follow}) -> Follow =:= send orelse Follow =:= spawn_and_send.

%% One more process to follow.
begin_following(_Pid, _Options, #targets{ended = Limit} = State) when Limit =/= no ->
    State;
begin_following(Pid, Options, State) ->
    case follows(Options) of
        true -> trace(Pid, Options, schedule(?POLL_MS, notice_all(State)));
        false -> State
    end.

notice_all(#targets{known = none} = State) ->
    State#targets{known = maps:from_keys(processes(), [])};
notice_all(State) ->
    State.

poll(State0) ->
    case is_following(State0) of
        true -> settled(poll_spawned(trace_chosen(notice_all(State0))));
        false -> State0#targets{known = none}
    end.

%% The next process to follow must not find children that it had long before.
settled(State) ->
    case is_following(State) of
        true -> State;
        false -> State#targets{known = none}
    end.

%% New processes, each with its parent: its children may be new as well, so until none is
%% found any more.
poll_spawned(#targets{known = Known} = State) ->
    Now = processes(),
    New = [
        {Pid, Parent}
     || Pid <- Now,
        not is_map_key(Pid, Known),
        {parent, Parent} <- [erlang:process_info(Pid, parent)]
    ],
    Noticed = State#targets{known = maps:from_keys(Now, []), late = #{}},
    follow_spawned(New, roots(State), Noticed).

follow_spawned(New, Roots, State) ->
    {Followed, Others} = lists:partition(fun({_, Parent}) -> is_map_key(Parent, Roots) end, New),
    case Followed of
        [] ->
            State;
        _ ->
            Found = maps:from_list([{Pid, maps:get(Parent, Roots)} || {Pid, Parent} <- Followed]),
            follow_spawned(Others, maps:merge(Roots, Found),
                maps:fold(fun follow_one/3, State, Found))
    end.

%% All whose children are followed, with the options that those get.
roots(#targets{explicit = Explicit, followed = Followed, late = Late} = State) ->
    Own = maps:map(fun(_, #explicit{options = Options}) -> Options end, Explicit),
    All = maps:merge(maps:merge(maps:merge(chosen(State), Followed), Late), Own),
    maps:filter(fun(_, Options) -> follows_spawns(Options) end, All).

%% The selected processes, where they are followed.
chosen(#targets{auto = #{follow := none}}) ->
    #{};
chosen(#targets{engine = none}) ->
    #{};
chosen(#targets{auto = Auto, engine = {native, Session}} = State) ->
    case flame_prof_nif:session_selected(Session) of
        {error, closed} -> #{};
        Pids -> maps:from_keys(Pids -- maps:keys(State#targets.followed), Auto)
    end;
chosen(#targets{auto = Auto, engine = {portable, Engine}}) ->
    maps:from_keys(flame_prof_portable:chosen(Engine), Auto).

trace_chosen(#targets{auto = Auto} = State) ->
    case follows_sends(Auto) of
        true -> maps:fold(fun trace/3, State, chosen(State));
        false -> State
    end.

follow_one(_Pid, _Options, #targets{ended = Limit} = State) when Limit =/= no ->
    State;
follow_one(Pid, _Options, #targets{exclude = Exclude} = State) when is_map_key(Pid, Exclude) ->
    State;
follow_one(Pid, Options, State) ->
    #targets{followed = Followed, explicit = Explicit, limits = Limits} = State,
    case is_map_key(Pid, Followed) orelse is_map_key(Pid, Explicit) of
        true ->
            State;
        false when map_size(Followed) >= map_get(processes, Limits) ->
            end_following(processes, State);
        false ->
            _ = erlang:monitor(process, Pid),
            trace(Pid, Options, State#targets{followed = Followed#{Pid => Options}})
    end.

follow_receiver(From, Name, State) when is_atom(Name) ->
    case whereis(Name) of
        To when is_pid(To) -> follow_receiver(From, To, State);
        _ -> State
    end;
follow_receiver(From, To, State) ->
    #targets{explicit = Explicit, followed = Followed, auto = Auto} = State,
    case {Explicit, Followed} of
        {#{From := #explicit{options = Options}}, _} -> follow_one(To, Options, State);
        {_, #{From := Options}} -> follow_one(To, Options, State);
        _ -> follow_one(To, Auto, State)
    end.

end_following(_Limit, #targets{ended = Already} = State) when Already =/= no ->
    State;
end_following(Limit, #targets{limits = Limits} = State) ->
    ok = end_tracing(State),
    ok = flame_prof_event:emit(
        ?FLAME_PROF_EVENT_FOLLOW_STOP,
        #{followed => map_size(State#targets.followed)},
        #{limit => Limit, limits => Limits}
    ),
    State#targets{ended = Limit, tracing = none, known = none, late = #{}}.

%% Tracing. Failing to trace is no failure: the process has ended, or has
%% another tracer.

trace(_Pid, _Options, #targets{ended = Limit} = State) when Limit =/= no ->
    State;
trace(Pid, Options, State0) ->
    case follows_sends(Options) of
        true ->
            #targets{tracing = #tracing{traced = Traced} = Tracing} = State = begin_tracing(State0),
            ok = trace_sends(Pid, Tracing, is_map_key(Pid, Traced)),
            State#targets{tracing = Tracing#tracing{traced = Traced#{Pid => []}}};
        false ->
            State0
    end.

begin_tracing(#targets{tracing = none, limits = #{events := Events, seconds := Seconds}} = State) ->
    %% Until this process ends.
    ok = flame_prof_looks:hold(),
    Tracer = flame_prof_looks_nif:sends_open(Events),
    _ = flame_prof_clock:send_after(Seconds * 1000, seconds_are_over),
    State#targets{tracing = #tracing{state = Tracer, session = create_session(Tracer)}};
begin_tracing(State) ->
    State.

%% By variables: older releases do not have the module.
create_session(Tracer) ->
    Trace = trace,
    case code:ensure_loaded(Trace) of
        {module, Trace} -> Trace:session_create(flame_prof, {flame_prof_looks_nif, Tracer}, []);
        {error, _} -> none
    end.

trace_sends(_Pid, _Tracing, true) ->
    ok;
trace_sends(Pid, #tracing{state = Tracer, session = none}, false) ->
    try erlang:trace(Pid, true, [send, {tracer, flame_prof_looks_nif, Tracer}]) of
        _ -> ok
    catch
        error:badarg -> ok
    end;
trace_sends(Pid, #tracing{session = Session}, false) ->
    Trace = trace,
    try Trace:process(Session, Pid, true, [send]) of
        _ -> ok
    catch
        error:badarg -> ok
    end.

%% Who does not send any more keeps the flag otherwise, and with it the place of
%% its tracer.
end_tracing(#targets{tracing = none}) ->
    ok;
end_tracing(#targets{tracing = #tracing{state = Tracer, session = none, traced = Traced}}) ->
    ok = flame_prof_looks_nif:sends_end(Tracer),
    lists:foreach(fun(Pid) -> untrace(Pid, Tracer) end, maps:keys(Traced));
end_tracing(#targets{tracing = #tracing{state = Tracer, session = Session}}) ->
    Trace = trace,
    ok = flame_prof_looks_nif:sends_end(Tracer),
    _ = Trace:session_destroy(Session),
    ok.

%% The types of OTP 25 do not know that a tracer may be a module.
-dialyzer({nowarn_function, [untrace/2, trace_off/1]}).

%% Only its own flags: between the two calls no other tracer can have replaced the
%% session's.
untrace(Pid, Tracer) ->
    case erlang:trace_info(Pid, tracer) of
        {tracer, {flame_prof_looks_nif, Tracer}} -> trace_off(Pid);
        _ -> ok
    end.

trace_off(Pid) ->
    try erlang:trace(Pid, false, [send]) of
        _ -> ok
    catch
        error:badarg -> ok
    end.
