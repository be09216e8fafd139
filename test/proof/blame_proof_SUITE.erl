%% How right the shares of callers are, of workloads that call 3 to 1.
-module(blame_proof_SUITE).

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, callers_of_a_bif/1,
    the_caller_of_a_recursion/1]).

suite() -> [{timetrap, {minutes, 5}}].
all() -> [callers_of_a_bif, the_caller_of_a_recursion].
init_per_suite(Config) -> native_node:or_skip(Config).
end_per_suite(_) -> ok.

callers_of_a_bif(_) ->
    blamed_work:with_asking(fun(_) ->
        _ = [begin
            {ok, #{matched := All, share_of_running := Share} = Report} =
                flame_prof_blame:report(Target, 20000),
            _ = [proof:share("blame: ~p: share of ~s", [Target, F], {of_caller(F, Report), All},
                {Part, 4}, "-5 to 5") || {F, Part} <- [{"often/1", 3}, {"seldom/1", 1}]],
            proof:figure("blame: ~p: percent of the running samples", [Target], Share, none, "50")
        end || Target <- [{ets, lookup, 2}, {ets, lookup, '_'}, <<"bif">>, "beam.smp"]]
    end).

of_caller(Function, #{callers := Callers}) ->
    lists:sum([N || #{name := Name, samples := N} <- Callers, blamed_work:is_of(Name, Function)]).

the_caller_of_a_recursion(_) ->
    blamed_work:with(spawn(blamed_work, entry, [20]), fun(_) ->
        {ok, #{matched := All} = Report} = flame_prof_blame:report({blamed_work, turn, 1}, 10000),
        proof:figure("blame: percent under the function that calls the outermost frame, of ~w",
            [All], 100 * of_caller("walk/1", Report) / max(1, All), none, "95")
    end).
