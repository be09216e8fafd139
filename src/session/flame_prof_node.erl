%% @private What a session's file says of the node itself: run queues, memory, counts.
%%
%% A process of its own, linked to the session: without the native engine some of these
%% questions are answered by all schedulers ({@link flame_prof_node_memory}), and one that is long
%% in a NIF keeps them waiting. Then the session does not wait, and the figures in the file are
%% those of an earlier flush. The session gets `{flame_prof_node, Pid, State}': whether figures of
%% the memory are left out, and why. It takes about 0.3 ms of CPU time in each interval. With the
%% native engine the kernel is asked for the resident pages of all mappings each 4.5 s at most, on a
%% dirty scheduler: 3 ms at an RSS of 40 MB, 11 ms at 500 MB; not above 1 GiB. Between two intervals
%% no code of this module is on its stack, so that the module can be loaded anew.
%%
%% Nothing is switched on for it: scheduler utilisation is in the file where another program
%% has set the system flag `scheduler_wall_time', and left out elsewhere.
-module(flame_prof_node).

-behaviour(gen_server).

-export([start_link/0, watch/4, stop/1, counts/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([figures/0]).

%% Every name begins with `node_'. Sizes are in bytes; totals grow.
-type figures() :: [{Name :: atom(), integer()}].

-record(node, {
    session = none :: none | pid(),
    transport = none :: none | flame_prof_transport:transport(),
    %% As the session knows it.
    memory_state = untold :: untold | flame_prof_node_memory:state(),
    interval_ms = 0 :: non_neg_integer(),
    memory = none :: none | flame_prof_node_memory:source(),
    %% When the figures are due that were told last.
    last_ms = 0 :: integer()
}).

%% So long before a flush: what was asked for is there when it comes.
-define(AHEAD_MS, 200).

%% @doc Starts before the session, which gets its pid in order not to sample it.
-spec start_link() -> pid().
start_link() ->
    {ok, Pid} = gen_server:start_link(?MODULE, [], []),
    Pid.

%% @doc Begin: figures for a session, which calls, with this engine and these options.
-spec watch(
    pid(), flame_prof_transport:transport(), flame_prof_engine:name(), flame_prof_options:options()
) -> ok.
watch(Pid, Transport, Engine, #{flush_interval := FlushMs, node_interval := NodeMs}) ->
    gen_server:cast(Pid, {watch, self(), Transport, Engine, part(FlushMs, NodeMs)}).

%% Between flushes the writer tells of the node, too: at the ends of equal parts of the interval
%% (tell_later() of writer.c).
part(FlushMs, NodeMs) ->
    FlushMs div (1 + (FlushMs - 1) div NodeMs).

-spec stop(pid()) -> ok.
stop(Pid) ->
    _ = unlink(Pid),
    _ = exit(Pid, kill),
    ok.

-spec init([]) -> {ok, #node{}}.
init([]) ->
    %% A session starts when this has.
    _ = process_flag(priority, high),
    %% On a node that is full the code server answers late, and the first flush would not wait.
    %% One at a time: together they are too much for a loader whose heap is limited (`+hmax').
    _ = [code:ensure_loaded(M) || M <- [flame_prof_node_memory, flame_prof_memory,
        flame_prof_allocators, flame_prof_transport]],
    {ok, #node{}}.

-spec handle_call(term(), gen_server:from(), #node{}) ->
    {reply, {error, unknown_call}, #node{}}.
handle_call(_, _From, State) ->
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #node{}) -> {noreply, #node{}} | {stop, normal, #node{}}.
handle_cast({watch, Session, Transport, Engine, PartMs}, _State) ->
    LastMs = flame_prof_clock:now_ms() - ?AHEAD_MS,
    Memory = flame_prof_node_memory:new(Engine),
    %% The first flush may come before the allocators' counters have been found.
    _ = flame_prof_transport:figures(all(flame_prof_node_memory:at_once()), Transport),
    _ = process_flag(priority, normal),
    tell(#node{
        session = Session,
        transport = Transport,
        interval_ms = PartMs,
        last_ms = LastMs,
        memory = Memory
    });
handle_cast(_, State) ->
    {noreply, State}.

-spec handle_info(term(), #node{}) -> {noreply, #node{}} | {stop, normal, #node{}}.
handle_info(tell, State) ->
    tell(State);
handle_info(_, State) ->
    {noreply, State}.

tell(#node{transport = Transport, interval_ms = IntervalMs, last_ms = LastMs} = State0) ->
    {Memory, Source} = flame_prof_node_memory:figures(State0#node.memory),
    State = tell_state(flame_prof_node_memory:state(Source), State0),
    case flame_prof_transport:figures(all(Memory), Transport) of
        ok ->
            NextMs = LastMs + IntervalMs,
            Wait = max(?AHEAD_MS, NextMs - flame_prof_clock:now_ms()),
            _ = flame_prof_clock:send_after(Wait, tell),
            {noreply, State#node{last_ms = NextMs, memory = Source}};
        closed ->
            {stop, normal, State}
    end.

tell_state(Same, #node{memory_state = Same} = State) ->
    State;
tell_state(Other, #node{session = Session} = State) ->
    Session ! {flame_prof_node, self(), Other},
    State#node{memory_state = Other}.

all(Memory) ->
    counts() ++ schedulers(statistics(scheduler_wall_time)) ++ Memory.

%% @doc What asks no scheduler.
-spec counts() -> figures().
counts() ->
    {RunTimeMs, _} = statistics(runtime),
    [
        {node_schedulers_online, erlang:system_info(schedulers_online)},
        {node_run_queues, statistics(total_run_queue_lengths_all)},
        {node_runtime_ms, RunTimeMs},
        {node_processes, erlang:system_info(process_count)},
        {node_ports, erlang:system_info(port_count)},
        {node_atoms, erlang:system_info(atom_count)},
        {node_ets_tables, erlang:system_info(ets_count)}
    ].

%% Two totals: their changes between two flushes make the utilisation.
schedulers(undefined) ->
    [];
schedulers(Times) ->
    Normal = erlang:system_info(schedulers),
    [
        {node_schedulers_active, lists:sum([A || {N, A, _} <- Times, N =< Normal])},
        {node_schedulers_total, lists:sum([T || {N, _, T} <- Times, N =< Normal])}
    ].
