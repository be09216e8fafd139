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

%% @doc The caller traps exits: the probe is linked to it, and ends with it. Its exit reason is
%% `{flame_prof_condition, Value, Detail, Memory}', or any other after a failure.
-spec probe(flame_prof_trigger:level() | flame_prof_trigger:user(), memory()) ->
    {pid(), reference()}.
probe(On, Memory) ->
    spawn_opt(?MODULE, run, [On, Memory], [monitor, link | options(On)]).

%% A built-in probe has priority, so that it runs on an overloaded node. A user's function
%% has not.
options(On) when is_atom(On) -> [{priority, high}];
options(_) -> [{max_heap_size, #{size => ?HEAP_WORDS, kill => true, error_logger => false}}].

-spec run(flame_prof_trigger:level() | flame_prof_trigger:user(), memory()) -> no_return().
run(On, Before) ->
    {Value, Detail, Memory} =
        try
            value(On, Before)
        catch
            %% No crash report: flame_prof_triggers logs it.
            Class:Reason:Stack -> exit({Class, Reason, hd(Stack ++ [none])})
        end,
    exit({?MODULE, Value, Detail, Memory}).

value(scheduler_utilisation, Before) ->
    Online = erlang:system_info(schedulers_online),
    Now = lists:sort([S || {N, _, _} = S <- statistics(scheduler_wall_time), N =< Online]),
    {utilisation(Before, Now), <<>>, Now};
value(run_queue, _) ->
    {statistics(total_run_queue_lengths), <<>>, none};
value(memory, _) ->
    {erlang:memory(total), <<>>, none};
value(process_count, _) ->
    {erlang:system_info(process_count), <<>>, none};
value(message_queue_len, _) ->
    longest(erlang:processes(), -1, none);
value(User, _) ->
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

longest([], Most, Who) ->
    {max(Most, 0), who(Who), none};
longest([Pid | Pids], Most, Who) ->
    case erlang:process_info(Pid, message_queue_len) of
        {message_queue_len, Length} when Length > Most -> longest(Pids, Length, Pid);
        _ -> longest(Pids, Most, Who)
    end.

who(none) ->
    <<>>;
who(Pid) ->
    flame_prof_names:plain(Pid).
