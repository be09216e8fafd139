#!/bin/bash
# Measure the viewer: half an hour of the top 100 at 99 Hz, made by repeating a
# minute of the demo. Reading and indexing, then the page in chromium.
set -eu
cd "$(dirname "$0")/../.."
dir=_build/bench/viewer
mkdir -p "$dir"
chmod 700 "$dir"
[ -d viewer/node_modules/playwright-core ] || (cd viewer && npm ci)
minute=$dir/minute.log
long=$dir/long.log.zst
if [ ! -f "$long" ]; then
    rm -rf "$dir/minute"
    # Every look, whatever it costs: the demo keeps the budget by looking less.
    ERL_FLAGS="-flame_prof cpu_budget infinity" \
        DEMO_DIR=$dir/minute DEMO_SECONDS=60 examples/demo/run.sh >"$dir/demo.log"
    zstdcat "$dir"/minute/*.zst >"$minute"
    node viewer/bench/long_profile.mjs "$minute" 30 | zstd -q -1 -f -o "$long"
fi
mkfifo "$dir/stdin.$$"
trap 'rm -f "$dir/stdin.$$" "$dir/url"' EXIT
rm -f "$dir/url"
ERL_LIBS=_build/default/lib erl -noshell -pa _build/default/lib/flame_prof/ebin -eval "
    Timed = fun(Title, F) ->
        {Us, Result} = timer:tc(F),
        io:format(\"  ~-58ts ~b ms~n\", [Title, Us div 1000]),
        Result
    end,
    Text = filelib:file_size(\"$minute\"),
    {ok, P} = Timed(\"a minute, plain: read\", fun() -> flame_prof_profile:read(\"$minute\") end),
    {ok, _} = Timed(\"a minute: index\", fun() -> flame_prof_profile:index(P, \"$dir/index\") end),
    {ok, R} = Timed(\"a minute: report\", fun() ->
        flame_prof:report(\"$minute\", \"$dir/report.html\") end),
    io:format(\"  ~p of ~b bytes of text~n\", [R, Text]),
    {ok, L} = Timed(\"half an hour, zstd: read\", fun() -> flame_prof_profile:read(\"$long\") end),
    {ok, I} = Timed(\"half an hour: index\", fun() ->
        flame_prof_profile:index(L, \"$dir/index\") end),
    io:format(\"  ~p ~p of ~b bytes of text~n\",
        [I, maps:with([samples, memory], flame_prof_profile:info(L)), 30 * Text]),
    flame_prof_profile:close(L),
    file:delete(\"$dir/index\"),
    {ok, #{url := Url, pid := Pid}} = flame_prof_view:start(\"$long\"),
    ok = file:write_file(\"$dir/url\", Url),
    eof = io:get_line(\"\"),
    flame_prof_view:stop(Pid),
    halt()." <"$dir/stdin.$$" &
exec 9>"$dir/stdin.$$"
until [ -f "$dir/url" ]; do
    kill -0 $! || exit 1
    sleep 0.5
done
PAGE_MS=300000 node viewer/bench/page.mjs "$(cat "$dir/url")"
exec 9>&-
wait
