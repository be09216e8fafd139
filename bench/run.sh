#!/bin/bash
# Measure on this machine, all of it or the parts that are named:
#
#   bench/run.sh [PART...]
#
#   bars         a sample's cost beside its bars and a yardstick of the same run
#   cost         CPU time of a process-sample: nodes, numbers, depths, rates
#   selection    choosing 100 of 1,000 to 1,000,000 processes
#   waits        words of samples; looks at 100,000 processes and a million messages
#   tracing      measured calls and readable events, beside dbg, redbug (where ERL_LIBS has
#                it) and a tracer process
#   allocations  work of programs with and without it; shares and sums against counted words
#   doctor       work of a node while the doctor looks at it, and the CPU time of that
#   memory       readings of allocators, looks at tables, binaries and a large heap: cost and truth
#   files        bytes a sample; rate and jitter on saturated schedulers
#   capture      what asking for running stacks takes from a program
#   accuracy     shares against known truth, with other samplers; against perf
#   timing       a burst of 20 ms: is it where it was?
#   read         how fast files are read and indexed
#   overhead     what it takes from programs, beside what others take
#
# SECONDS_ (60) divided by 12 is how long a thing is measured. Results go to the
# terminal and, as Erlang terms, to _build/bench/results, which is begun anew when no
# part is named.
set -eu
cd "$(dirname "$0")/.."
mkdir -p _build/bench
export ERL_LIBS=_build/default/lib${ERL_LIBS:+:$ERL_LIBS}
ebin=_build/bench
results=_build/bench/results
each=$((${SECONDS_:-60} / 12))
[ "$each" -ge 1 ] || each=1

vm() { # part, flags of the VM...
    local part=$1
    shift
    erl -noinput "$@" -pa "$ebin" _build/default/lib/flame_prof/ebin \
        -s bench main "$part" "$each"
}

# What the demo writes in ten seconds, plain and compressed.
read_files() {
    local dir=$ebin/read written
    rm -rf "$dir"
    mkdir -p "$dir"
    DEMO_DIR=$dir DEMO_SECONDS=10 examples/demo/run.sh >/dev/null
    written=$(ls "$dir"/*.log.zst)
    mv "$written" "$dir/demo.log.zst"
    zstd -q -d "$dir/demo.log.zst"
    gzip -1 -k "$dir/demo.log"
    "${CC:-gcc}" -std=c11 -D_GNU_SOURCE= -O2 -Ic_src -o "$ebin/read_bench" \
        bench/read_bench.c $(tools/closure.sh flame_prof_report_nif | grep '\.c$' | grep -vE '_nif|terms') \
        -lz -lzstd
    printf "\nread: MB of text a second of CPU\n\n"
    (cd "$dir" && ../read_bench ../results demo.log*)
    rm -rf "$dir"
}

part() {
    case $1 in
    bars | cost | files | capture | waits | tracing | allocations | doctor) vm "$1" ;;
    memory)
        # Spinning schedulers would be counted.
        vm memory +S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none
        vm memory +S 64:64 +sbwt none +sbwtdcpu none +sbwtdio none
        ;;
    selection)
        vm selection
        vm selection +P 2000000
        ;;
    timing) vm timing ;;
    accuracy)
        vm accuracy
        # A VM that writes perf's map itself, and whose schedulers wait without
        # spinning: perf would show that, we call it idle.
        vm agreement +JPperf true +sbwt none +sbwtdcpu none +sbwtdio none
        ;;
    read) read_files ;;
    overhead)
        bench/overhead.sh
        bench/rabbitmq.sh
        ;;
    *)
        echo "there is no part $1; see $0" >&2
        exit 1
        ;;
    esac
}

bench/compile.sh
if [ $# -eq 0 ]; then
    rm -f "$results"
    set -- bars cost selection waits tracing allocations doctor memory files capture accuracy \
        timing read overhead
fi
for name in "$@"; do
    part "$name"
done
bench/report.sh json
