#!/bin/bash
# Check that nif_init is the only symbol that a library defines for others:
# everything else, libuv's and zstd's names included, must stay inside it. And
# that it needs nothing that does not exist.
set -eu
nif=$1
exported=$(nm -D --defined-only "$nif" | awk '{ print $NF }')
if [ "$exported" != nif_init ]; then
    echo "$nif exports more, or less, than nif_init:" >&2
    printf '%s\n' "$exported" >&2
    exit 1
fi

# What nobody will define: a function of ours that was declared and never
# written. glibc's names carry a version; others are known by their prefix.
if nm -D --undefined-only "$nif" | grep -q '@GLIBC'; then
    unresolved=$(nm -D --undefined-only "$nif" |
        awk '$1 == "U" && $2 !~ /@/ && $2 !~ /^((enif|erl_drv|uv|ZSTD)_|(in|de)flate)/ { print $2 }')
    if [ -n "$unresolved" ]; then
        echo "$nif uses what is defined nowhere:" >&2
        printf '%s\n' "$unresolved" >&2
        exit 1
    fi
fi
echo "  ok    $nif exports nif_init only"
