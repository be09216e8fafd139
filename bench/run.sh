#!/bin/bash
# make bench: what sampling costs on this machine, in SECONDS_ (60) seconds of
# measurement. In two VMs: one as anybody would start it, one with room for the
# million processes of the selection. Then how fast files are read: what the demo
# writes in ten seconds, plain and compressed; `bench/run.sh read` is that alone.
# Before the reading, what ours and other tools cost the program: bench/overhead.sh.
set -eu
cd "$(dirname "$0")/.."
mkdir -p _build/bench
export ERL_LIBS=_build/default/lib

sampling() {
    erlc -o _build/bench bench/bench.erl examples/demo/src/demo_*.erl
    bench() {
        erl -noinput "$@" -pa _build/bench _build/default/lib/flame_prof/ebin
    }
    bench -s bench main "${SECONDS_:-60}"
    bench +P 2000000 -s bench selection
}

reading() {
    local dir=_build/bench/read written
    rm -rf "$dir"
    mkdir -p "$dir"
    DEMO_DIR=$dir DEMO_SECONDS=10 examples/demo/run.sh >/dev/null
    written=$(ls "$dir"/*.log.zst)
    mv "$written" "$dir/demo.log.zst"
    zstd -q -d "$dir/demo.log.zst"
    gzip -1 -k "$dir/demo.log"
    "${CC:-gcc}" -std=c11 -D_GNU_SOURCE= -O2 -Ic_src -o _build/bench/read_bench \
        bench/read_bench.c c_src/read/*.c c_src/out/encode.c c_src/out/buffer.c \
        c_src/core/error.c c_src/core/pages.c c_src/core/pool.c -lz -lzstd
    printf '\nReading, MB of text a second of CPU\n'
    _build/bench/read_bench "$dir"/demo.log*
    rm -rf "$dir"
}

[ "${1:-}" = read ] || { rm -f _build/bench/results; sampling; bench/overhead.sh; bench/rabbitmq.sh; }
reading
[ "${1:-}" = read ] || bench/report.sh json
