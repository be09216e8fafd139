#!/bin/bash
# Run the live tests TIMES (10) times beside BUSY (4) busy loops; prints the failed and the flaky
# tests of each run. The exit status is 0 if no test failed twice.
set -u
cd "$(dirname "$0")/.." || exit 1
times=${TIMES:-10} busy=${BUSY:-4} failures=0
logs=_build/test/live
rm -rf "$logs" && mkdir -p "$logs" || exit 1

loops=()
trap 'kill "${loops[@]}" 2>/dev/null' EXIT
for _ in $(seq "$busy"); do
    sh -c 'while :; do :; done' &
    loops+=($!)
done

for run in $(seq "$times"); do
    since=$SECONDS
    CLASSES=live tools/test.sh erl >"$logs/$run" 2>&1 || failures=$((failures + 1))
    echo "run $run: $(tail -n 1 "$logs/$run"), $((SECONDS - since)) s"
    grep -E '^    (FAIL|FLAKY) ' "$logs/$run" | sort -u
done
echo "$failures of $times runs failed, beside $busy busy loops"
[ "$failures" -eq 0 ]
