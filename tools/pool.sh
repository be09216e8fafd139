# Sourced by test scripts: jobs beside each other, and what each one says in one piece.
#
#   pool PLACES RUN TELL <JOBS
#
# Each line of the input is the words of one job: `RUN WORDS...' runs in the background,
# PLACES at a time, and when it has ended `TELL FILE STATUS SECONDS WORDS...' runs in this
# shell, one at a time. FILE has what the job said. While it runs, its words are in a file of the
# folder that $RUNNING names.

# As many as there are processors, or so many times as many.
places() { echo "${TEST_PLACES:-$((${1:-1} * $(nproc 2>/dev/null || echo 2)))}"; }

pool() { # places, function, function
    local places=$1 run=$2 tell=$3 said job=0 words
    local -A jobs=()
    said=$(mktemp -d) || return
    while read -r -a words; do
        while [ "${#jobs[@]}" -ge "$places" ]; do _pool_next; done
        job=$((job + 1)) jobs[$job]=${words[*]}
        {
            since=$SECONDS
            [ -z "${RUNNING:-}" ] || echo "$(date +%T) ${words[*]}" >"$RUNNING/$BASHPID"
            "$run" "${words[@]}" >"$said/$job" 2>&1 </dev/null
            echo "$? $((SECONDS - since))" >"$said/$job.status"
            [ -z "${RUNNING:-}" ] || rm -f "$RUNNING/$BASHPID"
        } &
    done
    while [ "${#jobs[@]}" -gt 0 ]; do _pool_next; done
    rm -rf "$said"
}

# Waits for one; tells all that have ended.
_pool_next() {
    local job status alone=
    wait -n
    [ $? -ne 127 ] || alone=1 # no job is left: whatever has no status was killed
    for job in "${!jobs[@]}"; do
        read -r -a status < <(cat "$said/$job.status" 2>/dev/null)
        [ -n "${status[1]:-$alone}" ] || continue
        # shellcheck disable=SC2086
        "$tell" "$said/$job" "${status[0]:-137}" "${status[1]:-0}" ${jobs[$job]}
        unset "jobs[$job]"
    done
}
