%% @private One probe of a trigger's condition, in a process of its own.
%%
%% A probe may ask processes that do not answer, or call a user's function: the triggers'
%% process neither waits for it nor crashes with it.
-module(flame_prof_condition).

-export([probe/2, run/2]).

-export_type([memory/0]).

%% What the next probe needs of this one: what schedulers have done, or a value and when it was
%% read, in milliseconds.
-type memory() ::
    none
    | [{pos_integer(), non_neg_integer(), non_neg_integer()}]
    | {non_neg_integer(), integer()}.

%% The heap of a user's function, in words.
-define(HEAP_WORDS, 16#400000).

%% A control group's limit is read again after so long.
-define(LIMIT_MS, 30000).

%% A mailbox is looked at for a tenth of a probe's time limit, and no longer than this.
-define(MAILBOX_MS, 100).

%% @doc The caller traps exits: the probe is linked to it, and ends with it. Its exit reason is
%% `{flame_prof_condition, Value, Detail, Memory}', or any other after a failure.
-spec probe(flame_prof_trigger:spec(), memory()) -> {pid(), reference()}.
probe(#{on := On} = Spec, Memory) ->
    spawn_opt(?MODULE, run, [Spec, Memory], [monitor, link | options(On)]).

%% A built-in probe has priority, so that it runs on an overloaded node. A user's function
%% has not.
options(On) when is_atom(On) -> [{priority, high}];
options(_) -> [{max_heap_size, #{size => ?HEAP_WORDS, kill => true, error_logger => false}}].

-spec run(flame_prof_trigger:spec(), memory()) -> no_return().
run(Spec, Before) ->
    {Value, Detail, Memory} =
        try
            value(Spec, Before)
        catch
            %% No crash report: flame_prof_triggers logs it.
            Class:Reason:Stack -> exit({Class, Reason, hd(Stack ++ [none])})
        end,
    exit({?MODULE, Value, Detail, Memory}).

value(#{on := scheduler_utilisation}, Before) ->
    Online = erlang:system_info(schedulers_online),
    Now = lists:sort([S || {N, _, _} = S <- statistics(scheduler_wall_time), N =< Online]),
    {utilisation(Before, Now), <<>>, Now};
value(#{on := run_queue}, _) ->
    {statistics(total_run_queue_lengths), <<>>, none};
value(#{on := memory}, _) ->
    {flame_prof_node_memory:kind(total), <<>>, none};
value(#{on := binary_memory}, _) ->
    {flame_prof_node_memory:kind(binary), <<>>, none};
value(#{on := ets_growth}, Before) ->
    Now = {flame_prof_node_memory:kind(ets), erlang:monotonic_time(millisecond)},
    {growth(Before, Now), <<>>, Now};
value(#{on := atom_count}, _) ->
    {erlang:system_info(atom_count), <<>>, none};
value(#{on := atom_percent}, _) ->
    {Atoms, Limit} = {erlang:system_info(atom_count), erlang:system_info(atom_limit)},
    {100 * Atoms / Limit, of_all("~b of ~b atoms", [Atoms, Limit]), none};
value(#{on := rss}, _) ->
    {rss(), <<>>, none};
value(#{on := rss_percent}, Before) ->
    {Limit, _} = Known = limit(Before, erlang:monotonic_time(millisecond)),
    {100 * rss() / Limit, of_all("of ~b bytes", [Limit]), Known};
value(#{on := fragmentation} = Spec, _) ->
    fragmentation(Spec, flame_prof_allocators:sums());
value(#{on := process_count}, _) ->
    {erlang:system_info(process_count), <<>>, none};
value(#{on := message_queue_len} = Spec, _) ->
    longest(erlang:processes(), -1, none, Spec);
value(#{on := User}, _) ->
    case call(User) of
        Value when is_boolean(Value); is_number(Value) -> {Value, <<>>, none};
        Other -> error({no_boolean_and_no_number, Other})
    end.

growth(none, _Now) ->
    0;
growth({Before, BeforeMs}, {Now, NowMs}) ->
    max(0, 1000 * (Now - Before) div max(1, NowMs - BeforeMs)).

rss() ->
    case flame_prof_memory:process() of
        #{rss := Bytes} -> Bytes;
        #{} -> error(no_proc_self_status)
    end.

limit({_, ReadMs} = Known, NowMs) when NowMs - ReadMs < ?LIMIT_MS ->
    Known;
limit(_, NowMs) ->
    case flame_prof_cgroup:memory_limit() of
        {ok, Limit} -> {Limit, NowMs};
        none -> error(no_memory_limit)
    end.

%% A small node is never fragmented.
fragmentation(_, {error, _}) ->
    error(needs_the_native_engine);
fragmentation(#{allocator := Wanted, least_bytes := Least}, {ok, #{allocators := Allocators}}) ->
    Of = [{Carriers, Blocks} || {Name, Carriers, Blocks, _, _, _} <- Allocators,
        Wanted =:= all orelse Name =:= Wanted],
    Carriers = lists:sum([Bytes || {Bytes, _} <- Of]),
    Blocks = lists:sum([Bytes || {_, Bytes} <- Of]),
    Percent = case Carriers >= Least of true -> 100 * (Carriers - Blocks) / Carriers; _ -> 0 end,
    {max(0, Percent), of_all("~s: ~b of ~b bytes used", [Wanted, Blocks, Carriers]), none}.

of_all(Format, Arguments) -> iolist_to_binary(io_lib:format(Format, Arguments)).

call({Module, Function}) -> Module:Function();
call(Fun) -> Fun().

%% Percent of the time since the previous probe.
utilisation(none, _Now) ->
    0;
utilisation(Before, Now) ->
    Both = [{A1 - A0, T1 - T0} || {N, A1, T1} <- Now, {M, A0, T0} <- Before, N =:= M],
    Active = lists:sum([A || {A, _} <- Both]),
    Total = lists:sum([T || {_, T} <- Both]),
    100 * Active / max(1, Total).

longest([], Most, Who, Spec) ->
    {max(Most, 0), who(Who, Most, Spec), none};
longest([Pid | Pids], Most, Who, Spec) ->
    case erlang:process_info(Pid, message_queue_len) of
        {message_queue_len, Length} when Length > Most -> longest(Pids, Length, Pid, Spec);
        _ -> longest(Pids, Most, Who, Spec)
    end.

%% Of a queue that is too long also who fills it, and with what.
who(none, _, _) ->
    <<>>;
who(Pid, Length, #{above := Above, timeout := Limit}) when Length > Above ->
    Mailbox = flame_prof_mailbox:summary(Pid, min(?MAILBOX_MS, Limit div 10)),
    iolist_to_binary([flame_prof_names:plain(Pid), [[": ", Mailbox] || Mailbox =/= <<>>]]);
who(Pid, _, _) ->
    flame_prof_names:plain(Pid).
