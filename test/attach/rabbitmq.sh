#!/bin/bash
# Attach to a real RabbitMQ under load: not part of `make test`, as it takes two
# minutes and a package.
#
#   test/attach/rabbitmq.sh FOLDER
#
# FOLDER is where the rabbitmq-server package lies unpacked (`apt-get download
# rabbitmq-server && dpkg -x rabbitmq-server_*.deb FOLDER`); RabbitMQ runs from
# there, as a node of its own with its own epmd name, port and cookie. The load is
# test/attach/load/amqp_load.erl, with the package's own AMQP client. Says messages per
# second in windows of 250 ms before, during and after a profile of 30 s, what was
# hot, and what was left behind.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
package=$(cd "$1" && echo "$PWD"/usr/lib/rabbitmq/lib/rabbitmq_server-*)
work=$(mktemp -d)
export RABBITMQ_HOME=$package HOME=$work RABBITMQ_NODENAME=rabbit_fp@localhost
export RABBITMQ_MNESIA_BASE=$work/mnesia RABBITMQ_LOG_BASE=$work/log
export RABBITMQ_NODE_PORT=45672 RABBITMQ_DIST_PORT=45673
export RABBITMQ_ENABLED_PLUGINS_FILE=$work/plugins RABBITMQ_CONF_ENV_FILE=$work/env.conf
export RABBITMQ_CONFIG_FILE=$work/rabbitmq
export RABBITMQ_PID_FILE=$work/pid
echo '[].' >"$work/plugins"
: >"$work/env.conf"
seconds=${ATTACH_SECONDS:-30}

"$package/sbin/rabbitmq-server" >"$work/out" 2>&1 &
server=$!
finish() {
    kill "$server" 2>/dev/null || true
    [ -z "${load:-}" ] || kill "$load" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
for _ in $(seq 240); do
    grep -q 'completed with' "$work/out" "$work"/log/*.log 2>/dev/null && break
    sleep 0.25
done

paths=$(echo "$package"/plugins/{amqp_client,rabbit_common,credentials_obfuscation,recon,jsx}-*/ebin)
ERL_LIBS=$package/plugins erlc -o "$work" "$here/load/amqp_load.erl"
erl -noinput -pa "$work" $paths -run amqp_load main 45672 "$work/rates" >"$work/load" 2>&1 &
load=$!
sleep 3

traces() {
    "$top/test/attach/traces.escript" rabbit_fp@localhost "$(cat "$work/.erlang.cookie")"
}
traces >"$work/warm" # loads what it needs itself
traces >"$work/before"

mark() { wc -l <"$work/rates"; }
sleep "$seconds"
begin=$(mark)
"$top/bin/flame_prof" attach rabbit_fp@localhost --for "${seconds}s" --output "$work/prof" --top "${ATTACH_TOP:-100}"
end=$(mark)
sleep "$seconds"
sleep 1
traces >"$work/after"
echo
echo "Left behind (nothing: no line):"
diff "$work/before" "$work/after" || true
awk -v begin="$begin" -v end="$end" '
    { if (NR > begin && NR <= end) { d[++nd] = $1; sd += $1 } else { o[++no] = $1; so += $1 } }
    END { printf "\nmessages a second: %.0f during (%d windows), %.0f around it (%d windows): %.3f\n",
          4 * sd / nd, nd, 4 * so / no, no, (sd / nd) / (so / no) }' "$work/rates"
