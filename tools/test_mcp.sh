#!/bin/bash
# Test `flame_prof mcp` with the protocol's own client from npm, as test/mcp/package-lock.json has
# it, on a node without flame_prof; append "mcp passed failed" to $RESULTS.
#
# Skipped, and said so, where there is no node, or no way to get the packages.
set -u
: "${RESULTS:?}"
cd "$(dirname "$0")/.." || exit 1

dir=$PWD/_build/test/mcp
npm=$PWD/_build/mcp
rm -rf "$dir"
mkdir -p "$dir" "$npm"

skip() {
    echo "  skipped: $*"
    exit 0
}

npm_installed() {
    cp test/mcp/{package.json,package-lock.json,.npmrc,client.mjs} "$npm"
    # What was installed for another lock file is not what is wanted.
    cmp -s test/mcp/package-lock.json "$npm/installed" && return
    (cd "$npm" && timeout 300 npm ci) >"$dir/npm.log" 2>&1 &&
        cp test/mcp/package-lock.json "$npm/installed"
}

command -v node >/dev/null && command -v npm >/dev/null || skip "node or npm is not installed"
npm_installed || skip "npm could not install it: $(grep -m 1 'npm error' "$dir/npm.log")"

# A server with three messages that it does not take, and callers that wait for it. The node lives
# for as long as this pipe is open.
program='
    Stuck = spawn(fun() -> register(stuck, self()), receive never -> ok end end),
    [spawn(fun() -> gen_server:call(Stuck, {get, N}, infinity) end) || N <- [1, 2, 3]],
    file:write_file(os:getenv("READY"), []),
    io:get_line(""), halt().'
name=mcp_$$@127.0.0.1
epmd -daemon
mkfifo "$dir/stdin"
READY=$dir/ready erl -noshell -name "$name" -setcookie flame_prof_mcp -eval "$program" \
    <"$dir/stdin" >"$dir/node.log" 2>&1 &
node_pid=$!
exec 9>"$dir/stdin"
until [ -e "$dir/ready" ] || ! kill -0 "$node_pid" 2>/dev/null; do sleep 0.1; done

timeout "${TEST_TIMEOUT:-900}" node "$npm/client.mjs" "$PWD/bin/flame_prof" "$name" \
    flame_prof_mcp "$PWD/test/corpus/ours.log" | tee "$dir/result"
grep '^    FAIL' "$dir/result" >>"${FAILURES:-/dev/null}"
exec 9>&-
wait "$node_pid"
read -r passed failed < <(tail -n 1 "$dir/result" | grep -E '^[0-9]+ [0-9]+$')
echo "mcp ${passed:-0} ${failed:-1}" >>"$RESULTS"
