%% A node of four schedulers that uses one of them (`+S 4:1'), with work for all.
-module(trouble_offline).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([works/1]).

-define(WORKERS, 80).

children() ->
    [trouble:process({route, N}, ?MODULE, works, [N]) || N <- lists:seq(1, ?WORKERS)].

truth() ->
    #{problem => offline, kind => [run_queue], severity => warning, flags => ["+S", "4:1"],
      process => [],
      sentence => <<"Three of four schedulers are offline, and 80 processes wait for the one.">>}.

%% An even mix: no function is the cause.
works(N) ->
    _ = case N rem 4 of
        0 -> lists:sort([(K * 7919) rem 1009 || K <- lists:seq(1, 3000)]);
        1 -> erlang:phash2(lists:seq(1, 20000));
        2 -> maps:from_list([{K, K} || K <- lists:seq(1, 2000)]);
        3 -> binary:split(binary:copy(<<"stop,">>, 2000), <<",">>, [global])
    end,
    timer:sleep(10),
    works(N).
