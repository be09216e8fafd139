#include <string.h>

#include "base/error.h"
#include "erts/process_names.h"
#include "session/sampler_internal.h"

/* The frame that stands for a stack that can not be read now; 0: it can. On a
 * dirty scheduler, a process has its whole stack where it says. */
static uint64_t pseudo_frame(const struct fp_snapshot *now)
{
    if (!now->runs_erlang)
        return FP_FRAME_NONE;
    return now->status == FP_STATUS_garbage_collecting ? FP_FRAME_GC
                                                       : FP_FRAME_RUNNING;
}

/* Nothing that its stack depends on has moved since the last sample, and the
 * writer still knows that stack. */
static int stack_is_known(struct fp_sampler *s, const struct target *target,
                          const struct fp_snapshot *now)
{
    return target->series.sampled && target->state == now->state &&
           target->dictionary == now->dictionary && target->i == now->i &&
           target->stop == now->stop && target->hend == now->hend &&
           target->series.value[FP_METRIC_reductions] ==
               now->value[FP_METRIC_reductions] &&
           fp_stack_table_holds(s->stacks, target->series.stack,
                                target->stack_token);
}

/* Read once more what contradicted itself. */
static int decode(struct fp_sampler *s, struct target *target,
                  unsigned char *bytes, struct fp_snapshot *now)
{
    if (fp_process_decode(s->layout, bytes, now) == 0)
        return 0;
    if (now->id != target->id)
        return FP_EGONE;
    if (fp_safe_read(s->options.peek, target->address, bytes,
                     s->layout->snapshot_size) != 0)
        return FP_EGONE;
    return fp_process_decode(s->layout, bytes, now);
}

/* A sample without its stack, whose memory needs its dictionary all the same. */
static void emit_without_stack(struct fp_sampler *s, uint32_t slot,
                               struct fp_snapshot *now, uint64_t frame)
{
    struct target *target = &s->target[slot];
    int64_t bytes;

    if (fp_dictionary_read(s->layout, s->options.peek, target->address, now,
                           &bytes) != 0 ||
        fp_target_add_dictionary(target, now, bytes) != 0)
        fp_emit_torn(s, FP_COUNTER_torn_changed, 1);
    else
        fp_emit_special(s, slot, now, frame);
}

static void plan_capture(struct capture *capture, uint32_t slot,
                         const struct fp_snapshot *now)
{
    uint64_t words = (now->hend - now->stop) / 8;

    capture->target = slot;
    capture->before = *now;
    capture->words = (uint32_t)words;
    capture->leaf_words = (uint32_t)words;
    if (words > FP_STACK_WORDS_MAX) {
        capture->words = FP_STACK_WORDS_MAX;
        capture->leaf_words = FP_STACK_WORDS_LEAF;
    }
}

static void remember(struct fp_sampler *s, uint32_t slot,
                     const unsigned char *bytes)
{
    size_t size = s->layout->snapshot_size;

    memcpy(s->previous + slot * size, bytes, size);
    s->target[slot].repeatable = 1;
}

/* Most processes wait: their structure is what it was, byte for byte, and so
 * is everything that would be read out of it. 1 when that was the sample. */
static int repeat(struct fp_sampler *s, uint32_t slot,
                  const unsigned char *bytes)
{
    struct target *target = &s->target[slot];
    const unsigned char *before =
        s->previous + (size_t)slot * s->layout->snapshot_size;

    if (!target->repeatable ||
        memcmp(bytes, before, s->layout->snapshot_size) != 0 ||
        !fp_stack_table_holds(s->stacks, target->series.stack,
                              target->stack_token))
        return 0;
    fp_sampler_count(s, FP_COUNTER_taken, 1);
    if (fp_series_push(&target->series, s->options.ring, slot,
                       target->series.stack, target->series.status, s->last_us,
                       target->series.value) != 0)
        fp_sampler_count(s, FP_COUNTER_dropped, 1);
    return 1;
}

/* What one look at a chosen process comes to: a sample, a capture to do, or a
 * loss that is counted. 1 when a capture was planned. */
static int look_at(struct fp_sampler *s, uint32_t slot, unsigned char *bytes,
                   int readable, struct capture *capture)
{
    struct target *target = &s->target[slot];
    struct fp_snapshot now;
    uint64_t frame;
    int err;

    if (readable && repeat(s, slot, bytes))
        return 0;
    target->repeatable = 0;
    err = readable ? decode(s, target, bytes, &now) : FP_EGONE;

    if (err == FP_EGONE || now.id != target->id ||
        now.status == FP_STATUS_free) {
        fp_sampler_count(s, FP_COUNTER_taken, 1);
        fp_sampler_count(s, FP_COUNTER_gone, 1);
        fp_target_release(s, slot);
        return 0;
    }
    if (!fp_sampler_wants(target, now.status))
        return 0; /* not asked for */
    fp_sampler_count(s, FP_COUNTER_taken, 1);
    frame = pseudo_frame(&now);
    /* Its scheduler knows better, whatever was read here. */
    if (now.runs_erlang && s->options.running_stacks &&
        fp_on_cpu_request(s, slot) == 0)
        return 0;
    if (err != 0) {
        fp_emit_torn(s, FP_COUNTER_torn_changed, 1);
        return 0;
    }
    if (frame != FP_FRAME_NONE)
        emit_without_stack(s, slot, &now, frame);
    else if (stack_is_known(s, target, &now)) {
        now.value[FP_METRIC_memory] += target->dictionary_bytes;
        if (fp_emit_sample(s, slot, &now, NULL))
            remember(s, slot, bytes);
    } else {
        plan_capture(capture, slot, &now);
        return 1;
    }
    return 0;
}

/* The stack's ends and the dictionary's, then the structure once more, in this
 * order. */
static uint32_t plan_spans(struct fp_sampler *s, struct capture *capture,
                           struct fp_safe_read_span *span)
{
    const struct fp_snapshot *before = &capture->before;
    uint32_t n = 0, root = capture->words - capture->leaf_words;
    unsigned char *again =
        s->again + (size_t)capture->target * s->layout->snapshot_size;

    if (capture->leaf_words > 0)
        span[n++] = (struct fp_safe_read_span){before->stop, capture->word,
                                               8 * capture->leaf_words, 0};
    if (root > 0)
        span[n++] = (struct fp_safe_read_span){
            before->hend - 8ull * root, capture->word + capture->leaf_words,
            8 * root, 0};
    if (before->dictionary != 0)
        span[n++] =
            (struct fp_safe_read_span){before->dictionary, &capture->dictionary,
                                       sizeof capture->dictionary, 0};
    span[n++] = (struct fp_safe_read_span){s->target[capture->target].address,
                                           again, s->layout->snapshot_size, 0};
    capture->spans = n;
    return n;
}

static int same_moment(const struct fp_snapshot *a, const struct fp_snapshot *b)
{
    return a->id == b->id && a->state == b->state && a->stop == b->stop &&
           a->hend == b->hend && a->i == b->i &&
           a->dictionary == b->dictionary &&
           a->value[FP_METRIC_reductions] == b->value[FP_METRIC_reductions];
}

/* Did the process hold still while its stack was copied? */
static int is_whole(struct fp_sampler *s, const struct capture *capture,
                    const struct fp_safe_read_span *span, uint32_t n)
{
    const unsigned char *again =
        s->again + (size_t)capture->target * s->layout->snapshot_size;
    struct fp_snapshot after;

    for (uint32_t i = 0; i < n; i++)
        if (span[i].result != 0)
            return 0;
    if (capture->before.dictionary != 0 &&
        fp_dictionary_bytes(&capture->dictionary) < 0)
        return 0;
    return fp_process_decode(s->layout, again, &after) == 0 &&
           same_moment(&capture->before, &after);
}

/* The frames above those of the stack. Where `i` is in no code, the process
 * waits for a dirty scheduler, or is on one: it points into a trampoline of its
 * own, behind the NIF's name (erl_nfunc_sched.h ErtsNativeFunc). */
static uint32_t top_frames(struct fp_sampler *s, const struct fp_snapshot *now,
                           uint64_t frame[2])
{
    uint32_t n = 0;
    uint64_t mfa[3], nif;

    if (now->status == FP_STATUS_garbage_collecting)
        frame[n++] = FP_FRAME_GC;
    if (fp_ranges_contain(&s->code, now->i))
        return n;
    if (now->i != 0 &&
        fp_safe_read(s->options.peek, now->i - sizeof mfa, mfa, sizeof mfa) ==
            0 &&
        fp_term_is_atom(mfa[0]) && fp_term_is_atom(mfa[1]) && mfa[2] <= 255) {
        nif = fp_emit_nif_name(s, mfa);
        if (nif != FP_FRAME_NONE)
            frame[n++] = nif;
    } else {
        atomic_store_explicit(&s->options.code->stale, 1, memory_order_relaxed);
    }
    return n;
}

static void push_capture(struct fp_sampler *s, struct capture *capture)
{
    struct fp_stack frames;
    uint64_t top[2];
    uint32_t n = top_frames(s, &capture->before, top);

    fp_stack_frames(&frames, &s->code, capture->before.i, capture->word,
                    capture->words, capture->leaf_words);
    fp_stack_put_on_top(&frames, top, n);
    if (fp_process_hibernates(s->layout, s->options.peek, &capture->before)) {
        frames.count = 1;
        frames.frame[0] = FP_FRAME_BIF | capture->before.current;
    }
    if (frames.count == 0) {
        frames.count = 1;
        frames.frame[0] = FP_FRAME_UNREADABLE;
    }
    fp_target_add_dictionary(&s->target[capture->target], &capture->before,
                             fp_dictionary_bytes(&capture->dictionary));
    fp_emit_sample(s, capture->target, &capture->before, &frames);
}

/* A second try for one that moved; after that it is counted as torn. */
static void retry(struct fp_sampler *s, struct capture *capture)
{
    struct target *target = &s->target[capture->target];
    unsigned char *bytes =
        s->structure + (size_t)capture->target * s->layout->snapshot_size;
    struct fp_safe_read_span span[4];
    struct fp_snapshot now = {0};
    uint32_t n;
    int err;

    fp_sampler_count(s, FP_COUNTER_retried, 1);
    if (fp_safe_read(s->options.peek, target->address, bytes,
                     s->layout->snapshot_size) != 0)
        err = FP_EGONE;
    else
        err = fp_process_decode(s->layout, bytes, &now);
    /* It ends: what was begun of it is no sample of what it did before. */
    if (err == FP_EGONE || now.id != target->id ||
        now.status == FP_STATUS_free || now.status == FP_STATUS_exiting) {
        fp_sampler_count(s, FP_COUNTER_gone, 1);
        fp_target_release(s, capture->target);
        return;
    }
    /* Of another status now: not asked for, but begun, so torn. */
    if (!fp_sampler_wants(target, now.status))
        err = FP_ETORN;
    /* Running by now, as likely as not. */
    else if (now.runs_erlang && s->options.running_stacks &&
             fp_on_cpu_request(s, capture->target) == 0)
        return;
    if (err == 0) {
        if (pseudo_frame(&now) != FP_FRAME_NONE) {
            emit_without_stack(s, capture->target, &now, pseudo_frame(&now));
            return;
        }
        plan_capture(capture, capture->target, &now);
        capture->word = s->stack_words;
        n = plan_spans(s, capture, span);
        fp_safe_read_batch(s->options.peek, span, n);
        if (is_whole(s, capture, span, n)) {
            push_capture(s, capture);
            return;
        }
    }
    /* Without its stack, what a process does is known all the same. */
    if (err == 0 && now.status == FP_STATUS_garbage_collecting)
        emit_without_stack(s, capture->target, &now, FP_FRAME_GC);
    else
        fp_emit_torn(s, FP_COUNTER_torn_changed, 1);
}

/* Captures [from, to): their stacks fit into the scratch together. */
static void capture_together(struct fp_sampler *s, uint32_t from, uint32_t to)
{
    uint32_t spans = 0, at = 0;
    uint32_t torn = 0;

    for (uint32_t i = from; i < to; i++)
        spans += plan_spans(s, &s->capture[i], s->span + spans);
    fp_safe_read_batch(s->options.peek, s->span, spans);
    for (uint32_t i = from; i < to; i++) {
        struct capture *capture = &s->capture[i];
        int whole = is_whole(s, capture, s->span + at, capture->spans);

        if (whole)
            push_capture(s, capture);
        at += capture->spans;
        if (!whole)
            s->capture[from + torn++] = *capture;
    }
    /* After the others: these overwrite the scratch. */
    for (uint32_t i = from; i < from + torn; i++)
        retry(s, &s->capture[i]);
}

static void capture_all(struct fp_sampler *s, uint32_t n)
{
    uint32_t from = 0, used = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (used + s->capture[i].words > FP_SAMPLER_STACK_WORDS) {
            capture_together(s, from, i);
            from = i;
            used = 0;
        }
        s->capture[i].word = s->stack_words + used;
        used += s->capture[i].words;
    }
    capture_together(s, from, n);
}

void fp_off_cpu_sample_all(struct fp_sampler *s)
{
    size_t size = s->layout->snapshot_size;
    uint32_t captures = 0;

    fp_targets_drop_released(s);
    for (uint32_t k = 0; k < s->live_n; k++) {
        uint32_t slot = s->live[k];

        s->span[k] = (struct fp_safe_read_span){s->target[slot].address,
                                                s->structure + slot * size,
                                                (uint32_t)size, 0};
    }
    fp_safe_read_view(s->options.peek, s->span, s->live_n);
    for (uint32_t k = 0; k < s->live_n; k++) {
        uint32_t slot = s->live[k];

        captures +=
            (uint32_t)look_at(s, slot, s->span[k].into, s->span[k].result == 0,
                              &s->capture[captures]);
    }
    capture_all(s, captures);
}
