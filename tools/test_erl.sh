#!/bin/bash
# Compile and run the Erlang tests; append "name passed failed" to $RESULTS.
#
# test/**/*_tests.erl run with EUnit, test/**/*_SUITE.erl with Common Test, each
# module in a node of its own: a NIF that crashes the VM then costs one module.
# Twice as many at a time as there are processors (TEST_PLACES), as most wait more than
# they work; then those of ALONE. PART=beside leaves these out, PART=alone runs no others.
# Modules that need PropEr are skipped, and say so, where it is not installed.
#
# A live test (of the folder live) that fails runs once more, alone and in a fresh
# VM, after all others. A second success is printed as `FLAKY name`, appended to $FLAKY, and
# counts as passed. PART=beside leaves the second runs to PART=alone, in $out/again.
set -u
# TEST_TIMEOUT ends what hangs; a slow machine is given its time.
: "${RESULTS:?}" "${PART:=}" "${TEST_TIMEOUT:=3600}"

# They need probes that are in time: after the others, one at a time.
ALONE="flame_prof_messages_SUITE flame_prof_waits_native_SUITE flame_prof_waits_SUITE"
# They take minutes: begun last they would end alone.
LONG="flame_prof_attach_SUITE flame_prof_native_SUITE flame_prof_triggers_SUITE flame_prof_cli_SUITE"
# More failed cases than this in one module: all of it runs again, in one VM.
AGAIN_MOST=3

# shellcheck source=tools/pool.sh
. tools/pool.sh

# Of tests of this script: another folder of tests, and another one for what is made.
sources=${TEST_SOURCES:-test} out=${TEST_OUT:-$PWD/_build/test}
# FLAME_PROF_LIBS: another folder of applications, with another build of the NIF.
lib=${FLAME_PROF_LIBS:-$PWD/_build/default/lib}
# ERL_LIBS, not only -pa: nodes that a test starts inherit it.
export ERL_LIBS=$lib${ERL_LIBS:+:$ERL_LIBS}
export ERL_CRASH_DUMP=$out/erl_crash.dump
erl_test() {
    timeout --kill-after=10 "$TEST_TIMEOUT" erl -noinput \
        -pa "$lib/flame_prof/ebin" "$out/ebin" -s test_runner "$@"
}

# Prints "eunit|ct|broken MODULE" for each, helpers compiled on the way.
prepare() {
    rm -rf "$out/ebin" "$out/result."* "$out/failed."* "$out/cases."* "$out/again"
    mkdir -p "$out/ebin" "$out/logs"
    erlc -o "$out/ebin" tools/test_runner.erl &&
        tools/locked.sh "${MAKE:-make}" -f tools/nif.mk hooks &&
        WERROR=${WERROR:-0} erl_test compile "$sources" "$out/ebin" "$out/modules"
}

# What PART=beside has made is there for PART=alone.
[ "$PART" = alone ] || prepare || {
    echo "test_runner 0 1" >>"$RESULTS"
    exit
}

wanted() { # "kind module" lines: those of TESTS
    local kind module
    while read -r kind module; do
        case " ${TESTS:-$module} " in *" $module "*) echo "$kind $module" ;; esac
    done
}

# Logs and crash dumps of their own: Common Test's folders have the second for a name.
run_module() { # kind, module
    [ "$1" != broken ] || return 0
    mkdir -p "$out/logs/$2"
    ERL_CRASH_DUMP=$out/logs/$2/erl_crash.dump FAILURES=$out/failed.$2 CASES=$out/cases.$2 \
        erl_test "$1" "$2" "$out/result.$2" "$out/logs/$2"
}

is_live() { # module
    [ -n "$(find "$sources" -path "*/live/$1.erl" -print -quit)" ]
}

told() { # what it said, exit status, seconds, kind, module
    local module=$5 passed failed skipped
    echo "  $module ($3 s)"
    cat "$1"
    read -r passed failed skipped < <(cat "$out/result.$module" 2>/dev/null)
    if [ "$4" = broken ]; then
        echo "    FAIL  $module: it does not compile" | tee -a "$out/failed.$module"
        passed=0 failed=1
    elif [ -z "${passed:-}" ]; then
        echo "    FAIL  $module: the node died (exit status $2)" | tee -a "$out/failed.$module"
        echo '*' >>"$out/cases.$module"
        passed=0 failed=1
    elif [ "$skipped" != 0 ]; then
        echo "    $skipped skipped"
    fi
    if [ "$failed" != 0 ] && is_live "$module"; then
        echo "$4 $module $passed $failed" >>"$out/again"
    else
        count "$module" "$passed" "$failed"
    fi
}

count() { # module, passed, failed
    cat "$out/failed.$1" >>"${FAILURES:-/dev/null}" 2>/dev/null
    echo "$1 $2 $3" >>"$out/counts"
}

# One second run: all of a module, or one case of a suite. Does it pass?
passes_now() { # kind, module, case, group
    local passed failed skipped
    rm -f "$out/result.$2" "$out/failed.$2"
    CASE=${3:-} GROUP=${4:-} run_module "$1" "$2" </dev/null
    read -r passed failed skipped < <(cat "$out/result.$2" 2>/dev/null)
    [ "${passed:-0}" -gt 0 ] && [ "$failed" -eq 0 ]
}

run_again() { # kind, module, passed, failed
    local kind=$1 module=$2 passed=$3 failed=$4 name group
    local -a cases
    mapfile -t cases < <(sort -u "$out/cases.$module")
    mv "$out/failed.$module" "$out/failed_first.$module"
    if [ "$kind" != ct ] || [ ${#cases[@]} -eq 0 ] || [ ${#cases[@]} -gt $AGAIN_MOST ] ||
        printf '%s\n' "${cases[@]}" | grep -qxF '*'; then
        echo "  $module: once more, alone"
        passes_now "$kind" "$module" && flaky "$module" &&
            read -r passed failed _ <"$out/result.$module"
    else
        for name in "${cases[@]}"; do
            read -r name group <<<"$name"
            echo "  $module: $name once more, alone"
            passes_now "$kind" "$module" "$name" "$group" && flaky "$module: $name" &&
                passed=$((passed + 1)) failed=$((failed - 1))
        done
    fi
    mv "$out/failed_first.$module" "$out/failed.$module"
    [ "$failed" -gt 0 ] || rm "$out/failed.$module"
    count "$module" "$passed" "$failed"
}

flaky() { # name
    echo "    FLAKY $1" | tee -a "${FLAKY:-/dev/null}"
}

: >"$out/counts"
alone=$(printf '%s\n' $ALONE)
first=$(printf '%s\n' $LONG)
[ "$PART" = alone ] || {
    wanted <"$out/modules" | grep -wF "$first"
    wanted <"$out/modules" | grep -vwF "$first"
} | grep -vwF "$alone" | pool "$(places 2)" run_module told
[ "$PART" = beside ] ||
    wanted <"$out/modules" | grep -wF "$alone" | pool 1 run_module told
if [ "$PART" != beside ] && [ -s "$out/again" ]; then
    while read -r -u 4 -a words; do run_again "${words[@]}"; done 4<"$out/again"
    rm "$out/again"
fi
sort "$out/counts" >>"$RESULTS"
