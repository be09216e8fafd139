#!/bin/bash
# What the last run has found: every bar, and _build/bench/results.json; `doc' makes of it
# the tables of doc/benchmarks.md and their chart.
#
#   bench/report.sh json|doc
set -eu
cd "$(dirname "$0")/.."
bench/compile.sh
exec erl -noinput -pa _build/bench _build/default/lib/flame_prof/ebin -s bench_report main "$1"
