%% @private What few processes of OTP know, for the doctor: how often supervisors restarted a child
%% of late, how much the handlers of the logger have to do, where the newest processes began.
%%
%% Only supervisors that are registered are asked, at most so many, and none that has something
%% else to do: one that stops a child answers after that.
-module(flame_prof_doctor_system).

-export([look/0]).

-export_type([system/0]).

-type system() ::
    #{
        supervisors := [#{process := pid(), name := atom(), module := module(),
            restarts := non_neg_integer(), intensity := non_neg_integer(),
            period_s := pos_integer(), children := non_neg_integer()}],
        handlers := [#{process := pid(), name := atom(), queue := non_neg_integer()}],
        newest := #{Call :: binary() => pos_integer()}
    }.
%% `restarts': in the last `period_s' seconds; with more than `intensity' it ends. `newest': where
%% the newest processes began, of at most 1,000.

-define(SUPERVISORS_MOST, 200).
-define(ASK_MS, 200).
-define(NEWEST, 1000).
-define(SORTED_MOST, 100000).
%% Its state is copied.
-define(HEAP_WORDS_MOST, 1000000).

-spec look() -> {ok, system()}.
look() ->
    Known = [{Name, Pid} || Name <- registered(), Pid <- [whereis(Name)], is_pid(Pid)],
    Supervisors = [One || {_, Pid} = One <- Known, is_free_supervisor(Pid)],
    {ok, #{
        supervisors => lists:append([supervisor(Name, Pid)
            || {Name, Pid} <- lists:sublist(Supervisors, ?SUPERVISORS_MOST)]),
        handlers => [
            #{process => Pid, name => Name, queue => Length}
         || {Name, Pid} <- Known,
            lists:prefix("logger_", atom_to_list(Name)),
            {message_queue_len, Length} <- [process_info(Pid, message_queue_len)]
        ],
        newest => newest(processes())
    }}.

%% Out of memory: they are not asked. Pids grow, until they begin anew.
newest(Pids) ->
    Count = length(Pids),
    Sorted = if Count =< ?SORTED_MOST -> lists:sort(Pids); true -> Pids end,
    Names = flame_prof_mailbox:names(lists:nthtail(max(0, Count - ?NEWEST), Sorted)),
    lists:foldl(
        fun({M, F, A}, Calls) ->
            Call = iolist_to_binary(io_lib:format("~ts:~ts/~b", [M, F, A])),
            maps:update_with(Call, fun(N) -> N + 1 end, 1, Calls)
        end,
        #{},
        [Call || #{initial_call := Call} <- maps:values(Names)]
    ).

is_free_supervisor(Pid) ->
    case process_info(Pid, [dictionary, message_queue_len, current_function, total_heap_size]) of
        [{_, Dictionary}, {_, 0}, {_, {gen_server, loop, _}}, {_, Words}] when
            Words =< ?HEAP_WORDS_MOST
        ->
            case lists:keyfind('$initial_call', 1, Dictionary) of
                {_, {supervisor, _, 1}} -> true;
                _ -> false
            end;
        _ ->
            false
    end.

%% The record of supervisor.erl; one that is another says nothing here.
supervisor(Name, Pid) ->
    try sys:get_state(Pid, ?ASK_MS) of
        State when element(1, State) =:= state, tuple_size(State) >= 11 ->
            told(Name, Pid, tuple_to_list(State));
        _ ->
            []
    catch
        exit:_ -> []
    end.

told(Name, Pid, [state, _Name, _Strategy, {Ids, _}, _Dynamics, Intensity, Period, Restarts | Rest])
    when is_list(Ids), is_integer(Intensity), is_integer(Period), is_list(Restarts)
->
    [#{
        process => Pid,
        name => Name,
        module => lists:nth(2, lists:reverse(Rest)),
        restarts => recent(Restarts, Period),
        intensity => Intensity,
        period_s => Period,
        children => length(Ids)
    }];
told(_, _, _) ->
    [].

%% Those of before are left out at the next restart only.
recent(Restarts, Period) ->
    Now = erlang:monotonic_time(1),
    length([Time || Time <- Restarts, is_integer(Time), Now - Time =< Period]).
