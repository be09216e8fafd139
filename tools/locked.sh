#!/bin/sh
# Run a build step while nobody else builds in this checkout: two builds at once
# would read each other's half-written objects.
set -eu
mkdir -p _build
if command -v flock >/dev/null; then
    exec flock -o _build/.lock "$@"
fi
exec "$@"
