#!/bin/bash
# Test the viewer's page and reports in a browser; append "viewer passed failed" to
# $RESULTS. A profile of the demo is made, and what the page should show of it is
# computed from its text by test/viewer_oracle.erl.
#
# Skipped, and said so, where there is no chromium, no node or no playwright-core
# (npm ci in viewer/).
set -u
: "${RESULTS:?}" "${CHROMIUM:=$(command -v chromium)}"
export CHROMIUM
cd "$(dirname "$0")/.." || exit 1

skip() {
    echo "  skipped: $*"
    exit 0
}
command -v node >/dev/null || skip "node is not installed"
[ -n "$CHROMIUM" ] || skip "chromium is not installed"
[ -d viewer/node_modules/playwright-core ] ||
    (cd viewer && npm ci >/dev/null 2>&1) || skip "npm ci failed in viewer/"

dir=$PWD/_build/test/viewer
rm -rf "$dir"
mkdir -p "$dir/ebin"
erlc -o "$dir/ebin" test/viewer_oracle.erl test/viewer_fixture.erl || {
    echo "viewer 0 1" >>"$RESULTS"
    exit
}
DEMO_DIR=$dir/demo DEMO_SECONDS=4 examples/demo/run.sh >"$dir/demo.log" 2>&1
profile=$(ls "$dir"/demo/*.log 2>/dev/null | head -n 1)

# The server lives for as long as this pipe is open.
mkfifo "$dir/stdin"
ERL_LIBS=_build/default/lib erl -noshell \
    -pa _build/default/lib/flame_prof/ebin "$dir/ebin" \
    -eval "viewer_fixture:main([\"$dir\", \"$profile\"]), halt()." \
    <"$dir/stdin" >"$dir/server.log" 2>&1 &
server=$!
exec 9>"$dir/stdin"
for _ in $(seq 2400); do
    [ -f "$dir/about.json" ] && break
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
done
timeout 600 node viewer/test/run.mjs "$dir" | tee "$dir/result"
exec 9>&-
kill "$server" 2>/dev/null
read -r passed failed < <(tail -n 1 "$dir/result" | grep -E '^[0-9]+ [0-9]+$')
echo "viewer ${passed:-0} ${failed:-1}" >>"$RESULTS"
if node viewer/build.mjs --check; then
    echo "viewer-is-built 1 0" >>"$RESULTS"
else
    echo "viewer-is-built 0 1" >>"$RESULTS"
fi
