#!/bin/bash
# Xref over our beams: calls to functions that do not exist or are deprecated,
# functions that nobody calls.
set -eu
exec erl -noinput -eval '
    {ok, _} = xref:start(x, [{xref_mode, functions}]),
    ok = xref:set_default(x, [{warnings, false}, {verbose, false}]),
    Otp = [code:lib_dir(A) || A <- [kernel, stdlib, erts, crypto, inets, compiler,
                                    runtime_tools, tools, syntax_tools],
                              not is_tuple(code:lib_dir(A))],
    ok = xref:set_library_path(x, [filename:join(D, "ebin") || D <- Otp]),
    {ok, _} = xref:add_directory(x, "_build/default/lib/flame_prof/ebin"),
    Found = [{Check, Result}
             || Check <- [undefined_function_calls, locals_not_used, deprecated_function_calls],
                {ok, Result} <- [xref:analyze(x, Check)], Result =/= []],
    [io:format("~p:~n  ~p~n", [Check, Result]) || {Check, Result} <- Found],
    Found =:= [] andalso io:format("  ok    xref~n"),
    halt(length(Found)).'
