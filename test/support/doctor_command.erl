%% Does the command of a finding run as it is printed? It is taken apart as a shell does, and parsed
%% as the command line is.
-module(doctor_command).

-include_lib("eunit/include/eunit.hrl").

-export([parses/1]).

parses(Command) ->
    Text = string:replace(unicode:characters_to_list(Command), "NODE", "shop@h", all),
    %% Nothing in it but words, and what single quotes hold.
    {match, Words} = re:run(Text, "'([^']*)'|([^' ]+)", [global, {capture, all_but_first, list}]),
    ["flame_prof" | Args] = [lists:append(Word) || Word <- Words],
    ?assertEqual(nomatch, re:run(Text, "[^A-Za-z0-9_@./:=, '<>-]")),
    ?assertEqual(nomatch, re:run(re:replace(Text, "'[^']*'", "", [global]), "[<>]")),
    ?assertMatch({Args, {ok, _}}, {Args, flame_prof_cli_args:parse(Args)}).
