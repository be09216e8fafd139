%% @private One probe of a trigger's condition, in a process of its own.
%%
%% A probe may ask processes that do not answer, or call a user's function: the triggers'
%% process neither waits for it nor crashes with it.
-module(flame_prof_condition).

-export([probe/3, run/3]).

-export_type([memory/0]).

%% The state for the next probe: the work of the schedulers, or a value and its time in
%% milliseconds.
-type memory() ::
    none
    | [{pos_integer(), non_neg_integer(), non_neg_integer()}]
    | {non_neg_integer(), integer()}.

%% The heap of a user's function, in words.
-define(HEAP_WORDS, 16#400000).

%% A control group's limit is read again after so long.
-define(LIMIT_MS, 30000).

%% Between two looks at tables, and a tenth of a probe's time limit at most.
-define(TABLES_MS, 500).

%% A mailbox is looked at for a tenth of a probe's time limit, and no longer than this.
-define(MAILBOX_MS, 100).

%% @doc The caller traps exits: the probe is linked to it, and ends with it. Its exit reason is
%% `{flame_prof_condition, Value, Detail, Memory}', or any other after a failure. What a detail
%% costs is spent only where the trigger may fire: nobody reads it otherwise.
-spec probe(flame_prof_trigger:spec(), MayFire :: boolean(), memory()) -> {pid(), reference()}.
probe(#{on := On} = Spec, MayFire, Memory) ->
    spawn_opt(?MODULE, run, [Spec, MayFire, Memory], [monitor, link | options(On)]).

%% A built-in probe has priority, so that it runs on an overloaded node. A user's function
%% has not.
options(On) when is_atom(On) -> [{priority, high}];
options(_) -> [{max_heap_size, #{size => ?HEAP_WORDS, kill => true, error_logger => false}}].

-spec run(flame_prof_trigger:spec(), boolean(), memory()) -> no_return().
run(Spec, MayFire, Before) ->
    {Value, Detail, Memory} =
        try
            value(Spec#{may_fire => MayFire}, Before)
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
value(#{on := ets_growth} = Spec, Before) ->
    Now = {flame_prof_node_memory:kind(ets), flame_prof_clock:now_ms()},
    Growth = growth(Before, Now),
    {Growth, growing_table(Growth, Spec), Now};
value(#{on := atom_count}, _) ->
    {erlang:system_info(atom_count), <<>>, none};
value(#{on := atom_percent}, _) ->
    {Atoms, Limit} = {erlang:system_info(atom_count), erlang:system_info(atom_limit)},
    {100 * Atoms / Limit, of_all("~b of ~b atoms", [Atoms, Limit]), none};
value(#{on := rss}, _) ->
    {rss(), <<>>, none};
value(#{on := rss_percent}, Before) ->
    {Limit, _} = Known = limit(Before, flame_prof_clock:now_ms()),
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

%% Which of tables that grow too fast, if that is found out in time: a probe that is late fires not.
growing_table(Growth, #{may_fire := true, above := Above, timeout := Limit}) when Growth >= Above ->
    Self = self(),
    {Pid, Monitor} = spawn_opt(
        fun() -> Self ! {?MODULE, self(), table(min(?TABLES_MS, Limit div 10))} end,
        [monitor, {priority, high}]),
    receive
        {?MODULE, Pid, Table} ->
            true = demonitor(Monitor, [flush]),
            iolist_to_binary(Table);
        {'DOWN', Monitor, process, Pid, _} ->
            <<>>
    after Limit div 2 ->
        true = exit(Pid, kill),
        <<>>
    end;
growing_table(_, _) ->
    <<>>.

%% By two looks. It may have come to rest by now: then the largest one.
table(ForMs) ->
    Options = #{engine => native, for => max(1, ForMs), top => 1},
    case flame_prof_tables:look(Options#{by => growth}) of
        {ok, #{tables := [#{growth := #{bytes_per_s := Rate}} = Table]}} when Rate >= 1 ->
            [told(Table), io_lib:format(" grows most, ~b bytes a second", [round(Rate)])];
        _ ->
            largest_table(flame_prof_tables:look(Options#{for => 0}))
    end.

largest_table({ok, #{tables := [#{bytes := Bytes} = Table]}}) ->
    [told(Table), io_lib:format(" is the largest, ~b bytes", [Bytes])];
largest_table(_) ->
    [].

told(#{name := Name, owner := Owner}) ->
    ["table ", flame_prof_names:function(atom_to_binary(Name)), " of ",
        flame_prof_names:plain(Owner)].

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
    Of = [{element(2, A), element(3, A)} || A <- Allocators,
        Wanted =:= all orelse element(1, A) =:= Wanted],
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

%% For a queue that is too long, also the senders and the kinds of its messages.
who(none, _, _) ->
    <<>>;
who(Pid, Length, #{may_fire := true, above := Above, timeout := Limit}) when Length >= Above ->
    Mailbox = flame_prof_mailbox:summary(Pid, min(?MAILBOX_MS, Limit div 10)),
    iolist_to_binary([flame_prof_names:plain(Pid), [[": ", Mailbox] || Mailbox =/= <<>>]]);
who(Pid, _, _) ->
    flame_prof_names:plain(Pid).
