#!/bin/bash
# The readers of files under valgrind's memcheck: what AddressSanitizer does not
# tell, above all decisions by bytes that nobody has written. Over test/corpus,
# what the fuzzer has found, and files of a session just recorded; and the C tests
# of VALGRIND_TESTS. The exit status is 1 on any complaint or leak.
set -u
cd "$(dirname "$0")/.." || exit 1
: "${VALGRIND_TESTS=test_profile test_perf_script}"
out=_build/valgrind
wrong=0

memcheck() { # name, command...
    local log=$out/$1.log
    shift
    if timeout 900 valgrind -q --error-exitcode=99 --leak-check=full \
        --errors-for-leak-kinds=definite,indirect "$@" >"$log" 2>&1; then
        echo "  ok    $(basename "$log" .log)"
    else
        wrong=1
        echo "  wrong  $(basename "$log" .log)" && tail -n 60 "$log"
    fi
}

rm -rf "$out" && mkdir -p "$out/session" || exit 1

# A second of a native session, with a piece cut off as after a crash.
ERL_LIBS=_build/default/lib erl -noinput -eval '
    {ok, _} = flame_prof:start(#{dir => "'"$out"'/session", sample_interval => 20}),
    spawn(fun Loop() -> _ = lists:sort([erlang:phash2(N) || N <- lists:seq(1, 1000)]), Loop() end),
    timer:sleep(1000),
    {ok, #{files := [_ | _]}} = flame_prof:stop(), halt().' || exit 1
recorded=$(find "$out/session" -name '*.log*' -type f)
for file in $recorded; do
    head -c $(($(stat -c %s "$file") * 2 / 3)) "$file" >"$out/session/cut.${file##*.}"
done

# shellcheck disable=SC2086
tools/locked.sh "${MAKE:-make}" -f tools/test_c.mk VARIANT=valgrind CC="${CC:-gcc}" SANITIZE= \
    ONLY="$VALGRIND_TESTS" programs read_files >"$out/build.log" 2>&1 ||
    { cat "$out/build.log" && exit 1; }

# shellcheck disable=SC2046
memcheck corpus _build/ctest/valgrind/read_files $(find test/corpus -maxdepth 1 -type f) \
    $(find _build/fuzz/corpus/read -type f 2>/dev/null | head -n 300)
# shellcheck disable=SC2086
memcheck session _build/ctest/valgrind/read_files $recorded "$out"/session/cut.*

for name in $VALGRIND_TESTS; do memcheck "$name" "_build/ctest/valgrind/$name"; done
exit $wrong
