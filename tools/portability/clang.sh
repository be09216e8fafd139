# The library and the C tests built by clang without a warning, the Erlang tests on
# that library. In a copy: the library of the checkout stays gcc's.

lacks "clang" "clang clang" && return

copy=$cache/clang
copy_checkout "$copy" && cd "$copy" || return
check "clang: the library builds without a warning" \
    make build WERROR=1 CC=clang -j"$jobs" &&
    check "clang: it exports nif_init only" tools/check_exports.sh
check "clang: C tests (ASan, UBSan, TSan)" env TEST_CC=clang tools/test.sh c
check "clang: Erlang tests" env CC=clang tools/test.sh erl
