#!/bin/bash
# Attach to a real server under load: not part of `make test`, as it takes minutes
# and packages. `make test-real`.
#
#   test/attach/real.sh rabbitmq|ejabberd
#
# The server's Debian packages are downloaded and unpacked into _build/real, not
# installed; it runs from there as a node of its own, with data and ports of its own.
# The load comes from test/attach/load. Says how much was done in windows of 250 ms
# during a profile of ATTACH_SECONDS (30), fetching and reports included, and for as
# long before and after it; what was hot; and what was left behind: nothing. Fails
# when it was something.
set -eu
cd "$(dirname "$0")/../.."
server=${1:?rabbitmq or ejabberd}
seconds=${ATTACH_SECONDS:-30}
. test/attach/servers.sh

traces() {
    test/attach/traces.escript "$node" "$(cat "$cookie")"
}

# Windows of the load and CPU time of the server until now.
now() { echo "$(wc -l <"$work/rates") $(awk '{ print 10 * ($14 + $15) }' "/proc/$pid/stat")"; }

"start_$server"
ERL_LIBS=$libraries erlc -o "$work" "test/attach/load/$load.erl"
ERL_LIBS=$libraries erl -noinput -pa "$work" -run "$load" main "$port" "$work/rates" >"$work/load" 2>&1 &
pids+=($!)
sleep 3
traces >"$work/warm" # loads what it needs itself
traces >"$work/before"
pid=$(sed -n 's/^pid //p' "$work/before")
read -r first first_ms < <(now)
sleep "$seconds"
read -r begin begin_ms < <(now)
bin/flame_prof attach "$node" --for "${seconds}s" --output "$work/prof" --top "${ATTACH_TOP:-100}" \
    --cookie-file "$cookie"
read -r end end_ms < <(now)
sleep "$seconds"
read -r last last_ms < <(now)
traces >"$work/after"

awk -v first="$first" -v begin="$begin" -v end="$end" -v last="$last" \
    -v around_ms=$((begin_ms - first_ms + last_ms - end_ms)) -v during_ms=$((end_ms - begin_ms)) '
    function median(rate, n,    i, j, r) {
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && rate[j] < rate[j - 1]; j--) {
                r = rate[j]; rate[j] = rate[j - 1]; rate[j - 1] = r
            }
        return rate[int((n + 1) / 2)]
    }
    NR > first && NR <= last {
        if (NR > begin && NR <= end) { during[++d] = 4 * $1; sum_d += $1 }
        else { around[++a] = 4 * $1; sum_a += $1 }
    }
    END {
        md = median(during, d); ma = median(around, a)
        printf "\nMessages a second, medians of windows of 250 ms: %d during (%d windows), %d around (%d): %.3f\n",
            md, d, ma, a, md / ma
        cd = 1000 * during_ms / sum_d; ca = 1000 * around_ms / sum_a
        printf "CPU time of the server for a message: %.2f us during, %.2f us around: %.3f\n", cd, ca, cd / ca
    }' "$work/rates"
if diff "$work/before" "$work/after"; then
    echo "Nothing was left behind"
else
    echo "This was left behind (>), or has gone (<)"
    exit 1
fi
