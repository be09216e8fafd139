%% @private What a session's file says of the node itself: run queues, memory, counts.
%%
%% A process of its own, linked to the session: some of these questions are
%% answered by all schedulers, and one that is long in a NIF keeps them waiting.
%% Then the session does not wait, and the figures in the file are those of an
%% earlier flush. It takes about 0.3 ms of CPU time in each interval. Between two
%% intervals no code of this module is on its stack, so that the module can be loaded anew.
%%
%% Nothing is switched on for it: scheduler utilisation is in the file where another program
%% has set the system flag `scheduler_wall_time', and left out elsewhere.
-module(flame_prof_node).

-behaviour(gen_server).

-export([start_link/0, watch/3, stop/1]).
-export([figures/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([figures/0]).

%% Every name begins with `node_'. Sizes are in bytes; totals grow.
-type figures() :: [{Name :: atom(), integer()}].

-record(node, {
    transport = none :: none | flame_prof_transport:transport(),
    interval_ms = 0 :: non_neg_integer(),
    %% When the figures are due that were told last.
    last_ms = 0 :: integer()
}).

%% So long before a flush: what was asked for is there when it comes.
-define(AHEAD_MS, 200).
%% Between flushes the writer tells of the node, too: at the ends of equal parts of the interval,
%% the longest of so much or less (tell_later() of writer.c).
-define(TELL_MS, 5000).

%% @doc Before the session, which is told not to sample it.
-spec start_link() -> pid().
start_link() ->
    {ok, Pid} = gen_server:start_link(?MODULE, [], []),
    Pid.

%% @doc Begin: figures for a session that flushes every so many milliseconds.
-spec watch(pid(), flame_prof_transport:transport(), IntervalMs :: pos_integer()) -> ok.
watch(Pid, Transport, IntervalMs) ->
    gen_server:cast(Pid, {watch, Transport, IntervalMs}).

-spec stop(pid()) -> ok.
stop(Pid) ->
    _ = unlink(Pid),
    _ = exit(Pid, kill),
    ok.

-spec init([]) -> {ok, #node{}}.
init([]) ->
    {ok, #node{}}.

-spec handle_call(term(), gen_server:from(), #node{}) ->
    {reply, {error, unknown_call}, #node{}}.
handle_call(_, _From, State) ->
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #node{}) -> {noreply, #node{}} | {stop, normal, #node{}}.
handle_cast({watch, Transport, IntervalMs}, _State) ->
    LastMs = erlang:monotonic_time(millisecond) - ?AHEAD_MS,
    PartMs = IntervalMs div (1 + (IntervalMs - 1) div ?TELL_MS),
    tell(#node{transport = Transport, interval_ms = PartMs, last_ms = LastMs});
handle_cast(_, State) ->
    {noreply, State}.

-spec handle_info(term(), #node{}) -> {noreply, #node{}} | {stop, normal, #node{}}.
handle_info(tell, State) ->
    tell(State);
handle_info(_, State) ->
    {noreply, State}.

tell(#node{transport = Transport, interval_ms = IntervalMs, last_ms = LastMs} = State) ->
    case flame_prof_transport:figures(figures(), Transport) of
        ok ->
            NextMs = LastMs + IntervalMs,
            Wait = max(?AHEAD_MS, NextMs - erlang:monotonic_time(millisecond)),
            _ = erlang:send_after(Wait, self(), tell),
            {noreply, State#node{last_ms = NextMs}};
        closed ->
            {stop, normal, State}
    end.

%% @doc The figures of now.
-spec figures() -> figures().
figures() ->
    {RunTimeMs, _} = statistics(runtime),
    {Carriers, Blocks} = allocated(),
    [
        {node_schedulers_online, erlang:system_info(schedulers_online)},
        {node_run_queues, statistics(total_run_queue_lengths_all)},
        {node_runtime_ms, RunTimeMs},
        {node_processes, erlang:system_info(process_count)},
        {node_ports, erlang:system_info(port_count)},
        {node_atoms, erlang:system_info(atom_count)},
        {node_ets_tables, erlang:system_info(ets_count)},
        {node_allocator_carriers, Carriers},
        {node_allocator_blocks, Blocks}
    ] ++ memory() ++ schedulers(statistics(scheduler_wall_time)).

memory() ->
    Kinds = [
        {total, node_memory_total},
        {processes, node_memory_processes},
        {binary, node_memory_binary},
        {ets, node_memory_ets},
        {atom, node_memory_atom},
        {code, node_memory_code}
    ],
    [{Name, Bytes} || {Kind, Name} <- Kinds, {K, Bytes} <- memory_of_vm(), K =:= Kind].

%% A VM whose allocators are switched off (`+Mea min', say) does not know.
memory_of_vm() ->
    try
        erlang:memory()
    catch
        error:notsup -> []
    end.

%% Two totals: their changes between two flushes make the utilisation.
schedulers(undefined) ->
    [];
schedulers(Times) ->
    Normal = erlang:system_info(schedulers),
    [
        {node_schedulers_active, lists:sum([A || {N, A, _} <- Times, N =< Normal])},
        {node_schedulers_total, lists:sum([T || {N, _, T} <- Times, N =< Normal])}
    ].

%% What the allocators have from the system, and what of it is in use.
allocated() ->
    Allocators = erlang:system_info(alloc_util_allocators),
    Found = [erlang:system_info({allocator_sizes, A}) || A <- Allocators],
    Kinds = [
        Sizes
     || Instances <- Found,
        is_list(Instances),
        {instance, _, Properties} <- Instances,
        {Kind, Sizes} <- Properties,
        lists:member(Kind, [mbcs, mbcs_pool, sbcs])
    ],
    {
        lists:sum([element(2, S) || Sizes <- Kinds, S <- Sizes, element(1, S) =:= carriers_size]),
        lists:sum([
            element(2, Size)
         || Sizes <- Kinds,
            {blocks, Blocks} <- Sizes,
            {_, Properties} <- Blocks,
            Size <- Properties,
            element(1, Size) =:= size
        ])
    }.
