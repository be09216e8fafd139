/* waits.h - one look at all processes: what each of them waits for.
 *
 * In batches of processes, each in stages that are one system call or a few: structures, the tops
 * of the stacks of those that wait, what their slots point to, structures once more. A process that
 * moved in between (another state, stack, `i`, reductions, heap or number of collections) is left
 * out and counted, so an edge is of one moment. Nothing is dereferenced, locked or written.
 *
 *   call     its top frame is a site of calls: the reference there, which is a monitor of its own,
 *            names the callee
 *   monitor_only  at a receive that takes only messages with the term of one slot (sites.h), which
 *            is a live monitor of its own. A port there makes it `port`,
 *            a process `named`: it answers, mostly. No proof either
 *   monitor  at no site, but its top frame holds exactly one reference that is a live monitor of
 *            its own: mostly a receive written by hand that waits for this answer. It is no proof:
 *            a loop that keeps the reference of a worker waits for any message. So it is never
 *            one of the edges that make a deadlock certain. Not at receives that are known to
 *            compare their messages with no term of the frame
 *   start, port, socket, timer, lock    by their sites (sites.h)
 *   unknown  nothing of these
 *
 * One thread looks; it may block and allocate (a dirty scheduler's). */
#pragma once

#include "base/maps.h"
#include "erts/layout.h"
#include "erts/serving.h"
#include "waits/edge.h"

const char *fp_wait_how_name(enum fp_wait_how how);

/* X(count): of processes. */
#define FP_WAITS_COUNT_MAP(X)                                                                      \
    X(processes) /* met */                                                                         \
    X(waiting)   /* of them: wait for a message */                                                 \
    X(idle)      /* of these: in the main receive of a server */                                   \
    X(moved)     /* of these: ran meanwhile, left out */                                           \
    X(unreadable)                                                                                  \
    X(unknown)

struct fp_waits_counts {
#define FP_WAITS_COUNT_FIELD(name) uint64_t name;
    FP_WAITS_COUNT_MAP(FP_WAITS_COUNT_FIELD)
#undef FP_WAITS_COUNT_FIELD
};

#define FP_WAITS_EXCLUDED_MAX 16u

struct fp_waits_options {
    const struct fp_layout *layout;
    const struct fp_memory *memory; /* of this thread */
    const struct fp_ranges *code;
    const struct fp_sites *sites;
    uint64_t excluded[FP_WAITS_EXCLUDED_MAX];
    uint32_t excluded_n;
    /* Each wait that held still. */
    void (*each)(void *arg, const struct fp_wait *wait);
    void *arg;
};

/* 0, FP_ENOMEM or FP_EFAULT; FP_ETORN: code was loaded at a site meanwhile, so what `each` got is
 * not to be believed. */
int fp_waits_look(const struct fp_waits_options *options, struct fp_waits_counts *counts);

/* What a server has in work: the message whose callback is on its stack. */
struct fp_served {
    struct fp_message message; /* kind FP_MESSAGE_unknown: none was found */
    uint64_t module;           /* atom of the callback module; 0: not known */
};

/* Of one process that no scheduler runs, by its stack; of a stack of more than FP_SERVED_WORDS by
 * its root's end, where a server's frames are. Of `options` it takes layout and memory. `sites`
 * were prepared and checked before (serving.h); the code of the one that is used is compared once
 * more. `word`: room for the words. 0; FP_EGONE; FP_ETORN: it runs, or ran, or code was loaded;
 * FP_ENOENT: it is no server at work. */
#define FP_SERVED_WORDS 4096u
int fp_waits_served(const struct fp_waits_options *options, struct fp_serving_sites *sites,
                    uint64_t pid, uint64_t *word, struct fp_served *served);
