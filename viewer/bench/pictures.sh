#!/bin/bash
# The pictures of doc/guide/pictures.md, to doc/pictures: of the recorded problems of
# test/corpus/trouble, and of a look of the doctor at a chain of calls, which takes looks at waits.
# For people who changed how the page looks, on a machine that does nothing else (`make trouble`
# has compiled the problems).
set -eu
cd "$(dirname "$0")/../.."
reports=_build/pictures
mkdir -p "$reports"
for problem in mailbox binary_leak gc heap_growth table fragmentation; do
    bin/flame_prof report "test/corpus/trouble/$problem.log.zst" --output "$reports/$problem.html"
done
node=flame_prof_pictures@127.0.0.1
erl -noinput -name "$node" -setcookie pictures -pa _build/examples/trouble/ebin \
    -eval 'spawn(fun() -> {ok, _} = trouble:start([chain]), receive never -> ok end end).' &
trap 'kill $!' EXIT
sleep 5
bin/flame_prof doctor "$node" --cookie pictures --report "$reports/chain.html" || [ $? = 10 ]
node viewer/bench/pictures.mjs "$reports" doc/pictures
