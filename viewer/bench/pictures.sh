#!/bin/bash
# The pictures of doc/guide/pictures.md, from the recorded problems of test/corpus/trouble, to
# doc/pictures. For people who changed how the page looks.
set -eu
cd "$(dirname "$0")/../.."
reports=_build/pictures
mkdir -p "$reports"
for problem in mailbox binary_leak gc chain; do
    bin/flame_prof report "test/corpus/trouble/$problem.log.zst" --output "$reports/$problem.html"
done
node viewer/bench/pictures.mjs "$reports" doc/pictures
