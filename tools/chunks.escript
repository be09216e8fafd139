#!/usr/bin/env escript
%% Put the documentation of the public modules into their beams, as the chunk "Docs" of
%% EEP 48: `h(flame_prof)' in the shell and `h :flame_prof' in IEx read it there, in a
%% checkout and in a release alike.
%%
%%   tools/chunks.escript [EBIN]
%%
%% A private module has the chunk with its types alone, if a public specification or type names one
%% of them: `ht(flame_prof_waits_graph, edge)' prints it.
%%
%% A beam that has the chunk is left alone: the compiler writes one without, so only what
%% was just compiled is done. Without edoc (Debian: erlang-edoc) nothing is done.
%%
%% rebar3 calls this without an argument, as a hook; the environment names the folder.
-mode(compile).

main([]) ->
    Folders = [["REBAR_DEPS_DIR", "flame_prof", "ebin"],
               ["REBAR_CHECKOUTS_OUT_DIR", "flame_prof", "ebin"],
               ["REBAR_BARE_COMPILER_OUTPUT_DIR", "ebin"]],
    [document(Ebin) || [Name | Below] <- Folders, Root <- [os:getenv(Name)], Root =/= false,
                       Ebin <- [filename:join([Root | Below])], filelib:is_dir(Ebin)];
main([Ebin]) ->
    document(Ebin).

document(Ebin) ->
    Sources = filelib:wildcard("src/*.erl") ++ filelib:wildcard("src/*/*.erl"),
    Built = [{Source, Beam} || Source <- Sources, Beam <- [beam(Ebin, Source)],
                               filelib:is_regular(Beam)],
    Public = [Of || {Source, _} = Of <- Built, is_public(Source)],
    Named = named(Public, Built -- Public, []),
    Stale = [{Source, Beam, all} || {Source, Beam} <- Public, not has_chunk(Beam)]
        ++ [{Source, Beam, types} || {Source, Beam} <- Named, not has_chunk(Beam)],
    case code:which(edoc_doclet_chunks) of
        _ when Stale =:= [] -> ok;
        non_existing -> io:format("  no edoc: the modules are built without documentation~n");
        _ -> [embed(Source, Beam, What) || {Source, Beam, What} <- Stale]
    end.

%% The private modules with types that the first ones name, or that their types name.
named([], _Private, Named) ->
    Named;
named(From, Private, Named) ->
    Names = lists:usort(lists:append([remote(Beam) || {_, Beam} <- From])),
    {New, Rest} = lists:partition(fun({_, Beam}) -> lists:member(module(Beam), Names) end, Private),
    named(New, Rest, Named ++ New).

module(Beam) -> list_to_atom(filename:basename(Beam, ".beam")).

%% Modules of the types in specifications of exported functions, and in types.
remote(Beam) ->
    {ok, {_, [{exports, Exports}, {abstract_code, {_, Forms}}]}} =
        beam_lib:chunks(Beam, [exports, abstract_code]),
    modules([Type || {attribute, _, type, Type} <- Forms]
        ++ [Spec || {attribute, _, spec, {Function, Spec}} <- Forms,
            lists:member(Function, Exports)]).

modules({remote_type, _, [{atom, _, Module} | More]}) -> [Module | modules(More)];
modules([Head | Tail]) -> modules(Head) ++ modules(Tail);
modules(Tuple) when is_tuple(Tuple) -> modules(tuple_to_list(Tuple));
modules(_) -> [].

beam(Ebin, Source) ->
    filename:join(Ebin, filename:basename(Source, ".erl") ++ ".beam").

has_chunk(Beam) ->
    {ok, {_, [{"Docs", Docs}]}} = beam_lib:chunks(Beam, ["Docs"], [allow_missing_chunks]),
    Docs =/= missing_chunk.

%% @private stands above -module.
is_public(Source) ->
    {ok, Text} = file:read_file(Source),
    [Head | _] = binary:split(Text, <<"-module(">>),
    binary:match(Head, <<"@private">>) =:= nomatch.

embed(Source, Beam, What) ->
    {ok, Module, Chunks} = beam_lib:all_chunks(Beam),
    Shown = shown(What, of_exports(Module, Beam, docs(Module, Source))),
    Docs = term_to_binary(Shown, [compressed]),
    {ok, Bytes} = beam_lib:build_module(Chunks ++ [{"Docs", Docs}]),
    Part = Beam ++ ".part",
    ok = file:write_file(Part, Bytes),
    ok = file:rename(Part, Beam).

docs(Module, Source) ->
    Dir = string:trim(os:cmd("mktemp -d")),
    try
        ok = edoc:files([Source],
            [{doclet, edoc_doclet_chunks}, {layout, edoc_layout_chunks}, {dir, Dir},
             {preprocess, true}, {includes, ["include", "src"]}]),
        Name = atom_to_list(Module) ++ ".chunk",
        {ok, Docs} = file:read_file(filename:join([Dir, "chunks", Name])),
        as_read(Module, binary_to_term(Docs), Source)
    after
        ok = file:del_dir_r(Dir)
    end.

%% `mix help' takes the text of a task, as Markdown.
as_read(Module, Docs, Source) ->
    case atom_to_list(Module) of
        "Elixir.Mix.Tasks." ++ _ ->
            setelement(5, setelement(4, Docs, <<"text/markdown">>), #{<<"en">> => head(Source)});
        _ ->
            Docs
    end.

%% The comment at the head of the file.
head(Source) ->
    {ok, Text} = file:read_file(Source),
    [Head | _] = binary:split(Text, <<"-module(">>),
    Lines = [string:trim(string:prefix(Line, "%%"), leading, " ")
             || Line <- string:split(Head, "\n", all), string:prefix(Line, "%%") =/= nomatch],
    Plain = string:prefix(unicode:characters_to_binary(lists:join("\n", Lines)), "@doc "),
    Quoted = re:replace(Plain, "`([^`'\n]+)'", "`\\1`", [global, {return, binary}]),
    re:replace(Quoted, "'''", "```", [global, {return, binary}]).

shown(all, Docs) -> Docs;
shown(types, Docs) ->
    Types = [Entry || {{type, _, _}, _, _, _, _} = Entry <- element(7, Docs)],
    setelement(7, setelement(5, Docs, hidden), Types).

%% edoc describes local functions and types too.
of_exports(Module, Beam, Docs) ->
    {ok, {Module, [{exports, Functions}, {abstract_code, {_, Forms}}]}} =
        beam_lib:chunks(Beam, [exports, abstract_code]),
    Types = lists:append([Exported || {attribute, _, export_type, Exported} <- Forms]),
    IsExported = fun({{function, Name, Arity}, _, _, _, _}) ->
                         lists:member({Name, Arity}, Functions);
                    ({{type, Name, Arity}, _, _, _, _}) ->
                         lists:member({Name, Arity}, Types);
                    ({{callback, _, _}, _, _, _, _}) ->
                         true
                 end,
    {docs_v1, Where, Language, Format, Text, Meta, Entries} = Docs,
    {docs_v1, Where, Language, Format, Text, Meta, lists:filter(IsExported, Entries)}.
