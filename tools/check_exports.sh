#!/bin/bash
# Check what the three libraries of priv/ export, hold and weigh:
#
# - nif_init is the only symbol that they define for others: libuv's and zstd's
#   names stay inside them;
# - they need nothing that no library defines;
# - the agent has no zlib, no function that reads profile files, none of a look and none of tracing;
# - the agent is within its limits (tools/closure.sh; libuv and zstd are not counted where they are
#   linked statically);
# - read-only relocations, no executable stack, stack protector.
set -u
cd "$(dirname "$0")/.." || exit 1
wrong=0

complain() {
    echo "  wrong  $*" >&2
    wrong=$((wrong + 1))
}

check() { # library
    local nif=$1 exported unresolved
    exported=$(nm -D --defined-only "$nif" | awk '{ print $NF }')
    [ "$exported" = nif_init ] ||
        complain "$nif exports more, or less, than nif_init:" $exported
    # glibc's names carry a version; others are known by their prefix.
    if nm -D --undefined-only "$nif" | grep -q '@GLIBC'; then
        unresolved=$(nm -D --undefined-only "$nif" |
            awk '$1 == "U" && $2 !~ /@/ && $2 !~ /^((enif|erl_drv|uv|ZSTD)_|(in|de)flate|gz)/ { print $2 }')
        [ -z "$unresolved" ] || complain "$nif uses what is defined nowhere:" $unresolved
        nm -D --undefined-only "$nif" | grep -q __stack_chk_fail ||
            complain "$nif has no stack protector"
    fi
    readelf -lW "$nif" | grep -q GNU_RELRO || complain "$nif has no GNU_RELRO"
    readelf -dW "$nif" | grep -qw BIND_NOW || complain "$nif binds its symbols lazily"
    readelf -lW "$nif" | grep 'GNU_STACK.*RWE' && complain "$nif has an executable stack"
    [ -f "$nif.debug" ] || complain "$nif.debug is missing"
    readelf -SW "$nif" | grep -q '\.debug_info' && complain "$nif has debug information"
}

for library in priv/flame_prof_nif.so priv/flame_prof_looks_nif.so priv/flame_prof_report_nif.so; do
    check "$library"
done

agent=$(cat _build/c/linked)/flame_prof_nif.so
parsers=$(nm "$agent" | awk '{ print $NF }' |
    grep -E '^(fp_(scan|parse|source|profile|tree|rows)_|inflate|gz)' | head -n 5)
[ -z "$parsers" ] || complain "the agent has what the reader of files has:" $parsers
looks=$(nm "$agent" | awk '{ print $NF }' | grep -E '^fp_(waits|served|mailbox|xray|holders|heap|ets|carriers|rss|tracer|tracepoint|latency|allocations_[a-z]|layout_solve|sends)' |
    grep -vE '^fp_nif_allocators_' | head -n 5)
[ -z "$looks" ] || complain "the agent has what looks and tracing have:" $looks

# Linked statically, libuv and zstd weigh three times what we do.
if ! grep -q '\.a' "$(cat _build/c/linked)/libs.agent"; then
    tools/closure.sh --check || wrong=$((wrong + 1))
fi
[ "$wrong" -eq 0 ] || exit 1
echo "  ok    the libraries export nif_init only; the agent has $(stat -c %s priv/flame_prof_nif.so) bytes no look and no reader of files"
