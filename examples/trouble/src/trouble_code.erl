%% A compiler of rules that loads a module anew fifteen times a second.
-module(trouble_code).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([rules/0]).

-define(PAUSE_MS, 60).

children() ->
    [trouble:process(rule_loader, ?MODULE, rules, [])].

truth() ->
    #{problem => code_loading, kind => [code_loading], severity => warning,
      process => [rule_loader, code_server], function => <<"trouble_code:load/1">>,
      sentence => <<"rule_loader loads code fifteen times a second, in trouble_code:load/1.">>}.

rules() ->
    Forms = [{attribute, 1, module, trouble_rule}, {attribute, 2, export, [{rate, 0}]},
        {function, 3, rate, 0, [{clause, 3, [], [], [{integer, 3, 19}]}]}],
    {ok, trouble_rule, Beam} = compile:forms(Forms),
    rules(Beam).

rules(Beam) ->
    load(Beam),
    timer:sleep(?PAUSE_MS),
    rules(Beam).

load(Beam) ->
    _ = code:purge(trouble_rule),
    {module, trouble_rule} = code:load_binary(trouble_rule, "trouble_rule.beam", Beam).
