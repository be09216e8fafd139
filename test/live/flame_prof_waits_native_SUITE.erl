%% What processes wait for, as the native look tells it, against those who know: the
%% callee that holds the message, the process that has made the monitor, the VM. Storms of minutes,
%% and how many of many callers one look names: test/proof/waits_proof_SUITE.
-module(flame_prof_waits_native_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, end_per_testcase/2,
    the_sites_that_this_release_has_are_found/1, probes_leave_nothing/1,
    callers_are_told_with_callee_reference_and_tag/1,
    callers_by_name_and_to_another_node_are_told/1, sleepers_starters_ports_and_locks_are_told/1,
    a_lock_has_a_holder_where_no_other_node_can_have_it/1, idle_servers_are_counted_and_not_told/1,
    the_library_refuses_what_is_no_list_of_processes/1, monitor_trees_are_those_that_the_vm_tells/1,
    a_receive_by_hand_is_told_where_it_has_one_monitor/1,
    monitors_that_are_too_many_are_said_to_be_left/1,
    one_that_ran_when_its_turn_came_is_counted_when_it_waits/1,
    what_servers_have_in_work_is_told/1, without_its_site_a_caller_waits_for_something_unknown/1,
    a_module_that_is_loaded_anew_is_probed_anew/1,
    edges_beside_a_storm_are_those_of_the_callees/1]).
%% For a peer.
-export([listen/0]).
%% gen_server, gen_statem, gen_event.
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, handle_event/2, callback_mode/0,
    handle_event/4]).

suite() -> [{timetrap, {minutes, 2}}].
all() -> suite_cases:list(?MODULE, [init]).

init_per_suite(Config) ->
    case native_node:why_not() of
        none -> ok = waits_work:know_sites(), Config;
        Why -> {skip, Why}
    end.

end_per_suite(_Config) -> ok.

%% Linked to the case's process, which has ended.
end_per_testcase(_Case, _Config) -> ok.

%% The wait of one process, once it waits.
wait_of(Pid) ->
    waiting:found(fun() ->
        {ok, Waits, _} = looked([]),
        lists:keyfind(Pid, 1, Waits)
    end).

%% Without the address of each.
looked(Excluded) ->
    case flame_prof_looks_nif:waits_look(Excluded) of
        {ok, Waits, Counts} -> {ok, [erlang:delete_element(7, Wait) || Wait <- Waits], Counts};
        {error, _} = Error -> Error
    end.

waits_until(Pid, Is) ->
    waiting:found(fun() ->
        {ok, Waits, _} = looked([]),
        case lists:keyfind(Pid, 1, Waits) of false -> false; Wait -> Is(Wait) andalso Wait end
    end).

numbers(Ref) ->
    ["#Ref", "0" | Numbers] = string:lexemes(ref_to_list(Ref), "<.>"),
    [A, B, C | _] = lists:reverse(Numbers),
    {list_to_integer(A), list_to_integer(B), list_to_integer(C)}.

ref_of([alias | Ref]) -> numbers(Ref);
ref_of(Ref) -> numbers(Ref).

%% A server that answers nobody, and tells us what it gets.
mute() ->
    Self = self(),
    spawn_link(fun() -> mute(Self) end).

mute(To) ->
    receive
        Message ->
            To ! {self(), Message},
            mute(To)
    end.

got(Server) ->
    receive
        {Server, {io_request, Pid, Ref, Request}} -> {Pid, numbers(Ref), Request};
        {Server, {_, {Pid, Tag}, Request}} -> {Pid, ref_of(Tag), Request}
    end.

roles() ->
    {_, true, Sites} = flame_prof_looks_nif:wait_sites(),
    lists:usort([{Mfa, Role} || {Mfa, Roles, _, _} <- Sites, {Role, _} <- Roles]).

%% By function and role: what no release may be without.
the_sites_that_this_release_has_are_found(_Config) ->
    Roles = roles(),
    ct:log("~p", [Roles]),
    Has = fun(Module, Function, Role) ->
        lists:any(fun
            ({{M, F, _}, R}) -> {M, F, R} =:= {Module, Function, Role};
            (_) -> false
        end, Roles)
    end,
    Wanted = [{gen, do_call, call}, {gen, receive_response, call}, {gen, wait_response, call},
        {gen_server, call, request}, {gen_server, loop, loop}, {gen_event, fetch_msg, loop},
        {gen_server, handle_msg, serves}, {gen_server, handle_msg, from},
        {gen_server, handle_msg, message}, {gen_statem, loop_state_callback, queue},
        {gen_event, server_update, event}, {timer, sleep, timer}, {proc_lib, sync_start, start},
        {prim_inet, accept0, port}, {prim_inet, recv0, port}, {global, set_lock, lock},
        {io, execute_request, call}, {sys, send_system_msg, request}],
    ?assertEqual([], [W || {M, F, R} = W <- Wanted, not Has(M, F, R)]),
    %% Its function has other names from 28 on.
    ?assert(lists:any(fun({Mfa, R}) -> R =:= loop andalso element(1, Mfa) =:= gen_statem end,
        [{Mfa, R} || {Mfa, R} <- Roles, Mfa =/= none])),
    {_, _, Sites} = flame_prof_looks_nif:wait_sites(),
    %% With and without time-out.
    ?assertEqual(2, length([x || {{gen, do_call, 4}, _, _, _} <- Sites])).

probes_leave_nothing(_Config) ->
    Now = fun() -> processes() ++ erlang:ports() ++ registered() end,
    Before = Now(),
    Rows = found_sites(),
    waiting:eventually(fun() -> Now() -- Before =:= [] end),
    ?assertEqual(Rows, found_sites()).

%% Probes have limits of time, and one that is late on a busy machine refuses all.
found_sites() ->
    waiting:eventually(fun() ->
        case flame_prof_wait_sites:find() of {ok, Rows} -> {true, Rows}; Late -> Late end
    end).

callers_are_told_with_callee_reference_and_tag(_Config) ->
    Calls = [{fun(S, R) -> gen_server:call(S, R) end, true},
        {fun(S, R) -> gen_server:call(S, R, infinity) end, true},
        {fun(S, R) -> gen_statem:call(S, R, 60000) end, true},
        {fun(S, R) -> gen_statem:call(S, R, infinity) end, true},
        {fun(S, R) -> gen:call(S, '$gen_call', R, infinity) end, false},
        {fun(S, R) -> gen_event:call(S, handler, R) end, false},
        {fun(S, R) ->
            gen_server:receive_response(gen_server:send_request(S, R), infinity)
        end, false},
        {fun(S, R) -> gen_server:wait_response(gen_server:send_request(S, R), 60000) end, false},
        {fun(S, R) -> io:request(S, R) end, false}],
    Requests = [
        {{put, a, b}, {tuple, put, 3}}, {flush, {atom, flush}}, {[1, 2], other}, {{1}, other}],
    [begin
        Server = mute(),
        Pid = spawn_link(fun() -> Call(Server, Request) end),
        {Pid, Ref, _} = got(Server),
        {Pid, How, Target, Told, Of, {_, _, _}} = wait_of(Pid),
        ?assertEqual({call, Server, Ref}, {How, Target, Told}),
        ?assert(lists:member(Of, [Tag | [unknown || not HasTag]])),
        unlink(Pid),
        exit(Pid, kill)
    end || {Call, HasTag} <- Calls, {Request, Tag} <- Requests].

callers_by_name_and_to_another_node_are_told(_Config) ->
    Server = mute(),
    true = register(a_mute_server, Server),
    Local = spawn_link(fun() -> gen_server:call({a_mute_server, node()}, get) end),
    {Local, Ref, _} = got(Server),
    ?assertMatch({_, call, Server, Ref, {atom, get}, _}, wait_of(Local)),
    case start_peer() of
        {ok, Peer, Node} ->
            try
                Remote = rpc:call(Node, ?MODULE, listen, []),
                ByPid = spawn(fun() -> catch gen_server:call(Remote, {get, 1}, infinity) end),
                ByName = spawn(fun() -> catch gen_server:call({a_listener, Node}, {get, 1}) end),
                {_, call, ByPidTarget, {_, _, _}, {tuple, get, 2}, _} =
                    waits_until(ByPid, fun(W) -> element(3, W) =/= none end),
                ["<" ++ _, Number, Serial] = string:lexemes(pid_to_list(Remote), ".>"),
                ?assertMatch({remote, Node, _, _, _}, ByPidTarget),
                ?assertEqual({list_to_integer(Number), list_to_integer(Serial)},
                    {element(3, ByPidTarget), element(4, ByPidTarget)}),
                ?assertMatch({_, call, {a_listener, Node}, {_, _, _}, {tuple, get, 2}, _},
                    waits_until(ByName, fun(W) -> element(3, W) =/= none end))
            after peer:stop(Peer)
            end;
        {error, Why} -> {comment, "no other node here: " ++ Why}
    end.

start_peer() ->
    case is_alive() of
        true ->
            {ok, Peer, Node} = peer:start_link(#{
                name => peer:random_name(), args => ["-pa" | code:get_path()]}),
            {ok, Peer, Node};
        false ->
            Name = list_to_atom("waits_" ++ os:getpid()),
            case net_kernel:start(Name, #{name_domain => shortnames}) of
                {ok, _} -> start_peer();
                {error, Reason} -> {error, lists:flatten(io_lib:format("~tp", [Reason]))}
            end
    end.

listen() ->
    Pid = spawn(fun() -> receive never -> ok end end),
    register(a_listener, Pid),
    Pid.

sleepers_starters_ports_and_locks_are_told(_Config) ->
    Self = self(),
    Sleeper = spawn_link(fun() -> timer:sleep(100000) end),
    ?assertMatch({_, timer, none, none, unknown, {timer, sleep, 1}}, wait_of(Sleeper)),
    Starter = spawn_link(fun() -> gen_server:start_link(?MODULE, {slow, Self}, []) end),
    Child = receive {slow, Pid} -> Pid end,
    ?assertMatch({_, start, Child, _, _, _}, wait_of(Starter)),
    {ok, Listening} = gen_tcp:listen(0, [{inet_backend, inet}, {ip, {127, 0, 0, 1}}]),
    Acceptor = spawn_link(fun() -> gen_tcp:accept(Listening) end),
    ?assertMatch({_, port, Listening, _, _, _}, wait_of(Acceptor)),
    true = global:set_lock({a_resource, Self}, [node()]),
    Locker = spawn_link(fun() -> global:set_lock({a_resource, self()}, [node()]) end),
    ?assertMatch(
        {_, lock, a_resource, _, _, _}, waits_until(Locker, fun(W) -> element(2, W) =:= lock end)),
    unlink(Locker),
    exit(Locker, kill),
    true = global:del_lock({a_resource, Self}, [node()]),
    ok = gen_tcp:close(Listening).

%% Of which nodes a process wants the lock is not known.
a_lock_has_a_holder_where_no_other_node_can_have_it(_Config) ->
    Self = self(),
    true = global:set_lock({a_resource, Self}, [node()]),
    Locker = spawn_link(fun() -> global:set_lock({a_resource, self()}, [node()]) end),
    Holder = fun() ->
        case flame_prof_waits:look(#{engine => native, process => Locker}) of
            {ok, #{chain := #{edges := [#{how := lock, to := To} | _]}}} -> To;
            {ok, _} -> false
        end
    end,
    ?assertEqual([], nodes()),
    ?assertEqual(Self, waiting:found(Holder)),
    Told = case start_peer() of
        {ok, Peer, _} ->
            try ?assertEqual({lock, global, a_resource}, waiting:found(Holder))
            after peer:stop(Peer)
            end;
        {error, Why} -> {comment, "no other node here: " ++ Why}
    end,
    unlink(Locker),
    exit(Locker, kill),
    true = global:del_lock({a_resource, Self}, [node()]),
    Told.

the_library_refuses_what_is_no_list_of_processes(_Config) ->
    {ok, _, _} = looked(lists:duplicate(16, self())),
    [?assertError(badarg, looked(Excluded))
        || Excluded <- [lists:duplicate(17, self()), [self(), none], [self() | self()], none]].

idle_servers_are_counted_and_not_told(_Config) ->
    {ok, _, #{idle := Before}} = looked([]),
    Servers = [start(gen_server, {idle, []}) || _ <- lists:seq(1, 100)] ++
            [start(gen_server, {idle, [60000]}) || _ <- lists:seq(1, 100)] ++
            [start(gen_server, {idle, [hibernate]}) || _ <- lists:seq(1, 100)] ++
            [start(gen_statem, {idle, [d]}) || _ <- lists:seq(1, 100)] ++
            [start(gen_statem, {idle, [d, hibernate]}) || _ <- lists:seq(1, 100)] ++
            [element(2, {ok, _} = gen_event:start_link()) || _ <- lists:seq(1, 100)],
    {Waits, Idle} = waiting:found(fun() ->
        {ok, W, #{idle := N}} = looked([]),
        N >= Before + length(Servers) andalso {W, N}
    end),
    ?assert(Idle >= Before + length(Servers)),
    ?assertEqual([], [W || W <- Waits, lists:member(element(1, W), Servers)]).

start(Behaviour, Args) ->
    {ok, Pid} = Behaviour:start_link(?MODULE, Args, []),
    Pid.

%% As many as rotate the tree, of each type, by pid and by name, made and taken away in
%% any order.
monitor_trees_are_those_that_the_vm_tells(_Config) ->
    Self = self(),
    Targets = [mute() || _ <- lists:seq(1, 30)],
    Pid = spawn_link(fun() ->
        Refs = [erlang:monitor(process, T, Options)
         || T <- Targets, Options <- [[], [{alias, demonitor}], [{tag, x}]]],
        [erlang:demonitor(R) || {N, R} <- lists:zip(lists:seq(1, length(Refs)), Refs), N rem 7 < 3],
        Left = [R || {N, R} <- lists:zip(lists:seq(1, length(Refs)), Refs), N rem 7 >= 3],
        Self ! {left, Left},
        receive never -> ok end
    end),
    Left = receive {left, L} -> L end,
    {ok, Found} = waiting:found(fun() ->
        case flame_prof_looks_nif:monitor_terms(Pid) of {ok, _} = Ok -> Ok; {error, _} -> false end
    end),
    ?assertEqual(lists:sort([numbers(R) || R <- Left]),
        lists:sort([R || {R, process, true, _, none} <- Found])),
    {monitors, Truth} = process_info(Pid, monitors),
    ?assertEqual(
        lists:sort([P || {process, P} <- Truth]), lists:sort([P || {_, _, _, {pid, P}, _} <- Found])
    ).

%% 300,000 are visited, of each process all or none.
monitors_that_are_too_many_are_said_to_be_left(_Config) ->
    Self = self(),
    Have = fun(Count) ->
        Pid = spawn_link(fun() ->
            _ = [erlang:monitor(process, Self) || _ <- lists:seq(1, Count)],
            Self ! {has, self()},
            receive never -> ok end
        end),
        receive {has, Pid} -> Pid end
    end,
    [Many, Most, Few, None] = Pids = [Have(N) || N <- [1000, 299001, 3, 0]],
    Counts = fun(Of) ->
        waiting:found(fun() ->
            {ok, Counts, Moved, Left} = flame_prof_looks_nif:monitor_counts(Of),
            Moved =:= [] andalso {Counts, Left}
        end)
    end,
    ?assertEqual({[{Many, 1000}], [Most, Few, None]}, Counts(Pids)),
    ?assertEqual({[{Most, 299001}], [Many]}, Counts([None, Few, Most, Many])),
    ?assertEqual({[], []}, Counts([None, Few])),
    %% One that runs is not known.
    {ok, [], [Self], []} = flame_prof_looks_nif:monitor_counts([Self]),
    [begin unlink(P), exit(P, kill) end || P <- Pids].

%% It runs until after the first call that looks for it.
one_that_ran_when_its_turn_came_is_counted_when_it_waits(_Config) ->
    Self = self(),
    Pid = spawn_link(fun() ->
        _ = [erlang:monitor(process, Self) || _ <- lists:seq(1, 300)],
        Self ! {runs, self()},
        run_until_asked()
    end),
    receive {runs, Pid} -> ok end,
    Called = {flame_prof_looks_nif, monitor_counts, 1},
    erlang:trace(new_processes, true, [call]),
    1 = erlang:trace_pattern(Called, [{'_', [], [{return_trace}]}], []),
    spawn_link(fun() -> Self ! {look, flame_prof_doctor_system:look(native)} end),
    receive {trace, _, return_from, Called, {ok, First, Moved, _}} -> ok end,
    ?assertNot(lists:keymember(Pid, 1, First)),
    ?assert(lists:member(Pid, Moved)),
    Pid ! wait,
    {ok, #{monitors := #{many := Many, unknown := Unknown}}} = receive {look, Look} -> Look end,
    erlang:trace(all, false, [call]),
    erlang:trace_pattern(Called, false, []),
    ?assertMatch({Pid, 300, _}, lists:keyfind(Pid, 1, Many)),
    ?assertNot(lists:member(Pid, Unknown)),
    unlink(Pid),
    exit(Pid, kill).

run_until_asked() ->
    receive
        wait -> receive never -> ok end
    after 0 -> run_until_asked()
    end.

a_receive_by_hand_is_told_where_it_has_one_monitor(_Config) ->
    Server = mute(),
    Other = mute(),
    One = spawn_link(fun() -> by_hand(erlang:monitor(process, Server)) end),
    Two = spawn_link(fun() ->
        two_by_hand(erlang:monitor(process, Server), erlang:monitor(process, Other))
    end),
    None = spawn_link(fun() -> by_hand(make_ref()) end),
    Gone = spawn_link(fun() ->
        Ref = erlang:monitor(process, Server),
        erlang:demonitor(Ref),
        by_hand(Ref)
    end),
    ?assertMatch({_, monitor, Server, {_, _, _}, unknown, _}, wait_of(One)),
    [?assertMatch({_, unknown, none, none, _, _}, wait_of(P)) || P <- [Two, None, Gone]].

by_hand(Ref) ->
    receive
        {Ref, Reply} -> {Ref, Reply};
        {'DOWN', Ref, _, _, _} -> Ref
    end.

two_by_hand(Ref, Other) ->
    receive
        {Ref, Reply} -> {Other, Reply};
        {Other, Reply} -> {Ref, Reply}
    end.

what_servers_have_in_work_is_told(_Config) ->
    Works = fun(Behaviour, Send) ->
        Server = start(Behaviour, {works, self()}),
        Caller = Send(Server),
        receive {works, Server, From} -> {Server, Caller, From} end
    end,
    Call = fun(Module) ->
        fun(S) -> spawn_link(fun() -> catch Module:call(S, {get, 1}, infinity) end) end
    end,
    {S1, C1, {C1, Tag1}} = Works(gen_server, Call(gen_server)),
    {S2, _, _} = Works(gen_server, fun(S) -> gen_server:cast(S, refresh) end),
    {S3, _, _} = Works(gen_server, fun(S) -> S ! {tick, 1, 2} end),
    {S4, C4, {C4, Tag4}} = Works(gen_statem, Call(gen_statem)),
    {S5, _, _} = Works(gen_statem, fun(S) -> gen_statem:cast(S, {put, x}) end),
    {ok, S6} = gen_event:start_link(),
    ok = gen_event:add_handler(S6, ?MODULE, {works, self()}),
    ok = gen_event:notify(S6, {changed, 1}),
    receive {works, S6, _} -> ok end,
    Servers = [S1, S2, S3, S4, S5, S6],
    Served = waiting:found(fun() ->
        {ok, L} = flame_prof_looks_nif:waits_served(Servers),
        length(L) =:= length(Servers) andalso L
    end),
    Of = fun(S) -> list_to_tuple(tl(tuple_to_list(lists:keyfind(S, 1, Served)))) end,
    ?assertMatch({call, {tuple, get, 2}, _, C1, _}, Of(S1)),
    ?assertEqual(ref_of(Tag1), element(3, Of(S1))),
    ?assertMatch({cast, {atom, refresh}, none, none, _}, Of(S2)),
    ?assertMatch({info, {tuple, tick, 3}, none, none, _}, Of(S3)),
    ?assertMatch({call, {tuple, get, 2}, _, C4, _}, Of(S4)),
    ?assertEqual(ref_of(Tag4), element(3, Of(S4))),
    ?assertMatch({cast, {tuple, put, 2}, none, none, _}, Of(S5)),
    ?assertMatch({event, {tuple, changed, 2}, none, none, _}, Of(S6)),
    %% No server, or none at work.
    Idle = start(gen_server, {idle, []}),
    ?assertEqual({ok, []}, flame_prof_looks_nif:waits_served([Idle, mute()])).

without_its_site_a_caller_waits_for_something_unknown(_Config) ->
    Rows = found_sites(),
    ok = flame_prof_looks:hold(),
    {Mark, true, _} = flame_prof_looks_nif:wait_sites(),
    Server = mute(),
    Pid = spawn_link(fun() -> two_deep(Server) end),
    {Pid, _, _} = got(Server),
    Without = fun(Left) -> [R || {_, Role, _} = R <- Rows, Role =/= Left] end,
    try
        ok = waits_work:set_sites(Without(call), Mark),
        %% Its only monitor is in the frame.
        ?assertMatch({_, monitor, Server, _, unknown, {gen, do_call, 4}}, wait_of(Pid)),
        ok = waits_work:set_sites(Without(request), Mark),
        ?assertMatch({_, call, Server, _, unknown, _}, wait_of(Pid)),
        Sleeper = spawn_link(fun() -> timer:sleep(100000) end),
        ok = waits_work:set_sites([], Mark),
        ?assertMatch({_, unknown, none, none, unknown, {timer, sleep, 1}}, wait_of(Sleeper))
    after ok = waits_work:set_sites(Rows, Mark)
    end.

two_deep(Server) -> {ok, gen_server:call(Server, {get, 1}, infinity)}.

%% The caller at the old code waits as before; the one at the new code is told, too.
a_module_that_is_loaded_anew_is_probed_anew(_Config) ->
    Server = mute(),
    Before = spawn_link(fun() -> two_deep(Server) end),
    {Before, RefBefore, _} = got(Server),
    ok = flame_prof_looks:hold(),
    {Mark, true, _} = flame_prof_looks_nif:wait_sites(),
    Sticky = code:is_sticky(io),
    Sticky andalso code:unstick_mod(io),
    {module, io} = code:load_file(io),
    Sticky andalso code:stick_mod(io),
    ok = flame_prof_wait_sites:ensure(),
    {Other, true, _} = flame_prof_looks_nif:wait_sites(),
    ?assertNotEqual(Mark, Other),
    After = spawn_link(fun() -> io:request(Server, {get, 1}) end),
    {After, RefAfter, _} = got(Server),
    ?assertMatch({_, call, Server, RefBefore, {tuple, get, 2}, _}, wait_of(Before)),
    ?assertMatch({_, call, Server, RefAfter, _, {io, execute_request, _}}, wait_of(After)),
    code:purge(io).

edges_beside_a_storm_are_those_of_the_callees(_Config) ->
    ?assertMatch(#{wrong := []}, waits_storm:edges(3000)).

callback_mode() -> handle_event_function.

init({slow, Pid}) ->
    Pid ! {slow, self()},
    receive never -> ok end;
init({idle, Options}) -> list_to_tuple([ok, idle | Options]);
init({works, Pid}) ->
    case get('$initial_call') of {gen_event, _, _} -> {ok, Pid}; _ -> works_init(Pid) end.

%% gen_statem wants a state and data, gen_server takes a state.
works_init(Pid) ->
    {current_stacktrace, Stack} = process_info(self(), current_stacktrace),
    case lists:keymember(gen_statem, 1, Stack) of
        true -> {ok, state, Pid};
        false -> {ok, Pid}
    end.

handle_call(_, From, Pid) -> work(Pid, From).
handle_cast(_, Pid) -> work(Pid, none).
handle_info(Message, idle) -> exit({unexpected, Message});
handle_info(_, Pid) -> work(Pid, none).
handle_event(_, Pid) -> work(Pid, none).
handle_event({call, From}, _, _, Pid) when is_pid(Pid) -> work(Pid, From);
handle_event(_, _, _, Pid) when is_pid(Pid) -> work(Pid, none);
handle_event(_, _, State, Data) -> {next_state, State, Data}.

work(Pid, From) ->
    Pid ! {works, self(), From},
    ok = work().

work() ->
    receive never -> ok end.
