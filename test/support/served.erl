%% Servers whose work is known: they log each message that they handle themselves, with the
%% reference that From has and the time that it took. The tags are atoms of this module.
-module(served).

-behaviour(gen_server).

-export([log/0, server/2, client/3, statem/1, events/1, plain/1, reference/1, spin/1, times/1,
    init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% Rows: {Reference, Server, Caller, Tag}; {{time, Server, Word}, Microseconds}.
-spec log() -> ets:table().
log() -> ets:new(?MODULE, [public, set, {write_concurrency, true}]).

%% @doc Microseconds of each message's word, of these servers together.
-spec times(ets:table()) -> #{binary() => pos_integer()}.
times(Log) ->
    lists:foldl(
        fun([Word, Us], Sums) -> maps:update_with(Word, fun(Sum) -> Sum + Us end, Us, Sums) end,
        #{}, ets:match(Log, {{time, '_', '$1'}, '$2'})).

-spec server(ets:table(), [term()]) -> pid().
server(Log, SpawnOptions) ->
    {ok, Pid} = gen_server:start(?MODULE, Log, [{spawn_opt, SpawnOptions}]),
    Pid.

init(Log) -> {ok, Log}.

handle_call(Request, {Caller, _} = From, Log) ->
    true = ets:insert(Log, {reference(From), self(), Caller, Request}),
    ok = timed(Log, [<<"call/">>, tag(Request)], Request),
    {reply, ok, Log}.

handle_cast(Request, Log) ->
    ok = timed(Log, [<<"cast/">>, tag(Request)], Request),
    {noreply, Log}.

handle_info(Message, Log) ->
    ok = timed(Log, [<<"info/">>, tag(Message)], Message),
    {noreply, Log}.

timed(Log, Word, Work) ->
    Begin = erlang:monotonic_time(microsecond),
    ok = work(Work),
    Us = erlang:monotonic_time(microsecond) - Begin,
    Key = {time, self(), iolist_to_binary(Word)},
    _ = ets:update_counter(Log, Key, Us, {Key, 0}),
    ok.

%% As a file has it.
tag(Atom) when is_atom(Atom) -> atom_to_binary(Atom);
tag(Tuple) ->
    Rest = lists:duplicate(tuple_size(Tuple) - 1, <<",_">>),
    [${, atom_to_binary(element(1, Tuple)), Rest, $}].

work({sleep, Ms}) -> timer:sleep(Ms);
work({nap, Ms, _}) -> timer:sleep(Ms);
work({busy, N, _, _}) -> spin(N);
work({alloc, N}) -> allocate(N);
work({ask, Server, Request}) -> gen_server:call(Server, Request, infinity);
work(refresh) -> spin(3000);
work(tick) -> timer:sleep(2).

-spec spin(non_neg_integer()) -> ok.
spin(0) -> ok;
spin(N) -> spin(N - erlang:phash2(N, 1) - 1).

%% Collects garbage.
allocate(0) -> ok;
allocate(N) ->
    _ = lists:seq(1, 50),
    allocate(N - 1).

%% @doc The last three numbers that it is printed with: A.B.C.
-spec reference(gen_server:from()) -> binary().
reference({_Pid, [alias | Ref]}) -> reference({none, Ref});
reference({_Pid, [[alias | _] | Ref]}) -> reference({none, Ref});
reference({_Pid, Ref}) ->
    Numbers = string:lexemes(ref_to_list(Ref), "#Ref<.>"),
    iolist_to_binary(lists:join($., lists:nthtail(length(Numbers) - 3, Numbers))).

%% @doc Sends these requests to the server, one after the other, for as long as it lives.
-spec client(pid(), [{call | cast | info, term()}], timeout()) -> pid().
client(Server, Requests, PauseMs) -> spawn(fun() -> ask(Server, Requests, PauseMs) end).

ask(Server, Requests, PauseMs) ->
    lists:foreach(fun(Request) -> ok = send(Server, Request) end, Requests),
    timer:sleep(PauseMs),
    ask(Server, Requests, PauseMs).

send(Server, {call, Request}) -> gen_server:call(Server, Request, infinity);
send(Server, {timed_call, Request}) -> gen_server:call(Server, Request, 60000);
send(Server, {cast, Request}) -> gen_server:cast(Server, Request);
send(Server, {info, Message}) ->
    Server ! Message,
    ok.

%% gen_statem and gen_event: they sleep in each event.

-spec statem(ets:table()) -> pid().
statem(Log) ->
    {ok, Pid} = gen_statem:start(served_statem, Log, []),
    Pid.

-spec events(ets:table()) -> pid().
events(Log) ->
    {ok, Pid} = gen_event:start(),
    ok = gen_event:add_handler(Pid, served_events, Log),
    Pid.

%% @doc A loop of its own.
-spec plain(ets:table()) -> pid().
plain(_Log) -> spawn(fun plain_loop/0).

plain_loop() ->
    receive {_, _} = Request -> work(Request) end,
    plain_loop().
