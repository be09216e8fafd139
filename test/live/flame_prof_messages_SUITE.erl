%% What samples say of the messages that servers have in work and of the calls that processes
%% wait for, against what the servers have logged themselves (served). How right the shares are:
%% test/proof/messages_proof_SUITE.
-module(flame_prof_messages_SUITE).

-include_lib("stdlib/include/assert.hrl").

-import(sampled_words, [start/3, wait/1, stop/1, sampled/4, words/2, pid/1, kill/1]).

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, end_per_testcase/2,
    no_word_is_wrong/1, what_stands_still_has_the_same_words_in_each_sample/1,
    a_running_server_is_told_with_its_message/1, each_behaviour_has_its_messages/1,
    a_loop_of_ones_own_has_none/1, contents_are_in_no_file/1,
    without_the_option_or_the_native_engine_there_are_none/1]).

suite() -> [{timetrap, {minutes, 2}}].
all() -> suite_cases:list(?MODULE, []).
init_per_suite(Config) -> sampled_words:why_not(Config).
end_per_suite(_) -> ok.
end_per_testcase(_, _Config) -> flame_prof:stop().

no_word_is_wrong(Config) ->
    Work = served_words:work(),
    Samples = sampled(Config, served_words:pids(Work), #{}, 3000),
    ?assertMatch(#{wrong := []}, served_words:judged(Work, Samples)),
    kill(served_words:pids(Work)).

%% A client waits for a server that waits for another one; two serve what is no call.
what_stands_still_has_the_same_words_in_each_sample(Config) ->
    Log = served:log(),
    [First, Last, Casted, Informed] = Servers = [served:server(Log, []) || _ <- [1, 2, 3, 4]],
    Nap = {nap, infinity, x},
    Client = served:client(First, [{call, {ask, Last, Nap}}], 0),
    Senders = [served:client(Casted, [{cast, Nap}], infinity),
        served:client(Informed, [{info, Nap}], infinity)],
    Reference = fun(Server) ->
        waiting:eventually(fun() ->
            [[Ref]] = ets:match(Log, {'$1', Server, '_', '_'}),
            {true, Ref}
        end)
    end,
    [OfFirst, OfLast] = [Reference(First), Reference(Last)],
    _ = [waits_until_at(Pid, F) || {Pid, F} <- [{Client, do_call}, {First, do_call},
        {Last, sleep}, {Casted, sleep}, {Informed, sleep}]],
    Samples = sampled(Config, [Client | Servers], #{}, 200),
    kill([Client | Senders] ++ Servers),
    Words = fun(Pid) -> words(Pid, Samples) end,
    Call = #{<<"message">> => <<"call/{nap,_,_}">>, <<"serves">> => OfLast},
    ?assertEqual([Call], Words(Last)),
    ?assertEqual([#{<<"message">> => <<"call/{ask,_,_}">>, <<"serves">> => OfFirst,
        <<"call">> => OfLast, <<"request">> => <<"{nap,_,_}">>, <<"waits_for">> => pid(Last)}],
        Words(First)),
    ?assertEqual([#{<<"call">> => OfFirst, <<"request">> => <<"{ask,_,_}">>,
        <<"waits_for">> => pid(First)}], Words(Client)),
    ?assertEqual([#{<<"message">> => <<"cast/{nap,_,_}">>}], Words(Casted)),
    ?assertEqual([#{<<"message">> => <<"info/{nap,_,_}">>}], Words(Informed)).

waits_until_at(Pid, Function) ->
    waiting:eventually(fun() -> waits_work:is_at(Pid, Function) end).

%% Captured by a signal, in Erlang and in a BIF.
a_running_server_is_told_with_its_message(Config) ->
    Log = served:log(),
    Server = served:server(Log, []),
    Client = served:client(Server, [{call, {busy, 1 bsl 50, x, y}}], 0),
    Reference = waiting:eventually(fun() -> [{Ref, _, _, _}] = ets:tab2list(Log), {true, Ref} end),
    ok = start(Config, [Server], #{}),
    waiting:eventually(fun() ->
        maps:get(captures, maps:get(counters, flame_prof:info())) > 100
    end),
    Samples = stop([Server]),
    kill([Client, Server]),
    Right = #{<<"message">> => <<"call/{busy,_,_,_}">>, <<"serves">> => Reference},
    Running = [Words || {_, _, <<"running">>, _, Words} <- Samples],
    ?assert(lists:member(Right, Running)),
    %% A sample without a capture has none.
    ?assertEqual([], lists:usort(Running) -- [Right, #{}]).

each_behaviour_has_its_messages(Config) ->
    Log = served:log(),
    Server = served:server(Log, []),
    Statem = served:statem(Log),
    Events = served:events(Log),
    Clients = [served:client(Server, [{call, {nap, 3, x}}, {cast, {sleep, 3}}, {info, tick}], 0),
        served:client(Statem, [{call, {open, 1}}, {cast, {push, 1, 2}}, {info, knock}], 0),
        spawn(fun() -> notify(Events) end)],
    Pids = [Server, Statem, Events],
    waiting:eventually(fun() ->
        Samples = sampled(Config, Pids, #{}, 1000),
        [lists:usort([M || #{<<"message">> := M} <- words(Pid, Samples)]) || Pid <- Pids]
            =:= [[<<"call/{nap,_,_}">>, <<"cast/{sleep,_}">>, <<"info/tick">>],
                [<<"call/{open,_}">>, <<"cast/{push,_,_}">>, <<"info/knock">>, <<"timer/over">>],
                [<<"event/{noise,_}">>, <<"event/{sound,_}">>]]
    end),
    kill(Pids ++ Clients).

notify(Events) ->
    ok = gen_event:sync_notify(Events, {noise, 1}),
    ok = gen_event:notify(Events, {sound, 1}),
    notify(Events).

a_loop_of_ones_own_has_none(Config) ->
    Log = served:log(),
    Plain = served:plain(Log),
    Client = served:client(Plain, [{info, {sleep, 2}}], 3),
    Samples = sampled(Config, [Plain], #{}, 500),
    kill([Plain, Client]),
    ?assertEqual([#{}], words(Plain, Samples)).

%% Of a message that is in work, of its call and of those in the mailbox: the tag alone.
contents_are_in_no_file(Config) ->
    Log = served:log(),
    Server = served:server(Log, []),
    Secret = {busy, 5000, <<"a_secret_in_a_binary">>, #{a_secret_key => "a_secret_string"}},
    Clients = [served:client(Server, [{call, Secret}, {cast, Secret}, {info, Secret}], 0)
        || _ <- [1, 2]],
    ok = start(Config, [Server | Clients], #{}),
    Text = fun() ->
        ok = flame_prof:flush(),
        #{files := Files} = flame_prof:info(),
        iolist_to_binary([Bytes || File <- Files, {ok, Bytes} <- [file:read_file(File)]])
    end,
    Found = waiting:eventually(fun() ->
        Written = Text(),
        [{_, _}, {_, _}] = [binary:match(Written, Tag)
            || Tag <- [<<"message=call/{busy,_,_,_}">>, <<"request={busy,_,_,_}">>]],
        {true, Written}
    end),
    kill([Server | Clients]),
    ?assertEqual(nomatch, binary:match(Found, <<"secret">>)).

without_the_option_or_the_native_engine_there_are_none(Config) ->
    [begin
        Server = served:server(served:log(), []),
        Client = served:client(Server, [{call, {sleep, 5}}], 0),
        ok = start(Config, [Server, Client], Options),
        #{messages := {off, <<Why/binary>>}} = flame_prof:info(),
        ?assert(IsWhy(Why)),
        ok = wait(500),
        Samples = stop([Server, Client]),
        kill([Server, Client]),
        [?assertEqual([#{}], words(Pid, Samples)) || Pid <- [Server, Client]]
    end || {Options, IsWhy} <- [{#{messages => false}, fun(Why) -> Why =:= <<"not asked for">> end},
        {#{engine => portable}, fun(Why) -> Why =/= <<>> end}]].
