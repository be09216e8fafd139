#!/bin/bash
# The node of README's examples: `examples/shop.sh start' returns when shop@localhost runs, and
# `examples/shop.sh stop' ends it.
set -eu
cd "$(dirname "$0")/.."
folder=_build/examples/shop
pid=$folder/pid
if [ "${1:-}" = stop ]; then
    kill "$(cat $pid)" && rm $pid
    exit
elif [ "${1:-}" != start ]; then
    sed -n '2,3s/^# //p' "$0" >&2
    exit 2
elif [ -e $pid ] && kill -0 "$(cat $pid)" 2>/dev/null; then
    echo "shop@localhost runs already"
    exit
fi
mkdir -p $folder
rm -f $pid
erlc -o $folder examples/shop.erl
# The file appears at once, with its content.
erl -noinput -sname shop@localhost -pa $folder -s shop start -s shop sale -eval "
    ok = file:write_file(\"$pid.new\", os:getpid()), ok = file:rename(\"$pid.new\", \"$pid\")." \
    >$folder/log 2>&1 </dev/null &
node=$!
until [ -e $pid ]; do
    if ! kill -0 $node 2>/dev/null; then
        cat $folder/log >&2
        exit 1
    fi
    sleep 0.1
done
echo "shop@localhost runs; examples/shop.sh stop ends it"
