#include "tracer/turns.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/error.h"
#include "base/random.h"
#include "base/relaxed.h"
#include "erts/process.h"
#include "erts/process_table.h"

/* A node has fewer processes that are collected so often. */
#define TURNS 1024u
#define TRIED 8u
#define GAPS 31.0
#define MOST_LEAST 2.0
#define FIRST_REDUCTIONS 10000.0
#define MOST_REDUCTIONS 320000.0
/* A gap is no more than such a part of what the process has done in its life: one that ends soon
 * has short ones. */
#define LIFE 4.0
/* Collections of a turn: the next one has twice as many reductions, or half. */
#define FEW 16u
#define MANY 64u
/* Times scheduled in between two readings of the reductions. */
#define ASKED 16u
/* A turn of so many more than planned was not seen to its end: another has taken the flag. */
#define UNSEEN_REDUCTIONS 80000.0
/* Polls after which it is asked whether a process is still there, and has its flag. */
#define POLLS 50u
/* The weight of past turns in the words for a reduction, with each further one. */
#define KEPT 0.9

enum state {
    NEW,  /* as DUE, but until then each word stands for itself */
    DUE,  /* it begins when the process, with its flag, is scheduled in */
    TURN, /* of the process's scheduler: it goes on */
    GAP,  /* of the poll */
};

struct fp_turn {
    _Atomic uint64_t pid; /* 0: free */
    _Atomic int state;    /* releases what the others are */
    _Atomic uint64_t address;
    _Atomic uint64_t at;     /* reductions, when the turn or the gap began */
    _Atomic uint64_t polled; /* reductions, at the last poll */
    _Atomic uint32_t waits;  /* polls since then, without a change or a turn's end */
    _Atomic double debt, weight, density;
    double length, ratio; /* planned; and what came of it, the last time */
    double gap, most;
    double words, all_words, all_reductions, all_collections;
    uint32_t collections, asked, turns;
};

struct fp_turns {
    const struct fp_layout *layout;
    const struct fp_memory *memory;
    double mean;
    _Atomic uint64_t random;
    _Atomic double debt;
    uint32_t polled; /* where the next poll begins */
    struct fp_turn turn[TURNS];
};

/* From 0.5 to 1.5. Two threads may draw the same. */
static double drawn(struct fp_turns *turns)
{
    uint64_t x = atomic_load_explicit(&turns->random, memory_order_relaxed);
    double part = fp_random_uniform(&x);

    atomic_store_explicit(&turns->random, x, memory_order_relaxed);
    return 0.5 + part;
}

/* Of this process: the structure may be another's by now. One system call. */
static int read_reductions(const struct fp_turns *turns, const struct fp_turn *turn, uint64_t *reds)
{
    const uint16_t *offset = turns->layout->release.offset;
    uint64_t address = atomic_load_explicit(&turn->address, memory_order_relaxed), id = 0;
    struct fp_safe_read_span span[] = {
        {.address = address + offset[FP_FIELD_id], .into = &id, .size = sizeof id},
        {.address = address + offset[FP_FIELD_reds], .into = reds, .size = sizeof *reds},
    };

    if (fp_safe_read_batch(turns->memory, span, 2) != 2 ||
        id != atomic_load_explicit(&turn->pid, memory_order_relaxed))
        return FP_EGONE;
    return 0;
}

/* Reductions since the turn or the gap began. */
static double since(const struct fp_turn *turn, uint64_t reds)
{
    uint64_t at = atomic_load_explicit(&turn->at, memory_order_relaxed);

    return reds > at ? (double)(reds - at) : 0;
}

static uint32_t place(const struct fp_turns *turns, uint64_t pid, uint32_t i)
{
    return (fp_pid_slot(turns->layout, pid) + i) % TURNS;
}

struct fp_turn *fp_turns_find(struct fp_turns *turns, uint64_t pid)
{
    for (uint32_t i = 0; i < TRIED; i++) {
        struct fp_turn *turn = &turns->turn[place(turns, pid, i)];

        if (atomic_load_explicit(&turn->pid, memory_order_acquire) == pid)
            return turn;
    }
    return NULL;
}

void fp_turns_join(struct fp_turns *turns, uint64_t pid)
{
    uint64_t address, claimed = 1;

    if (fp_process_table_lookup(turns->layout, turns->memory, pid, &address) != 0)
        return;
    for (uint32_t i = 0; i < TRIED; i++) {
        struct fp_turn *turn = &turns->turn[place(turns, pid, i)];
        uint64_t none = 0;

        if (!atomic_compare_exchange_strong(&turn->pid, &none, claimed))
            continue;
        atomic_store_explicit(&turn->address, address, memory_order_relaxed);
        turn->length = FIRST_REDUCTIONS;
        turn->ratio = 1;
        turn->most = MOST_LEAST;
        turn->words = turn->all_words = turn->all_reductions = turn->all_collections = 0;
        turn->collections = turn->asked = turn->turns = 0;
        fp_relaxed_put_real(&turn->debt, 0);
        fp_relaxed_put_real(&turn->density, 0);
        atomic_store_explicit(&turn->waits, 0, memory_order_relaxed);
        atomic_store_explicit(&turn->state, NEW, memory_order_relaxed);
        atomic_store_explicit(&turn->pid, pid, memory_order_release);
        return;
    }
}

void fp_turn_leave(struct fp_turn *turn)
{
    atomic_store_explicit(&turn->pid, 0, memory_order_release);
}

double fp_turn_weight(const struct fp_turn *turn)
{
    int state = atomic_load_explicit(&turn->state, memory_order_acquire);

    return state == TURN ? fp_relaxed_real(&turn->weight) : state == NEW ? 1 : 0;
}

void fp_turn_count(struct fp_turn *turn, double words)
{
    turn->words += words;
    turn->collections++;
}

static void begin(struct fp_turns *turns, struct fp_turn *turn, int state, uint64_t reds)
{
    double debt = fp_relaxed_real(&turn->debt), length = turn->length * turn->ratio;
    double gaps = turn->most - 1 < GAPS ? turn->most - 1 : GAPS, weight;

    (void)FP_CHECK(length > 0 && turn->most >= MOST_LEAST);
    debt += state == NEW ? 0 : since(turn, reds);
    turn->gap = turn->length * gaps * drawn(turns);
    if (turn->gap > (double)reds / LIFE)
        turn->gap = (double)reds / LIFE;
    weight = (debt + length + turn->gap / 2) / length;
    fp_relaxed_put_real(&turn->debt, debt);
    fp_relaxed_put_real(&turn->weight, weight > 0 ? weight : 0);
    turn->words = 0;
    turn->collections = turn->asked = 0;
    atomic_store_explicit(&turn->waits, 0, memory_order_relaxed);
    atomic_store_explicit(&turn->at, reds, memory_order_relaxed);
    atomic_store_explicit(&turn->state, TURN, memory_order_release);
}

/* `words` grow by what the debt stands for. 0: it takes turns no more, since its windows are large.
 */
static int end(struct fp_turn *turn, double mean, uint64_t reds, double *words, double *variance)
{
    double done = since(turn, reds), all = done, weight = fp_relaxed_real(&turn->weight), error;

    if (done < turn->length + UNSEEN_REDUCTIONS)
        turn->ratio = done / turn->length;
    else /* its words tell how many were seen */
        done = fp_relaxed_real(&turn->density) > 0
                   ? turn->words / fp_relaxed_real(&turn->density) + 1
                   : turn->length;
    error = weight * (turn->words - fp_relaxed_real(&turn->density) * done);
    if (turn->turns++ > 0)
        *variance += error * error;
    fp_relaxed_put_real(&turn->debt, fp_relaxed_real(&turn->debt) + all - weight * done);
    turn->all_words = KEPT * turn->all_words + turn->words;
    turn->all_reductions = KEPT * turn->all_reductions + done;
    (void)FP_CHECK(turn->all_reductions > 0);
    fp_relaxed_put_real(&turn->density, turn->all_words / turn->all_reductions);
    turn->all_collections = KEPT * turn->all_collections + turn->collections;
    turn->most = mean * turn->all_collections / (turn->all_words + 1);
    if (turn->most < MOST_LEAST) {
        *words += fp_relaxed_real(&turn->debt) * fp_relaxed_real(&turn->density);
        fp_turn_leave(turn);
        return 0;
    }
    if (turn->collections < FEW && turn->length < MOST_REDUCTIONS)
        turn->length *= 2;
    else if (turn->collections > MANY && turn->length > FIRST_REDUCTIONS)
        turn->length /= 2;
    atomic_store_explicit(&turn->at, reds, memory_order_relaxed);
    atomic_store_explicit(&turn->state, GAP, memory_order_release);
    return 1;
}

int fp_turn_keeps(struct fp_turns *turns, struct fp_turn *turn, double *words, double *variance)
{
    int state = atomic_load_explicit(&turn->state, memory_order_acquire);
    uint64_t reds;

    if (state == GAP)
        return 0;
    if (state == TURN && ++turn->asked % ASKED != 0)
        return 1;
    if (read_reductions(turns, turn, &reds) != 0)
        return 1;
    if (state != TURN) {
        begin(turns, turn, state, reds);
        return 1;
    }
    if (since(turn, reds) < turn->length)
        return 1;
    return !end(turn, turns->mean, reds, words, variance);
}

/* ------------------------------------------------------------------- poll -- */

/* The length of a turn is its process's to know; no turn is longer than `seen`. */
static double debt_of(const struct fp_turn *turn, int state, uint64_t reds)
{
    const double seen = 2 * MOST_REDUCTIONS + UNSEEN_REDUCTIONS;
    double done = since(turn, reds), told = done < seen ? done : seen;

    if (state == NEW)
        return 0;
    if (state == TURN)
        done -= told * fp_relaxed_real(&turn->weight);
    return (fp_relaxed_real(&turn->debt) + done) * fp_relaxed_real(&turn->density);
}

/* It has done nothing, or its turn has not ended, for so many polls? */
static int has_waited(struct fp_turn *turn, int state, uint64_t reds)
{
    uint64_t polled = atomic_load_explicit(&turn->polled, memory_order_relaxed);
    uint32_t waits = atomic_load_explicit(&turn->waits, memory_order_relaxed) + 1;
    int is_waiting = reds == polled || state == DUE || state == TURN;

    atomic_store_explicit(&turn->polled, reds, memory_order_relaxed);
    atomic_store_explicit(&turn->waits, is_waiting ? waits % POLLS : 0, memory_order_relaxed);
    return is_waiting && waits >= POLLS;
}

/* Is its place another's, or free? A pid that is in use again has a process with or without a
 * flag. */
static int is_gone(struct fp_turns *turns, struct fp_turn *turn, uint64_t pid, int *is_in_use)
{
    uint64_t address;

    *is_in_use = fp_process_table_lookup(turns->layout, turns->memory, pid, &address) == 0;
    return !*is_in_use || address != atomic_load_explicit(&turn->address, memory_order_relaxed);
}

/* 1: the flag of `pid`, whose place this is, is to be set. */
static int poll_one(struct fp_turns *turns, struct fp_turn *turn, uint64_t pid, int has_room,
                    double *debt)
{
    int state, waited, is_in_use;
    uint64_t reds;

    if (read_reductions(turns, turn, &reds) != 0) {
        if (!has_room)
            return 0;
        int is_other = is_gone(turns, turn, pid, &is_in_use);

        if (is_other)
            atomic_compare_exchange_strong(&turn->pid, &pid, 0);
        return is_other && is_in_use;
    }
    state = atomic_load_explicit(&turn->state, memory_order_acquire);
    if (!has_room) {
        *debt += debt_of(turn, state, reds);
        return 0;
    }
    waited = has_waited(turn, state, reds);
    if (waited && is_gone(turns, turn, pid, &is_in_use)) {
        atomic_compare_exchange_strong(&turn->pid, &pid, 0);
        return is_in_use;
    }
    *debt += debt_of(turn, state, reds);
    if (state != GAP)
        return waited && state != NEW;
    if (reds < atomic_load_explicit(&turn->at, memory_order_relaxed)) {
        fp_relaxed_put_real(&turn->debt, 0); /* another process with this pid, in the same place */
        atomic_store_explicit(&turn->at, reds, memory_order_relaxed);
    } else if (since(turn, reds) < turn->gap) {
        return 0;
    }
    atomic_store_explicit(&turn->state, DUE, memory_order_release);
    return 1;
}

/* It is not of the share. In a turn its scheduler frees the place: fp_turn_leave(). */
static void leave_in_gap(struct fp_turn *turn, uint64_t pid)
{
    if (pid > 1 && atomic_load_explicit(&turn->state, memory_order_acquire) == GAP)
        atomic_compare_exchange_strong(&turn->pid, &pid, 0);
}

uint32_t fp_turns_poll(struct fp_turns *turns, const struct fp_share *share, uint64_t *pids,
                       uint32_t most)
{
    double debt = 0;
    uint32_t due = 0, first = turns->polled;

    /* Where there are too many, the next poll begins with those that had no room. */
    for (uint32_t i = 0; i < TURNS; i++) {
        struct fp_turn *turn = &turns->turn[(first + i) % TURNS];
        uint64_t pid = atomic_load_explicit(&turn->pid, memory_order_acquire);
        double weight = pid > 1 ? fp_share_weight(share, pid) : 0, own = 0;

        if (weight <= 0) {
            leave_in_gap(turn, pid);
            continue;
        }
        if (poll_one(turns, turn, pid, due < most, &own)) {
            pids[due++] = pid;
            if (due == most)
                turns->polled = (first + i + 1) % TURNS;
        }
        debt += weight * own;
    }
    fp_relaxed_put_real(&turns->debt, debt);
    return due;
}

double fp_turns_debt(const struct fp_turns *turns)
{
    return fp_relaxed_real(&turns->debt);
}

int fp_turns_create(struct fp_turns **out, const struct fp_layout *layout,
                    const struct fp_memory *memory, uint64_t mean_words, uint64_t seed)
{
    struct fp_turns *turns = calloc(1, sizeof *turns);

    if (turns == NULL)
        return FP_ENOMEM;
    turns->layout = layout;
    turns->memory = memory;
    turns->mean = (double)mean_words;
    atomic_init(&turns->random, seed | 1);
    *out = turns;
    return 0;
}

void fp_turns_destroy(struct fp_turns *turns)
{
    free(turns);
}
