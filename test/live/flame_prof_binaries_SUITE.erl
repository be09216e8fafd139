%% The refc binaries of the node by holder, against what the test has made, and what the VM says:
%% erlang:memory(binary), process_info(Pid, binary).
-module(flame_prof_binaries_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1,
    a_hundred_thousand_of_processes_and_tables_are_found/1, more_than_the_budget_is_refused/1,
    a_holder_has_what_process_info_says/1, what_two_hold_is_not_alone/1,
    a_part_names_its_process_and_the_function_on_its_stack/1, messages_are_told_apart/1,
    a_message_that_was_taken_is_the_heaps/1, what_grows_is_told/1,
    each_kind_of_table_has_its_binaries/1, what_a_table_and_a_process_hold_is_not_alone/1,
    what_is_nobodys_has_no_holder/1, a_table_that_grows_is_told_by_any_name/1,
    a_table_that_is_deleted_meanwhile_is_no_trouble/1,
    tables_that_are_written_are_told_or_counted/1, a_large_table_ends_with_the_time/1,
    a_tree_that_is_split_is_named_as_not_looked_in/1, tables_made_to_be_compared_are_gone/1,
    binaries_that_are_appended_to_are_told/1, a_suspended_process_is_told_and_stays_suspended/1,
    processes_that_always_work_are_told_or_counted/1, other_objects_beside_the_heap_are_passed/1,
    a_message_of_another_node_is_counted/1, what_is_not_accepted_is_refused/1,
    the_library_refuses_what_is_no_list_of_processes/1,
    the_text_has_names_and_no_values/1, working/1, writing/2, distributed/0]).

suite() -> [{timetrap, {minutes, 2}}].
all() -> suite_cases:list(?MODULE, [working]).
init_per_suite(Config) -> native_node:or_skip(Config).
end_per_suite(_Config) -> ok.

%% Processes that each make a term and then hold it.
with_holders(Makes, Fun) ->
    Self = self(),
    Started = [spawn_monitor(fun() ->
        Term = Make(),
        erlang:garbage_collect(),
        Self ! {self(), made},
        holding(Term)
    end) || Make <- Makes],
    Pids = [Pid || {Pid, _} <- Started],
    try
        [receive {Pid, made} -> ok end || Pid <- Pids],
        Fun(Pids)
    after
        [exit(Pid, kill) || Pid <- Pids],
        [receive {'DOWN', Monitor, _, _, _} -> ok end || {_, Monitor} <- Started]
    end.

with_holder(Make, Fun) -> with_holders([Make], fun([Pid]) -> Fun(Pid) end).

holding(Term) ->
    receive
        {grow, More, From} ->
            Larger = [More() | Term],
            From ! {self(), grown},
            holding(Larger);
        never -> Term
    end.

look() -> look(#{}).

look(Options) ->
    {ok, Look} = flame_prof_binaries:look(Options),
    Look.

holder(Pid, #{holders := Holders}) ->
    [Holder] = [Holder || #{process := P} = Holder <- Holders, P =:= Pid],
    Holder.

binary(Size) -> binary:copy(<<(rand:uniform(255))>>, Size).
text(Look) -> unicode:characters_to_binary(flame_prof_binaries:format(Look)).

%% By address, as the VM lists them.
said(Pid) ->
    {binary, Binaries} = process_info(Pid, binary),
    Unique = lists:ukeysort(1, [{Address, Size} || {Address, Size, _} <- Binaries]),
    {length(Unique), lists:sum([Size || {_, Size} <- Unique])}.

%% A block has headers, and at most a half more.
is_block_of(Bytes, Size, N) ->
    ?assert(Bytes >= Size + 24 * N),
    ?assert(Bytes =< Size * 3 div 2 + 256 * N).

more_than_the_budget_is_refused(_) ->
    with_holders([fun() -> [binary(65 + I rem 9) || I <- lists:seq(1, 100)] end
        || _ <- lists:seq(1, 1000)], fun(_) ->
        {error, {memory, #{reason := Why}}} =
            flame_prof_binaries:look(#{memory_budget => 16 bsl 20}),
        ?assertMatch({match, _}, re:run(Why, "max_memory")),
        ?assertMatch({ok, _}, flame_prof_binaries:look(#{memory_budget => 32 bsl 20}))
    end).

a_holder_has_what_process_info_says(_) ->
    Make = fun() ->
        Large = binary(300000),
        Sizes = [65, 100, 1000, 65536, 1000000],
        {[binary(Size) || Size <- Sizes], Large, binary:part(Large, 5, 200)}
    end,
    with_holder(Make, fun(Pid) ->
        {N, Size} = said(Pid),
        #{binaries := Binaries, bytes := Bytes, alone := Alone, partial := false} =
            holder(Pid, look()),
        ?assertEqual(6, N),
        ?assertEqual(N, Binaries),
        ?assertEqual(Bytes, Alone),
        is_block_of(Bytes, Size, N)
    end).

what_two_hold_is_not_alone(_) ->
    Shared = binary(500000),
    Make = fun() -> [Shared, binary(400000)] end,
    with_holders([Make, Make], fun([One, Two]) ->
        Look = look(),
        [begin
            #{bytes := Bytes, alone := Alone, binaries := 2} = holder(Pid, Look),
            is_block_of(Bytes, 900000, 2),
            is_block_of(Alone, 400000, 1)
        end || Pid <- [One, Two]]
    end).

a_part_names_its_process_and_the_function_on_its_stack(_) ->
    Make = fun() -> [binary:part(binary(65536), 1000, 100) || _ <- lists:seq(1, 100)] end,
    with_holder(Make, fun(Pid) ->
        Look = look(#{walked => 20}),
        #{pinned := Pinned, pins := [Pin | _], function := Function} = holder(Pid, Look),
        #{path := Path, binaries := 100, bytes := Bytes, shown_bytes := Shown} = Pin,
        ?assertEqual(100 * 65536, Bytes),
        ?assertEqual(100 * 100, Shown),
        ?assertEqual(Bytes - Shown, Pinned),
        Way = "^flame_prof_binaries_SUITE:holding/1 slot . > list",
        ?assertMatch({match, _}, re:run(Path, Way)),
        ?assertEqual(<<"flame_prof_binaries_SUITE:holding/1">>, Function),
        ?assertMatch({match, _}, re:run(text(Look), "6390K of 6400K: 100 binaries for 9K"))
    end).

messages_are_told_apart(_) ->
    with_holder(fun() -> binary(200000) end, fun(Pid) ->
        true = erlang:suspend_process(Pid),
        [Pid ! {m, binary(10000)} || _ <- lists:seq(1, 50)],
        true = erlang:resume_process(Pid),
        ok = waiting:eventually(fun() ->
            erlang:process_info(Pid, status) =:= {status, waiting}
        end),
        #{message_binaries := Messages, message_bytes := Bytes, binaries := N} =
            holder(Pid, look()),
        ?assertEqual(51, N),
        %% Some may have been put on its heap.
        ?assert(Messages =< 50),
        ?assert(Bytes =< 50 * 10500),
        #{message_binaries := 40} = with_off_heap_messages(40)
    end).

with_off_heap_messages(N) ->
    Pid = spawn_opt(fun() -> holding([]) end, [{message_queue_data, off_heap}]),
    [Pid ! {m, binary(20000)} || _ <- lists:seq(1, N)],
    Holder = holder(Pid, look()),
    exit(Pid, kill),
    is_block_of(maps:get(message_bytes, Holder), N * 20000, N),
    Holder.

a_message_that_was_taken_is_the_heaps(_) ->
    with_holder(fun() -> [] end, fun(Pid) ->
        Large = binary(250000),
        Pid ! {grow, fun() -> Large end, self()},
        receive {Pid, grown} -> ok end,
        #{binaries := 1, message_binaries := 0, bytes := Bytes} = holder(Pid, look()),
        is_block_of(Bytes, 250000, 1)
    end).

what_grows_is_told(_) ->
    with_holders([fun() -> [binary(300000)] end, fun() -> [binary(310000)] end], fun([One, Two]) ->
        Self = self(),
        spawn_link(fun() ->
            ok = waiting:pauses(Self, flame_prof_binaries, looked),
            [One ! {grow, fun() -> binary(100000) end, Self} || _ <- lists:seq(1, 5)]
        end),
        #{growing := Growing, grown := #{ms := 1000, found := Found}} = Look = look(#{for => 1000}),
        [receive {One, grown} -> ok end || _ <- lists:seq(1, 5)],
        #{grown := Grown} = holder(One, #{holders => Growing}),
        is_block_of(Grown, 500000, 5),
        ?assert(is_integer(Found)),
        ?assertMatch(#{grown := 0}, holder(Two, Look)),
        ?assertMatch({match, _}, re:run(text(Look), "Grown in 1000 ms"))
    end).

-define(KINDS, [
    [set],
    [bag],
    [duplicate_bag],
    [ordered_set],
    [set, compressed],
    [ordered_set, compressed],
    [duplicate_bag, compressed],
    [set, {write_concurrency, true}, {read_concurrency, true}],
    [ordered_set, {write_concurrency, true}],
    [ordered_set, {write_concurrency, true}, {decentralized_counters, true}, compressed]]).

%% Nothing of what is put into it stays on the test's heap.
table(Name, Options, Objects) ->
    Table = ets:new(Name, [public | Options]),
    put_into(Table, Objects),
    Table.

put_into(Table, Objects) ->
    {Pid, Monitor} = spawn_monitor(fun() ->
        [true = ets:insert(Table, Make()) || Make <- Objects]
    end),
    receive {'DOWN', Monitor, process, Pid, normal} -> ok end.

of_table(Name, #{holders := Holders}) ->
    [Holder] = [Holder || #{kind := table, table := N} = Holder <- Holders, N =:= Name],
    Holder.

a_hundred_thousand_of_processes_and_tables_are_found(_) ->
    Size = fun(N, I) -> 100 + (I * 37 + N) rem 2000 end,
    Makes = [fun() -> [binary(Size(N, I)) || I <- lists:seq(1, 100)] end || N <- lists:seq(1, 500)],
    Tables = [table(some, Options,
            [fun() -> {I, {[binary(Size(I, N))]}} end || I <- lists:seq(1, 5000)])
        || {N, Options} <- lists:zip(lists:seq(1, 10), ?KINDS)],
    with_holders(Makes, fun(_) ->
        Had = erlang:memory(binary),
        #{memory := Memory, found := Found, binaries := N, holders := Holders} = Look = look(),
        #{no_holder := None, all_holders := All} = Look,
        ct:pal("~ts", [text(Look)]),
        %% A few of the node's own come and go.
        [?assert(abs(Bytes - Had) =< Had div 100) || Bytes <- [Memory, Found, Had - None]],
        ?assert(N >= 100000),
        ?assert(All >= 510),
        [?assertMatch(#{binaries := 5000, partial := false, owner := Owner} when Owner =:= self(),
            Holder) || #{kind := table, table := some} = Holder <- Holders],
        ?assertEqual(10, length([T || #{table := some} = T <- Holders]))
    end),
    [ets:delete(Table) || Table <- Tables].

%% One of some has none, one has several; keys of a bag have several objects.
each_kind_of_table_has_its_binaries(_) ->
    Sizes = fun(N) -> [70 + 10 * N rem 5000 || _ <- lists:seq(1, N rem 4)] end,
    All = [Size || N <- lists:seq(1, 1500), Size <- Sizes(N)],
    Object = fun(N) -> list_to_tuple([N | [binary(Size) || Size <- Sizes(N)]]) end,
    [begin
        Table = table(kind, Options, [fun() -> Object(N) end || N <- lists:seq(1, 1500)]),
        Look = look(#{walked => 0}),
        #{binaries := Binaries, bytes := Bytes, alone := Alone, partial := false} =
            of_table(kind, Look),
        ?assertEqual({Options, length(All)}, {Options, Binaries}),
        ?assertEqual(Bytes, Alone),
        is_block_of(Bytes, lists:sum(All), length(All)),
        ?assertMatch({match, _}, re:run(text(Look), "table kind of <")),
        %% What is deleted is not its any more.
        [ets:delete(Table, N) || N <- lists:seq(1, 1500), N rem 8 =/= 3],
        Left = 3 * length([N || N <- lists:seq(1, 1500), N rem 8 =:= 3]),
        ?assertMatch(#{binaries := Left}, of_table(kind, look(#{walked => 0}))),
        ets:delete(Table)
    end || Options <- ?KINDS].

what_a_table_and_a_process_hold_is_not_alone(_) ->
    Table = ets:new(shared, [public]),
    with_holder(fun() ->
        Both = binary(600000),
        ets:insert(Table, [{one, Both}, {two, Both, binary(300000)}]),
        [Both, binary(200000)]
    end, fun(Pid) ->
        #{elsewhere := Elsewhere} = Look = look(),
        #{binaries := 2, bytes := Bytes, alone := Alone} = of_table(shared, Look),
        is_block_of(Bytes, 900000, 2),
        is_block_of(Alone, 300000, 1),
        #{binaries := 2, alone := Own} = holder(Pid, Look),
        is_block_of(Own, 200000, 1),
        %% All that refer to it are found.
        ets:delete(Table),
        ?assertMatch(#{alone := Now} when Now > 800000, holder(Pid, look())),
        ?assert(Elsewhere =< maps:get(elsewhere, look()))
    end).

%% Held by a literal only.
what_is_nobodys_has_no_holder(_) ->
    #{no_holder := Before} = look(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        persistent_term:put(?MODULE, [binary(50000) || _ <- lists:seq(1, 200)])
    end),
    receive {'DOWN', Monitor, _, Pid, _} -> ok end,
    #{no_holder := After, not_looked_in := In} = Look = look(),
    persistent_term:erase(?MODULE),
    ?assert(After - Before >= 0.99 * 200 * 50000),
    ?assert(lists:member(<<"literals">>, In)),
    ?assertMatch({match, _}, re:run(text(Look), "without a holder: .*literals")).

a_table_that_grows_is_told_by_any_name(_) ->
    Self = self(),
    Table = table(before, [named_table], [fun() -> {0, binary(1000000)} end]),
    spawn_link(fun() ->
        ok = waiting:pauses(Self, flame_prof_binaries, looked),
        put_into(before, [fun() -> {N, binary(100000)} end || N <- lists:seq(1, 5)]),
        ets:rename(before, later),
        Self ! grown
    end),
    #{growing := Growing} = look(#{for => 1000}),
    receive grown -> ok end,
    #{grown := Grown} = of_table(later, #{holders => Growing}),
    is_block_of(Grown, 500000, 5),
    true = ets:delete(later),
    ?assertEqual(before, Table).

a_table_that_is_deleted_meanwhile_is_no_trouble(_) ->
    Self = self(),
    Pid = spawn_link(fun() ->
        [begin
            Table = table(short, Options, [fun() -> {I, binary(1000)} end
                || I <- lists:seq(1, 2000)]),
            ets:delete(Table)
        end || _ <- lists:seq(1, 5), Options <- ?KINDS],
        Self ! {self(), done}
    end),
    Looks = looks_until(Pid, []),
    [?assert(Bytes =< 2000 * 1600) || #{holders := Holders} <- Looks,
        #{table := short, bytes := Bytes} <- Holders].

looks_until(Pid, Looks) ->
    receive
        {Pid, done} -> Looks
    after 0 -> looks_until(Pid, [look(#{walked => 0}) | Looks])
    end.

writing(Table, N) ->
    ets:insert(Table, {N rem 3000, binary(1000 + N rem 100)}),
    ets:delete(Table, (N * 7 + 1500) rem 3000),
    writing(Table, N + 1).

%% A table has at most 3,000, and those that were overwritten while it was read.
tables_that_are_written_are_told_or_counted(_) ->
    Tables = [table(written, Options, [fun() -> {N, binary(1000)} end || N <- lists:seq(0, 2999)])
        || Options <- ?KINDS, hd(Options) =/= bag, hd(Options) =/= duplicate_bag],
    Pids = [spawn(?MODULE, writing, [Table, 1]) || Table <- Tables],
    Looks = [look(#{walked => 0}) || _ <- lists:seq(1, 3)],
    [exit(Pid, kill) || Pid <- Pids],
    [begin
        Rows = [Row || #{table := written} = Row <- Holders],
        ?assertEqual(length(Tables), length(Rows)),
        [?assert(N =< 12000) || #{binaries := N} <- Rows],
        Partial = length([Row || #{partial := true} = Row <- Rows]),
        ?assert(Moved >= Partial),
        ?assertEqual(Moved > 0,
            [Why || Why <- Unknown, binary:match(Why, <<"tables, in part">>) =/= nomatch] =/= [])
    end || #{holders := Holders, tables_moved := Moved, unknown := Unknown} <- Looks],
    [ets:delete(Table) || Table <- Tables].

a_large_table_ends_with_the_time(_) ->
    Table = ets:new(large, [public]),
    ets:insert(Table, [{N} || N <- lists:seq(1, 500000)]),
    {ok, #{unknown := Unknown}} = flame_prof_binaries:look(#{time_limit => 1, walked => 0}),
    ?assertMatch([_ | _],
        [Why || Why <- Unknown, binary:match(Why, <<"tables, wholly or in part">>) =/= nomatch]),
    %% Something else of the node may have moved meanwhile.
    #{unknown := Others} = look(#{walked => 0}),
    ?assertEqual([], [Why || Why <- Others, binary:match(Why, <<"tables, wholly">>) =/= nomatch]),
    ets:delete(Table).

a_tree_that_is_split_is_named_as_not_looked_in(_) ->
    Table = table(split, [ordered_set, {write_concurrency, true}], []),
    Named = fun(#{not_looked_in := In}) ->
        [Text || Text <- In, binary:match(Text, <<"split by its writers">>) =/= nomatch]
    end,
    put_into(Table, [fun() -> {N, binary(1000)} end || N <- lists:seq(1, 100)]),
    Before = look(),
    ?assertMatch(#{binaries := 100}, of_table(split, Before)),
    ?assertEqual([], Named(Before)),
    erts_debug:set_internal_state(available_internal_state, true),
    erts_debug:set_internal_state(ets_force_split, {Table, true}),
    put_into(Table, [fun() -> {N, binary(1000)} end || N <- lists:seq(101, 1000)]),
    erts_debug:set_internal_state(ets_force_split, {Table, false}),
    erts_debug:set_internal_state(available_internal_state, false),
    #{holders := Holders} = After = look(),
    ?assertMatch([<<"1 ordered_set table with", _/binary>>], Named(After)),
    ?assertEqual([], [Row || #{table := split} = Row <- Holders]),
    ets:delete(Table).

tables_made_to_be_compared_are_gone(_) ->
    _ = look(),
    ?assertEqual([], [T || T <- ets:all(), ets:info(T, name) =:= flame_prof_binaries_probe]).

binaries_that_are_appended_to_are_told(_) ->
    Append = fun(N, Bin) -> <<Bin/binary, N:64>> end,
    Make = fun() -> lists:foldl(Append, <<>>, lists:seq(1, 50000)) end,
    with_holder(Make, fun(Pid) ->
        #{binaries := 1, bytes := Bytes} = holder(Pid, look()),
        ?assert(Bytes >= 400000),
        ?assert(Bytes =< 1000000)
    end).

a_suspended_process_is_told_and_stays_suspended(_) ->
    with_holder(fun() -> binary(700000) end, fun(Pid) ->
        true = erlang:suspend_process(Pid),
        {reductions, Before} = process_info(Pid, reductions),
        #{binaries := 1} = holder(Pid, look()),
        ?assertEqual({reductions, Before}, process_info(Pid, reductions)),
        ?assertEqual({status, suspended}, process_info(Pid, status))
    end).

working(List) -> working([binary(1000 + rand:uniform(1000)) | lists:sublist(List, 50)]).

processes_that_always_work_are_told_or_counted(_) ->
    Pids = [spawn(?MODULE, working, [[]]) || _ <- lists:seq(1, 5)],
    Looks = [look(#{walked => 0}) || _ <- lists:seq(1, 10)],
    [exit(Pid, kill) || Pid <- Pids],
    [begin
        %% 51 of them, and what was garbage when it was read.
        [?assert(Bytes =< 64 bsl 20) || #{process := Pid, bytes := Bytes} <- Holders,
            lists:member(Pid, Pids)],
        ?assertEqual(Moved > 0, Unknown =/= [])
    end || #{holders := Holders, moved := Moved, unknown := Unknown} <- Looks],
    ?assert(lists:any(fun(#{holders := Holders}) ->
        [] =/= [Pid || #{process := Pid, partial := false} <- Holders, lists:member(Pid, Pids)]
    end, Looks)).

other_objects_beside_the_heap_are_passed(_) ->
    Far = <<131, 88, 119, 5, "a@far", 7:32, 0:32, 99:32>>,
    Make = fun() ->
        X = binary(600000),
        {make_ref(), binary_to_term(Far), fun() -> X end, ets:new(t, []), binary(100),
            atomics:new(5, [])}
    end,
    with_holder(Make, fun(Pid) ->
        #{binaries := 2, bytes := Bytes} = holder(Pid, look()),
        is_block_of(Bytes, 600100, 2)
    end).

%% It stays as it came until it is received: it is not decoded, and said to be.
a_message_of_another_node_is_counted(_) ->
    ?assertMatch([_], peer_vm:value(?MODULE, distributed, [])).

distributed() ->
    _ = os:cmd("epmd -daemon"),
    {ok, _} = net_kernel:start([binaries_suite, shortnames]),
    {ok, Peer, Node} = peer:start(#{name => peer:random_name(), connection => 0}),
    Pid = spawn(fun() -> receive never -> ok end end),
    true = erlang:suspend_process(Pid),
    ?assertEqual([], undecoded()),
    _ = erpc:call(Node, erlang, send, [Pid, {far, binary(5000)}]),
    Undecoded = undecoded(),
    peer:stop(Peer),
    Undecoded.

undecoded() ->
    #{unknown := Unknown} = look(),
    [Why || Why <- Unknown, binary:match(Why, <<"not decoded">>) =/= nomatch].

what_is_not_accepted_is_refused(_) ->
    [?assertMatch({error, _}, flame_prof_binaries:look(Options))
        || Options <- [#{for => -1}, #{walked => many}, #{memory_budget => 1},
            #{other => 1}, [for]]].

the_library_refuses_what_is_no_list_of_processes(_) ->
    Limits = #{kilobytes => 65536, time_ms => 1000, rows => 10},
    Look = fun(Pids) -> flame_prof_looks_nif:binaries_look(Pids, Limits) end,
    ?assertMatch({ok, _}, Look(lists:duplicate(64, self()))),
    [?assertError(badarg, Look(Pids))
        || Pids <- [lists:duplicate(65, self()), [self(), none], [self() | self()], every, self()]].

the_text_has_names_and_no_values(_) ->
    with_holder(fun() -> [<<"a secret ", (binary(2000000))/binary>>] end, fun(Pid) ->
        true = register(binaries_suite_holder, Pid),
        Look = look(),
        Text = text(Look),
        ?assertMatch({match, _}, re:run(Text, "binaries_suite_holder")),
        ?assertEqual(nomatch, binary:match(Text, <<"secret">>)),
        Json = iolist_to_binary(flame_prof_json:encode(flame_prof_binaries_text:json(Look))),
        ?assertEqual(nomatch, binary:match(Json, <<"secret">>)),
        ?assertMatch({match, _}, re:run(Json, "binaries_suite_holder"))
    end).
