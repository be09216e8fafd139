# Real servers as nodes of their own, to be sourced from the top with `server' set: their
# Debian packages are downloaded and unpacked into _build/real, not installed.
#
# start_$server sets node, cookie (a file), port, libraries (for its clients) and load (a
# module of test/attach/load). `work' is a folder, and `pids' processes, that end with us.

root=$PWD/_build/real/$server
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

await() { # file, text: of the server that was started last
    for _ in $(seq 480); do
        ! grep -qs "$2" "$1" || return 0
        kill -0 "${pids[-1]}" 2>/dev/null || break
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
    # Applications of OTP that this machine does not have, as os_mon.
    ERL_LIBS=$root/usr/lib/erlang/lib \
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
