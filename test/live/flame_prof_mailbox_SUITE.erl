%% Mailboxes as the native engine reads them, against what the senders have sent, counted by
%% themselves.
-module(flame_prof_mailbox_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, an_empty_mailbox_is_empty/1,
    senders_and_tags_are_what_was_sent/1, parallel_senders_to_a_queue_off_the_heap_are_counted/1,
    envelopes_of_behaviours_are_told/1, tags_of_all_shapes/1,
    large_messages_are_counted_with_their_memory/1, the_oldest_are_first/1,
    a_long_queue_is_complete/1, signals_are_no_messages/1,
    messages_of_another_node_have_its_name/1, nobody_else_is_named_while_the_queue_moves/1,
    a_process_looks_at_itself/1, a_sender_that_has_exited_is_said_to_have/1,
    nothing_of_a_message_but_its_tag_gets_out/1, the_process_is_not_asked/1,
    the_portable_engine_has_the_length_only/1, the_portable_page_has_the_registered_name/1,
    a_process_that_runs_is_not_told_to_be_complete/1, without_the_library_there_is_the_length/1,
    an_option_may_be_left_out/1, an_answer_is_told_once/1, what_is_not_accepted_is_refused/1,
    it_is_printed/1]).
%% In a VM of its own.
-export([distributed/0, without_library/0]).

-define(MESSAGES, 2000).

suite() -> [{timetrap, {minutes, 2}}].
all() -> native_node:cases(?MODULE).
init_per_suite(Config) -> native_node:or_skip(Config).
end_per_suite(_Config) -> ok.

receiver(Options) ->
    spawn_opt(fun Idle() -> receive {never, Idle} -> ok end end, Options).

with_receiver(Options, Fun) ->
    Pid = receiver(Options),
    try Fun(Pid)
    after exit(Pid, kill)
    end.

both(Fun) ->
    [with_receiver([{message_queue_data, D}], Fun) || D <- [on_heap, off_heap]],
    ok.

%% Sends, and says when all of it is sent.
sender(Fun) ->
    Self = self(),
    Pid = spawn(fun() ->
        Fun(),
        _ = Self ! {sent, self()},
        receive stop -> ok end
    end),
    Pid.

await(Pids) -> [receive {sent, Pid} -> ok end || Pid <- Pids].
look(Pid) -> look(Pid, #{}).

%% Until the receiver, which is woken by each message, stands still.
look(Pid, Options) -> look(Pid, Options, 100).

look(Pid, Options, Tries) ->
    case look_once(Pid, Options) of
        #{complete := false} when Tries > 0 ->
            timer:sleep(20),
            look(Pid, Options, Tries - 1);
        Mailbox -> Mailbox
    end.

look_once(Pid, Options) ->
    {ok, Mailbox} = flame_prof_mailbox:look(Pid, maps:merge(#{engine => native}, Options)),
    Mailbox.

is_whole(#{complete := Complete, counted := Counted, length := Length, unknown := Unknown}) ->
    ?assertEqual({true, Counted, []}, {Complete, Length, Unknown}).

send(_Pid, _Message, 0) -> ok;
send(Pid, Message, N) ->
    _ = Pid ! Message,
    send(Pid, Message, N - 1).

an_empty_mailbox_is_empty(_) ->
    both(fun(Pid) ->
        #{length := 0, senders := [], tags := [], oldest := [], memory := 0} = M = look(Pid),
        is_whole(M)
    end).

senders_and_tags_are_what_was_sent(_) -> both(fun(Pid) -> ok = told(Pid) end).

%% Four senders, of different numbers and tags.
told(Pid) ->
    Sent = [{sender(fun() -> send(Pid, Message, N) end), N, Tag}
     || {Message, N, Tag} <- [{tick, 100, {atom, tick}},
            {{put, [1, 2, 3]}, ?MESSAGES, {tuple, put, 2}},
            {{put, 1, 2}, 301, {tuple, put, 3}},
            {<<"no tag">>, 7, other}]],
    await([S || {S, _, _} <- Sent]),
    #{senders := Senders, tags := Tags} = M = look(Pid),
    ?assertEqual(lists:sort([{S, N} || {S, N, _} <- Sent]), lists:sort(Senders)),
    ?assertEqual(lists:sort([{{info, T}, N} || {_, N, T} <- Sent]), lists:sort(Tags)),
    is_whole(M),
    _ = [S ! stop || {S, _, _} <- Sent],
    ok.

%% The VM gives them buffers of their own when they get into each other's way.
parallel_senders_to_a_queue_off_the_heap_are_counted(_) ->
    with_receiver([{message_queue_data, off_heap}], fun(Pid) ->
        true = erlang:suspend_process(Pid),
        Tags = [a, b, c, d, e, f, g, h],
        Senders = [sender(fun() -> send(Pid, {T, 1, 2}, 10000) end) || T <- Tags],
        await(Senders),
        #{senders := Seen, tags := Told} = M = look(Pid),
        ?assertEqual([{S, 10000} || S <- Senders], lists:sort(Seen)),
        ?assertEqual([{{info, {tuple, T, 3}}, 10000} || T <- Tags], lists:sort(Told)),
        is_whole(M)
    end).

envelopes_of_behaviours_are_told(_) ->
    both(fun(Pid) ->
        _ = gen_server:send_request(Pid, {get, key}),
        ok = gen_server:cast(Pid, refresh),
        _ = gen_server:send_request(Pid, [1, 2]),
        _ = erlang:start_timer(0, Pid, {wake, 1}),
        Down = spawn(fun() -> ok end),
        Pid ! {'DOWN', make_ref(), process, Down, normal},
        Pid ! {'EXIT', Down, normal},
        ok = waiting:eventually(fun() ->
            erlang:process_info(Pid, message_queue_len) =:= {message_queue_len, 6}
        end),
        #{tags := Tags} = M = look(Pid),
        ?assertEqual(lists:sort([{call, {tuple, get, 2}}, {cast, {atom, refresh}}, {call, other},
                {timer, {tuple, wake, 2}}, {down, {atom, 'DOWN'}}, {exit, {atom, 'EXIT'}}]),
            lists:sort([T || {T, 1} <- Tags])),
        is_whole(M)
    end).

tags_of_all_shapes(_) ->
    Ref = make_ref(),
    Messages = [{{Ref, done}, {reply, other}},
        {{}, {info, other}},
        {{1, 2}, {info, other}},
        {#{a => 1}, {info, other}},
        {[get, 1], {info, other}},
        {fun() -> ok end, {info, other}},
        {'', {info, {atom, ''}}},
        {{large, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {info, {tuple, large, 10}}}],
    both(fun(Pid) ->
        _ = [Pid ! M || {M, _} <- Messages],
        #{oldest := Oldest} = look(Pid),
        ?assertEqual([Tag || {_, Tag} <- Messages], [T || {_, T} <- Oldest])
    end).

%% Heap words that a copy takes: the oracle is the VM's own.
large_messages_are_counted_with_their_memory(_) ->
    with_receiver([{message_queue_data, off_heap}], fun(Pid) ->
        Large = {large, lists:seq(1, 5000)},
        send(Pid, Large, 50),
        #{memory := Bytes, tags := [{{info, {tuple, large, 2}}, 50}], on_heap := 0} = look(Pid),
        Least = 50 * 8 * erts_debug:flat_size(Large),
        ?assert(Bytes >= Least),
        ?assert(Bytes =< Least + 50 * 200)
    end).

the_oldest_are_first(_) ->
    Self = self(),
    both(fun(Pid) ->
        _ = [Pid ! {list_to_atom([C]), 1} || C <- "abcdefgh"],
        #{oldest := Oldest} = look(Pid, #{oldest => 5}),
        ?assertEqual([{Self, {info, {tuple, list_to_atom([C]), 2}}} || C <- "abcde"], Oldest),
        #{oldest := []} = look(Pid, #{oldest => 0})
    end).

a_long_queue_is_complete(_) ->
    with_receiver([{message_queue_data, off_heap}], fun(Pid) ->
        Senders = [sender(fun() -> send(Pid, {tick, 1}, 250000) end) || _ <- lists:seq(1, 4)],
        await(Senders),
        #{length := 1000000, senders := Seen} = M = look(Pid, #{time_limit => 60000}),
        ?assertEqual([{S, 250000} || S <- Senders], lists:sort(Seen)),
        is_whole(M)
    end).

%% Monitors between messages. How those are counted that wait to be handled: test_mailbox.c.
signals_are_no_messages(_) ->
    both(fun(Pid) ->
        true = erlang:suspend_process(Pid),
        send(Pid, one, 10),
        _ = erlang:monitor(process, Pid),
        send(Pid, two, 10),
        _ = erlang:monitor(process, Pid),
        send(Pid, three, 1),
        #{tags := Tags, length := 21} = M = look(Pid),
        ?assertEqual([{one, 10}, {three, 1}, {two, 10}],
            lists:sort([{T, N} || {{info, {atom, T}}, N} <- Tags])),
        is_whole(M),
        true = erlang:resume_process(Pid)
    end).

messages_of_another_node_have_its_name(_) ->
    case peer_vm:value(?MODULE, distributed, []) of
        {skip, Why} -> {skip, Why};
        Answer -> ?assertEqual(ok, Answer)
    end.

distributed() ->
    _ = os:cmd("epmd -daemon"),
    case net_kernel:start([mailbox_suite, shortnames]) of
        {ok, _} ->
            {ok, Peer, Node} = peer:start(#{name => peer:random_name(), connection => 0}),
            ok = from(Node),
            peer:stop(Peer);
        {error, _} -> {skip, "no epmd"}
    end.

from(Node) ->
    {ok, _} = flame_prof_engine:choose(native),
    both(fun(Pid) ->
        true = erlang:suspend_process(Pid),
        _ = [erpc:call(Node, erlang, send, [Pid, {far, N}]) || N <- lists:seq(1, 30)],
        Self = self(),
        send(Pid, near, 2),
        #{senders := Senders, undecoded := Undecoded, tags := Tags} = M = look(Pid),
        ?assertEqual([{{node, Node}, 30}, {Self, 2}], Senders),
        Known = maps:from_list(Tags),
        ?assertEqual(30, Undecoded + maps:get({info, {tuple, far, 2}}, Known, 0)),
        ?assertEqual(2, maps:get({info, {atom, near}}, Known)),
        is_whole(M)
    end).

%% Each sender has a tag of its own: a message that is told has both of one sender.
nobody_else_is_named_while_the_queue_moves(_) ->
    [moving(Data, Take, Words) || {Data, Take, Words} <- [{on_heap, fun fifo/0, 0},
        {on_heap, fun selective/0, 300}, {off_heap, fun fifo/0, 300},
        {off_heap, fun selective/0, 0}]].

moving(Data, Take, Words) ->
    Pid = spawn_opt(Take, [{message_queue_data, Data}]),
    Tags = [m1, m2, m3, m4],
    Senders = [{spawn(fun() -> flood(Pid, {T, lists:seq(1, Words)}, 0) end), T} || T <- Tags],
    2 = told_messages(Pid, Senders, 2, 1000),
    _ = [exit(S, kill) || {S, _} <- Senders],
    exit(Pid, kill).

%% Looks until so many told messages: one at a queue that moves may tell none, and says so.
told_messages(_Pid, _Senders, Wanted, Tries) when Wanted =:= 0; Tries =:= 0 -> 0;
told_messages(Pid, Senders, Wanted, Tries) ->
    #{counted := Counted} = Mailbox = look_once(Pid, #{time_limit => 300}),
    agrees(Mailbox, Senders),
    Told = min(1, Counted),
    Told + told_messages(Pid, Senders, Wanted - Told, Tries - 1).

agrees(#{senders := Seen, tags := Tags, counted := Counted, length := Length}, Senders) ->
    ByTag = lists:sort([{T, N} || {{info, {tuple, T, 2}}, N} <- Tags]),
    ?assertEqual(length(Tags), length(ByTag)),
    ?assertEqual(lists:sort([{proplists:get_value(S, Senders), N} || {S, N} <- Seen]), ByTag),
    ?assertEqual(Counted, lists:sum([N || {_, N} <- Seen])),
    ?assert(Length >= Counted).

flood(Pid, Message, N) ->
    _ = Pid ! Message,
    case N rem 1000 =:= 0 andalso erlang:process_info(Pid, message_queue_len) of
        {_, Length} when Length > 20000 -> timer:sleep(2);
        _ -> ok
    end,
    flood(Pid, Message, N + 1).

fifo() ->
    receive _ -> fifo() end.

selective() ->
    receive {m3, _} -> ok after 0 -> ok end,
    receive _ -> selective() end.

a_process_looks_at_itself(_) ->
    Self = self(),
    _ = Self ! {mine, 1},
    #{process := Self, tags := Tags} = look_once(Self, #{}),
    ?assert(lists:keymember({info, {tuple, mine, 2}}, 1, Tags)),
    receive {mine, 1} -> ok end.

a_sender_that_has_exited_is_said_to_have(_) ->
    both(fun(Pid) ->
        {Sender, Monitor} = spawn_monitor(fun() -> Pid ! bye end),
        receive {'DOWN', Monitor, _, _, _} -> ok end,
        #{senders := [{Sender, 1}], names := #{Sender := exited}} = M = look(Pid),
        Text = unicode:characters_to_list(flame_prof_mailbox:format(M)),
        ?assertMatch({match, _}, re:run(Text, "\\(exited\\)"))
    end).

nothing_of_a_message_but_its_tag_gets_out(_) ->
    Secret = "geheimnis",
    Shapes = [{login, Secret},
        {login, list_to_binary(Secret)},
        {list_to_binary(Secret), 1},
        [Secret],
        #{list_to_atom(Secret) => Secret},
        {login, list_to_atom(Secret), 4711471147},
        4711471147,
        {4711471147, Secret}],
    both(fun(Pid) ->
        _ = [Pid ! Shape || Shape <- Shapes],
        _ = gen_server:send_request(Pid, {login, Secret}),
        ok = gen_server:cast(Pid, Secret),
        M = look(Pid),
        Texts = [io_lib:format("~0p", [M]), flame_prof_mailbox:format(M),
            flame_prof_json:encode(flame_prof_mailbox_text:json(M))],
        Text = unicode:characters_to_binary(Texts),
        ?assertEqual(nomatch, binary:match(Text, [list_to_binary(Secret), <<"47114711">>])),
        ?assertMatch({_, _}, binary:match(Text, <<"login">>))
    end).

%% A process that answers adds a reduction; one that is suspended would not answer at all.
the_process_is_not_asked(_) ->
    both(fun(Pid) ->
        send(Pid, {tick, 1}, 100),
        timer:sleep(50),
        Before = erlang:process_info(Pid, reductions),
        Same = erlang:process_info(Pid, reductions),
        ?assertEqual(Before, Same),
        #{length := 100} = look(Pid),
        ?assertEqual(Before, erlang:process_info(Pid, reductions))
    end).

the_portable_engine_has_the_length_only(_) ->
    both(fun(Pid) ->
        send(Pid, tick, 5),
        {ok, M} = flame_prof_mailbox:look(Pid, #{engine => portable}),
        ?assertMatch(#{length := 5, engine := portable, unknown := [_]}, M),
        ?assertNot(is_map_key(senders, M)),
        ?assertMatch({match, _}, re:run(flame_prof_mailbox:format(M), "not known: senders"))
    end).

the_portable_page_has_the_registered_name(_) ->
    with_receiver([], fun(Pid) ->
        true = register(mailbox_named, Pid),
        {ok, M} = flame_prof_mailbox:look(Pid, #{engine => portable}),
        Text = flame_prof_mailbox:format(M),
        ?assertMatch({match, _}, re:run(Text, "^<[0-9.]+> mailbox_named: 0"))
    end).

without_the_library_there_is_the_length(Config) ->
    Dir = proplists:get_value(priv_dir, Config),
    ok = file:write_file(filename:join(Dir, "flame_prof_nif.beam"), "no code"),
    ?assertEqual(ok, peer_vm:value(?MODULE, without_library, ["-env", "NO_LIBRARY", Dir])).

without_library() ->
    true = code:add_patha(os:getenv("NO_LIBRARY")),
    with_receiver([], fun(Pid) ->
        send(Pid, tick, 5),
        {ok, #{length := 5, engine := portable, unknown := [Why]}} = flame_prof_mailbox:look(Pid),
        {_, _} = binary:match(Why, <<"library">>),
        {error, {library, _}} = flame_prof_mailbox:look(Pid, #{engine => native}),
        ok
    end).

a_process_that_runs_is_not_told_to_be_complete(_) ->
    Pid = spawn(fun Spin() -> Spin() end),
    send(Pid, tick, 10),
    %% On a busy machine a look may meet it while it waits for its scheduler: complete, and rightly.
    M = waiting:eventually(fun() ->
        #{counted := 10, taken := 0, complete := IsComplete} = Look = look_once(Pid, #{}),
        not IsComplete andalso {true, Look}
    end),
    exit(Pid, kill),
    Text = flame_prof_mailbox:format(M),
    ?assertMatch({match, _}, re:run(Text, "not known: whether all of them were there")),
    ?assertEqual(nomatch, re:run(Text, "taken meanwhile")).

an_option_may_be_left_out(_) ->
    {ok, _} = flame_prof_mailbox:look(self(), #{senders => undefined, time_limit => nil}).

%% Its memory is freed with it.
an_answer_is_told_once(_) ->
    Limits = #{rows => 1, oldest => 1, time_ms => 1000, millions => 1},
    with_receiver([], fun(Pid) ->
        {ok, Mailbox} = flame_prof_looks_nif:mailbox_open(Pid, Limits),
        #{error := none} = flame_prof_looks_nif:mailbox_next(Mailbox, 1000),
        ?assertError(badarg, flame_prof_looks_nif:mailbox_next(Mailbox, 1000))
    end).

what_is_not_accepted_is_refused(_) ->
    {error, {badarg, #{argument := process}}} = flame_prof_mailbox:look({a, b}),
    {error, {badarg, #{argument := process}}} = flame_prof_mailbox:look([self(), self()]),
    {error, {bad_option, #{option := oldest}}} = flame_prof_mailbox:look(self(), #{oldest => 101}),
    {error, {bad_option, #{option := oldes}}} = flame_prof_mailbox:look(self(), #{oldes => 1}),
    {error, {process, #{target := mailbox_nobody}}} = flame_prof_mailbox:look(mailbox_nobody),
    {Gone, Monitor} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Monitor, _, _, _} -> ok end,
    {error, {process, #{target := Gone}}} = flame_prof_mailbox:look(Gone).

it_is_printed(_) ->
    with_receiver([], fun(Pid) ->
        true = register(mailbox_victim, Pid),
        send(Pid, {get, 1, 2, 3, 4, 5, 6}, 1200),
        ok = gen_server:cast(Pid, refresh),
        {ok, Text} = native_node:printed(fun() -> flame_prof:mailbox(mailbox_victim) end),
        _ = [?assertMatch({match, _}, re:run(Text, Part)) || Part <- [
            "mailbox_victim .*1,201 messages", "info:\\{get,_,\\.\\.\\.\\}", "cast:refresh",
            "Senders", "Oldest first"]]
    end).
