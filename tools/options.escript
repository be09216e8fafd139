#!/usr/bin/env escript
%% Write what is made of the table of options: doc/options.md, and the comment that follows
%% the type options() in src/flame_prof.erl. flame_prof_options_doc_tests checks both.
%%
%%   tools/options.escript EBIN
-mode(compile).

-define(TYPE, <<"-type options() :: flame_prof_options:given().\n">>).

main([Ebin]) ->
    true = code:add_patha(Ebin),
    ok = file:write_file("doc/options.md",
        unicode:characters_to_binary(flame_prof_options_doc:markdown())),
    {ok, Source} = file:read_file("src/flame_prof.erl"),
    [Before, After] = binary:split(Source, ?TYPE),
    ok = file:write_file("src/flame_prof.erl", [Before, ?TYPE,
        unicode:characters_to_binary(flame_prof_options_doc:edoc()), without_comment(After)]).

without_comment(<<"%%", Rest/binary>>) ->
    [_, After] = binary:split(Rest, <<"\n">>),
    without_comment(After);
without_comment(Source) ->
    Source.
