#!/bin/bash
# Measure what no test may judge: statistics, storms, costs. Prints figures and writes those of
# the parts that ran into doc/dev/proof.md, with commit, date and machine; gates nothing.
#
#   tools/proof.sh [PART...]   parts: figures tsan fuzz storms doctor real bench (all of them)
#
# A part fails, and so does the run, if it could not be made or found a fault (a crash, a race):
# a figure beyond what is aimed at is no failure. Needs the machine for itself.
set -u
parts="figures tsan fuzz storms doctor real bench"
cd "$(dirname "$0")/.." || exit 1

document=doc/dev/proof.md
out=$PWD/_build/proof
mkdir -p "$out" || exit 1
failed=

# name, command: what it reports in $PROOF_FIGURES, or else that it passed and how long it took
part() {
    local name=$1 since=$SECONDS
    shift
    printf '\n== %s\n' "$name"
    export PROOF_FIGURES=$out/$name.figures
    rm -f "$PROOF_FIGURES"
    if "$@"; then
        printf '%s: passed, in seconds\t%s\t\t\n' "$name" $((SECONDS - since)) >>"$PROOF_FIGURES"
    else
        failed="$failed $name"
        printf '%s: FAILED, after seconds\t%s\t\t\n' "$name" $((SECONDS - since)) >>"$PROOF_FIGURES"
    fi
    record "$name"
}

# The figures of a part replace those of its last run.
record() { # name
    local stamp
    stamp="$(git rev-parse --short HEAD 2>/dev/null || echo none)"
    git diff --quiet HEAD 2>/dev/null || stamp="$stamp+"
    stamp="$stamp | $(date +%F) | $(machine)"
    {
        grep -v "^| $1 |" "$document"
        awk -F '\t' -v part="$1" -v stamp="$stamp" \
            '{ printf "| %s | %s | %s | %s | %s | %s |\n", part, $1, $2, $3, $4, stamp }' \
            "$out/$1.figures"
    } >"$out/document" && mv "$out/document" "$document"
}

machine() {
    echo "OTP $(tools/otp_facts.sh | cut -d ' ' -f 1), $(nproc) x$(sed -n \
        's/^model name[^:]*:\(.*\)/\1/p' /proc/cpuinfo | sed -n 1p)"
}

figures() {
    local results=$out/results
    : >"$results"
    RESULTS=$results TEST_CLASS=proof TEST_PLACES=1 TEST_OUT=$out/erlang tools/test_erl.sh &&
        awk '{ failed += $3; passed += $2 } END { exit failed > 0 || passed == 0 }' "$results"
}

run() { # part
    case $1 in
    figures) part figures figures ;;
    tsan) part tsan env SANITIZERS=tsan tools/test.sh c ;;
    fuzz) part fuzz tools/fuzz.sh ;;
    storms) part storms test/soak/run.sh ;;
    doctor) part doctor tools/test_doctor.sh ;;
    real)
        part rabbitmq test/attach/real.sh rabbitmq
        part ejabberd test/attach/real.sh ejabberd
        ;;
    bench) part bench bench/run.sh ;;
    *)
        echo "tools/proof.sh: $1 is no part; parts are: $parts" >&2
        exit 2
        ;;
    esac
}

# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $parts
for name in "$@"; do run "$name"; done
[ -z "$failed" ] || echo "failed:$failed"
[ -z "$failed" ]
