#!/bin/bash
# Run the doctor on each fault and each healthy load of examples/trouble: about half a minute each.
# FAULTS="deadlock demo" picks some. MATRIX="25 27 29": on each of these releases (tools/matrix.sh).
# tools/test_doctor.escript says what is printed, and has more variables: those that begin with
# DOCTOR_ are given to the runs on other releases, too.
set -eu
cd "$(dirname "$0")/.."
if [ -n "${MATRIX:-}" ]; then
    given="FAULTS=$(printf %q "${FAULTS:-}")"
    for name in "${!DOCTOR_@}"; do given+=" $name=$(printf %q "${!name}")"; done
    export COMMAND="$given MATRIX= tools/test_doctor.sh"
    exec tools/matrix.sh
fi
"${MAKE:-make}" build
ebin=_build/examples/trouble/ebin
mkdir -p "$ebin"
# The behaviour first: the others name it.
erlc -o "$ebin" examples/trouble/src/trouble.erl
erlc -pa "$ebin" -o "$ebin" examples/demo/src/*.erl examples/trouble/src/*.erl
# shellcheck disable=SC2086 # names of faults
exec escript tools/test_doctor.escript ${FAULTS:-}
