#!/bin/bash
# Does each C file compile against musl's headers, without a warning? glibc's include more of each
# other than they must: what is missing here breaks the build on Alpine. tools/portability/musl.sh
# links and runs it. Skipped, and said so, where there is no musl-gcc.
set -u
cd "$(dirname "$0")/.." || exit 1
. tools/pool.sh

command -v musl-gcc >/dev/null || { echo "  skipped: musl-gcc is not installed" && exit 0; }
headers=$(mktemp -d) # of libraries and of the kernel: musl-gcc has its own only
trap 'rm -rf "$headers"' EXIT
for name in uv uv.h zstd.h zstd_errors.h zlib.h zconf.h linux asm-generic; do
    [ ! -e "/usr/include/$name" ] || ln -s "/usr/include/$name" "$headers/$name"
done
for name in asm zconf.h; do
    [ ! -e "/usr/include/$(gcc -print-multiarch)/$name" ] ||
        ln -sf "/usr/include/$(gcc -print-multiarch)/$name" "$headers/$name"
done
erts=$(erl -noshell -eval 'io:format("~ts/usr/include", [code:root_dir()]), halt().')

compiles() {
    musl-gcc -D_GNU_SOURCE= -Ic_src -idirafter "$erts" -idirafter "$headers" -std=c11 -O1 -fPIC \
        -fsyntax-only -Wall -Wextra -Wno-missing-field-initializers -Werror "$1"
}

wrong=0 files=0
report() { # file, status, seconds, name
    files=$((files + 1))
    [ "$2" -eq 0 ] && return
    wrong=$((wrong + 1))
    cat "$1"
}

pool "$(places)" compiles report < <(find c_src -name '*.c' | sort)
[ "$wrong" -eq 0 ] && [ "$files" -gt 0 ] || exit 1
echo "  ok    $files C files compile against musl"
