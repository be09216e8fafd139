%% That the problems of examples/trouble are there, end with stop/0, and are not there on
%% the demo alone: by what the VM says of its processes, without flame_prof.
%%
%% Each look answers all processes of the node that have the problem.
-module(trouble_proof_tests).

-include_lib("eunit/include/eunit.hrl").

-define(LONG_MAILBOX, 6000).
-define(MANY_WAIT, 30).
%% A client, three servers that wait, and the one they wait for.
-define(LONG_PATH, 5).
-define(BINARY_BYTES, 8 * 1024 * 1024).
-define(TABLE_BYTES, 6 * 1024 * 1024).
-define(WINDOW_MS, 500).
%% Heaps that are copied as a whole, and how often in a window.
-define(COPIED_WORDS, 1000000).
-define(COPIES, 2).
%% The demo spawns a thousand a second, fewer on a slow machine.
-define(FEW_SPAWNS, 100).
-define(LOOKS_AT_STATUS, 100).

trouble_test_() ->
    {setup, fun trouble_modules:load/0, fun trouble_modules:unload/1, fun(_) ->
        [{timeout, 600, [{atom_to_list(Problem), fun() -> is_there_and_ends(Problem) end}]}
         || Problem <- trouble:problems()]
        ++ [{timeout, 600, [{"without problems", fun is_healthy/0}]}]
        ++ [{timeout, 600, [{atom_to_list(Problem), fun() -> starts_and_ends(Problem) end}]}
            || Problem <- (trouble:faults() ++ trouble:healthy()) -- trouble:problems(),
               Problem =/= demo, is_alive() orelse Problem =/= busy_dist]
    end}.

is_there_and_ends(Problem) ->
    #{problem := Problem, process := Name, function := Function, sentence := <<_, _/binary>>} =
        trouble:truth(Problem),
    Before = length(processes()),
    with([Problem], fun() ->
        waiting:eventually(fun() -> look(Problem) =:= [Name] end),
        waiting:eventually(fun() -> lists:member(Function, functions(whereis(Name))) end)
    end),
    ?assertEqual(undefined, whereis(Name)),
    ?assertEqual([], look(Problem)),
    waiting:eventually(fun() -> length(processes()) =< Before + 5 end).

%% `make test-doctor' has the rest. Those of its processes that have names are there, and work for
%% as long as it takes to see that they do not crash.
starts_and_ends(Problem) ->
    #{process := Process} = trouble:truth(Problem),
    Names = lists:flatten([Process]) -- [code_server],
    Before = length(processes()),
    with([Problem], fun() ->
        Pids = [whereis(Name) || Name <- Names],
        timer:sleep(300),
        ?assertEqual(Pids, [whereis(Name) || Name <- Names]),
        ?assert(lists:all(fun is_pid/1, Pids))
    end),
    ?assertEqual([], [Name || Name <- Names, whereis(Name) =/= undefined]),
    waiting:eventually(fun() -> length(processes()) =< Before + 5 end).

%% What one look of three sees may be of a moment.
is_healthy() ->
    with([], fun() ->
        Looks = [[{Problem, P} || Problem <- trouble:problems(), P <- look(Problem)]
                 || _ <- lists:seq(1, 3)],
        Seen = lists:append([lists:usort(Look) || Look <- Looks]),
        ?assertEqual([], lists:usort(Seen -- lists:usort(Seen)))
    end).

with(Problems, Look) ->
    {ok, Pid} = trouble:start(Problems),
    try Look()
    after
        unlink(Pid),
        ok = trouble:stop()
    end.

%%% The looks.

look(mailbox) -> [name(P) || {P, N} <- info(message_queue_len), N > ?LONG_MAILBOX];
look(gc) ->
    Copies = counts([P || {P, gc_major_end, Sizes} <- traced([garbage_collection]),
                          proplists:get_value(heap_size, Sizes) > ?COPIED_WORDS]),
    [name(P) || {P, N} <- maps:to_list(Copies), N >= ?COPIES];
look(binary_leak) -> grown(fun held/0, ?BINARY_BYTES);
look(table) -> grown(fun tables/0, ?TABLE_BYTES);
look(chain) ->
    Calls = calls(),
    Paths = [path(Name, Calls) || {Name, _} <- Calls],
    lists:usort([lists:last(Path) || Path <- Paths, length(Path) >= ?LONG_PATH]);
look(bottleneck) ->
    Called = [Server || {_, Server} <- calls()],
    [Server || Server <- lists:usort(Called),
               length([S || S <- Called, S =:= Server]) >= ?MANY_WAIT];
look(hot_function) -> [name(P) || P <- never_waiting(active(), ?LOOKS_AT_STATUS)];
look(spawn_storm) ->
    Spawned = counts([P || {P, spawn, _} <- traced([procs])]),
    Usual = max(?FEW_SPAWNS, maps:get(whereis(demo_spawner), Spawned, 0)),
    [name(P) || {P, N} <- maps:to_list(Spawned), N > 2 * Usual].

counts(Pids) ->
    lists:foldl(fun(P, N) -> maps:update_with(P, fun(Of) -> Of + 1 end, 1, N) end, #{}, Pids).

%% What is above the limit and, at any later time, by the limit more.
grown(Amounts, Limit) ->
    First = [{P, Bytes} || {P, Bytes} <- Amounts(), Bytes > Limit],
    [begin
         waiting:eventually(fun() -> proplists:get_value(P, Amounts(), 0) > Bytes + Limit end),
         name(P)
     end || {P, Bytes} <- First].

held() ->
    [{P, lists:sum([Size || {_, Size, _} <- lists:ukeysort(1, Binaries)])}
     || {P, Binaries} <- info(binary)].

tables() ->
    Word = erlang:system_info(wordsize),
    [{ets:info(Table, owner), Word * Words}
     || Table <- ets:all(), Words <- [ets:info(Table, memory)], is_integer(Words)].

%% The processes that are never seen waiting.
never_waiting([], _) -> [];
never_waiting(Pids, 0) -> Pids;
never_waiting(Pids, Looks) ->
    timer:sleep(10),
    Statuses = info(status),
    never_waiting([P || P <- Pids, S <- [proplists:get_value(P, Statuses)],
                        S =:= running orelse S =:= runnable], Looks - 1).

%% Each process in a call, and the server that it waits for, which it monitors meanwhile.
calls() ->
    [{name(P), server(Server)}
     || {P, [{_, Stack}, {_, [{process, Server}]}]} <- info([current_stacktrace, monitors]),
        lists:keymember(do_call, 2, Stack)].

server({Name, _Node}) -> Name;
server(Pid) -> name(Pid).

path(Name, Calls) ->
    case lists:keyfind(Name, 1, Calls) of
        {Name, Server} -> [Name | path(Server, Calls)];
        false -> [Name]
    end.

%% What happens to processes while a window is open.
traced(Flags) ->
    _ = erlang:trace(existing, true, Flags),
    timer:sleep(?WINDOW_MS),
    _ = erlang:trace(all, false, Flags),
    events(erlang:trace_delivered(all)).

events(Delivered) ->
    receive
        {trace, P, What, Of} -> [{P, What, Of} | events(Delivered)];
        {trace, P, What, Of, _} -> [{P, What, Of} | events(Delivered)];
        {trace_delivered, all, Delivered} -> []
    end.

%% Of all at once: on a loaded machine an answer takes a while.
info(Item) ->
    Asked = [spawn_monitor(fun() -> exit({P, asked(P, Item)}) end) || P <- active()],
    [{P, Value} || {_, Monitor} <- Asked,
                   {P, {ok, Value}} <- [receive {'DOWN', Monitor, process, _, A} -> A end]].

asked(Pid, Item) ->
    case process_info(Pid, Item) of
        {Item, Value} -> {ok, Value};
        Values when is_list(Item), is_list(Values) -> {ok, Values};
        _ -> gone
    end.

%% Without the demo's crowd, which waits.
active() ->
    Crowd = case whereis(demo_idle) of
        undefined -> [];
        Idle -> element(2, process_info(Idle, links)) -- [whereis(demo_workload)]
    end,
    (processes() -- Crowd) -- [self()].

name(Pid) ->
    case process_info(Pid, registered_name) of {registered_name, Name} -> Name; _ -> Pid end.

functions(Pid) ->
    {current_stacktrace, Stack} = process_info(Pid, current_stacktrace),
    [iolist_to_binary(io_lib:format("~s:~s/~b", [M, F, A])) || {M, F, A, _} <- Stack].
