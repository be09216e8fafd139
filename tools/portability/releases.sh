# From the releases of `make test-matrix' to this machine's, which is older: modules
# that a newer release has compiled may not load there, so attach refuses.

matrix=${FLAME_PROF_MATRIX_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/flame_prof/matrix}
node=flame_prof_port_$$
erl -noinput -name "$node@127.0.0.1" -setcookie portability &
older=$!
here=$(tools/otp_facts.sh | cut -d ' ' -f 1)

in_folder() { # folder, command...: as tools/matrix.sh does
    unshare --mount --pid --fork --kill-child sh -c '
        mount -t proc proc "$0/proc" || exit 125
        folder=$0
        exec chroot "$folder" /usr/bin/env -i HOME=/tmp LANG=C.UTF-8 \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"' "$@"
}

newer_is_refused() { # folder
    local text
    copy_checkout "$1/srv/flame_prof_portability" &&
        in_folder "$1" make -C /srv/flame_prof_portability -j"$jobs" build || return
    text=$(in_folder "$1" /srv/flame_prof_portability/bin/flame_prof \
        attach "$node@127.0.0.1" --cookie portability --for 1s --output /tmp/attached 2>&1)
    echo "exit status $?: $text"
    case $text in *"runs OTP $here, and this flame_prof was built with"*) ;; *) return 1 ;; esac
}

for folder in "$matrix"/*/; do
    folder=${folder%/}
    suite=$(basename "$folder")
    [ -x "$folder/usr/bin/erl" ] || continue
    if [ "$(id -u)" -ne 0 ]; then
        not_run "releases: attach from $suite" "a changed root needs root"
        continue
    fi
    wait_for_node "$node" &&
        check "releases: attach from $suite's OTP to OTP $here is refused with the reason" \
            newer_is_refused "$folder"
    rm -rf --one-file-system "$folder/srv/flame_prof_portability"
done
grep -q releases: "$results" ||
    not_run "releases" "there are no folders in $matrix; \`make test-matrix' makes them"
kill "$older"
