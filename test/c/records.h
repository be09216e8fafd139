/* records.h - the records of core/record.h, made by hand.
 *
 * Each make_* fills the buffer and returns it as a record, whose head.size is what would be pushed
 * into the ring. Text may have any bytes (struct bytes); BYTES("...") is for literals. */
#pragma once

#include <stddef.h>
#include <string.h>

#include "format/record.h"

struct bytes {
    const char *text;
    size_t size;
};
#define BYTES(literal) ((struct bytes){(literal), sizeof(literal) - 1})
#define NO_BYTES ((struct bytes){"", 0})

union record_buffer {
    struct fp_record head;
    struct fp_record_process process;
    struct fp_record_frame frame;
    struct fp_record_stack stack;
    struct fp_record_name name;
    struct fp_record_sample sample;
    unsigned char bytes[8192];
};

struct call {
    struct bytes module, function;
    uint64_t arity;
};
#define CALL(m, f, a) ((struct call){BYTES(m), BYTES(f), (a)})
#define NO_CALL ((struct call){NO_BYTES, NO_BYTES, 0})

static inline const struct fp_record *make_head(union record_buffer *b, uint8_t type, size_t size)
{
    b->head.size = (uint32_t)((size + 7) & ~(size_t)7);
    b->head.type = type;
    return &b->head;
}

static inline size_t append(union record_buffer *b, size_t at, struct bytes bytes)
{
    if (bytes.size != 0)
        memcpy(b->bytes + at, bytes.text, bytes.size);
    return at + bytes.size;
}

/* PROCESS with text. */
static inline const struct fp_record *make_process(union record_buffer *b, uint32_t slot,
                                                   uint32_t number, uint32_t serial,
                                                   struct bytes name, struct call initial,
                                                   struct call proc_lib)
{
    size_t at = offsetof(struct fp_record_process, text);

    memset(b, 0, at);
    b->process.slot = slot;
    b->process.is_text = 1;
    b->process.number = number;
    b->process.serial = serial;
    b->process.registered_name = name.size;
    b->process.initial_call =
        (struct fp_mfa_words){initial.module.size, initial.function.size, initial.arity};
    b->process.proc_lib_initial_call =
        (struct fp_mfa_words){proc_lib.module.size, proc_lib.function.size, proc_lib.arity};
    at = append(b, at, name);
    at = append(b, at, initial.module);
    at = append(b, at, initial.function);
    at = append(b, at, proc_lib.module);
    at = append(b, at, proc_lib.function);
    return make_head(b, FP_RECORD_PROCESS, at);
}

/* PROCESS with atom words. */
static inline const struct fp_record *make_process_of_atoms(union record_buffer *b, uint32_t slot,
                                                            uint32_t number, uint64_t name,
                                                            struct fp_mfa_words initial,
                                                            struct fp_mfa_words proc_lib)
{
    memset(b, 0, sizeof(b->process));
    b->process.slot = slot;
    b->process.number = number;
    b->process.registered_name = name;
    b->process.initial_call = initial;
    b->process.proc_lib_initial_call = proc_lib;
    return make_head(b, FP_RECORD_PROCESS, sizeof(b->process));
}

/* PROCESS of a scheduler that runs none. */
static inline const struct fp_record *make_scheduler(union record_buffer *b, uint32_t slot,
                                                     uint32_t number)
{
    memset(b, 0, sizeof(b->process));
    b->process.slot = slot;
    b->process.is_scheduler = 1;
    b->process.number = number;
    return make_head(b, FP_RECORD_PROCESS, sizeof(b->process));
}

/* NAME with atom words. */
static inline const struct fp_record *make_name(union record_buffer *b, uint32_t slot,
                                                struct fp_mfa_words mfa)
{
    memset(b, 0, sizeof(b->name));
    b->name.slot = slot;
    b->name.mfa = mfa;
    return make_head(b, FP_RECORD_NAME, sizeof(b->name));
}

static inline const struct fp_record *make_frame(union record_buffer *b, uint32_t id,
                                                 struct bytes module, struct bytes function,
                                                 uint16_t arity, uint32_t line, struct bytes file)
{
    size_t at = offsetof(struct fp_record_frame, text);

    memset(b, 0, at);
    b->frame.id = FP_FRAME_TEXT | id;
    b->frame.line = line;
    b->frame.arity = arity;
    b->frame.module_len = (uint16_t)module.size;
    b->frame.function_len = (uint16_t)function.size;
    b->frame.file_len = (uint16_t)file.size;
    at = append(b, at, module);
    at = append(b, at, function);
    at = append(b, at, file);
    return make_head(b, FP_RECORD_FRAME, at);
}

static inline const struct fp_record *make_stack(union record_buffer *b, uint32_t slot,
                                                 const uint64_t *frame, uint16_t count)
{
    size_t at = offsetof(struct fp_record_stack, frame);

    memset(b, 0, at);
    b->stack.slot = slot;
    b->head.count = count;
    if (count != 0)
        memcpy(b->stack.frame, frame, count * sizeof(*frame));
    return make_head(b, FP_RECORD_STACK, at + count * sizeof(*frame));
}

/* SAMPLE with value[i] = base + i * 1000 and delta[i] = step. */
static inline const struct fp_record *make_sample(union record_buffer *b, uint32_t process,
                                                  uint32_t stack, int64_t time_us, int64_t base,
                                                  int64_t step)
{
    memset(b, 0, sizeof(b->sample));
    b->sample.process = process;
    b->sample.stack = stack;
    b->sample.time_us = time_us;
    for (int i = 0; i < FP_METRIC_COUNT; i++) {
        b->sample.value[i] = base + i * 1000;
        b->sample.delta[i] = step;
    }
    return make_head(b, FP_RECORD_SAMPLE, sizeof(b->sample));
}

static inline const struct fp_record *make_repeat(union record_buffer *b, uint32_t process,
                                                  uint32_t stack, int64_t time_us)
{
    memset(b, 0, FP_RECORD_REPEAT_SIZE);
    b->sample.process = process;
    b->sample.stack = stack;
    b->sample.time_us = time_us;
    return make_head(b, FP_RECORD_REPEAT, FP_RECORD_REPEAT_SIZE);
}
