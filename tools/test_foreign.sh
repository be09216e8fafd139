#!/bin/bash
# Test that other people's programs read our files rightly; append "name passed
# failed" to $RESULTS. Real sessions (test/foreign/foreign_session.erl) leave their
# files, zstdcat unpacks them, and each text, and each series as one text, is read by
#
# - test/oracles/perf_script_grammar.erl, the strict check of doc/format.md
# - test/oracles/perfetto_oracle.erl, which reads as Perfetto does
# - FlameGraph's stackcollapse-perf.pl: $STACKCOLLAPSE, or where the PATH has it.
#   It is in no package of Debian or npm: clone FlameGraph
# - speedscope from npm, as test/foreign/package-lock.json has it, in chromium
#
# and compared with test/foreign/foreign_oracle.erl. What is not to be had is
# skipped, and said so.
set -u
: "${RESULTS:?}" "${CHROMIUM:=$(command -v chromium)}"
: "${STACKCOLLAPSE:=$(command -v stackcollapse-perf.pl)}"
cd "$(dirname "$0")/.." || exit 1
export CHROMIUM ERL_CRASH_DUMP=$PWD/_build/test/erl_crash.dump

dir=$PWD/_build/test/foreign
npm=$PWD/_build/foreign
rm -rf "$dir"
mkdir -p "$dir/ebin" "$dir/files" "$npm"

skip() { echo "  $1: skipped: $2"; }
record() { echo "foreign-$1 $2 $3" >>"$RESULTS"; }
fail() {
    echo "    FAIL  foreign: $*" | tee -a "${FAILURES:-/dev/null}"
    record session 0 1
    exit
}

run() { # module: its main/1 with the directory of the files
    timeout "${TEST_TIMEOUT:-900}" erl -noinput +pc unicode \
        -pa _build/default/lib/flame_prof/ebin "$dir/ebin" \
        -eval "$1:main([\"$dir/files\"]), halt()."
}

unpacked() { # file...: as their user would, what is as long as it claims to be
    local file
    for file in "$@"; do
        zstd -tq "$file" && zstdcat "$file" >"${file%.zst}" || return
    done
    zstdcat "$@" >"$(dirname "$1")/all.log"
}

erlc -Werror -o "$dir/ebin" test/support/nasty_names.erl test/oracles/perf_script_grammar.erl \
    test/oracles/perfetto_oracle.erl test/foreign/*.erl || fail "its modules do not compile"
run foreign_session || fail "the sessions"
for session in "$dir"/files/*/; do
    ls "$session"*.zst >/dev/null 2>&1 || continue
    unpacked "$session"*.zst || fail "zstd does not read $session"
done
run foreign_oracle || fail "the grammar"
texts=("$dir"/files/*/*.log)
echo "    ok    grammar: ${#texts[@]} texts, $(cat "${texts[@]}" | grep -c '^[A-Za-z_]') samples"
record grammar "${#texts[@]}" 0

stackcollapse() {
    local text passed=0 failed=0
    for text in "${texts[@]}"; do
        if perl "$STACKCOLLAPSE" "$text" >"$text.got" 2>"$text.complaints" &&
            [ ! -s "$text.complaints" ] && cmp "$text.got" "$text.collapsed"; then
            echo "    ok    ${text#"$dir"/files/}: $(wc -l <"$text.got") stacks," \
                "$(awk '{ sum += $NF } END { print sum }' "$text.got") together"
            passed=$((passed + 1))
        else
            echo "    FAIL  stackcollapse: $text: see $text.got, .collapsed, .complaints" |
                tee -a "${FAILURES:-/dev/null}"
            failed=$((failed + 1))
        fi
    done
    record stackcollapse "$passed" "$failed"
}

if ! command -v perl >/dev/null; then
    skip stackcollapse "perl is not installed"
elif [ -z "$STACKCOLLAPSE" ]; then
    skip stackcollapse "no stackcollapse-perf.pl; STACKCOLLAPSE=path names one"
elif [ ! -r "$STACKCOLLAPSE" ]; then
    fail "STACKCOLLAPSE=$STACKCOLLAPSE cannot be read"
else
    stackcollapse
fi

npm_installed() {
    cp test/foreign/{package.json,package-lock.json,.npmrc,speedscope.mjs} "$npm"
    # What was installed for another lock file is not what is wanted.
    cmp -s test/foreign/package-lock.json "$npm/installed" && return
    (cd "$npm" && timeout 300 npm ci) >"$dir/npm.log" 2>&1 &&
        cp test/foreign/package-lock.json "$npm/installed"
}

speedscope() {
    local passed failed
    timeout "${TEST_TIMEOUT:-900}" node "$npm/speedscope.mjs" "${texts[@]}" |
        tee "$dir/speedscope"
    grep -A14 '^    FAIL' "$dir/speedscope" >>"${FAILURES:-/dev/null}"
    read -r passed failed < <(tail -n 1 "$dir/speedscope" | grep -E '^[0-9]+ [0-9]+$')
    record speedscope "${passed:-0}" "${failed:-1}"
}

if [ -z "$CHROMIUM" ]; then
    skip speedscope "chromium is not installed"
elif ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    skip speedscope "node or npm is not installed"
elif ! npm_installed; then
    skip speedscope "npm could not install it: $(grep -m 1 'npm error' "$dir/npm.log")"
else
    speedscope
fi
