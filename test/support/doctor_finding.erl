%% What every finding of the doctor has to have, as a person reads it and as a machine does. Tests
%% of rules check all that they find by it.
-module(doctor_finding).

-include_lib("eunit/include/eunit.hrl").

-export([checked/1]).

%% What is a number of the VM's or of flame_prof's own, and not of the node.
-define(FIXED, "from 10 on, and drops messages from 200 on|of 50 ms and more|fewer than 256|"
    "\\(system_flag\\)").
%% Counts of processes that a title does not name.
-define(REST, "[0-9,]+ (others|more) ").
%% Processes, functions, addresses, names with digits in them, and terms.
-define(NAMES, "<[0-9.]+>|#[A-Za-z]+<[0-9.]+>|[a-z0-9_'@.]+:[^ ]+/[0-9]+|[A-Za-z_@]+[0-9_]+[a-z0-9_]*|"
    "slot [0-9]+|\\{[^ ]*\\}|'[^']*'").
-define(NUMBER, "(?<![0-9A-Za-z_])(-?[0-9][0-9,]*(?:\\.[0-9]+)?)"
    "(?: (%|bytes|KiB|MiB|GiB|us|ms|s|minutes|hours|days)(?![A-Za-z]))?").
-define(TIME, "[0-9] (us|ms|s|minutes|hours|days)(?![A-Za-z])").

%% The finding. It fails where a sentence is wrong.
checked(#{title := Title, sentences := Sentences, command := Command} = Finding) ->
    doctor_command:parses(Command),
    Said = [text(Sentence) || Sentence <- Sentences],
    ?assertEqual([], [S || S <- Said, ends(S) < 1]),
    %% A sentence may be several.
    ?assert(lists:sum([ends(S) || S <- Said]) =< 4, {more_than_four_sentences, Said}),
    All = lists:join(" ", [text(Title) | Said]),
    ?assertMatch({match, _}, re:run(All, ?TIME), {no_time, iolist_to_binary(All)}),
    Known = values(maps:get(numbers, Finding)),
    ?assertEqual([], [Token || Token <- tokens(All), not is_known(Token, Known)],
        {not_in_numbers, iolist_to_binary(All), maps:get(numbers, Finding)}),
    %% And a machine can read them.
    _ = flame_prof_json:encode(flame_prof_doctor:json(#{findings => [Finding], unseen => []})),
    Finding.

text(Text) -> unicode:characters_to_binary(Text).

ends(Sentence) ->
    case re:run(Sentence, "\\.(?= |$)", [global]) of
        {match, Found} -> length(Found);
        nomatch -> 0
    end.

tokens(Text) ->
    Plain = re:replace(Text, ?FIXED "|" ?NAMES "|" ?REST, "", [global, {return, binary}]),
    case re:run(Plain, ?NUMBER, [global, {capture, all_but_first, binary}]) of
        {match, Found} -> [token(Parts) || Parts <- Found];
        nomatch -> []
    end.

%% The least and the most that are written as this number, in the unit's own.
token([Digits]) -> token([Digits, <<>>]);
token([Digits, Unit]) ->
    Number = binary_to_list(binary:replace(Digits, <<",">>, <<>>, [global])),
    {Value, Half} = case string:split(Number, ".") of
        [_] -> {list_to_integer(Number), 0.5};
        [_, Behind] -> {list_to_float(Number), 0.5 * math:pow(10, -length(Behind))}
    end,
    {Kind, Scale} = unit(Unit),
    {Kind, (Value - Half) * Scale - 1.0e-6, (Value + Half) * Scale + 1.0e-6, Digits}.

unit(<<>>) -> {count, 1};
unit(<<"%">>) -> {share, 0.01};
unit(<<"bytes">>) -> {count, 1};
unit(<<"KiB">>) -> {count, 1 bsl 10};
unit(<<"MiB">>) -> {count, 1 bsl 20};
unit(<<"GiB">>) -> {count, 1 bsl 30};
unit(<<"us">>) -> {us, 1};
unit(<<"ms">>) -> {us, 1000};
unit(<<"s">>) -> {us, 1000000};
unit(<<"minutes">>) -> {us, 60000000};
unit(<<"hours">>) -> {us, 3600000000};
unit(<<"days">>) -> {us, 86400000000}.

is_known({Kind, Least, Most, _}, Known) ->
    lists:any(fun({Of, Value}) -> Of =:= Kind andalso Value >= Least andalso Value =< Most end,
        Known).

%% By the units in the keys. A number without a unit may be any that is no time.
values(Numbers) ->
    lists:append([valued(atom_to_list(Key), Value)
        || {Key, Value} <- maps:to_list(Numbers), is_number(Value)]).

valued(Key, Value) ->
    Words = string:lexemes(Key, "_"),
    Time = [{us, Value * Scale} || {Word, Scale} <- [{"us", 1}, {"ms", 1000}, {"seconds", 1000000}],
        lists:member(Word, Words)],
    case Time of [] -> [{count, Value}, {share, Value}]; [_ | _] -> Time end.
