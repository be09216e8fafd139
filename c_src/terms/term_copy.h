/* term_copy.h - a bounded copy of a term, as bytes of its own, and the term made of them again.
 *
 * A tracer's callback has a term only while it runs, and sends none: it writes a copy into a ring,
 * and a process reads the ring later. The copy is bounded in depth, in elements and in bytes, thus
 * in time: it visits at most `bytes` terms, in some 10 ns each. Not bounded is a binary that does
 * not begin at a byte: ERTS copies it as a whole before its size can be asked for.
 *
 * Exact: atoms, integers of 64 bits, floats, local pids and ports, and what is made of them. An
 * atom or a local pid is its word: that is immediate, and means the same until the VM ends.
 * References, funs, and pids and ports of other nodes are texts. The rest is left out, and marked:
 *
 *      '...'                        what a limit left out; a larger integer; a bitstring;
 *                                   a native record of OTP 29
 *      [a,b|'...']                  a list, cut
 *      {'...', tuple, N, [a,b]}     a tuple of N elements, cut
 *      {'...', map, N, [{k,v}]}     a map of N pairs, cut
 *      {'...', binary, N, <<"ab">>} a binary of N bytes, cut
 *      {'...', text, <<"#Ref<..>">>}
 *
 * Writing allocates nothing of its own. What ERTS does for it, on the scheduler's own allocators:
 * an iterator for a map of more than 32 keys; that copy of a binary, until the callback ends; and
 * a binary that is being appended to is trimmed, so that the next append copies it.
 *
 * Any scheduler, in a NIF. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <erl_nif.h>

#define FP_TERM_COPY_DEPTH_MAX 32u

struct fp_term_copy_limits {
    uint32_t depth; /* of tuples, lists and maps inside of each other; at most the maximum */
    uint32_t bytes; /* of the copy, from where it begins */
    uint32_t items; /* elements of one list, tuple or map */
    uint32_t
        outer; /* so many levels around the term are free of `depth` and `items`: the VM's own */
};

/* A copy may be longer than `bytes` by this: its last element, and the ends of what is open. */
#define FP_TERM_COPY_SLACK (320u + FP_TERM_COPY_DEPTH_MAX)

/* Writes the copy to `out`, which has room for limits->bytes + FP_TERM_COPY_SLACK. Its length. */
size_t fp_term_copy(ErlNifEnv *env, ERL_NIF_TERM term, const struct fp_term_copy_limits *limits,
                    unsigned char *out);

/* Makes the term of the copy at *at, and moves *at behind it. 0, or -1 where the bytes before `end`
 * are no copy: no byte is trusted, but that words of atoms and pids are this VM's. */
int fp_term_restore(ErlNifEnv *env, const unsigned char **at, const unsigned char *end,
                    ERL_NIF_TERM *term);
