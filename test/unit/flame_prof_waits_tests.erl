%% Looks at nodes that are made up, as a page and as JSON; options; the portable engine.
-module(flame_prof_waits_tests).

-include_lib("eunit/include/eunit.hrl").

%% Made-up nodes. A part for each look of each node, the last one for all further looks.

look(Options, Nodes, Told) ->
    Counter = counters:new(1, []),
    Ask = fun(Requests) ->
        [counters:add(Counter, 1, 1) || {_, {flame_prof_waits_part, part, _}} <- Requests],
        Number = counters:get(Counter, 1) div max(1, map_size(Nodes)),
        [{Node, answer(Request, maps:get(Node, Nodes), max(1, Number), Told)}
            || {Node, Request} <- Requests]
    end,
    {ok, Look} = flame_prof_waits:look(Options, Ask),
    Look.

answer(_, {error, _} = Error, _, _) -> Error;
answer({flame_prof_waits_part, part, _}, Parts, Number, _) ->
    {ok, {ok, lists:nth(min(Number, length(Parts)), Parts)}};
answer({flame_prof_waits_part, told, [Pids, _]}, _, _, Told) -> {ok, maps:with(Pids, Told)};
%% By default there is time for each edge, and each server has its requests.
answer({flame_prof_waits_proof, prove, [_]}, _, _, #{proof := error}) ->
    {error, <<"no answer in time">>};
answer({flame_prof_waits_proof, prove, [Edges]}, _, Number, Told) ->
    IsLate = maps:get(late, Told, fun(_, _) -> false end),
    IsProven = maps:get(proven, Told, fun(_) -> true end),
    {Late, InTime} = lists:partition(fun(Edge) -> IsLate(Edge, Number) end, Edges),
    {ok, #{proven => [flame_prof_waits_graph:identity(Edge) || Edge <- InTime, IsProven(Edge)],
        late => [flame_prof_waits_graph:identity(Edge) || Edge <- Late]}};
answer({flame_prof_wait_learn, takes, [Sites]}, _, _, Told) ->
    {ok, maps:with(Sites, maps:get(takes, Told, #{}))};
answer({lists, map, [Whereis, Names]}, _, _, _) -> {ok, [Whereis(Name) || Name <- Names]}.

part(Edges) -> part(Edges, #{}, #{}).

part(Edges, Counts, Unknown) ->
    #{engine => native, engine_reason => <<"native: made up">>, edges => Edges,
        counts => maps:merge(#{processes => 100, idle => 0, unknown => 0}, Counts),
        unknown => Unknown}.

here(Edges) -> #{node() => [part(Edges)]}.
edge(From, To, Ref) -> edge(From, To, Ref, {tuple, get, 2}).

edge(From, To, Ref, Tag) ->
    #{from => From, to => To, how => call, tag => Tag, ref => {Ref, 0, 0},
        site => {gen, do_call, 4}}.

%% Pids as they are in texts; no processes.
p(I) -> list_to_pid("<0." ++ integer_to_list(I) ++ ".0>").

there(I) ->
    <<131, Name/binary>> = term_to_binary('b@there'),
    binary_to_term(<<131, 88, Name/binary, I:32, 0:32, 1:32>>).

told(Name) -> told(Name, waiting, [{gen_server, loop, 7, []}]).

told(Name, Status, Stack) ->
    #{registered_name => Name, status => Status, stack => Stack, message_queue_len => 3,
        memory => 4096}.

text(Look) -> unicode:characters_to_list(flame_prof_waits_text:format(Look)).
first_line(Look) -> hd(string:split(text(Look), "\n")).
has(Part, Text) -> ?assertNotEqual({Part, nomatch}, {Part, string:find(Text, Part)}).

%% Deadlocks.

ring(Count) -> ring(Count, 0).
ring(Count, Of) -> [edge(p(I), p(I rem Count + 1), I + Of) || I <- lists:seq(1, Count)].

cycles_of_2_to_50_that_two_looks_have_are_deadlocks_test() ->
    [begin
        #{cycles := [Cycle], suspects := [], looks := 2, edges := Edges} =
            look(#{}, here(ring(Count)), #{}),
        ?assertEqual([p(I) || I <- lists:seq(1, Count)], lists:sort(Cycle)),
        %% Each waits for the next.
        ?assertEqual([], [F || {F, T} <- lists:zip(Cycle, tl(Cycle) ++ [hd(Cycle)]),
            not lists:any(fun(#{from := A, to := B}) -> {A, B} =:= {F, T} end, Edges)])
    end || Count <- lists:seq(2, 50)].

a_cycle_of_other_calls_in_the_second_look_is_no_deadlock_test() ->
    Parts = [part(ring(3, 100 * Look)) || Look <- lists:seq(1, 9)],
    ?assertMatch(#{cycles := [], suspects := [], looks := 3}, look(#{}, #{node() => Parts}, #{})).

a_cycle_that_has_one_other_call_is_no_deadlock_test() ->
    Parts = [part([edge(p(1), p(2), 1), edge(p(2), p(1), 100 + Look)]) || Look <- lists:seq(1, 9)],
    ?assertMatch(#{cycles := [], suspects := []}, look(#{}, #{node() => Parts}, #{})).

a_cycle_that_has_gone_is_not_told_test() ->
    Parts = [part(ring(3)), part([])],
    ?assertMatch(#{cycles := [], edges := [], looks := 2}, look(#{}, #{node() => Parts}, #{})).

a_cycle_with_a_monitor_is_a_suspect_test() ->
    [First | Rest] = ring(3),
    Look = look(#{}, here([First#{how := monitor} | Rest]), #{}),
    ?assertMatch(#{cycles := [], suspects := [#{edges := [_, _, _]}]}, Look),
    has("perhaps deadlocked", first_line(Look)),
    has("a receive of the program", text(Look)).

calls_without_references_are_a_suspect_test() ->
    Weak = [Edge#{ref := none} || Edge <- ring(3)],
    Look = look(#{}, here(Weak), #{}),
    ?assertMatch(#{cycles := [], suspects := [_]}, Look),
    has("the two looks may have seen different calls", text(Look)).

a_request_that_is_not_found_at_its_server_makes_a_suspect_test() ->
    Edges = here([edge(p(1), p(2), 1), edge(p(2), p(1), 2)]),
    Proven = fun(Is) -> #{proven => fun(#{from := From}) -> Is(From) end} end,
    ?assertMatch(#{cycles := [_], suspects := []}, look(#{}, Edges, Proven(fun(_) -> true end))),
    [begin
        Look = look(#{}, Edges, Proven(Is)),
        ?assertMatch(#{cycles := [], suspects := [_]}, Look),
        has("may have passed a request on", text(Look))
    end
     || Is <- [fun(_) -> false end, fun(From) -> From =:= p(1) end]].

two_rings() ->
    [edge(p(1), p(2), 1), edge(p(2), p(1), 2), edge(p(3), p(4), 3), edge(p(4), p(3), 4)].

a_cycle_without_time_to_check_it_is_counted_and_reported_test() ->
    Late = #{late => fun(#{from := From}, _) -> From =:= p(4) end},
    Look = look(#{}, here(two_rings()), Late),
    ?assertMatch(#{cycles := [[_, _]], unchecked := 1, looks := 3,
        suspects := [#{checked := false, edges := [_, _]}]}, Look),
    has(". There was no time to check 1 cycle that is perhaps a deadlock.", first_line(Look)),
    has("its requests were not searched at their servers in time", text(Look)),
    Json = iolist_to_binary(flame_prof_json:encode(flame_prof_waits_text:json(Look))),
    [?assertNotEqual({Part, nomatch}, {Part, binary:match(Json, Part)})
        || Part <- [<<"\"unchecked\":1">>, <<"\"checked\":false">>]].

%% One request is not at its server: no time makes this a deadlock.
a_cycle_that_is_refuted_in_part_was_checked_test() ->
    Told = #{late => fun(#{from := From}, _) -> From =:= p(4) end,
        proven => fun(#{from := From}) -> From =/= p(3) end},
    ?assertMatch(#{cycles := [_], unchecked := 0, suspects := [#{checked := true}]},
        look(#{}, here(two_rings()), Told)).

what_was_late_in_one_look_is_proven_in_the_next_test() ->
    Late = #{late => fun(#{from := From}, Number) -> Number =:= 1 andalso From =/= p(1) end},
    ?assertMatch(#{cycles := [_, _], suspects := [], unchecked := 0, looks := 3},
        look(#{}, here(two_rings()), Late)).

a_node_that_does_not_prove_in_time_leaves_its_cycles_unchecked_test() ->
    ?assertMatch(#{cycles := [], unchecked := 2, suspects := [_, _]},
        look(#{}, here(two_rings()), #{proof => error})).

%% The look before has another call of 1; what was read then is of that one.
what_was_proven_of_another_call_proves_nothing_test() ->
    Back = edge(p(2), p(1), 2),
    Parts = [part([edge(p(1), p(2), 1), Back]), part([edge(p(1), p(2), 3), Back])],
    Proven = #{proven => fun(#{ref := Ref}) -> Ref =/= {3, 0, 0} end},
    ?assertMatch(#{cycles := [], suspects := [_], looks := 3},
        look(#{}, #{node() => Parts}, Proven)).

a_cycle_of_starts_and_receives_needs_its_proof_test() ->
    Start = maps:merge(edge(p(1), p(2), 1), #{how => start, ref => none}),
    Own = (edge(p(2), p(1), 2))#{how := monitor_only},
    None = #{proven => fun(_) -> false end},
    ?assertMatch(#{cycles := [_]}, look(#{}, here([Start, edge(p(2), p(1), 2)]), #{})),
    ?assertMatch(#{cycles := [], suspects := [_]},
        look(#{}, here([Start, edge(p(2), p(1), 2)]), None)),
    ?assertMatch(#{cycles := [], suspects := [_]}, look(#{}, here([Start, Own]), None)).

a_process_that_calls_itself_is_told_so_test() ->
    Look = look(#{}, here([edge(p(1), p(1), 1)]), #{p(1) => told(a)}),
    ?assertEqual("1 process is deadlocked: a <0.1.0> waits for itself.", first_line(Look)),
    Maybe = look(#{}, here([edge(p(1), p(1), 1)]), #{proven => fun(_) -> false end}),
    ?assertEqual("1 process is perhaps deadlocked: <0.1.0> seems to wait for itself.",
        first_line(Maybe)).

a_server_named_lock_is_no_global_lock_test() ->
    Look = look(#{}, here([edge(p(1), {lock, 'c@far'}, 1)]), #{}),
    ?assertEqual("1 process waits for lock of c@far, which is on c@far, which was not asked "
        "(nodes).", first_line(Look)).

%% Times.

an_edge_of_all_looks_has_the_time_between_them_test() ->
    Edges = [edge(p(1), p(2), 1)],
    #{edges := [#{since_ms := Ms}], looks := Looks} = look(#{for => 200}, here(Edges), #{}),
    ?assert(Looks >= 2),
    ?assert(Ms > 0),
    #{edges := [Edge], looks := 1} = look(#{}, here(Edges), #{}),
    ?assertNot(is_map_key(since_ms, Edge)).

%% Other nodes.

a_chain_goes_on_at_the_other_node_test() ->
    Nodes = #{node() => [part([edge(p(1), there(5), 1)])],
        'b@there' => [part([edge(there(5), there(6), 2)])]},
    #{roots := [#{process := Root, all := 2}]} = Look = look(#{nodes => ['b@there']}, Nodes, #{
        there(6) => told(far, running, [{far, work, 1, []}])}),
    ?assertEqual(there(6), Root),
    ?assertEqual("2 processes wait, directly or through others, for far b@there/<0.6.0>, which "
        "runs "
        "far:work/1.", first_line(Look)).

a_deadlock_of_two_nodes_is_found_test() ->
    Nodes = #{node() => [part([edge(p(1), there(5), 1)])],
        'b@there' => [part([edge(there(5), p(1), 2)])]},
    #{cycles := [[_, _]]} = look(#{nodes => ['b@there']}, Nodes, #{}).

a_node_that_was_not_asked_ends_the_chain_test() ->
    #{roots := [#{process := Root}]} = Look = look(#{}, here([edge(p(1), there(5), 1)]), #{}),
    ?assertEqual(there(5), Root),
    has("is on b@there, which was not asked", first_line(Look)).

a_node_that_does_not_answer_is_missing_test() ->
    Nodes = (here([]))#{'b@there' => {error, <<"no answer in time">>}},
    Look = look(#{nodes => ['b@there']}, Nodes, #{}),
    ?assertMatch(#{missing := #{'b@there' := <<"no answer in time">>}}, Look),
    has("b@there was not asked: no answer in time", text(Look)).

%% It would take its time at each look.
a_node_that_has_not_answered_is_not_asked_again_test() ->
    Test = self(),
    Nodes = #{node() => [part([])], 'b@there' => {error, <<"no answer in time">>}},
    Ask = fun(Requests) ->
        _ = [Test ! asked || {'b@there', _} <- Requests],
        [{Node, answer(Request, maps:get(Node, Nodes), 1, #{})} || {Node, Request} <- Requests]
    end,
    {ok, #{looks := Looks, missing := #{'b@there' := _}}} =
        flame_prof_waits:look(#{nodes => ['b@there'], for => 300}, Ask),
    ?assert(Looks > 1),
    receive asked -> ok end,
    receive asked -> error(asked_again) after 0 -> ok end.

a_name_is_its_process_test() ->
    #{edges := [#{to := Init}]} = look(#{}, here([edge(p(1), {init, node()}, 1)]), #{}),
    ?assertEqual(whereis(init), Init).

%% Of one process.

the_chain_of_one_process_test() ->
    Edges = [edge(self(), p(2), 1, {atom, get}), edge(p(2), p(3), 2), edge(p(4), self(), 3),
        edge(p(8), p(9), 4)],
    Told = #{p(3) => told(store, running, [{store, scan, 2, []}]), p(2) => told(cart)},
    Look = look(#{process => self()}, here(Edges), Told),
    ?assertMatch(#{roots := [], edges := [_, _], chain := #{all := 1, ends := {root, _}}}, Look),
    Self = pid_to_list(self()),
    has(Self ++ " waits, through 1 other process, for store <0.3.0>, which runs store:scan/2.",
        first_line(Look)),
    has("  waits for cart <0.2.0>: call get\n    waits for store <0.3.0>: call {get,_}\n",
        text(Look)),
    has("waiting for " ++ Self ++ ", directly or through others: 1\n  <0.4.0>: call {get,_}\n",
        text(Look)),
    Idle = look(#{process => self()}, here([edge(p(8), p(9), 4)]), #{self() => told(me)}),
    ?assertEqual("me " ++ Self ++ " waits for no other process: it is idle.", first_line(Idle)).

options_that_are_wrong_are_refused_with_what_is_accepted_test_() ->
    [{Text, fun() ->
        {error, Reason} = flame_prof:waits(Given),
        has(Text, unicode:characters_to_list(flame_prof:format_error(Reason)))
    end}
     || {Given, Text} <- [
            {#{nix => 1}, "no such option; there are: process, for, top, nodes, engine, edges,"},
            {#{for => -1}, "whole milliseconds from 0 to 60000"},
            {#{process => {a, b}}, "a registered name"},
            {{a, b}, "a registered name"},
            {undefined, "a registered name"},
            {waits_nobody, "there is no process waits_nobody"},
            {#{nodes => [1]}, "a list of nodes, or connected"},
            {#{nodes => [a | b]}, "a list of nodes, or connected"},
            {#{engine => fast}, "auto, native or portable"}]].

%% As the command sends them.
names_that_the_node_does_not_know_make_no_atoms_test() ->
    Name = <<"waits_nobody_", (integer_to_binary(erlang:unique_integer([positive])))/binary>>,
    ?assertMatch({error, {process, _}}, flame_prof_waits:page(#{process => Name}, text)),
    ?assertMatch({error, {badarg, #{argument := nodes}}},
        flame_prof_waits:page(#{nodes => [<<Name/binary, "@h">>]}, text)),
    ?assertError(badarg, binary_to_existing_atom(Name)),
    ?assertError(badarg, binary_to_existing_atom(<<Name/binary, "@h">>)),
    ?assertMatch({ok, _}, flame_prof_waits:page(#{process => <<"init">>}, text)).

%% Tags, names and pids.

tags_have_no_values_test() ->
    Tag = fun(T) -> unicode:characters_to_list(flame_prof_waits_text:tag(T)) end,
    ?assertEqual("get", Tag({atom, get})),
    ?assertEqual("{get}", Tag({tuple, get, 1})),
    ?assertEqual("{get,_,_}", Tag({tuple, get, 3})),
    ?assertEqual("{get,_,_,_,_,_}", Tag({tuple, get, 6})),
    ?assertEqual("{get,_,...}", Tag({tuple, get, 7})),
    ?assertEqual("_", Tag(other)),
    ?assertEqual("'a b'", Tag({atom, 'a b'})).

%% The page.

a_page_begins_with_what_is_the_matter_test() ->
    ?assertEqual("No process waits for another one.", first_line(look(#{}, here([]), #{}))),
    One = look(#{}, here([edge(p(1), p(2), 1)]), #{p(2) => told(store, suspended, [])}),
    ?assertEqual("1 process waits for store <0.2.0>, which is suspended.", first_line(One)),
    Port = (edge(p(2), port, 2))#{how := port},
    Sleeps = look(#{}, here([edge(p(1), p(2), 1), Port]), #{}),
    ?assertEqual("1 process waits for <0.2.0>, which waits for a port.", first_line(Sleeps)),
    Idle = look(#{}, here([edge(p(1), p(2), 1)]), #{p(2) => told('Elixir.Shop.Cart')}),
    ?assertEqual("1 process waits for Shop.Cart <0.2.0>, which waits for its next message; "
        "another process replies for it, or has just replied.", first_line(Idle)),
    Two = look(#{}, here(ring(2) ++ [edge(p(5), p(1), 9)]), #{p(1) => told(a), p(2) => told(b)}),
    ?assertEqual("2 processes are deadlocked: a <0.1.0> and b <0.2.0> wait for each other; 1 "
        "process "
        "more waits for them.", first_line(Two)).

a_page_is_as_written_here_test() ->
    Waiters = [edge(p(I), p(10), I) || I <- lists:seq(11, 30)] ++
        [edge(p(I), p(11), I, {atom, checkout}) || I <- lists:seq(40, 44)],
    Edges = ring(3) ++ [edge(p(5), p(1), 9)] ++ Waiters ++ [edge(p(60), {lock, global, shop}, 60)],
    Told = #{p(1) => told(a), p(2) => told(b), p(3) => told(c),
        p(10) => (told(order_store, running, [
            {bif, {ets, lookup, 2}}, {order_store, scan, 2, [{file, "order_store.erl"}, {line, 12}]}
        ]))#{serves => #{kind => call, tag => {tuple, get, 2}, ref => none, from => p(11)},
            message_queue_len := 19},
        p(11) => maps:remove(registered_name, (told(x))#{proc_lib_initial_call => {cart, init, 1}})
    },
    Part = part(Edges, #{idle => 60, unknown => 2, moved => 1}, #{{my_mod, loop, 1} => 2}),
    #{deadlocks := [Deadlock]} = Look = look(#{}, #{node() => [Part]}, Told),
    %% Times differ from run to run.
    Untimed = Look#{deadlocks := [Deadlock#{edges := ring(3)}]},
    Node = case node() of nonode@nohost -> ""; Name -> " of " ++ atom_to_list(Name) end,
    ?assertEqual(
        "3 processes are deadlocked: a <0.1.0>, b <0.2.0> and c <0.3.0> wait for each other; "
        "1 process more waits for them.\n"
        "\n"
        "Deadlock of 3 processes\n"
        "  a <0.1.0> waits for b <0.2.0>: call {get,_}\n"
        "  b <0.2.0> waits for c <0.3.0>: call {get,_}\n"
        "  c <0.3.0> waits for a <0.1.0>: call {get,_}\n"
        "  waiting for these, directly or through others: 1\n"
        "    <0.5.0>: call {get,_}\n"
        "\n"
        "order_store <0.10.0>: 25 processes wait for it, 20 directly\n"
        "    it runs ets:lookup/2\n"
        "    19 messages, 4 KB\n"
        "    in work: call:{get,_} of cart:init/1 <0.11.0>\n"
        "      ets:lookup/2 (bif)\n"
        "      order_store:scan/2 (order_store.erl:12)\n"
        "  cart:init/1 <0.11.0>: call {get,_}; 5 wait for it\n"
        "    <0.40.0>: call checkout\n"
        "    <0.41.0>: call checkout\n"
        "    <0.42.0>: call checkout\n"
        "    <0.43.0>: call checkout\n"
        "    ... and 1 more\n"
        "  <0.12.0>: call {get,_}\n"
        "  <0.13.0>: call {get,_}\n"
        "  <0.14.0>: call {get,_}\n"
        "  <0.15.0>: call {get,_}\n"
        "  <0.16.0>: call {get,_}\n"
        "  <0.17.0>: call {get,_}\n"
        "  <0.18.0>: call {get,_}\n"
        "  ... and 12 more\n"
        "\n"
        "the global lock shop: 1 process waits for it\n"
        "    it is held by an unknown process\n"
        "  <0.60.0>: call {get,_}\n"
        "\n"
        "Of 100 processes" ++ Node ++ "\n"
        "       30 waiting for another process\n"
        "       60 idle: waiting for any message\n"
        "        2 waiting in a receive that could not be read\n"
        "        1 left out: changed while they were read\n"
        "Receives that could not be read\n"
        "        2 my_mod:loop/1\n",
        re:replace(text(Untimed), ", for \\d+\\.\\d s or more", "", [global, {return, list}])).

a_deadlock_of_50_is_a_short_page_test() ->
    Text = text(look(#{}, here(ring(50)), #{})),
    has("50 processes are deadlocked: <0.1.0>, <0.2.0>, <0.3.0> and 47 more", Text),
    has("  ... and 38 more\n", Text),
    ?assert(length(string:split(Text, "\n", all)) < 25).

%% JSON.

a_look_as_json_test() ->
    Edges = [edge(p(1), there(5), 1), edge(p(2), p(1), 258, unknown)],
    Look = look(#{}, here(Edges ++ [edge(p(7), p(8), 7)]), #{p(8) => told(eight)}),
    Json = unicode:characters_to_list(flame_prof_json:encode(flame_prof_waits_text:json(Look))),
    has("\"from\":\"<0.1.0>\",\"how\":\"call\",\"ref\":\"0.0.1\",\"site\":\"gen:do_call/4\","
        "\"tag\":\"{get,_}\",\"to\":\"b@there/<0.5.0>\"", Json),
    has("\"tag\":null", Json),
    has("\"more_roots\":0", Json),
    has("\"<0.8.0>\":{", Json),
    has("\"registered_name\":\"eight\"", Json).

%% The portable engine, and one process at a time.

portable(Pid) -> flame_prof_waits_portable:part([Pid], 5000).

a_caller_with_one_monitor_is_known_test() ->
    Server = waits_work:start(),
    Caller = waits_work:caller(Server, {pass, []}),
    Site = {gen, do_call, 4},
    ?assertMatch(
        #{edges := [#{from := Caller, to := Server, how := call, ref := none, site := Site}],
            counts := #{processes := 1, waiting := 1, unknown := 0}},
        portable(Caller)),
    waits_work:stop([Caller, Server]).

a_caller_with_two_monitors_is_not_known_test() ->
    Server = waits_work:start(),
    Test = self(),
    Caller = spawn(fun() ->
        _ = monitor(process, Test),
        gen_server:call(Server, {pass, []}, infinity)
    end),
    waiting:eventually(fun() ->
        {current_function, {gen, do_call, 4}} =:= erlang:process_info(Caller, current_function)
    end),
    ?assertMatch(#{edges := [], unknown := #{{gen, do_call, 4} := 1}}, portable(Caller)),
    waits_work:stop([Caller, Server]).

what_a_process_does_is_counted_test() ->
    Server = waits_work:start(),
    Sleeper = spawn(fun() -> timer:sleep(infinity) end),
    waiting:eventually(fun() ->
        {current_function, {timer, sleep, 1}} =:= erlang:process_info(Sleeper, current_function)
    end),
    ?assertMatch(#{edges := [#{to := timer}]}, portable(Sleeper)),
    ?assertMatch(#{edges := [], counts := #{idle := 1}}, portable(Server)),
    waits_work:stop([Server, Sleeper]),
    ?assertMatch(#{counts := #{exited := 1, waiting := 0}}, portable(Server)).

what_there_is_no_time_for_is_counted_test() ->
    ?assertMatch(#{counts := #{processes := 2, not_asked := 2}},
        flame_prof_waits_portable:part([whereis(init), whereis(kernel_sup)], 0)).

%% It is in a BIF that keeps its scheduler, of which there have to be others.
a_process_that_does_not_answer_holds_up_no_other_test_() ->
    case erlang:system_info(schedulers_online) of
        1 -> {"skipped: one scheduler", []};
        _ -> {timeout, 60, fun does_not_answer/0}
    end.

does_not_answer() ->
    _ = erts_debug:set_internal_state(available_internal_state, true),
    Previous = process_flag(scheduler, 1),
    Test = self(),
    Pid = spawn_opt(fun() ->
        Test ! blocks,
        erts_debug:set_internal_state(block_scheduler, 3000)
    end, [{scheduler, 2}]),
    receive blocks -> ok end,
    %% Until it is in the BIF; to ask it would be to wait.
    timer:sleep(100),
    %% What has run on the blocked scheduler may wait for it.
    {ok, Idle} = gen_event:start([{spawn_opt, [{scheduler, 1}]}]),
    Asked = [Pid, Idle],
    ?assertMatch(#{counts := #{no_answer := 1, idle := 1, not_asked := 0}},
        flame_prof_waits_portable:part(Asked, 5000)),
    ?assertEqual([Idle], maps:keys(flame_prof_waits_portable:told(Asked))),
    ok = gen_event:stop(Idle),
    waits_work:stop([Pid]),
    _ = process_flag(scheduler, Previous),
    %% What came too late is not in the mailbox.
    ?assertEqual({messages, []}, erlang:process_info(self(), messages)).

%% A node may have any number of edges; who asks over the network gets some, and how many there are.
json_has_as_many_edges_as_are_wanted_test() ->
    Server = spawn(fun() -> receive never -> ok end end),
    Callers = [spawn(fun() -> catch gen_server:call(Server, get, infinity) end) || _ <- [1, 2, 3]],
    waiting:eventually(fun() ->
        {ok, [All, Some]} = flame_prof_waits:pages(#{engine => portable}, [json, {json, 1}]),
        {ok, #{<<"edges">> := Edges}} = flame_prof_json_reader:decode(All),
        {ok, #{<<"edges">> := Fewer, <<"more_edges">> := More}} =
            flame_prof_json_reader:decode(Some),
        length(Edges) >= 3 andalso length(Fewer) =:= 1 andalso More =:= length(Edges) - 1
    end),
    [exit(Pid, kill) || Pid <- [Server | Callers]].
