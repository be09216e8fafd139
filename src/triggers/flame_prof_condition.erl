%% @private One probe of a trigger's condition, in a process of its own.
%%
%% A probe may ask processes that do not answer, or call a user's function: the triggers'
%% process neither waits for it nor crashes with it.
-module(flame_prof_condition).

-export([probe/2, run/2]).

-export_type([memory/0]).

%% What the next probe needs of this one.
-type memory() :: none | [{pos_integer(), non_neg_integer(), non_neg_integer()}].

%% The heap of a user's function, in words.
-define(HEAP_WORDS, 16#400000).

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
    {erlang:memory(total), <<>>, none};
value(#{on := process_count}, _) ->
    {erlang:system_info(process_count), <<>>, none};
value(#{on := message_queue_len} = Spec, _) ->
    longest(erlang:processes(), -1, none, Spec);
value(#{on := User}, _) ->
    case call(User) of
        Value when is_boolean(Value); is_number(Value) -> {Value, <<>>, none};
        Other -> error({no_boolean_and_no_number, Other})
    end.

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
