#!/bin/bash
# Compile the benchmarks' modules to _build/bench.
set -eu
cd "$(dirname "$0")/.."
out=_build/bench
mkdir -p "$out"
# bench_rabbitmq needs RabbitMQ's client and is compiled where that is.
shopt -s extglob
erlc +debug_info -o "$out" bench/!(bench_rabbitmq).erl examples/demo/src/demo_*.erl \
    test/support/{checkout,counted_allocations,seeded}.erl \
    test/support/running_{profile,test_nif,work}.erl
include=$(erl -noinput -eval '
    Erts = "erts-" ++ erlang:system_info(version),
    io:put_chars(filename:join([code:root_dir(), Erts, "include"])), halt().')
"${CC:-gcc}" -std=c11 -Wall -Wextra -O2 -fPIC -shared -isystem "$include" \
    -o "$out/bench_threads.so.new" bench/bench_threads.c
mv "$out/bench_threads.so.new" "$out/bench_threads.so"
