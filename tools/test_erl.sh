#!/bin/bash
# Compile and run the Erlang tests; append "name passed failed" to $RESULTS.
#
# A test's class is its folder. Those of test/unit (no clock, no chance, no live load) run in one
# VM, in an order of chance that SEED repeats; if that VM dies, the modules that it did not end
# run in one each. Those of test/live (nodes, files, signals, kills) run in a VM each: a NIF that
# crashes one then costs one module. Those of test/proof (figures) run only with
# TEST_CLASS=proof. What runs is limited by TESTS="module ...", by CLASSES=unit or live, and, the
# live modules alone, by LIVE, a file that lists them and cases, or LIVE_BUT, one that lists others.
# *_tests.erl run with EUnit, *_SUITE.erl with Common Test. Twice as many at a time as there are
# processors (TEST_PLACES), as most wait more than they work.
# Modules that need PropEr are skipped, and say so, where it is not installed.
#
# A live test that fails runs once more, alone and in a fresh VM, after all others. A second
# success is printed as `FLAKY name`, appended to $FLAKY, and counts as passed. PART=first leaves
# the second runs to PART=again, in $out/again.
set -u
: "${RESULTS:?}" "${PART:=}" "${CLASSES:=unit live proof}"
export TESTS=${TESTS:-}

# They take longest: begun last they would end alone.
LONG="flame_prof_attach_SUITE flame_prof_release_SUITE flame_prof_mix_SUITE flame_prof_native_SUITE"
# More failed cases than this in one module: all of it runs again, in one VM.
AGAIN_MOST=3
# What the runner's own bound of a module did not end (tools/test_runner.erl).
VM_SECONDS=360
[ "${TEST_CLASS:-}" != proof ] || VM_SECONDS=7300

# shellcheck source=tools/pool.sh
. tools/pool.sh

# Of tests of this script: another folder of tests, and another one for what is made.
sources=${TEST_SOURCES:-test} out=${TEST_OUT:-$PWD/_build/test}
# FLAME_PROF_LIBS: another folder of applications, with another build of the NIF.
lib=${FLAME_PROF_LIBS:-$PWD/_build/default/lib}
# ERL_LIBS, not only -pa: nodes that a test starts inherit it.
export ERL_LIBS=$lib${ERL_LIBS:+:$ERL_LIBS}
export ERL_CRASH_DUMP=$out/erl_crash.dump
erl_test() { # what, arguments...
    local seconds=$VM_SECONDS
    # Many modules, each with its bound.
    [ "$1" != units ] || seconds=1500
    timeout --kill-after=10 "$seconds" erl -noinput \
        -pa "$lib/flame_prof/ebin" "$out/ebin" -s test_runner "$@"
}

# Prints what it compiles; $out/modules has `CLASS KIND MODULE' lines.
prepare() {
    rm -rf "$out/result."* "$out/failed."* "$out/cases."* "$out/again" "$out/unfinished"
    mkdir -p "$out/ebin" "$out/logs"
    { [ "$out/ebin/test_runner.beam" -nt tools/test_runner.erl ] ||
        erlc -o "$out/ebin" tools/test_runner.erl; } &&
        tools/locked.sh "${MAKE:-make}" -f tools/nif.mk hooks &&
        WERROR=${WERROR:-0} erl_test compile "$sources" "$out/ebin" "$out/modules"
}

# What PART=first has made is there for PART=again.
[ "$PART" = again ] || prepare || {
    echo "test_runner 0 1" >>"$RESULTS"
    exit
}

# Logs and crash dumps of their own: Common Test's folders have the second for a name.
run_module() { # class, kind, module...
    local class=$1 kind=$2
    shift 2
    case $kind in
    broken) ;;
    units) ERL_CRASH_DUMP=$out/logs/units.dump erl_test units "$out" "$@" ;;
    *)
        mkdir -p "$out/logs/$1"
        ERL_CRASH_DUMP=$out/logs/$1/erl_crash.dump FAILURES=$out/failed.$1 CASES=$out/cases.$1 \
            erl_test "$kind" "$1" "$out/result.$1" "$out/logs/$1"
        ;;
    esac
}

report() { # what it said, exit status, seconds, class, kind, module...
    local said=$1 status=$2 seconds=$3 class=$4 kind=$5 module
    shift 5
    [ "$kind" = units ] || echo "  $1 ($seconds s)"
    cat "$said"
    for module in "$@"; do
        if [ "$kind" = units ] && [ ! -s "$out/result.$module" ]; then
            echo "$class eunit $module" >>"$out/unfinished"
        else
            report_module "$status" "$class" "$kind" "$module"
        fi
    done
}

report_module() { # exit status, class, kind, module
    local module=$4 passed failed skipped
    read -r passed failed skipped < <(cat "$out/result.$module" 2>/dev/null)
    if [ "$3" = broken ]; then
        echo "    FAIL  $module: it does not compile" | tee -a "$out/failed.$module"
        passed=0 failed=1
    elif [ -z "${passed:-}" ]; then
        echo "    FAIL  $module: the node died (exit status $1)" | tee -a "$out/failed.$module"
        echo '*' >>"$out/cases.$module"
        passed=0 failed=1
    elif [ "$skipped" != 0 ]; then
        echo "    $module: $skipped skipped"
    fi
    if [ "$failed" != 0 ] && [ "$2" = live ]; then
        echo "$3 $module $passed $failed" >>"$out/again"
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
    CASE=${3:-} GROUP=${4:-} run_module live "$1" "$2" </dev/null
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
        passes_now "$kind" "$module" && flaky "$module" "$out/failed_first.$module" &&
            read -r passed failed _ <"$out/result.$module"
    else
        for name in "${cases[@]}"; do
            read -r name group <<<"$name"
            echo "  $module: $name once more, alone"
            passes_now "$kind" "$module" "$name" "$group" &&
                flaky "$module: $name" "$out/failed_first.$module" &&
                passed=$((passed + 1)) failed=$((failed - 1))
        done
    fi
    mv "$out/failed_first.$module" "$out/failed.$module"
    [ "$failed" -gt 0 ] || rm "$out/failed.$module"
    count "$module" "$passed" "$failed"
}

# With the beginning of what its first run said: a log of CI may have nothing else of it.
flaky() { # name, file of failures
    local why
    why=$(grep -A 12 -F "${1#*: }" "$2" | tr -s ' \n' ' ' | cut -c 1-400)
    echo "    FLAKY $1 (first: $why)" | tee -a "${FLAKY:-/dev/null}"
}

# One job for all units, the first one: it has no second run, and all others fill the gaps.
jobs() {
    local units classes=${CLASSES// /|}
    units=$(sed -n 's/^unit eunit //p' "$out/modules" | tr '\n' ' ')
    case " $CLASSES " in *" unit "*) [ -z "$units" ] || echo "unit units $units" ;; esac
    grep -E "^(broken|$classes) " "$out/modules" | grep -v '^unit ' |
        awk -v long=" $LONG " '{ print (index(long, " " $3 " ") ? 0 : 1), $0 }' |
        sort -s -n -k 1,1 | cut -d ' ' -f 2-
}

: >"$out/counts"
if [ "$PART" != again ]; then
    jobs | pool "$(places 2)" run_module report
    if [ -s "$out/unfinished" ]; then
        echo "  the VM of the units ended; what it did not, in a VM each:"
        pool "$(places 2)" run_module report <"$out/unfinished"
    fi
fi
if [ "$PART" != first ] && [ -s "$out/again" ]; then
    while read -r -u 4 -a words; do run_again "${words[@]}"; done 4<"$out/again"
    rm "$out/again"
fi
sort "$out/counts" >>"$RESULTS"
