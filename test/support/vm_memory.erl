%% Memory of this VM as flame_prof reads it against what the VM says when it is asked: of each
%% instance of an allocator, of all of them, by kind. For VMs that are started for it, with flags.
-module(vm_memory).

-export([differences/0, off/0, explained/0, pool/0, super_carrier/0, largest/0, buckets/0]).

%% A busy machine takes long to come to rest.
-define(ROUNDS, 1000).
%% What asking takes: a request, and the heap in which the answer lies.
-define(ASKING_BLOCKS, 16).
-define(ASKING_BYTES, 131072).
-define(NAMES, [temp_alloc, sl_alloc, std_alloc, ll_alloc, eheap_alloc, ets_alloc, fix_alloc,
    literal_alloc, binary_alloc, driver_alloc]).

%% What differs in nearly all rounds. Many processes, monitors and timers have blocks of fixed
%% sizes, and binaries carriers of their own.
differences() ->
    Pids = [spawn_monitor(fun() -> erlang:send_after(600000, self(), x), receive x -> ok end end)
        || _ <- lists:seq(1, 2000)],
    Held = [binary:copy(<<1>>, 700000) || _ <- lists:seq(1, 20)],
    garbage_collect(),
    %% Counters that move are not found, and then the VM is asked.
    timer:sleep(500),
    {ok, _} = flame_prof_allocators:look(),
    {ok, _} = flame_prof_allocators:sums(),
    timer:sleep(200),
    Differ = waiting:differing(fun differing/0, ?ROUNDS),
    20 = length(Held),
    _ = [exit(Pid, kill) || {Pid, _} <- Pids],
    _ = [receive {'DOWN', Monitor, _, _, _} -> ok end || {_, Monitor} <- Pids],
    Differ.

differing() ->
    {ok, Before} = flame_prof_allocators:sums(),
    Facts = [{{Name, N}, Of} || Name <- ?NAMES, List <- [erlang:system_info({allocator, Name})],
        is_list(List), {instance, N, Of} <- List],
    Memory = memory(),
    {ok, Look} = flame_prof_allocators:look(),
    {ok, #{allocators := Sums} = All} = flame_prof_allocators:sums(),
    Instances = maps:from_list([{{A, N}, read(I)} || #{allocator := A, instance := N} = I <- Look]),
    [instances || lists:sort([Key || {Key, _} <- Facts]) =/= lists:sort(maps:keys(Instances))]
        ++ [Key || {Key, Of} <- Facts,
            not is_same_instance(Key, said(Of), maps:get(Key, Instances, none))]
        ++ [element(1, Sum) || Sum <- Sums, not is_same_sum(Sum, Facts)]
        ++ [calls || {Key, Said} <- maps:to_list(calls([Of || {_, Of} <- Facts])),
            Said < maps:get(Key, Before) orelse Said > maps:get(Key, All)]
        ++ [super_carrier || not is_same_super_carrier(All)]
        ++ [Kind || {Kind, Bytes} <- maps:to_list(flame_prof_node_memory:kinds(All)),
            not is_near(Kind, Bytes, proplists:get_value(Kind, Memory))].

%% Not to be had where allocators are off.
memory() ->
    try erlang:memory()
    catch error:notsup -> []
    end.

%% The request is a block of sl_alloc, and the answer lies in eheap_alloc while it is written.
is_same_instance({Name, _}, #{blocks := Said} = Figures, #{blocks := Read} = Instance) when
    Name =:= eheap_alloc; Name =:= sl_alloc
->
    Rest = fun(Of) -> maps:without([blocks, blocks_bytes], Of) end,
    Rest(Figures) =:= Rest(Instance) andalso abs(Said - Read) =< ?ASKING_BLOCKS;
is_same_instance(_, Figures, Instance) -> Figures =:= Instance.

is_same_sum({Name, Carriers, Blocks, Single, Pool, _, Mseg, Sys, SingleBlocks}, Facts) ->
    Of = lists:append([Fact || {{N, _}, Fact} <- Facts, N =:= Name]),
    #{carriers_bytes := CarriersSaid, blocks_bytes := BlocksSaid} = Said = said(Of),
    IsAsking = lists:member(Name, [eheap_alloc, sl_alloc]),
    {Carriers, Mseg, Sys, Pool} =:= {CarriersSaid, maps:get(mseg, Said), maps:get(sys, Said),
        maps:get(pool_bytes, Said)} andalso Single =:= now(carriers_size, [sbcs], Of)
        andalso SingleBlocks =:= blocks(size, [sbcs], Of)
        andalso (IsAsking orelse Blocks =:= BlocksSaid).

%% They only grow, also by what asking takes: the VM's are between those of two readings.
calls(Facts) ->
    Of = fun(Keys) -> lists:sum([Giga * 1000000000 + N || Fact <- Facts, {calls, In} <- Fact,
        {Key, Giga, N} <- In, lists:member(Key, Keys)]) end,
    #{taken => Of([mseg_alloc, sys_alloc]), given_back => Of([mseg_dealloc, sys_free])}.

is_same_super_carrier(#{super_carrier := Read}) ->
    Said = [{proplists:get_value(total, Sizes), proplists:get_value(used, Sizes)}
        || {default_mmap, Facts} <- erlang:system_info({allocator, erts_mmap}),
           {supercarrier, Of} <- Facts, {sizes, Sizes} <- Of],
    Said =:= [Read || Read =/= none].

is_near(Kind, Read, Said) when Kind =:= total; Kind =:= processes ->
    abs(Read - Said) =< ?ASKING_BYTES;
is_near(_, Read, Said) -> Read =:= Said.

said(Facts) ->
    All = [mbcs, sbcs, mbcs_pool],
    #{carriers => now(carriers, All, Facts), carriers_bytes => now(carriers_size, All, Facts),
        mseg => now(mseg_alloc_carriers_size, [mbcs, sbcs], Facts),
        sys => now(sys_alloc_carriers_size, [mbcs, sbcs], Facts),
        pool_bytes => now(carriers_size, [mbcs_pool], Facts), blocks => blocks(count, All, Facts),
        blocks_bytes => blocks(size, All, Facts)}.

now(Key, Kinds, Facts) ->
    lists:sum([element(2, Fact) || {Kind, In} <- Facts, lists:member(Kind, Kinds),
        Fact <- In, element(1, Fact) =:= Key]).

blocks(Key, Kinds, Facts) ->
    lists:sum([element(2, Fact) || {Kind, Of} <- Facts, lists:member(Kind, Kinds),
        {blocks, Blocks} <- Of, {_, Figures} <- Blocks, Fact <- Figures, element(1, Fact) =:= Key]).

read(#{multi := Multi, single := Single} = Instance) ->
    #{mseg_bytes := M1, sys_bytes := S1} = Multi,
    #{mseg_bytes := M2, sys_bytes := S2} = Single,
    Pool = maps:get(pool, Instance, #{bytes => 0}),
    (maps:with([carriers, carriers_bytes, blocks, blocks_bytes], Instance))#{
        mseg => M1 + M2, sys => S1 + S2, pool_bytes => maps:get(bytes, Pool)}.

%% Allocators that the flags turn off.
off() ->
    {ok, #{off := Off}} = flame_prof_memory:look(),
    Off.

%% Percent of the resident memory of which nothing is known, and by which the kinds together differ
%% from the kernel's sum; whether all carriers were walked. The best of some looks: the kernel's sum
%% is a moment before its list of mappings.
explained() ->
    Binaries = [binary:copy(<<I>>, 100000) || I <- lists:seq(1, 200)],
    Looks = [looked() || _ <- lists:seq(1, 3)],
    200 = length(Binaries),
    hd(lists:keysort(2, Looks)).

looked() ->
    {ok, #{explained := #{other := Other} = Kinds, process := #{rss := Rss}}} =
        flame_prof_memory:look(),
    Walked =
        case Kinds of
            #{walked := Bytes, counted := Bytes} -> all;
            _ -> maps:with([walked, counted], Kinds)
        end,
    Sum = lists:sum(maps:values(maps:without([walked, counted], Kinds))),
    {100 * Other / Sum, 100 * abs(Sum - Rss) / Rss, Walked}.

%% Bytes in the pool, with what differs then. Many heaps, of which most go: carriers that are mostly
%% empty go to the pool.
pool() ->
    Heap = fun Heap(List) -> receive never -> Heap(List) end end,
    Pids = [spawn(fun() -> Heap(lists:seq(1, 2000)) end) || _ <- lists:seq(1, 5000)],
    timer:sleep(300),
    {Left, Gone} = lists:partition(fun({I, _}) -> I rem 10 =:= 0 end,
        lists:zip(lists:seq(1, 5000), Pids)),
    _ = [exit(Pid, kill) || {_, Pid} <- Gone],
    Differ = differences(),
    {ok, #{allocators := Instances}} = flame_prof_memory:look(),
    _ = [exit(Pid, kill) || {_, Pid} <- Left],
    {lists:sum([B || #{pool := #{bytes := B}} <- Instances]), Differ}.

%% The largest free block of each allocator, or `none'.
largest() ->
    {ok, #{allocators := Sums}} = flame_prof_allocators:sums(),
    maps:from_list([{element(1, Of), element(6, Of)} || Of <- Sums]).

%% Of allocators that rest: the largest free block that is told, and the last bucket of free blocks
%% that is not empty.
buckets() ->
    %% Fewer leave ets_alloc in a state of which the largest block is not known.
    Kept = [B || N <- lists:seq(1, 9000), B <- [binary:copy(<<1>>, 1000 + 37 * N)], N rem 3 =:= 0],
    _ = put(kept, Kept),
    _ = [ets:insert(T, {N, lists:seq(1, N rem 90)}) || T <- [ets:new(t, [])],
        N <- lists:seq(1, 3000)],
    Names = [binary_alloc, ets_alloc, std_alloc, driver_alloc],
    {ok, _} = flame_prof_allocators:sums(),
    timer:sleep(500),
    {ok, {512, Carriers}} = instrument:carriers(
        #{histogram_start => 512, histogram_width => 30, allocator_types => Names}),
    %% A tree that moves while it is read has no largest block.
    Largest = waiting:eventually(fun() ->
        {ok, #{allocators := Sums}} = flame_prof_allocators:sums(),
        All = [{Name, Bytes} || {Name, _, _, _, _, Bytes, _, _, _} <- Sums,
            lists:member(Name, Names)],
        not lists:keymember(none, 2, All) andalso {true, All}
    end),
    [{Name, Bytes, lists:max([last(tuple_to_list(element(tuple_size(C), C)))
        || C <- Carriers, element(1, C) =:= Name, not element(2, C)])} || {Name, Bytes} <- Largest].

last(Histogram) ->
    lists:max([0 | [N || {N, Count} <- lists:zip(lists:seq(0, length(Histogram) - 1), Histogram),
        Count > 0]]).

%% What a look tells of the super carrier, as a map, text and JSON.
super_carrier() ->
    {ok, Look} = flame_prof_memory:look(#{explain => false}),
    Text = unicode:characters_to_binary(flame_prof_memory:format(Look)),
    {maps:get(super_carrier, Look, none), Text,
        iolist_to_binary(flame_prof_json:encode(flame_prof_memory:json(Look)))}.

