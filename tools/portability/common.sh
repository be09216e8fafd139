# What the parts of tools/portability.sh share. They are sourced at the top of the
# checkout.

top=$PWD
cache=${FLAME_PROF_PORTABILITY_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/flame_prof/portability}
mkdir -p "$cache" || exit 1
results=$(mktemp)
trap 'rm -f "$results"' EXIT
# In two parts: a make above us would hand its own to the builds.
unset MAKEFLAGS MFLAGS MAKELEVEL
jobs=$(nproc)

heading() { printf '\n== %s\n' "$*"; }

# One check, done: its output is shown where it failed.
check() { # name, command...
    local name=$1 log status
    shift
    log=$cache/last.log
    if "$@" >"$log" 2>&1; then
        printf '  ok      %s\n' "$name" | tee -a "$results"
    else
        status=$?
        tail -n 25 "$log" | sed 's/^/    | /'
        printf '  FAILED  %s (exit status %d)\n' "$name" "$status" | tee -a "$results"
        return 1
    fi
}

not_run() { # name, why
    printf '  not run %s: %s\n' "$1" "$2" | tee -a "$results"
}

# Commands that a part needs, each with Debian's package for it.
lacks() { # what is not run, "command package"...
    local name=$1 pair missing=
    shift
    for pair in "$@"; do
        command -v "${pair%% *}" >/dev/null || missing="$missing ${pair#* }"
    done
    [ -n "$missing" ] || return 1
    not_run "$name" "needs$missing (apt-get install)"
}

finish() {
    local passed failed skipped
    passed=$(grep -c '^  ok' "$results")
    failed=$(grep -c '^  FAILED' "$results")
    skipped=$(grep -c '^  not run' "$results")
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
}

# The files of the checkout as they are now, in a folder of their own; what was
# built there stays.
copy_checkout() { # folder
    mkdir -p "$1"
    git -c safe.directory='*' ls-files -z --cached --others --exclude-standard |
        while IFS= read -r -d '' file; do [ -e "$file" ] && printf '%s\0' "$file"; done |
        tar --null -T - -cf - | tar -xf - -C "$1"
}

# Those C tests of the checkout that are not among the given ones.
c_tests_without() { # name...
    local source name
    for source in test/c/test_*.c; do
        name=$(basename "$source" .c)
        case " $* " in *" $name "*) ;; *) printf '%s ' "$name" ;; esac
    done
}

# Each C test in turn, by a command that runs a program; says which failed.
run_c_tests() { # folder of programs, names, command...
    local folder=$1 names=$2 name program failed=0
    shift 2
    for name in $names; do
        program=$folder/$name
        if "$@" "$program" >"$program.log" 2>&1; then
            echo "$name: $(grep -c '^ok ' "$program.log") ok"
        else
            echo "$name failed (exit status $?):"
            grep -v '^ok ' "$program.log" | tail -n 5
            failed=1
        fi
    done
    return $failed
}

# A node of another kind, told of by `attach': it names why our library does not fit.
attach_names_why() { # node, cookie, what it has to say
    local text
    text=$(timeout 60 "$top/bin/flame_prof" attach "$1" --cookie "$2" --for 1s \
        --output "$cache/attached" 2>&1)
    echo "$text"
    rm -rf "$cache/attached"
    case $text in *"$3"*) ;; *) return 1 ;; esac
}

# Until somebody has registered the name with epmd.
wait_for_node() { # name, without host
    local tries
    for tries in $(seq 300); do
        epmd -names 2>/dev/null | grep -q "^name $1 " && return
        sleep 0.2
    done
    echo "no node $1 after a minute"
    return 1
}
