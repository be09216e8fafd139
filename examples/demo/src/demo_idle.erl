%% The crowd: thousands of processes that wait, as on any node with connections.
%% A few of them are woken each second.
-module(demo_idle).
-behaviour(gen_server).

-export([start_crowd/2, init_crowd/2, wait/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(PAUSE_MS, 100).
-define(WOKEN, 5).

start_crowd(Servers, Bare) ->
    proc_lib:start_link(?MODULE, init_crowd, [Servers, Bare], 60000).

init_crowd(Servers, Bare) ->
    register(?MODULE, self()),
    Pids = [begin
                {ok, Pid} = gen_server:start_link(?MODULE, N, []),
                Pid
            end || N <- lists:seq(1, Servers)]
        ++ [spawn_link(?MODULE, wait, []) || _ <- lists:seq(1, Bare)],
    proc_lib:init_ack({ok, self()}),
    wake(list_to_tuple(Pids)).

wake(Pids) ->
    [element(rand:uniform(tuple_size(Pids)), Pids) ! awake || _ <- lists:seq(1, ?WOKEN)],
    timer:sleep(?PAUSE_MS),
    wake(Pids).

wait() ->
    receive awake -> wait() end.

init(N) when N rem 10 =:= 0 -> {ok, N, hibernate};
init(N) -> {ok, N}.

handle_call(Request, _From, N) ->
    {reply, {unknown, Request}, N}.

handle_cast(_, N) ->
    {noreply, N}.

handle_info(awake, N) when N rem 10 =:= 0 -> {noreply, N, hibernate};
handle_info(awake, N) -> {noreply, N}.
