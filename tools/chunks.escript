#!/usr/bin/env escript
%% Put the documentation of the public modules into their beams, as the chunk "Docs" of
%% EEP 48: `h(flame_prof)' in the shell and `h :flame_prof' in IEx read it there, in a
%% checkout and in a release alike.
%%
%%   tools/chunks.escript [EBIN]
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
    Stale = [{Source, Beam} || Source <- Sources, Beam <- [beam(Ebin, Source)],
                               filelib:is_regular(Beam), not has_chunk(Beam), is_public(Source)],
    case code:which(edoc_doclet_chunks) of
        _ when Stale =:= [] -> ok;
        non_existing -> io:format("  no edoc: the modules are built without documentation~n");
        _ -> [embed(Source, Beam) || {Source, Beam} <- Stale]
    end.

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

embed(Source, Beam) ->
    {ok, Module, Chunks} = beam_lib:all_chunks(Beam),
    Docs = term_to_binary(of_exports(Module, Beam, docs(Module, Source)), [compressed]),
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
