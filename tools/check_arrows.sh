#!/bin/bash
# Check the dependencies of the folders of c_src/ (doc/dev/internals.md draws them), and of the
# doctor's rules.
#
# 1. A file includes files of its own folder and of the folders that `below' lists,
#    by the path below c_src. No file is an exception.
# 2. A system header, or a way into memory or to files, is used in the places that
#    are listed for it only.
# 3. No two files have one name, and no two structs.
# 4. A module of src/rules names those of its folder and of src/util, what a rule is, the facts of
#    samples, and the looks whose terms it is given: of waits also their graph, and the names of
#    what is asked for. So no rule reaches for what is not evidence.
# 5. Proofs, benchmarks and helpers of tests call no suite of test/live: they are compiled without
#    these.
#
# Prints each violation with its file; the exit status is 0 when there is none.
set -u
cd "$(dirname "$0")/.." || exit 1
wrong=0

complain() {
    echo "  wrong  $*" >&2
    wrong=$((wrong + 1))
}

# The folders that a folder may include.
below() {
    case $1 in
    base) echo "" ;;
    cstack | format | store | terms) echo "base" ;;
    erts) echo "cstack format base" ;; # the perf map spells symbols as files do
    waits | xray) echo "erts base" ;;
    tracer) echo "erts format base" ;;
    session) echo "waits erts cstack format store base" ;;
    report) echo "format store base" ;;
    nif) echo "erts format terms base" ;; # what both libraries of a node share
    agent_nif) echo "nif session erts cstack format store terms base" ;;
    looks_nif) echo "nif session tracer xray waits erts format store terms base" ;;
    report_nif) echo "report format store terms base" ;;
    *) return 1 ;;
    esac
}

count=0
while IFS=: read -r file line; do
    count=$((count + 1))
    file=${file#c_src/} included=$(cut -d '"' -f 2 <<<"$line")
    from=${file%%/*} to=${included%%/*}
    [ -e "c_src/$included" ] || complain "$file includes $included: no such file below c_src"
    [ "$from" = "$to" ] && continue
    allowed=$(below "$from") || complain "$file is in a folder that is not listed here"
    case " $allowed " in
    *" $to "*) ;;
    *) complain "$file includes $included" ;;
    esac
done < <(grep -rHE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' --include='*.[ch]' c_src)
[ "$count" -gt 20 ] || complain "only $count includes were seen"

only_in() { # what, extended expression, the places below c_src
    local what=$1 expression=$2 file
    shift 2
    while read -r file; do
        case " $* " in
        *" ${file#c_src/} "* | *" $(cut -d / -f 2 <<<"$file")/ "*) ;;
        *) complain "${file#c_src/} has $what" ;;
        esac
    done < <(grep -rlE --include='*.[ch]' "$expression" c_src)
}

# Code only: what an error's text or a comment says is no use of it.
only_in erl_nif.h '#[[:space:]]*include[[:space:]]*<erl_' \
    agent_nif/ looks_nif/ report_nif/ nif/ terms/
only_in uv.h '#[[:space:]]*include[[:space:]]*<uv\.h>' \
    session/writer.c session/writer.h store/fs.c agent_nif/agent_nif.c
only_in zlib.h '#[[:space:]]*include[[:space:]]*<zlib\.h>' store/source.c report/output.c
only_in zstd.h '#[[:space:]]*include[[:space:]]*<zstd\.h>' store/ agent_nif/agent_nif.c
only_in process_vm_readv '\<process_vm_readv[[:space:]]*\(' base/safe_read.c base/safe_read.h
only_in 'calls on files by name' '\<(open|unlink|rename|mkdir|link)(at)?[[:space:]]*\(' \
    store/ base/safe_read.c base/seccomp.c base/maps.c erts/perf_map.c cstack/ report/
only_in 'mappings of its own' '\<(mmap|mremap|munmap)[[:space:]]*\(' \
    base/pages.c base/ring.c base/safe_read.c base/seccomp.c \
    erts/capture/sigcapture.c erts/capture/shutdown.c \
    session/sampler_thread.c
# A word that was read becomes a term in nif/terms_out.c, which asks erts/atom.c; the agent has
# pids alone, which session/inspect.c has compared with the process table.
only_in 'the index of an atom' '\<fp_atom_index\>' erts/
only_in 'a count of atoms' '\<atom_entries\>' erts/
only_in /proc/self/mem 'open[a-z]*[[:space:]]*\([^)]*/proc/self/mem' base/safe_read.c

while read -r name; do
    complain "two files are called $name"
done < <(find c_src -name '*.[ch]' -printf '%f\n' | sort | uniq -d)
while read -r name; do
    complain "two types are called struct $name"
done < <(grep -rhoE --include='*.[ch]' '^(typedef )?struct [a-z_0-9]+ \{' c_src |
    sed -E 's/.*struct ([a-z_0-9]+) .*/\1/' | sort | uniq -d)

given='doctor_(rule|samples|stacks)|binaries|memory|waits|waits_graph|waits_text'
while IFS=: read -r file module _; do
    [ -e "src/rules/$module.erl" ] || [ -e "src/util/$module.erl" ] || complain "$file names $module"
done < <(grep -roE '\<flame_prof_[a-z_]+:|-import\([[:space:]]*flame_prof_[a-z_]+' src/rules |
    sed -E 's/-import\([[:space:]]*//; s/:?$/:/' | sort -u | grep -vE ":flame_prof_($given):")

while IFS=: read -r file suite; do
    complain "$file calls $suite, which is not compiled with it"
done < <(grep -roE '\<flame_prof_[a-z_]+_(SUITE|tests):' test/proof test/support test/soak bench)

if [ "$wrong" -ne 0 ]; then
    echo "tools/check_arrows.sh: $wrong wrong" >&2
    exit 1
fi
echo "  ok    $count includes go where they may"
