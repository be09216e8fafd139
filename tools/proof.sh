#!/bin/bash
# Measure what no test may judge: statistics, storms, costs. Prints figures and writes those of
# the parts that ran into doc/dev/proof.md, with commit, date and machine; gates nothing.
#
#   tools/proof.sh [PART...]   parts: figures properties sim fuzz limits sizes storms tsan doctor
#                              real bench (all of them, in at most 90 minutes)
#   tools/proof.sh --age       warn if the figures are older than 200 commits
#
# A part fails, and so does the run, if it could not be made or found a fault (a crash, a race):
# a figure beyond what is aimed at is no failure. Random parts print their seeds. Needs the
# machine for itself.
set -u
parts="figures properties sim fuzz limits sizes storms tsan doctor real bench"
cd "$(dirname "$0")/.." || exit 1

document=doc/dev/proof.md
oldest=200 # commits, until a measurement is too old

# The commits of the table, of which the newest one counts.
age() {
    local commit distance least=
    while read -r commit; do
        distance=$(git rev-list --count "$commit..HEAD" 2>/dev/null) || continue
        [ "${least:-$distance}" -lt "$distance" ] || least=$distance
    done < <(sed -nE 's/^\|.* \| ([0-9a-f]{7,40})\+? \| [0-9-]{10} \|.*/\1/p' "$document" | sort -u)
    if [ -z "$least" ]; then
        echo "$document has no figures of a commit that is known here: run make proof"
    elif [ "$least" -gt $oldest ]; then
        echo "$document is $least commits old (at most $oldest): run make proof"
    fi
}

if [ "${1:-}" = --age ]; then
    age
    exit
fi

out=$PWD/_build/proof
mkdir -p "$out" || exit 1
failed=

# What a part sums up in words at its end, as rows without a value.
sums='^[0-9]+ first, |^(OTP [0-9]+, [a-z]+|[a-z_]+): [0-9]|^  (attempted|captures) [0-9]|^# seeds |'
sums+='^seed [0-9]+: |^[0-9]+ passed, |^[a-z_]+@[a-z]+: [0-9]'

# name, command: what it reports in $PROOF_FIGURES and sums up, that it passed, and how long it took
part() {
    local name=$1 since=$SECONDS
    shift
    printf '\n== %s\n' "$name"
    export PROOF_FIGURES=$out/$name.figures
    rm -f "$PROOF_FIGURES"
    "$@" 2>&1 | tee "$out/$name.log"
    local status=${PIPESTATUS[0]}
    grep -aE "$sums" "$out/$name.log" | sed -E 's/^ *//; s/[|\t]/ /g; s/$/\t\t\t/' >>"$PROOF_FIGURES"
    if [ "$status" -eq 0 ]; then
        printf '%s: passed, in seconds\t%s\t\t\n' "$name" $((SECONDS - since)) >>"$PROOF_FIGURES"
    else
        failed="$failed $name"
        printf '%s: FAILED, after seconds\t%s\t\t\n' "$name" $((SECONDS - since)) >>"$PROOF_FIGURES"
    fi
    record "$name"
}

# The figures of a part replace those of its last run.
# Writing this table does not count as a change of the checkout.
record() { # name
    local stamp
    stamp="$(git rev-parse --short HEAD 2>/dev/null || echo none)"
    git diff --quiet HEAD -- . ":!$document" 2>/dev/null || stamp="$stamp+"
    stamp="$stamp | $(date +%F) | $(machine)"
    {
        grep -v "^| $1 |" "$document"
        awk -F '\t' -v part="$1" -v stamp="$stamp" \
            '{ printf "| %s | %s | %s | %s | %s | %s |\n", part, $1, $2, $3, $4, stamp }' \
            "$out/$1.figures"
    } >"$out/document" && mv "$out/document" "$document"
}

here() { tools/otp_facts.sh | cut -d ' ' -f 1; }

machine() {
    echo "OTP $(here), $(nproc) x$(sed -n \
        's/^model name[^:]*:\(.*\)/\1/p' /proc/cpuinfo | sed -n 1p)"
}

figures() {
    local results=$out/results
    : >"$results"
    RESULTS=$results TEST_CLASS=proof TEST_PLACES=1 TEST_OUT=$out/erlang \
        tools/test_erl.sh && all_passed "$results"
}

all_passed() { # results
    awk '{ failed += $3; passed += $2 } END { exit failed > 0 || passed == 0 }' "$1"
}

# Ten times the cases of each property, of a seed that nobody has tried.
properties() {
    local results=$out/results modules
    modules=$(grep -rl 'seeded:property(' test --include='*_tests.erl' |
        sed -E 's/.*\/([a-z_]+)\.erl/\1/' | tr '\n' ' ')
    : >"$results"
    TESTS=$modules PROPERTY_TIMES=10 RESULTS=$results TEST_OUT=$out/erlang \
        tools/test_erl.sh && all_passed "$results"
}

# A seed that fails is printed, and is kept as a test (test/sim/sim.c).
sim() {
    local seed=${SEED:-$RANDOM$RANDOM}
    C_TESTS=sim tools/test.sh c && _build/ctest/product/sim seeds 2000 "$seed"
}

run() { # part
    case $1 in
    figures) part figures figures ;;
    properties) part properties properties ;;
    sim)
        part sim sim
        part mistakes test/sim/prove.sh
        ;;
    limits) part limits env COUNT="${COUNT:-40}" test/proof/limits.sh ;;
    sizes)
        part sizes env SOAK=soak_sizes SECONDS_="${SECONDS_:-300}" OTPS="${OTPS:-$(here)}" \
            test/soak/run.sh
        ;;
    tsan) part tsan env SANITIZERS=tsan tools/test.sh c ;;
    fuzz) part fuzz env FUZZ_TOTAL="${FUZZ_TOTAL:-300}" tools/fuzz.sh ;;
    storms) part storms test/soak/run.sh ;;
    doctor) part doctor tools/test_doctor.sh ;;
    real)
        part rabbitmq test/attach/real.sh rabbitmq
        part ejabberd test/attach/real.sh ejabberd
        ;;
    bench) part bench env SECONDS_="${SECONDS_:-30}" bench/run.sh ;;
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
