#!/bin/bash
# The results of the last run: every bar, and _build/bench/results.json. `doc' writes the
# summary in doc/benchmarks.md, its chart, and doc/benchmarks/tables.md.
#
#   bench/report.sh json|doc
set -eu
cd "$(dirname "$0")/.."
bench/compile.sh
exec erl -noinput -pa _build/bench _build/default/lib/flame_prof/ebin -s bench_report main "$1"
