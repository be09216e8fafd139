%% Everybody waits for one process. Which one, and what does it do?
-module(guide_bottleneck).

-behaviour(gen_server).

-export([run/1]).
-export([init/1, handle_call/3, handle_cast/2]).

run(Directory) ->
    {ok, _} = gen_server:start({local, the_cache}, ?MODULE, [], []),
    _ = [spawn(fun client/0) || _ <- lists:seq(1, 50)],
    %% Who has the longest queue, and who is busiest.
    {ok, _} = flame_prof:start(#{
        dir => Directory,
        select => [
            #{top => 5, by => message_queue_len, interval => 500},
            #{top => 20, by => reductions, interval => 500}
        ]
    }),
    timer:sleep(3000),
    {ok, #{files := Files}} = flame_prof:stop(),
    io:format("~n--- where the processes wait~n"),
    flame_prof:hot(Files, #{status => waiting, top => 2}),
    io:format("~n--- who works~n"),
    flame_prof:hot(Files, #{by => reductions, top => 2}).

client() ->
    _ = gen_server:call(the_cache, lookup, infinity),
    client().

init([]) ->
    {ok, lists:seq(1, 5000)}.

%% A list where there should be a map.
handle_call(lookup, _From, List) ->
    {reply, lists:member(5000, lists:reverse(lists:reverse(List))), List}.

handle_cast(_, List) ->
    {noreply, List}.
