#!/bin/bash
# The whole library under AddressSanitizer and UBSan, inside of a real VM.
#
#   tools/asan.sh           build it, work, work again while leaks are looked for
#   tools/asan.sh --prove   does this find anything? three libraries with one bug each
#
# SECONDS_ (15): of the storms. ASAN_TESTS: modules of test/ that run as well.
# What a sanitizer says is printed, and makes the exit status 1; so does a failed
# test or work that does not end. The library and its folder are _build/asan/lib's;
# priv/ is left alone.
#
# The VM itself is not instrumented: the runtime comes by LD_PRELOAD. With `+Mea min'
# all that it allocates is malloc's, so that blocks of the VM which we are given or
# ask for (terms, binaries, resources) have red zones, too.
set -u
cd "$(dirname "$0")/.." || exit 1
: "${SECONDS_:=15}"
: "${ASAN_TESTS=flame_prof_triggers_SUITE flame_prof_profile_tests flame_prof_samples_tests
    flame_prof_pstack_tests flame_prof_perf_map_tests flame_prof_selector_tests}"

out=$PWD/_build/asan
libs=$out/lib
sanitize="-fsanitize=address,undefined -fno-sanitize-recover=undefined"
runtime=$(gcc -print-file-name=libasan.so)
[ -e "$runtime" ] || { echo "  gcc has no libasan.so" >&2 && exit 1; }

build() { # folder of applications
    mkdir -p "$1/flame_prof/priv"
    ln -sfn "$PWD/_build/default/lib/flame_prof/ebin" "$1/flame_prof/ebin"
    ln -sfn "$PWD/priv/www" "$1/flame_prof/priv/www"
    tools/locked.sh "${MAKE:-make}" -j2 -f tools/nif.mk PRIV="$1/flame_prof/priv" \
        CC=gcc BUILD=_build/asan/c OPTIMIZE="-O1 -g -fno-omit-frame-pointer $sanitize" \
        WARNINGS=-w HARDEN= STRIP= LDFLAGS="$sanitize"
}

# The VM's signals are its own: SIGSEGV is how it grows and protects things, and
# each of its threads has an alternate stack of a size that we check.
options=use_sigaltstack=0:handle_segv=0:handle_abort=0:allow_user_segv_handler=1
options=$options:strict_string_checks=1

under_asan() { # options, command...: with the runtime in each program that it starts
    local given=$1
    shift
    env LD_PRELOAD="$runtime" UBSAN_OPTIONS=print_stacktrace=1 \
        ASAN_OPTIONS="$options:log_path=$out/log/report:$given" \
        setarch "$(uname -m)" -R "$@"
}

# Leaks are looked for when a program exits, and the VM has its own. Ours have a
# frame in our library; slow unwinding finds it below the VM's functions, which
# have no frame pointers. A library that was unloaded has no name any more.
ours() { # report: what in it is ours
    awk -v RS= '/flame_prof_(report_)?nif\.so|unknown module/ || !/leak of|SUMMARY|LeakSanitizer/' "$1" |
        grep -v '^=*$'
}

reports() { # 0 when there is nothing to report
    local report text wrong=0
    # UBSan ends the VM, and says why where the VM says things.
    grep -s -A 20 "runtime error:" "$out/said" && wrong=1
    for report in "$out"/log/report.*; do
        [ -e "$report" ] || continue
        text=$(ours "$report")
        [ -z "$text" ] || { wrong=1 && printf '%s\n' "$text" | head -n 80; }
    done
    return $wrong
}

fresh() { rm -rf "$out/log" "$out/work" && mkdir -p "$out/log" "$out/work" "$out/ebin"; }

drive() { # folder of applications, seconds: the work of test/support/sanitized.erl
    ERL_LIBS=$1 ERL_CRASH_DUMP=$out/erl_crash.dump \
        under_asan detect_leaks=1:fast_unwind_on_malloc=0 \
        timeout $((10 * $2 + 300)) erl +Mea min -noinput -pa "$out/ebin" \
        -s sanitized main "$2" "$out/work" test/corpus >"$out/said" 2>&1
}

check() {
    local wrong=0 failed
    echo "  the storms, looks, files and reloads, then leaks"
    fresh && drive "$libs" "$SECONDS_"
    # 1 and 23 are the leaks of the VM, of which `reports' speaks.
    grep -q '^  3 rounds$' "$out/said" || { wrong=1 && cat "$out/said"; }
    reports || wrong=1
    [ -n "$ASAN_TESTS" ] || return $wrong
    fresh
    : >"$out/results"
    FLAME_PROF_LIBS=$libs TESTS="$ASAN_TESTS" RESULTS=$out/results \
        under_asan detect_leaks=0 tools/test_erl.sh
    awk '{ passed += $2; failed += $3 } END { print "  " passed + 0 " passed, " failed + 0 " failed"
        exit !(passed > 0 && failed == 0) }' "$out/results" || wrong=1
    reports || wrong=1
    return $wrong
}

# ------------------------------------------------------------- the proof --
prove_one() { # statement, what is said of it
    local name=flame_prof/priv/flame_prof_report_nif.so
    cp -r c_src "$out/proof/" && mkdir -p "$out/proof/lib" &&
        awk -v wrong="{ $1 }" '{ print } /map = fp_fields_map/ { print wrong }' \
            c_src/report_nif/profile_nif.c >"$out/proof/c_src/report_nif/profile_nif.c" &&
        cp -rP "$libs/." "$out/proof/lib" && rm "$out/proof/lib/$name" &&
        # shellcheck disable=SC2046,SC2086
        gcc -std=c11 -fPIC -w -O1 -g -fno-omit-frame-pointer $sanitize -D_GNU_SOURCE= \
            -I"$out/proof/c_src" -isystem "$(tools/otp_facts.sh | cut -d ' ' -f 2)" -c \
            -o "$out/proof/wrong.o" "$out/proof/c_src/report_nif/profile_nif.c" &&
        # shellcheck disable=SC2046,SC2086
        gcc -shared -pthread $sanitize -Wl,-Bsymbolic -Wl,--version-script=tools/nif.map \
            -o "$out/proof/lib/$name" "$out/proof/wrong.o" \
            $(find _build/asan/c/report_nif -name '*.o' ! -name 'profile_nif.o') \
            _build/asan/c/members.a $(cat _build/asan/c/libs.report) || return
    fresh && drive "$out/proof/lib" 3
    reports >"$out/found" && echo "  wrong  nothing is said of $1" >&2 && return 1
    grep -q "$2" "$out/found" && return
    echo "  wrong  of $1 is said:" >&2 && head -n 20 "$out/found" >&2
    return 1
}

prove() {
    local wrong=0
    rm -rf "$out/proof" && mkdir -p "$out/proof"
    prove_one 'static void *volatile p; p = enif_alloc(77); p = NULL;' 'leak of' || wrong=1
    prove_one 'volatile size_t n = 25; char *p = enif_alloc(24); memset(p, 0, n); enif_free(p);' \
        'heap-buffer-overflow' || wrong=1
    prove_one 'volatile int n = 40; n = 1 << n;' 'shift exponent' || wrong=1
    [ $wrong = 0 ] && echo "  ok    a leak, an overrun and a shift are found in the VM"
    return $wrong
}

build "$libs" >"$out.build" 2>&1 || { cat "$out.build" && exit 1; }
fresh && erlc -o "$out/ebin" test/soak/storm*.erl test/support/sanitized.erl || exit 1
case ${1:-} in
--prove) prove ;;
'') check && echo "  ok    no report of the library in a VM" ;;
*) echo "tools/asan.sh [--prove]" >&2 && exit 2 ;;
esac
