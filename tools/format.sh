#!/bin/bash
# clang-format over all C files: -i changes them, --dry-run lists what it would
# change and fails when there is something.
set -eu
: "${CLANG_FORMAT:=clang-format}"
command -v "$CLANG_FORMAT" >/dev/null || {
    echo "clang-format is missing (\`make deps\` installs it)" >&2
    exit 1
}
mapfile -t files < <(find c_src test -name '*.[ch]' | sort)
if [ "$1" = --dry-run ]; then
    "$CLANG_FORMAT" --dry-run --Werror "${files[@]}"
    echo "  ok    ${#files[@]} C files are formatted"
else
    "$CLANG_FORMAT" "$@" "${files[@]}"
fi
