/* record.h - the records in the ring, from either engine to the writer.
 *
 * A definition precedes its first use. The ring keeps order, so a slot that is defined anew needs
 * no lock and no generation.
 *
 *   PROCESS  slot := this Erlang process, its names and initial calls; or an idle scheduler
 *   FRAME    id := the text parts of one frame        (portable engine only)
 *   NAME     slot := a NIF's module, function, arity; once (native engine only)
 *   STACK    slot := these frames, leaf first
 *   SAMPLE   one sample of a process with all its metrics
 *   REPEAT   one sample of a process, equal to the one before in status, stack and every metric
 *   WEIGHTED words that a process has allocated, of a stack: in a file of its own
 *
 * Behind a SAMPLE or REPEAT may stand a struct fp_work, which its size tells.
 *
 * All sizes are multiples of 8. Text is UTF-8 and not terminated. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/message_kinds.h"
#include "base/metric.h"

/* Slots of the two tables that writer and sampler keep in step. */
#define FP_STACK_SLOTS 8192u
#define FP_PROCESS_SLOTS 16384u

/* The version of doc/format.md that sessions write, and the last that is read. */
#define FP_FORMAT 3
#define FP_FORMAT_TEXT "3"

/* Frames of one stack: with initial calls, status and marker at most the grammar's 255. */
#define FP_STACK_FRAMES_MAX 250u

/* The end of the year 9999. A later time is a bug, and times in a file never decrease. */
#define FP_TIME_US_MAX (INT64_C(253402300799) * 1000000)

/* Frame words. A word below FP_FRAME_SPECIAL_END is one of these; a word with FP_FRAME_TEXT set is
 * the id of a FRAME record; one with FP_FRAME_BIF or FP_FRAME_NIF is the address of the three words
 * that name one; any other is a code address, of Erlang or of C (for a return address: that address
 * minus one). */
enum fp_frame_special {
    FP_FRAME_NONE = 0,
    FP_FRAME_TRUNCATED,  /* frames left out here: stack deeper than the limit */
    FP_FRAME_RUNNING,    /* the process was running: its stack was not read */
    FP_FRAME_GC,         /* it was collecting garbage: its stack was not read */
    FP_FRAME_UNREADABLE, /* the stack could not be read */
    FP_FRAME_AMBIGUOUS,  /* the frames above this one are not certain */
    FP_FRAME_IDLE,       /* the scheduler runs no process */
    FP_FRAME_SPECIAL_END
};
#define FP_FRAME_TEXT (UINT64_C(1) << 63)
#define FP_FRAME_BIF (UINT64_C(1) << 62)
#define FP_FRAME_NIF (UINT64_C(1) << 61)
/* With FP_FRAME_NIF: no address, but the slot of a NAME record. */
#define FP_FRAME_SLOT (UINT64_C(1) << 60)
#define FP_NAMED_SLOTS 1024u

enum fp_record_type {
    FP_RECORD_PAD = 0,
    FP_RECORD_PROCESS,
    FP_RECORD_FRAME,
    FP_RECORD_STACK,
    FP_RECORD_SAMPLE,
    FP_RECORD_REPEAT,
    FP_RECORD_NAME,
    FP_RECORD_WEIGHTED
};

struct fp_record {
    uint32_t size;  /* of the whole record, in bytes */
    uint8_t type;   /* enum fp_record_type */
    uint8_t status; /* enum fp_status; SAMPLE and REPEAT */
    uint16_t count; /* STACK: number of frames. SAMPLE and REPEAT: the scheduler that ran the
                       process, from 1 on; 0: none, or not known */
};

/* Module and function are atom words of the VM, or lengths of text. module == 0: there is none. */
struct fp_mfa_words {
    uint64_t module, function, arity;
};

struct fp_record_process {
    struct fp_record head;
    uint32_t slot;
    uint8_t is_text;      /* 1: names are text (portable engine), 0: atom words */
    uint8_t is_scheduler; /* the idle scheduler `number` */
    uint8_t goes_on;      /* it has had the slot since its last sample: names may differ, no more */
    uint8_t unused;
    uint32_t number; /* of <0.Number.Serial> */
    uint32_t serial;
    /* is_text == 0: atom words, 0 for none. is_text == 1: byte lengths of pieces of text[], in the
     * order registered name, label, initial module and function, $initial_call module and function;
     * 0 for none. */
    uint64_t registered_name;
    uint64_t label;
    struct fp_mfa_words initial_call;
    struct fp_mfa_words proc_lib_initial_call; /* $initial_call */
    char text[];
};

struct fp_record_frame {
    struct fp_record head;
    uint64_t id;   /* FP_FRAME_TEXT | n, n < FP_FRAME_TEXT_MAX */
    uint32_t line; /* 0: not known */
    uint16_t arity;
    uint16_t module_len, function_len, file_len; /* pieces of text[], in order */
    uint16_t unused[3];
    char text[];
};
#define FP_FRAME_TEXT_MAX 65536u

struct fp_record_name {
    struct fp_record head;
    uint32_t slot;
    uint32_t unused;
    struct fp_mfa_words mfa; /* atom words */
};

struct fp_record_stack {
    struct fp_record head;
    uint32_t slot;
    uint32_t unused;
    uint64_t frame[]; /* leaf first, head.count of them */
};

struct fp_record_sample {
    struct fp_record head;
    uint32_t process; /* slot */
    uint32_t stack;   /* slot */
    int64_t time_us;  /* Unix time of the tick; a tick that waited for a capture comes late */
    /* REPEAT ends here. */
    int64_t value[FP_METRIC_COUNT];
    int64_t delta[FP_METRIC_COUNT];
};
#define FP_RECORD_REPEAT_SIZE (8u + 8u + 8u)

/* Why there was a collection of garbage, as far as the process shows. */
#define FP_GC_CAUSE_MAP(X)                                                                         \
    X(unknown)                                                                                     \
    X(heap)      /* the heap is full */                                                            \
    X(fragments) /* messages, or large terms that the heap had no room for */                      \
    X(binaries)  /* binaries off the heap */                                                       \
    X(other)     /* on request, or the process went to hibernate */

enum fp_gc_cause {
#define FP_GC_CAUSE_ENUM(name) FP_GC_CAUSE_##name,
    FP_GC_CAUSE_MAP(FP_GC_CAUSE_ENUM)
#undef FP_GC_CAUSE_ENUM
        FP_GC_CAUSES
};

static inline const char *fp_gc_cause_name(unsigned cause)
{
#define FP_GC_CAUSE_NAME(name) #name,
    static const char *const names[] = {FP_GC_CAUSE_MAP(FP_GC_CAUSE_NAME)};
#undef FP_GC_CAUSE_NAME

    return cause < FP_GC_CAUSES ? names[cause] : names[0];
}

/* The fate of the words. */
#define FP_HEAP_FATE_MAP(X) X(not_known) X(kept) X(garbage)

enum fp_heap_fate {
#define FP_HEAP_FATE_ENUM(name) FP_HEAP_FATE_##name,
    FP_HEAP_FATE_MAP(FP_HEAP_FATE_ENUM)
#undef FP_HEAP_FATE_ENUM
        FP_HEAP_FATES
};

struct fp_record_weighted {
    struct fp_record head;
    uint32_t process; /* slot */
    uint32_t stack;   /* slot */
    int64_t time_us;
    uint64_t weight; /* words, 1 or more */
    uint8_t fate;    /* enum fp_heap_fate */
    uint8_t cause;   /* enum fp_gc_cause */
    uint8_t is_long; /* 1: the collection is told */
    uint8_t is_major;
    uint8_t message_kind; /* enum fp_message_kind */
    uint8_t unused[3];
    uint64_t collection_us; /* its length */
    struct fp_tag message;
};

/* What a process waits for, and what `target` and `node` are of it. */
enum fp_work_target {
    FP_WORK_NO_TARGET,      /* or not known */
    FP_WORK_PROCESS,        /* number, serial */
    FP_WORK_PORT,           /* number */
    FP_WORK_REMOTE_PROCESS, /* number, serial; node: atom word */
    FP_WORK_REMOTE_NAME,    /* atom word; node: atom word */
    FP_WORK_LOCK,
    FP_WORK_SOCKET,
    FP_WORK_TARGETS
};

/* Ids of OpenTelemetry. */
struct fp_trace {
    uint64_t id[2]; /* the high half, the low half */
    uint64_t span;  /* 0: none */
};

/* The message in work and the wait of a process: words of this sample. All 0: nothing is known. */
struct fp_work {
    uint8_t kind;   /* enum fp_message_kind of `message` */
    uint8_t waits;  /* enum fp_work_target */
    uint8_t serves; /* 1: the message is the call served_ref */
    uint8_t calls;  /* 1: it waits for the answer to the call called_ref */
    uint32_t unused;
    struct fp_tag message, request;
    uint32_t served_ref[3], called_ref[3]; /* n[0], n[1], n[2] */
    union {
        uint32_t pid[2];
        uint64_t word; /* the port's number, an atom word */
    } target;
    uint64_t node;
    struct fp_trace trace;
};

/* The work behind a sample's record, or NULL. */
static inline const struct fp_work *fp_record_work(const struct fp_record *record)
{
    uint32_t size = record->type == FP_RECORD_REPEAT ? FP_RECORD_REPEAT_SIZE
                                                     : (uint32_t)sizeof(struct fp_record_sample);

    return record->size == size + sizeof(struct fp_work)
               ? (const struct fp_work *)(const void *)((const char *)record + size)
               : NULL;
}
