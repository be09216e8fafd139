#!/bin/bash
# Clang's static analyzer and cppcheck over all of c_src. The exit status is 1 when
# either has found anything, or did not run to its end.
#
# What is known better is said where it is: FP_KNOWN (c_src/base/assume.h) for the
# analyzer, a `cppcheck-suppress' with the reason behind it for cppcheck.
set -u
cd "$(dirname "$0")/.." || exit 1
out=_build/analyze
rm -rf "$out" && mkdir -p "$out" || exit 1
include=$(tools/otp_facts.sh | cut -d ' ' -f 2)
wrong=0

# shellcheck disable=SC2016
find c_src -name '*.c' | sort | xargs -P "$(nproc)" -I {} sh -c '
    log=$1/$(echo "$2" | tr / _).log
    clang --analyze -Xclang -analyzer-output=text -Xclang -analyzer-werror -std=c11 \
        -D_GNU_SOURCE= -Ic_src -isystem "$3" -o /dev/null "$2" >"$log" 2>&1' - "$out" {} "$include" || wrong=1
cat "$out"/*.log >"$out/clang"
[ -s "$out/clang" ] && wrong=1 && cat "$out/clang"
files=$(find "$out" -name '*.c.log' | wc -l)

# Its opinions of style are not asked for: clang-format and -Wall have theirs.
cppcheck --quiet --std=c11 --enable=warning,portability,performance --inline-suppr \
    --error-exitcode=1 -j "$(nproc)" -D_GNU_SOURCE= -D__x86_64__ -D__SIZEOF_POINTER__=8 \
    --suppress=missingIncludeSystem -Ic_src c_src >"$out/cppcheck" 2>&1 || wrong=1
cat "$out/cppcheck"

[ "$wrong" = 0 ] || { echo "tools/analyze.sh: there are findings" >&2 && exit 1; }
echo "  ok    $files files: clang's analyzer and cppcheck find nothing"
