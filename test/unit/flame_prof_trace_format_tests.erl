%% How events and cut terms are shown.
-module(flame_prof_trace_format_tests).

-include_lib("eunit/include/eunit.hrl").

shown(Term) -> lists:flatten(unicode:characters_to_list(flame_prof_trace_format:term(Term))).

terms_are_shown_as_erlang_writes_them_test() ->
    [?assertEqual(lists:flatten(io_lib:format("~0tp", [Term])), shown(Term)) || Term <- [
        a, 'B', 1, 1.5, "text", "é", [], {}, #{}, <<"b">>, <<1, 2>>, [1, 2], [a | b], {a, {b, "c"}},
        #{a => 1}, [[]], [{a, []}], self()]].

what_was_cut_is_shown_test() ->
    [?assertEqual(Text, shown(Term)) || {Term, Text} <- [{'...', "..."},
        {[1, 2 | '...'], "[1,2|...]"},
        {"abc" ++ '...', "\"abc\"..."},
        {{a, '...'}, "{a,...}"},
        {{'...', tuple, 5, [a, b]}, "{a,b,... 3 more}"},
        {{'...', tuple, 5, []}, "{... 5 more}"},
        {{'...', tuple, 2, [a, b]}, "{a,b}"},
        {{'...', map, 3, [{k, v}]}, "#{k => v,... 2 more}"},
        {{'...', binary, 4096, <<"ab">>}, "<<\"ab\"... 4096 bytes>>"},
        {{'...', binary, 10, <<>>}, "<<... 10 bytes>>"},
        {{'...', text, <<"#Ref<0.1.2.3>">>}, "#Ref<0.1.2.3>"}]].

lines(Event) ->
    Text = unicode:characters_to_list(flame_prof_trace_format:format(
        Event#{time => 1600000000123456789, process => self(), name => maps:get(name, Event, me)})),
    [Head | Lines] = string:lexemes(Text, "\n"),
    "% " ++ Rest = Head,
    ?assertMatch({match, _}, re:run(Rest, "^[0-9]{2}:[0-9]{2}:[0-9]{2}\\.123456 <[0-9.]+>")),
    {lists:last(string:lexemes(Rest, " ")), [Line || "% " ++ Line <- Lines]}.

each_kind_of_event_has_its_line_test() ->
    Pid = self(),
    P = pid_to_list(Pid),
    MFA = {m, f, 2},
    [?assertEqual({"me", Lines}, lines(Event)) || {Event, Lines} <- [
        {#{event => call, mfa => MFA, args => [1, "b"], caller => {a, b, 0}},
            ["m:f(1, \"b\")", "  called by a:b/0"]},
        {#{event => call, mfa => {m, f, 0}, args => [], caller => undefined}, ["m:f()"]},
        {#{event => call, mfa => {'Elixir.Shop.Cart', add, 1}, args => [1],
            caller => {'Elixir.Shop', run, 0}}, ["Shop.Cart.add(1)", "  called by Shop.run/0"]},
        {#{event => return, mfa => {'Elixir.Shop.Cart', add, 1}, value => ok},
            ["Shop.Cart.add/1 -> ok"]},
        {#{event => register, registered_name => 'Elixir.Shop'}, ["gets the name Shop"]},
        {#{event => call, mfa => MFA, args => [1 | '...']}, ["m:f(1, ...)"]},
        {#{event => call, mfa => MFA, args => '...'}, ["m:f(...)"]},
        {#{event => call, mfa => MFA, args => [1, 2], caller => {a, b, 0},
            stack => [{a, b, 0, [{file, "x/a.erl"}, {line, 7}]}, {c, d, 1, []} | '...']},
            ["m:f(1, 2)", "  a:b/0 a.erl:7", "  c:d/1", "  ..."]},
        {#{event => return, mfa => MFA, value => {ok, 'X'}}, ["m:f/2 -> {ok,'X'}"]},
        {#{event => exception, mfa => MFA, class => error, reason => badarg},
            ["m:f/2 raises error: badarg"]},
        {#{event => send, message => hi, to => Pid}, ["sends to " ++ P ++ ": hi"]},
        {#{event => send, message => hi, to => Pid, exists => false},
            ["sends to " ++ P ++ " (which does not exist): hi"]},
        {#{event => 'receive', message => hi, from => Pid}, ["receives from " ++ P ++ ": hi"]},
        {#{event => 'receive', message => hi, from => undefined}, ["receives: hi"]},
        {#{event => spawn, other => Pid, mfa => {m, f, 1}, args => [x]},
            ["spawns " ++ P ++ ": m:f(x)"]},
        {#{event => spawned, other => Pid, mfa => {m, f, 1}, args => [x]},
            ["is spawned by " ++ P ++ ": m:f(x)"]},
        {#{event => exit, reason => normal}, ["exits: normal"]},
        {#{event => register, registered_name => n}, ["gets the name n"]},
        {#{event => unregister, registered_name => n}, ["loses the name n"]},
        {#{event => link, other => Pid}, ["links to " ++ P]},
        {#{event => unlink, other => Pid}, ["removes its link to " ++ P]},
        {#{event => getting_linked, other => Pid}, ["is linked by " ++ P]},
        {#{event => getting_unlinked, other => Pid}, ["loses the link of " ++ P]},
        {#{event => call, mfa => MFA, args => [1, 2], result => seen}, ["m:f(1, 2)", "  seen"]}]].

a_process_without_a_name_has_its_initial_call_test() ->
    {"m:init/1", _} = lines(#{event => exit, reason => a, name => {m, init, 1}}),
    {"<" ++ _, _} = lines(#{event => exit, reason => a, name => unknown}).
