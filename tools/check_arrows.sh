#!/bin/bash
# Check which rooms know of each other, and what the sampler's tick can reach.
#
# 1. Includes point down only (doc/internals.md draws the rooms).
# 2. Each foreign header, and each way into memory that is not ours, has its
#    one room.
# 3. Object code that a tick runs through calls nothing that allocates, locks or
#    does I/O, but for what creates and ends it: each object has a list.
#
# Says every arrow that should not be; the exit status is 0 when there is none.
# CC is the compiler of part 3.
set -u
cd "$(dirname "$0")/.." || exit 1
: "${CC:=gcc}"
wrong=0

complain() {
    echo "  wrong  $*" >&2
    wrong=$((wrong + 1))
}

room_of() { # path below c_src
    case $1 in
    nif/* | core/* | out/* | read/* | vm/* | native/* | sampler/*)
        echo "${1%%/*}"
        ;;
    *) basename "${1%.*}" ;;
    esac
}

# What a room may include, besides itself.
below() {
    case $1 in
    nif)
        echo "session portable sampler schedulers selector perf_map read" \
            "native out/unzst.h vm core"
        ;;
    session)
        echo "sampler selector.h writer native_symbols portable native/live.h out core vm"
        ;;
    self) echo "core out/clock.h" ;;
    sampler) echo "schedulers selector native vm core" ;;
    schedulers) echo "vm core" ;;
    selector) echo "vm core" ;;
    portable) echo "core" ;;
    perf_map) echo "vm out core" ;;
    native_symbols) echo "native vm out/symbolizer.h core" ;;
    writer) echo "self core out" ;;
    out) echo "core" ;;
    # Numbers and names are spelled as the writer spells them.
    read) echo "core out/buffer.h out/perf_script.h" ;;
    vm) echo "core" ;;
    native) echo "core" ;;
    core) echo "" ;;
    *) return 1 ;;
    esac
}

# "file included" for each include in quotes, both below c_src.
arrows() {
    local file line included
    while IFS=: read -r file line; do
        included=$(sed -E 's/^[^"]*"([^"]*)".*/\1/' <<<"$line")
        echo "${file#c_src/} $(realpath -m --relative-to=c_src \
            "$(dirname "$file")/$included")"
    done < <(grep -rHE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' \
        --include='*.[ch]' c_src)
}

count=0
while read -r file included; do
    count=$((count + 1))
    from=$(room_of "$file")
    to=$(room_of "$included")
    [ -e "c_src/$included" ] || complain "$file includes $included: no such file"
    [ "$from" = "$to" ] && continue
    if ! allowed=$(below "$from"); then
        complain "$file is in a room that is not listed here"
        continue
    fi
    case " $allowed " in
    *" $to "* | *" $included "*) ;;
    *) complain "$file includes $included" ;;
    esac
done < <(arrows)
[ "$count" -gt 20 ] || complain "only $count includes were seen"

only_in() { # what, extended expression, the places below c_src
    local what=$1 expression=$2 file
    shift 2
    while read -r file; do
        case " $* " in
        *" ${file#c_src/} "* | *" $(dirname "${file#c_src/}")/ "*) ;;
        *) complain "${file#c_src/} has $what" ;;
        esac
    done < <(grep -rlE --include='*.[ch]' "$expression" c_src)
}

# Code only: what an error's text or a comment says is no use of it.
only_in erl_nif.h '#[[:space:]]*include[[:space:]]*<erl_' nif/
only_in uv.h '#[[:space:]]*include[[:space:]]*<uv\.h>' \
    writer.c writer.h out/disk.c nif/nif.c
only_in zlib.h '#[[:space:]]*include[[:space:]]*<zlib\.h>' read/
only_in process_vm_readv 'process_vm_readv[[:space:]]*\(' vm/peek.c vm/peek.h
only_in zstd.h '#[[:space:]]*include[[:space:]]*<zstd\.h>' \
    out/zst.c out/unzst.c out/recover.c read/ nif/nif.c
only_in 'calls on files by name' '\<(open|unlink|rename|mkdir|link)(at)?[[:space:]]*\(' \
    out/disk.c vm/peek.c vm/maps.c perf_map.c native/ read/
only_in 'mappings of its own' '\<(mmap|mremap|munmap)[[:space:]]*\(' \
    core/pages.c core/ring.c schedulers.c selector.c sampler/sampler.c vm/peek.c
only_in /proc/self/mem 'open[a-z]*[[:space:]]*\([^)]*/proc/self/mem' vm/peek.c

# ------------------------------------------------------ the sampler's tick --
plain="memcpy memset memcmp memmove __assert_fail __stack_chk_fail
       _GLOBAL_OFFSET_TABLE_"

# What an object may need of others. Right of the bar: its birth and its end.
needs() {
    case $1 in
    sampler/sampler)
        echo "fp_selector_step fp_selector_slots fp_live_ranges_copy
            fp_sampler_adopt fp_handover_take fp_sampler_look_at_all
            fp_sampler_collect fp_sampler_forget_stacks fp_sampler_ask_all
            fp_sampler_is_asking fp_sampler_drain fp_selector_divide
            fp_governor_ask fp_governed clock_gettime clock_nanosleep |
            fp_governor_init
            fp_selector_create fp_selector_destroy fp_stack_table_create
            fp_stack_table_destroy fp_sampler_running_create
            fp_schedulers_count fp_schedulers_enter fp_schedulers_leave calloc free
            mmap munmap sigfillset
            pthread_sigmask pthread_create pthread_join pthread_setname_np" ;;
    sampler/samples)
        echo "fp_ring_reserve fp_ring_commit fp_series_push fp_names_read
            fp_pid_numbers fp_stack_table_intern fp_stack_table_token
            fp_stack_table_forget" ;;
    sampler/targets)
        echo "fp_process_decode fp_dictionary_bytes fp_selector_chosen
            fp_ptab_lookup fp_handover_begin fp_handover_publish" ;;
    sampler/stopped)
        echo "fp_peek_read fp_peek_batch fp_peek_view fp_process_decode
            fp_stack_frames fp_series_push fp_stack_table_holds fp_sampler_ask
            fp_sampler_decode fp_sampler_push fp_sampler_push_special
            fp_sampler_release fp_sampler_drop_released fp_sampler_name_nif
            fp_stack_put_on_top fp_dictionary_bytes_of" ;;
    sampler/running)
        echo "fp_peek_read fp_peek_batch fp_native_unwind fp_running_frames
            fp_process_field fp_sampler_decode fp_sampler_push
            fp_sampler_push_idle fp_sampler_meet fp_schedulers_data
            fp_schedulers_find fp_schedulers_request fp_schedulers_answer
            fp_schedulers_release fp_schedulers_handler_ns clock_nanosleep |
            fp_schedulers_code" ;;
    schedulers)
        echo "fp_running_capture clock_gettime syscall __errno_location |
            fp_peek_read fp_is_return_address fp_code_first fp_err_text
            fp_peek_open_small fp_peek_close getpid getauxval sigaltstack
            sigaction sigfillset __libc_current_sigrtmin
            __libc_current_sigrtmax dladdr dlopen dlclose mmap munmap snprintf
            pthread_rwlock_wrlock pthread_rwlock_rdlock pthread_rwlock_tryrdlock
            pthread_rwlock_unlock nanosleep" ;;
    vm/running)
        echo "fp_peek_read fp_process_field fp_stack_frames fp_bif_light
            fp_bif_heavy fp_bif_is_schedule fp_bif_is_raise fp_jump_target
            fp_bif_is_breakpoint fp_bif_breakpoint_mfa
            fp_call_target fp_is_return_address fp_stack_put_on_top" ;;
    vm/bif) echo "fp_peek_read memcmp" ;;
    selector)
        echo "fp_peek_read fp_pid_slot fp_process_field fp_field_width
            fp_process_decode fp_ptab_read | mmap munmap" ;;
    vm/process) echo "fp_field_width" ;;
    vm/stack) echo "" ;;
    vm/names | vm/ptab) echo "fp_peek_read" ;;
    vm/peek)
        echo "process_vm_readv pread getpid syscall | open close memfd_create
            ftruncate mmap munmap" ;;
    vm/layout_table) echo "memcmp strlen" ;;
    native/unwind) echo "fp_cfi_row fp_cfi_expression fp_cfi_evaluate" ;;
    native/cfi | native/cfi_expression) echo "" ;;
    core/ring) echo "| mmap munmap" ;;
    core/handover) echo "| fp_pages_take fp_pages_give" ;;
    core/stack_table) echo "| calloc aligned_alloc free" ;;
    core/governor) echo "" ;;
    core/pages) echo "| mmap mremap munmap" ;;
    core/pool) echo "| fp_pages_take fp_pages_give" ;;
    core/series) echo "fp_ring_reserve fp_ring_commit" ;;
    core/stats) echo "" ;;
    esac
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for object in sampler/sampler sampler/samples sampler/targets \
    sampler/stopped sampler/running schedulers selector vm/running vm/bif vm/process vm/stack vm/names vm/ptab vm/peek \
    vm/layout_table native/unwind native/cfi native/cfi_expression core/ring \
    core/handover core/stack_table core/series core/stats core/governor \
    core/pages core/pool; do
    if ! $CC -std=c11 -O2 -D_GNU_SOURCE= -Ic_src -w -fno-stack-protector \
        -U_FORTIFY_SOURCE -c -o "$tmp/object.o" "c_src/$object.c"; then
        complain "$object.c does not compile"
        continue
    fi
    allowed=" $(echo $plain $(needs "$object")) "
    while read -r symbol; do
        case $allowed in
        *" $symbol "*) ;;
        *) complain "$object.o needs $symbol" ;;
        esac
    done < <(nm -u "$tmp/object.o" | awk '{ print $NF }')
done

if [ "$wrong" -ne 0 ]; then
    echo "tools/check_arrows.sh: $wrong wrong" >&2
    exit 1
fi
echo "  ok    $count includes point down, a tick reaches nothing that waits"
