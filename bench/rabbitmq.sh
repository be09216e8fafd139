#!/bin/bash
# The overhead on a RabbitMQ under load, as in bench/overhead.sh: adds to
# _build/bench/results. The server comes from Debian's packages (test/attach/servers.sh)
# and runs from _build/real; where it cannot be had this says so, and that is all.
# Windows are longer than there, as what is read at their ends comes from two VMs.
set -eu
cd "$(dirname "$0")/.."
bench/compile.sh
export PAIRS=${RABBITMQ_PAIRS:-60} WINDOW_MS=${RABBITMQ_WINDOW_MS:-200}
export BENCH_FOLDER=$PWD/_build/bench
server=rabbitmq
. test/attach/servers.sh
if [ ! -e "$root/complete" ] && ! apt-cache show rabbitmq-server >/dev/null 2>&1; then
    echo "rabbitmq: not measured, there is no package rabbitmq-server here"
    exit 0
fi
start_rabbitmq
ERL_LIBS=$libraries erlc -o "$work" "test/attach/load/$load.erl" bench/bench_rabbitmq.erl
HOME=$work ERL_LIBS=$libraries erl -noinput -sname bench_rabbitmq@localhost \
    -pa "$work" _build/bench \
    -run bench_rabbitmq main "$port" "$node" "$PWD/_build/default/lib/flame_prof/ebin" "$BENCH_FOLDER"
