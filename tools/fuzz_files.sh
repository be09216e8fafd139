#!/bin/bash
# Damage FILES (10000) files of a real session by SEED, and compare what the library and the reader
# of the tests find in each. Ends with 1 when they differ; these files stay in /tmp.
set -eu
cd "$(dirname "$0")/.."
: "${FILES:=10000}" "${SEED:=$(date +%s)}"
out=_build/fuzz/ebin
mkdir -p "$out"
erlc -o "$out" test/support/damage.erl test/support/made_calls.erl test/oracles/reader_oracle.erl
ERL_LIBS=_build/default/lib exec erl -noinput -pa "$out" \
    -eval "damage:main([\"$FILES\", \"$SEED\"])"
