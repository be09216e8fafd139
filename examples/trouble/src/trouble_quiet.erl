%% What is beside each problem: three hundred idle processes, and a little work.
-module(trouble_quiet).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([walker/1]).

-define(WALKERS, 5).

children() ->
    [#{id => crowd, start => {demo_idle, start_crowd, [150, 150]}}] ++
        [trouble:process({walker, N}, ?MODULE, walker, [N]) || N <- lists:seq(1, ?WALKERS)].

truth() ->
    #{problem => quiet, kind => [], process => [], sentence => <<"Little happens.">>}.

walker(N) ->
    timer:sleep(20),
    walker(erlang:phash2([{N, I} || I <- lists:seq(1, 300)])).
