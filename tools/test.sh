#!/bin/bash
# Run tests and add them up.
#
#   tools/test.sh STEP...   steps: deps, tidy, c, fuzz, exports, erl, viewer, foreign
#
# What failed, and why, is told again before the last line, which is `N passed,
# N failed` and nothing else; the exit status is 0 only when something passed and
# nothing failed. WERROR=0 lets compiler
# warnings through (the matrix does, for compilers newer than we know).
# TESTS="module ..." limits the Erlang step.
set -u
cd "$(dirname "$0")/.." || exit 1

out=_build/test
results=$out/results # one line a test program: name, passed, failed
export FAILURES=$PWD/$out/failures
if ! mkdir -p "$out" || ! : >"$results" || ! : >"$FAILURES"; then
    echo "0 passed, 1 failed"
    exit 1
fi
export WERROR=1
[ "${TEST_WERROR:-1}" = 1 ] || WERROR=0

heading() { printf '\n== %s\n' "$*"; }
record() { echo "$1 $2 $3" >>"$results"; }

finish() {
    local name passed failed total_passed=0 total_failed=0
    heading "Results"
    while read -r name passed failed; do
        printf '  %-42s %4d passed %4d failed\n' "$name" "$passed" "$failed"
        total_passed=$((total_passed + passed))
        total_failed=$((total_failed + failed))
    done <"$results"
    [ "$total_passed" -gt 0 ] || echo "  no test ran"
    echo "  in seconds:$took"
    if [ -s "$FAILURES" ]; then
        heading "What failed"
        cat "$FAILURES"
    fi
    echo
    echo "$total_passed passed, $total_failed failed"
    [ "$total_passed" -gt 0 ] && [ "$total_failed" -eq 0 ]
    exit
}

# A step that others need: when it fails there is nothing more to run.
must() { # name, command...
    local name=$1
    shift
    "$@" && return
    record "$name" 0 1
    finish
}

took=
for step in "$@"; do
    since=$SECONDS
    case $step in
    deps)
        must deps tools/deps.sh build test
        ;;
    c)
        heading "C tests (ASan and UBSan, TSan)"
        RESULTS=$results tools/test_c.sh
        heading "Dependencies of the folders"
        if tools/check_arrows.sh; then
            record arrows 1 0
        else
            record arrows 0 1
        fi
        ;;
    fuzz)
        heading "Every decoder on any bytes, for a few seconds"
        FUZZ_TOTAL=${TEST_FUZZ_SECONDS:-14} tools/fuzz.sh
        case $? in
        0) record fuzz 1 0 ;;
        3) ;; # said so
        *) record fuzz 0 1 ;;
        esac
        ;;
    tidy)
        heading "The house rules"
        if tools/tidy.escript && tools/tidy.escript --prove; then
            record tidy 1 0
        else
            record tidy 0 1
        fi
        ;;
    exports)
        must build "${MAKE:-make}" build
        heading "Exported symbols"
        if tools/check_exports.sh; then
            record exports 1 0
        else
            record exports 0 1
        fi
        heading "What the sampler and the signal handler can call"
        if tools/check_threads.sh && tools/check_threads.sh --prove; then
            record threads 1 0
        else
            record threads 0 1
        fi
        ;;
    erl)
        must build "${MAKE:-make}" build
        heading "Erlang tests"
        RESULTS=$results tools/test_erl.sh
        ;;
    viewer)
        must build "${MAKE:-make}" build
        heading "The viewer in a browser"
        RESULTS=$results tools/test_viewer.sh
        ;;
    foreign)
        must build "${MAKE:-make}" build
        heading "Other people's programs on our files"
        RESULTS=$results tools/test_foreign.sh
        ;;
    *)
        echo "tools/test.sh: unknown step $step" >&2
        record "$step" 0 1
        ;;
    esac
    took="$took $step $((SECONDS - since))"
done
finish
