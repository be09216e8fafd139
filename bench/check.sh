#!/bin/bash
# Has one of the benchmarks' ratios got worse by more than its noise? A minute or two;
# see bench/bench_check.erl.
#
#   bench/check.sh check|record      record: and add them to doc/benchmarks/history
set -eu
cd "$(dirname "$0")/.."
bench/compile.sh
COMMIT=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
export COMMIT ERL_LIBS=_build/default/lib
exec timeout --kill-after=10 600 erl -noinput -pa _build/bench -s bench_check main "$1"
