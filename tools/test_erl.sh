#!/bin/bash
# Compile and run the Erlang tests; append "name passed failed" to $RESULTS.
#
# test/**/*_tests.erl run with EUnit, test/**/*_SUITE.erl with Common Test, each
# module in a node of its own: a NIF that crashes the VM then costs one module.
# Modules that need PropEr are skipped, and say so, where it is not installed.
set -u
# TEST_TIMEOUT ends what hangs; a slow machine is given its time.
: "${RESULTS:?}" "${TEST_TIMEOUT:=3600}"

out=$PWD/_build/test
# FLAME_PROF_LIBS: another folder of applications, with another build of the NIF.
lib=${FLAME_PROF_LIBS:-$PWD/_build/default/lib}
rm -rf "$out/ebin" "$out/result."*
mkdir -p "$out/ebin" "$out/logs"

erlc -o "$out/ebin" tools/test_runner.erl || {
    echo "test_runner 0 1" >>"$RESULTS"
    exit
}

tools/locked.sh "${MAKE:-make}" -f tools/nif.mk hooks || {
    echo "hooks 0 1" >>"$RESULTS"
    exit
}

# ERL_LIBS, not only -pa: nodes that a test starts inherit it.
export ERL_LIBS=$lib${ERL_LIBS:+:$ERL_LIBS}
export ERL_CRASH_DUMP=$out/erl_crash.dump
erl_test() {
    timeout --kill-after=10 "$TEST_TIMEOUT" erl -noinput \
        -pa "$lib/flame_prof/ebin" "$out/ebin" -s test_runner "$@"
}

# Prints "eunit|ct|broken MODULE" for each, helpers compiled on the way.
WERROR=${WERROR:-0} erl_test compile test "$out/ebin" "$out/modules" || {
    echo "test_runner 0 1" >>"$RESULTS"
    exit
}

while read -r kind module; do
    if [ -n "${TESTS:-}" ]; then
        case " $TESTS " in *" $module "*) ;; *) continue ;; esac
    fi
    echo "  $module"
    if [ "$kind" = broken ]; then
        echo "$module 0 1" >>"$RESULTS"
        continue
    fi
    result=$out/result.$module
    erl_test "$kind" "$module" "$result" "$out/logs" </dev/null
    status=$?
    read -r passed failed skipped < <(cat "$result" 2>/dev/null)
    if [ -z "${passed:-}" ]; then
        echo "    FAIL  $module: the node died (exit status $status)" |
            tee -a "${FAILURES:-/dev/null}"
        passed=0 failed=1
    elif [ "$skipped" != 0 ]; then
        echo "    $skipped skipped"
    fi
    echo "$module $passed $failed" >>"$RESULTS"
    unset passed failed skipped
done <"$out/modules"
