#!/bin/bash
# Show where flame_prof builds and runs beside gcc, glibc and x86_64.
#
#   tools/portability.sh [PART...]     all of them, or:
#     clang     the build and tests with clang
#     aarch64   a cross-built library in Debian's arm64, emulated by qemu-user (root)
#     musl      a library and an Erlang VM that are linked with musl
#     headers   what the build says where something is missing
#     releases  attach from the newer releases of the matrix to this one (root)
#
# Each part is a file in tools/portability/. What it makes is kept, and used again, in
#
#   ${FLAME_PROF_PORTABILITY_DIR:-${XDG_CACHE_HOME:-~/.cache}/flame_prof/portability}
#
# Ends with what was run and what could not be, and why; the last line is `N passed,
# N failed, N skipped'. Not part of `make test': the first run takes half an hour.
set -u
cd "$(dirname "$0")/.." || exit 1
. tools/portability/common.sh

parts="clang aarch64 musl headers releases"
[ $# -eq 0 ] || parts=$*

for part in $parts; do
    case $part in
    clang | aarch64 | musl | headers | releases) ;;
    *)
        echo "tools/portability.sh: there is no part $part" >&2
        exit 2
        ;;
    esac
    heading "$part"
    # In a shell of its own: what it sets and where it goes are its own.
    (. "tools/portability/$part.sh")
done
heading "Results"
cat "$results"
echo
finish
