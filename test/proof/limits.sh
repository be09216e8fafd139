#!/bin/bash
# make limits: COUNT (200) generated combinations of limits of SEED, PLACES (2) at a time; ONLY=N
# runs the N-th again, PLACE=local or outside leaves out the other. Results: _build/limits/, a line
# of JSON each in limits.jsonl. doc/dev/limits.md says what is judged.
set -u
cd "$(dirname "$0")/../.." || exit 1

export SEED=${SEED:-$RANDOM} COUNT=${COUNT:-200} PLACES=${PLACES:-2} ONLY=${ONLY:-}
export PLACE=${PLACE:-} OUT=${OUT:-$PWD/_build/limits} ERL_LIBS=$PWD/_build/default/lib
mkdir -p "$OUT/ebin" && OUT=$(cd "$OUT" && pwd) &&
    erlc -o "$OUT/ebin" test/proof/limits.erl test/proof/limits_inside.erl \
        test/support/checkout.erl || exit 1
echo "limits: $COUNT combinations of seed $SEED"
epmd -daemon
ERL_CRASH_DUMP_BYTES=0 exec erl -noinput -pa "$OUT/ebin" -s limits main
