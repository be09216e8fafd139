%% Processes that wait for one another: what waits says of them, natively, by the portable engine,
%% of two nodes, and on the command line.
-module(flame_prof_waits_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, groups/0, init_per_suite/1, end_per_suite/1, init_per_group/2,
    end_per_group/2, end_per_testcase/2, deadlocks_of_2_3_and_50_are_told/1,
    servers_that_work_have_no_deadlock_and_no_false_edge/1,
    a_call_that_was_given_on_is_no_deadlock/1,
    a_call_that_was_given_on_before_a_continue_is_no_deadlock/1,
    a_server_that_a_request_waits_for_in_work_is_deadlocked/1, probes_end_with_their_driver/1,
    three_hundred_deadlocks_are_proven_or_counted/1,
    a_chain_ends_at_its_root/1, a_call_by_name_leads_to_its_process/1,
    a_receive_on_a_monitor_leads_to_its_process/1, what_waits_for_no_process_is_counted/1,
    ten_thousand_callers_are_all_named/1,
    the_portable_engine_knows_callers_and_suspects_deadlocks/1,
    a_chain_goes_on_at_another_node/1, a_node_without_flame_prof_is_missing/1,
    the_command_line_prints_a_deadlock/1]).
%% On other nodes.
-export([deadlock_of_three/0, remote_server/0]).

-import(command_line, [run/1, call/4, cookie/0]).

suite() -> [{timetrap, {minutes, 2}}].
all() -> [{group, native}, {group, everywhere}].

groups() ->
    Everywhere = [the_portable_engine_knows_callers_and_suspects_deadlocks,
        a_chain_goes_on_at_another_node, a_node_without_flame_prof_is_missing],
    [{native, [], suite_cases:list(?MODULE, []) -- Everywhere}, {everywhere, [], Everywhere}].

init_per_suite(Config) ->
    ok = command_line:is_distributed(),
    Config.

end_per_suite(_) -> ok.

init_per_group(native, Config) ->
    case native_node:why_not() of
        none -> ok = waits_work:know_sites(), Config;
        Why -> {skip, Why}
    end;
init_per_group(_, Config) -> Config.

end_per_group(_, _) -> ok.

%% What a test that failed has left would be in the looks of the next ones.
end_per_testcase(_, _) -> waits_work:stop_all().

look() -> look(#{}).

look(Options) ->
    {ok, Look} = flame_prof_waits:look(Options),
    Look.

edges_of(Pid, #{edges := Edges}) -> [Edge || #{from := From} = Edge <- Edges, From =:= Pid].

%% Deadlocks.

deadlocks_of_2_3_and_50_are_told(_) ->
    Rings = [waits_work:deadlock(Count) || Count <- [2, 3, 50]],
    #{cycles := Cycles, suspects := [], deadlocks := Deadlocks} = look(),
    ?assertEqual(lists:sort([lists:sort(Ring) || Ring <- Rings]),
        lists:sort([lists:sort(Cycle) || Cycle <- Cycles])),
    %% In the order of waiting, which is that in which they were started.
    [?assertEqual(next(From, Ring), To) || #{edges := Edges} <- Deadlocks,
        #{from := From, to := To, tag := {tuple, lock, 3}} <- Edges,
        Ring <- Rings, lists:member(From, Ring)],
    {ok, Text} = flame_prof_waits:page(#{}, text),
    ?assertNotEqual(nomatch, binary:match(Text, <<"Deadlock of 50 processes">>)),
    %% Of a request only the tag is read.
    {ok, Json} = flame_prof_waits:page(#{}, json),
    [?assertEqual(nomatch, binary:match(Said, <<"secret">>)) || Said <- [Text, Json]],
    ok = waits_work:stop(lists:append(Rings)),
    ?assertMatch(#{cycles := [], suspects := []}, look()).

next(From, Ring) ->
    case lists:dropwhile(fun(Pid) -> Pid =/= From end, Ring) of
        [From, To | _] -> To;
        [From] -> hd(Ring)
    end.

%% Many more looks: waits_proof_SUITE.
servers_that_work_have_no_deadlock_and_no_false_edge(_) ->
    ?assertMatch(#{wrong := []}, waits_work:false_edges(10)).

%% One has called two, which has given the call to this process, and has called one. A message of
%% another process in its queue is no sign that it has the call still.
a_call_that_was_given_on_is_no_deadlock(_) ->
    [given_on(fun(Two, One) -> gen_server:cast(Two, {call, One, get}) end, {give_to, self()}, More)
        || More <- [fun(_) -> ok end, fun(Two) -> gen_server:cast(Two, other) end]].

a_call_that_was_given_on_before_a_continue_is_no_deadlock(_) ->
    given_on(fun(_, _) -> ok end, fun(One) -> {give_to, self(), One} end, fun(_) -> ok end).

given_on(Then, Request, More) ->
    [One, Two] = Servers = [waits_work:start(), waits_work:start()],
    Give = case Request of _ when is_function(Request) -> Request(One); _ -> Request end,
    ok = gen_server:cast(One, {call, Two, Give}),
    From = receive {answer, F} -> F end,
    ok = Then(Two, One),
    ok = waits_work:all_in_calls(Servers),
    ok = More(Two),
    Look = look(),
    ?assertMatch(#{cycles := [], suspects := [#{edges := [_, _]}]}, Look),
    %% It is none.
    gen_server:reply(From, ok),
    waiting:eventually(fun() -> edges_of(Two, look()) =:= [] end),
    ok = waits_work:stop(Servers).

%% One calls two in a cast, two calls one in handle_call: the first call is in work, the second
%% one is in the queue.
a_server_that_a_request_waits_for_in_work_is_deadlocked(_) ->
    Servers = [One, Two] = [waits_work:start(), waits_work:start()],
    ok = gen_server:cast(One, {call, Two, {pass, [One]}}),
    ok = waits_work:all_in_calls(Servers),
    ?assertMatch(#{cycles := [[_, _]], suspects := []}, look()),
    ok = waits_work:stop(Servers).

%% A busy node may have no time to prove all of them: none is a suspect for another reason.
three_hundred_deadlocks_are_proven_or_counted(_) ->
    Rings = [waits_work:deadlock(2) || _ <- lists:seq(1, 300)],
    #{cycles := Cycles, suspects := Suspects, unchecked := Unchecked} = look(),
    ?assertEqual({300, Unchecked}, {length(Cycles) + Unchecked, length(Suspects)}),
    Maybe = [[From || #{from := From} <- Edges] || #{edges := Edges, checked := false} <- Suspects],
    ?assertEqual(lists:sort([lists:sort(Ring) || Ring <- Rings]),
        lists:sort([lists:sort(Ring) || Ring <- Cycles ++ Maybe])),
    ok = waits_work:stop(lists:append(Rings)).

%% However it ends, none stays, not those that trap exits nor those that start others.
probes_end_with_their_driver(_) ->
    [begin
        Driver = spawn(fun() -> flame_prof_wait_sites:drive() end),
        waiting:eventually(fun() -> links(Driver) > Least end),
        true = exit(Driver, kill),
        waiting:eventually(fun() -> probes() =:= [] end)
    end || Least <- [3, 60, 120]].

links(Pid) ->
    case process_info(Pid, links) of {links, Links} -> length(Links); undefined -> 1000 end.

probes() ->
    Uses = fun(Pid) ->
        case process_info(Pid, [current_stacktrace, dictionary]) of
            undefined -> false;
            Found -> string:find(io_lib:format("~0p", [Found]), "flame_prof_wait_") =/= nomatch
        end
    end,
    [Pid || Pid <- processes(), Pid =/= self(), Uses(Pid)].

%% Chains.

a_chain_ends_at_its_root(_) ->
    Servers = [waits_work:start() || _ <- lists:seq(1, 4)],
    Last = lists:last(Servers),
    true = register(waits_store, Last),
    Caller = waits_work:chain(Servers),
    More = [waits_work:caller(hd(Servers), {get, 1}) || _ <- lists:seq(1, 20)],
    #{roots := Roots} = Look = look(#{top => 1000}),
    [#{all := 24, direct := 1}] = [Root || #{process := Pid} = Root <- Roots, Pid =:= Last],
    #{processes := #{Last := #{serves := Serves, registered_name := waits_store}}} = Look,
    %% From OTP 27 on the module stands in no slot of the frame.
    #{module := Module} = Serves,
    ?assert(lists:member(Module, [waits_work, none])),
    ?assertMatch(#{kind := call, tag := {tuple, pass, 2}}, Serves),
    ?assertEqual(lists:nth(3, Servers), maps:get(from, Serves)),
    #{chain := #{edges := Edges, ends := {root, Last}}} = look(#{process => Caller}),
    ?assertEqual([Caller | lists:droplast(Servers)], [From || #{from := From} <- Edges]),
    #{chain := #{all := 23, edges := [_]}} = look(#{process => lists:nth(3, Servers)}),
    ok = waits_work:stop(More ++ [Caller | Servers]).

a_call_by_name_leads_to_its_process(_) ->
    Server = waits_work:start(waits_named),
    yes = global:register_name(waits_global, Server),
    [begin
        Caller = waits_work:caller(Name, {pass, []}),
        ?assertMatch([#{to := Server, how := call}], edges_of(Caller, look())),
        ok = waits_work:stop([Caller])
    end || Name <- [waits_named, {waits_named, node()}, {global, waits_global}]],
    ok = waits_work:stop([Server]).

a_receive_on_a_monitor_leads_to_its_process(_) ->
    Server = waits_work:start(),
    Waiter = spawn(fun() ->
        Monitor = monitor(process, Server),
        receive
            {Monitor, Answer} -> Answer;
            {'DOWN', Monitor, process, _, _} -> ok
        end
    end),
    waiting:eventually(fun() -> {status, waiting} =:= process_info(Waiter, status) end),
    [#{to := Server, how := How}] = edges_of(Waiter, look()),
    ?assert(lists:member(How, [monitor, monitor_only])),
    ok = waits_work:stop([Waiter, Server]).

what_waits_for_no_process_is_counted(_) ->
    {ok, Listen} = gen_tcp:listen(0, []),
    Accepts = spawn(fun() -> gen_tcp:accept(Listen) end),
    Sleeps = spawn(fun() -> timer:sleep(infinity) end),
    Server = waits_work:start(),
    Look = waiting:eventually(fun() ->
        Seen = look(),
        lists:all(fun(Pid) -> length(edges_of(Pid, Seen)) =:= 1 end, [Accepts, Sleeps]) andalso
            {true, Seen}
    end),
    ?assertMatch([#{how := timer, to := timer}], edges_of(Sleeps, Look)),
    ?assertMatch([#{how := port}], edges_of(Accepts, Look)),
    ?assertEqual([], edges_of(Server, Look)),
    #{counts := #{idle := Idle, timer := Timers}} = #{counts => maps:get(node(),
        maps:get(counts, Look))},
    ?assert(Idle > 0 andalso Timers > 0),
    ok = waits_work:stop([Accepts, Sleeps, Server]).

ten_thousand_callers_are_all_named(_) ->
    Servers = list_to_tuple([waits_work:start() || _ <- lists:seq(1, 100)]),
    Truth = [begin
        Server = element(1 + I rem 100, Servers),
        {spawn(fun() -> catch gen_server:call(Server, {pass, []}, infinity) end), Server}
    end || I <- lists:seq(1, 10000)],
    ok = waits_work:all_in_calls([Caller || {Caller, _} <- Truth]),
    #{edges := Edges, roots := Roots, more_roots := More} = look(),
    Seen = maps:from_list([{From, To} || #{from := From, to := To} <- Edges]),
    ?assertEqual([], [Caller || {Caller, Server} <- Truth, maps:get(Caller, Seen, 0) =/= Server]),
    ?assert(length(Roots) + More >= 100),
    ok = waits_work:stop(tuple_to_list(Servers)).

%% The portable engine.

the_portable_engine_knows_callers_and_suspects_deadlocks(_) ->
    Ring = waits_work:deadlock(3),
    Server = waits_work:start(),
    Caller = waits_work:caller(Server, {pass, []}),
    #{engine := portable, cycles := [], suspects := [#{edges := Edges}]} = Look =
        look(#{engine => portable}),
    ?assertEqual(lists:sort(Ring), lists:sort([From || #{from := From} <- Edges])),
    ?assertMatch([#{to := Server, how := call, tag := unknown, ref := none}],
        edges_of(Caller, Look)),
    {ok, Text} = flame_prof_waits:page(#{engine => portable}, text),
    ?assertNotEqual(nomatch, binary:match(Text, <<"perhaps deadlocked">>)),
    ok = waits_work:stop([Caller, Server | Ring]).

%% Other nodes.

with_node(Modules, Fun) ->
    Paths = lists:append([["-pa", filename:dirname(filename:absname(code:which(M)))]
        || M <- Modules]),
    #{node := There} = Node = command_line:start_node(Paths),
    try
        _ = [ok = call(There, waits_work, know_sites, []) || Modules =/= []],
        Fun(There, Node)
    after command_line:stop_node(Node)
    end.

remote_server() -> waits_work:start(far_store).
deadlock_of_three() -> length(waits_work:deadlock(3)).

a_chain_goes_on_at_another_node(_) ->
    with_node([flame_prof, ?MODULE], fun(There, _) ->
        Far = call(There, ?MODULE, remote_server, []),
        Next = call(There, waits_work, start, []),
        ok = gen_server:cast(Far, {call, Next, {pass, []}}),
        Caller = spawn(fun() -> gen_server:call({far_store, There}, get, infinity) end),
        Own = #{nodes => [There], process => Caller},
        waiting:eventually(fun() ->
            case look(Own) of
                #{chain := #{edges := [_, _], ends := {root, Next}}} -> true;
                _ -> false
            end
        end),
        #{chain := #{edges := [#{to := Far}, #{from := Far, to := Next}]}} = look(Own),
        %% Without the other node the chain ends there.
        #{chain := #{edges := [_], ends := {root, _}}} = look(maps:remove(nodes, Own)),
        {ok, Text} = flame_prof_waits:page(Own, text),
        ?assertNotEqual(nomatch, binary:match(Text, atom_to_binary(There))),
        ok = waits_work:stop([Caller])
    end).

a_node_without_flame_prof_is_missing(_) ->
    with_node([], fun(There, _) ->
        #{missing := #{There := Why}} = look(#{nodes => [There]}),
        ?assertNotEqual(nomatch, binary:match(Why, <<"no flame_prof">>)),
        ?assertEqual(false, call(There, code, is_loaded, [flame_prof_waits]))
    end),
    #{missing := #{nobody@nowhere := <<"it is not connected">>}} =
        look(#{nodes => [nobody@nowhere]}).

%% The command line.

the_command_line_prints_a_deadlock(_) ->
    with_node([flame_prof, ?MODULE], fun(There, #{name := Name}) ->
        3 = call(There, ?MODULE, deadlock_of_three, []),
        Far = call(There, ?MODULE, remote_server, []),
        Options = ["--cookie", cookie()],
        {0, Text} = run(["waits", Name | Options]),
        ?assertMatch({match, _}, re:run(Text, "3 processes are deadlocked: ")),
        ?assertMatch({match, _}, re:run(Text, "waits for .*: call {lock,_,_},.* in waits_work:")),
        {0, One} = run(["waits", Name, "far_store", "--for", "200ms" | Options]),
        ?assertMatch({match, _}, re:run(One, "far_store <0[.0-9]+> waits for no other process")),
        ?assertNotEqual(nomatch, string:find(One, "<0." ++ number(Far))),
        {0, Json} = run(["waits", Name, "--json" | Options]),
        ?assertMatch({match, _}, re:run(Json, "^{.*\"deadlocks\":\\[{.*}\\n$")),
        {1, Gone} = run(["waits", Name, "nobody_here" | Options]),
        ?assertMatch({match, _}, re:run(Gone, "there is no process nobody_here"))
    end).

%% As it is called at its node.
number(Pid) -> lists:nth(2, string:lexemes(pid_to_list(Pid), ".")).
