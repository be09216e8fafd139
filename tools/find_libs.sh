#!/bin/bash
# Find the linker arguments for libuv, zstd and zlib.
#
#   tools/find_libs.sh FILE   writes FILE.agent (libuv, zstd), FILE.looks and FILE.report
#                             (zstd, zlib)
#
# Their static archives when those are position independent, which is found out
# by linking; the shared libraries otherwise. Environment: CC, PKG_CONFIG, and
# CPPFLAGS and LDFLAGS, with what the build gives the compiler. Fails when a
# header is missing, with the packages that have it.
set -eu

: "${CC:=gcc}" "${PKG_CONFIG:=pkg-config}" "${CPPFLAGS:=}" "${LDFLAGS:=}"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

debian='' fedora='' alpine=''
packages() { # of Debian, of Fedora, of Alpine
    debian="$debian $1" fedora="$fedora $2" alpine="$alpine $3"
}
how_to_install() {
    echo "    Debian, Ubuntu   apt-get install$debian      (or: make deps-build)"
    echo "    Fedora           dnf install$fedora"
    echo "    Alpine           apk add$alpine"
}

command -v "${CC%% *}" >/dev/null || {
    packages "gcc libc6-dev" "gcc glibc-devel" "gcc musl-dev"
    echo "flame_prof: there is no C compiler '${CC%% *}'. To install one:"
    how_to_install
    exit 1
} >&2

missing=
need_header() { # header, packages
    echo "#include <$1>" | $CC $CPPFLAGS -E - >/dev/null 2>&1 && return
    missing="$missing <$1>"
    shift
    packages "$@"
}
need_header stdio.h libc6-dev glibc-devel musl-dev
need_header erl_nif.h erlang-dev erlang-erts erlang-dev
need_header uv.h libuv1-dev libuv-devel libuv-dev
need_header zstd.h libzstd-dev libzstd-devel zstd-dev
need_header zlib.h zlib1g-dev zlib-devel zlib-dev
if [ -n "$missing" ]; then
    echo "flame_prof: the NIF cannot be built, as '$CC' does not find$missing. To install:"
    how_to_install
    echo "  What is in a prefix of its own is found by PKG_CONFIG_PATH, or by CPPFLAGS and LDFLAGS."
    exit 1
fi >&2

cat >"$tmp/probe.c" <<'END'
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
END
$CC $CPPFLAGS -fPIC -c -o "$tmp/probe.o" "$tmp/probe.c"

# pkg-config knows the odd prefix, which goes before what $CC finds itself: a
# cross compiler may find the archives of this machine.
folders() {
    $PKG_CONFIG --variable=libdir libuv libzstd zlib 2>/dev/null || true
}
archive() { # name...
    local name folder path
    for name in "$@"; do
        for folder in $(folders); do
            [ -f "$folder/$name" ] && echo "$folder/$name" && return
        done
        path=$($CC -print-file-name="$name")
        if [ "$path" != "$name" ] && [ -f "$path" ]; then
            echo "$(cd "$(dirname "$path")" && pwd)/$name"
            return
        fi
    done
}

links() {
    $CC -shared -Wl,-z,text -Wl,-z,defs $LDFLAGS -o "$tmp/probe.so" "$tmp/probe.o" \
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
echo $uv $zstd $system >"$1.agent"
echo $uv $system >"$1.looks"
echo $zstd $z $system >"$1.report"
