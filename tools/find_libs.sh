#!/bin/bash
# Print the linker arguments for libuv, zstd and zlib.
#
# Their static archives when those are position independent, which is found out
# by linking; the shared libraries otherwise. Environment: CC, PKG_CONFIG,
# ERL_INCLUDE. Fails, naming Debian's packages, when a header is missing.
set -eu

: "${CC:=gcc}" "${PKG_CONFIG:=pkg-config}" "${ERL_INCLUDE:=}"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

command -v "${CC%% *}" >/dev/null || {
    echo "flame_prof: there is no C compiler '$CC' (Debian: gcc libc6-dev)" >&2
    exit 1
}

missing=
need_header() { # header, package
    echo "#include <$1>" |
        $CC ${ERL_INCLUDE:+-isystem "$ERL_INCLUDE"} -E - >/dev/null 2>&1 ||
        missing="$missing
    <$1> is missing (Debian: $2)"
}
need_header stdio.h libc6-dev
need_header erl_nif.h erlang-dev
need_header uv.h libuv1-dev
need_header zstd.h libzstd-dev
need_header zlib.h zlib1g-dev
if [ -n "$missing" ]; then
    echo "flame_prof: the NIF cannot be built:$missing
    \`make deps-build\` installs them on Debian." >&2
    exit 1
fi

cat >"$tmp/probe.c" <<'EOF'
#include <uv.h>
#include <zlib.h>
#include <zstd.h>
const void *probe(void);
const void *probe(void)
{
    static void *used[4];
    used[0] = (void *)uv_run;
    used[1] = (void *)uv_fs_write;
    used[2] = (void *)ZSTD_compressStream2;
    used[3] = (void *)inflate;
    return used;
}
EOF
$CC -fPIC -c -o "$tmp/probe.o" "$tmp/probe.c"

# $CC knows its own library path; pkg-config knows the odd prefix.
archive() { # name...
    local name dir path
    for name in "$@"; do
        path=$($CC -print-file-name="$name")
        if [ "$path" != "$name" ] && [ -f "$path" ]; then
            realpath -s "$path"
            return
        fi
        for dir in $($PKG_CONFIG --variable=libdir libuv libzstd zlib 2>/dev/null); do
            [ -f "$dir/$name" ] && echo "$dir/$name" && return
        done
    done
}

links() {
    $CC -shared -Wl,-z,text -Wl,-z,defs -o "$tmp/probe.so" "$tmp/probe.o" \
        "$@" -pthread >/dev/null 2>&1
}

choose() { # static archive or "", shared library: print what links
    local other=$3
    if [ -n "$1" ] && links "$1" $other; then echo "$1"; else echo "$2"; fi
}

uv_shared=$($PKG_CONFIG --libs libuv 2>/dev/null || echo -luv)
zstd_shared=$($PKG_CONFIG --libs libzstd 2>/dev/null || echo -lzstd)
z_shared=$($PKG_CONFIG --libs zlib 2>/dev/null || echo -lz)
uv=$(choose "$(archive libuv_a.a libuv.a)" "$uv_shared" "$zstd_shared $z_shared")
zstd=$(choose "$(archive libzstd.a)" "$zstd_shared" "$uv $z_shared")
z=$(choose "$(archive libz.a)" "$z_shared" "$uv $zstd")

# Flags that libuv's archive itself may need (nothing on a recent glibc).
system=
links $uv $zstd $z || {
    system="-ldl -lrt"
    links $uv $zstd $z $system || {
        echo "flame_prof: libuv ($uv), zstd ($zstd) and zlib ($z) do not link" >&2
        exit 1
    }
}
echo $uv $zstd $z $system
