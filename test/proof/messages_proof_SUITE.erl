%% How right the words of samples are, against what servers have logged themselves (served).
-module(messages_proof_SUITE).

-import(sampled_words, [start/3, wait/1, stop/1, sampled/4, kill/1]).

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, words/1, shares_by_message/1,
    running_servers/1]).

suite() -> [{timetrap, {minutes, 10}}].
all() -> [words, shares_by_message, running_servers].
init_per_suite(Config) -> sampled_words:why_not(Config).
end_per_suite(_) -> ok.

words(Config) ->
    Work = served_words:work(),
    Samples = sampled(Config, served_words:pids(Work), #{}, 100000),
    #{told := Told, words := Words, wrong := Wrong} = served_words:judged(Work, Samples),
    kill(served_words:pids(Work)),
    proof:figure("messages: wrong words of ~w", [Words], length(Wrong), none, "0"),
    _ = [proof:figure("messages: samples with ~s", [Word],
        length([x || {_, _, _, _, #{Word := _}} <- Told]), none, "")
        || Word <- [<<"message">>, <<"serves">>, <<"call">>, <<"request">>, <<"waits_for">>]],
    ok.

%% The time that the servers have measured themselves is the truth.
shares_by_message(Config) ->
    Log = served:log(),
    Servers = [served:server(Log, []) || _ <- lists:seq(1, 12)],
    Work = [{call, {sleep, 9}}, {cast, tick}, {call, {nap, 4, x}}, {info, tick}, {cast, {sleep, 3}},
        {call, {busy, 1000, x, y}}],
    Clients = [served:client(S, Work, 2 + N rem 5)
        || {N, S} <- lists:zip(lists:seq(1, length(Servers)), Servers)],
    ok = start(Config, Servers, #{}),
    Before = served:times(Log),
    ok = wait(24000),
    After = served:times(Log),
    Messages = [M || {_, _, _, _, #{<<"message">> := M}} <- stop(Servers)],
    kill(Clients ++ Servers),
    Truth = maps:map(fun(Word, Us) -> Us - maps:get(Word, Before, 0) end, After),
    _ = [proof:share("messages: share of ~s", [Word],
        {length([M || M <- Messages, M =:= Word]), length(Messages)},
        {Us, lists:sum(maps:values(Truth))}, "-1 to 1") || {Word, Us} <- maps:to_list(Truth)],
    ok.

running_servers(Config) ->
    Log = served:log(),
    Server = served:server(Log, []),
    Client = served:client(Server, [{call, {busy, 300000, x, y}}], 0),
    Samples = sampled(Config, [Server], #{}, 3000),
    kill([Client, Server]),
    Running = [Words || {_, _, <<"running">>, _, Words} <- Samples],
    Told = [W || #{<<"message">> := <<"call/{busy,_,_,_}">>, <<"serves">> := _} = W <- Running],
    proof:figure("messages: running samples with the message in work, percent of ~w",
        [length(Running)], 100 * length(Told) / max(1, length(Running)), none, "95").
