#!/bin/bash
# make bench: what sampling costs on this machine, in SECONDS_ (60) seconds of
# measurement. In two VMs: one as anybody would start it, one with room for the
# million processes of the selection.
set -eu
cd "$(dirname "$0")/.."
mkdir -p _build/bench
erlc -o _build/bench bench/bench.erl examples/demo/src/demo_*.erl
export ERL_LIBS=_build/default/lib
bench() {
    erl -noinput "$@" -pa _build/bench _build/default/lib/flame_prof/ebin
}
bench -s bench main "${SECONDS_:-60}"
bench +P 2000000 -s bench selection
