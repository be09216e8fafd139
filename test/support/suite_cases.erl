-module(suite_cases).

-export([list/2]).

%% @doc The cases of a suite: what it exports with one argument, but for Common Test and Others.
-spec list(module(), [atom()]) -> [atom()].
list(Suite, Others) ->
    [F || {F, 1} <- Suite:module_info(exports),
        not lists:member(F, [module_info, init_per_suite, end_per_suite | Others])].
