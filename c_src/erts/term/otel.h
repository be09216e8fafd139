/* otel.h - the trace and the span that a process works for, as OpenTelemetry's API for Erlang keeps
 * them in the process dictionary (opentelemetry_api: otel_ctx.erl, otel_tracer.erl,
 * opentelemetry.hrl):
 *
 *   '$__current_otel_ctx'        #{{otel_tracer, span_ctx} => SpanCtx, _ => _}
 *   SpanCtx of 9 elements        {span_ctx, TraceId, SpanId, _ ...}        1.0 to 1.4
 *   SpanCtx of 11 elements       {span_ctx, TraceId, _, SpanId, _ ...}     from 1.5 on
 *
 * TraceId is an integer below 2^128, SpanId one below 2^64; 0 is none. Nothing else is looked at:
 * no other key of the map, no other element.
 *
 *   map of at most 32 keys       header, size, keys (a tuple), values     erl_map.h
 *   integer of 60 bits or more   words << 6 | 0x08, words, lowest first   erl_term.h
 *
 * A larger map has another header: its ids are absent. The header of a map differs between
 * releases; calibration takes it from a map of its own, and checks integers (layout->otel;
 * looks_nif/calibrate_otel.c).
 *
 * fp_otel_find() reads no memory. It looks at windows, which are copies of memory, and says which
 * one it lacks; the caller reads that and calls it again. So a tick reads the windows of many
 * processes at once, and the signal handler copies the windows of a running process without a look
 * at their words. The ids are valid only if the caller proves that the process did not move
 * while the windows were read. No allocation; any thread. */
#pragma once

#include "base/safe_read.h"
#include "erts/layout.h"
#include "format/record.h"

/* The words of the heap that were read: while a process does not change its span and collects no
 * garbage, the next read needs the same words. */
#define FP_OTEL_PLACES 8u
struct fp_otel_places {
    uint64_t entry; /* of the dictionary, or a list of such */
    uint32_t count;
    uint32_t words[FP_OTEL_PLACES];
    uint64_t address[FP_OTEL_PLACES];
};

struct fp_otel {
    uint64_t dictionary; /* address of its structure */
    uint64_t key;        /* a word that is {otel_tracer, span_ctx}, as found by now; 0: none */
    struct {
        uint64_t address; /* 0: nothing */
        uint32_t words;
    } lacks;
    uint64_t slot; /* address of the dictionary's slot */
    uint8_t is_as_before;
    struct fp_otel_places places;
    struct fp_windows windows;
};

/* `key`, not 0: what an fp_otel of the same moment has found. */
void fp_otel_start(struct fp_otel *otel, uint64_t dictionary, uint64_t key);

/* FP_OK and *trace; FP_ENOENT: the process has no current span; FP_ESTATE: a window is lacking. */
int fp_otel_find(struct fp_otel *otel, const struct fp_layout *layout, struct fp_trace *trace);

/* After FP_ESTATE: what is to be read, how many. Where that lies in a place of `places`, these are
 * all of them: it is as it was before. */
uint32_t fp_otel_windows(struct fp_otel *otel, const struct fp_otel_places *places,
                         struct fp_safe_read_span span[FP_OTEL_PLACES]);
/* After each was read, to where `span` said. */
void fp_otel_was_read(const struct fp_safe_read_span *span);

/* All of it, one read after the other: FP_OK or FP_ENOENT. */
int fp_otel_read(struct fp_otel *otel, const struct fp_layout *layout,
                 const struct fp_memory *memory, struct fp_trace *trace);

/* The same of a context that is at hand, for calibration and tests. */
int fp_otel_context(struct fp_otel *otel, const struct fp_layout *layout,
                    const struct fp_memory *memory, uint64_t context, struct fp_trace *trace);
