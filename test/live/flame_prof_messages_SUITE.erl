%% What samples say of the messages that servers have in work and of the calls that processes
%% wait for, against what the servers have logged themselves (served).
%%
%% The files are read here, line by line: no reader of the library has a part in it.
%% MESSAGES_SAMPLES (100000) is how many samples are held against the logs.
-module(flame_prof_messages_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    no_word_is_wrong/1,
    shares_by_message_are_true/1,
    a_running_server_is_told_with_its_message/1,
    each_behaviour_has_its_messages/1,
    a_loop_of_ones_own_has_none/1,
    contents_are_in_no_file/1,
    without_the_option_there_are_none/1,
    the_portable_engine_says_that_it_has_none/1
]).

-define(POINTS, 1.0).
%% On a machine that is busy with something else, one of them is right.
-define(ROUNDS, 10).

suite() ->
    [{timetrap, {minutes, 10}}].

all() ->
    [
        no_word_is_wrong,
        shares_by_message_are_true,
        a_running_server_is_told_with_its_message,
        each_behaviour_has_its_messages,
        a_loop_of_ones_own_has_none,
        contents_are_in_no_file,
        without_the_option_there_are_none,
        the_portable_engine_says_that_it_has_none
    ].

init_per_suite(Config) ->
    case flame_prof_nif:platform() of
        #{native := false, why := Why} -> {skip, {no_native_engine, Why}};
        #{native := true} -> Config
    end.

end_per_suite(_) ->
    ok.

init_per_testcase(_, Config) ->
    _ = flame_prof:stop(),
    Config.

end_per_testcase(_, _Config) ->
    _ = flame_prof:stop(),
    ok.

%% Servers that wait, compute, allocate (with each collection a major one, too), and ask others
%% while they serve.
no_word_is_wrong(Config) ->
    Log = served:log(),
    Last = [served:server(Log, [{fullsweep_after, F}]) || F <- [0, 1, 20, 65535]],
    First = [served:server(Log, [{fullsweep_after, 0}]) || _ <- Last],
    Work = [
        {call, {alloc, 200}}, {call, {busy, 5000, x, y}}, {timed_call, {sleep, 1}},
        {cast, refresh}, {call, {nap, 2, x}}, {info, tick}
    ],
    Clients = [served:client(S, Work, 1) || S <- Last, _ <- [a, b]] ++
        [served:client(F, [{call, {ask, S, {nap, 1, x}}}, {call, {alloc, 20}}], 0)
            || {F, S} <- lists:zip(First, Last), _ <- [a, b, c]],
    Samples = sampled(Config, Log, Clients ++ First ++ Last, env("MESSAGES_SAMPLES", 100000)),
    Told = [Sample || {_, _, Words} = Sample <- Samples, Words =/= #{}],
    Wrong = lists:append([wrong(Log, Sample) || Sample <- Told]),
    Words = lists:sum([map_size(Words) || {_, _, Words} <- Told]),
    say("~b samples, ~b with ~b words, ~b wrong", [length(Samples), length(Told), Words,
        length(Wrong)]),
    kill(Clients ++ First ++ Last),
    ?assertEqual([], lists:sublist(Wrong, 5)),
    %% Calls that were not in work yet when the session ended: one of a process.
    References = lists:usort([R || {_, _, W} <- Told, Key <- [<<"serves">>, <<"call">>],
        {ok, R} <- [maps:find(Key, W)]]),
    Unknown = [R || R <- References, not ets:member(Log, R)],
    ?assert(length(Unknown) =< length(Clients ++ First), {Unknown, length(References)}),
    %% Each word was there to be wrong.
    [?assert(count(Word, Told) > 100, Word)
     || Word <- [<<"message">>, <<"serves">>, <<"call">>, <<"request">>, <<"waits_for">>]].

wrong(Log, {Pid, _Status, Words}) ->
    served_wrong(Log, Pid, Words) ++ called_wrong(Log, Pid, Words) ++ message_wrong(Words).

served_wrong(Log, Pid, #{<<"serves">> := Reference} = Words) ->
    case ets:lookup(Log, Reference) of
        [{_, Server, _, Request}] ->
            Expected = iolist_to_binary(["call/", tag(Request)]),
            Said = {Pid, maps:get(<<"message">>, Words)},
            [{Pid, Words} || Said =/= {pid(Server), Expected}];
        %% It is counted.
        [] -> []
    end;
served_wrong(_Log, _Pid, _Words) ->
    [].

called_wrong(Log, Pid, #{<<"call">> := Reference} = Words) ->
    case ets:lookup(Log, Reference) of
        [{_, Server, Caller, Request}] ->
            Right = {pid(Caller), pid(Server), iolist_to_binary(tag(Request))},
            {_, Awaited, Tag} = Right,
            Said = {Pid, maps:get(<<"waits_for">>, Words, Awaited),
                maps:get(<<"request">>, Words, Tag)},
            [{Pid, Words, Right} || Said =/= Right];
        [] -> []
    end;
called_wrong(_Log, _Pid, _Words) ->
    [].

message_wrong(#{<<"message">> := Message} = Words) ->
    [Words || not lists:member(Message, [
        <<"call/{alloc,_}">>, <<"call/{busy,_,_,_}">>, <<"call/{sleep,_}">>, <<"cast/refresh">>,
        <<"call/{nap,_,_}">>, <<"info/tick">>, <<"call/{ask,_,_}">>
    ])];
message_wrong(_) ->
    [].

tag(Request) ->
    [${, atom_to_list(element(1, Request)), lists:duplicate(tuple_size(Request) - 1, ",_"), $}].

%% The time that the servers have measured themselves is the truth. Each look at the machine
%% is one of several.
shares_by_message_are_true(Config) ->
    rounds(?ROUNDS, fun() -> shares(Config) end).

shares(Config) ->
    Log = served:log(),
    Servers = [served:server(Log, []) || _ <- lists:seq(1, 12)],
    Work = [
        {call, {sleep, 9}}, {cast, tick}, {call, {nap, 4, x}}, {info, tick}, {cast, {sleep, 3}},
        {call, {busy, 1000, x, y}}
    ],
    Clients = [served:client(S, Work, 2 + N rem 5)
        || {N, S} <- lists:zip(lists:seq(1, length(Servers)), Servers)],
    {Before, After, Samples} = timed(Config, Log, Servers, 24000),
    kill(Clients ++ Servers),
    Truth = maps:map(fun(Word, Us) -> Us - maps:get(Word, Before, 0) end, After),
    Total = lists:sum(maps:values(Truth)),
    Messages = [M || {_, _, #{<<"message">> := M}} <- Samples],
    Rows = [{Word, 100 * length([M || M <- Messages, M =:= Word]) / length(Messages),
        100 * Us / Total} || {Word, Us} <- lists:sort(maps:to_list(Truth))],
    Worst = lists:max([abs(Measured - True) || {_, Measured, True} <- Rows]),
    say("~b samples with a message of ~b, worst ~.2f points: ~p",
        [length(Messages), length(Samples), Worst, Rows]),
    Worst =< ?POINTS.

timed(Config, Log, Servers, Count) ->
    start(Config, Log, Servers),
    Before = served:times(Log),
    ok = wait_for(Count),
    After = served:times(Log),
    {Before, After, stop(Servers)}.

rounds(0, _Round) -> error(wrong_in_all_rounds);
rounds(N, Round) ->
    case Round() of
        true -> ok;
        false -> rounds(N - 1, Round)
    end.

%% Captured by a signal, in Erlang and in a BIF.
a_running_server_is_told_with_its_message(Config) ->
    Log = served:log(),
    Server = served:server(Log, []),
    Client = served:client(Server, [{call, {busy, 300000, x, y}}], 0),
    Samples = sampled(Config, Log, [Server], 3000),
    kill([Client, Server]),
    Running = [Words || {_, <<"running">>, Words} <- Samples],
    Told = [W || #{<<"message">> := <<"call/{busy,_,_,_}">>, <<"serves">> := _} = W <- Running],
    say("~b of ~b running samples are told", [length(Told), length(Running)]),
    ?assert(length(Running) > 300),
    ?assert(100 * length(Told) >= 95 * length(Running)).

each_behaviour_has_its_messages(Config) ->
    Log = served:log(),
    Server = served:server(Log, []),
    Statem = served:statem(Log),
    Events = served:events(Log),
    Clients = [
        served:client(Server, [{call, {nap, 3, x}}, {cast, {sleep, 3}}, {info, tick}], 0),
        served:client(Statem, [{call, {open, 1}}, {cast, {push, 1, 2}}, {info, knock}], 0),
        spawn(fun() -> notify(Events) end)
    ],
    Samples = sampled(Config, Log, [Server, Statem, Events], 6000),
    kill([Server, Statem, Events | Clients]),
    Seen = fun(Pid) ->
        lists:usort([M || {P, _, #{<<"message">> := M}} <- Samples, P =:= pid(Pid)])
    end,
    say("~p ~p ~p", [Seen(Server), Seen(Statem), Seen(Events)]),
    ?assertEqual(
        [<<"call/{nap,_,_}">>, <<"cast/{sleep,_}">>, <<"info/tick">>], Seen(Server)),
    ?assertEqual(
        [<<"call/{open,_}">>, <<"cast/{push,_,_}">>, <<"info/knock">>, <<"timer/over">>],
        Seen(Statem)),
    ?assertEqual([<<"event/{noise,_}">>, <<"event/{sound,_}">>], Seen(Events) -- [<<"info/x">>]).

notify(Events) ->
    ok = gen_event:sync_notify(Events, {noise, 1}),
    ok = gen_event:notify(Events, {sound, 1}),
    notify(Events).

a_loop_of_ones_own_has_none(Config) ->
    Log = served:log(),
    Plain = served:plain(Log),
    Client = served:client(Plain, [{info, {sleep, 2}}], 3),
    Samples = sampled(Config, Log, [Plain], 500),
    kill([Plain, Client]),
    ?assertEqual([], [W || {_, _, W} <- Samples, W =/= #{}]).

%% Of a message that is in work, of its call and of those in the mailbox: the tag alone.
contents_are_in_no_file(Config) ->
    Log = served:log(),
    Server = served:server(Log, []),
    Secret = {busy, 5000, <<"a_secret_in_a_binary">>, #{a_secret_key => "a_secret_string"}},
    Clients = [served:client(Server, [{call, Secret}, {cast, Secret}, {info, Secret}], 0)
        || _ <- [1, 2]],
    start(Config, Log, [Server | Clients], #{compress => none}),
    ok = wait_for(500),
    {ok, #{files := Files}} = flame_prof:stop(),
    kill([Server | Clients]),
    Text = iolist_to_binary([Bytes || File <- Files, {ok, Bytes} <- [file:read_file(File)]]),
    [?assertMatch({_, {_, _}}, {Tag, binary:match(Text, Tag)})
        || Tag <- [<<"message=call/{busy,_,_,_}">>, <<"request={busy,_,_,_}">>]],
    ?assertEqual(nomatch, binary:match(Text, <<"secret">>)).

without_the_option_there_are_none(Config) ->
    Log = served:log(),
    Server = served:server(Log, []),
    Client = served:client(Server, [{call, {sleep, 5}}], 0),
    start(Config, Log, [Server, Client], #{messages => false}),
    ?assertMatch(#{messages := {off, <<"not asked for">>}}, flame_prof:info()),
    ok = wait_for(500),
    Samples = stop([Server, Client]),
    kill([Server, Client]),
    ?assertEqual([], [W || {_, _, W} <- Samples, W =/= #{}]).

the_portable_engine_says_that_it_has_none(Config) ->
    Log = served:log(),
    Server = served:server(Log, []),
    start(Config, Log, [Server], #{engine => portable}),
    ?assertMatch(#{messages := {off, <<_, _/binary>>}}, flame_prof:info()),
    ok = wait_for(100),
    Samples = stop([Server]),
    kill([Server]),
    ?assertEqual([], [W || {_, _, W} <- Samples, W =/= #{}]).

%% A session, and its samples of these processes: {Pid, Status, Words of the sample}.

sampled(Config, Log, Pids, Count) ->
    start(Config, Log, Pids),
    ok = wait_for(Count),
    stop(Pids).

start(Config, Log, Pids) ->
    start(Config, Log, Pids, #{}).

start(Config, _Log, Pids, Options) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config),
        integer_to_list(erlang:unique_integer([positive]))),
    {ok, _} = flame_prof:start(maps:merge(#{
        dir => Dir,
        engine => native,
        sample_interval => 1,
        select => {top, 0, 1000},
        growers => 0,
        include => Pids,
        cpu_budget => infinity,
        compress => none,
        max_file_bytes => infinity
    }, Options)),
    ok.

wait_for(Count) ->
    timer:sleep(100),
    case flame_prof:info() of
        #{counters := #{attempted := Attempted}} when Attempted >= Count -> ok;
        #{} -> wait_for(Count)
    end.

stop(Pids) ->
    {ok, #{files := Files}} = flame_prof:stop(),
    Known = [pid(Pid) || Pid <- Pids],
    Texts = [element(2, {ok, _} = file:read_file(File)) || File <- Files],
    [_ = file:delete(File) || File <- Files],
    {Samples, _} = lists:foldl(fun read/2, {[], #{}}, Texts),
    [Sample || {Pid, _, _} = Sample <- Samples, lists:member(Pid, Known)].

%% A whole sample tells whose tid it is.
read(Text, Acc) ->
    lists:foldl(
        fun(Piece, {Samples, Tids0}) ->
            [Header | Frames] = binary:split(Piece, <<"\n">>, [global]),
            [_, Ids, _, _ | Fields] = binary:split(Header, <<" ">>, [global]),
            Words = maps:from_list([{K, V} || Field <- Fields,
                [K, V] <- [binary:split(Field, <<"=">>)]]),
            Tids = case Words of
                #{<<"erl_pid">> := Told} -> Tids0#{Ids => Told};
                #{} -> Tids0
            end,
            <<"\tffffffff ", Status/binary>> = lists:last(Frames),
            Own = maps:with([<<"message">>, <<"serves">>, <<"waits_for">>, <<"call">>,
                <<"request">>], Words),
            {[{maps:get(Ids, Tids, none), hd(binary:split(Status, <<" ">>)), Own} | Samples], Tids}
        end,
        Acc,
        binary:split(Text, <<"\n\n">>, [global, trim_all])
    ).

pid(Pid) -> list_to_binary(pid_to_list(Pid)).

count(Word, Samples) ->
    length([yes || {_, _, Words} <- Samples, is_map_key(Word, Words)]).

kill(Pids) ->
    lists:foreach(fun(Pid) -> exit(Pid, kill) end, Pids).

env(Name, Default) ->
    case os:getenv(Name) of
        false -> Default;
        Value -> list_to_integer(Value)
    end.

say(Format, Args) -> ct:pal(Format, Args).
