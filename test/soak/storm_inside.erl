%% The storms that a VM makes of itself: spawning and exiting, garbage collection,
%% code loaded and purged, messages, mailboxes of tens of thousands, suspended and
%% hibernating processes, binaries, ETS, call tracing switched on and off,
%% schedulers taken offline and online, memory taken and let go. See storm.
-module(storm_inside).

-export([kinds/0, open/1, step/3, close/2]).
-export([chain/2, wake/1]).

-define(QUEUED, 30000).
-define(MANY_LOADS, 1500).
-define(SELDOM_MS, 1000).
-define(PRESSURE_STEPS, 8).

kinds() ->
    [spawner, collector, loader, mailer, mailbox, suspender, hibernator, binary, table, tracer,
     scheduler, pressure].

open(loader) -> list_to_tuple([generated(Generation) || Generation <- lists:seq(0, 6)]);
open(pressure) ->
    io:format("memory: ~b pieces of 32 MiB may be taken now~n", [storm_memory:pieces()]),
    none;
open(_) -> none.

close(_, _) -> ok.

%% A module that OTP 25's JIT has loaded leaves some 9 KB behind for good: what it tells
%% debuggers of it (malloc'ed by beamasm_metadata_update, never freed; found with
%% heaptrack). After the first minute it is loaded so seldom that this is no leak of ours.
step(loader, N, Codes) ->
    N > ?MANY_LOADS andalso timer:sleep(?SELDOM_MS),
    ok = load(N rem 7, element(1 + N rem 7, Codes)),
    Codes;
step(Kind, N, none) ->
    ok = step(Kind, N),
    none.

step(spawner, N) ->
    Self = self(),
    Pids = [spawn(fun() -> Self ! {self(), lists:sum(lists:seq(1, K))} end)
        || K <- lists:seq(1, 50)],
    [receive {Pid, Sum} -> Sum = K * (K + 1) div 2 end
        || {K, Pid} <- lists:zip(lists:seq(1, 50), Pids)],
    N rem 10 =:= 0 andalso timer:sleep(1),
    ok;
step(collector, N) ->
    Keep = [lists:seq(1, 2000) || _ <- lists:seq(1, 10)],
    erlang:garbage_collect(self(), [{type, case N rem 3 of 0 -> major; _ -> minor end}]),
    10 = length(Keep),
    2001000 = lists:sum(hd(Keep)),
    ok;
step(mailer, _) ->
    Self = self(),
    Pid = spawn_link(fun() -> echo(Self, 500) end),
    [Pid ! {number, K, lists:seq(1, K rem 20)} || K <- lists:seq(1, 500)],
    receive {sum, 125250} -> ok end;
%% All are there before the first is taken; then in the order in which they were sent.
step(mailbox, N) ->
    Self = self(),
    Pid = spawn_link(fun() -> Self ! {drained, receive {go, Count} -> drain(1, Count, 0) end} end),
    _ = [Pid ! {queued, K, {N, K}} || K <- lists:seq(1, ?QUEUED)],
    {message_queue_len, ?QUEUED} = erlang:process_info(Pid, message_queue_len),
    Pid ! {go, ?QUEUED},
    Sum = ?QUEUED * (?QUEUED + 1) div 2,
    receive {drained, Sum} -> ok end,
    timer:sleep(20);
step(suspender, _) ->
    Pid = spawn_link(?MODULE, chain, [30, self()]),
    [begin
        true = erlang:suspend_process(Pid),
        {status, suspended} = {status, await_suspended(Pid)},
        true = erlang:resume_process(Pid)
     end || _ <- lists:seq(1, 20)],
    Pid ! go,
    receive {chain, 465} -> ok end;
step(hibernator, _) ->
    Self = self(),
    Pid = spawn(fun() -> erlang:hibernate(?MODULE, wake, [Self]) end),
    Pid ! up,
    receive {Pid, up} -> ok end;
step(binary, _) ->
    Big = binary:copy(<<"x">>, 200000),
    Parts = [binary:part(Big, K * 1000, 1000) || K <- lists:seq(0, 99)],
    100000 = iolist_size(Parts),
    Joined = lists:foldl(fun(P, Acc) -> <<Acc/binary, P/binary>> end, <<>>, Parts),
    100000 = byte_size(Joined),
    ok;
step(table, _) ->
    Table = ets:new(storm, [public, {write_concurrency, true}]),
    true = ets:insert(Table, [{K, lists:seq(1, 10)} || K <- lists:seq(1, 1000)]),
    1000 = length(ets:select(Table, [{{'$1', '_'}, [], ['$1']}])),
    true = ets:delete(Table),
    ok;
%% The workers' own functions have breakpoints while they run; one process is
%% traced, and says what it must.
step(tracer, N) ->
    Self = self(),
    true = erlang:trace_pattern({?MODULE, '_', '_'}, true, [call_count]) > 0,
    true = erlang:trace_pattern({?MODULE, sum, 1}, [{'_', [], [{return_trace}]}], [local]) > 0,
    Pid = spawn(fun() -> receive go -> Self ! {self(), sum(5 + N rem 3)} end end),
    IsTraced = is_traced(Pid),
    Pid ! go,
    Expected = (5 + N rem 3) * (6 + N rem 3) div 2,
    receive {Pid, Expected} -> ok end,
    case IsTraced of
        true -> receive {trace, Pid, return_from, {?MODULE, sum, 1}, Expected} -> ok end;
        false -> ok
    end,
    drop_traces(Pid),
    true = erlang:trace_pattern({?MODULE, sum, 1}, false, [local]) > 0,
    true = erlang:trace_pattern({?MODULE, '_', '_'}, false, [call_count]) > 0,
    timer:sleep(5),
    ok;
step(scheduler, N) ->
    All = erlang:system_info(schedulers),
    _ = erlang:system_flag(schedulers_online, 1 + N rem All),
    timer:sleep(20),
    _ = erlang:system_flag(schedulers_online, All),
    true = erlang:system_info(schedulers_online) =:= All,
    timer:sleep(30),
    ok;
%% Most of what there is, and when it is all there each piece is what it was. Most of
%% the time there is none.
step(pressure, N) when N rem ?PRESSURE_STEPS =/= 0 -> timer:sleep(500);
step(pressure, _) ->
    Pieces = [{K, storm_memory:piece(K)} || K <- lists:seq(1, storm_memory:pieces())],
    timer:sleep(200),
    [] = [K || {K, Piece} <- Pieces, not storm_memory:is_whole(K, Piece)],
    ok.

%% Before OTP 27 a process has one tracer: a new one may be storm_tracing's already.
is_traced(Pid) ->
    try erlang:trace(Pid, true, [call, return_to]) of
        1 -> true
    catch
        error:badarg ->
            case erlang:trace_info(Pid, tracer) of
                {tracer, {flame_prof_looks_nif, _}} -> false;
                {tracer, []} -> is_traced(Pid) % it has ended meanwhile
            end
    end.

%% The Kth is the Kth.
drain(_, 0, Sum) -> Sum;
drain(K, Left, Sum) ->
    receive {queued, N, {_, N}} when N =:= K -> drain(K + 1, Left - 1, Sum + N) end.

%% One generation after the other, old code still run by somebody now and then.
load(Generation, Code) ->
    Module = storm_generated,
    {module, Module} = code:load_binary(Module, "storm_generated.erl", Code),
    {Pid, _} = spawn_monitor(fun() -> Module:answer() end),
    Generation = Module:answer(),
    receive {'DOWN', _, process, Pid, normal} -> ok end,
    code:purge(Module),
    code:delete(Module),
    code:purge(Module),
    ok.

%% None comes any more once those that were sent are delivered.
drop_traces(Pid) ->
    Delivered = erlang:trace_delivered(Pid),
    drop_until(Pid, Delivered).

drop_until(Pid, Delivered) ->
    receive
        {trace, Pid, _, _} -> drop_until(Pid, Delivered);
        {trace, Pid, _, _, _} -> drop_until(Pid, Delivered);
        {trace_delivered, Pid, Delivered} -> ok
    end.

await_suspended(Pid) ->
    case erlang:process_info(Pid, status) of
        {status, suspended} -> suspended;
        {status, _} -> await_suspended(Pid)
    end.

echo(To, Count) ->
    To ! {sum, lists:sum([receive {number, K, _} -> K end || _ <- lists:seq(1, Count)])}.

chain(0, To) ->
    receive go -> To ! {chain, To}, 0 end;
chain(N, To) when N =:= 30 ->
    receive go -> ok end,
    To ! {chain, sum(N)};
chain(N, To) -> N + chain(N - 1, To).

sum(0) -> 0;
sum(N) -> N + sum(N - 1).

wake(To) ->
    receive up -> To ! {self(), up} end.

%% A module whose code differs in size and lines from one generation to the
%% next, so that purged memory is used again for something else.
generated(Generation) ->
    Numbers = lists:seq(1, 20 * Generation),
    L = 10 + Generation,
    Forms = [{attribute, 1, module, storm_generated},
        {attribute, 2, export, [{answer, 0} | [{name(K), 1} || K <- Numbers]]}
    ] ++ [helper(K) || K <- Numbers] ++
        [{function, L, answer, 0, [{clause, L, [], [], [{integer, L, Generation}]}]}],
    {ok, storm_generated, Code} = compile:forms(Forms, []),
    Code.

helper(K) ->
    L = 100 + K,
    {function, L, name(K), 1, [{clause, L, [{var, L, 'X'}], [], [
            {op, L, '+', {var, L, 'X'}, {call, L, {atom, L, length}, [{nil, L}]}}]}]}.

name(K) -> list_to_atom("helper_" ++ integer_to_list(K)).
