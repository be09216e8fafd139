#!/bin/bash
# Compile the benchmarks' modules to _build/bench.
set -eu
cd "$(dirname "$0")/.."
out=_build/bench
mkdir -p "$out"
erlc -o "$out" bench/bench_{stats,latency,results,threads,requests,workloads,peers,overhead}.erl
include=$(erl -noinput -eval '
    io:put_chars(filename:join([code:root_dir(), "erts-" ++ erlang:system_info(version), "include"])), halt().')
"${CC:-gcc}" -std=c11 -Wall -Wextra -O2 -fPIC -shared -isystem "$include" \
    -o "$out/bench_threads.so" bench/bench_threads.c
