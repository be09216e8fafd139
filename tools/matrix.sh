#!/bin/bash
# Run the tests on each OTP release that we support: the whole suite on this machine's, and what
# can differ between releases on the others.
#
# The release of this machine runs here, C tests included (they know no VM, so
# once is enough). Each other one runs, beside it, in a folder made by debootstrap from the
# Debian suite that carries it: made once, reused as long as the list of
# packages stays the same, and kept outside the checkout in
#
#   ${FLAME_PROF_MATRIX_DIR:-${XDG_CACHE_HOME:-~/.cache}/flame_prof/matrix}
#
# Needs root, debootstrap, and the right to mount /proc, which the native engine
# reads. FLAME_PROF_MIRROR overrides the mirror found in apt's configuration;
# MATRIX="27 29" limits the releases. HOST_RESULT="N N", the passed and failed
# of a `make test` just done (.ci/run sets it), spares running it again. `tools/matrix.sh prepare`
# makes the folders only.
#
# The last line is `N passed, N failed`, the sum over all releases.
set -u
cd "$(dirname "$0")/.." || exit 1

SUITES="25:bookworm 27:trixie 29:forky"
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
matrix=${FLAME_PROF_MATRIX_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/flame_prof/matrix}
packages=$(tools/deps.sh list build test-erl | tr -s ' \n' ' ')
optional=$(tools/deps.sh list test-erl-optional | tr -s ' \n' ' ')

say() { echo "matrix: $*"; }
complain() {
    say "$@" >&2
    return 1
}

# Run a command in a folder, /proc mounted, in namespaces of its own: mounts and
# processes end with it, however it ends.
inside() { # folder, command...
    local folder=$1
    shift
    unshare --mount --pid --fork --kill-child sh -c '
        mount -t proc proc "$0/proc" || exit 125
        folder=$0
        exec chroot "$folder" /usr/bin/env -i HOME=/tmp LANG=C.UTF-8 \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            DEBIAN_FRONTEND=noninteractive "$@"' "$folder" "$@"
}

wanted_stamp() { echo "$1 $packages $optional" | sha256sum | cut -d ' ' -f 1; }

# Never through a mount: somebody may have bound a checkout into the folder.
remove() { # folder
    local path
    path=$(realpath -m "$1")
    if awk -v p="$path" '$5 == p || index($5, p "/") == 1 { found = 1 }
            END { exit !found }' /proc/self/mountinfo; then
        complain "something is mounted in $path; unmount it first"
        return
    fi
    rm -rf --one-file-system "$path"
}

# Make a folder; or complete it, when it was interrupted or the list of packages
# has changed.
prepare() { # suite
    local suite=$1 folder=$matrix/$1 stamp
    stamp=$(wanted_stamp "$suite")
    if [ "$(cat "$matrix/$suite.stamp" 2>/dev/null)" = "$stamp" ] &&
        [ -x "$folder/usr/bin/erl" ]; then
        say "$folder is there and complete"
        return
    fi
    rm -f "$matrix/$suite.stamp"
    if ! { [ -x "$folder/usr/bin/apt-get" ] && install "$suite"; }; then
        bootstrap "$suite" && install "$suite" || {
            say "once more: a mirror may have changed meanwhile"
            bootstrap "$suite" && install "$suite"
        } || return
    fi
    echo "$stamp" >"$matrix/$suite.stamp"
}

bootstrap() { # suite
    local suite=$1 folder=$matrix/$1 from script=""
    [ -f "$KEYRING" ] || {
        complain "no keys to check Debian's signatures with" \
            "($KEYRING, package debian-archive-keyring)" || return
    }
    command -v debootstrap >/dev/null || {
        complain "debootstrap is missing (\`make deps\` installs it)" || return
    }
    from=$(tools/mirror.sh)
    [ -n "$from" ] || {
        complain "apt's configuration names no mirror; set FLAME_PROF_MIRROR" ||
            return
    }
    say "making $folder: debootstrap of $suite from $from"
    remove "$folder" || return
    # A suite that is younger than this debootstrap is made like sid.
    [ -e "/usr/share/debootstrap/scripts/$suite" ] || script=sid
    debootstrap --variant=minbase --keyring="$KEYRING" \
        "$suite" "$folder" "$from" $script >"$matrix/$suite.log" 2>&1 ||
        failed "debootstrap" "$matrix/$suite.log"
}

install() { # suite
    local folder=$matrix/$1 log=$matrix/$1.log
    say "installing into $folder: $packages"
    configure_apt "$folder"
    {
        # The first two finish what an interrupted run may have left.
        inside "$folder" dpkg --configure -a
        inside "$folder" apt-get -q update &&
            inside "$folder" apt-get -q -y --fix-broken install &&
            inside "$folder" apt-get -q -y install $packages &&
            for package in $optional; do
                inside "$folder" apt-get -q -y install "$package" ||
                    echo "$package is not in this release"
            done &&
            inside "$folder" apt-get clean
    } >"$log" 2>&1 || failed "apt-get" "$log"
}

failed() { # what, its log
    tail -n 20 "$2" >&2
    complain "$1 failed; all it said is in $2"
}

configure_apt() { # folder
    cat >"$1/etc/apt/apt.conf.d/99flame-prof" <<'EOF'
APT::Install-Recommends "false";
Acquire::Retries "5";
// A mirror frozen at a date offers Release files past their Valid-Until. Their
// signatures are checked all the same; what is given up is only the certainty
// of seeing the newest state, which a test does not need.
Acquire::Check-Valid-Until "false";
EOF
    # This machine's way out, if it has a special one.
    apt-config dump | grep -iE '^Acquire::(http|https|ftp)::proxy' \
        >>"$1/etc/apt/apt.conf.d/99flame-prof"
    if [ -f /etc/ssl/certs/ca-certificates.crt ] &&
        [ ! -f "$1/etc/ssl/certs/ca-certificates.crt" ]; then
        mkdir -p "$1/etc/ssl/certs"
        cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/"
    fi
    cp -L /etc/resolv.conf "$1/etc/resolv.conf" 2>/dev/null
    # No daemon is started in there.
    printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d"
    chmod +x "$1/usr/sbin/policy-rc.d"
}

# The files of the checkout as they are now, committed or not, nothing ignored.
list_files() {
    if ! git -c safe.directory='*' ls-files -z --cached --others --exclude-standard \
        2>/dev/null; then
        find . -path ./_build -prune -o -name '*.so' -prune -o -type f -print0
    fi | sort -zu | while IFS= read -r -d '' file; do
        [ -e "$file" ] && printf '%s\0' "$file"
    done
}

copy_checkout() { # folder
    remove "$1/srv/flame_prof" || return
    mkdir -p "$1/srv/flame_prof"
    list_files | tar --null -T - -cf - | tar -xf - -C "$1/srv/flame_prof"
}

run_here() {
    if [ -n "${HOST_RESULT:-}" ]; then
        say "the tests on this machine's release have just been run"
        echo "${HOST_RESULT/ / passed, } failed" >"$log"
        return
    fi
    bash -c "${COMMAND:-tools/test.sh deps c exports erl}" 2>&1 9>&- | tee "$log" | sed -u "s/^/$otp | /"
}

# What can differ between releases: all units, as they run in one VM, and these live modules.
# WERROR stays off: a compiler newer than we know may warn of new things. An odd
# failure here is a failure of the suite, so nothing else is relaxed.
LIVE=${LIVE-test/live/releases}

run_in() { # suite
    if [ "$(id -u)" -ne 0 ]; then
        complain "OTP $otp: debootstrap and chroot need root; run this as root"
        return
    fi
    mkdir -p "$matrix" || return
    prepare "$1" || return
    copy_checkout "$matrix/$1" || return
    inside "$matrix/$1" /bin/bash -c "cd /srv/flame_prof &&
        ${COMMAND:-TEST_WERROR=0 TESTS='${TESTS:-}' LIVE='$LIVE' tools/test.sh exports erl}" 2>&1 |
        tee "$log" | sed -u "s/^/$otp | /"
}

# A release's own files: several run beside each other.
run_release() { # its entry of SUITES
    local otp=${1%%:*} suite=${1#*:} log=$results/${1%%:*}.log passed failed started=$SECONDS
    : >"$log"
    if [ "$otp" = "$here" ]; then
        say "OTP $otp: here"
        run_here
    else
        say "OTP $otp: in $matrix/$suite"
        run_in "$suite"
    fi
    read -r passed failed < <(sed -nE \
        's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$log" | tail -n 1)
    # Nothing ran: that release is not tested, which is a failure.
    if [ "${passed:-0}" -eq 0 ] && [ "${failed:-0}" -eq 0 ]; then
        passed=0 failed=1
    fi
    echo "$passed $failed" >"$results/$otp.counts"
    say "OTP $otp: $passed passed, $failed failed ($((SECONDS - started)) s)"
}

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
# One matrix at a time in these folders.
if [ "$(id -u)" -eq 0 ] && mkdir -p "$matrix" && command -v flock >/dev/null; then
    exec 9>"$matrix/.lock"
    flock -n 9 || say "waiting for another run in $matrix"
    flock 9
fi
say "the folders of the other releases are in $matrix"

here=$(tools/otp_facts.sh | cut -d ' ' -f 1)
chosen=
for entry in $SUITES; do
    case " ${MATRIX:-${entry%%:*}} " in *" ${entry%%:*} "*) chosen="$chosen $entry" ;; esac
done
if [ "${1:-}" = prepare ]; then # and run nothing
    for entry in $chosen; do
        [ "${entry%%:*}" = "$here" ] || prepare "${entry#*:}" || exit 1
    done
    exit
fi
for entry in $chosen; do run_release "$entry" & done
wait

total_passed=0 total_failed=0 summary= flaky=$results/flaky failures=$results/failures
: >"$flaky" >"$failures"
for entry in $chosen; do
    otp=${entry%%:*} log=$results/${entry%%:*}.log
    read -r passed failed <"$results/$otp.counts"
    sed -n '/^== What failed once /,/^$/p' "$log" | grep FLAKY | sed "s/^/$otp | /" >>"$flaky"
    sed -n '/^== What failed$/,/^[0-9]* passed, /p' "$log" | sed '1d;$d' |
        sed "s/^/$otp | /" >>"$failures"
    summary="${summary}OTP $otp: $passed passed, $failed failed"$'\n'
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))
done

if [ -s "$flaky" ]; then
    printf '\n== What failed once and passed alone: %s\n' "$(wc -l <"$flaky")"
    cat "$flaky"
fi
if [ -s "$failures" ]; then
    printf '\n== What failed\n'
    cat "$failures"
fi
printf '\n%s\n' "$summary"
say "OTP 26 and 28 are not run: no package of them can be had in Debian's suites"
echo "$total_passed passed, $total_failed failed"
[ "$total_passed" -gt 0 ] && [ "$total_failed" -eq 0 ]
