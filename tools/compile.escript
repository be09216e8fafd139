#!/usr/bin/env escript
%% Compile src/ to _build/default/lib/flame_prof, the folder that rebar3 fills
%% too: ebin/ with the beams and flame_prof.app, and links to priv and include.
%%
%% Not through rebar3, because a build must not need it (`make demo` on a bare
%% machine does not install it). WERROR=1 makes warnings fatal.
-mode(compile).

-define(LIB, "_build/default/lib/flame_prof").
-define(EBIN, ?LIB "/ebin").

main([]) ->
    Options = options(),
    ok = filelib:ensure_dir(?EBIN "/x"),
    true = code:add_patha(?EBIN),
    [ok = linked(Folder) || Folder <- ["priv", "include"]],
    Sources = lists:sort(filelib:wildcard("src/*.erl") ++ filelib:wildcard("src/*/*.erl")),
    remove_orphans(Sources),
    Newest = newest(headers()),
    start_afresh_if_needed(expected_stamp(Options)),
    Stale = [S || S <- Sources, is_stale(S, Newest)],
    {Behaviours, Others} = lists:partition(fun is_behaviour/1, Stale),
    case compile_all(Behaviours, Options) andalso compile_all(Others, Options) of
        true -> ok = write_app(Sources);
        false -> halt(1)
    end.

%% A module that names its behaviour needs the beam of that.
is_behaviour(Source) ->
    {ok, Text} = file:read_file(Source),
    binary:match(Text, <<"\n-callback ">>) =/= nomatch.

%% By as many processes as there are processors: none of these needs another one of them.
compile_all(Stale, Options) ->
    Places = erlang:system_info(schedulers_online),
    Workers = [
        spawn_monitor(fun() ->
            exit({compiled, [compile(S, Options) || {N, S} <- Numbered, N rem Places =:= Place]})
        end)
     || Numbered <- [lists:zip(lists:seq(1, length(Stale)), Stale)],
        Place <- lists:seq(0, Places - 1)
    ],
    Results = [receive {'DOWN', M, process, P, Result} -> Result end || {P, M} <- Workers],
    lists:all(fun({compiled, Each}) -> lists:all(fun(Ok) -> Ok end, Each); (_) -> false end,
              Results).

options() ->
    [debug_info, report, warn_export_vars, warn_unused_import,
     {i, "include"}, {i, "src"}, {outdir, ?EBIN}].

is_strict() ->
    os:getenv("WERROR") =:= "1".

compile(Source, Options) ->
    io:format("  ERLC  ~ts~n", [Source]),
    Strict = [warnings_as_errors || is_strict()],
    compile:file(Source, Strict ++ Options) =/= error.

is_stale(Source, NewestHeader) ->
    Beam = filelib:last_modified(beam(Source)),
    Beam =:= 0 orelse Beam < filelib:last_modified(Source) orelse Beam < NewestHeader.

headers() ->
    filelib:wildcard("include/*.hrl") ++ filelib:wildcard("src/*.hrl").

newest(Files) ->
    lists:max([0 | [filelib:last_modified(F) || F <- Files]]).

beam(Source) ->
    filename:join(?EBIN, filename:basename(Source, ".erl") ++ ".beam").

remove_orphans(Sources) ->
    [ok = file:delete(B) || B <- filelib:wildcard(?EBIN "/*.beam"),
                            not lists:member(B, [beam(S) || S <- Sources])].

%% Beams of another release, or compiled with other options, are of no use.
%% Those of a strict build (warnings_as_errors) serve a plain one as well.
start_afresh_if_needed(Stamp) ->
    Path = ?LIB "/.compiled",
    Found = case file:read_file(Path) of
        {ok, Text} -> Text;
        {error, _} -> none
    end,
    case Found =:= Stamp orelse Found =:= strict(Stamp) of
        true ->
            ok;
        false ->
            [ok = file:delete(B) || B <- filelib:wildcard(?EBIN "/*.beam")],
            ok = file:write_file(Path, Stamp)
    end.

expected_stamp(Options) ->
    Stamp = iolist_to_binary(
        io_lib:format("~s ~0p", [erlang:system_info(otp_release), Options])),
    case is_strict() of
        true -> strict(Stamp);
        false -> Stamp
    end.

strict(Stamp) -> <<Stamp/binary, " strict">>.

write_app(Sources) ->
    Modules = [list_to_atom(filename:basename(S, ".erl")) || S <- Sources],
    {ok, [{application, Name, Keys}]} = file:consult("src/flame_prof.app.src"),
    App = {application, Name, lists:keystore(modules, 1, Keys, {modules, lists:sort(Modules)})},
    Text = unicode:characters_to_binary(io_lib:format("~tp.~n", [App])),
    Path = ?EBIN "/flame_prof.app",
    case file:read_file(Path) of
        {ok, Text} -> ok;
        _ -> file:write_file(Path, Text)
    end.

%% Relative, so that the checkout may be moved; made only when it is not there,
%% because rebar3 makes the same link.
linked(Folder) ->
    ok = filelib:ensure_dir(Folder ++ "/x"),
    Link = filename:join(?LIB, Folder),
    case file:read_link_info(Link) of
        {ok, _} -> ok;
        {error, enoent} -> file:make_symlink("../../../../" ++ Folder, Link)
    end.
