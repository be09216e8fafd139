#!/bin/bash
# Do we and Linux perf see the same? A VM that writes perf's map itself (+JPperf)
# does known work; both sample its schedulers at the same time, for SECONDS_ (10)
# seconds. Printed is the total variation distance of the two distributions over
# what was running on top: half the sum of the differences of all shares, 0 when
# they are the same, 100 when they have nothing in common.
#
# Needs perf (Debian: linux-perf) that may count cpu-clock:u, cc and a built tree.
set -eu
cd "$(dirname "$0")/.."
command -v perf >/dev/null || {
    echo "perf is missing (Debian: linux-perf)" >&2
    exit 1
}
out=_build/bench/agreement
mkdir -p "$out"
erlc +debug_info -o "$out" test/running_work.erl test/running_test_nif.erl \
    test/running_profile.erl bench/perf_agreement.erl
# Schedulers that wait without spinning: perf would show that, we call it idle.
ERL_LIBS=_build/default/lib exec erl +JPperf true +sbwt none +sbwtdcpu none \
    +sbwtdio none -noinput -pa "$out" _build/default/lib/flame_prof/ebin \
    -s perf_agreement main "${SECONDS_:-10}" "$out"
