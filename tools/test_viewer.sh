#!/bin/bash
# Test the viewer's page and reports in a browser; append "viewer passed failed" to
# $RESULTS. A profile of the demo is made, and what the page should show of it is
# computed from its text by test/oracles/viewer_oracle.erl.
#
# Skipped, and said so, where there is no chromium, no node, or no way to get the
# packages of viewer/package-lock.json. ONLY="..." limits it to tests of such names.
set -u
: "${RESULTS:?}" "${CHROMIUM:=$(command -v chromium)}"
export CHROMIUM
cd "$(dirname "$0")/.." || exit 1

dir=$PWD/_build/test/viewer
rm -rf "$dir"
mkdir -p "$dir/ebin"

skip() {
    echo "  skipped: $*"
    exit 0
}
fail() {
    echo "  $*"
    echo "viewer 0 1" >>"$RESULTS"
    exit 0
}
command -v node >/dev/null || skip "node is not installed"
[ -n "$CHROMIUM" ] || skip "chromium is not installed"
# What was installed for another lock file is not what is wanted.
installed=viewer/node_modules/.package-lock.json
[ "$installed" -nt viewer/package-lock.json ] ||
    (cd viewer && timeout 300 npm ci >"$dir/npm.log" 2>&1) ||
    skip "npm could not install viewer's packages: $(grep -m 1 'npm error' "$dir/npm.log")"

if node viewer/build.mjs --check; then
    echo "viewer-is-built 1 0" >>"$RESULTS"
else
    echo "viewer-is-built 0 1" >>"$RESULTS"
fi

# What needs no browser.
node --test --test-reporter=tap viewer/test/model/*.test.mjs >"$dir/model" 2>&1 || grep -A 20 '^not ok' "$dir/model"
count() { sed -n "s/^# $1 //p" "$dir/model"; }
passed=$(count pass) failed=$(count fail)
echo "viewer-model ${passed:-0} ${failed:-1}" >>"$RESULTS"

erlc -o "$dir/ebin" test/oracles/viewer_oracle.erl test/oracles/reader_oracle.erl \
    test/support/viewer_fixture.erl test/support/made_calls.erl \
    test/support/made_allocations.erl test/support/made_memory.erl ||
    fail "its helpers do not compile"
DEMO_DIR=$dir/demo DEMO_SECONDS=4 examples/demo/run.sh >"$dir/demo.log" 2>&1 ||
    fail "the demo failed: $(tail -n 1 "$dir/demo.log")"

# The server lives for as long as this pipe is open.
mkfifo "$dir/stdin"
ERL_LIBS=_build/default/lib erl -noshell \
    -pa _build/default/lib/flame_prof/ebin "$dir/ebin" \
    -eval "viewer_fixture:main([\"$dir\", \"$(ls "$dir"/demo/*.zst)\"]), halt()." \
    <"$dir/stdin" >"$dir/server.log" 2>&1 &
server=$!
exec 9>"$dir/stdin"
until [ -f "$dir/about.json" ]; do
    kill -0 "$server" 2>/dev/null || fail "no server: $(tail -n 5 "$dir/server.log")"
    sleep 0.1
done
timeout "${TEST_TIMEOUT:-3600}" node viewer/test/run.mjs "$dir" | tee "$dir/result"
status=${PIPESTATUS[0]}
exec 9>&-
wait "$server"
[ "$status" -ne 77 ] || skip "chromium does not start here"
read -r passed failed < <(tail -n 1 "$dir/result" | grep -E '^[0-9]+ [0-9]+$')
echo "viewer ${passed:-0} ${failed:-1}" >>"$RESULTS"
