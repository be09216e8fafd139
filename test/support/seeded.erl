%% Random tests print their seed and take one from $SEED: the same values come again.
-module(seeded).

-export([seed/0, once/0, property/2]).

%% @doc Seeds the calling process. Returns the seed, for processes that the test starts.
-spec seed() -> non_neg_integer().
seed() ->
    Seed = case os:getenv("SEED") of
        false -> erlang:phash2({os:system_time(), make_ref(), os:getpid()}, 1 bsl 32);
        Text -> list_to_integer(Text)
    end,
    io:format(user, "    SEED=~w~n", [Seed]),
    _ = rand:seed(exsss, Seed),
    Seed.

%% @doc Seeds the calling process if nothing has: for draws that no test sees.
-spec once() -> ok.
once() ->
    _ = get(rand_seed) =:= undefined andalso seed(),
    ok.

%% @doc An EUnit test of a PropEr property with $PROPERTY_TIMES (1) times so many cases. PropEr
%% draws from the generator of the calling process. EUnit prints what PropEr found if it fails.
-spec property(term(), pos_integer()) -> {timeout, pos_integer(), fun(() -> true)}.
property(Property, Cases) ->
    Times = list_to_integer(os:getenv("PROPERTY_TIMES", "1")),
    {timeout, 100 * Times, fun() ->
        _ = seed(),
        true = proper:quickcheck(Property, {numtests, Cases * Times})
    end}.
