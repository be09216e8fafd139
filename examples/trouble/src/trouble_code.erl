%% A compiler of rules that loads a module of five hundred functions anew, all the time.
-module(trouble_code).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([rules/0]).

-define(PAUSE_MS, 10).
-define(FUNCTIONS, 500).

children() ->
    [trouble:process(rule_loader, ?MODULE, rules, [])].

truth() ->
    #{problem => code_loading, kind => [code_loading], severity => warning,
      process => [rule_loader, code_server], function => <<"trouble_code:load/1">>,
      sentence => <<"rule_loader loads code all the time, in trouble_code:load/1.">>}.

rules() ->
    Names = [list_to_atom("rate_" ++ integer_to_list(N)) || N <- lists:seq(1, ?FUNCTIONS)],
    Forms = [{attribute, 1, module, trouble_rule},
        {attribute, 2, export, [{Name, 1} || Name <- Names]}
        | [{function, 3, Name, 1, [rate()]} || Name <- Names]],
    {ok, trouble_rule, Beam} = compile:forms(Forms),
    rules(Beam).

rules(Beam) ->
    load(Beam),
    timer:sleep(?PAUSE_MS),
    rules(Beam).

%% rate_N(A) -> {A, {A, 19}}.
rate() ->
    A = {var, 3, 'A'},
    {clause, 3, [A], [], [{tuple, 3, [A, {tuple, 3, [A, {integer, 3, 19}]}]}]}.

load(Beam) ->
    _ = code:purge(trouble_rule),
    {module, trouble_rule} = code:load_binary(trouble_rule, "trouble_rule.beam", Beam).
