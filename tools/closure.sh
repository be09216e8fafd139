#!/bin/bash
# What each library of priv/ has: files and lines of C by link closure, headers counted, and bytes.
#
#   tools/closure.sh               the three libraries
#   tools/closure.sh NAME...       their files, one a line
#   tools/closure.sh --check       fails if the agent is larger than it may be
#
# Closure: the objects that the linker has taken (nif.mk lets it say so), and each header below
# c_src/ that one of these includes. The agent's limits are promises: they are not raised.
set -u
cd "$(dirname "$0")/.." || exit 1
# The bytes are a promise; the lines are on the way to 22,000, and only go down.
most_lines=24901 most_bytes=$((240 * 1024))
build=$(cat _build/c/linked) || exit 1

files() { # library
    local object
    sed -nE "s,^\\(.*members\\.a\\)(.*\\.o)\$,\\1,p; s,^(.*_build/c/[^)]*\\.o)\$,\\1,p" "$build/$1.so.members" |
        while read -r object; do
            case $object in
            _build/*) echo "$object" ;;
            *) find "$build" \( -path "$build/hooks" -o -path "$build/test_nif" \) -prune -o \
                -name "$object" -print ;;
            esac
        done | sort -u | while read -r object; do
        tr -d '\\' <"${object%.o}.d" | tr ' :' '\n\n' | grep '^c_src/'
    done | sort -u
}

row() { # library
    local list
    list=$(files "$1")
    [ -n "$list" ] || return 1
    # shellcheck disable=SC2086
    echo "$1 $(wc -l <<<"$list") $(cat $list | wc -l) $(stat -c %s "priv/$1.so")"
}

case ${1:-} in
'' | --check)
    printf '%-24s %6s %7s %9s\n' library files lines bytes
    for library in flame_prof_nif flame_prof_looks_nif flame_prof_report_nif; do
        read -r name count lines bytes < <(row "$library") || exit 1
        printf '%-24s %6d %7d %9d\n' "$name" "$count" "$lines" "$bytes"
        [ "$library" = flame_prof_nif ] || continue
        agent_lines=$lines agent_bytes=$bytes
    done
    [ "${1:-}" = --check ] || exit 0
    [ "$agent_lines" -le $most_lines ] && [ "$agent_bytes" -le $most_bytes ] && exit
    echo "  wrong  the agent may have $most_lines lines and $most_bytes bytes" >&2
    exit 1
    ;;
*) for library in "$@"; do files "$library" || exit 1; done ;;
esac
