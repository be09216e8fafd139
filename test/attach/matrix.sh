#!/bin/bash
# The tests of attaching, from this machine's OTP to nodes of the other releases:
# each in the file system that tools/matrix.sh has made for it, so that it sees
# other files than we do. For root; not part of `make test`.
#
#   test/attach/matrix.sh [RELEASE...]     27 29
set -u
cd "$(dirname "$0")/../.." || exit 1
matrix=${FLAME_PROF_MATRIX_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/flame_prof/matrix}
failed=0
for release in "${@:-27 29}"; do
    for otp in $release; do
        case $otp in
        27) root=$matrix/trixie ;;
        29) root=$matrix/forky ;;
        *)
            echo "OTP $otp: there are 27 and 29" >&2
            exit 2
            ;;
        esac
        if [ ! -x "$root/usr/bin/erl" ]; then
            echo "OTP $otp: $root is not there; \`make test-matrix' makes it" >&2
            exit 1
        fi
        echo "Attaching to OTP $otp"
        FLAME_PROF_TEST_ROOT=$root TESTS=flame_prof_attach_SUITE tools/test.sh erl || failed=1
    done
done
exit $failed
