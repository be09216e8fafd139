/* error.h - the list of errors.
 *
 * Functions that can fail return 0 or a negative fp_err. fp_err_name() gives the atom text that
 * Erlang sees; fp_err_text() one sentence for a person. Safe from any thread. */
#pragma once

/* Terms, counters and the records of the ring are 64 bits wide everywhere. */
#if !defined(__SIZEOF_POINTER__) || __SIZEOF_POINTER__ != 8
#error "flame_prof needs a 64-bit system: a compiler and an Erlang of 64 bits"
#endif

#define FP_ERR_MAP(X)                                                                              \
    X(NOMEM, "enomem", "memory could not be reserved")                                             \
    X(INVAL, "einval", "an argument is outside what is accepted")                                  \
    X(NOENT, "enoent", "there is nothing at that place")                                           \
    X(FAULT, "efault", "the address is not readable memory of this process")                       \
    X(DENIED, "reads_denied", "neither process_vm_readv nor /proc/self/mem may be used here")      \
    X(SIGNAL, "signal_denied", "no real-time signal may be used or sent here")                     \
    X(FULL, "full", "a bounded table or ring has no room")                                         \
    X(TORN, "torn", "the process changed while it was being read")                                 \
    X(GONE, "gone", "the process does not exist any more")                                         \
    X(LAYOUT, "layout", "memory is not laid out as this release's table says")                     \
    X(AMBIGUOUS, "ambiguous", "more than one place in memory fits the answer")                     \
    X(UNSUPPORTED, "unsupported", "this VM or platform is not supported")                          \
    X(THREAD, "thread", "a native thread could not be started")                                    \
    X(IO, "io", "a file operation failed")                                                         \
    X(STATE, "bad_state", "the session is not in a state that allows this")                        \
    X(UNVERIFIED, "unverified", "no probe has verified captures of this class")                    \
    X(BROKEN, "broken_invariant", "an invariant is broken")                                        \
    X(NEWER, "newer_format", "its format is newer than 3, the last that this version reads")       \
    X(MIXED, "mixed_files",                                                                        \
      "files of samples (.erl_perf.log) and files of allocations (.erl_alloc.log) are read "       \
      "apart: "                                                                                    \
      "give those of one kind")

enum fp_err_index {
#define FP_ERR_INDEX(name, atom, text) FP_ERR_INDEX_##name,
    FP_ERR_MAP(FP_ERR_INDEX)
#undef FP_ERR_INDEX
        FP_ERR_COUNT
};

enum fp_err {
    FP_OK = 0,
#define FP_ERR_VALUE(name, atom, text) FP_E##name = -(FP_ERR_INDEX_##name + 1),
    FP_ERR_MAP(FP_ERR_VALUE)
#undef FP_ERR_VALUE
};

/* "torn" for FP_ETORN; "unknown" for any other number. */
const char *fp_err_name(int err);

/* One sentence, no full stop; never NULL. */
const char *fp_err_text(int err);
