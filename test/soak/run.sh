#!/bin/bash
# make soak: test/soak/soak.erl for SECONDS_ (60) at HZ (500) on each of OTPS
# ("25 27 29"): this machine's release here, the others in the folders that
# `make test-matrix` has made. The summaries are _build/soak/otp-N.txt and .term,
# what the node said is otp-N.log, and all of it together sum.txt. Exit status 0
# when it was good everywhere; doc/dev/soak.md says what is checked.
#
# SOAK=soak_sizes runs test/soak/soak_sizes.erl instead (`make soak-sizes').
#
# SEED repeats an order of sessions. The node has SOAK_LIMIT_MIB (4096, `ulimit
# -d') of memory, of which a storm takes SOAK_MEMORY_PERCENT (70) of what is free,
# at most SOAK_MEMORY_MIB (4096).
set -u
cd "$(dirname "$0")/../.." || exit 1

seconds=${SECONDS_:-60} hz=${HZ:-500} seed=${SEED:-$RANDOM} program=${SOAK:-soak}
limit=${SOAK_LIMIT_MIB:-4096}
export SOAK_MEMORY_PERCENT=${SOAK_MEMORY_PERCENT:-70} SOAK_MEMORY_MIB=${SOAK_MEMORY_MIB:-4096}
matrix=${FLAME_PROF_MATRIX_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/flame_prof/matrix}
suites="25:bookworm 27:trixie 29:forky"
here=$(tools/otp_facts.sh | cut -d ' ' -f 1)
out=_build/soak
copy=
failed=0

clean_up() {
    [ -z "$copy" ] || rm -rf --one-file-system "$copy"
    rm -rf "$PWD/$out"/scratch-*
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# In a checkout, here or in another root: build, compile, run.
soak() { # otp
    cat <<END
cd "\$1" && mkdir -p $out/ebin && rm -f $out/otp-$1.* &&
    { make build && erlc -o $out/ebin test/soak/*.erl test/support/running_test_nif.erl \
        test/support/checkout.erl test/support/size_storm.erl test/support/waiting.erl; } \
        >$out/otp-$1.log 2>&1 || { tail -n 20 $out/otp-$1.log; exit 1; }
scratch=\$PWD/$out/scratch-\$\$
mkdir -p "\$scratch" && ulimit -c 0 && ulimit -d $((limit * 1024)) &&
    export ERL_LIBS=\$PWD/_build/default/lib SOAK_VM_ARGS=\$PWD/test/soak/vm.args \
        ERL_CRASH_DUMP=\$PWD/$out/otp-$1.crash_dump SOAK_MEMORY_PERCENT=$SOAK_MEMORY_PERCENT \
        SOAK_MEMORY_MIB=$SOAK_MEMORY_MIB || exit 1
timeout --kill-after=60 $((seconds * 2 + 900)) erl -noinput -pa \$PWD/$out/ebin \
    \$PWD/_build/default/lib/flame_prof/ebin -args_file "\$SOAK_VM_ARGS" \
    -s $program main $seconds $hz $seed "\$scratch" $out/otp-$1 >>$out/otp-$1.log 2>&1 </dev/null
status=\$?
rm -rf "\$scratch"
exit \$status
END
}

# Which of them there are in the file: a node that died wrote none.
report() { # otp, status
    if [ -s "$out/otp-$1.txt" ]; then
        cat "$out/otp-$1.txt"
    else
        echo "OTP $1: FAILED: the node ended with status $2 and left no summary" \
            "(124: it hung; 134, 139: it crashed). The end of $out/otp-$1.log:"
        tail -n 20 "$out/otp-$1.log" 2>/dev/null
    fi
    [ "$2" = 0 ] || failed=1
}

# The files of the checkout, to a folder that nobody else has.
copy_to() { # root
    copy=$(mktemp -d "$1/tmp/flame_prof_soak.XXXXXX") || return
    git -c safe.directory='*' ls-files -co --exclude-standard -z |
        while IFS= read -r -d '' file; do [ -e "$file" ] && printf '%s\0' "$file"; done |
        tar -c --null -T - | tar -x -C "$copy"
}

# /proc is mounted in a namespace of its own, which goes with the processes in it.
inside() { # root, otp
    copy_to "$1" || return
    unshare --mount --pid --fork --kill-child sh -c '
        mount -t proc proc "$0/proc" || exit 125
        exec chroot "$0" /usr/bin/env -i HOME=/tmp LANG=C.UTF-8 \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            bash -c "$1" soak "$2"' "$1" "$(soak "$2")" "/tmp/${copy##*/}"
    local status=$?
    cp "$copy/$out/otp-$2".* "$out/" 2>/dev/null
    rm -rf --one-file-system "$copy"
    copy=
    return $status
}

mkdir -p "$out" && rm -f "$out"/otp-*.* "$out"/sum.txt
echo "$program: $seconds s at $hz Hz on each of OTP ${OTPS:-25 27 29}, seed $seed"
for entry in $suites; do
    otp=${entry%%:*} root=$matrix/${entry#*:}
    case " ${OTPS:-25 27 29} " in *" $otp "*) ;; *) continue ;; esac
    if [ "$otp" = "$here" ]; then
        bash -c "$(soak "$otp")" soak "$PWD"
        report "$otp" $?
    elif [ ! -x "$root/usr/bin/erl" ] || [ "$(id -u)" != 0 ]; then
        echo "OTP $otp: NOT RUN: no usable folder in $root: make test-matrix makes it" \
            "(both take root)"
        [ -z "${OTPS:-}" ] || failed=1
    else
        inside "$root" "$otp"
        report "$otp" $?
    fi
done

terms=("$out"/otp-*.term)
if [ -e "${terms[0]}" ]; then
    mkdir -p "$out/ebin" && erlc -o "$out/ebin" test/soak/soak.erl &&
        erl -noinput -pa "$out/ebin" -s soak sum "${terms[@]}" | tee "$out/sum.txt"
fi
exit $failed
