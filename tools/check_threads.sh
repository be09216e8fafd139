#!/bin/bash
# Check what the sampler's thread, the signal handler and the callbacks of tracing can
# call, by following the calls in the machine code of the library that is loaded.
#
#   tools/check_threads.sh           the check
#   tools/check_threads.sh --prove   does the check find anything?
#
# From the first function of each (roots, below) every call, every jump and every
# function whose address is taken on the way is followed. A call through a
# pointer must be listed with where it can lead; what is called of other
# libraries must be listed with the reason why it may be, and so must the numbers
# that are given to syscall(2). The exit status is 0 when all is listed.
# --prove builds the library with one wrong thing at a time, and fails unless each
# is found. Both need what `make nif` leaves in _build/c: the agent with its symbols,
# which is stripped when it is put into priv/, and its objects.
set -u
cd "$(dirname "$0")/.." || exit 1
: "${CC:=gcc}"

# Calls through pointers: "function: where they lead". Several functions, because
# compilers differ in what they inline into what. "none" is not followed: once in
# that function.
pointers="
fp_safe_read: read_by_copy read_by_syscall read_by_file
read_prefix: read_by_copy read_by_syscall read_by_file
fp_safe_read_batch: read_by_copy read_by_syscall read_by_file
fp_safe_read_view: read_by_copy read_by_syscall read_by_file
add_native: fp_on_cpu_unwind
fp_explain_frames: fp_on_cpu_unwind
sampler_main: none
fp_check_broken: none
enabled: trace_enabled enabled
fp_nif_enabled: trace_enabled enabled
fp_nif_trace: trace_trace trace
fp_tracer_enter: is_in_time is_always
fp_tracer_enter_end: is_in_time is_always
enter: is_in_time is_always"
# sampler_main calls `ended' when there will be no other tick. fp_check_broken has a hook in tests
# only.

# What a read of foreign memory needs; all are in POSIX' list of functions that
# are async-signal-safe, or said why not.
reads="
memcpy     POSIX' list (2016)
getpid     POSIX' list
pread      POSIX' list; of /proc/self/mem, where seccomp refuses the others
pread64    the same
process_vm_readv  a system call and nothing else; of memory only
syscall    the numbers are checked below"

# The handler interrupts anything: a malloc, a lock that is held.
fp_handler="$reads
clock_gettime     POSIX' list; the vDSO
__errno_location  an address in the thread's static TLS, there since its start
memset            POSIX' list (2016)
memmove           POSIX' list (2016)
memcmp            POSIX' list (2016)
bcmp              what clang makes of memcmp
__stack_chk_fail  ends the VM, where the distribution's compiler guards stacks
__memcpy_chk      memcpy, or ends the VM"

# The sampler must not wait for anybody.
sampler_main="$fp_handler
clock_nanosleep   between ticks, and only there
sigaction         POSIX' list; asks once a tick whether the signal is still the handler's"

# x86_64: 0xba gettid, 0x128 pwritev (into our memfd), 0x129 rt_tgsigqueueinfo.
numbers="0xba 0x128 0x129"

# In the middle of a call or a send of a process that is traced: no lock, no memory of its own.
# What of ERTS may be called reads a term, or says why not. `enabled' has no process, and so makes
# no term. The kind `allocations' reads words of the process, which collects and stands still.
fp_nif_enabled="$reads
__errno_location  an address in the thread's static TLS, there since its start
memset            POSIX' list (2016)
__memcpy_chk      memcpy, or ends the VM
__memset_chk      memset, or ends the VM
enif_priv_data
enif_get_ulong
enif_thread_type
enif_is_identical
enif_get_resource
clock_gettime     the vDSO
__stack_chk_fail  ends the VM, where the distribution's compiler guards stacks"

fp_nif_trace="$fp_nif_enabled
enif_is_atom
enif_is_number
enif_is_binary
enif_is_empty_list
enif_is_list
enif_is_tuple
enif_is_map
enif_is_ref
enif_is_fun
enif_is_pid
enif_is_port
enif_get_local_pid
enif_get_local_port
enif_get_long
enif_get_uint
enif_get_double
enif_get_tuple
enif_get_list_cell
enif_get_map_size
enif_get_map_value
enif_map_iterator_create    allocates for a map of more than 32 keys
enif_map_iterator_get_pair
enif_map_iterator_next
enif_map_iterator_destroy   frees that
enif_inspect_binary         copies a binary that does not begin at a byte
enif_snprintf     the text of a reference, a fun, or a pid or port of another node
enif_make_tuple   for a session that follows sends alone (sends.c), as are the next two
enif_make_ulong
enif_send         of a new process that is sent to, which is seldom"

# Of the agent, and of the library of looks.
roots_of() { # library
    case $1 in
    *looks*) echo fp_nif_enabled fp_nif_trace ;;
    *) echo sampler_main fp_handler ;;
    esac
}

follow() { # library, root: says what is wrong, last "reached N"
    local allowed=${!2}
    LC_ALL=C objdump -d --no-show-raw-insn "$1" | awk -v root="$2" \
        -v pointers="$(echo "$pointers" | tr '\n' ';')" -v numbers=" $numbers " \
        -v allowed=" $(awk 'NF { print $1 }' <<<"$allowed" | tr '\n' ' ') " \
        -f tools/follow_calls.awk
}

check() { # library: 0 when all that is reached may be
    local root found wrong=0 reached=
    LC_ALL=C readelf -h "$1" | grep -q 'Machine:.*X86-64' || {
        echo "  skip  $1: only the instructions of x86_64 are understood"
        return 0
    }
    # Symbols are bound at load: no call runs the dynamic linker.
    readelf -d "$1" | grep -qw BIND_NOW || {
        echo "  wrong  $1 binds its symbols when they are first called" >&2
        wrong=1
    }
    for root in $(roots_of "$1"); do
        found=$(follow "$1" "$root")
        reached="$reached, $root ${found##*reached }"
        found=$(grep -v '^reached ' <<<"$found") && {
            wrong=1
            awk -v root="$root" '{ print "  wrong  " root ": " $0 }' <<<"$found" >&2
        }
    done
    # What a compiler has made of it, so that a check of nothing is seen.
    [ "$(grep -oE '[0-9]+' <<<"$reached" | sort -n | head -1)" -ge 5 ] || wrong=1
    [ $wrong = 0 ] && echo "  ok    functions followed, none waits or allocates: ${reached#, }"
    return $wrong
}

# ------------------------------------------------------------- the proof --
# The library with one statement more: it must be found, and by its name.
prove_one() { # source below c_src, the line to put it behind, statement, finding
    local build said object=$tmp/wrong.o folder=agent_nif library=$tmp/agent.so
    build=$(cat _build/c/linked)
    case $1 in looks_nif/*) folder=looks_nif library=$tmp/looks.so ;; esac
    mkdir -p "$tmp/c_src" && cp -r c_src/. "$tmp/c_src" &&
        awk -v after="$2" -v wrong="{ $3 }" '{ print }
            index($0, after) && !done { print wrong; done = 1 }
            END { exit !done }' "c_src/$1.c" >"$tmp/c_src/$1.c" &&
        $CC -std=c11 -O2 -fPIC -fvisibility=hidden -pthread -w -D_GNU_SOURCE= -I"$tmp/c_src" \
            -include stdlib.h -include unistd.h -include pthread.h \
            -c -o "$object" "$tmp/c_src/$1.c" &&
        # shellcheck disable=SC2046
        $CC -shared -pthread -Wl,-z,now -Wl,-Bsymbolic -o "$library" "$object" \
            $(cd c_src && printf "$build/%s.o\n" "$folder"/*.c | sed 's,\.c\.o,.o,' |
                grep -vxF "$build/$1.o") \
            "$build/members.a" $(cat "$build/libs.agent") || {
        echo "  wrong  $1.c with $3 could not be built" >&2
        return 1
    }
    if said=$(check "$library" 2>&1) || ! grep -qF "$4" <<<"$said"; then
        echo "  wrong  $3 in $1.c is not found" >&2
        return 1
    fi
}

prove() {
    local wrong=0 tick="fp_targets_drop_exited(s);"
    local handler="capture->result = FP_CAPTURE_NO_PROCESS;"
    local event="header.time_ns = fp_monotonic_ns();"
    tmp=$(mktemp -d)
    trap 'rm -rf "$tmp"' EXIT
    prove_one session/sampler "$tick" \
        'static void *volatile p; p = malloc(1);' "malloc < fp_sampler_tick" || wrong=1
    prove_one session/sampler "$tick" \
        'static void *(*volatile p)(size_t); p = malloc;' "malloc < fp_sampler_tick" || wrong=1
    prove_one base/ring "ring->reserved = head;" \
        'static void (*volatile f)(void); if (f) f();' "a call through a pointer < " || wrong=1
    prove_one erts/capture/handler "$handler" \
        'static pthread_mutex_t m; pthread_mutex_lock(&m);' "pthread_mutex_lock < " || wrong=1
    prove_one erts/capture/handler "$handler" \
        'extern long syscall(long, ...); syscall(1, 2, "", 1);' "system call 0x1 < " || wrong=1
    prove_one erts/capture/handler "$handler" \
        'static _Thread_local volatile int t; t++;' "__tls_get_addr < " || wrong=1
    prove_one looks_nif/trace_nif "$event" 'static void *volatile p; p = enif_alloc(1);' \
        "enif_alloc < trace_trace" || wrong=1
    prove_one looks_nif/trace_nif "if (enif_thread_type() == ERL_NIF_THR_UNDEFINED)" \
        'static _Thread_local volatile int t; t++; return UINT32_MAX;' "__tls_get_addr < " ||
        wrong=1
    [ $wrong = 0 ] && echo "  ok    what a tick, the handler or a callback must not call is found when it does"
    return $wrong
}

case ${1:-} in
--prove) prove ;;
'')
    for library in flame_prof_nif flame_prof_looks_nif; do
        check "$(cat _build/c/linked)/$library.so" || exit 1
    done
    ;;
*) echo "tools/check_threads.sh [--prove]" >&2 && exit 2 ;;
esac
