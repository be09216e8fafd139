%% Processes that collect in all ways, sampled, and each sample held against what these processes
%% ever had.
%%
%% The truth is of the VM: process_info/2 of a process on itself around its steps, and what the VM
%% traces at the beginning and at the end of each collection. Between two collections the blocks of
%% a heap do not change, so no block of a sample is larger, or smaller, than all of these say.
%% Within one the VM goes through a block that has room for all that there was before, which it
%% shrinks or grows then, and says nothing of.
-module(size_storm).

-export([run/1, kinds/0, init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% A major collection may take two steps above what there was before, each a factor of 1.65 at
%% most.
-define(TWO_STEPS(Words), (400 + 3 * (Words))).
%% Of a structure, links and monitors, beyond what process_info/2 says at some other moment.
-define(MEMORY_EXTRA, 4096).

%% Samples for so many ms: how many, of which in a collection, and what none of the processes ever
%% had, each with a count and the first of its kind. `options': of the session.
run(#{for_ms := ForMs, dir := Dir}) ->
    Truth = spawn_opt(fun() -> truth(#{}) end, [link, {priority, high}]),
    Workers = [start(Kind, Truth) || Kind <- kinds()],
    {ok, _} = flame_prof:start(#{
        dir => Dir, engine => native, sample_interval => 1, cpu_budget => infinity,
        compress => none, flush_interval => 2000, select => {top, 0},
        include => [Pid || {Pid, _} <- Workers]}),
    Helpers = [spawn_link(fun() -> disturb([Pid || {Pid, _} <- Workers], 0) end)],
    [Pid ! go || {Pid, _} <- Workers],
    receive after ForMs -> ok end,
    %% A machine that is slow has some for each of them, too.
    waiting:eventually(fun() ->
        maps:get(written, maps:get(counters, flame_prof:info())) > 100 * length(Workers)
    end),
    [begin unlink(Pid), exit(Pid, kill) end || Pid <- Helpers ++ [Pid || {Pid, _} <- Workers]],
    {ok, Run} = flame_prof:stop(),
    Had = ask(Truth),
    unlink(Truth),
    exit(Truth, kill),
    Names = maps:from_list([{pid_word(Pid), {Kind, maps:get(Pid, Had)}} || {Pid, Kind} <- Workers]),
    Files = [F || F <- filelib:wildcard(filename:join(Dir, "*.log*"))],
    {ok, Found, #{bad := 0}} = flame_prof:fold(fun(Sample, Acc) -> check(Sample, Names, Acc) end,
        #{samples => 0, collecting => 0, wrong => #{}, kinds => #{}}, Files),
    maps:merge(Found, maps:with([attempted, written, inconsistent, dropped, lost], Run)).

%% As in the header of a sample (doc/format.md).
pid_word(Pid) ->
    [Number, Serial] = [list_to_integer(N) || N <- tl(string:lexemes(pid_to_list(Pid), "<.>"))],
    Shift = case erlang:system_info(otp_release) of "25" -> 15; _ -> 28 end,
    (Number bor (Serial bsl Shift)) band 16#7fffffff.

%% ------------------------------------------------------------------------------- the truth --

truth(Had) ->
    receive
        {trace, Pid, _, Info} -> truth(learn(Pid, Info, Had));
        {truth, Pid, Info} -> truth(learn(Pid, Info, Had));
        {sync, Pid} -> Pid ! synced, truth(Had);
        {ask, Pid} -> Pid ! {had, Had}, truth(Had)
    end.

ask(Truth) ->
    Truth ! {ask, self()},
    receive {had, Had} -> Had end.

learn(Pid, Info, Had) ->
    Old = maps:get(Pid, Had, #{}),
    Had#{Pid => lists:foldl(fun widen/2, Old, used(Info) ++ Info)}.

%% Words that a collection would have to keep, if it kept all.
used(Info) ->
    Words = [Value || {Key, Value} <- Info,
        lists:member(Key, [heap_size, old_heap_size, mbuf_size, stack_size])],
    [{used, lists:sum(Words)} || Words =/= []].

widen({Key, Value}, Old) when is_integer(Value) ->
    case Old of
        #{Key := {Min, Max}} when Value >= Min, Value =< Max -> Old;
        #{Key := {Min, Max}} -> Old#{Key := {min(Min, Value), max(Max, Value)}};
        _ -> Old#{Key => {Value, Value}}
    end;
widen(_, Old) -> Old.

%% What a process has, by itself.
record(Truth) ->
    [{garbage_collection_info, Info}, {memory, Memory}, {message_queue_len, Queue}] =
        process_info(self(), [garbage_collection_info, memory, message_queue_len]),
    Blocks = lists:sum([element(2, lists:keyfind(K, 1, Info))
        || K <- [heap_block_size, old_heap_block_size, mbuf_size]]),
    Truth ! {truth, self(), [{message_queue_len, Queue}, {beside, Memory - 8 * Blocks} | Info]},
    ok.

sync(Truth) ->
    Truth ! {sync, self()},
    receive synced -> ok end.

%% ----------------------------------------------------------------------------- the samples --

check(#{tid := Tid, status := Status, metrics := Metrics, words := _} = Sample, Names, Acc0) ->
    case Names of
        #{Tid := {Kind, Had}} ->
            #{samples := N, collecting := C, wrong := Wrong0, kinds := Kinds} = Acc0,
            IsCollecting = Status =:= <<"garbage_collecting">>,
            Wrong = lists:foldl(fun(What, Wrong) -> count({Kind, What}, Sample, Wrong) end,
                Wrong0,
                wrong(Status, maps:map(fun(_, {Value, _}) -> Value end, Metrics), Had)),
            Acc0#{samples := N + 1, collecting := C + length([1 || IsCollecting]), wrong := Wrong,
                kinds := maps:update_with(Kind, fun(K) -> K + 1 end, 1, Kinds)};
        _ -> Acc0
    end.

count(What, #{status := Status, metrics := Metrics, frames := Frames}, Wrong) ->
    case Wrong of
        #{What := {N, First}} -> Wrong#{What := {N + 1, First}};
        _ -> Wrong#{What => {1, {Status, lists:sublist(Frames, 3), Metrics}}}
    end.

wrong(Status, Now, Had) ->
    #{heap_block_size := {LeastBlock, MostBlock}, old_heap_block_size := {_, MostOld},
        beside := {_, Beside}} = Had,
    #{<<"heap_block_size">> := Block, <<"old_heap_block_size">> := Old, <<"heap_size">> := Heap,
        <<"stack_size">> := Stack, <<"recent_size">> := Recent, <<"old_heap_size">> := OldHeap,
        <<"mbuf_size">> := Mbuf, <<"total_heap_size">> := Total, <<"memory">> := Memory,
        <<"message_queue_len">> := Queue} = Now,
    MostInside = case Status of
        <<"garbage_collecting">> -> max(MostBlock, ?TWO_STEPS(most(used, Had)));
        _ -> MostBlock
    end,
    Most = MostInside + MostOld + Mbuf,
    [What || {What, true} <- [{more_block, Block > MostInside},
        {less_block, Block < LeastBlock},
        {more_old, Old > MostOld},
        {parts, Heap > Block orelse Stack > Block orelse Recent > Block orelse OldHeap > Old},
        {total, Total =/= Block + Old + Mbuf},
        {memory, Memory > 8 * max(Most, Total) + max(Beside, 0) + 88 * Queue + ?MEMORY_EXTRA
            orelse Memory < 8 * Total},
        {queue, Queue > most(queue_bound, Had)}]].

most(Key, Had) ->
    {_, Most} = maps:get(Key, Had),
    Most.

%% ----------------------------------------------------------------------------- the workers --

kinds() ->
    [hibernates, hibernates_a_lot, grows, churns, off_heap, on_heap, fragments, dirty, dictionary,
        recurses, literals, binaries, server].

start(server, Truth) ->
    {ok, Pid} = gen_server:start_link(?MODULE, Truth, []),
    trace(Pid, Truth),
    {Pid, server};
start(Kind, Truth) ->
    Data = case Kind of on_heap -> on_heap; _ -> off_heap end,
    Pid = spawn_opt(fun() ->
        receive go -> ok end,
        record(Truth),
        loop(Kind, Truth, state(Kind), 1)
    end, [link, {message_queue_data, Data}]),
    trace(Pid, Truth),
    {Pid, Kind}.

trace(Pid, Truth) ->
    Truth ! {truth, Pid, [{queue_bound, queue_bound()}]},
    1 = erlang:trace(Pid, true, [garbage_collection, {tracer, Truth}]).

%% Messages that a worker is sent at a time, and those of its helpers.
queue_bound() -> 400.

loop(Kind, Truth, State0, N) ->
    State = step(Kind, Truth, State0, N),
    record(Truth),
    sync(Truth),
    loop(Kind, Truth, State, N + 1).

state(hibernates_a_lot) -> entries(12000);
state(churns) -> entries(2000);
state(literals) -> none;
state(_) -> [].

entries(N) -> maps:from_list([{I, {item, I, integer_to_list(I)}} || I <- lists:seq(1, N)]).

step(Kind, Truth, State, N) when Kind =:= hibernates; Kind =:= hibernates_a_lot ->
    Self = self(),
    Garbage = [{X, State} || X <- lists:seq(1, 50 * (N rem 40))],
    record(Truth),
    sync(Truth),
    erlang:send_after(1, Self, {wake, length(Garbage)}),
    hibernate(Kind, Truth, State, N);
step(grows, Truth, _, N) ->
    grow(Truth, [], 20 + N rem 60),
    erlang:garbage_collect(),
    record(Truth),
    [];
step(churns, Truth, State, N) ->
    _ = [[{X, Y} || Y <- lists:seq(1, 20)] || X <- lists:seq(1, 300)],
    erlang:garbage_collect(self(), [{type, minor}]),
    record(Truth),
    State#{N rem 2000 => {N, [N]}};
step(Kind, Truth, _, N) when Kind =:= off_heap; Kind =:= on_heap ->
    Self = self(),
    spawn(fun() ->
        [Self ! {message, lists:seq(1, 1 + (X * N) rem 200)} || X <- lists:seq(1, 100)],
        Self ! last
    end),
    receive last -> ok end,
    record(Truth),
    receive_all([]);
step(fragments, Truth, _, N) ->
    %% Terms that are made in fragments of the heap.
    Term = binary_to_term(term_to_binary(lists:seq(1, 1000 * (1 + N rem 30)))),
    record(Truth),
    _ = list_to_tuple(Term),
    _ = [binary_to_list(<<0:8000>>) || _ <- lists:seq(1, 20)],
    [];
step(dirty, Truth, State, N) when N rem 12 =/= 0 ->
    %% Larger than what a normal scheduler collects: a dirty one does, and the heap is put off.
    grow(Truth, State, 60);
step(dictionary, Truth, _, N) ->
    [put({N, X}, lists:seq(1, X rem 10)) || X <- lists:seq(1, 50 * (N rem 30))],
    record(Truth),
    erase(),
    [];
step(recurses, Truth, _, N) ->
    recurse(Truth, 3000 * (1 + N rem 20)),
    [];
step(literals, Truth, _, N) ->
    Name = list_to_atom("size_storm_literals_" ++ integer_to_list(N rem 2)
        ++ "_" ++ integer_to_list(erlang:phash2(self(), 1000))),
    Code = [{attribute, 1, module, Name}, {attribute, 2, export, [{it, 0}]},
        {function, 3, it, 0, [{clause, 3, [], [],
            [erl_parse:abstract([{X, <<"a">>} || X <- lists:seq(1, 500)])]}]}],
    {ok, Name, Binary} = compile:forms(Code, []),
    {module, Name} = code:load_binary(Name, "size_storm", Binary),
    Kept = Name:it(),
    record(Truth),
    true = code:delete(Name),
    _ = code:purge(Name),
    Kept;
step(binaries, _, State, N) ->
    Made = [binary:copy(<<X>>, 100 + X * 50) || X <- lists:seq(1, 100)],
    lists:sublist([hd(Made), binary:part(lists:last(Made), 0, 80) | State], N rem 400);
step(_, _, _, _) -> [].

%% The blocks are known at each step: a collection between two of them is traced.
grow(_, Kept, 0) -> Kept;
grow(Truth, Kept, N) -> grow(Truth, [lists:seq(1, 1000) | Kept], N - 1).

recurse(Truth, 0) -> record(Truth), 0;
recurse(Truth, N) -> 1 + recurse(Truth, N - 1).

receive_all(All) ->
    receive {message, List} -> receive_all([List | All]) after 0 -> length(All) end.

%% It goes on in a function of its own, with no stack.
hibernate(Kind, Truth, State, N) ->
    proc_lib:hibernate(erlang, apply, [fun woken/4, [Kind, Truth, State, N]]).

woken(Kind, Truth, State, N) ->
    record(Truth),
    receive {wake, _} -> ok end,
    loop(Kind, Truth, State, N + 1).

%% Collections that others ask for, and signals meanwhile.
disturb(Pids, N) ->
    [erlang:garbage_collect(Pid, [{async, N}])
     || Pid <- Pids, (erlang:phash2(Pid) + N) rem 7 =:= 0],
    receive after 3 -> ok end,
    flush(),
    disturb(Pids, N + 1).

flush() ->
    receive _ -> flush() after 0 -> ok end.

%% As an application: a queue that hibernates after each message.
feed(Server, I) ->
    ok = gen_server:call(Server, {put, I}, infinity),
    receive after 5 -> ok end,
    Server ! drop,
    feed(Server, I).

init(Truth) ->
    record(Truth),
    {ok, {Truth, queue:new(), entries(12000)}}.

handle_call({put, X}, _From, {Truth, Queue, Entries}) ->
    record(Truth),
    {reply, ok, {Truth, queue:in(X, Queue), Entries}, hibernate}.

handle_cast(_, State) -> {noreply, State, hibernate}.

handle_info(go, State) ->
    Self = self(),
    [spawn(fun() -> feed(Self, I) end) || I <- [1, 2, 3, 4]],
    {noreply, State};
handle_info(drop, {Truth, Queue, Entries}) ->
    record(Truth),
    {noreply, {Truth, queue:drop(Queue), Entries}, hibernate}.
