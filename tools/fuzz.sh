#!/bin/bash
# Fuzz the reader under ASan and UBSan for FUZZ_SECONDS (60), on from
# test/corpus and from what earlier runs found (_build/fuzz/corpus).
#
# Needs clang with libFuzzer; says so and ends with 3 where there is none. Ends
# with 1 when an input failed: it is in _build/fuzz then.
set -u
cd "$(dirname "$0")/.." || exit 1
: "${FUZZ_SECONDS:=60}" "${CLANG:=clang}" "${PKG_CONFIG:=pkg-config}"
out=_build/fuzz
mkdir -p "$out/corpus"

echo 'int LLVMFuzzerTestOneInput(const unsigned char *b, unsigned long n)
{ (void)b; return n == 1; }' >"$out/probe.c"
if ! "$CLANG" -fsanitize=fuzzer "$out/probe.c" -o "$out/probe" 2>/dev/null; then
    echo "  there is no clang with libFuzzer (Debian: clang libclang-rt-dev)"
    exit 3
fi

# shellcheck disable=SC2046
"$CLANG" -std=c11 -O1 -g -fno-omit-frame-pointer -D_GNU_SOURCE= -Ic_src \
    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
    -Wall -Wextra -o "$out/fuzz_read" test/fuzz/fuzz_read.c c_src/read/*.c \
    c_src/out/encode.c c_src/out/buffer.c c_src/core/error.c \
    c_src/core/pages.c c_src/core/pool.c \
    $($PKG_CONFIG --libs libzstd zlib 2>/dev/null || echo -lzstd -lz) || exit 1

# Sanitizers of 2022 need their addresses where they look for them.
no_aslr=
setarch "$(uname -m)" -R true 2>/dev/null && no_aslr="setarch $(uname -m) -R"

# shellcheck disable=SC2086
$no_aslr "$out/fuzz_read" -max_total_time="$FUZZ_SECONDS" -timeout=20 \
    -max_len=65536 -dict=test/fuzz/read.dict -artifact_prefix="$out/" \
    -print_final_stats=1 "$out/corpus" test/corpus >"$out/log" 2>&1
status=$?
if [ $status -ne 0 ]; then
    tail -n 60 "$out/log"
    exit 1
fi
echo "  ok    $(sed -nE 's/^stat::number_of_executed_units: *//p' "$out/log") inputs in $FUZZ_SECONDS s"
