#!/bin/bash
# make soak: the storms of test/storm.erl beside a native session of top 100 at
# HZ (500) for SECONDS_ (60) on this machine's OTP, and on those of the matrix
# whose folders are there (make test-matrix makes them). Exit status 0 when no
# worker died and the books balance everywhere.
set -u
cd "$(dirname "$0")/.."
seconds=${SECONDS_:-60} hz=${HZ:-500}
matrix=${FLAME_PROF_MATRIX_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/flame_prof/matrix}
out=_build/soak
failed=0

soak='mkdir -p '$out' && erlc -o '$out' test/storm.erl &&
    ERL_LIBS=_build/default/lib erl -noinput -pa '$out' \
        _build/default/lib/flame_prof/ebin -s storm main '"$seconds $hz $out"

bash -c "$soak" || failed=1
rm -rf "$out/storm"

for suite in trixie forky; do
    root=$matrix/$suite
    if [ ! -x "$root/usr/bin/erl" ] || [ "$(id -u)" != 0 ]; then
        echo "soak: no usable folder for $suite in $matrix: make test-matrix makes it"
        continue
    fi
    copy=$root/tmp/flame_prof_soak
    rm -rf "$copy" && mkdir -p "$copy"
    git ls-files -co --exclude-standard -z | tar -c --null -T - | tar -x -C "$copy"
    mounted=0
    mountpoint -q "$root/proc" || { mount -t proc proc "$root/proc" && mounted=1; }
    chroot "$root" bash -c "cd /tmp/flame_prof_soak && make build >/dev/null && $soak" || failed=1
    [ "$mounted" = 1 ] && umount "$root/proc"
    rm -rf "$copy"
done
exit $failed
