%% @private What few processes of OTP, ports and connections say, for the doctor: how often
%% supervisors restarted a child of late, what the handlers of the logger have to do, which ports
%% and connections have bytes that their peer does not take, who monitors more and more, where the
%% newest processes began.
%%
%% Names, statuses and monitors are read in memory, by the native engine; without it they are not
%% known. Asked are ports, and supervisors (flame_prof_doctor_supervisors); other processes only
%% where calls wait for a dirty I/O scheduler: for the function that they are in, until one answers
%% late. A port that is busy answers late, too: each part has a process of its own, and so many
%% milliseconds.
-module(flame_prof_doctor_system).

-export([look/1]).

-export_type([system/0, queue/0]).

-type system() ::
    #{
        supervisors => [flame_prof_doctor_supervisors:supervisor()],
        handlers := [#{process := pid(), name := atom(), queue := non_neg_integer()}],
        ports => [queue()],
        connections => [#{node := node(), port := port(), queued := non_neg_integer(),
            output := non_neg_integer()}],
        sockets => [#{socket := binary(), owner := pid(), owner_name := binary(),
            writers := pos_integer(), output := non_neg_integer()}],
        files => #{waiting := non_neg_integer(), schedulers := pos_integer(),
            calls := #{pid() => [mfa()]}},
        blocked => #{mfa() => [{pid(), Name :: binary()}, ...]},
        monitors => #{many := [{pid(), Count :: pos_integer(), Name :: binary()}],
            unknown := [pid()], left := non_neg_integer()},
        newest => #{Call :: binary() => pos_integer()},
        pending => [node()],
        mnesia_locks => [#{process := pid(), name := binary(), table := binary(),
            lock := binary()}],
        port_owners => #{Owner :: binary() => #{pid() => [port(), ...]}},
        socket_owners => #{Owner :: binary() => #{pid() => [reference(), ...]}}
    }.
%% What did not answer in time is not there. `ports' have bytes that are queued; `sockets', those of
%% the module `socket', have processes that wait until they can write. `files': calls that
%% wait for a dirty I/O scheduler, and where there are any the stacks of those in calls of files.
%% `blocked':
%% processes that the VM has suspended, by the function that was called; where connections have
%% bytes. `monitors': about how many processes have that have 256 or more; `unknown' are those
%% that could not be counted, of which `left' were too many. `newest': where
%% the newest processes began, of at most 1,000; `pending': nodes to which connections are
%% being set up; `mnesia_locks': of which tables processes
%% have locks, where there are few; `port_owners': all ports by
%% the names of their owners, an empty name for an owner without one; absent if there are too many
%% ports.

-type queue() :: #{port := port(), name := binary(), owner := pid(), owner_name := binary(),
    registered => binary(), queued := pos_integer(), output := non_neg_integer()}.
%% `output': bytes that were given to the port in its life, `queued' those that it still has.

-define(PART_MS, 2000).
-define(PORTS_MOST, 5000).
-define(PROCESSES_MOST, 20000).
-define(NEWEST, 1000).
-define(SORTED_MOST, 100000).
-define(BLOCKED_MOST, 100).
-define(FILE_CALLS_MOST, 1000).
-define(FILE_CALLS_MS, 1000).
-define(FILES_PAUSE_MS, 20).
-define(MNESIA_LOCKS_MOST, 1000).
-define(MNESIA_LOCKS_TOLD, 50).
-define(MONITOR_LOOKS, 3).
-define(MONITOR_PAUSE_MS, 100).
-define(MOVED_LOOKS, 5).
-define(MOVED_PAUSE_MS, 20).
%% Then no call is made for what one has left.
-define(MONITOR_CALLS_MS, 600).

%% @doc By the portable engine nothing is read in memory.
-spec look(flame_prof_top_reader:engine()) -> {ok, system()}.
look(Engine) ->
    Native = Engine =:= native,
    OfMemory = [{newest, fun newest/0}, {port_owners, fun port_owners/0},
        {socket_owners, fun socket_owners/0}, {supervisors, fun supervisors/0},
        {monitors, fun monitors/0}],
    Parts = [{handlers, fun handlers/0}, {ports, fun() -> ports(Engine) end},
        {connections, fun connections/0}, {files, fun files/0},
        {mnesia_locks, fun() -> mnesia_locks(Engine) end}, {pending, fun pending/0},
        {sockets, fun() -> sockets(Engine) end}
        | [Part || Part <- OfMemory, Native]],
    Self = self(),
    Begun = [{Key, spawn_opt(fun() -> Self ! {self(), tried(Part)} end,
        [monitor, {priority, high}])} || {Key, Part} <- Parts],
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
            Info = maps:from_list([Fact || Key <- [name, connected, output, registered_name],
                {_, _} = Fact <- [erlang:port_info(Port, Key)]]),
            [(registered(Info))#{port => Port, queued => Queued, owner => Owner,
                owner_name => named(Engine, Owner),
                name => program(Name), output => Output}
             || #{name := Name, connected := Owner, output := Output} <- [Info]];
        _ ->
            []
    end.

registered(#{registered_name := Name}) -> #{registered => atom_to_binary(Name)};
registered(#{}) -> #{}.

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

%% By the table of net_kernel, whose rows have the node and the state first.
pending() ->
    [element(2, Row) || Row <- ets:tab2list(sys_dist), element(1, Row) =:= connection,
        element(4, Row) =/= up].

%% Their registry is asked, which is OTP's own, and their counters, which need no answer. Where the
%% module is not loaded there is no socket: it would stay in the node for our question.
sockets(Engine) ->
    [
        #{socket => list_to_binary(ref_to_list(Ref)), owner => Owner, writers => Writers,
            owner_name => named(Engine, Owner), output => Output}
     || erlang:module_loaded(socket),
        {'$socket', Ref} = Socket <- lists:sublist(socket:which_sockets(), ?PORTS_MOST),
        #{num_writers := Writers, owner := Owner, counters := #{write_byte := Output}} <-
            [socket:info(Socket)],
        Writers > 0
    ].

%% Its locker is asked, which has no other way to say it; a key of a row may be any term, and stays
%% in the node.
mnesia_locks(Engine) ->
    true = is_pid(whereis(mnesia_locker)),
    true = ets:info(mnesia_held_locks, size) =< ?MNESIA_LOCKS_MOST,
    Mnesia = mnesia,
    Held = lists:usort([{Pid, atom_to_binary(Table), atom_to_binary(Lock)}
        || {{Table, _Key}, Lock, {tid, _, Pid}} <- Mnesia:system_info(held_locks),
            is_atom(Table), is_pid(Pid)]),
    [#{process => Pid, name => named(Engine, Pid), table => Table, lock => Lock}
        || {Pid, Table, Lock} <- lists:sublist(Held, ?MNESIA_LOCKS_TOLD)].

named(Engine, Pid) ->
    case flame_prof_top_reader:read(Engine, named, [Pid]) of
        [{_, #{name := Name}}] -> Name;
        _ -> <<>>
    end.

%% By process_info/2: the native engine may be refused just because of them. The dirty I/O
%% schedulers have the last of the run queues.
files() ->
    Waiting = still_waiting(waiting()),
    Until = erlang:monotonic_time(millisecond) + ?FILE_CALLS_MS,
    Calls = file_calls([Pid || Waiting > 0, Pid <- few_processes()], Until, ?FILE_CALLS_MOST),
    #{waiting => Waiting, schedulers => erlang:system_info(dirty_io_schedulers),
        calls => maps:from_list(Calls)}.

waiting() -> lists:last(statistics(run_queue_lengths_all)).

%% One that just then waits for its turn is no reason to ask all processes.
still_waiting(0) ->
    0;
still_waiting(Waiting) ->
    ok = timer:sleep(?FILES_PAUSE_MS),
    min(Waiting, waiting()).

file_calls([Pid | Pids], Until, Most) when Most > 0 ->
    Calls = file_call(Pid),
    case erlang:monotonic_time(millisecond) < Until of
        true -> Calls ++ file_calls(Pids, Until, Most - length(Calls));
        false -> Calls
    end;
file_calls(_, _, _) ->
    [].

file_call(Pid) ->
    [{Pid, [{M, F, A} || {M, F, A, _} <- Stack]}
        || {_, {prim_file, Function, _}} <- [process_info(Pid, current_function)],
        Function =/= helper_loop,
        {_, Stack} <- [process_info(Pid, current_stacktrace)], not is_ours(Stack)].

%% A look of the doctor, or of a command at this node.
is_ours(Stack) ->
    lists:any(fun({M, _, _, _}) -> lists:prefix("flame_prof", atom_to_list(M)) end, Stack).

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
    Stacks = [{Pid, Stack}
        || {Pid, #{stack := Stack}} <- snapshot(lists:sublist(Pids, ?BLOCKED_MOST))],
    maps:groups_from_list(fun({_, Stack}) -> caller(Stack) end,
        fun({Pid, _}) -> {Pid, named(native, Pid)} end, Stacks).

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

%% Sites are known where the trees of probes were what the VM says of them.
monitors() ->
    [_ | _] = Pids = few_processes(),
    true = is_binary(flame_prof_nif:value(sites)),
    Until = erlang:monotonic_time(millisecond) + ?MONITOR_CALLS_MS,
    {Counts, Moved, Left} =
        flame_prof_looks:with(fun() -> counted(Pids, ?MONITOR_LOOKS, Until) end),
    #{
        many => [{Pid, Count, named(native, Pid)} || {Pid, Count} <- maps:to_list(Counts)],
        unknown => Left ++ Moved,
        left => length(Left)
    }.

counted(Pids, Looks, Until) ->
    case steady_counts(Pids, ?MOVED_LOOKS, Until) of
        {[_ | _] = Counts, Moved, Left} when Looks > 1 ->
            timer:sleep(?MONITOR_PAUSE_MS),
            {Later, Then, Rest} = counted([Pid || {Pid, _} <- Counts], Looks - 1, Until),
            Least = [{Pid, min(Count, N)} || {Pid, Count} <- Counts, #{Pid := N} <- [Later]],
            {maps:from_list(Least), Moved ++ Then, Left ++ Rest};
        {Counts, Moved, Left} ->
            {maps:from_list(Counts), Moved, Left}
    end.

%% One that ran when its turn came may wait the next moment.
steady_counts(Pids, Looks, Until) ->
    case monitor_counts(Pids, Until) of
        {Counts, [_ | _] = Moved, Left} when Looks > 1 ->
            timer:sleep(?MOVED_PAUSE_MS),
            {Later, Still, Rest} = steady_counts(Moved, Looks - 1, Until),
            {Counts ++ Later, Still, Left ++ Rest};
        Answer ->
            Answer
    end.

%% A call counts so many. What it has not counted is asked for again, but a call may take much of
%% PART_MS. One that a call of its own does not count has too many, and does not hide the others.
monitor_counts([First | Others] = Pids, Until) ->
    {ok, Counts, Moved, Left} = flame_prof_looks_nif:monitor_counts(Pids),
    Now = erlang:monotonic_time(millisecond),
    case Left of
        [_ | _] when Now >= Until ->
            {Counts, Moved, Left};
        [First | _] ->
            {Later, Then, Rest} = monitor_counts(Others, Until),
            {Later, Then, [First | Rest]};
        _ ->
            {Later, Then, Rest} = monitor_counts(Left, Until),
            {Counts ++ Later, Moved ++ Then, Rest}
    end;
monitor_counts([], _Until) ->
    {[], [], []}.

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

%% Numbers of ports are used again: which are new is known by all that were there.
port_owners() ->
    [_ | _] = Ports = few_ports(erlang:ports()),
    owners([{Port, Owner} || Port <- Ports,
        {connected, Owner} <- [erlang:port_info(Port, connected)]]).

%% The same of the module `socket', where it is loaded.
socket_owners() ->
    true = erlang:module_loaded(socket),
    true = socket:number_of() =< ?PORTS_MOST,
    owners([{Ref, Owner} || {'$socket', Ref} = Socket <- socket:which_sockets(),
        #{owner := Owner} <- [socket:info(Socket)], is_pid(Owner)]).

owners(Owned) ->
    Names = flame_prof_mailbox:names(lists:usort([Owner || {_, Owner} <- Owned])),
    maps:map(
        fun(_, Of) ->
            maps:groups_from_list(fun({_, Pid}) -> Pid end, fun({Port, _}) -> Port end, Of)
        end,
        maps:groups_from_list(fun({_, Owner}) -> owner(maps:get(Owner, Names, exited)) end, Owned)).

few_ports(Ports) when length(Ports) > ?PORTS_MOST -> [];
few_ports(Ports) -> Ports.

owner(#{registered_name := Name}) -> flame_prof_doctor_rule:text(Name);
owner(#{initial_call := Call}) -> flame_prof_doctor_rule:text(Call);
owner(_) -> <<>>.

supervisors() ->
    flame_prof_doctor_supervisors:look(case few_processes() of
        [] -> [Pid || Name <- registered(), Pid <- [whereis(Name)], is_pid(Pid)];
        Pids -> Pids
    end).
