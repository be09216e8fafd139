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
top=$PWD
server=${1:?rabbitmq or ejabberd}
seconds=${ATTACH_SECONDS:-30}
root=$top/_build/real/$server
work=$(mktemp -d)
pids=()

finish() {
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

unpack() { # package
    [ ! -e "$root/complete" ] || return 0
    rm -rf "$root"
    mkdir -p "$root/packages"
    (cd "$root/packages" &&
        apt-get --simulate install --no-install-recommends "$1" |
        awk '$1 == "Inst" { print $2 }' | xargs apt-get download)
    for package in "$root"/packages/*.deb; do
        dpkg -x "$package" "$root"
    done
    touch "$root/complete"
}

await() { # file, text: of a server that has started
    for _ in $(seq 480); do
        ! grep -qs "$2" "$1" || return 0
        sleep 0.25
    done
    cat "$1"
    exit 1
}

start_rabbitmq() {
    unpack rabbitmq-server
    local package
    package=$(echo "$root"/usr/lib/rabbitmq/lib/rabbitmq_server-*)
    node=rabbit_fp@localhost port=45672
    echo '[].' >"$work/plugins"
    : >"$work/env.conf"
    RABBITMQ_HOME=$package HOME=$work RABBITMQ_NODENAME=$node \
        RABBITMQ_MNESIA_BASE=$work/mnesia RABBITMQ_LOG_BASE=$work/log \
        RABBITMQ_NODE_PORT=$port RABBITMQ_DIST_PORT=45673 \
        RABBITMQ_ENABLED_PLUGINS_FILE=$work/plugins RABBITMQ_CONF_ENV_FILE=$work/env.conf \
        RABBITMQ_CONFIG_FILE=$work/rabbitmq RABBITMQ_PID_FILE=$work/pid \
        "$package/sbin/rabbitmq-server" >"$work/out" 2>&1 &
    pids+=($!)
    await "$work/out" 'completed with'
    cookie=$work/.erlang.cookie
    load=amqp_load libraries=$package/plugins
}

start_ejabberd() {
    unpack ejabberd
    node=ejabberd_fp@localhost port=45222
    cat >"$work/ejabberd.yml" <<END
hosts: [localhost]
auth_method: anonymous
anonymous_protocol: sasl_anon
listen:
  - {port: $port, ip: "127.0.0.1", module: ejabberd_c2s, max_stanza_size: 65536, shaper: none}
modules: {}
END
    libraries=$root/usr/lib/erlang/lib:$root/usr/lib/$(uname -m)-linux-gnu
    cookie=$work/cookie
    echo flame_prof_real >"$cookie"
    LD_LIBRARY_PATH=$root/usr/lib/$(uname -m)-linux-gnu ERL_LIBS=$libraries \
        EJABBERD_CONFIG_PATH=$work/ejabberd.yml EJABBERD_LOG_PATH=$work/ejabberd.log \
        erl -noinput -sname "$node" -setcookie flame_prof_real \
        -mnesia dir "\"$work/mnesia\"" -s ejabberd >"$work/out" 2>&1 &
    pids+=($!)
    await "$work/ejabberd.log" 'Start accepting TCP connections'
    load=xmpp_load
}

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
