#!/bin/bash
# Build and run the C tests; append "name passed failed" to $RESULTS.
#
# Each test/c/test_*.c, and the simulation (test/sim), runs on the objects that the libraries in
# priv/ are linked from: what is tested is what ships. With SANITIZERS=asan they run under ASan and
# UBSan instead; with tsan those of TSAN_TESTS, in which two threads share memory, under TSan;
# "asan tsan" is both.
# A program speaks TAP (test/c/run.h
# does), or ends with `N passed, N failed`; otherwise it is one test, by its exit
# status. A crash or a sanitizer's complaint is a failed test.
set -u
: "${RESULTS:?}" "${SANITIZERS:=}" "${TSAN_TESTS:=test_ring test_events test_triple_buffer test_histogram test_writer test_session test_sigcapture test_live test_tracer test_latency test_turns test_collections}"

if ! ls test/c/test_*.c >/dev/null 2>&1; then
    echo "  there are no C tests"
    exit
fi

sanitizes() { # compiler, flag: does a program so built run?
    command -v "$1" >/dev/null || return 1
    echo 'int main(void) { return 0; }' >"$tmp/probe.c"
    "$1" "$2" -pthread -o "$tmp/probe" "$tmp/probe.c" 2>/dev/null &&
        $no_aslr "$tmp/probe" 2>/dev/null
}

pick() { # flag: the first compiler that has this sanitizer
    local cc
    for cc in ${TEST_CC:-clang gcc}; do
        sanitizes "$cc" "$1" && echo "$cc" && return
    done
}

# They judge what this machine does while others leave it alone: after the others. One that
# fails runs once more; a second success is appended to $FLAKY and counts as passed.
ALONE="test_live test_sigcapture"

# shellcheck source=tools/pool.sh
. tools/pool.sh

tmp=$(mktemp -d)
: >"$tmp/programs" >"$tmp/counts"
trap 'rm -rf "$tmp"' EXIT

# Sanitizers of 2022 lose their shadow memory to a kernel with 32 bits of mmap
# randomness; without randomness they do not.
no_aslr=
setarch "$(uname -m)" -R true 2>/dev/null && no_aslr="setarch $(uname -m) -R"

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1}

run_program() { # label, program
    timeout "${TEST_TIMEOUT:-300}" $no_aslr "$2"
}

report_alone() { # the same as report
    local second=$1.second
    if [ "$2" -ne 0 ]; then
        run_program "$4" "$5" >"$second" 2>&1
        set -- "$second" $? "$3" "$4" "$5" "$1"
        [ "$2" -ne 0 ] || {
            sed 's/^/    | /' "$6"
            echo "    FLAKY $4" | tee -a "${FLAKY:-/dev/null}"
        }
    fi
    report "$@"
}

report() { # log, exit status, seconds, label, program
    local log=$1 status=$2 label=$4 passed failed planned
    cp "$log" "$5.log"
    echo "  $label ($3 s)"
    passed=$(grep -c '^ok ' "$log")
    failed=$(grep -c '^not ok ' "$log")
    planned=$(sed -nE 's/^1\.\.([0-9]+)$/\1/p' "$log" | tail -n 1)
    if [ $((passed + failed)) -eq 0 ]; then
        read -r passed failed < <(sed -nE \
            's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$log" | tail -1)
        if [ -z "${passed:-}" ]; then
            passed=$((status == 0)) failed=0
        fi
    fi
    # Died, or left before the last test, without saying so.
    if [ "$failed" -eq 0 ] && { [ $status -ne 0 ] ||
        { [ -n "$planned" ] && [ "$planned" -ne "$passed" ]; }; }; then
        failed=1
    fi
    if [ "$failed" -ne 0 ]; then
        sed 's/^/    | /' "$log"
        [ $status -eq 124 ] && echo "    | (timed out)"
        echo "    | (exit status $status)"
        { echo "    FAIL  $label (exit status $status)" &&
            tail -n 40 "$log" | sed 's/^/      /'; } >>"${FAILURES:-/dev/null}"
    fi
    echo "$label $passed $failed" >>"$tmp/counts"
}

build_programs() { # test name...
    LOCK=ctest.$variant tools/locked.sh "${MAKE:-make}" -k -j"$(places)" \
        -f tools/test_c.mk VARIANT="$variant" CC="$cc" SANITIZE="$flags" PRODUCT="$product" \
        ONLY="$*" programs
}

# What is to be run: "label program" lines in $tmp/programs.
build_variant() { # variant, compiler, sanitizer flags, test name...
    local variant=$1 cc=$2 flags=$3 name all_built=0
    shift 3
    build_programs "$@" && all_built=1
    for name in "$@"; do
        # One test that does not compile must not hide the others.
        if [ $all_built = 1 ] || build_programs "$name" >/dev/null 2>&1; then
            echo "$name.$variant _build/ctest/$variant/$name" >>"$tmp/programs"
        else
            echo "  $name.$variant does not compile" | tee -a "${FAILURES:-/dev/null}"
            echo "$name.$variant 0 1" >>"$tmp/counts"
        fi
    done
}

names=$(for test in test/c/test_*.c test/sim/sim.c; do printf '%s ' "$(basename "$test" .c)"; done)
if [ -n "${C_TESTS:-}" ]; then names=$C_TESTS; fi
if [ "$PART" = alone ]; then names=$ALONE; fi

product=
if [ -z "$SANITIZERS" ]; then
    # shellcheck disable=SC2046,SC2086
    product=$(cat _build/c/linked) && build_variant product "${CC:-gcc}" "" $names
    product=
fi

case $SANITIZERS in *asan*)
    cc=$(pick -fsanitize=address,undefined)
    if [ -z "$cc" ]; then
        echo "  neither clang nor gcc has a working AddressSanitizer" >&2
        echo "asan 0 1" >>"$RESULTS"
    else
        # shellcheck disable=SC2086
        build_variant asan "$cc" \
            "-fsanitize=address,undefined -fno-sanitize-recover=all" $names
    fi
    ;;
esac

shared=
for name in $TSAN_TESTS; do
    case $SANITIZERS in *tsan*) ;; *) continue ;; esac
    case " $names " in *" $name "*) shared="$shared $name" ;; esac
done
if [ -n "$shared" ]; then
    cc=$(pick -fsanitize=thread)
    if [ -z "$cc" ]; then
        echo "  neither clang nor gcc has a working ThreadSanitizer" >&2
        echo "tsan 0 1" >>"$RESULTS"
    else
        # shellcheck disable=SC2086
        build_variant tsan "$cc" -fsanitize=thread $shared
    fi
fi

alone=$(printf '%s\n' $ALONE)
grep -vwF "$alone" "$tmp/programs" | pool "$(places)" run_program report
[ "$PART" = beside ] || grep -wF "$alone" "$tmp/programs" | pool 1 run_program report_alone
sort "$tmp/counts" >>"$RESULTS"
