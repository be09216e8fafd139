%% Votes that forty processes count in one table without write_concurrency, each with a scan in
%% it, so that each one has the table's lock for long.
-module(trouble_lock).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([keeper/0, voter/1]).

-define(VOTERS, 40).
-define(CANDIDATES, 20000).

children() ->
    [trouble:process(ballot_box, ?MODULE, keeper, [])] ++
        [trouble:process({voter, N}, ?MODULE, voter, [N]) || N <- lists:seq(1, ?VOTERS)].

truth() ->
    #{problem => ets_lock, kind => [lock], severity => note,
      process => [], function => <<"trouble_lock:vote/1">>,
      sentence => <<"40 processes wait for the lock of the table ballots, in "
          "trouble_lock:vote/1.">>}.

keeper() ->
    ballots = ets:new(ballots, [named_table, public, ordered_set]),
    ets:insert(ballots, [{N, 0} || N <- lists:seq(1, ?CANDIDATES)]),
    receive stop -> ok end.

voter(N) ->
    case ets:info(ballots, size) of
        ?CANDIDATES -> vote(N);
        _ -> timer:sleep(50)
    end,
    voter(N + 1).

vote(N) ->
    Key = 1 + erlang:phash2(N, ?CANDIDATES),
    _ = ets:update_counter(ballots, Key, 1),
    ets:insert(ballots, [{K, N} || K <- lists:seq(Key, min(Key + 300, ?CANDIDATES))]).
