%% @private What the live table shows, from the node that is watched: the first processes
%% by the column that is sorted, of all processes, observed several times an interval.
%%
%% It ends with the process that watches, and never has more than one table on its way:
%% where none is taken, nothing is read either.
%%
%% == Cost ==
%% Once an interval a pass over all processes ({@link flame_prof_top_ranking}), which is
%% followed by a rest of three times its length: a quarter of one core at most. So, of a
%% million processes, a table comes every second by a metric and twice or three times a
%% minute with a filter or by name; `seconds' of a table tells. Five times an interval the
%% processes that the last two passes have selected are read.
%%
%% It is a gen_server, so that all its modules can be loaded anew while it works.
-module(flame_prof_top_sampler).

-behaviour(gen_server).

-export([start/2, set_view/2, taken/1, stop/1]).
-export([init/1, handle_continue/2, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([table/0, view/0, options/0]).

-type view() :: #{by := flame_prof_top_ranking:column(), filter := binary()}.

%% `every_ms': between two tables; `rows': how many processes.
-type options() ::
    #{
        every_ms := pos_integer(),
        rows := pos_integer(),
        by := flame_prof_top_ranking:column(),
        filter := binary()
    }.

-type table() ::
    #{
        node := node(),
        engine := flame_prof_top_reader:engine(),
        processes := non_neg_integer(),
        seconds := float(),
        rows := [flame_prof_top_rows:row()]
    }.

-record(state, {
    watcher :: pid(),
    options :: options(),
    engine = portable :: flame_prof_top_reader:engine(),
    ranking :: undefined | flame_prof_top_ranking:ranking(),
    %% Only messages of the present view count: those of the previous view are dropped.
    tag = make_ref() :: reference(),
    passes = 0 :: non_neg_integer(),
    pass_us = 0 :: integer(),
    selected = #{} :: flame_prof_top_ranking:selected() | #{},
    %% The previous pass: a process that could not be read in one pass is not lost at once.
    before = [] :: [pid()],
    since_us = 0 :: integer(),
    seen = #{} :: #{pid() => flame_prof_top_rows:seen()},
    last = #{} :: #{pid() => flame_prof_top_rows:seen()},
    ticks = 0 :: non_neg_integer(),
    is_taken = true :: boolean(),
    is_idle = false :: boolean()
}).

-define(OBSERVATIONS, 5).
-define(OBSERVE_LEAST_MS, 50).
%% Between the first pass and the second, from which growth is known.
-define(SECOND_PASS_MS, 200).
%% A rest after a pass, in lengths of the pass.
-define(REST, 3).
%% More are selected than shown, as those of flame_prof are left out afterwards.
-define(OWN_MOST, 40).

%% @doc Called in the node that is watched; the watcher may be in another one. It
%% gets `{flame_prof_top_sampler, Pid, Table}'.
-spec start(pid(), options()) -> {ok, pid()}.
start(Watcher, Options) ->
    gen_server:start(?MODULE, {Watcher, Options}, []).

%% @doc The next table is of this view.
-spec set_view(pid(), view()) -> ok.
set_view(Sampler, View) ->
    gen_server:cast(Sampler, {view, View}).

%% @doc The watcher is ready for another table.
-spec taken(pid()) -> ok.
taken(Sampler) ->
    gen_server:cast(Sampler, taken).

-spec stop(pid()) -> ok.
stop(Sampler) ->
    gen_server:cast(Sampler, stop).

-spec init({pid(), options()}) -> {ok, #state{}, {continue, engine}}.
init({Watcher, Options}) ->
    true = group_leader(whereis(init), self()),
    _ = monitor(process, Watcher),
    {ok, #state{watcher = Watcher, options = Options}, {continue, engine}}.

-spec handle_continue(engine, #state{}) -> {noreply, #state{}}.
handle_continue(engine, State) ->
    {noreply, restarted(State#state{engine = flame_prof_top_reader:engine()})}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, {error, unknown_call}, #state{}}.
handle_call(_, _From, State) ->
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}} | {stop, normal, #state{}}.
handle_cast(stop, State) ->
    {stop, normal, State};
handle_cast(taken, #state{is_idle = true} = State) ->
    {noreply, restarted(State#state{is_taken = true})};
handle_cast(taken, State) ->
    {noreply, State#state{is_taken = true}};
handle_cast({view, View}, #state{options = Options} = State) ->
    case maps:merge(Options, View) of
        Options -> {noreply, State};
        Changed -> {noreply, restarted(State#state{options = Changed})}
    end;
handle_cast(_, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, normal, #state{}}.
handle_info({pass, Tag}, #state{tag = Tag} = State) ->
    {noreply, begin_pass(State)};
handle_info({step, Tag}, #state{tag = Tag} = State) ->
    {noreply, step(State)};
handle_info({observe, Tag}, #state{tag = Tag} = State0) ->
    Begun = now_us(),
    State = observed(State0),
    ok = later(observe_ms(now_us() - Begun, State), observe, State),
    {noreply, State};
handle_info({'DOWN', _, process, Watcher, _}, #state{watcher = Watcher} = State) ->
    {stop, normal, State};
handle_info(_, State) ->
    {noreply, State}.

%% A rest as long as the observation, where that waits for schedulers that get no CPU.
observe_ms(TookUs, #state{options = #{every_ms := Every}}) ->
    lists:max([?OBSERVE_LEAST_MS, Every div ?OBSERVATIONS, TookUs div 1000]).

now_us() -> flame_prof_clock:now_us().

later(Ms, Message, #state{tag = Tag}) ->
    _ = flame_prof_clock:send_after(Ms, {Message, Tag}),
    ok.

%% A new view has no data yet.
restarted(#state{engine = Engine, options = Options} = State0) ->
    #{by := By, filter := Filter, rows := Rows} = Options,
    State = State0#state{
        tag = make_ref(),
        ranking = flame_prof_top_ranking:new(Engine, By, Filter, Rows + ?OWN_MOST),
        passes = 0,
        selected = #{},
        before = [],
        seen = #{},
        last = #{},
        ticks = 0,
        is_idle = false
    },
    %% The library's part of the ranking before goes now.
    true = erlang:garbage_collect(),
    ok = later(0, pass, State),
    State.

%% Passes.

begin_pass(#state{is_taken = false} = State) ->
    State#state{tag = make_ref(), is_idle = true};
begin_pass(#state{ranking = Ranking} = State) ->
    step(State#state{ranking = flame_prof_top_ranking:begin_pass(Ranking), pass_us = now_us()}).

step(#state{ranking = Ranking0} = State) ->
    case flame_prof_top_ranking:step(Ranking0) of
        {more, PauseMs, Ranking} ->
            ok = later(PauseMs, step, State),
            State#state{ranking = Ranking};
        {done, Selected, Ranking} ->
            Passes = State#state.passes + 1,
            passed(with_dirty(Selected, State), State#state{ranking = Ranking, passes = Passes})
    end.

%% A process in a dirty NIF runs, and consumes no reductions.
with_dirty(#{pids := Pids} = Selected, State) ->
    case State of
        #state{engine = native, options = #{by := running}} ->
            Running = flame_prof_top_reader:on_dirty_schedulers(),
            Wanted = [Pid || {Pid, Seen} <- Running, is_wanted(Pid, Seen, State)],
            Selected#{pids := lists:usort(Wanted ++ Pids)};
        _ ->
            Selected
    end.

passed(Selected, #state{passes = Passes, options = #{by := By, every_ms := Every}} = State) ->
    case {Passes, flame_prof_top_ranking:needs_two(By)} of
        {1, true} ->
            ok = later(max(?SECOND_PASS_MS, rest_ms(State)), pass, State),
            State;
        {N, NeedsTwo} when N =:= 1; N =:= 2, NeedsTwo ->
            ok = later(0, observe, State),
            ok = later(max(Every, rest_ms(State)), pass, State),
            State#state{selected = Selected, since_us = now_us()};
        _ ->
            sent(Selected, State)
    end.

rest_ms(#state{pass_us = Begun}) -> ?REST * (now_us() - Begun) div 1000.

%% Observing.

observed(#state{selected = #{pids := Pids}, before = Before, engine = Engine} = State) ->
    {Running, Ticks} = running(State),
    Others = lists:usort(Pids ++ Before) -- [Pid || {Pid, _} <- Running],
    Found = Running ++ flame_prof_top_reader:read(Engine, full, Others),
    Now = now_us(),
    Seen = lists:foldl(
        fun({Pid, Observation}, Acc) ->
            maps:update_with(Pid, fun(More) -> [{Now, Observation} | More] end,
                [{Now, Observation}], Acc)
        end,
        State#state.seen,
        [One || {Pid, Observation} = One <- Found, is_shown(Pid, Observation, State)]
    ),
    with_running(Running, State#state{seen = Seen, ticks = Ticks});
observed(State) ->
    State.

%% The processes that run at an observation, of all.
running(#state{engine = native, options = #{by := running}, ticks = Ticks} = State) ->
    Running = [
        {Pid, Observation}
     || {Pid, Observation} <- flame_prof_top_reader:on_schedulers(),
        is_wanted(Pid, Observation, State)
    ],
    {Running, Ticks + 1};
running(State) ->
    {[], State#state.ticks}.

%% Those are observed from now on.
with_running(Running, #state{selected = #{pids := Pids} = Selected} = State) ->
    More = [Pid || {Pid, _} <- Running],
    State#state{selected = Selected#{pids := lists:usort(More ++ Pids)}}.

is_shown(_Pid, #{status := free}, _) -> false;
is_shown(Pid, #{is_own := IsOwn}, #state{watcher = Watcher}) ->
    not IsOwn andalso Pid =/= Watcher.

is_wanted(Pid, Observation, #state{options = #{filter := Filter}} = State) ->
    is_shown(Pid, Observation, State) andalso
        flame_prof_top_ranking:is_wanted(Filter,
            Observation#{pid => list_to_binary(pid_to_list(Pid))}).

%% Telling.

%% Those that this pass has selected first are observed once, at the end of the interval.
sent(#{processes := Processes} = Selected, State0) ->
    #state{selected = #{pids := Observed}, options = #{by := By, rows := Most}} = State0,
    State = observed(State0#state{selected = Selected, before = Observed}),
    Now = now_us(),
    Rows = [row(Pid, Seen, Selected, State) || {Pid, Seen} <- maps:to_list(State#state.seen)],
    State#state.watcher !
        {?MODULE, self(), #{
            node => node(),
            engine => State#state.engine,
            processes => Processes,
            seconds => max(1, Now - State#state.since_us) / 1.0e6,
            rows => lists:sublist(flame_prof_top_rows:sorted(By, Rows), Most)
        }},
    again(Now, State#state{is_taken = false}).

row(Pid, Seen, #{scores := Scores, interval_us := Us}, #state{options = #{by := By}} = State) ->
    Score =
        case Scores of
            #{Pid := Growth} -> {By, Growth, Us};
            _ -> none
        end,
    flame_prof_top_rows:row(Pid, Seen, maps:get(Pid, State#state.last, []), Score,
        State#state.ticks).

again(Now, #state{seen = Seen, options = #{every_ms := Every}} = State) ->
    ok = later(max(Every, rest_ms(State)), pass, State),
    State#state{
        seen = #{},
        last = maps:map(fun(_, [Latest | _]) -> [Latest] end, Seen),
        ticks = 0,
        since_us = Now
    }.
