#!/bin/bash
# Fuzz all targets of test/fuzz under ASan and UBSan, or TARGET alone, each for
# FUZZ_SECONDS (60); with FUZZ_TOTAL, for so many seconds together. As many at a
# time as there are processors. On from test/corpus/TARGET and from what earlier
# runs found (_build/fuzz/corpus/TARGET).
#
#   tools/fuzz.sh            fuzz
#   tools/fuzz.sh minimize   ... then put into test/corpus what is small and reaches
#                            code that nothing else there does
#
# Needs clang with libFuzzer; says so and ends with 3 where there is none. Ends
# with 1 when an input failed: it is in _build/fuzz then. To run it once more:
# _build/fuzz/bin/fuzz_TARGET FILE
set -u
cd "$(dirname "$0")/.." || exit 1
: "${FUZZ_SECONDS:=60}" "${CLANG:=clang}" "${TARGET:=}" "${FUZZ_TOTAL:=}"
out=_build/fuzz
mkdir -p "$out/corpus" "$out/bin"

echo 'int LLVMFuzzerTestOneInput(const unsigned char *b, unsigned long n)
{ (void)b; return n == 1; }' >"$out/probe.c"
if ! "$CLANG" -fsanitize=fuzzer "$out/probe.c" -o "$out/probe" 2>/dev/null; then
    echo "  there is no clang with libFuzzer (Debian: clang libclang-rt-dev)"
    exit 3
fi

targets=$(sed -nE 's/^    X\(([a-z_]+)\).*/\1/p' test/fuzz/fuzz.h)
if [ -n "$TARGET" ]; then
    if ! grep -qx "$TARGET" <<<"$targets"; then
        echo "  TARGET=$TARGET is none; there are" $targets
        exit 1
    fi
    targets=$TARGET
fi

cores=$(nproc)
LOCK=ctest.fuzz tools/locked.sh "${MAKE:-make}" -j"$cores" -f tools/test_c.mk VARIANT=fuzz \
    CC="$CLANG" fuzz SANITIZE="-fsanitize=fuzzer-no-link,address,undefined \
    -fno-sanitize-recover=all" || exit 1

# Sanitizers of 2022 need their addresses where they look for them.
no_aslr=
setarch "$(uname -m)" -R true 2>/dev/null && no_aslr="setarch $(uname -m) -R"
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1}

# A test begins alike each time; a fuzzer somewhere else.
seconds=$FUZZ_SECONDS seed=
if [ -n "$FUZZ_TOTAL" ]; then
    seed=-seed=1
    seconds=$((FUZZ_TOTAL * cores / $(wc -w <<<"$targets")))
    [ "$seconds" -gt 0 ] || seconds=1
fi

# The reader has files of more tests in test/corpus itself.
corpus_of() { # target
    mkdir -p "$out/corpus/$1" "test/corpus/$1"
    ln -sf "$PWD/_build/ctest/fuzz/fuzz" "$out/bin/fuzz_$1"
    if [ "$1" = read ]; then
        mkdir -p "$out/files"
        find test/corpus -maxdepth 1 -type f -exec cp {} "$out/files" \;
        echo "$out/corpus/$1 test/corpus/$1 $out/files"
    else
        echo "$out/corpus/$1 test/corpus/$1"
    fi
}

fuzz() { # target
    local most=8192 dict=
    [ "$1" = read ] && most=65536
    [ -e "test/fuzz/$1.dict" ] && dict="-dict=test/fuzz/$1.dict"
    # shellcheck disable=SC2046,SC2086
    $no_aslr "$out/bin/fuzz_$1" -max_total_time="$seconds" -timeout=300 $seed \
        -max_len=$most $dict -artifact_prefix="$out/$1." -print_final_stats=1 \
        $(corpus_of "$1") >"$out/$1.log" 2>&1 && return
    touch "$out/failed"
    tail -n 60 "$out/$1.log"
}

said() { # target
    local log=$out/$1.log
    printf '  ok    %-10s %9s inputs, %5s edges\n' "$1" \
        "$(sed -nE 's/^stat::number_of_executed_units: *//p' "$log")" \
        "$(sed -nE 's/.* cov: ([0-9]+) .*/\1/p' "$log" | tail -n 1)"
}

# Files with names of their own stay: seeds, and what failed once. Of what the
# fuzzer found beside these, what reaches other code (not: as often), the
# smallest first, up to FOUND_BYTES and FOUND_FILES.
FOUND_BYTES=8192 FOUND_FILES=24
found_in() { # folder: the files named by their hash, the smallest first
    find "$1" -type f -printf '%s %p\n' | grep -E '/[0-9a-f]{40}$' | sort -n
}

minimize() { # target
    local new=$out/new/$1 size file bytes=0 files=0
    rm -rf "$new" && mkdir -p "$out/new" && cp -r "test/corpus/$1" "$new"
    found_in "$new" | cut -d ' ' -f 2- | xargs -r rm
    # shellcheck disable=SC2046
    $no_aslr "$out/bin/fuzz_$1" -merge=1 -use_counters=0 -artifact_prefix="$out/$1." "$new" \
        $(corpus_of "$1") >"$out/$1.merge.log" 2>&1 || return 1
    while read -r size file; do
        bytes=$((bytes + size)) files=$((files + 1))
        [ $bytes -le $FOUND_BYTES ] && [ $files -le $FOUND_FILES ] || rm "$file"
    done < <(found_in "$new")
    rm -rf "test/corpus/$1" && mv "$new" "test/corpus/$1"
}

rm -f "$out/failed"
running=0
for target in $targets; do
    fuzz "$target" &
    running=$((running + 1))
    if [ "$running" -ge "$cores" ]; then
        wait -n
        running=$((running - 1))
    fi
done
wait
[ -e "$out/failed" ] && exit 1
for target in $targets; do
    said "$target"
    if [ "${1:-}" = minimize ]; then minimize "$target" || exit 1; fi
done
exit 0
