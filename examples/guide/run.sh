#!/bin/bash
# Run an example of doc/guide, or all: examples/guide/run.sh [NAME]. Profiles go
# to _build/examples/guide.
set -eu
cd "$(dirname "$0")/../.."
ebin=_build/examples/guide/ebin
mkdir -p "$ebin"
erlc -o "$ebin" examples/guide/*.erl
all="guide_first guide_bottleneck guide_binaries guide_mailbox guide_garbage guide_request guide_trigger"
for name in ${1:-$all}; do
    echo "== $name"
    ERL_LIBS=_build/default/lib erl -noinput \
        -pa _build/default/lib/flame_prof/ebin "$ebin" \
        -eval "try $name:run(\"_build/examples/guide/files\"), halt(0)
               catch C:R:S -> io:format(\"~tp~n\", [{C, R, S}]), halt(1) end"
done
