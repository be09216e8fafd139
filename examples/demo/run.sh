#!/bin/bash
# Compile the demo and run it on a node of its own. DEMO_DIR is where the profile
# goes (_build/demo), DEMO_SECONDS how long it takes (10).
set -eu
cd "$(dirname "$0")/../.."
ebin=_build/examples/demo/ebin
mkdir -p "$ebin"
erlc -o "$ebin" examples/demo/src/*.erl
ERL_LIBS=_build/default/lib exec erl -noinput \
    -pa _build/default/lib/flame_prof/ebin "$ebin" -s demo main
