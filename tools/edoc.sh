#!/bin/bash
# The documentation of our modules, out of their comments, in _build/doc; any
# warning of edoc fails.
set -eu
mkdir -p _build/doc
said=$(erl -noinput -eval '
    Files = filelib:wildcard("src/*.erl") ++ filelib:wildcard("src/*/*.erl"),
    try edoc:files(Files, [{dir, "_build/doc"}, {includes, ["include", "src"]},
                           {preprocess, true}]) of
        ok -> halt(0)
    catch
        _:_ -> halt(1)
    end.' 2>&1) || {
    echo "$said" >&2
    exit 1
}
if [ -n "$said" ]; then
    echo "$said" >&2
    exit 1
fi
echo "  ok    edoc, in _build/doc"
