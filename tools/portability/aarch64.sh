# A library that is cross-built for aarch64, in Debian's arm64 with Debian's Erlang,
# under qemu-user. What that shows is that it builds, loads and profiles; no speed.
#
# A VM of OTP 25 did not start there within a minute but with +JPperf; why is not known.

lacks "aarch64" "aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu" \
    "qemu-aarch64-static qemu-user-static" "mmdebstrap mmdebstrap" \
    "arch-test arch-test" && return
if [ "$(id -u)" -ne 0 ]; then
    not_run "aarch64" "a changed root needs root"
    return
fi
if ! tools/portability/arm64_inside.sh "" arch-test arm64 >/dev/null 2>&1; then
    not_run "aarch64" "this kernel has no binfmt_misc of a user namespace's own (since 6.7)"
    return
fi

root=$cache/arm64
copy=$root/srv/flame_prof
erl="erl +JPperf true"
cross="aarch64-linux-gnu-gcc --sysroot=$root"
inside() { timeout -k 10 "${LIMIT:-300}" "$top/tools/portability/arm64_inside.sh" "$root" "$@"; }

make_root() {
    local packages
    packages=$(tools/deps.sh list build test-erl | tr -s ' \n' ',,')
    [ "$(cat "$root.stamp" 2>/dev/null)" = "$packages" ] && return
    rm -rf --one-file-system "$root"
    tools/portability/arm64_inside.sh "" mmdebstrap --mode=root --variant=minbase \
        --architectures=arm64 --include="${packages%,}" \
        --aptopt='Acquire::Check-Valid-Until "false"' \
        --aptopt='APT::Install-Recommends "false"' \
        "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root" "$(tools/mirror.sh)" &&
        echo "$packages" >"$root.stamp"
}

# pkg-config of this machine knows the libraries of this machine only.
export PKG_CONFIG_LIBDIR=/nonexistent
build() { make -C "$copy" build WERROR=1 CC="$cross" -j"$jobs"; }

profile() {
    rm -rf "$root/tmp/profile" "$root/tmp/tests"
    mkdir -p "$root/tmp/tests"
    erlc -o "$root/tmp/tests" test/support/portable_vm.erl &&
        inside $erl -noinput -pa /srv/flame_prof/_build/default/lib/flame_prof/ebin /tmp/tests \
            -s portable_vm main /tmp/profile x86_64 &&
        "$top/bin/flame_prof" check "$root"/tmp/profile/* &&
        inside env ERL_FLAGS="+JPperf true" sh -c '/srv/flame_prof/bin/flame_prof check /tmp/profile/*'
}

# Those that were seen to pass. test_safe_read fails and test_symbolize does not end
# under qemu-user 7.2, why is open; native ones know x86_64 only; the rest was not run.
c_tests() {
    local names="test_atom test_jit_code test_code_index test_disk_faults test_functions test_fuzz
        test_governor test_triple_buffer test_layout_solve test_maps test_process_names"
    make -C "$copy" -f tools/test_c.mk VARIANT=aarch64 SANITIZE= CC="$cross" ONLY="$names" \
        -j"$jobs" programs &&
        run_c_tests "$copy/_build/ctest/aarch64" "$names" inside_program
}
# By its path in there, from the top of the checkout.
inside_program() { inside sh -c 'cd /srv/flame_prof && exec "$0"' "${1#"$root"}"; }

# By its portable group, and by what needs no engine.
erl_tests() {
    : >"$root/tmp/results"
    LIMIT=1800 inside env ERL_FLAGS="+JPperf true" RESULTS=/tmp/results TESTS="$1" \
        sh -c 'cd /srv/flame_prof && tools/test_erl.sh' || return
    cat "$root/tmp/results"
    [ -s "$root/tmp/results" ] && ! grep -qv ' 0$' "$root/tmp/results"
}

attached() {
    local node=flame_prof_arm_$$ emulated status
    LIMIT=120 inside $erl -noinput -name "$node@127.0.0.1" -setcookie portability \
        -start_epmd false &
    emulated=$!
    wait_for_node "$node" &&
        attach_names_why "$node@127.0.0.1" portability \
            "is built for aarch64-unknown-linux-gnu, and our library for x86_64 Linux"
    status=$?
    kill "$emulated" && wait "$emulated"
    return $status
}

check "aarch64: a Debian of arm64 with its Erlang" make_root || return
copy_checkout "$copy"
check "aarch64: the library is cross-built without a warning" build || return
check "aarch64: the portable engine profiles, the native one says why not" profile
check "aarch64: C tests" c_tests
check "aarch64: Erlang tests" erl_tests \
    "flame_prof_options_tests flame_prof_samples_tests flame_prof_stacks_tests flame_prof_SUITE"
check "aarch64: attach from x86_64 says why the library does not fit" attached
