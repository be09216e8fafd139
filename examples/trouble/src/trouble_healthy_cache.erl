%% Healthy: a table of 60 MB that eight processes read and write, and that does not grow.
-module(trouble_healthy_cache).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([keeper/0, user/1]).

-define(KEYS, 100000).
-define(USERS, 8).

children() ->
    [trouble:process(page_cache, ?MODULE, keeper, [])] ++
        [trouble:process({cache_reader, N}, ?MODULE, user, [N]) || N <- lists:seq(1, ?USERS)].

truth() ->
    #{problem => healthy_cache, kind => [], process => [],
      sentence => <<"Eight processes read and write a large table that does not grow.">>}.

keeper() ->
    pages = ets:new(pages, [named_table, public, set, {read_concurrency, true},
        {write_concurrency, true}]),
    [ets:insert(pages, value(N)) || N <- lists:seq(1, ?KEYS)],
    receive stop -> ok end.

value(N) -> {N, lists:seq(1, 30), integer_to_binary(N)}.

user(N) ->
    case ets:info(pages, size) of
        ?KEYS -> uses(N, 300);
        _ -> timer:sleep(50)
    end,
    timer:sleep(10),
    user(N + 1000).

uses(_, 0) -> ok;
uses(N, Left) ->
    Key = 1 + erlang:phash2(N + Left, ?KEYS),
    [{Key, _, _}] = ets:lookup(pages, Key),
    Left rem 20 =:= 0 andalso ets:insert(pages, value(Key)),
    uses(N, Left - 1).
