%% ETS tables as they are read from memory, against what `ets:info/2' and `ets:all/0' say of them at
%% rest; and while tables are written, come and go.
-module(flame_prof_tables_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1,
    tables_of_all_types_are_told_as_the_vm_does/1, flags_of_the_vm_change_nothing/1,
    each_table_is_told_once/1, counters_that_all_schedulers_write_are_summed/1,
    a_snapshot_of_counters_is_never_told_half/1, tables_that_come_and_go_hide_no_other/1,
    a_table_that_is_deleted_is_told_so/1, an_heir_is_the_owner/1, owners_are_told_by_name/1,
    growth_is_that_of_the_time_between/1, a_table_that_is_made_meanwhile_is_new/1,
    many_first_looks_at_once_leave_nothing_and_know_the_memory/1,
    each_table_has_its_share_of_the_memory/1, atoms_code_and_persistent_terms_are_counted/1,
    sorted_and_cut_as_asked/1, the_portable_engine_asks_for_no_decentralized_counters/1,
    the_portable_engine_tells_the_same/1, what_is_not_accepted_is_refused/1, it_is_printed/1]).
%% In a VM of its own.
-export([different/0, memory/0, left_behind/0]).

suite() -> [{timetrap, {minutes, 2}}].
all() -> native_node:cases(?MODULE).
init_per_suite(Config) -> native_node:or_skip(Config).
end_per_suite(_Config) -> ok.
look() -> look(#{}).

look(Options) ->
    {ok, Look} = flame_prof_tables:look(maps:merge(#{engine => native, top => infinity}, Options)),
    Look.

%% What is told of this table.
told(Table) -> told(Table, look()).

told(Table, #{tables := Tables}) ->
    Tid = case is_atom(Table) of true -> ets:whereis(Table); false -> Table end,
    case [T || #{id := Id} = T <- Tables, Id =:= Table orelse Id =:= Tid] of
        [Told] -> Told;
        [] -> none
    end.

filled(Name, Options, Count) ->
    Table = ets:new(Name, Options),
    true = ets:insert(Table, [{N, [N, N], <<N:640>>} || N <- lists:seq(1, Count)]),
    Table.

said(Table) ->
    Info = fun(Key) -> ets:info(Table, Key) end,
    #{id => Table, name => Info(name), owner => Info(owner), type => Info(type),
        protection => Info(protection), named => Info(named_table), keypos => Info(keypos),
        write_concurrency => Info(write_concurrency) =/= false,
        decentralized => Info(decentralized_counters), compressed => Info(compressed),
        deleting => false, objects => Info(size), words => Info(memory)}.

read(Table, Look) ->
    #{bytes := Bytes} = Told = told(Table, Look),
    Rest = maps:without([owner_name, bytes, share], Told),
    Rest#{words => (Bytes + 7) div 8}.

%% A process that does this until it is told to end.
with_processes(Count, Fun, Do) ->
    Loop = fun Again() ->
        receive stop -> ok after 0 -> Fun(), Again() end
    end,
    Pids = [spawn_monitor(Loop) || _ <- lists:seq(1, Count)],
    try Do()
    after
        _ = [Pid ! stop || {Pid, _} <- Pids],
        _ = [receive {'DOWN', Monitor, _, _, _} -> ok end || {_, Monitor} <- Pids]
    end.

tables_of_all_types_are_told_as_the_vm_does(_) -> ?assertEqual([], different()).

flags_of_the_vm_change_nothing(_) ->
    [?assertEqual({Flags, []}, {Flags, peer_vm:value(?MODULE, different, Flags)})
     || Flags <- [["+S", "1:1", "+ec"], ["+S", "4:1", "+Mea", "min"],
            ["+S", "5:5", "+dcg3", "+MEe", "false"], ["+S", "64:64", "+dcg1"]]].

%% [{Options, Said, Read}] of those that differ.
different() ->
    Tables = [{Options, filled(name(Options), Options, Count)}
        || {Options, Count} <- lists:zip(combinations(), counts(length(combinations())))],
    try
        Look = look(),
        [{Options, Said, Read} || {Options, Table} <- Tables,
            Said <- [said(Table)], Read <- [read(Table, Look)], Said =/= Read]
    after [ets:delete(Table) || {_, Table} <- Tables]
    end.

name(Options) -> list_to_atom("t" ++ integer_to_list(erlang:phash2(Options))).

%% Hash tables of one segment, and of many.
counts(N) -> [case K rem 10 of 9 -> K * K; _ -> K end || K <- lists:seq(0, N - 1)].

combinations() ->
    [[Type, Protection, {keypos, Keypos}, {read_concurrency, Read} | Concurrency ++ More]
     || Type <- [set, ordered_set, bag, duplicate_bag],
        {Protection, Keypos, Read} <-
            [{private, 2, false}, {protected, 1, true}, {public, 3, true}],
        Concurrency <- [[], [{write_concurrency, true}], [{write_concurrency, auto}],
            [{write_concurrency, true}, {decentralized_counters, true}],
            [{write_concurrency, true}, {decentralized_counters, false}]],
        More <- [[], [compressed, named_table]]].

each_table_is_told_once(_) ->
    Tables = [ets:new(many, []) || _ <- lists:seq(1, 3000)],
    #{tables := Told, all := #{tables := Count}, unknown := []} = look(),
    ?assertEqual(length(Told), Count),
    Ids = [Id || #{id := Id} <- Told],
    ?assertEqual(lists:sort(Ids), lists:usort(Ids)),
    ?assertEqual([], Tables -- Ids),
    %% Others of this node may come and go meanwhile.
    All = ets:all(),
    ?assert(length(All -- Ids) + length(Ids -- All) < 20),
    [ets:delete(Table) || Table <- Tables].

counters_that_all_schedulers_write_are_summed(_) ->
    Table = ets:new(written, [public, {write_concurrency, true}, {decentralized_counters, true}]),
    Schedulers = erlang:system_info(schedulers_online),
    Writers = [spawn_opt(fun() -> ets:insert(Table, [{{S, N}} || N <- lists:seq(1, 1000)]),
        [ets:delete(Table, {S, N}) || N <- lists:seq(1, 300)] end,
        [monitor, {scheduler, S}]) || S <- lists:seq(1, Schedulers)],
    [receive {'DOWN', Monitor, _, _, _} -> ok end || {_, Monitor} <- Writers],
    #{objects := Objects, bytes := Bytes} = told(Table),
    ?assertEqual(700 * Schedulers, Objects),
    ?assertEqual(ets:info(Table, memory), (Bytes + 7) div 8),
    ets:delete(Table).

a_snapshot_of_counters_is_never_told_half(_) ->
    Table = filled(exchanged, [public, {write_concurrency, true}, {decentralized_counters, true}],
        5000),
    Seen = with_processes(2, fun() -> ets:info(Table, size) end, fun() ->
        [maps:get(objects, told(Table), unknown) || _ <- lists:seq(1, 50)]
    end),
    ?assertEqual([], lists:usort(Seen) -- [5000, unknown]),
    ?assert(lists:member(5000, Seen)),
    ets:delete(Table).

tables_that_come_and_go_hide_no_other(_) ->
    Stay = [ets:new(stays, []) || _ <- lists:seq(1, 500)],
    Churn = fun() ->
        Made = [ets:new(goes, []) || _ <- lists:seq(0, erlang:unique_integer([positive]) rem 20)],
        [ets:delete(T) || T <- Made]
    end,
    Looks = with_processes(2, Churn, fun() -> [look() || _ <- lists:seq(1, 40)] end),
    [begin
        Ids = [Id || #{id := Id} <- Tables],
        ?assertEqual(lists:sort(Ids), lists:usort(Ids)),
        ?assertEqual([], Stay -- Ids)
    end || #{tables := Tables, unknown := Unknown} <- Looks,
        nomatch =:= re:run(lists:join(" ", Unknown), "made on")],
    Incomplete = [Unknown || #{unknown := Unknown} <- Looks,
        nomatch =/= re:run(lists:join(" ", Unknown), "made on")],
    ?assert(length(Incomplete) < length(Looks)),
    [ets:delete(Table) || Table <- Stay].

a_table_that_is_deleted_is_told_so(_) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        Table = filled(large, [public, bag], 1),
        true = ets:insert(Table, [{N, N} || N <- lists:seq(1, 300000)]),
        Self ! {table, Table},
        receive stop -> ok end
    end),
    Table = receive {table, T} -> T end,
    #{deleting := false, owner := Pid, objects := 300001} = told(Table),
    Pid ! stop,
    receive {'DOWN', Monitor, _, _, _} -> ok end,
    waiting:eventually(fun() ->
        case told(Table) of none -> true; #{deleting := true, name := large} -> false end
    end).

an_heir_is_the_owner(_) ->
    Self = self(),
    {_, Monitor} = spawn_monitor(fun() ->
        Self ! {table, filled(inherited, [{heir, Self, none}], 7)}
    end),
    Table = receive {table, T} -> T end,
    receive {'DOWN', Monitor, _, _, _} -> ok end,
    receive {'ETS-TRANSFER', Table, _, none} -> ok end,
    ?assertMatch(#{owner := Self, objects := 7, name := inherited}, told(Table)),
    ets:delete(Table).

owners_are_told_by_name(_) ->
    #{tables := Tables} = look(),
    ?assertEqual([code_server],
        lists:usort([Name || #{name := code_names, owner_name := Name} <- Tables])),
    Registered = [{whereis(Name), Name} || Name <- registered()],
    [?assertEqual({Owner, Told}, {Owner, proplists:get_value(Owner, Registered, Told)})
     || #{owner := Owner, owner_name := Told} <- Tables].

growth_is_that_of_the_time_between(_) ->
    Table = filled(grows, [public], 100),
    Bytes = 8 * ets:info(Table, memory),
    Self = self(),
    {_, Monitor} = spawn_monitor(fun() ->
        ok = waiting:pauses(Self, flame_prof_tables, looked),
        ets:insert(Table, [{-N, N} || N <- lists:seq(1, 5000)])
    end),
    #{ms := Ms, tables := [#{id := Table} = First | _]} =
        look(#{for => 500, sort => growth, top => 3}),
    #{growth := #{objects_per_s := Objects, bytes_per_s := Rate}, is_new := false} = First,
    receive {'DOWN', Monitor, _, _, _} -> ok end,
    ?assertEqual(5000, round(Objects * Ms / 1000)),
    ?assertEqual(8 * ets:info(Table, memory) - Bytes, round(Rate * Ms / 1000)),
    ets:delete(Table).

a_table_that_is_made_meanwhile_is_new(_) ->
    Old = ets:new(old, []),
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        ok = waiting:pauses(Self, flame_prof_tables, looked),
        filled(new, [named_table], 200),
        receive stop -> ok end
    end),
    #{tables := Tables, all := #{made := Made, deleted := Deleted}, ms := Ms} = look(#{for => 500}),
    [#{growth := #{objects_per_s := Rate}}] = [T || #{id := new, is_new := true} = T <- Tables],
    ?assertEqual(200, round(Rate * Ms / 1000)),
    ?assert(Made >= 1),
    ?assert(Deleted >= 0),
    ?assertMatch([#{is_new := false}], [T || #{id := Id} = T <- Tables, Id =:= Old]),
    Pid ! stop,
    receive {'DOWN', Monitor, _, _, _} -> ok end,
    ets:delete(Old).

many_first_looks_at_once_leave_nothing_and_know_the_memory(_) ->
    ?assertEqual([{[], []}, same], peer_vm:values([{?MODULE, Function}
        || Function <- [left_behind, memory]], ["+S", "4:4"])).

%% The code server's tables grow with each module that is loaded.
memory() ->
    ok = waiting:eventually(fun() ->
        #{all := #{memory := Told}} = look(),
        Told =:= erlang:memory(ets)
    end),
    same.

%% Against what the VM says of the table and of all of them; other tables may change meanwhile.
each_table_has_its_share_of_the_memory(_) ->
    Table = filled(shared, [public], 100000),
    #{unknown := []} = Look = look(),
    #{share := Share} = told(Table, Look),
    Said = 8 * ets:info(Table, memory) / erlang:memory(ets),
    ?assert(Said > 0.2),
    ?assertMatch({_, _, true}, {Said, Share, abs(Share - Said) < 0.02}),
    #{tables := [#{share := Most}]} = Top = look(#{top => 1}),
    Text = unicode:characters_to_list(flame_prof_tables:format(Top)),
    ?assertMatch({match, _}, re:run(Text, "\n +[0-9.]+[KMG]? +" ++
        string:trim(flame_prof_text:percent(100 * Most)) ++ " ")),
    Json = iolist_to_binary(flame_prof_json:encode(flame_prof_tables:json(Top))),
    {ok, #{<<"tables">> := [#{<<"share">> := InJson}]}} = flame_prof_json_reader:decode(Json),
    ?assert(abs(InJson - Most) < 0.0001),
    {ok, Portable} = flame_prof_tables:look(#{engine => portable}),
    ?assertEqual([], [T || #{share := _} = T <- maps:get(tables, Portable)]),
    ets:delete(Table).

atoms_code_and_persistent_terms_are_counted(_) ->
    persistent_term:put(?MODULE, lists:seq(1, 10000)),
    #{atoms := Atoms, code := Code, persistent_terms := Terms, ports := Ports} = look(#{for => 10}),
    ?assertEqual(erlang:system_info(atom_limit), maps:get(limit, Atoms)),
    ?assert(abs(maps:get(count, Atoms) - erlang:system_info(atom_count)) < 1000),
    ?assert(abs(maps:get(bytes, Atoms) - erlang:memory(atom)) < 100000),
    ?assert(abs(maps:get(count, Code) - length(code:all_loaded())) < 20),
    ?assert(maps:get(bytes, Code) > 1000000),
    ?assertEqual(persistent_term:info(), #{count => maps:get(count, Terms),
        memory => maps:get(bytes, Terms)}),
    ?assertEqual(erlang:system_info(port_limit), maps:get(limit, Ports)),
    ?assertMatch(#{growth := #{per_s := _, bytes_per_s := _}}, Atoms),
    persistent_term:erase(?MODULE).

sorted_and_cut_as_asked(_) ->
    Many = filled(many, [], 2000),
    Large = ets:new(large, []),
    true = ets:insert(Large, {1, lists:seq(1, 500000)}),
    #{tables := [#{id := First}]} = look(#{top => 1}),
    ?assertEqual(Large, First),
    #{tables := ByObjects, all := #{tables := All}} = look(#{sort => objects, top => 5}),
    Objects = [N || #{objects := N} <- ByObjects],
    ?assertEqual(lists:reverse(lists:sort(Objects)), Objects),
    ?assert(lists:member(Many, [Id || #{id := Id} <- ByObjects])),
    ?assertEqual(5, length(ByObjects)),
    ?assert(All > 5),
    ets:delete(Many),
    ets:delete(Large).

first_looks() ->
    Self = self(),
    Pids = [spawn_link(fun() -> Self ! {self(), flame_prof_tables:look()} end)
        || _ <- lists:seq(1, 8)],
    lists:usort([receive {Pid, {ok, #{engine := Engine}}} -> Engine end || Pid <- Pids]).

left_behind() ->
    Before = ets:all(),
    Processes = processes(),
    [native] = first_looks(),
    timer:sleep(100),
    Ours = [Table || Table <- ets:all() -- Before, nomatch =/=
        re:run(atom_to_list(ets:info(Table, name)), "^flame_prof_tables")],
    {Ours, [Pid || Pid <- processes() -- Processes,
        {_, {M, _, _}} <- [process_info(Pid, initial_call)], M =:= flame_prof_tables_layout]}.

the_portable_engine_asks_for_no_decentralized_counters(_) ->
    Table = filled(unasked, [public, {write_concurrency, true}, {decentralized_counters, true}], 9),
    #{unknown := Unknown} = Look = look(#{engine => portable}),
    Told = told(Table, Look),
    ?assertMatch(#{decentralized := true, name := unasked}, Told),
    ?assertNot(is_map_key(objects, Told)),
    ?assertNot(is_map_key(bytes, Told)),
    ?assertMatch({match, _}, re:run(lists:join("\n", Unknown), "decentralized counters")),
    ets:delete(Table).

the_portable_engine_tells_the_same(_) ->
    Tables = [filled(same, [Type, {keypos, 2}], 50)
        || Type <- [set, bag, ordered_set, duplicate_bag]],
    Native = look(),
    Portable = look(#{engine => portable}),
    Same = fun(Table, Look) -> maps:without([owner_name, share], told(Table, Look)) end,
    [?assertEqual(Same(Table, Native), Same(Table, Portable)) || Table <- Tables],
    [ets:delete(Table) || Table <- Tables].

what_is_not_accepted_is_refused(_) ->
    [?assertMatch({error, {bad_option, #{option := _}}}, flame_prof_tables:look(Options))
     || Options <- [#{for => -1}, #{for => 60001}, #{sort => name}, #{top => 0}, #{fore => 1}, x]].

it_is_printed(_) ->
    Table = filled(printed, [named_table, private, compressed], 12),
    Look = look(#{for => 20}),
    Text = unicode:characters_to_binary(flame_prof_tables:format(Look)),
    ?assertMatch({match, _}, re:run(Text, "\n.* 12 .* set +printed .*\\(private, compressed\\)\n")),
    ?assertMatch({match, _}, re:run(Text, "^[0-9,]+ tables, .* of memory\\(ets\\)")),
    Json = iolist_to_binary(flame_prof_json:encode(flame_prof_tables:json(Look))),
    ?assertMatch({match, _}, re:run(Json, "\"name\":\"printed\"")),
    ets:delete(Table).
