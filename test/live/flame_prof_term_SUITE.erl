%% The library's walker of terms (c_src/erts/term) against terms as Erlang sees them: by guards,
%% by how they are printed, and by their external format. What a message is, against who sent it.
%%
%% TERM_ROUNDS (20000): how many random terms. SEED repeats a run.
-module(flame_prof_term_SUITE).

-export([all/0, init_per_suite/1, end_per_suite/1, random_terms_are_seen_as_they_are/1,
    terms_are_seen_wherever_they_lie/1, terms_of_other_nodes_are_told/1,
    terms_of_a_connected_node_are_told/1, messages_are_told_by_their_envelope/1,
    replies_are_told_by_their_reference/1, messages_of_other_nodes_have_no_local_caller/1,
    random_messages_are_info_with_their_tag/1]).
%% Spawned.
-export([receives_one/1, receives_one/2, reply_of/2]).
%% A gen_event's handler.
-export([init/1, handle_event/2, handle_call/2]).

-define(DEPTH, 4).
-define(PATIENCE_MS, 60000).

all() -> suite_cases:list(?MODULE, [init, receives_one]).

init_per_suite(Config) ->
    case native_node:why_not() of
        none ->
            ok = term_test_nif:load(),
            Seed = list_to_integer(os:getenv("SEED", integer_to_list(os:system_time()
                band 16#ffffff))),
            ct:pal("SEED=~w", [Seed]),
            [{seed, Seed} | Config];
        Why -> {skip, Why}
    end.

end_per_suite(_) -> ok.

random_terms_are_seen_as_they_are(Config) ->
    seed(Config),
    Rounds = list_to_integer(os:getenv("TERM_ROUNDS", "20000")),
    Things = things(),
    Kinds = lists:foldl(fun(_, Kinds) ->
        Term = random_term(3, Things),
        Depth = rand:uniform(?DEPTH + 1) - 1,
        same(Term, Depth, Things),
        maps:update_with(kind(view(Term, 1, Things)), fun(N) -> N + 1 end, 1, Kinds)
    end, #{}, lists:seq(1, Rounds)),
    ct:pal("~p", [Kinds]),
    %% All kinds were there.
    [atom, list, nil, other, pid, port, ref, remote_pid, remote_ref, tuple] =
        lists:sort(maps:keys(Kinds)).

%% In the young heap, the old heap, a message's own memory, a literal, another process.
terms_are_seen_wherever_they_lie(Config) ->
    seed(Config),
    Things = things(),
    Terms = [random_term(3, Things) || _ <- lists:seq(1, 200)],
    [same(Term, ?DEPTH, Things) || Term <- Terms],
    erlang:garbage_collect(),
    [same(Term, ?DEPTH, Things) || Term <- Terms],
    erlang:garbage_collect(self(), [{type, minor}]),
    [same(Term, ?DEPTH, Things) || Term <- Terms],
    persistent_term:put(?MODULE, Terms),
    [same(Term, ?DEPTH, Things) || Term <- persistent_term:get(?MODULE)],
    persistent_term:erase(?MODULE),
    [begin
        self() ! {copied, Term},
        receive {copied, Copy} -> same(Copy, ?DEPTH, Things) end
    end || Term <- Terms],
    {Other, Monitor} = spawn_opt(fun() ->
        receive {all, All} -> [same(Term, ?DEPTH, Things) || Term <- All] end,
        exit(seen)
    end, [monitor, {message_queue_data, off_heap}]),
    Other ! {all, Terms},
    receive
        {'DOWN', Monitor, process, Other, Reason} -> seen = Reason
    after ?PATIENCE_MS -> error(hangs)
    end.

%% Nobody has been connected to these.
terms_of_other_nodes_are_told(_) ->
    Things = things(),
    [same(Term, 0, Things)
     || Node <- ['a@b', 'another_node@far.example.com'], Creation <- [1, 16#fedcba98],
        Term <- [remote_pid(Node, 16#fffffff, 16#7fff, Creation), remote_pid(Node, 0, 0, Creation),
            remote_ref(Node, [1, 2, 3], Creation), remote_ref(Node, [16#3ffff, 5, 6], Creation),
            remote_ref(Node, [16#3ffff, 16#ffffffff, 6, 7, 8], Creation),
            remote_ref(Node, [1, 2, 3, 4], Creation)]],
    [other = term_test_nif:view(remote_ref('a@b', Short, 1), 0)
        || Short <- [[1], [1, 2]]],
    other = term_test_nif:view(remote_port('a@b', 77, 1), 0).

terms_of_a_connected_node_are_told(_) ->
    with_a_node(fun(Node) ->
        Things = things(),
        Pid = erpc:call(Node, erlang, self, []),
        Made = [Pid, erpc:call(Node, erlang, make_ref, []), erpc:call(Node, erlang, alias, []),
            spawn(Node, timer, sleep, [infinity]), erpc:call(Node, erlang, whereis, [init])],
        [Node = node(Term) || Term <- Made],
        [same(Term, 1, Things) || Term <- [Made | Made]],
        [{remote_pid, Node, _, _, _}, {remote_ref, Node, _, _}, {remote_ref, Node, _, _} | _] =
            [term_test_nif:view(Term, 0) || Term <- Made],
        %% And what is ours still is.
        [same(Term, 1, Things) || Term <- [self(), make_ref(), alias(), node(), Node]]
    end).

seed(Config) -> rand:seed(exsss, proplists:get_value(seed, Config)).

same(Term, Depth, Things) ->
    case {term_test_nif:view(Term, Depth), view(Term, Depth, Things)} of
        {Same, Same} -> ok;
        {Seen, Is} -> error({seen, Seen, is, Is, depth, Depth})
    end.

kind(View) when is_atom(View) -> View;
kind(View) -> element(1, View).

%% What there is of identifiers; the second: magic references.
things() ->
    Port = open_port({spawn, "cat"}, []),
    Table = ets:new(things, []),
    {[self(), spawn(fun() -> ok end), Port, make_ref(), alias(), monitor(process, self()),
            erlang:start_timer(1000000, self(), x),
            monitor(process, whereis(init), [{alias, demonitor}]),
            remote_pid('a@b', 7, 1, 3), remote_ref('c@d', [1, 2, 3], 4),
            remote_ref('c@d', [1, 2, 3, 4, 5], 4), remote_port('a@b', 9, 2)],
        [ets:whereis(ac_tab), atomics:new(1, []), Table]}.

view(Term, _, _) when is_atom(Term) -> {atom, Term};
view([], _, _) -> nil;
view(Term, _, _) when is_pid(Term) ->
    case external(Term) of
        {_, local, _} -> {pid, Term};
        {pid, Node, {Number, Serial, Creation}} -> {remote_pid, Node, Creation, Number, Serial}
    end;
view(Term, _, _) when is_port(Term) ->
    case node(Term) =:= node() of true -> {port, Term}; false -> other end;
view(Term, _, {_, Magic}) when is_reference(Term) ->
    case {lists:member(Term, Magic), external(Term)} of
        {true, _} -> other;
        {false, {_, local, _}} -> {ref, numbers(Term)};
        {false, {ref, Node, {Creation, [N0, N1, N2 | _]}}} ->
            {remote_ref, Node, Creation, {N0, N1, N2}};
        {false, _} -> other
    end;
view(Term, 0, _) when is_tuple(Term) -> {tuple, tuple_size(Term), []};
view(Term, Depth, Things) when is_tuple(Term) ->
    {tuple, tuple_size(Term),
        [view(E, Depth - 1, Things) || E <- lists:sublist(tuple_to_list(Term), 16)]};
view([_ | _], 0, _) -> list;
view([Head | Tail], Depth, Things) ->
    {list, view(Head, Depth - 1, Things), view(Tail, Depth - 1, Things)};
view(_, _, _) -> other.

%% As it is printed: #Ref<0.N2.N1.N0>, and of an alias from OTP 26 on #Ref<0.P1.P0.N2.N1.N0>
numbers(Ref) ->
    [N0, N1, N2 | _] = lists:reverse([list_to_integer(N)
        || N <- string:lexemes(ref_to_list(Ref) -- "#Ref<>", ".")]),
    {N0, N1, N2}.

external(Term) when node(Term) =:= node() -> {own, local, Term};
external(Term) ->
    case term_to_binary(Term, [{minor_version, 2}]) of
        <<131, 88, 119, L, Node:L/binary, Number:32, Serial:32, Creation:32>> ->
            {pid, binary_to_atom(Node), {Number, Serial, Creation}};
        <<131, 90, _:16, 119, L, Node:L/binary, Creation:32, Numbers/binary>> ->
            {ref, binary_to_atom(Node), {Creation, [N || <<N:32>> <= Numbers]}}
    end.

remote_pid(Node, Number, Serial, Creation) ->
    binary_to_term(<<131, 88, (atom_to_external(Node))/binary, Number:32, Serial:32, Creation:32>>).

remote_ref(Node, Numbers, Creation) ->
    binary_to_term(<<131, 90, (length(Numbers)):16, (atom_to_external(Node))/binary, Creation:32,
        << <<N:32>> || N <- Numbers >>/binary>>).

remote_port(Node, Number, Creation) ->
    binary_to_term(<<131, 89, (atom_to_external(Node))/binary, Number:32, Creation:32>>).

atom_to_external(Atom) ->
    Text = atom_to_binary(Atom),
    <<119, (byte_size(Text)), Text/binary>>.

random_term(0, Things) -> random_leaf(Things);
random_term(Depth, Things) ->
    Next = fun() -> random_term(Depth - 1, Things) end,
    case rand:uniform(4) of
        1 -> list_to_tuple([Next() || _ <- lists:seq(1, rand:uniform(20) - 1)]);
        2 -> [Next() || _ <- lists:seq(1, rand:uniform(4))];
        3 -> [Next() | Next()];
        4 -> random_leaf(Things)
    end.

random_leaf({Own, Magic}) ->
    case rand:uniform(16) of
        1 -> [];
        2 -> rand:uniform(1000) - 500;
        3 -> (1 bsl (40 + rand:uniform(200))) * (1 - 2 * rand:uniform(2));
        4 -> rand:uniform();
        5 -> rand:bytes(rand:uniform(200));
        6 -> binary:part(rand:bytes(300), 10, rand:uniform(250));
        7 -> <<(rand:uniform(1000)):13>>;
        8 -> fun erlang:self/0;
        9 -> X = rand:uniform(), fun() -> X end;
        10 -> maps:from_list([{K, x} || K <- lists:seq(1, rand:uniform(60) - 1)]);
        11 -> lists:nth(rand:uniform(length(Magic)), Magic);
        12 -> lists:nth(rand:uniform(4), ['', true, ?MODULE, 'Elixir.GenServer']);
        13 -> make_ref();
        _ -> lists:nth(rand:uniform(length(Own)), Own)
    end.

%% {Who sends, Kind, Tag, Waits}: of `caller', the sender waits with a reference that is in the
%% message; of `somebody', a process that the sender has started does; of `pid', without one.
envelopes() ->
    Infinity = fun(M, R) -> fun(S) -> M:call(S, R, infinity) end end,
    [{Infinity(gen_server, get), call, {atom, get}, caller},
        {fun(S) -> gen_server:call(S, {get, 1, "x"}, 50000) end, call, {tuple, get, 3}, caller},
        {fun(S) -> gen_server:call(S, [get]) end, call, other, caller},
        {fun(S) -> gen_server:call(S, {1, 2}) end, call, other, caller},
        {fun(S) -> gen_server:call(S, {}) end, call, other, caller},
        {fun(S) -> gen_server:send_request(S, {put, x}) end, call, {tuple, put, 2}, caller},
        {fun(S) -> gen_server:cast(S, refresh) end, cast, {atom, refresh}, none},
        {fun(S) -> gen_server:cast(S, #{}) end, cast, other, none},
        {fun(S) -> gen_server:multi_call([node()], S, {get, x}) end, call, {tuple, get, 2},
            somebody},
        {Infinity(gen_statem, {press, 1}), call, {tuple, press, 2}, caller},
        {fun(S) -> gen_statem:call(S, press, 50000) end, call, {atom, press}, somebody},
        {fun(S) -> gen_statem:call(S, press, {dirty_timeout, 50000}) end, call, {atom, press},
            caller},
        {fun(S) -> gen_statem:cast(S, {event, 1}) end, cast, {tuple, event, 2}, none},
        {fun(S) -> gen_event:notify(S, {alarm, 1}) end, event, {tuple, alarm, 2}, none},
        {fun(S) -> gen_event:sync_notify(S, {alarm, 1}) end, event, {tuple, alarm, 2}, caller},
        {fun(S) -> gen_event:call(S, ?MODULE, {ask, 1}) end, call, {tuple, ask, 2}, caller},
        {fun(S) -> gen_event:call(S, ?MODULE, ask, 50000) end, call, {atom, ask}, caller},
        {fun(S) -> gen_event:add_handler(S, ?MODULE, []) end, call, {tuple, add_handler, 3},
            caller},
        {fun(S) -> gen_event:which_handlers(S) end, call, {atom, which_handlers}, caller},
        {fun(S) -> supervisor:which_children(S) end, call, {atom, which_children}, caller},
        {fun(S) -> supervisor:start_child(S, [x]) end, call, {tuple, start_child, 2}, caller},
        {fun(S) -> sys:get_state(S) end, system, {atom, get_state}, caller},
        {fun(S) -> sys:replace_state(S, fun(X) -> X end) end, system, {tuple, replace_state, 2},
            caller},
        {fun(S) -> sys:suspend(S) end, system, {atom, suspend}, caller},
        {fun(S) -> io:format(S, "~s", ["secret"]) end, io, io_tag(), caller},
        {fun(S) -> io:get_line(S, "> ") end, io, {tuple, get_line, 3}, caller},
        {fun(S) -> file:read(S, 10) end, io, {tuple, get_chars, 4}, caller},
        {fun(S) -> file:position(whereis(S), 10) end, info, {tuple, file_request, 4}, none},
        {fun(S) -> erlang:start_timer(0, S, {tick, 1}) end, timer, {tuple, tick, 2}, none},
        {fun(S) -> erlang:start_timer(0, S, "x") end, timer, other, none},
        {fun(S) -> erlang:send_after(0, S, tick) end, info, {atom, tick}, none},
        {fun(S) -> timer:send_after(1, S, {tick, 1}) end, info, {tuple, tick, 2}, none},
        {fun(S) -> whereis(S) ! hello end, info, {atom, hello}, none},
        {fun(S) -> whereis(S) ! 12345 end, info, other, none},
        {fun(S) -> whereis(S) ! "secret" end, info, other, none},
        {fun(S) -> whereis(S) ! {self(), {make_ref(), 1}, x} end, info, other, none},
        {fun(S) -> whereis(S) ! {whereis(init), {self(), make_ref()}, x} end, info, other, none},
        {fun(S) -> whereis(S) ! {'$gen_call', x} end, info, {tuple, '$gen_call', 2}, none},
        {fun(S) -> whereis(S) ! {'DOWN', 1, process, self(), x} end, info, {tuple, 'DOWN', 5},
            none},
        {fun(S) -> whereis(S) ! {timeout, 1, x} end, info, {tuple, timeout, 3}, none},
        {fun(S) -> whereis(S) ! {system, 1, x} end, info, {tuple, system, 3}, none}].

%% put_chars with Module, Function and arguments.
io_tag() -> {tuple, put_chars, 5}.

messages_are_told_by_their_envelope(_) ->
    Cases = [sent(Case) || Case <- envelopes()],
    Down = received(fun(S) -> exit(S, kill) end, fun(S) -> monitor(process, S) end),
    {down, {atom, 'DOWN'}, none, none, _} = Down,
    {exit, {atom, 'EXIT'}, none, none, _} = received(fun(S) -> exit(S, kill) end, fun(S) ->
        process_flag(trap_exit, true),
        link(S)
    end),
    {exit, {atom, 'EXIT'}, none, none, _} = received(fun(_) -> ok end, fun(_) ->
        process_flag(trap_exit, true),
        open_port({spawn, "true"}, [])
    end),
    Reads = [Reads || {_, _, _, _, Reads} <- Cases],
    ct:pal("~w messages, ~.2f reads each, ~w at most", [length(Reads),
        lists:sum(Reads) / length(Reads), lists:max(Reads)]).

%% By the name of the receiver: a message for each.
sent({Send, Kind, Tag, Waits}) ->
    Self = self(),
    {Server, Monitor} = spawn_monitor(?MODULE, receives_one, [Self]),
    register(term_server, Server),
    Sender = spawn(fun() -> catch Send(term_server) end),
    Seen = seen(Server),
    {Message, {SeenKind, SeenTag, From, Ref, _} = View} = Seen,
    erlang:exit(Sender, kill),
    receive {'DOWN', Monitor, _, _, _} -> ok end,
    case {SeenKind, SeenTag} of
        {Kind, Tag} -> ok;
        _ -> error({message, Message, seen, View})
    end,
    case Waits of
        none -> {none, none} = {From, Ref};
        caller -> Sender = From;
        somebody -> true = is_pid(From)
    end,
    _ = Waits =:= none orelse (Ref = numbers(reference_of(Message))),
    View.

%% Of the caller's monitor, or what the request is answered with.
reference_of({io_request, _, Ref, _}) -> Ref;
reference_of(Message) ->
    {Pid, Tag} = element(2, Message),
    true = is_pid(Pid),
    case Tag of
        [[alias | _] | Ref] -> Ref;
        [alias | Ref] -> Ref;
        Ref when is_reference(Ref) -> Ref
    end.

seen(Server) ->
    receive
        {Server, Message, View} -> {Message, View}
    after ?PATIENCE_MS -> error(no_message)
    end.

%% What a process sees of the one message that it gets after Prepare, when another one, which
%% it knows, does Act.
received(Act, Prepare) ->
    Self = self(),
    Other = spawn(timer, sleep, [infinity]),
    Server = spawn(?MODULE, receives_one, [Self, fun() -> Prepare(Other) end]),
    receive {Server, prepared} -> ok end,
    Act(Other),
    element(2, seen(Server)).

receives_one(To) ->
    receive Message -> To ! {self(), Message, term_test_nif:view(Message, message)} end.

receives_one(To, Prepare) ->
    _ = Prepare(),
    To ! {self(), prepared},
    receives_one(To).

%% A server's answer in the mailbox of the one who has asked, with a monitor alone, by an alias,
%% and in the way of Elixir's Task.
replies_are_told_by_their_reference(_) ->
    Self = self(),
    [begin
        Server = spawn(fun() ->
            receive {'$gen_call', From, {answer, _}} -> gen_server:reply(From, {ok, "secret"}) end,
            receive never -> ok end
        end),
        Client = spawn(?MODULE, reply_of, [Self, fun() -> Ask(Server) end]),
        {{Tag, _}, {reply, other, none, Ref, _}} = seen(Client),
        Ref = numbers(case Tag of [alias | R] -> R; R -> R end),
        exit(Server, kill)
    end
     || Ask <- [fun(S) -> gen_server:send_request(S, {answer, 1}) end,
            fun(S) -> gen_statem:send_request(S, {answer, 1}) end,
            fun(S) -> S ! {'$gen_call', {self(), make_ref()}, {answer, 1}} end,
            fun(S) -> S ! {'$gen_call', {self(), alias()}, {answer, 1}} end]].

reply_of(To, Ask) ->
    _ = Ask(),
    receives_one(To).

random_messages_are_info_with_their_tag(Config) ->
    seed(Config),
    Things = things(),
    [begin
        Message = case rand:uniform(2) of
            1 -> random_term(2, Things);
            2 -> list_to_tuple([random_atom() | [random_term(1, Things)
                || _ <- lists:seq(1, rand:uniform(7) - 1)]])
        end,
        View = term_test_nif:view(Message, message),
        case is_reply(Message, Things) of
            true -> {reply, other, none, {_, _, _}, _} = View;
            false ->
                Tag = tag(Message),
                {info, Tag, none, none, _} = View
        end
    end || _ <- lists:seq(1, 10000)].

random_atom() -> lists:nth(rand:uniform(4), [get, '', ok, 'Elixir.Task']).

%% Of these the generator makes no more than references.
is_reply({Ref, _}, Things) -> is_reference(Ref) andalso kind(view(Ref, 0, Things)) =:= ref;
is_reply(_, _) -> false.

tag(Message) when is_atom(Message) -> {atom, Message};
tag(Message) when is_tuple(Message), tuple_size(Message) > 0, is_atom(element(1, Message)) ->
    {tuple, element(1, Message), tuple_size(Message)};
tag(_) -> other.

messages_of_other_nodes_have_no_local_caller(_) ->
    with_a_node(fun(Node) ->
        [begin
            Server = spawn(?MODULE, receives_one, [self()]),
            Client = spawn(Node, fun() -> Send(Server) end),
            {Message, {Kind, Tag, none, none, _}} = seen(Server),
            true = Kind =:= cast orelse Client =:= element(1, element(2, Message))
        end
         || {Send, Kind, Tag} <- [
                {fun(S) -> gen_server:call(S, {get, 1}) end, call, {tuple, get, 2}},
                {fun(S) -> gen_server:cast(S, refresh) end, cast, {atom, refresh}},
                {fun(S) -> gen_event:sync_notify(S, {alarm, 1}) end, event, {tuple, alarm, 2}},
                {fun(S) -> sys:get_state(S) end, system, {atom, get_state}}]]
    end).

%% Skipped where there is no network of our own.
with_a_node(Fun) ->
    _ = os:cmd("epmd -daemon"),
    Name = fun(What) -> list_to_atom(lists:concat([What, "_", os:getpid(), "_term"])) end,
    case net_kernel:start([Name(here), shortnames]) of
        {ok, _} ->
            try with_a_peer(Name(there), Fun) after net_kernel:stop() end;
        {error, Reason} -> {skip, {no_distribution, Reason}}
    end.

with_a_peer(Name, Fun) ->
    {ok, Peer, Node} = peer:start_link(#{name => Name, args => ["-setcookie",
        atom_to_list(erlang:get_cookie()), "-pa", filename:dirname(code:which(?MODULE))]}),
    try
        _ = Fun(Node),
        ok
    after peer:stop(Peer)
    end.

init(_) -> {ok, state}.
handle_event(_, State) -> {ok, State}.
handle_call(_, State) -> {ok, ok, State}.
