# A library, and an Erlang VM to run it, that are linked with musl: OTP, libuv, zstd and
# zlib from Debian's sources, built by musl-gcc. There is no musl-g++, so the VM has no
# JIT.

lacks "musl" "musl-gcc musl-tools" "cmake cmake" "dpkg-source dpkg-dev" && return
if [ "$(uname -m)" != x86_64 ]; then
    not_run "musl" "it knows x86_64 only"
    return
fi

home=$cache/musl
copy=$home/flame_prof
sources=$home/src
prefix=$home/lib
# musl-gcc has no headers of the kernel: those of this machine.
cc="musl-gcc -idirafter $home/include"
mkdir -p "$sources" "$home/include"
for name in linux asm-generic; do ln -sfn "/usr/include/$name" "$home/include/$name"; done
ln -sfn "/usr/include/$(gcc -print-multiarch)/asm" "$home/include/asm"

# With lists of our own: apt's configuration may name no sources.
source_package() { # name
    local apt=$home/apt options
    [ -d "$sources/$1" ] && return
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
        "$(tools/mirror.sh) $(. /etc/os-release && echo "$VERSION_CODENAME") main" >"$apt/sources.list"
    options="-q -o Dir::Etc::sourcelist=$apt/sources.list -o Dir::Etc::sourceparts=-
        -o Dir::State::lists=$apt/lists -o Dir::Cache=$apt/cache
        -o APT::Sandbox::User=root -o Acquire::Check-Valid-Until=false"
    rm -rf "$sources/$1.new"
    mkdir "$sources/$1.new"
    (
        cd "$sources/$1.new" && apt-get $options update &&
            apt-get $options source --download-only "$1" &&
            dpkg-source --no-check -x ./*.dsc unpacked
    ) && mv "$sources/$1.new/unpacked" "$sources/$1" && rm -rf "$sources/$1.new"
}

zlib() {
    source_package zlib && cd "$sources/zlib" &&
        CC=musl-gcc CFLAGS="-O2 -fPIC" ./configure --static --prefix="$prefix" &&
        make -j"$jobs" install
}
zstd() {
    source_package libzstd &&
        make -C "$sources/libzstd/lib" -j"$jobs" CC=musl-gcc CFLAGS="-O2 -fPIC" \
            PREFIX="$prefix" install-static install-includes install-pc
}
libuv() {
    source_package libuv1 && cd "$sources/libuv1" &&
        cmake -S . -B musl -DCMAKE_C_COMPILER=musl-gcc \
            -DCMAKE_C_FLAGS="-fPIC -idirafter $home/include" -DCMAKE_BUILD_TYPE=Release \
            -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_TESTING=OFF &&
        make -C musl -j"$jobs" install
}
libraries() {
    [ -f "$prefix/done" ] && return
    (zlib) && (zstd) && (libuv) && touch "$prefix/done"
}

# erts, kernel, stdlib, sasl, compiler, and what those need to be built.
otp() {
    local without
    [ -x "$home/otp/bin/erl" ] && return
    source_package erlang && cd "$sources/erlang" || return
    without=$(printf -- ' --without-%s' asn1 common_test crypto debugger dialyzer diameter \
        edoc eldap erl_docgen et eunit ftp inets jinterface megaco mnesia observer odbc os_mon \
        public_key reltool runtime_tools snmp ssh ssl syntax_tools tftp tools wx xmerl)
    export ERL_TOP=$PWD LANG=C.UTF-8
    ./configure CC=musl-gcc CFLAGS="-O2 -g0 -idirafter $home/include" \
        --build=x86_64-linux-musl --prefix="$home/otp" --disable-jit --without-termcap \
        --without-javac --enable-builtin-zlib $without &&
        nice -n 19 make -j"$jobs" && make install
}

# The rest are modules, which are the same everywhere: this machine's.
more_applications() {
    local name path
    rm -rf "$home/more" && mkdir "$home/more"
    for name in inets eunit common_test proper tools runtime_tools xmerl syntax_tools mnesia; do
        path=$(ERL_CRASH_DUMP_BYTES=0 erl -noinput -eval "io:put_chars(code:lib_dir($name)), halt()." 2>/dev/null) &&
            ln -s "$path" "$home/more/"
    done
}

build() { PATH=$home/otp/bin:$PATH ERL_LIBS=$home/more make -C "$copy" build WERROR=1 CC="$cc" -j"$jobs"; }

is_linked_with_musl() {
    readelf -d "$1" | grep NEEDED
    ! readelf -d "$1" | grep -q 'libc\.so\.6'
}

profile() {
    rm -rf "$home/profile" "$home/tests"
    mkdir -p "$home/tests"
    erlc -o "$home/tests" test/support/portable_vm.erl &&
        timeout 120 "$home/otp/bin/erl" -noinput -pa "$copy/_build/default/lib/flame_prof/ebin" \
            "$home/tests" -s portable_vm main "$home/profile" glibc &&
        bin/flame_prof check "$home"/profile/* &&
        PATH=$home/otp/bin:$PATH "$copy/bin/flame_prof" check "$home"/profile/*
}

# All but those of the native engine's reading of C stacks, which include what glibc
# has for its own.
c_tests() {
    local names
    names=$(c_tests_without test_cstack test_cfi test_unwind)
    make -C "$copy" -f tools/test_c.mk VARIANT=musl SANITIZE= CC="$cc" ONLY="$names" \
        -j"$jobs" programs && cd "$copy" &&
        run_c_tests _build/ctest/musl "$names" timeout 300 env LD_LIBRARY_PATH="$prefix/lib"
}

erl_tests() {
    cd "$copy" && : >"$home/results" || return
    PATH=$home/otp/bin:$PATH ERL_LIBS=$home/more RESULTS=$home/results TESTS="$1" \
        tools/test_erl.sh
    cat "$home/results"
    [ -s "$home/results" ] && ! grep -qv ' 0$' "$home/results"
}

attached() {
    local node=flame_prof_musl_$$ said vm status
    said=$home/said
    "$home/otp/bin/erl" -noinput -name "$node@127.0.0.1" -setcookie portability \
        >"$said" 2>&1 &
    vm=$!
    wait_for_node "$node" &&
        attach_names_why "$node@127.0.0.1" portability "it runs on musl (" &&
        cat "$said" && ! grep -q "Failed to load" "$said"
    status=$?
    kill "$vm" && wait "$vm"
    return $status
}

# Where a library finds zstd and libuv for musl: here, and nowhere else.
export PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig
check "musl: libuv, zstd and zlib" libraries || return
check "musl: an Erlang VM" otp || return
more_applications
copy_checkout "$copy"
check "musl: the library builds without a warning" build || return
check "musl: it needs nothing of glibc" is_linked_with_musl "$copy/priv/flame_prof_nif.so"
check "musl: the portable engine profiles, the native one says why not" profile
check "musl: C tests" c_tests
check "musl: Erlang tests" erl_tests \
    "flame_prof_options_tests flame_prof_samples_tests flame_prof_stacks_tests flame_prof_SUITE"
check "musl: attach from glibc says why the library does not fit" attached
