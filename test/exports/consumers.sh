#!/bin/bash
# Do other tools read what we export, and find the same totals? Not part of `make
# test`, as it downloads them: `make test-exports`.
#
#   test/exports/consumers.sh [FILE...]
#
# Go's pprof (out of Debian's package, not installed), speedscope's release (from npm,
# in a headless chromium), flamegraph.pl where it is on the PATH, and the Firefox
# Profiler's own code out of a checkout, FIREFOX_PROFILER. What is missing is skipped,
# and says so. FILE is a profile; else one of the tests' corpus.
set -u
cd "$(dirname "$0")/../.." || exit 1
tools=$PWD/_build/consumers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$tools"
[ $# -gt 0 ] || set -- test/corpus/ours.log
failed=0

result() { # tool, its total
    if [ "$2" = "$samples" ]; then
        echo "  $1: $2 samples, as many as ours"
    else
        echo "  $1: '$2' samples, and ours are $samples"
        failed=1
    fi
}

skip() { echo "  $1: skipped, $2"; }

pprof() {
    local program=$tools/usr/lib/go-*/pkg/tool/*/pprof
    if ! compgen -G "$program" >/dev/null; then
        (cd "$tools" && apt-get download "$(apt-cache depends golang-go |
            awk '/Depends: golang-.*-go$/ { print $2; exit }')" >/dev/null 2>&1 &&
            dpkg -x golang-*-go_*.deb .)
    fi
    compgen -G "$program" >/dev/null || { skip pprof "no golang-go package"; return; }
    PPROF_TMPDIR=$work $program -top -sample_index=samples "$work/pprof" 2>/dev/null >"$work/top"
    result pprof "$(sed -n 's/.*100% of \([0-9]*\) total$/\1/p' "$work/top")"
    $program -tags -sample_index=samples "$work/pprof" 2>/dev/null >"$work/tags"
    for label in name pid status; do
        result "pprof, by $label" "$(sed -n "s/^ *$label: Total \([0-9]*\)\..*/\1/p" "$work/tags")"
    done
}

# Its table of functions, in a window that has room for all: Total, Self, Symbol Name.
speedscope() {
    local index=$tools/package/dist/release/index.html
    [ -e "$index" ] || (cd "$tools" &&
        npm pack --silent speedscope >/dev/null && tar xzf speedscope-*.tgz)
    [ -e "$index" ] || { skip speedscope "no npm"; return; }
    command -v chromium >/dev/null || { skip speedscope "no chromium"; return; }
    echo "speedscope.loadFileFromBase64('x', '$(base64 -w 0 "$work/speedscope")')" >"$work/x.js"
    chromium --headless --no-sandbox --disable-gpu --allow-file-access-from-files \
        --user-data-dir="$work/chromium" --window-size=1000,100000 --virtual-time-budget=20000 \
        --dump-dom \
        "file://$index#localProfilePath=$work/x.js&view=sandwich" 2>/dev/null >"$work/dom"
    result speedscope "$(sed 's/<[^>]*>/\n/g' "$work/dom" | grep -v '^ *$' |
        awk '/^Symbol Name$/ { head = NR } head && (NR - head) % 3 == 2 { gsub(",", "", $1); self += $1 }
             END { print self }')"
}

flamegraph() {
    command -v flamegraph.pl >/dev/null || { skip flamegraph "no flamegraph.pl"; return; }
    flamegraph.pl "$work/collapsed" >"$work/svg"
    result flamegraph "$(sed -n 's/.*<title>all (\([0-9,]*\) samples, 100%)<.*/\1/p' "$work/svg" | tr -d ,)"
}

firefox() {
    [ -n "${FIREFOX_PROFILER:-}" ] || { skip firefox "no checkout in FIREFOX_PROFILER"; return; }
    result firefox "$(node test/exports/firefox_reader.mjs "$FIREFOX_PROFILER" "$work/firefox")"
}

for file in "$@"; do
    echo "$file"
    samples=$(bin/flame_prof check "$file" --json | sed 's/.*"samples":\([0-9]*\),"stacks".*/\1/')
    for format in pprof speedscope collapsed firefox; do
        bin/flame_prof export "$file" --as $format --output "$work/$format" >/dev/null || failed=1
    done
    pprof
    speedscope
    flamegraph
    firefox
done
exit $failed
