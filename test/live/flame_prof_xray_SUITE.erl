%% What processes hold, as the native engine reads it, against what the VM says of the same terms
%% (erts_debug:flat_size/1, process_info/2) and against what the test has put there.
-module(flame_prof_xray_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1,
    terms_of_each_kind_have_the_size_that_the_vm_says/1,
    random_terms_have_the_size_that_the_vm_says/1, memory_is_that_of_process_info/1,
    what_is_shared_counts_once/1, a_state_that_grows_in_a_map_is_told_by_its_keys/1,
    a_list_in_a_record_is_told/1, an_entry_of_the_dictionary_is_told/1,
    a_mailbox_is_told_by_its_messages/1, sub_binaries_are_told_with_what_they_pin/1,
    binaries_that_only_garbage_holds_are_told/1,
    what_a_hibernating_process_holds_is_in_its_registers/1,
    a_message_that_was_taken_is_on_the_stack/1, garbage_and_free_parts_add_up/1,
    literals_are_apart/1, a_tree_of_any_depth_is_told/1, a_large_heap_is_read_within_the_budget/1,
    a_heap_beyond_the_budget_is_refused_with_what_it_needs/1,
    a_process_that_works_in_between_is_told/1,
    a_large_state_of_a_process_that_works_in_between_is_copied_and_told/1,
    a_process_that_always_runs_is_refused/1, a_process_that_has_exited_is_refused/1,
    a_process_looks_at_itself/1, what_is_not_accepted_is_refused/1, the_process_is_not_asked/1,
    no_value_gets_out/1, an_answer_is_told_once/1, without_the_library_it_is_refused/1,
    a_node_that_keeps_its_own_probes_waiting_is_not_refused/1,
    an_agent_tells_what_its_end_costs_a_large_heap/1,
    every_process_of_the_node_is_told_or_refused/1]).
%% In a VM of its own.
-export([without_library/0, starved/0, woken/1]).

suite() -> [{timetrap, {minutes, 2}}].
all() -> suite_cases:list(?MODULE, [woken]).
init_per_suite(Config) -> native_node:or_skip(Config).
end_per_suite(_Config) -> ok.

%% A process that makes a term, and then holds it; what Measure says of it there.
with_holder(Make, Measure, Fun) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        Term = Make(),
        Self ! {self(), Measure(Term)},
        holding(Term)
    end),
    try
        receive
            {Pid, Measured} -> Fun(Pid, Measured);
            {'DOWN', Monitor, _, _, Reason} -> error(Reason)
        end
    after
        exit(Pid, kill),
        demonitor(Monitor, [flush])
    end.

holding(Term) ->
    receive never -> ok end,
    holding(Term).

%% It waits there, with so many messages.
waits(Pid, MFA, Messages) ->
    waiting:eventually(fun() ->
        [{status, waiting}, {current_function, MFA}, {message_queue_len, Messages}] =:=
            process_info(Pid, [status, current_function, message_queue_len])
    end).

with_holder(Make, Fun) -> with_holder(Make, fun(_) -> ok end, fun(Pid, ok) -> Fun(Pid) end).
look(Pid) -> look(Pid, #{}).

look(Pid, Options) ->
    {ok, Xray} = flame_prof_xray:look(Pid, Options),
    ?assertMatch(#{complete := true, unknown := []}, Xray),
    Xray.

%% The paths of a root, by the text of all of them: `#state{}/3 > element 2 > list'.
ways(#{paths := _} = Xray) ->
    #{paths := Paths} = flame_prof_xray_text:json(Xray),
    maps:from_list([{Way, Path} || #{path := Way} = Path <- Paths]).

%% The slot of the stack that holds most.
slot(#{paths := Paths}) ->
    Slots = [{Heap, Path} || #{step := {stack, _, _, _}, heap := Heap} = Path <- Paths],
    {_, Path} = lists:last(lists:keysort(1, Slots)),
    Path.

text(Xray) -> unicode:characters_to_binary(flame_prof_xray:format(Xray)).

has(Text, Pattern) ->
    ?assertMatch({_, {match, _}}, {Text, re:run(Text, Pattern, [unicode, multiline])}).

is_near(A, B) -> ?assert(abs(A - B) =< 0.01 * max(A, B)).

%% Links and monitors are a part of a small process.
is_near_but_for_monitors(A, B) -> ?assert(abs(A - B) =< 200 + 0.01 * max(A, B)).

kinds() ->
    N = erlang:unique_integer([positive]) rem 100 + 2,
    [fun() -> lists:seq(N, 1000) end,
        fun() -> list_to_tuple(lists:seq(N, 300)) end,
        fun() -> {N, {N, {N}}, [{N, a} | N]} end,
        fun() -> #{N => [N], {N} => {N, b}} end,
        fun() -> maps:from_list([{a, [N]}, {b, {N}}, {c, N / 3}]) end,
        fun() -> maps:from_list([{K, {K}} || K <- lists:seq(1, 33 + N)]) end,
        fun() -> maps:from_list([{{K, N}, [K]} || K <- lists:seq(1, 20000)]) end,
        fun() -> maps:from_list([{K, #{K => [K]}} || K <- lists:seq(1, 100)]) end,
        fun() -> [float(N), N / 7, N bsl 100, -(N bsl 1000)] end,
        fun() -> [binary:copy(<<N>>, Size) || Size <- [0, 1, 8, 9, 63, 64]] end,
        fun() -> [binary:copy(<<N>>, Size) || Size <- [65, 1000, 100000]] end,
        fun() -> [make_ref() || _ <- lists:seq(1, N)] end,
        fun() -> gb_trees:from_orddict([{K, [K]} || K <- lists:seq(1, 5000)]) end,
        fun() -> lists:foldl(fun(_, T) -> {T, N} end, [], lists:seq(1, 10000)) end,
        fun() -> lists:foldl(fun(_, T) -> [T] end, [], lists:seq(1, 10000)) end,
        fun() -> <<_:3, Bits:700/bitstring, _/bitstring>> = binary:copy(<<N>>, 1000), {Bits} end].

terms_of_each_kind_have_the_size_that_the_vm_says(_) ->
    [is_as_the_vm_says(Make) || Make <- kinds()].

is_as_the_vm_says(Make) ->
    with_holder(Make, fun erts_debug:flat_size/1, fun(Pid, Words) ->
        #{heap := Heap} = slot(look(Pid)),
        ?assertEqual({8 * Words, Make}, {Heap, Make})
    end).

random_terms_have_the_size_that_the_vm_says(_) ->
    _ = seeded:seed(),
    [is_as_the_vm_says(fun() -> _ = rand:seed(exsss, N), {[N], random(4)} end)
     || N <- [rand:uniform(1 bsl 50) || _ <- lists:seq(1, 200)]].

random(0) -> rand:uniform(1000);
random(Depth) ->
    More = fun() -> random(Depth - 1) end,
    Some = fun() -> [More() || _ <- lists:seq(1, rand:uniform(6))] end,
    case rand:uniform(9) of
        1 -> Some();
        2 -> list_to_tuple([element(rand:uniform(3), {a, b, c}) | Some()]);
        3 -> maps:from_list([{random(min(1, Depth - 1)), V} || V <- Some()]);
        4 -> maps:from_list([{{K}, More()} || K <- lists:seq(1, 30 + rand:uniform(5))]);
        5 -> [More() | More()];
        6 -> rand:uniform();
        7 -> rand:uniform(1 bsl 200);
        8 -> binary:copy(<<1>>, rand:uniform(200));
        9 -> {make_ref(), More()}
    end.

memory_is_that_of_process_info(_) ->
    Sizes = [1, 1000, 100000, 1000000],
    [with_holder(fun() -> lists:seq(1, N) end, fun(Pid) ->
        _ = [Pid ! {message, lists:seq(1, 10)} || _ <- lists:seq(1, N div 100)],
        waits(Pid, {?MODULE, holding, 1}, N div 100),
        #{memory := Memory} = look(Pid),
        {memory, Said} = process_info(Pid, memory),
        is_near_but_for_monitors(Memory, Said)
    end) || N <- Sizes].

what_is_shared_counts_once(_) ->
    Make = fun() ->
        Shared = lists:seq(1, 10000),
        put(also, Shared),
        {Shared, Shared, [Shared]}
    end,
    with_holder(Make, fun({T, _, _}) -> erts_debug:flat_size(T) end, fun(Pid, Words) ->
        #{reached := Reached} = look(Pid),
        ?assert(Reached >= 8 * Words),
        ?assert(Reached =< 8 * Words + 1000)
    end).

garbage_and_free_parts_add_up(_) ->
    Make = fun() ->
        _ = lists:seq(1, 100000),
        lists:seq(1, 1000)
    end,
    with_holder(Make, fun(Pid) ->
        #{reached := Reached, garbage := Garbage, free := Free, stack := Stack} = look(Pid),
        {_, Info} = process_info(Pid, garbage_collection_info),
        [Block, Used, Old, OldBlock, StackWords, Fragments] = [proplists:get_value(K, Info)
         || K <- [heap_block_size, heap_size, old_heap_size, old_heap_block_size, stack_size,
                mbuf_size]],
        ?assertEqual(8 * (Used + Old + Fragments), Reached + Garbage),
        ?assertEqual(8 * (Block + OldBlock), Free + Stack + 8 * (Used + Old)),
        ?assertEqual(8 * StackWords, Stack),
        true = erlang:garbage_collect(Pid),
        #{reached := Same, garbage := 0} = look(Pid),
        ?assertEqual(Reached, Same)
    end).

literals_are_apart(_) ->
    Key = {?MODULE, literal},
    persistent_term:put(Key, lists:seq(1, 100000)),
    with_holder(fun() -> {persistent_term:get(Key), [self()]} end, fun(Pid) ->
        #{reached := Reached, literals := Literals} = look(Pid),
        ?assert(Reached < 10000),
        ?assert(Literals >= 1)
    end),
    persistent_term:erase(Key).

a_state_that_grows_in_a_map_is_told_by_its_keys(_) ->
    Make = fun() ->
        Sessions = maps:from_list([{K, {session, K, [K]}} || K <- lists:seq(1, 20000)]),
        {state, name, maps:from_list([{sessions, Sessions}, {config, [self()]}])}
    end,
    with_holder(Make, fun(Term) -> erts_debug:flat_size(element(3, Term)) end, fun(Pid, Words) ->
        Xray = look(Pid),
        Ways = ways(Xray),
        [#{heap := Heap}] = [Path || {Way, Path} <- maps:to_list(Ways),
            re:run(Way, "#state{}/3 > element 3 > map$") =/= nomatch],
        ?assertEqual(8 * Words, Heap),
        has(text(Xray), "holding/1 slot 0 > #state{}/3 > element 3 > map > key sessions > map"),
        has(text(Xray), "values > #session{}/3"),
        has(text(Xray), "terms, held by its stack")
    end).

a_list_in_a_record_is_told(_) ->
    Make = fun() -> {state, 1, [{entry, K, K} || K <- lists:seq(1, 20000)], []} end,
    with_holder(Make, fun(Pid) ->
        Xray = look(Pid),
        has(text(Xray), "#state{}/4 > element 3 > list"),
        #{types := Types} = Xray,
        ?assertMatch({_, 640000, 20000}, lists:keyfind({tuple, {atom, entry}, 3}, 1, Types))
    end).

an_entry_of_the_dictionary_is_told(_) ->
    Make = fun() ->
        _ = [put(K, [K]) || K <- lists:seq(1, 3000)],
        put(cache, lists:seq(1, 50000))
    end,
    with_holder(Make, fun(Pid) ->
        #{by_dictionary := Bytes, reached := Reached, dictionary := Table} = Xray = look(Pid),
        has(text(Xray), "dictionary cache > list"),
        #{heap := 800000} = maps:get(<<"dictionary cache > list">>, ways(Xray)),
        %% A list of one, the entry, and for some a cell of the slot.
        ?assert(Bytes >= 800000 + 3000 * (16 + 24)),
        ?assert(Bytes =< 800000 + 3001 * (16 + 24 + 16)),
        ?assert(Reached - Bytes < 1000),
        ?assert(Table >= 3001 * 8)
    end).

a_mailbox_is_told_by_its_messages(_) ->
    Message = {update, 1, lists:seq(1, 50)},
    [begin
        Pid = spawn_opt(fun() -> holding([]) end, [{message_queue_data, Data}]),
        _ = [Pid ! Message || _ <- lists:seq(1, 2000)],
        waits(Pid, {?MODULE, holding, 1}, 2000),
        #{messages := 2000, by_messages := Bytes} = Xray = look(Pid),
        is_near(2000 * 8 * erts_debug:flat_size(Message), Bytes),
        has(text(Xray), "messages > #update{}/3"),
        has(text(Xray), "structures of 2,000 messages"),
        exit(Pid, kill)
    end || Data <- [on_heap, off_heap]].

sub_binaries_are_told_with_what_they_pin(_) ->
    Make = fun() ->
        {state, [{head, binary:part(binary:copy(<<K>>, 65536), 10, 100)} || K <- lists:seq(1, 50)]}
    end,
    with_holder(Make, fun(Pid) ->
        #{binaries := Binaries} = Xray = look(Pid),
        ?assertEqual(#{count => 50, bytes => 50 * 65536, shared_bytes => 0}, Binaries),
        [#{shown_bytes := Shown}] = [Path || #{shape := binary} = Path <- maps:get(paths, Xray)],
        ?assertEqual(50 * 100, Shown),
        has(text(Xray), "3200K held for 5000 that are shown: 50 binaries at .*{head,_} > element 2")
    end).

binaries_that_only_garbage_holds_are_told(_) ->
    Make = fun() ->
        put(kept, binary:copy(<<2>>, 2000)),
        _ = [binary:copy(<<1>>, 1000) || _ <- lists:seq(1, 10)],
        ok
    end,
    with_holder(Make, fun(Pid) ->
        #{binaries := #{count := 1, bytes := 2000}, garbage_binaries := Lost} = Xray = look(Pid),
        ?assertEqual(#{count => 10, bytes => 10000, shared_bytes => 0}, Lost),
        has(text(Xray), "beside it, by garbage: 10 binaries"),
        true = erlang:garbage_collect(Pid),
        #{garbage_binaries := #{count := 0}, binaries := #{count := 1}} = look(Pid)
    end).

woken(Term) -> holding(Term).

what_a_hibernating_process_holds_is_in_its_registers(_) ->
    Pid = spawn(fun() -> erlang:hibernate(?MODULE, woken, [{state, lists:seq(1, 10000)}]) end),
    waits(Pid, {erlang, hibernate, 3}, 0),
    #{by_registers := Bytes, reached := Bytes, garbage := 0} = Xray = look(Pid),
    {_, Info} = process_info(Pid, garbage_collection_info),
    ?assertEqual(8 * proplists:get_value(heap_size, Info), Bytes),
    has(text(Xray), "register 2 > list > {state,_} > element 2 > list"),
    exit(Pid, kill).

%% It lies in its fragment until the process collects.
a_message_that_was_taken_is_on_the_stack(_) ->
    Take = fun() -> receive Taken -> holding(Taken) end end,
    Pid = spawn_opt(Take, [{message_queue_data, off_heap}]),
    Term = {taken, lists:seq(1, 10000)},
    Pid ! Term,
    waits(Pid, {?MODULE, holding, 1}, 0),
    #{by_stack := Bytes, messages := 0, memory := Memory} = look(Pid),
    ?assertEqual(8 * erts_debug:flat_size(Term), Bytes),
    {memory, Said} = process_info(Pid, memory),
    is_near(Memory, Said),
    exit(Pid, kill).

a_tree_of_any_depth_is_told(_) ->
    Make = fun() -> gb_trees:from_orddict([{K, {v, K}} || K <- lists:seq(1, 100000)]) end,
    with_holder(Make, fun erts_debug:flat_size/1, fun(Pid, Words) ->
        #{reached := Reached, paths := Paths} = look(Pid),
        is_near(8 * Words, Reached),
        ?assert(length(Paths) < 20)
    end).

a_large_heap_is_read_within_the_budget(_) ->
    Make = fun() -> [{K, [K]} || K <- lists:seq(1, 2000000)] end,
    with_holder(Make, fun erts_debug:flat_size/1, fun(Pid, Words) ->
        #{reached := Reached} = look(Pid, #{memory_budget => 32 bsl 20, time_limit => 60000}),
        is_near(8 * Words, Reached)
    end).

a_heap_beyond_the_budget_is_refused_with_what_it_needs(_) ->
    with_holder(fun() -> lists:seq(1, 10000000) end, fun(Pid) ->
        {ok, Xray} = flame_prof_looks_nif:xray_open(Pid, #{kilobytes => 4096, time_ms => 1000}),
        #{error := full, bytes_needed := Needed} = flame_prof_looks_nif:xray_next(Xray, 1000000),
        ?assert(Needed > 4096 bsl 10),
        Enough = (Needed bsr 10) + 8192,
        {ok, Again} = flame_prof_looks_nif:xray_open(Pid, #{kilobytes => Enough, time_ms => 60000}),
        ?assertMatch(#{error := none}, read(Again))
    end).

read(Xray) ->
    case flame_prof_looks_nif:xray_next(Xray, 1000000) of more -> read(Xray); Answer -> Answer end.

%% It works for a moment every 5 ms.
a_process_that_works_in_between_is_told(_) ->
    Pid = spawn(fun() -> working(lists:seq(1, 1000)) end),
    _ = [begin
        #{by_stack := Bytes} = look(Pid),
        ?assert(Bytes >= 16000)
    end || _ <- lists:seq(1, 20)],
    exit(Pid, kill).

working(List) ->
    _ = lists:sum(lists:reverse(List)),
    receive
        never -> ok
    after 5 -> working(List)
    end.

%% The walk takes longer than the process stands still, the copy does not.
a_large_state_of_a_process_that_works_in_between_is_copied_and_told(_) ->
    Self = self(),
    Pid = spawn(fun() ->
        Map = maps:from_list([{K, {session, K, [K]}} || K <- lists:seq(1, 100000)]),
        Self ! {made, self()},
        changing(Map)
    end),
    receive {made, Pid} -> ok end,
    #{by_stack := Bytes, reached := Reached} = Xray = look(Pid, #{time_limit => 30000}),
    ?assert(Bytes >= 100000 * 8 * (4 + 2 + 2)),
    ?assert(Bytes =< Reached),
    has(text(Xray), "#session\\{\\}/3"),
    exit(Pid, kill).

changing(Map) ->
    receive
        never -> Map
    after 50 -> changing(Map#{rand:uniform(100000) := {session, none, []}})
    end.

%% With two, the other schedulers may not take it: between two turns it stands still too briefly.
a_process_that_always_runs_is_refused(_) ->
    Pid = spawn_opt(fun Run() -> _ = lists:seq(1, 1000), Run() end, [{scheduler, 1}]),
    waiting:eventually(fun() ->
        {error, {moved, #{target => Pid, ms => 100}}} =:=
            flame_prof_xray:look(Pid, #{time_limit => 100})
    end),
    has(unicode:characters_to_binary(flame_prof:format_error({moved, #{target => Pid, ms => 1}})),
        "stands still"),
    exit(Pid, kill).

a_process_that_has_exited_is_refused(_) ->
    {Pid, Monitor} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Monitor, _, _, _} -> ok end,
    ?assertEqual({error, {process, #{target => Pid}}}, flame_prof_xray:look(Pid)),
    ?assertMatch({error, {process, _}}, flame_prof_xray:look(no_such_name)).

a_process_looks_at_itself(_) ->
    Held = [{state, N} || N <- lists:seq(1, 100000)],
    Self = self(),
    {ok, #{process := Self, reached := Reached}} = flame_prof_xray:look(self()),
    ?assert(Reached > 8 * 5 * length(Held)).

what_is_not_accepted_is_refused(_) ->
    [?assertMatch({error, {bad_option, #{accepted := _}}}, flame_prof_xray:look(self(), Options))
     || Options <- [#{memory_budget => 1}, #{time_limit => 0}, #{other => 1}, [time_limit]]],
    ?assertMatch({error, {badarg, _}}, flame_prof_xray:look(1.5)).

an_answer_is_told_once(_) ->
    with_holder(fun() -> [1] end, fun(Pid) ->
        {ok, Xray} = flame_prof_looks_nif:xray_open(Pid, #{kilobytes => 65536, time_ms => 1000}),
        #{error := none} = flame_prof_looks_nif:xray_next(Xray, 1000000),
        ?assertError(badarg, flame_prof_looks_nif:xray_next(Xray, 1000000))
    end),
    ?assertError(badarg, flame_prof_looks_nif:xray_open(self(), #{})),
    ?assertError(badarg, flame_prof_looks_nif:xray_next(make_ref(), 1)).

the_process_is_not_asked(_) ->
    with_holder(fun() -> lists:seq(1, 100000) end, fun(Pid) ->
        waits(Pid, {?MODULE, holding, 1}, 0),
        Before = process_info(Pid, reductions),
        ?assertEqual(Before, process_info(Pid, reductions)),
        _ = look(Pid),
        ?assertEqual(Before, process_info(Pid, reductions))
    end).

no_value_gets_out(_) ->
    Secret = "geheimnis",
    Binary = list_to_binary(Secret),
    Make = fun() ->
        put(Secret, Binary),
        put({Binary}, list_to_atom(Secret)),
        {login, Secret, Binary, #{Binary => Secret, name => list_to_atom(Secret)}, 4711471147,
            [{Secret, binary:copy(Binary, 100)} || _ <- lists:seq(1, 100)]}
    end,
    with_holder(Make, fun(Pid) ->
        Pid ! {Secret, Binary},
        Xray = look(Pid),
        Texts = [io_lib:format("~0p", [Xray]), text(Xray),
            flame_prof_json:encode(flame_prof_xray_text:json(Xray))],
        Text = unicode:characters_to_binary(Texts),
        ?assertEqual(nomatch, binary:match(Text, [Binary, <<"4711471147">>])),
        ?assertMatch({_, _}, binary:match(Text, <<"login">>))
    end).

without_the_library_it_is_refused(Config) ->
    Dir = proplists:get_value(priv_dir, Config),
    ok = file:write_file(filename:join(Dir, "flame_prof_nif.beam"), "no code"),
    ?assertEqual(ok, peer_vm:value(?MODULE, without_library, ["-env", "NO_LIBRARY", Dir])).

without_library() ->
    true = code:add_patha(os:getenv("NO_LIBRARY")),
    {error, {library, _} = Error} = flame_prof_xray:look(self()),
    true = is_binary(unicode:characters_to_binary(flame_prof:format_error(Error))),
    ok.

%% Processes of a higher priority have the only scheduler when the known terms are to be made.
a_node_that_keeps_its_own_probes_waiting_is_not_refused(_) ->
    ?assertMatch({ok, #{reached := Reached}} when Reached >= 16000,
        peer_vm:value(?MODULE, starved, ["+S", "1:1"])).

starved() ->
    Pid = spawn(fun() -> Held = lists:seq(1, 1000), receive stop -> Held end end),
    {ok, _} = flame_prof_xray:look(Pid),
    normal = process_flag(priority, max),
    Until = erlang:monotonic_time(millisecond) + 1000,
    _ = spawn_opt(fun Burn() -> erlang:monotonic_time(millisecond) < Until andalso Burn() end,
        [{priority, high}]),
    flame_prof_xray:look(Pid).

an_agent_tells_what_its_end_costs_a_large_heap(_) ->
    Small = spawn(fun() -> receive stop -> ok end end),
    {ok, Xray} = flame_prof_xray:look(Small),
    Says = fun(Bytes) ->
        Text = unicode:characters_to_list(flame_prof_xray:format(Xray#{memory := Bytes})),
        re:run(Text, "When flame_prof leaves this node") =/= nomatch
    end,
    ?assertNot(Says(1000000000)),
    Agent = spawn(fun() -> receive stop -> ok end end),
    true = register(flame_prof_agent, Agent),
    ?assert(Says(1000000000)),
    ?assertNot(Says(1000000)),
    true = unregister(flame_prof_agent),
    [Pid ! stop || Pid <- [Small, Agent]].

every_process_of_the_node_is_told_or_refused(_) ->
    Looks = [{Pid, flame_prof_xray:look(Pid, #{time_limit => 200})} || Pid <- processes()],
    Refused = [Error || {_, {error, {engine, _}} = Error} <- Looks],
    ?assertEqual([], Refused),
    ?assertMatch([_ | _], [Pid || {Pid, {ok, _}} <- Looks]).
