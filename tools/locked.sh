#!/bin/sh
# Run a build step while nobody else builds in this checkout: two builds at once
# would read each other's half-written objects. LOCK names what is built, where that
# has a folder of its own.
set -eu
mkdir -p _build
if command -v flock >/dev/null; then
    exec flock -o "_build/.lock${LOCK:+.$LOCK}" "$@"
fi
exec "$@"
