/* layout.h - where things are inside the running VM.
 *
 * A struct fp_layout is found once in a VM's life and never changes: layout_solve.c compares memory
 * with what Erlang says in public, layout_table.c has what each release is expected to be, and the
 * native engine runs where both agree in every field. It holds no pointer into a library: one
 * library finds it, the others take a copy (nif/vm.h).
 *
 * Offsets are in bytes from the start of `struct process` (erl_process.h). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/maps.h"
#include "base/safe_read.h"

/* X(field, width in bytes): the members of the process structure that are read. */
#define FP_FIELD_MAP(X)                                                                            \
    X(id, 8)           /* the pid term */                                                          \
    X(registered, 8)   /* -> struct whose word at +32 is the name */                               \
    X(htop, 8)         /* heap top */                                                              \
    X(stop, 8)         /* stack top; stale while Erlang code runs */                               \
    X(heap, 8)         /* heap start */                                                            \
    X(hend, 8)         /* heap end, and the start of the stack */                                  \
    X(i, 8)            /* code address where it continues */                                       \
    X(reds, 8)         /* reductions done, up to the last schedule-out */                          \
    X(inner_len, 8)    /* messages fetched to the inner queue */                                   \
    X(outer_len, 8)    /* messages in the shared in-queue */                                       \
    X(dictionary, 8)   /* -> ProcDict, or NULL */                                                  \
    X(initial_call, 8) /* module, function, arity: three words */                                  \
    X(parent, 8)       /* pid term of the process that spawned it */                               \
    X(high_water, 8)   /* end of what survived the last minor GC */                                \
    X(old_hend, 8)                                                                                 \
    X(old_htop, 8)                                                                                 \
    X(old_heap, 8)  /* NULL when there is none */                                                  \
    X(gen_gcs, 2)   /* minor GCs since the last full sweep */                                      \
    X(bin_vheap, 8) /* off_heap.overhead: words of refc binaries */                                \
    X(mbuf_size, 8) /* words in heap and message fragments */                                      \
    X(bin_vheap_block, 8)                                                                          \
    X(bin_old_vheap_block, 8)                                                                      \
    X(bin_old_vheap, 8)                                                                            \
    X(state, 4) /* ERTS_PSFLG_* */

enum fp_field {
#define FP_FIELD_ENUM(name, width) FP_FIELD_##name,
    FP_FIELD_MAP(FP_FIELD_ENUM)
#undef FP_FIELD_ENUM
        FP_FIELD_COUNT
};

enum fp_field_width {
#define FP_FIELD_WIDTH(name, width) FP_WIDTH_##name = width,
    FP_FIELD_MAP(FP_FIELD_WIDTH)
#undef FP_FIELD_WIDTH
};

uint32_t fp_field_width(enum fp_field field);

/* RegProc {hash bucket, process, port, name}: 16 + 8 + 8 (register.h). */
#define FP_NAME_IN_REGISTRATION 32u

/* Where a pid term has its slot in the process table and its number. */
enum fp_pid_form {
    FP_PID_SLOT_HIGH, /* slot in bits 32..63, number and serial in 4..31 */
    FP_PID_SLOT_LOW   /* slot and data share bits 4..63, permuted */
};

/* Where an atom's entry has its text. */
enum fp_atom_form {
    FP_ATOM_NAME_POINTER, /* a pointer to the bytes */
    FP_ATOM_NAME_BINARY   /* a term: a binary in the literal area */
};

/* Offsets that captures need and calibration does not find. A scheduler that registers compares
 * them with what it is doing (capture/sigcapture.c); where they differ, captures are off. */
struct fp_capture_offsets {
    /* in struct process */
    uint16_t scheduler_data; /* -> ErtsSchedulerData, NULL when not running */
    uint16_t fcalls;         /* reductions left, int32 */
    uint16_t current;        /* -> module, function, arity; or NULL */
    /* in ErtsSchedulerData */
    uint16_t current_process;
    uint16_t number; /* 1.. for a normal scheduler, 0 for a dirty one */
};

/* Where struct process has its signal queues (erl_message.h). Calibration walks the probes' queues
 * by them; where it does not find what was sent, mailboxes are refused and nothing else. */
struct fp_queue_offsets {
    uint16_t inner;   /* first, last, save: the messages that it has fetched */
    uint16_t middle;  /* first, last: fetched, with signals between them */
    uint16_t outer;   /* first, last, length: what senders append to */
    uint16_t buffers; /* -> an array of in-queues of a process with many senders, or NULL */
};

/* The layout by the sources of a release; provenance: layout_table.c. */
struct fp_release {
    uint16_t otp;     /* 25 */
    uint8_t tested;   /* in the tested matrix */
    uint8_t pid_form; /* enum fp_pid_form */
    uint8_t pid_number_bits;
    uint8_t atom_form;                  /* enum fp_atom_form */
    uint8_t functions_to_line_table;    /* words back from functions[0] */
    uint8_t functions_to_num_functions; /* likewise */
    uint16_t process_size;              /* sizeof(struct process) */
    uint16_t message_size;              /* sizeof(ErtsMessage) */
    struct fp_capture_offsets running;
    struct fp_queue_offsets queue;
    uint16_t offset[FP_FIELD_COUNT];
};

/* The entry for an OTP release, NULL when the table does not list it. */
const struct fp_release *fp_release_find(unsigned otp);

/* Atoms that the VM's entries are found by; 0: none. */
struct fp_known_terms {
    uint64_t initial_call;  /* '$initial_call', proc_lib's */
    uint64_t process_label; /* '$process_label', of OTP 27 and later */
    uint64_t erlang, hibernate;
};

/* X(field, text): the atoms that tell a message's envelope (term/message.h). Made at calibration;
 * where one is 0, messages with this envelope are told without it. */
/* clang-format off */
#define FP_ENVELOPE_MAP(X) \
    X(gen_call, "$gen_call") \
    X(gen_cast, "$gen_cast") \
    X(notify, "notify") \
    X(sync_notify, "sync_notify") \
    X(call, "call") \
    X(system, "system") \
    X(io_request, "io_request") \
    X(DOWN, "DOWN") \
    X(EXIT, "EXIT") \
    X(timeout, "timeout") \
    X(alias, "alias") \
    X(cast, "cast") \
    X(info, "info") \
    X(state_timeout, "state_timeout")
/* clang-format on */

struct fp_envelopes {
#define FP_ENVELOPE_FIELD(name, text) uint64_t name;
    FP_ENVELOPE_MAP(FP_ENVELOPE_FIELD)
#undef FP_ENVELOPE_FIELD
};

/* Of OpenTelemetry's context (term/otel.h): atoms, and the header of a map of at most 32 keys. */
struct fp_otel_terms {
    uint64_t context, otel_tracer, span_ctx;
    uint64_t map_header; /* 0: calibration has not found these terms as they should be */
};

struct fp_layout {
    struct fp_known_terms term;
    struct fp_envelopes envelope;
    struct fp_otel_terms otel;
    uint8_t terms, remote_terms; /* proven at calibration: term/walk.h reads them here */
    struct fp_release release;   /* the table's, or what was found instead */
    uint16_t snapshot_size;      /* bytes of the structure that are read */
    uint64_t process_table;      /* address of the array of process pointers */
    uint32_t process_limit;      /* its length */
    uint32_t port_limit;         /* that of the ports' array; 0: not known */
    uint64_t atom_segments;      /* address of the atom index's segment table */
    uint64_t atom_entries;       /* address of its u32 number of entries */
    char queue_refusal[72];      /* why mailboxes cannot be read; "": they can */
};

/* Where struct process has the address of its monitors' root (monitors.h). */
static inline uint32_t fp_monitors_offset(const struct fp_layout *layout)
{
    return layout->release.offset[FP_FIELD_registered] + 24u;
}

/* Bytes of a process structure that calibration reads. */
#define FP_PROBE_WINDOW 1024u
/* Tags (erl_term.h, the same in all listed releases). */
static inline int fp_term_is_atom(uint64_t term)
{
    return (term & 0x3f) == 0x0b;
}
static inline int fp_term_is_pid(uint64_t term)
{
    return (term & 0x0f) == 0x03;
}
