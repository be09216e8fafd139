#!/bin/bash
# The overhead of flame_prof and of others on the program that they look at; see
# bench/bench_overhead.erl. Adds to _build/bench/results. In two VMs: perf needs one that
# says where its code is, which would not be fair to all others.
#
#   bench/overhead.sh [afresh]       afresh: forget the results of before
#
# WORKLOADS="cpu messages", VARIANTS="off native_99_100", PAIRS, PEER_PAIRS, WINDOW_MS.
set -eu
cd "$(dirname "$0")/.."
bench/compile.sh
[ "${1:-}" != afresh ] || rm -f _build/bench/results
export ERL_LIBS=_build/default/lib
bench() {
    erl "$@" -noinput -pa _build/bench
}
bench -s bench_overhead main all_else
if command -v perf >/dev/null; then
    bench +JPperf true -s bench_overhead main with_perf
fi
