#!/bin/bash
# Run tests and add them up.
#
#   tools/test.sh STEP...   steps: deps, build, tidy, c, sim-canaries, exports, musl, threads, erl,
#                           viewer, mcp, foreign
#
# Steps that are joined (erl+c+tidy) run beside each other, three at a time, what each
# one says in one piece: many of the Erlang tests wait. Of erl joined, the second runs of what
# failed are left for erl-again, a step that has the machine for itself.
#
# A run that still goes on after 25 minutes (RUN_SECONDS) is ended, with a report of what hung.
#
# What failed, and why, stands again before the last line, which is `N passed, N failed`
# and nothing else. The exit status is 0 only if something passed and nothing failed. A live
# test (nodes, files, signals, a browser) that fails runs once more, alone: a second success
# is listed as `FLAKY name` and does not fail the run. WERROR=0 lets compiler warnings through
# (the matrix does, for compilers newer than we know). TESTS="module ..." limits the Erlang step.
set -u
cd "$(dirname "$0")/.." || exit 1

# shellcheck source=tools/pool.sh
. tools/pool.sh

out=${RUN_FOLDER:-_build/test} # a folder of its own for a run beside another one
results=$out/results # one line a test program: name, passed, failed
export FAILURES=$PWD/$out/failures
export FLAKY=$PWD/$out/flaky
again=$out/again # modules whose second run is due
if ! { mkdir -p "$out" && : >"$results" && : >"$FAILURES" && : >"$FLAKY" && rm -f "$again"; }; then
    echo "0 passed, 1 failed"
    exit 1
fi
export WERROR=1
[ "${TEST_WERROR:-1}" = 1 ] || WERROR=0

over=$out/over # the run was ended
export RUNNING=$PWD/$out/running # what the pools have at work
rm -rf "$over" "$RUNNING" && mkdir -p "$RUNNING"

descendants() { # process: the eldest first, without those of bound_run itself
    local child
    for child in $(ps -o pid= --ppid "$1"); do
        [ "$child" = "$bound" ] || { echo "$child" && descendants "$child"; }
    done
}

# What hung is reported, and all of it killed: the steps that began then end as failures.
bound_run() {
    local seconds=${RUN_SECONDS:-1500} bound=$BASHPID
    sleep "$seconds" & trap 'kill $!; exit' TERM
    wait
    trap - TERM
    : >"$over"
    {
        echo "    FAIL  the run: it still went on after $seconds s, with, since:"
        cat "$RUNNING"/* 2>/dev/null | sed 's/^/      /'
        # shellcheck disable=SC2046
        ps -o etime=,args= -p "$(echo $(descendants $$) | tr ' ' ',')" | cut -c 1-250 | sed 's/^/      /'
    } >>"$FAILURES"
    # shellcheck disable=SC2046
    kill -KILL $(descendants $$) 2>/dev/null
}

heading() { printf '\n== %s\n' "$*"; }
record() { echo "$1 $2 $3" >>"$results"; }
judge() { # name, command...: one test, by the command's exit status
    local name=$1
    shift
    "$@" 2>&1 | tee "$out/judged.$name"
    if [ "${PIPESTATUS[0]}" -eq 0 ]; then
        record "$name" 1 0
    else
        record "$name" 0 1
        { echo "    FAIL  $name, which ended with:" && tail -n 5 "$out/judged.$name"; } >>"$FAILURES"
    fi
}

finish() {
    local name passed failed total_passed=0 total_failed=0
    while read -r _ name passed failed; do
        record "$name" "$passed" "$failed"
        echo "    FAIL  $name: its second run was not made" >>"$FAILURES"
    done < <(cat "$again" 2>/dev/null)
    if [ -e "$over" ]; then record run 0 1; else kill $bound; fi
    heading "Results"
    while read -r name passed failed; do
        printf '  %-42s %4d passed %4d failed\n' "$name" "$passed" "$failed"
        total_passed=$((total_passed + passed))
        total_failed=$((total_failed + failed))
    done <"$results"
    [ "$total_passed" -gt 0 ] || echo "  no test ran"
    echo "  in seconds:$took, together $SECONDS"
    if [ -s "$FLAKY" ]; then
        heading "What failed once and passed alone: $(wc -l <"$FLAKY")"
        cat "$FLAKY"
    fi
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

c_tests() { # those of test_c.sh's PART
    heading "C tests${1:+, $1}"
    PART=${1:-} RESULTS=$results tools/test_c.sh
}

erl_tests() { # those of test_erl.sh's PART
    heading "Erlang tests${1:+, $1}"
    PART=${1:-} RESULTS=$results tools/test_erl.sh
}

has_failed() { awk '$3 > 0 { found = 1 } END { exit !found }' "$1"; } # results

# A script with live tests: if one fails, all of it once more.
live() { # name, script
    local first=$results.first second=$results.second
    : >"$first" >"$second" >"$FAILURES.live"
    RESULTS=$first FAILURES=$FAILURES.live "$2"
    if has_failed "$first"; then
        heading "$1, once more"
        RESULTS=$second FAILURES=$FAILURES.live "$2"
        if has_failed "$second"; then
            cat "$FAILURES.live" >>"$FAILURES"
        else
            awk '$3 > 0 { print "    FLAKY " $1 }' "$first" | tee -a "$FLAKY"
        fi
        first=$second
    fi
    cat "$first" >>"$results"
}

step() { # name, and "joined" where others run meanwhile
    case $1 in
    deps) must deps tools/deps.sh build test ;;
    build) must build "${MAKE:-make}" build ;;
    c)
        c_tests ${2:+beside}
        heading "Dependencies of the folders"
        judge arrows tools/check_arrows.sh
        ;;
    c-alone) c_tests alone ;;
    sim-canaries)
        heading "Does the simulation find mistakes?"
        judge sim-canaries test/sim/prove.sh
        ;;
    tidy)
        heading "The house rules"
        judge tidy tools/tidy.escript
        judge tidy-canaries tools/tidy.escript --prove
        ;;
    exports)
        heading "Exported symbols"
        judge exports tools/check_exports.sh
        ;;
    musl)
        heading "C files against musl's headers"
        judge musl tools/check_musl.sh
        ;;
    threads)
        heading "What the sampler, the signal handler and the callbacks of tracing can call"
        judge threads tools/check_threads.sh
        judge threads-canaries tools/check_threads.sh --prove
        ;;
    erl) erl_tests ${2:+first} ;;
    erl-again) erl_tests again ;;
    viewer)
        heading "The viewer in a browser"
        live viewer tools/test_viewer.sh
        ;;
    mcp)
        heading "An assistant's client on a node"
        live mcp tools/test_mcp.sh
        ;;
    foreign)
        heading "Other people's programs on our files"
        live foreign tools/test_foreign.sh
        ;;
    *)
        echo "tools/test.sh: unknown step $1" >&2
        record "$1" 0 1
        ;;
    esac
}

# Each has files of its own; whatever needs no clock makes room for what has deadlines.
joined() { # step
    results=$out/results.$1 FAILURES=$PWD/$out/failures.$1
    : >"$results" >"$FAILURES"
    case $1 in tidy | c | exports | musl | threads) renice -n 10 $BASHPID >/dev/null ;; esac
    step "$1" joined
}

report_joined() { # what it said, exit status, seconds, step
    cat "$1"
    cat "$out/failures.$4" >>"$FAILURES"
    cat "$out/results.$4" >>"$results"
    [ "$2" = 0 ] || [ -s "$out/results.$4" ] || record "$4" 0 1
    took="$took ($4 $3)"
}

bound_run &
bound=$!
took=
for step in "$@"; do
    [ ! -e "$over" ] || break
    since=$SECONDS
    case $step in *exports* | *threads* | *erl* | *viewer* | *mcp* | *foreign*) step build ;; esac
    case $step in
    *+*)
        # shellcheck disable=SC2086
        pool 3 joined report_joined < <(printf '%s\n' ${step//+/ })
        ;;
    *) step "$step" ;;
    esac
    took="$took $step $((SECONDS - since))"
done
finish
