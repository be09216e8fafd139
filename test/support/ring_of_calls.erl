%% Two servers, each of which calls the other one: for a node that has no other code of ours.
-module(ring_of_calls).

-export([start/0, init/1, handle_call/3, handle_cast/2]).

start() ->
    {ok, A} = gen_server:start({local, ring_a}, ?MODULE, [], []),
    {ok, B} = gen_server:start({local, ring_b}, ?MODULE, [], []),
    ok = gen_server:cast(A, {call, B}),
    gen_server:cast(B, {call, A}).

init([]) -> {ok, none}.
handle_call(now, _From, State) -> {reply, ok, State}.

%% Once both have their message.
handle_cast({call, Other}, State) ->
    timer:sleep(200),
    ok = gen_server:call(Other, now, infinity),
    {noreply, State}.
