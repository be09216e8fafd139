%% The node's memory in a session's file, against what the VM says when it is asked; and that nobody
%% is asked. Each in a VM of its own: its flags matter, and what it has done before.
-module(flame_prof_node_memory_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([
    memory_by_kind_is_that_of_the_vm/1,
    allocators_are_those_of_the_vm/1,
    the_largest_free_block_is_where_the_vm_counts_it/1,
    a_strategy_without_a_largest_block_has_none/1,
    the_super_carrier_is_that_of_the_vm/1,
    a_vm_without_allocators_has_what_it_can/1,
    the_portable_engine_asks/1,
    no_scheduler_is_asked_twice/1,
    the_file_has_them_as_often_as_asked/1,
    prometheus_has_them_after_a_look/1
]).
%% In a VM of its own.
-export([kinds/0, sums/0, buckets/0, largest/0, super_carrier/0, figures/0, portable/0, calls/0,
    session/0, metrics/0]).

-define(ROUNDS, 50).
%% What asking takes: a request, and the heap in which the answer lies.
-define(ASKING_BYTES, 131072).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [F || {F, 1} <- ?MODULE:module_info(exports), not lists:member(F, [init_per_suite,
        end_per_suite, module_info])].

init_per_suite(Config) ->
    case native_node:why_not() of
        none -> Config;
        Why -> {skip, Why}
    end.

end_per_suite(_Config) ->
    ok.

memory_by_kind_is_that_of_the_vm(_) ->
    [?assertEqual({Flags, []}, {Flags, peer_vm:value(?MODULE, kinds, Flags)})
     || Flags <- [[], ["+Muacul", "0"], ["+Mut", "false"], ["+S", "1:1"], ["+MBas", "gf"]]].

%% Kinds that differ in all rounds. Many processes, monitors and timers have blocks of fixed sizes.
kinds() ->
    Pids = [spawn(fun() -> erlang:send_after(600000, self(), x), receive x -> ok end end)
        || _ <- lists:seq(1, 2000)],
    _ = [monitor(process, Pid) || Pid <- Pids],
    settled(fun(Left) ->
        {ok, Sums} = flame_prof_allocators:sums(),
        #{total := _, processes := _} = Kinds = flame_prof_node_memory:kinds(Sums),
        Said = maps:from_list(erlang:memory()),
        [Kind || Kind <- maps:keys(Kinds), is_left(Kind, Left),
            not is_near(Kind, maps:get(Kind, Kinds), maps:get(Kind, Said))]
    end).

is_near(Kind, Read, Said) when Kind =:= total; Kind =:= processes ->
    abs(Read - Said) =< ?ASKING_BYTES;
is_near(_, Read, Said) ->
    Read =:= Said.

settled(Differing) ->
    garbage_collect(),
    %% Counters that move are not found, and then the VM is asked.
    timer:sleep(500),
    {ok, _} = flame_prof_allocators:sums(),
    timer:sleep(200),
    lists:foldl(
        fun
            (_, []) -> [];
            (_, Left) -> timer:sleep(2), Differing(Left)
        end,
        all,
        lists:seq(1, ?ROUNDS)
    ).

is_left(_, all) -> true;
is_left(Kind, Left) -> lists:member(Kind, Left).

allocators_are_those_of_the_vm(_) ->
    [?assertEqual({Flags, []}, {Flags, peer_vm:value(?MODULE, sums, Flags)})
     || Flags <- [[], ["+MHas", "gf", "+MBas", "ageffcbf"], ["+MIscs", "64"], ["+Muacul", "0"],
        ["+MBsbct", "64"]]].

%% Carriers, single ones, the pool and the calls of each allocator but for what serves the asking.
sums() ->
    Held = [binary:copy(<<1>>, 700000) || _ <- lists:seq(1, 20)],
    Differ = settled(fun(Left) ->
        {ok, Sums} = flame_prof_allocators:sums(),
        #{allocators := Read, taken := Taken, given_back := GivenBack} = Sums,
        Said = [said(Name) || {Name, _, _, _, _, _} <- Read],
        Calls = {lists:sum([T || {_, T, _} <- Said]), lists:sum([G || {_, _, G} <- Said])},
        [calls || is_left(calls, Left), Calls =/= {Taken, GivenBack}] ++
            [Name || {{Name, Carriers, Blocks, Single, Pool, _}, {{Name, Figures}, _, _}}
                <- lists:zip(Read, [{{N, F}, T, G} || {{N, F}, T, G} <- Said]),
                is_left(Name, Left), not is_same(Name, Figures, {Carriers, Blocks, Single, Pool})]
    end),
    20 = length(Held),
    Differ.

is_same(Name, {Carriers, _, Single, Pool}, {Carriers, _, Single, Pool}) when
    Name =:= eheap_alloc; Name =:= sl_alloc
->
    true;
is_same(_, Said, Read) ->
    Said =:= Read.

said(Name) ->
    Instances = [Facts || {instance, _, Facts} <- erlang:system_info({allocator, Name})],
    Of = fun(Kinds, Key) -> lists:sum([element(2, Fact) || Facts <- Instances,
        {Kind, In} <- Facts, lists:member(Kind, Kinds), Fact <- In, element(1, Fact) =:= Key]) end,
    All = [mbcs, sbcs, mbcs_pool],
    Blocks = lists:sum([element(2, Size) || Facts <- Instances, {Kind, In} <- Facts,
        lists:member(Kind, All), {blocks, ByName} <- In, {_, Sizes} <- ByName, Size <- Sizes,
        element(1, Size) =:= size]),
    Calls = fun(Keys) -> lists:sum([Giga * 1000000000 + N || Facts <- Instances,
        {calls, In} <- Facts, {Key, Giga, N} <- In, lists:member(Key, Keys)]) end,
    Figures = {Of(All, carriers_size), Blocks, Of([sbcs], carriers_size),
        Of([mbcs_pool], carriers_size)},
    {{Name, Figures}, Calls([mseg_alloc, sys_alloc]), Calls([mseg_dealloc, sys_free])}.

the_largest_free_block_is_where_the_vm_counts_it(_) ->
    case code:which(instrument) of
        non_existing -> {skip, "no instrument, of the application tools"};
        _ -> largest_free_blocks()
    end.

largest_free_blocks() ->
    [
        begin
            Buckets = peer_vm:value(?MODULE, buckets, Flags),
            %% Releases differ in what of the start the first bucket is: half, all or twice.
            Fitting = [Unit || Unit <- [256, 512, 1024],
                [] =:= [Name || {Name, Bytes, Bucket} <- Buckets,
                    bucket(Bytes div Unit + 1, 0) =/= Bucket]],
            ?assertMatch({_, _, [_ | _]}, {Flags, Buckets, Fitting}),
            ?assert(length(Buckets) >= 3)
        end
     || Flags <- [[], ["+MBas", "aoff", "+MEas", "ageffcaoff"]]
    ].

bucket(1, Bucket) -> Bucket;
bucket(N, Bucket) -> bucket(N div 2, Bucket + 1).

%% Of allocators that rest: what is told, and the last bucket of free blocks that is not empty.
buckets() ->
    Held = [binary:copy(<<1>>, 1000 + 37 * N) || N <- lists:seq(1, 9000)],
    Kept = [B || {N, B} <- lists:zip(lists:seq(1, 9000), Held), N rem 3 =:= 0],
    _ = put(kept, Kept),
    _ = [ets:insert(T, {N, lists:seq(1, N rem 90)}) || T <- [ets:new(t, [])],
        N <- lists:seq(1, 3000)],
    Names = [binary_alloc, ets_alloc, std_alloc, driver_alloc],
    {ok, _} = flame_prof_allocators:sums(),
    timer:sleep(500),
    {ok, {512, Carriers}} = instrument:carriers(
        #{histogram_start => 512, histogram_width => 30, allocator_types => Names}),
    {ok, #{allocators := Sums}} = flame_prof_allocators:sums(),
    [{Name, Bytes, lists:max([last(tuple_to_list(element(tuple_size(C), C)))
        || C <- Carriers, element(1, C) =:= Name, not element(2, C)])}
     || {Name, _, _, _, _, Bytes} <- Sums, lists:member(Name, Names)].

last(Histogram) ->
    lists:max([0 | [N || {N, Count} <- lists:zip(lists:seq(0, length(Histogram) - 1), Histogram),
        Count > 0]]).

a_strategy_without_a_largest_block_has_none(_) ->
    Largest = peer_vm:value(?MODULE, largest, ["+MBas", "bf", "+MHas", "gf", "+MEas", "aobf"]),
    ?assertMatch(#{binary_alloc := none, eheap_alloc := none, ets_alloc := none}, Largest),
    ?assertMatch(#{std_alloc := Bytes} when is_integer(Bytes), Largest).

largest() ->
    {ok, #{allocators := Sums}} = flame_prof_allocators:sums(),
    maps:from_list([{Name, Largest} || {Name, _, _, _, _, Largest} <- Sums]).

the_super_carrier_is_that_of_the_vm(_) ->
    ?assertEqual([], peer_vm:value(?MODULE, super_carrier, ["+MMscs", "512"])),
    ?assertEqual([none], peer_vm:value(?MODULE, super_carrier, [])).

super_carrier() ->
    settled(fun(_) ->
        {ok, #{super_carrier := Read}} = flame_prof_allocators:sums(),
        Mappers = erlang:system_info({allocator, erts_mmap}),
        Said = [{proplists:get_value(total, Sizes), proplists:get_value(used, Sizes)}
            || {default_mmap, Facts} <- Mappers, {supercarrier, Of} <- Facts,
               {sizes, Sizes} <- Of],
        [Read || Said =/= [Read]]
    end).

a_vm_without_allocators_has_what_it_can(_) ->
    Figures = peer_vm:value(?MODULE, figures, ["+Mea", "min"]),
    ?assertMatch(#{node_rss := _, node_allocator_carriers := _}, Figures),
    ?assertNot(is_map_key(node_alloc_eheap_carriers, Figures)),
    ?assertNot(is_map_key(node_memory_total, Figures)).

figures() ->
    {Figures, _} = flame_prof_node_memory:figures(flame_prof_node_memory:new(native)),
    maps:from_list(Figures).

the_portable_engine_asks(_) ->
    Figures = peer_vm:value(?MODULE, portable, []),
    ?assertMatch(#{node_rss := _, node_allocator_carriers := _, node_memory_total := _}, Figures),
    ?assertNot(is_map_key(node_carriers_taken, Figures)).

portable() ->
    {Figures, _} = flame_prof_node_memory:figures(flame_prof_node_memory:new(portable)),
    maps:from_list(Figures).

no_scheduler_is_asked_twice(_) ->
    {First, Later} = peer_vm:value(?MODULE, calls, []),
    ?assert(First > 0),
    ?assertEqual(0, Later).

%% How often the functions that ask are called, by the first reading and by ten more.
calls() ->
    Functions = [{erlang, memory, 0}, {erlang, memory, 1}, {flame_prof_allocators, facts, 0}],
    Source = flame_prof_node_memory:new(native),
    {ok, _} = flame_prof_engine:choose(auto),
    _ = [code:ensure_loaded(M) || {M, _, _} <- Functions],
    _ = [erlang:trace_pattern(MFA, true, [call_count]) || MFA <- Functions],
    {_, Next} = flame_prof_node_memory:figures(Source),
    First = counted(Functions),
    _ = lists:foldl(fun(_, S) -> element(2, flame_prof_node_memory:figures(S)) end, Next,
        lists:seq(1, 10)),
    {First, counted(Functions) - First}.

counted(Functions) ->
    lists:sum([N || MFA <- Functions, {call_count, N} <- [erlang:trace_info(MFA, call_count)],
        is_integer(N)]).

%% Three or more in the first part of a flush interval, with all names.
the_file_has_them_as_often_as_asked(_) ->
    {Count, Figures} = peer_vm:value(?MODULE, session, []),
    ?assert(Count >= 4),
    [?assertMatch({Key, #{Key := {_, _}}}, {Key, Figures})
     || Key <- [
            <<"node_alloc_eheap_carriers">>, <<"node_alloc_eheap_blocks">>,
            <<"node_alloc_eheap_sbc_carriers">>, <<"node_alloc_eheap_pool">>,
            <<"node_alloc_eheap_largest_free">>, <<"node_alloc_binary_carriers">>,
            <<"node_alloc_temp_carriers">>, <<"node_carriers_taken">>,
            <<"node_carriers_given_back">>, <<"node_rss">>, <<"node_rss_anonymous">>,
            <<"node_rss_files">>, <<"node_page_faults">>, <<"node_major_faults">>,
            <<"node_memory_total">>, <<"node_memory_processes">>
        ]].

session() ->
    Folder = filename:join("/tmp", "flame_prof_node_memory_" ++ os:getpid()),
    {ok, _} = application:ensure_all_started(flame_prof),
    {ok, _} = flame_prof:start(#{
        dir => Folder, engine => native, flush_interval => 600000, node_interval => 1000
    }),
    try
        ok = waiting:eventually(fun() ->
            {ok, #{counters := #{own_samples := Own}}} = info(),
            Own >= 4
        end),
        {ok, #{files := [File | _]}} = flame_prof:stop(),
        {ok, Own, _} = flame_prof_samples:own(File),
        {length(Own), maps:get(metrics, lists:last(Own))}
    after
        file:del_dir_r(Folder)
    end.

info() -> {ok, flame_prof:info()}.

prometheus_has_them_after_a_look(_) ->
    {Before, After} = peer_vm:value(?MODULE, metrics, ["+MBas", "bf"]),
    Has = fun(Text, Part) -> binary:match(Text, Part) =/= nomatch end,
    ?assert(Has(Before, <<"\nflame_prof_rss_bytes ">>)),
    ?assert(Has(Before, <<"flame_prof_page_faults_total{kind=\"minor\"} ">>)),
    ?assertNot(Has(Before, <<"flame_prof_allocator_">>)),
    [?assert(Has(After, <<"flame_prof_", Name/binary>>), Name)
     || Name <- [
            <<"allocator_carriers_bytes{allocator=\"binary_alloc\"} ">>,
            <<"allocator_blocks_bytes{allocator=\"eheap_alloc\"} ">>,
            <<"allocator_single_block_carriers_bytes{allocator=\"eheap_alloc\"} ">>,
            <<"allocator_pool_bytes{allocator=\"eheap_alloc\"} ">>,
            <<"allocator_largest_free_bytes{allocator=\"eheap_alloc\"} ">>,
            <<"carriers_total{call=\"taken\"} ">>,
            <<"memory_bytes{kind=\"processes\"} ">>
        ]],
    ?assertNot(Has(After, <<"allocator_largest_free_bytes{allocator=\"binary_alloc\"}">>)),
    ?assertNot(Has(After, <<"super_carrier">>)).

metrics() ->
    Before = flame_prof:metrics(),
    {ok, _} = flame_prof_memory:look(),
    {Before, flame_prof:metrics()}.
