%% A first profile: what does this node do with its time?
-module(guide_first).

-export([run/1]).

run(Directory) ->
    Worker = spawn(fun work/0),
    true = register(worker, Worker),
    {ok, _} = flame_prof:start(#{dir => Directory}),
    timer:sleep(3000),
    {ok, #{files := Files}} = flame_prof:stop(),
    flame_prof:hot(Files, #{by => reductions, top => 3}).

work() ->
    _ = lists:sort([erlang:phash2(N) || N <- lists:seq(1, 20000)]),
    timer:sleep(1),
    work().
