#!/usr/bin/env escript
%% Write flame_prof.appup, the version filled in, beside flame_prof.app.
%%
%%   tools/appup.escript [EBIN]
%%
%% rebar3 calls this without an argument, as a hook: it makes the application
%% file of an application, but not this one. Where our ebin is then, as the
%% project itself, a dependency, a checkout or a dependency of mix, the environment says.
main([]) ->
    Folders = [["REBAR_DEPS_DIR", "flame_prof", "ebin"],
               ["REBAR_CHECKOUTS_OUT_DIR", "flame_prof", "ebin"],
               ["REBAR_BARE_COMPILER_OUTPUT_DIR", "ebin"]],
    Found = [Ebin || [Name | Below] <- Folders, Root <- [os:getenv(Name)], Root =/= false,
                     Ebin <- [filename:join([Root | Below])], filelib:is_dir(Ebin)],
    [ok = write(Ebin) || Ebin <- Found];
main([Ebin]) ->
    ok = write(Ebin).

write(Ebin) ->
    {ok, [{application, _, Keys}]} = file:consult("src/flame_prof.app.src"),
    {ok, [{vsn, Up, Down}]} = file:consult("src/flame_prof.appup.src"),
    {vsn, Version} = lists:keyfind(vsn, 1, Keys),
    Text = io_lib:format("~tp.~n", [{Version, Up, Down}]),
    file:write_file(filename:join(Ebin, "flame_prof.appup"), Text).
