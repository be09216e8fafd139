#!/bin/bash
# Install what is missing, and say what.
#
#   tools/deps.sh build        to build the library and run the demo
#   tools/deps.sh build test   to run the tests and checks as well
#   tools/deps.sh analyze      for make analyze and make valgrind
#   tools/deps.sh foreign      for make test-foreign, as far as it is to be had
#   tools/deps.sh list SET...  print the packages of a set (for tools/matrix.sh)
#
# On Debian and its children the packages come with apt-get, through sudo when
# we are not root. Elsewhere what is missing is named and nothing is changed. An
# Erlang that is not the distribution's (kerl, asdf, a source build) is kept.
set -u

# build: the compiler, headers, libraries; zstd, the command, reads our files;
# inets serves the viewer's page; edoc makes what the shell's h/1 shows.
BUILD="gcc libc6-dev make libuv1-dev libzstd-dev zlib1g-dev zstd"
BUILD_ERLANG="erlang-base erlang-dev erlang-edoc erlang-inets"
# test-erl: what the Erlang tests need, on each release of the matrix.
TEST_ERLANG="erlang-eunit erlang-common-test erlang-proper erlang-tools
    erlang-xmerl erlang-crypto erlang-runtime-tools erlang-syntax-tools
    erlang-inets erlang-mnesia erlang-ssl"
# test: on this machine, also the C tests (clang and its sanitizers' runtime),
# the checks, and debootstrap for the matrix.
# e2fsprogs: the tests of failing disks make a file system.
TEST="e2fsprogs clang libclang-rt-dev clang-format debootstrap tmux cmark-gfm"
CHECK_ERLANG="erlang-dialyzer rebar3"
# analyze: for make analyze and make valgrind.
ANALYZE="clang cppcheck valgrind"
# Where there is none, the test that wants it goes without: perf, to read our map;
# elixir, to be profiled; jiffy, somebody else's NIF to work beside ours (not in each
# release of the matrix); chromium, with node and npm, for the viewer's page
# and the assistants' client; musl's headers.
TEST_OPTIONAL="linux-perf elixir erlang-jiffy chromium musl-tools"
TEST_ERLANG_OPTIONAL="erlang-jiffy"
# foreign: perl for stackcollapse-perf.pl; chromium, node and npm for speedscope.
FOREIGN_OPTIONAL="perl chromium"

say() { echo "flame_prof: $*"; }

fail() {
    say "$@" >&2
    exit 1
}

# Is there an Erlang that no package of this system owns?
own_erlang() {
    local erl
    erl=$(command -v erl) || return 1
    ! dpkg-query -S "$(readlink -f "$erl")" >/dev/null 2>&1
}

# Those who have node from elsewhere (NodeSource, nvm) have npm with it, and
# Debian's packages do not go together with theirs.
node_packages() {
    command -v node >/dev/null || echo nodejs
    command -v npm >/dev/null || echo npm
}

wanted() { # set...: the packages of these sets
    local set erlang=1
    own_erlang && erlang=
    for set in "$@"; do
        case $set in
        build) echo $BUILD ${erlang:+$BUILD_ERLANG} ;;
        test-erl) echo ${erlang:+$TEST_ERLANG} ;;
        test-erl-optional) echo ${erlang:+$TEST_ERLANG_OPTIONAL} ;;
        foreign) ;;
        analyze) echo $ANALYZE ;;
        test) echo $TEST ${erlang:+$TEST_ERLANG $CHECK_ERLANG} ;;
        *) fail "tools/deps.sh: no such set: $set" ;;
        esac
    done
}

not_installed() { # package...
    local package
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null |
            sort -u | head -n 1)" = installed ] || echo "$package"
    done
}

has_candidate() { # package...: does apt know a version of each?
    local known
    known=$(LC_ALL=C apt-cache policy "$@" 2>/dev/null |
        grep -c '^  Candidate: [^(]')
    [ "$known" -ge $# ]
}

# How apt-get becomes root, in $root; fails where it cannot.
become_root() {
    root=
    [ "$(id -u)" -ne 0 ] || return 0
    command -v sudo >/dev/null || return 1
    root="sudo"
    say "not root: apt-get runs through sudo"
}

apt_get() {
    $root env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 \
        apt-get -q -o Dpkg::Use-Pty=0 -o Acquire::Retries=5 "$@"
}
install="install -y --no-install-recommends"

on_debian() {
    local missing
    missing=$(not_installed $(wanted "$@"))
    if [ -z "$missing" ]; then
        say "everything that $* needs is installed"
        return
    fi
    say "to be installed with apt-get:" $missing
    become_root || fail "not root, and there is no sudo; as root:" \
        "apt-get install --no-install-recommends" $missing
    local refreshed=
    if ! has_candidate $missing; then
        say "the package lists are missing or old: apt-get update"
        apt_get update || fail "apt-get update failed"
        refreshed=1
    fi
    apt_get $install $missing || {
        # Lists that are older than the mirror name files it no longer has.
        [ -z "$refreshed" ] || fail "apt-get could not install the packages"
        say "once more with fresh package lists"
        apt_get update || fail "apt-get update failed"
        apt_get $install $missing || fail "apt-get could not install the packages"
    }
    say "installed:" $missing
}

# What tests can do without: never a failure.
on_debian_perhaps() { # package...
    local package
    for package in $(not_installed "$@"); do
        if has_candidate "$package" && become_root && apt_get $install "$package"
        then
            say "installed: $package"
        else
            say "$package is not to be had here; tests that want it are skipped"
        fi
    done
}

header() { echo "#include <$1>" | ${CC:-cc} -E - >/dev/null 2>&1; }
module() { erl -noinput -eval \
    "halt(case code:which($1) of non_existing -> 1; _ -> 0 end)." 2>/dev/null; }

# Elsewhere: look for the things themselves, name the packages that Debian has
# them in; other systems name theirs alike.
elsewhere() {
    local set missing=
    lacks() { missing="$missing
  $1 (Debian: $2)"; }
    for set in "$@"; do
        case $set in
        build)
            command -v "${CC:-cc}" >/dev/null || lacks "a C compiler" "gcc libc6-dev"
            header uv.h || lacks "libuv and its headers" libuv1-dev
            header zstd.h || lacks "zstd and its headers" libzstd-dev
            header zlib.h || lacks "zlib and its headers" zlib1g-dev
            command -v erlc >/dev/null ||
                lacks "Erlang/OTP 25 or newer, with headers" "$BUILD_ERLANG"
            ;;
        test)
            command -v clang >/dev/null || command -v gcc >/dev/null ||
                lacks "clang with its sanitizers, or gcc" "clang libclang-rt-dev"
            command -v zstd >/dev/null || lacks "the zstd command" zstd
            module eunit || lacks EUnit erlang-eunit
            module ct || lacks "Common Test" erlang-common-test
            ;;
        analyze)
            command -v clang >/dev/null || lacks clang clang
            command -v cppcheck >/dev/null || lacks cppcheck cppcheck
            command -v valgrind >/dev/null || lacks valgrind valgrind
            ;;
        foreign) ;; # tools/test_foreign.sh says what is missing
        *) fail "tools/deps.sh: no such set: $set" ;;
        esac
    done
    [ -z "$missing" ] && say "everything that $* needs is installed" && return
    say "this is not Debian: please install, with what your system has for it:$missing" >&2
    exit 1
}

if [ "${1:-}" = list ]; then
    shift
    own_erlang() { false; }
    wanted "$@"
elif command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
    on_debian "$@"
    case " $* " in *" test "*) on_debian_perhaps $TEST_OPTIONAL $(node_packages) ;; esac
    case " $* " in *" foreign "*) on_debian_perhaps $FOREIGN_OPTIONAL $(node_packages) ;; esac
else
    elsewhere "$@"
fi
