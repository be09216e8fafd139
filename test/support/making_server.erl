%% A server that puts as many words on its heap as it is asked for, and little else: `large' three
%% times as many as `small', by turns.
-module(making_server).

-behaviour(gen_server).

-export([busy/0, init/1, handle_call/3, handle_cast/2]).

-define(SMALL, 1000).

%% @doc With a caller, linked, that asks all the time: both are ended by an exit of the caller.
-spec busy() -> {Server :: pid(), Caller :: pid()}.
busy() ->
    {ok, Server} = gen_server:start(?MODULE, [], []),
    Seed = seeded:seed(),
    {Server, spawn_link(fun() ->
        _ = rand:seed(exsss, Seed),
        true = link(Server),
        ask(Server)
    end)}.

ask(Server) ->
    ok = call(Server, large),
    ok = call(Server, small),
    ask(Server).

%% No two of them are as long: the collections come anywhere.
call(Server, Size) ->
    gen_server:call(Server, {Size, times(Size) * (?SMALL + rand:uniform(?SMALL div 10))}).

times(large) -> 3;
times(small) -> 1.

init([]) -> {ok, none}.

handle_call({_Size, N}, _From, State) ->
    N = length(lists:seq(1, N)),
    {reply, ok, State}.

handle_cast(_, State) -> {noreply, State}.
