%% The node's memory in a session's file, and that nobody is asked for it. In a VM of their own, as
%% it matters what it has done before. The figures themselves: flame_prof_memory_SUITE.
-module(flame_prof_node_memory_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1,
    a_vm_without_allocators_has_what_it_can/1, counters_that_are_not_found_are_left_out/1,
    a_busy_vm_has_its_kinds/1, what_is_not_known_of_processes_is_left_out/1,
    info_says_what_is_left_out/1, the_portable_engine_asks/1, no_scheduler_is_asked_twice/1,
    the_doctor_asks_no_scheduler/1, the_resident_memory_is_told_by_kind/1,
    the_file_has_them_as_often_as_asked/1, prometheus_has_them_after_a_look/1]).
%% In a VM of its own.
-export([figures/0, portable/0, calls/0, doctor/0, session/0, metrics/0, refused/0, busy/0,
    told_off/0, resident/0]).

%% One after the other, in one VM: the first one needs one that was not asked, and what is wrong in
%% the last ones stays.
-define(ASKED, [calls, doctor, portable, resident, session, busy, told_off, refused]).

suite() -> [{timetrap, {minutes, 2}}].
all() -> native_node:cases(?MODULE).

init_per_suite(Config) ->
    case native_node:why_not() of
        none ->
            Answers = peer_vm:values([{?MODULE, Function} || Function <- ?ASKED], ["+S", "2:2"]),
            lists:zip(?ASKED, Answers) ++ Config;
        Why -> {skip, Why}
    end.

end_per_suite(_Config) -> ok.

a_vm_without_allocators_has_what_it_can(_) ->
    {Figures, Calls, State} = peer_vm:value(?MODULE, figures, ["+Mea", "min"]),
    ?assertMatch(#{node_rss := _, node_allocator_carriers := _}, Figures),
    ?assertNot(is_map_key(node_alloc_eheap_carriers, Figures)),
    ?assertNot(is_map_key(node_memory_total, Figures)),
    ?assertEqual(0, Calls),
    {off, Why} = State,
    [?assertMatch({match, _}, re:run(Why, Part))
     || Part <- ["memory by kind: [+]M flags turned off ", "eheap_alloc", "fix_alloc"]].

%% Of a later reading, with the calls that ask.
figures() ->
    {_, Source} = flame_prof_node_memory:figures(flame_prof_node_memory:new(native)),
    Before = count(),
    {Figures, Next} = flame_prof_node_memory:figures(Source),
    {maps:from_list(Figures), counted() - Before, flame_prof_node_memory:state(Next)}.

counters_that_are_not_found_are_left_out(Config) ->
    {Figures, Kinds, Calls, State} = proplists:get_value(refused, Config),
    ?assertMatch(#{node_rss := _, node_page_faults := _}, Figures),
    ?assertEqual([], [Name || Name <- maps:keys(Figures),
        lists:prefix("node_alloc", atom_to_list(Name))
        orelse lists:prefix("node_memory", atom_to_list(Name))]),
    ?assertEqual([], Kinds),
    ?assertEqual(0, Calls),
    ?assertMatch({off, <<"allocators: nothing fits">>}, State).

%% In place of a VM with another layout: what looks for the counters finds nothing.
refused() ->
    ok = refuse(),
    Before = count(),
    Source = lists:foldl(fun(_, S) -> element(2, flame_prof_node_memory:figures(S)) end,
        flame_prof_node_memory:new(native), lists:seq(1, 5)),
    {Figures, Next} = flame_prof_node_memory:figures(Source),
    {maps:from_list(Figures), flame_prof_node_memory:by_kind(native), counted() - Before,
        flame_prof_node_memory:state(Next)}.

refuse() ->
    Refusal = "{error,{engine,#{engine=>native,reason=><<\"allocators: nothing fits\">>}}}",
    Forms = [element(2, erl_parse:parse_form(element(2, erl_scan:string(Text)))) || Text <- [
        "-module(flame_prof_allocators).", "-export([sums/0,known_sums/0,look/0,facts/0]).",
        "sums() -> " ++ Refusal ++ ".", "look() -> sums().",
        "known_sums() -> none.", "facts() -> []."]],
    {ok, Module, Binary} = compile:forms(Forms),
    {module, Module} = code:load_binary(Module, "none", Binary),
    ok.

%% Schedulers at work differ from what they said: most kinds are known all the same.
a_busy_vm_has_its_kinds(Config) ->
    {Figures, State} = proplists:get_value(busy, Config),
    ?assertMatch(#{node_memory_total := _, node_memory_binary := _, node_memory_ets := _}, Figures),
    ?assertEqual(is_map_key(node_memory_processes, Figures), State =:= on).

what_is_not_known_of_processes_is_left_out(_) ->
    Names = [eheap_alloc, binary_alloc, ets_alloc, fix_alloc, std_alloc, ll_alloc, sl_alloc,
        driver_alloc],
    Sums = #{allocators => [{Name, 20, 10, 0, 0, none, 20, 0, 0} || Name <- Names],
        fix_of_processes => 7},
    ?assertMatch(#{total := _, processes := _}, flame_prof_node_memory:kinds(Sums)),
    Without = flame_prof_node_memory:kinds(Sums#{fix_of_processes := none}),
    ?assertMatch(#{total := _, binary := 10}, Without),
    ?assertNot(is_map_key(processes, Without)).

busy() ->
    Storm = fun Storm() ->
        _ = [spawn_monitor(fun() -> lists:seq(1, 100) end) || _ <- lists:seq(1, 20)],
        _ = [receive {'DOWN', _, _, _, _} -> ok end || _ <- lists:seq(1, 20)],
        Storm()
    end,
    Storms = [spawn(Storm) || _ <- lists:seq(1, 8)],
    Found = waiting:eventually(fun() -> element(1, flame_prof_allocators:sums()) =:= ok end),
    {Figures, Next} = flame_prof_node_memory:figures(flame_prof_node_memory:new(native)),
    _ = [exit(Pid, kill) || Pid <- Storms],
    {maps:from_list([{found, Found} | Figures]), flame_prof_node_memory:state(Next)}.

info_says_what_is_left_out(Config) ->
    {Info, Text, Files} = proplists:get_value(told_off, Config),
    ?assertMatch(#{node_memory := {off, <<"allocators: nothing fits">>}}, Info),
    ?assertMatch({match, _}, re:run(Text, "\n  not in the file: allocators: nothing fits\n")),
    ?assertEqual(on, Files).

told_off() ->
    Told = fun(Is) ->
        Folder = filename:join("/tmp", "flame_prof_node_memory_" ++ os:getpid()),
        {ok, _} = flame_prof:start(#{dir => Folder, engine => native}),
        ok = waiting:eventually(fun() ->
            #{node_memory := State} = flame_prof:info(),
            Is(State)
        end),
        Info = flame_prof:info(),
        {ok, _} = flame_prof:stop(),
        ok = file:del_dir_r(Folder),
        Info
    end,
    {ok, _} = application:ensure_all_started(flame_prof),
    #{node_memory := On} = Told(fun(State) -> State =:= on end),
    _ = code:purge(flame_prof_allocators),
    ok = refuse(),
    Info = Told(fun(State) -> State =/= on end),
    {maps:with([node_memory], Info), unicode:characters_to_list(flame_prof_info:format(n, Info)),
        On}.

the_portable_engine_asks(Config) ->
    Figures = proplists:get_value(portable, Config),
    ?assertMatch(#{node_rss := _, node_allocator_carriers := _, node_memory_total := _}, Figures),
    ?assertNot(is_map_key(node_carriers_taken, Figures)).

portable() ->
    {Figures, _} = flame_prof_node_memory:figures(flame_prof_node_memory:new(portable)),
    maps:from_list(Figures).

no_scheduler_is_asked_twice(Config) ->
    {First, Later} = proplists:get_value(calls, Config),
    ?assert(First > 0),
    ?assertEqual(0, Later).

%% How often the functions that ask are called, by the first reading and by ten more.
calls() ->
    Source = flame_prof_node_memory:new(native),
    {ok, _} = flame_prof_engine:choose(auto),
    0 = count(),
    {_, Next} = flame_prof_node_memory:figures(Source),
    First = counted(),
    _ = lists:foldl(fun(_, S) -> element(2, flame_prof_node_memory:figures(S)) end, Next,
        lists:seq(1, 10)),
    {First, counted() - First}.

asking() -> [{erlang, memory, 0}, {erlang, memory, 1}, {flame_prof_allocators, facts, 0}].

count() ->
    _ = [code:ensure_loaded(M) || {M, _, _} <- asking()],
    _ = [erlang:trace_pattern(MFA, true, [call_count]) || MFA <- asking()],
    counted().

counted() ->
    lists:sum([N || MFA <- asking(), {call_count, N} <- [erlang:trace_info(MFA, call_count)],
        is_integer(N)]).

%% While somebody holds the library of looks: their sum against what the kernel says of the process;
%% the binary is in carriers. Read again it
%% is the same for some seconds, and the portable engine has none.
the_resident_memory_is_told_by_kind(Config) ->
    {First, Second, Portable} = proplists:get_value(resident, Config),
    Kinds = fun(Figures) ->
        maps:filter(fun(Name, _) -> lists:prefix("node_resident_", atom_to_list(Name)) end, Figures)
    end,
    #{node_rss := Rss} = First,
    Of = #{node_resident_carriers := Carriers, node_resident_other := Other} = Kinds(First),
    ?assertEqual(8, map_size(Of)),
    Sum = lists:sum(maps:values(Of)),
    ?assertMatch({_, _, true}, {Sum, Rss, abs(Sum - Rss) < Rss div 10}),
    ?assert(Carriers >= 60000000),
    ?assertMatch({_, _, true}, {Other, Rss, Other =< Rss div 10}),
    ?assertEqual(Of, Kinds(Second)),
    ?assert(map_get(node_rss, Second) >= Rss + 50000000),
    ?assertEqual(#{}, Kinds(Portable)).

resident() ->
    ok = flame_prof_looks:hold(),
    Held = binary:copy(<<1>>, 60000000),
    {First, Source} = flame_prof_node_memory:figures(flame_prof_node_memory:new(native)),
    More = binary:copy(<<1>>, 60000000),
    {Second, _} = flame_prof_node_memory:figures(Source),
    {Portable, _} = flame_prof_node_memory:figures(flame_prof_node_memory:new(portable)),
    120000000 = byte_size(Held) + byte_size(More),
    {maps:from_list(First), maps:from_list(Second), maps:from_list(Portable)}.

%% Neither its session nor its figures of each second, where the counters have been found.
the_doctor_asks_no_scheduler(Config) ->
    {Calls, Figures} = proplists:get_value(doctor, Config),
    ?assertMatch(#{node_memory_total := _, node_memory_ets := _, node_processes := _}, Figures),
    ?assertEqual(0, Calls).

doctor() ->
    {ok, _} = flame_prof_engine:choose(auto),
    ok = waiting:eventually(fun() -> {ok, _} = flame_prof_allocators:sums(), true end),
    Before = count(),
    {#{seconds := [Second | _]}, _} =
        flame_prof_doctor_evidence:collect(#{for => 3000, engine => auto}),
    {counted() - Before, Second}.

%% Four or more in the first part of a flush interval, with all names.
the_file_has_them_as_often_as_asked(Config) ->
    {Count, Missing} = proplists:get_value(session, Config),
    ?assert(Count >= 4),
    ?assertEqual([], Missing).

%% A reading while a scheduler changes its tree of free blocks is without the largest of them: one
%% of the sessions had them all.
session() ->
    {ok, _} = application:ensure_all_started(flame_prof),
    Wanted = [<<"node_alloc_eheap_carriers">>, <<"node_alloc_eheap_blocks">>,
        <<"node_alloc_eheap_sbc_carriers">>, <<"node_alloc_eheap_pool">>,
        <<"node_alloc_eheap_largest_free">>, <<"node_alloc_eheap_mseg">>,
        <<"node_alloc_eheap_sys">>, <<"node_alloc_eheap_sbc_blocks">>,
        <<"node_alloc_binary_carriers">>, <<"node_alloc_temp_carriers">>, <<"node_carriers_taken">>,
        <<"node_carriers_given_back">>, <<"node_rss">>, <<"node_rss_anonymous">>,
        <<"node_rss_files">>, <<"node_page_faults">>, <<"node_major_faults">>,
        <<"node_memory_total">>, <<"node_memory_processes">>],
    waiting:eventually(fun() ->
        Own = recorded(),
        Missing = Wanted -- lists:append([maps:keys(M) || #{metrics := M} <- Own]),
        Missing =:= [] andalso {true, {length(Own), Missing}}
    end).

%% The own samples of a session that is not flushed before its end.
recorded() ->
    Folder = filename:join("/tmp", "flame_prof_node_memory_" ++ os:getpid()),
    {ok, _} = flame_prof:start(#{
        dir => Folder, engine => native, flush_interval => 600000, node_interval => 1000}),
    try
        ok = waiting:eventually(fun() ->
            #{counters := #{own_samples := Own}} = flame_prof:info(),
            Own >= 4
        end),
        {ok, #{files := [File | _]}} = flame_prof:stop(),
        {ok, Own, _} = flame_prof_samples:own(File),
        Own
    after file:del_dir_r(Folder)
    end.

prometheus_has_them_after_a_look(_) ->
    {Before, After} = peer_vm:value(?MODULE, metrics, ["+MBas", "bf"]),
    Has = fun(Text, Part) -> binary:match(Text, Part) =/= nomatch end,
    ?assert(Has(Before, <<"\nflame_prof_rss_bytes ">>)),
    ?assert(Has(Before, <<"flame_prof_page_faults_total{kind=\"minor\"} ">>)),
    ?assertNot(Has(Before, <<"flame_prof_allocator_">>)),
    [?assert(Has(After, <<"flame_prof_", Name/binary>>), Name)
     || Name <- [<<"allocator_carriers_bytes{allocator=\"binary_alloc\"} ">>,
            <<"allocator_blocks_bytes{allocator=\"eheap_alloc\"} ">>,
            <<"allocator_single_block_carriers_bytes{allocator=\"eheap_alloc\"} ">>,
            <<"allocator_pool_bytes{allocator=\"eheap_alloc\"} ">>,
            <<"allocator_largest_free_bytes{allocator=\"eheap_alloc\"} ">>,
            <<"allocator_mseg_bytes{allocator=\"eheap_alloc\"} ">>,
            <<"allocator_sys_bytes{allocator=\"eheap_alloc\"} ">>,
            <<"allocator_single_block_blocks_bytes{allocator=\"eheap_alloc\"} ">>,
            <<"carriers_total{call=\"taken\"} ">>, <<"memory_bytes{kind=\"processes\"} ">>]],
    ?assertNot(Has(After, <<"allocator_largest_free_bytes{allocator=\"binary_alloc\"}">>)),
    ?assertNot(Has(After, <<"super_carrier">>)).

%% A look while a scheduler changes its tree of free blocks is without the largest of them.
metrics() ->
    Before = flame_prof:metrics(),
    ok = waiting:eventually(fun() ->
        {ok, _} = flame_prof_memory:look(),
        Part = <<"\nflame_prof_allocator_largest_free_bytes{allocator=\"eheap_alloc\"} ">>,
        binary:match(flame_prof:metrics(), Part) =/= nomatch
    end),
    {Before, flame_prof:metrics()}.
