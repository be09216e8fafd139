#!/usr/bin/env escript
%% Write what is made of the table of options: doc/options.md, and the comment that follows
%% the type options() in src/flame_prof.erl; and what is made of the list of looks: their functions
%% there. These stand behind the markers.
%%
%%   tools/options.escript EBIN           writes what is out of date
%%   tools/options.escript --check EBIN   names it; exit 1 if there is any
-mode(compile).

-define(TYPE, <<"-type options() :: flame_prof_options:given().\n">>).
-define(EXPORTS, <<"%% Looks: `make options' writes these and their functions, below, out of their list.\n">>).
-define(LOOKS, <<"%% Looks: `make options' writes what follows.\n\n">>).

main(["--check", Ebin]) ->
    Stale = stale(Ebin),
    [io:format("~ts is out of date: make options~n", [File]) || {File, _} <- Stale],
    Stale =:= [] orelse halt(1);
main([Ebin]) ->
    [ok = file:write_file(File, Text) || {File, Text} <- stale(Ebin)].

stale(Ebin) ->
    true = code:add_patha(Ebin),
    [{File, Text} || {File, Text} <- made(), file:read_file(File) =/= {ok, Text}].

made() ->
    {ok, Source} = file:read_file("src/flame_prof.erl"),
    [Before, After] = binary:split(Source, ?TYPE),
    Comment = unicode:characters_to_binary(flame_prof_options_doc:edoc()),
    [
        {"doc/options.md", unicode:characters_to_binary(flame_prof_options_doc:markdown())},
        {"src/flame_prof.erl",
            with_looks(iolist_to_binary([Before, ?TYPE, Comment, without_comment(After)]))}
    ].

with_looks(Source) ->
    [Head, Exports] = binary:split(Source, ?EXPORTS),
    [Body, _] = binary:split(without_export(Exports), ?LOOKS),
    unicode:characters_to_binary([Head, ?EXPORTS, flame_prof_look_doc:exports(), Body, ?LOOKS,
        flame_prof_look_doc:functions()]).

without_export(<<"-export(", _/binary>> = Source) ->
    [_, After] = binary:split(Source, <<"]).\n">>),
    After;
without_export(Source) ->
    Source.

without_comment(<<"%%", Rest/binary>>) ->
    [_, After] = binary:split(Rest, <<"\n">>),
    without_comment(After);
without_comment(Source) ->
    Source.
