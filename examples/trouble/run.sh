#!/bin/bash
# Compile the demo and the problems and run them on a node of its own: TROUBLE="mailbox gc",
# "all" or "none" are the problems. TROUBLE_DIR is where the profile goes
# (_build/trouble), TROUBLE_SECONDS how long it takes (20).
set -eu
cd "$(dirname "$0")/../.."
ebin=_build/examples/trouble/ebin
mkdir -p "$ebin"
# The behaviour first: the others name it.
erlc -o "$ebin" examples/trouble/src/trouble.erl
erlc -pa "$ebin" -o "$ebin" examples/demo/src/*.erl examples/trouble/src/*.erl
ERL_LIBS=_build/default/lib exec erl -noinput \
    -pa _build/default/lib/flame_prof/ebin "$ebin" -s trouble main
