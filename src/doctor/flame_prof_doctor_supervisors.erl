%% @private What supervisors say of their restarts, for the doctor: those with a name, and those
%% without one, below others.
%%
%% They are found in memory, by what proc_lib notes in each process. Asked are those that have
%% nothing else to do and have a small state; of those that are busy at each of some looks few, as
%% one that restarts all the time is among them. Of many the ones that have done most are asked.
-module(flame_prof_doctor_supervisors).

-export([look/1]).

-export_type([supervisor/0]).

-type supervisor() :: #{process := pid(), name := atom() | mfa(), module := module(),
    restarts := #{Second :: integer() => pos_integer()}, at_s := integer(),
    within_s := pos_integer(), intensity := non_neg_integer(), children := #{pid() => mfa()}}.
%% `restarts': in the last `within_s' seconds, by the second; `at_s' is that of the look. With more
%% than `intensity' in its period it ends.

-define(ASK_MS, 200).
-define(MOST, 200).
-define(BUSY_MOST, 5).
-define(BUSY_QUEUE_MOST, 20).
%% A look reads so many processes at a time.
-define(AT_A_TIME, 2000).
%% Then no other one is asked.
-define(ALL_MS, 1200).
-define(CHILDREN_MOST, 200).
-define(FREE_LOOKS, 5).
-define(FREE_PAUSE_MS, 20).
%% Its state is copied.
-define(STATE_BYTES_MOST, 8000000).
%% Restarts of as many seconds at most are counted.
-define(RECENT_S, 10).

%% @doc Of these processes, by the native engine.
-spec look([pid()]) -> [supervisor()].
look(Pids) ->
    Until = erlang:monotonic_time(millisecond) + ?ALL_MS,
    Found = lists:reverse(lists:sort(found(Pids))),
    Names = maps:from_list([{Pid, Name} || {_, Pid, Name} <- lists:sublist(Found, ?MOST)]),
    {Free, Busy} = free(maps:keys(Names), ?FREE_LOOKS),
    lists:append([supervisor(Pid, maps:get(Pid, Names))
        || Pid <- Free ++ lists:sublist(Busy, ?BUSY_MOST),
            erlang:monotonic_time(millisecond) < Until]).

found([]) ->
    [];
found(Pids) ->
    {Some, Rest} = lists:split(min(?AT_A_TIME, length(Pids)), Pids),
    [{Reductions, Pid, name(Process)}
        || {Pid, #{proc_lib_initial_call := {<<"supervisor">>, _, 1}, reductions := Reductions}
            = Process} <- snapshot([brief | Some]), is_integer(Reductions)] ++ found(Rest).

name(#{registered_name := <<_, _/binary>> = Name}) -> binary_to_atom(Name);
name(#{proc_lib_initial_call := {M, F, A}}) -> {binary_to_atom(M), binary_to_atom(F), A}.

snapshot(Pids) ->
    case flame_prof_nif:snapshot(Pids) of
        {error, _} -> [];
        Seen -> [{Pid, Process} || {Pid, #{} = Process} <- Seen]
    end.

%% One that restarts all the time is seldom free: it is looked at again.
free([], _) ->
    {[], []};
free(Pids, Looks) ->
    All = snapshot(Pids),
    {Free, Others} = lists:partition(fun({_, Process}) -> is_free(Process) end, All),
    Busy = [Pid || {Pid, Process} <- Others, is_small(Process)],
    case Looks of
        1 ->
            {[Pid || {Pid, _} <- Free], Busy};
        _ ->
            Busy =:= [] orelse timer:sleep(?FREE_PAUSE_MS),
            {Later, Still} = free(Busy, Looks - 1),
            {[Pid || {Pid, _} <- Free] ++ Later, Still}
    end.

%% From OTP 28 on a supervisor hibernates after a second.
is_free(#{message_queue_len := 0, status := waiting,
    stack := [{<<"gen_server">>, Function, _, _, _} | _]
} = Process) when Function =:= <<"loop">>; Function =:= <<"loop_hibernate">> ->
    is_small(Process);
is_free(_) ->
    false.

is_small(#{message_queue_len := Queue, memory := Bytes}) when
    is_integer(Queue), is_integer(Bytes)
->
    Queue =< ?BUSY_QUEUE_MOST andalso Bytes =< ?STATE_BYTES_MOST;
is_small(_) ->
    false.

%% The record of supervisor.erl, or the struct of Elixir's DynamicSupervisor; one that is another
%% says nothing here.
supervisor(Pid, Name) ->
    try sys:get_state(Pid, ?ASK_MS) of
        State when element(1, State) =:= state, tuple_size(State) >= 11 ->
            told(Name, Pid, tuple_to_list(State));
        #{'__struct__' := 'Elixir.DynamicSupervisor', max_restarts := Intensity,
            max_seconds := Period, restarts := Restarts, children := Children, mod := Module}
            when is_integer(Intensity), is_integer(Period), is_list(Restarts), is_map(Children)
        ->
            Few = lists:sublist(maps:to_list(Children), ?CHILDREN_MOST),
            Calls = [{Child, {M, F, arity(A)}}
                || {Child, Spec} <- Few, is_pid(Child), is_tuple(Spec),
                    {M, F, A} <- [element(1, Spec)]],
            [of_state(Name, Pid, Module, {Intensity, Period, Restarts}, Calls)];
        _ ->
            []
    catch
        exit:_ -> []
    end.

told(Name, Pid, [state, _, _, {Ids, ById}, _, Intensity, Period, Restarts | Rest])
    when is_list(Ids), is_map(ById), is_integer(Intensity), is_integer(Period), is_list(Restarts)
->
    Children = lists:sublist(maps:values(ById), ?CHILDREN_MOST),
    Calls = lists:append([child(Child) || Child <- Children]),
    [of_state(Name, Pid, lists:nth(2, lists:reverse(Rest)), {Intensity, Period, Restarts}, Calls)];
told(_, _, _) ->
    [].

of_state(Name, Pid, Module, {Intensity, Period, Restarts}, Calls) ->
    At = erlang:monotonic_time(1),
    #{
        process => Pid,
        name => Name,
        module => Module,
        restarts => recent(Restarts, At - min(Period, ?RECENT_S)),
        at_s => At,
        within_s => 1 + min(Period, ?RECENT_S),
        intensity => Intensity,
        children => maps:from_list(Calls)
    }.

%% #child{pid, id, mfargs, ...}
child(Child) when element(1, Child) =:= child, tuple_size(Child) > 3 ->
    case {element(2, Child), element(4, Child)} of
        {Pid, {M, F, A}} when is_pid(Pid), is_list(A) -> [{Pid, {M, F, length(A)}}];
        _ -> []
    end;
child(_) ->
    [].

%% A temporary child's arguments are not kept.
arity(Args) when is_list(Args) -> length(Args);
arity(_) -> 0.

%% Those of before are left out at the next restart only. Times are whole seconds: the one that has
%% begun is counted besides.
recent(Restarts, From) ->
    lists:foldl(fun(Time, By) -> maps:update_with(Time, fun(N) -> N + 1 end, 1, By) end, #{},
        [Time || Time <- Restarts, is_integer(Time), Time >= From]).
