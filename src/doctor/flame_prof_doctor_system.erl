%% @private What few processes of OTP, ports and connections say, for the doctor: how often
%% supervisors restarted a child of late, what the handlers of the logger have to do, which ports
%% and connections have bytes that their peer does not take, who monitors more and more, where the
%% newest processes began.
%%
%% No process of the program is asked. Names, statuses and monitors are read in memory, by the
%% native engine; without it they are not known. Asked are supervisors that are registered, have
%% nothing else to do and have a small state, and ports. A port that is busy answers late: each part
%% has a process of its own, and so many milliseconds.
-module(flame_prof_doctor_system).

-export([look/1]).

-export_type([system/0, supervisor/0, queue/0]).

-type system() ::
    #{
        supervisors => [supervisor()],
        handlers := [#{process := pid(), name := atom(), queue := non_neg_integer()}],
        ports => [queue()],
        connections => [#{node := node(), port := port(), queued := non_neg_integer(),
            output := non_neg_integer()}],
        blocked => #{mfa() => pos_integer()},
        monitors => [{pid(), Count :: pos_integer(), Name :: binary()}],
        newest => #{Call :: binary() => pos_integer()}
    }.
%% What did not answer in time is not there. `ports' have bytes that are queued. `blocked':
%% processes that the VM has suspended, by the function that was called; where connections have
%% bytes. `monitors': about how many processes have that have 256 or more. `newest': where
%% the newest processes began, of at most 1,000.

-type supervisor() :: #{process := pid(), name := atom(), module := module(),
    restarts := non_neg_integer(), within_s := pos_integer(), intensity := non_neg_integer(),
    children := #{pid() => mfa()}}.
%% `restarts': in the last `within_s' seconds. With more than `intensity' in its period it ends.

-type queue() :: #{port := port(), name := binary(), owner := pid(), owner_name := binary(),
    queued := pos_integer(), output := non_neg_integer()}.
%% `output': bytes that were given to the port in its life, `queued' those that it still has.

-define(PART_MS, 1000).
-define(ASK_MS, 200).
-define(SUPERVISORS_MOST, 200).
-define(CHILDREN_MOST, 200).
%% Its state is copied.
-define(STATE_BYTES_MOST, 8000000).
-define(PORTS_MOST, 5000).
-define(PROCESSES_MOST, 20000).
-define(NEWEST, 1000).
-define(SORTED_MOST, 100000).
-define(BLOCKED_MOST, 100).
-define(MONITOR_LOOKS, 3).
-define(MONITOR_PAUSE_MS, 100).
%% Restarts of as many seconds at most are counted.
-define(RECENT_S, 10).

%% @doc By the portable engine nothing is read in memory.
-spec look(flame_prof_top_reader:engine()) -> {ok, system()}.
look(Engine) ->
    Native = Engine =:= native,
    OfMemory = [{newest, fun newest/0}, {supervisors, fun supervisors/0},
        {monitors, fun monitors/0}],
    Parts = [{handlers, fun handlers/0}, {ports, fun() -> ports(Engine) end},
        {connections, fun connections/0} | [Part || Part <- OfMemory, Native]],
    Self = self(),
    Begun = [{Key, spawn_monitor(fun() -> Self ! {self(), tried(Part)} end)}
        || {Key, Part} <- Parts],
    Seen = maps:from_list(lists:append([answer(Key, Of) || {Key, Of} <- Begun])),
    {ok, maps:merge(Seen#{handlers => maps:get(handlers, Seen, [])}, blocked(Native, Seen))}.

%% A part that fails writes no report into the log of the node.
tried(Part) ->
    try [Part()]
    catch
        _:_ -> []
    end.

answer(Key, {Pid, Monitor}) ->
    receive
        {Pid, Values} ->
            true = demonitor(Monitor, [flush]),
            [{Key, Value} || Value <- Values];
        {'DOWN', Monitor, process, Pid, _} ->
            []
    after ?PART_MS ->
        true = demonitor(Monitor, [flush]),
        true = exit(Pid, kill),
        []
    end.

%% The logger's handlers are OTP's own processes.
handlers() ->
    [
        #{process => Pid, name => Name, queue => Length}
     || Name <- registered(), lists:prefix("logger_", atom_to_list(Name)),
        Pid <- [whereis(Name)], is_pid(Pid),
        {message_queue_len, Length} <- [process_info(Pid, message_queue_len)]
    ].

%% Ports.

ports(Engine) ->
    [Told || Port <- lists:sublist(erlang:ports(), ?PORTS_MOST), Told <- port(Engine, Port)].

port(Engine, Port) ->
    case erlang:port_info(Port, queue_size) of
        {queue_size, Queued} when Queued > 0 ->
            Info = maps:from_list([Fact || Key <- [name, connected, output],
                {_, _} = Fact <- [erlang:port_info(Port, Key)]]),
            [#{port => Port, queued => Queued, owner => Owner,
                owner_name => named(Engine, Owner),
                name => program(Name), output => Output}
             || #{name := Name, connected := Owner, output := Output} <- [Info]];
        _ ->
            []
    end.

%% Of a port that runs a program the name is its command: words behind the program are values.
program(Name) ->
    [Program | _] = string:lexemes(Name, " \t\n") ++ [""],
    unicode:characters_to_binary(filename:basename(Program)).

connections() ->
    [
        #{node => Node, port => Port, queued => Queued, output => Output}
     || {Node, Port} <- erlang:system_info(dist_ctrl), is_port(Port),
        {queue_size, Queued} <- [erlang:port_info(Port, queue_size)],
        {output, Output} <- [erlang:port_info(Port, output)]
    ].

named(Engine, Pid) ->
    case flame_prof_top_reader:read(Engine, named, [Pid]) of
        [{_, #{name := Name}}] -> Name;
        _ -> <<>>
    end.

%% Who is suspended is looked for only where a connection keeps bytes.
blocked(true, #{connections := Connections}) ->
    case [C || #{queued := N} = C <- Connections, N > 0] of
        [] -> #{};
        _ -> #{blocked => suspended()}
    end;
blocked(_, _) ->
    #{}.

suspended() ->
    Pids = [Pid || {Pid, #{status := suspended}} <- snapshot([brief | few_processes()])],
    Stacks = [Stack || {_, #{stack := Stack}} <- snapshot(lists:sublist(Pids, ?BLOCKED_MOST))],
    lists:foldl(
        fun(Stack, By) ->
            maps:update_with(caller(Stack), fun(N) -> N + 1 end, 1, By)
        end, #{}, Stacks).

%% The innermost function outside of the VM's own.
caller([{Module, Function, Arity, _, _} | Rest]) ->
    case Module of
        <<"erlang">> when Rest =/= [] -> caller(Rest);
        _ -> {binary_to_atom(Module), binary_to_atom(Function), Arity}
    end;
caller([_ | Rest]) -> caller(Rest);
caller([]) -> {erlang, send, 2}.

snapshot(Pids) ->
    case flame_prof_nif:snapshot(Pids) of
        {error, _} -> [];
        Seen -> [{Pid, Process} || {Pid, #{} = Process} <- Seen]
    end.

few_processes() ->
    case erlang:system_info(process_count) of
        Count when Count > ?PROCESSES_MOST -> [];
        _ -> processes()
    end.

%% Who monitors many, also a moment later: requests to many processes have as many monitors for as
%% long as they last.

monitors() ->
    Counts = counted(few_processes(), ?MONITOR_LOOKS),
    [{Pid, Count, named(native, Pid)} || {Pid, Count} <- maps:to_list(Counts)].

counted(Pids, Looks) ->
    case flame_prof_nif:monitor_counts(Pids) of
        {ok, [_ | _] = Counts} when Looks > 1 ->
            timer:sleep(?MONITOR_PAUSE_MS),
            Later = counted([Pid || {Pid, _} <- Counts], Looks - 1),
            maps:from_list([{Pid, min(Count, Then)}
                || {Pid, Count} <- Counts, #{Pid := Then} <- [Later]]);
        {ok, Counts} ->
            maps:from_list(Counts);
        {error, _} ->
            #{}
    end.

%% Out of memory: they are not asked. Pids grow, until they begin anew.
newest() ->
    Pids = processes(),
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

%% Supervisors.

supervisors() ->
    Known = maps:from_list([{Pid, Name} || Name <- registered(), Pid <- [whereis(Name)],
        is_pid(Pid)]),
    Free = [{maps:get(Pid, Known), Pid}
        || {Pid, #{} = Process} <- snapshot(maps:keys(Known)), is_free(Process)],
    lists:append([supervisor(One) || One <- lists:sublist(Free, ?SUPERVISORS_MOST)]).

is_free(#{
    registered_name := <<_, _/binary>>, proc_lib_initial_call := {<<"supervisor">>, _, 1},
    message_queue_len := 0, status := waiting, memory := Bytes,
    stack := [{<<"gen_server">>, <<"loop">>, _, _, _} | _]
}) ->
    Bytes =< ?STATE_BYTES_MOST;
is_free(_) ->
    false.

%% The record of supervisor.erl; one that is another says nothing here.
supervisor({Name, Pid}) ->
    try sys:get_state(Pid, ?ASK_MS) of
        State when element(1, State) =:= state, tuple_size(State) >= 11 ->
            told(Name, Pid, tuple_to_list(State));
        _ ->
            []
    catch
        exit:_ -> []
    end.

told(Name, Pid, [state, _, _, {Ids, ById}, _, Intensity, Period, Restarts | Rest])
    when is_list(Ids), is_map(ById), is_integer(Intensity), is_integer(Period), is_list(Restarts)
->
    Children = lists:sublist(maps:values(ById), ?CHILDREN_MOST),
    [#{
        process => Pid,
        name => Name,
        module => lists:nth(2, lists:reverse(Rest)),
        restarts => recent(Restarts, min(Period, ?RECENT_S)),
        within_s => min(Period, ?RECENT_S),
        intensity => Intensity,
        children => maps:from_list(lists:append([child(Child) || Child <- Children]))
    }];
told(_, _, _) ->
    [].

%% #child{pid, id, mfargs, ...}
child(Child) when element(1, Child) =:= child, tuple_size(Child) > 3 ->
    case {element(2, Child), element(4, Child)} of
        {Pid, {M, F, A}} when is_pid(Pid), is_list(A) -> [{Pid, {M, F, length(A)}}];
        _ -> []
    end;
child(_) ->
    [].

%% Those of before are left out at the next restart only.
recent(Restarts, Period) ->
    Now = erlang:monotonic_time(1),
    length([Time || Time <- Restarts, is_integer(Time), Now - Time < Period]).
