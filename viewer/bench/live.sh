#!/bin/bash
# Measure what a page costs that follows a running session: the demo with its defaults on one
# node, the viewer on another, so that its CPU time can be told from the demo's, and the requests
# of a page from a third process. SECONDS of each of: closed, open, closed.
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:-30}
dir=$PWD/_build/bench/live
rm -rf "$dir"
mkdir -p "$dir/profiles"
chmod 700 "$dir" "$dir/profiles"
mkdir "$dir/ebin"
erlc -o "$dir/ebin" examples/demo/src/*.erl viewer/bench/live_demo.erl
FOLLOWED=$dir/followed DEMO_DIR=$dir/profiles DEMO_SECONDS=$((4 * seconds + 90)) \
    ERL_LIBS=_build/default/lib erl -noinput -pa _build/default/lib/flame_prof/ebin "$dir/ebin" \
    -s live_demo main >"$dir/demo.log" 2>&1 &
demo=$!
mkfifo "$dir/stdin"
ERL_LIBS=_build/default/lib erl -noshell -pa _build/default/lib/flame_prof/ebin -eval "
    {ok, #{url := Url}} = flame_prof_view:start(\"$dir/profiles\"),
    ok = file:write_file(\"$dir/url\", Url),
    eof = io:get_line(\"\"),
    halt()." <"$dir/stdin" &
viewer=$!
exec 9>"$dir/stdin"
trap 'kill $demo $viewer 2>/dev/null; rm -f "$dir/stdin"' EXIT
until [ -f "$dir/url" ] && [ -s "$(ls "$dir"/profiles/*.part 2>/dev/null)" ]; do sleep 0.5; done
sleep 5
node viewer/bench/live.mjs "$(cat "$dir/url")" "$demo" "$viewer" "$dir/followed" "$seconds"
