#!/bin/bash
# Run a command in a folder of arm64 Debian: arm64_inside.sh FOLDER COMMAND...
# Without a folder to change into (""), as the folder is made with it.
#
# In namespaces of its own, user namespace included, where aarch64 programs run under
# qemu-user: the system's own binfmt_misc is left as it is, which a kernel knows to
# keep apart since 6.7. For root. Status 125 where the kernel does not have it.
set -u
binfmt=/usr/lib/binfmt.d/qemu-aarch64.conf
talk=$(mktemp -d)
mkfifo "$talk/ready" "$talk/go"
trap 'rm -rf "$talk"' EXIT

unshare --user --mount --pid --fork --kill-child bash -c '
    talk=$0 binfmt=$1 folder=$2
    shift 2
    echo ready >"$talk/ready"
    read -r _ <"$talk/go"
    mount -t proc proc /proc &&
        mount -t binfmt_misc none /proc/sys/fs/binfmt_misc &&
        cat "$binfmt" >/proc/sys/fs/binfmt_misc/register || exit 125
    [ -n "$folder" ] || exec "$@"
    mount --rbind /proc "$folder/proc" && mount --rbind /dev "$folder/dev" || exit 125
    exec chroot "$folder" /usr/bin/env -i HOME=/tmp LANG=C.UTF-8 \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"' \
    "$talk" "$binfmt" "$@" <&0 &
inside=$!
trap 'kill -KILL $inside 2>/dev/null; exit 130' INT TERM HUP

# All users and groups as they are: only who is outside may say so.
read -r _ <"$talk/ready"
echo "0 0 65536" >"/proc/$inside/uid_map"
echo "0 0 65536" >"/proc/$inside/gid_map"
echo go >"$talk/go"
wait $inside
