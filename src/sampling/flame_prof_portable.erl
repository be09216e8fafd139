%% @private The portable engine: the native one's samples, by `process_info/2'.
%%
%% It runs wherever Erlang runs, with the library or without it: its samples go to
%% an transport (flame_prof_transport). It differs from the native engine in what a
%% sample means: `process_info/2' interrupts its target, which answers at the
%% next point where it takes signals. Time inside a long NIF or BIF is thus seen
%% late, at its end, and the stack of a running process is that of such a point.
%% The status is what `process_info/2' says; it is asked together with the rest,
%% so that a sample is of one moment. ERTS gives it 64 frames at most: of a
%% deeper stack the root end is missing, which the file shows as `truncated'.
%%
%% What it does to the host, and what bounds that:
%% <ul>
%% <li>Each tick costs 4 to 8 microseconds a process, of a scheduler that is not
%%     busy otherwise. After a tick the engine rests for at least as long as the
%%     tick took, so that it never takes more than half of one scheduler; ticks
%%     skipped for that are counted as missed.</li>
%% <li>Priority `high': with `normal' it would wait in the queue of a busy node
%%     and see idle moments only. Not `max': that is where the runtime's own
%%     processes are.</li>
%% <li>`backtrace_depth', a flag of the whole node (8 by default), is raised
%%     while the engine runs: exceptions carry longer stack traces meanwhile. It
%%     is put back at the end, however the engine or its session ends, unless
%%     both are killed at once.</li>
%% </ul>
-module(flame_prof_portable).

-behaviour(gen_server).

-include("flame_prof.hrl").
-include("flame_prof_internal.hrl").

-export([start_link/1, stop/1, kill/1, pid/1, restore/1]).
-export([want/2, chosen/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([engine/0, config/0]).

-type config() ::
    #{
        transport := flame_prof_transport:transport(),
        sample_interval_ms := pos_integer(),
        rules := [flame_prof_selection:rule()],
        growers := non_neg_integer(),
        status := all | flame_prof:status(),
        exclude := [pid()]
    }.

%% The process; the node's backtrace_depth before it, and as it set it.
-opaque engine() :: {pid(), Before :: non_neg_integer(), InForce :: non_neg_integer()}.

%% One less, for the mark of a truncated one. ERTS cuts it to its own limit, which is 64 from
%% OTP 25 to 29.
-define(DEPTH, (?FP_STACK_FRAMES_MAX - 1)).
%% Between two calls of the library, which has to answer within a millisecond.
-define(SAMPLES_A_PUSH, 256).
-define(ITEMS, [
    status,
    current_stacktrace,
    reductions,
    message_queue_len,
    memory,
    total_heap_size,
    garbage_collection_info,
    garbage_collection
]).

-record(process, {
    slot :: non_neg_integer(),
    names :: flame_prof_names:names(),
    %% Only samples of this status.
    status :: all | flame_prof:status(),
    is_told = false :: boolean()
}).

-record(engine, {
    owner :: pid(),
    transport :: flame_prof_transport:transport(),
    selector :: none | pid(),
    status :: all | flame_prof:status(),
    depth :: non_neg_integer(),
    depth_before :: non_neg_integer(),
    stacks = flame_prof_stacks:new() :: flame_prof_stacks:stacks(),
    %% By the rules, and whatever the rules say; together they are the processes.
    selected = #{} :: flame_prof_selector:selected(),
    wanted = [] :: [{pid(), all | flame_prof:status()}],
    processes = #{} :: #{pid() => #process{}},
    %% Slots given back; all from `slots' on have never been used. There are more
    %% (FP_PROCESS_SLOTS) than processes can be selected.
    free = [] :: [non_neg_integer()],
    slots = 0 :: non_neg_integer(),
    interval_ms :: pos_integer(),
    started_ms :: integer(),
    %% From monotonic to Unix time, as it was at the start: so the samples' clock is
    %% never set.
    clock_offset_us :: integer(),
    %% How many intervals after the start the next tick is due.
    due = 0 :: non_neg_integer(),
    %% Ticks left out since the last one that was done.
    missed = 0 :: non_neg_integer(),
    %% In microseconds. There is no CPU time of a process: this is what the
    %% ticks took on the clock, which is at least as much.
    worked = 0 :: non_neg_integer()
}).

%% @doc Called by the owner of the session, with which it ends. The owner is not the parent that
%% gen_server knows: gen_server would report its end by kill, with the state.
-spec start_link(config()) -> {ok, engine()} | {error, term()}.
start_link(Config) ->
    Before = erlang:system_flag(backtrace_depth, ?DEPTH),
    InForce = erlang:system_flag(backtrace_depth, ?DEPTH),
    case gen_server:start(?MODULE, {Config, self(), Before, InForce}, []) of
        {ok, Pid} ->
            {ok, {Pid, Before, InForce}};
        {error, _} = Error ->
            ok = restore_depth(Before, InForce),
            Error
    end.

%% @doc Only asks: the caller, who traps exits, hears of the end by its link.
%% The engine may be waiting for a process inside a NIF that does not return.
-spec stop(engine()) -> ok.
stop({Pid, _, _}) ->
    gen_server:cast(Pid, stop).

-spec kill(engine()) -> ok.
kill({Pid, _, _}) ->
    exit(Pid, kill),
    ok.

-spec pid(engine()) -> pid().
pid({Pid, _, _}) ->
    Pid.

%% @doc Samples these processes, whatever the rules say, until others are named.
-spec want(engine(), [{pid(), all | flame_prof:status()}]) -> ok.
want({Pid, _, _}, Wanted) ->
    gen_server:cast(Pid, {want, Wanted}).

%% @doc By the rules. None when it does not answer: it may be waiting for a process
%% inside a NIF.
-spec chosen(engine()) -> [pid()].
chosen({Pid, _, _}) ->
    try
        gen_server:call(Pid, chosen, 1000)
    catch
        exit:_ -> []
    end.

%% @doc To be called once the engine has ended, which may not have come to do it
%% itself. Doing it twice does no harm.
-spec restore(engine()) -> ok.
restore({_, Before, InForce}) ->
    restore_depth(Before, InForce).

%% Leaves a value that another program has set meanwhile.
restore_depth(Before, InForce) ->
    case erlang:system_flag(backtrace_depth, Before) of
        InForce ->
            ok;
        Theirs ->
            _ = erlang:system_flag(backtrace_depth, Theirs),
            ok
    end.

-spec init({config(), pid(), non_neg_integer(), non_neg_integer()}) -> {ok, #engine{}}.
init({Config, Owner, Before, InForce}) ->
    _ = process_flag(trap_exit, true),
    true = link(Owner),
    _ = process_flag(priority, high),
    %% So that no tick has to wait for it, where code is loaded when it is used.
    {module, _} = code:ensure_loaded(flame_prof_stacks),
    {module, _} = code:ensure_loaded(flame_prof_transport),
    #{transport := Transport, sample_interval_ms := Interval, status := Status} = Config,
    NowUs = flame_prof_clock:now_us(),
    State = #engine{
        owner = Owner,
        transport = Transport,
        selector = start_selector(Config, Owner),
        status = Status,
        depth = InForce,
        depth_before = Before,
        interval_ms = Interval,
        clock_offset_us = clock_offset_us(),
        started_ms = NowUs div 1000
    },
    {ok, schedule(1, State)}.

%% Unix time less monotonic time. A process may lose its scheduler between the two
%% readings: the quickest of some tries counts, as in c_src/base/clock.c. The
%% times of ticks keep the offset of the start; each tick says how far it has moved.
clock_offset_us() ->
    {_Took, Offset} = lists:min([clock_reading() || _ <- lists:seq(1, 5)]),
    Offset.

clock_reading() ->
    Before = flame_prof_clock:now_us(),
    Wall = os:system_time(microsecond),
    Took = flame_prof_clock:now_us() - Before,
    {Took, Wall - (Before + Took div 2)}.

start_selector(#{rules := []}, _Owner) ->
    none;
start_selector(#{rules := Rules, growers := Growers, exclude := Exclude}, Owner) ->
    flame_prof_selector:start_link(#{
        rules => Rules,
        growers => Growers,
        exclude => [self(), Owner | Exclude]
    }).

-spec handle_call(term(), gen_server:from(), #engine{}) -> {reply, term(), #engine{}}.
handle_call(chosen, _From, #engine{selected = Selected} = State) ->
    {reply, maps:keys(Selected), State};
handle_call(_, _From, State) ->
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #engine{}) -> {noreply, #engine{}} | {stop, normal, #engine{}}.
handle_cast(stop, State) ->
    {stop, normal, last_tick(State)};
handle_cast({want, Wanted}, State) ->
    {noreply, adopt(State#engine{wanted = Wanted})};
handle_cast(_, State) ->
    {noreply, State}.

-spec handle_info(term(), #engine{}) -> {noreply, #engine{}} | {stop, term(), #engine{}}.
handle_info(tick, State) ->
    {noreply, tick(State)};
handle_info({selected, Selector, Counts, Selected}, #engine{selector = Selector} = State) ->
    {noreply, select(Counts, Selected, State)};
handle_info({flame_prof_taken, _, _} = Answer, #engine{transport = Transport} = State) ->
    {noreply, answered(flame_prof_transport:heard(Answer, Transport), State)};
handle_info({'EXIT', Owner, _}, #engine{owner = Owner} = State) ->
    {stop, normal, State};
handle_info({'EXIT', Selector, Reason}, #engine{selector = Selector} = State) ->
    {stop, {selector, Reason}, State};
handle_info(_, State) ->
    {noreply, State}.

-spec terminate(term(), #engine{}) -> ok.
terminate(_Reason, #engine{transport = Transport, depth_before = Before, depth = InForce}) ->
    ok = restore_depth(Before, InForce),
    flame_prof_transport:close(Transport).

%% Ticks.

tick(#engine{missed = Missed, processes = Processes, clock_offset_us = Offset} = State0) ->
    Begun = flame_prof_clock:now_us(),
    Tick = {tick, Missed, Begun + Offset, clock_offset_us() - Offset},
    Iterator = maps:iterator(Processes),
    State = sample_all(maps:next(Iterator), 0, 0, [Tick], State0),
    Ended = flame_prof_clock:now_us(),
    Took = Ended - Begun,
    Rested = (Ended + Took) div 1000,
    schedule(first_due_after(Rested, State), State#engine{worked = State#engine.worked + Took}).

%% Missed ticks that have not been reported yet.
last_tick(#engine{due = Due, missed = Missed} = State) ->
    Reported = Due - Missed - 1,
    case passed(flame_prof_clock:now_ms(), State) - Reported of
        Passed when Passed > 0 -> tick(State#engine{missed = Passed - 1});
        _ -> State
    end.

%% How many deadlines had passed at that time.
passed(Ms, #engine{started_ms = Started, interval_ms = Interval}) ->
    (Ms - Started) div Interval.

%% The number of the first deadline after Ms. Deadlines count from the start, so
%% that lateness never adds up.
first_due_after(Ms, #engine{due = Due} = State) ->
    max(Due + 1, passed(Ms, State) + 1).

schedule(Next, #engine{started_ms = Started, interval_ms = Interval, due = Due} = State) ->
    Deadline = Started + Next * Interval + jitter(Interval),
    _ = flame_prof_clock:send_at(Deadline, tick),
    State#engine{due = Next, missed = Next - Due - 1}.

%% Up to a quarter of the interval, so that ticks do not beat with the timers of
%% the program: what it does every 9 ms would be seen always, or never.
jitter(Interval) ->
    rand:uniform(Interval div 4 + 1) - 1.

sample_all(none, _Samples, Exited, Items, State) ->
    push([{cpu, 1000 * State#engine.worked} | [{exited, Exited} || Exited > 0]] ++ Items, State);
sample_all(Next, ?SAMPLES_A_PUSH, Exited, Items, State) ->
    sample_all(Next, 0, Exited, [], push(Items, State));
sample_all({Pid, Process, Iterator}, Samples, Exited, Items, State) ->
    #process{status = Wanted} = Process,
    case erlang:process_info(Pid, ?ITEMS) of
        undefined ->
            sample_all(maps:next(Iterator), Samples, Exited + 1, Items, leave(Pid, State));
        [{status, Status} | Info] when Wanted =:= all; Status =:= Wanted ->
            {MoreItems, MoreState} = sample(Pid, Process, Status, Info, Items, State),
            sample_all(maps:next(Iterator), Samples + 1, Exited, MoreItems, MoreState);
        _ ->
            sample_all(maps:next(Iterator), Samples, Exited, Items, State)
    end.

sample(Pid, Process, Status, [{_, Trace} | Metrics], Items0, State0) ->
    {Items1, State} = tell(Pid, Items0, State0),
    #engine{depth = Depth, stacks = Stacks0} = State,
    Frames = cut(hibernating(Pid, Trace), Depth),
    {Slot, Items, Stacks} = flame_prof_stacks:intern(Frames, Items1, Stacks0),
    Sample = {sample, Process#process.slot, Slot, status_number(Status), values(Metrics)},
    {[Sample | Items], State#engine{stacks = Stacks}}.

%% Not by what the iterator has: all may have to be told anew in the middle of a tick.
tell(Pid, Items, #engine{processes = Processes} = State) ->
    case Processes of
        #{Pid := #process{is_told = true}} ->
            {Items, State};
        #{Pid := #process{slot = Slot, names = {Name, Call, ProcLibCall, Label}} = Process} ->
            {Number, Serial} = pid_numbers(Pid),
            Item = {process, Slot, Number, Serial, Name, Call, ProcLibCall, Label},
            Told = Processes#{Pid := Process#process{is_told = true}},
            {[Item | Items], State#engine{processes = Told}}
    end.

%% A process that hibernates has no stack, and yet a current function.
hibernating(Pid, []) ->
    case erlang:process_info(Pid, current_function) of
        {current_function, {erlang, hibernate, 3}} -> [{erlang, hibernate, 3, []}];
        _ -> []
    end;
hibernating(_Pid, Trace) ->
    Trace.

%% A trace as long as ERTS makes them may have been longer.
cut(Trace, Depth) when length(Trace) < Depth -> Trace;
cut(Trace, _) -> Trace ++ [truncated].

push(Items, #engine{transport = Transport} = State) ->
    case flame_prof_transport:push(lists:reverse(Items), Transport) of
        %% The session has ended, or its owner has.
        closed -> exit(normal);
        Answer -> answered(Answer, State)
    end.

%% A refused item may have been a definition: all definitions are sent again.
answered({taken, Transport}, State) -> State#engine{transport = Transport};
answered({refused, Transport}, State) -> tell_all_anew(State#engine{transport = Transport}).

tell_all_anew(#engine{processes = Processes} = State) ->
    State#engine{
        stacks = flame_prof_stacks:new(),
        processes = maps:map(fun(_, P) -> P#process{is_told = false} end, Processes)
    }.

%% The set of sampled processes.

select(#{processes := All, growers := Growers}, Selected, State0) ->
    State = adopt(State0#engine{selected = Selected}),
    push([{selection, All, map_size(State#engine.processes), Growers}], State).

adopt(#engine{selected = Selected, wanted = Wanted, status = Status} = State0) ->
    Chosen = maps:map(fun(_, Names) -> {Names, Status} end, Selected),
    Set = lists:foldl(fun(One, Set) -> add_wanted(One, State0, Set) end, Chosen, Wanted),
    Leaving = maps:keys(maps:without(maps:keys(Set), State0#engine.processes)),
    maps:fold(fun enter/3, lists:foldl(fun leave/2, State0, Leaving), Set).

add_wanted({Pid, Status}, #engine{processes = Processes}, Set) ->
    case {Set, Processes} of
        {#{Pid := {Names, _}}, _} -> Set#{Pid := {Names, Status}};
        {_, #{Pid := #process{names = Names}}} -> Set#{Pid => {Names, Status}};
        _ -> add_named(Pid, flame_prof_names:names(Pid), Status, Set)
    end.

add_named(_Pid, undefined, _Status, Set) -> Set;
add_named(Pid, Names, Status, Set) -> Set#{Pid => {Names, Status}}.

%% One that stays is known to the library, with its last figures.
enter(Pid, {_, Status}, #engine{processes = Processes} = State) when is_map_key(Pid, Processes) ->
    #{Pid := #process{names = Before, is_told = IsTold} = Process} = Processes,
    Names = flame_prof_names:with_label(Pid, Before),
    Entered = Process#process{
        status = Status, names = Names, is_told = IsTold andalso Names =:= Before
    },
    State#engine{processes = Processes#{Pid := Entered}};
enter(Pid, {Names, Status}, State0) ->
    {Slot, #engine{processes = Processes} = State} = free_slot(State0),
    Process = #process{slot = Slot, names = Names, status = Status},
    State#engine{processes = Processes#{Pid => Process}}.

free_slot(#engine{free = [Slot | Free]} = State) -> {Slot, State#engine{free = Free}};
free_slot(#engine{free = [], slots = Slot} = State) -> {Slot, State#engine{slots = Slot + 1}}.

leave(Pid, #engine{processes = Processes, free = Free} = State) ->
    {#process{slot = Slot}, Others} = maps:take(Pid, Processes),
    State#engine{processes = Others, free = [Slot | Free]}.

pid_numbers(Pid) ->
    [_Node, Number, Serial] = string:lexemes(pid_to_list(Pid), "<.>"),
    {list_to_integer(Number), list_to_integer(Serial)}.

%% enum fp_status of c_src/base/metric.h.
status_number(waiting) -> 0;
status_number(runnable) -> 1;
status_number(running) -> 2;
status_number(garbage_collecting) -> 3;
status_number(suspended) -> 4;
status_number(exiting) -> 5.

%% enum fp_metric of c_src/base/metric.h.
values([
    {reductions, Reductions},
    {message_queue_len, Queue},
    {memory, Memory},
    {total_heap_size, TotalHeap},
    {garbage_collection_info, Heap},
    {garbage_collection, Collection}
]) ->
    {minor_gcs, MinorGcs} = lists:keyfind(minor_gcs, 1, Collection),
    list_to_tuple(
        [Reductions, Queue, Memory, TotalHeap | heap_values(Heap)] ++ [MinorGcs]
    ).

%% The order of OTP 25 to 29 needs no search.
heap_values([
    {old_heap_block_size, OldHeapBlock},
    {heap_block_size, HeapBlock},
    {mbuf_size, Mbuf},
    {recent_size, Recent},
    {stack_size, Stack},
    {old_heap_size, OldHeap},
    {heap_size, Heap},
    {bin_vheap_size, BinVheap},
    {bin_vheap_block_size, BinVheapBlock},
    {bin_old_vheap_size, BinOldVheap},
    {bin_old_vheap_block_size, BinOldVheapBlock}
]) ->
    [Stack, Heap, HeapBlock, OldHeap, OldHeapBlock, Recent, Mbuf] ++
        [BinVheap, BinVheapBlock, BinOldVheap, BinOldVheapBlock];
heap_values(Info) ->
    [proplists:get_value(Key, Info, 0) || Key <- heap_keys()].

%% Those between total_heap_size and minor_gcs.
heap_keys() ->
    lists:sublist(?FLAME_PROF_METRICS, 5, 11).
