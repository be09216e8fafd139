%% One function that has most of a node's CPU time, and nodes that work as hard for good reasons.
-module(flame_prof_doctor_hottest_tests).

-include_lib("eunit/include/eunit.hrl").

-import(made_samples, [judged/1, judged/2, holder/2, worker/2, stack/2]).

idle() -> holder(idle, fun(_) -> #{} end).

%% These shares of the time, and on a CPU in these functions in turn.
request(N, Shares, Leaves) ->
    #{at := At} = Worker = worker(list_to_atom("request_" ++ integer_to_list(N)), Shares),
    Worker#{at := fun(Us) ->
        case At(Us) of
            #{status := running} = State ->
                Leaf = lists:nth(1 + Us div 10000 rem length(Leaves), Leaves),
                State#{stack := stack(request, [Leaf, "orders:by_customer/1:8"])};
            State -> State
        end
    end}.

requests(Shares, Leaves) -> [request(N, Shares, Leaves) || N <- lists:seq(1, 4)].

-define(BUSY, [{running, 0.4}, {runnable, 0.4}]).
-define(SELECT, {"ets:select/2", "bif"}).

workers_that_wait_in_between_and_have_the_node_are_told_with_the_function_test() ->
    [#{kind := hot_function, function := Function, processes := Named} = One] =
        judged([idle() | requests(?BUSY, [?SELECT])]),
    ?assertEqual({<<"orders:by_customer/1">>, 4}, {Function, length(Named)}),
    #{title := Title} = One,
    ?assertMatch({match, _}, re:run(unicode:characters_to_list(Title), "in ets:select/2$")).

a_busy_node_with_an_even_mix_is_healthy_test() ->
    Mix = [?SELECT, {"lists:keyfind/3", "bif"}, "lists:sort/1:9", "json:encode/1:3"],
    ?assertEqual([], judged([idle() | requests(?BUSY, Mix)])).

%% A VM that has little of a CPU seems to be on one in each sample.
a_vm_without_cpus_has_no_hot_function_test() ->
    Found = fun(Ms) ->
        [Kind || #{kind := Kind} <- judged([idle() | requests(?BUSY, [?SELECT])],
            #{own => [{1000000 * N, #{node_runtime_ms => Ms * N}} || N <- lists:seq(0, 9)]})]
    end,
    ?assertEqual({[hot_function], []}, {Found(1600), Found(200)}).
