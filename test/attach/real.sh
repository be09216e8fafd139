#!/bin/bash
# Attach to a real server under load: not part of `make test`, as it takes minutes
# and packages. `make test-real`.
#
#   test/attach/real.sh rabbitmq|ejabberd
# First the doctor looks at the server, idle and then under load. What it finds under
# load is for a person to judge; an idle server that it finds something in is a failure.
#
# The server's Debian packages are downloaded and unpacked into _build/real, not
# installed; it runs from there as a node of its own, with data and ports of its own.
# The load comes from test/attach/load, for ATTACH_ROUNDS (12): a profile of
# ATTACH_SECONDS (6), coming, fetching and going included, and then as long without.
# So each profile is compared with the seconds right before and after it, and what else
# the machine does in these minutes is in both. Says the median of these comparisons
# with its 95 % interval (bootstrap), what was hot in the last profile, and what was
# left behind: nothing, also by a profile that Ctrl-C ends, and by one that is killed.
# Fails when it was something. Takes about five minutes.
set -eu
cd "$(dirname "$0")/../.."
server=${1:?rabbitmq or ejabberd}
seconds=${ATTACH_SECONDS:-6} rounds=${ATTACH_ROUNDS:-12}
. test/attach/servers.sh

traces() {
    test/attach/traces.escript "$node" "$(cat "$cookie")"
}

# Windows of the load and CPU time of the server until now.
now() { echo "$(wc -l <"$work/rates") $(awk '{ print 10 * ($14 + $15) }' "/proc/$pid/stat")"; }

attach() { # more options
    bin/flame_prof attach "$node" --for "${seconds}s" --output "$work/prof" \
        --top "${ATTACH_TOP:-100}" --cookie-file "$cookie" "$@"
}

# A killed one cannot wait until the node has noticed.
left_nothing() { # by what, looks
    for _ in $(seq "$2"); do
        traces >"$work/after"
        if diff "$work/before" "$work/after" >"$work/left"; then
            echo "Nothing was left behind $1"
            return
        fi
        sleep 1
    done
    cat "$work/left"
    echo "This was left behind $1 (>), or has gone (<)"
    exit 1
}

doctor() { # what it looks at, and with which statuses it may end
    local status=0
    echo "The doctor on $server, $1:"
    bin/flame_prof doctor "$node" --cookie-file "$cookie" 2>&1 || status=$?
    echo "It ended with $status"
    [[ " $2 " == *" $status "* ]] || exit 1
}

# The signal goes to script and Erlang, as from a terminal.
end_by() { # signal
    echo "Ended by SIG$1:"
    timeout --signal="$1" "$seconds" bin/flame_prof attach "$node" --for 1h \
        --output "$work/prof" --cookie-file "$cookie" --quiet || true
}

"start_$server"
traces >"$work/warm" # loads what it needs itself
traces >"$work/before"
doctor idle 0
left_nothing "by the doctor" 1
ERL_LIBS=$libraries erlc -o "$work" "test/attach/load/$load.erl"
ERL_LIBS=$libraries erl -noinput -pa "$work" -run "$load" main "$port" "$work/rates" \
    >"$work/load" 2>&1 &
pids+=($!)
sleep 3
traces >"$work/warm"
traces >"$work/before"
doctor "under load" "0 10"
left_nothing "by the doctor" 1
pid=$(sed -n 's/^pid //p' "$work/before")
now >>"$work/phases"
sleep "$seconds"
for round in $(seq "$rounds"); do
    now >>"$work/phases"
    if [ "$round" = "$rounds" ]; then
        attach
    else
        attach --quiet >>"$work/attached"
    fi
    now >>"$work/phases"
    sleep "$seconds"
done
now >>"$work/phases"

# The phases are off, on, off, ..., off. A round is one that is on, and both that are
# beside it.
awk '
    function sort(a, n,    i, j, x) {
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && a[j] < a[j - 1]; j--) {
                x = a[j]; a[j] = a[j - 1]; a[j - 1] = x
            }
    }
    function median(a, n) {
        sort(a, n)
        return n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2
    }
    function told(what, ratio, n,    b, i, drawn, medians) {
        for (b = 1; b <= 1000; b++) {
            for (i = 1; i <= n; i++) drawn[i] = ratio[int(rand() * n) + 1]
            medians[b] = median(drawn, n)
        }
        sort(medians, 1000)
        printf "%s: median %.3f of that around it, 95 %% interval %.3f to %.3f (%d rounds, %.3f to %.3f)\n",
            what, median(ratio, n), medians[25], medians[975], n, ratio[1], ratio[n]
    }
    FNR == NR { window[++windows] = $1; next }
    { at[++phases] = $1; ms[phases] = $2 }
    END {
        srand(1)
        for (p = 1; p < phases; p++) {
            for (w = at[p] + 1; w <= at[p + 1]; w++) done[p] += window[w]
            rate[p] = 4 * done[p] / (at[p + 1] - at[p])
            cost[p] = 1000 * (ms[p + 1] - ms[p]) / done[p]
        }
        for (p = 2; p < phases; p += 2) {
            rates[++n] = rate[p] / ((rate[p - 1] + rate[p + 1]) / 2)
            costs[n] = cost[p] / ((cost[p - 1] + cost[p + 1]) / 2)
            on += rate[p]; off += rate[p + 1]
        }
        printf "\nMessages a second: %d during, %d around (means)\n", on / n, off / n
        told("Throughput during a profile", rates, n)
        told("CPU time of the server for a message", costs, n)
    }' "$work/rates" "$work/phases"
left_nothing "by these" 1
end_by INT
left_nothing "after Ctrl-C" 1
end_by KILL
left_nothing "by a killed controller" 60
