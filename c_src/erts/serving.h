/* serving.h - what the words of a stack say of the message that their process has in work: a server
 * keeps it in a frame behind the functions of its callback module.
 *
 * fp_serving_find() looks for an address of the table of sites (sites.h) among the words and takes
 * what its slots hold; fp_serving_read() follows these terms into memory. The stack was copied and
 * proved to be of one moment by the caller, who proves afterwards that the terms were of that
 * moment, too, and that the site has its code (sites.h); in the signal handler (capture/handler.h)
 * nothing moves, and the code is trusted as of the sampler's last check. No allocation, no lock:
 * any thread, and the handler, but for fp_serving_publish(). */
#pragma once

#include <stdatomic.h>

#include "erts/layout.h"
#include "erts/sites.h"
#include "erts/term/message.h"
#include "erts/term/walk.h"
#include "format/record.h"

/* The sites as those who read stacks share them. */
struct fp_serving_sites {
    struct fp_sites *sites;
    struct fp_serving_sites *before; /* kept for good: leak checkers see it here */
    uint64_t low, span;              /* of servers' return addresses: [low, low + span) */
    _Atomic uint32_t atoms; /* as of the last check (relaxed): there are at least so many */
    /* Of each site: its code is what it was (relaxed: only a flag). */
    _Atomic uint8_t is_valid[FP_SITES_MAX];
};

/* Sets `sites`, which the caller holds for as long as *serving is used, and the bounds.
 * fp_serving_check() has to follow. */
void fp_serving_prepare(struct fp_serving_sites *serving, struct fp_sites *sites);

/* These sites are used from now on, in the whole process. Those of before are kept for good, as a
 * handler may have them in hand at any time: that is some 20 KB for each time that modules of OTP
 * were loaded anew. 0; FP_ENOMEM; FP_EFULL after FP_SERVING_TABLES_MAX changes: those of before
 * stay. A thread that may block, one at a time. */
#define FP_SERVING_TABLES_MAX 100u
int fp_serving_publish(struct fp_sites *sites);
/* NULL: there are none. */
struct fp_serving_sites *fp_serving_published(void);
/* Frees all of them: at the unload of a library whose sites no handler reads. */
void fp_serving_forget(void);
/* Compares the code of all sites with what it was, and counts the atoms. Before the first use, and
 * now and then. */
void fp_serving_check(struct fp_serving_sites *sites, const struct fp_memory *memory,
                      const struct fp_layout *layout);

/* Whether handlers read it: while there were more begins than ends. ANY THREAD. */
void fp_serving_captures_begin(void);
void fp_serving_captures_end(void);
int fp_serving_is_captured(void);

struct fp_serving {
    const struct fp_site *site;
    uint32_t at;          /* index of the return address among the words */
    uint32_t slots;       /* words of its frame, and some behind it */
    const uint64_t *slot; /* these words */
};

/* The site nearest to the root, as words above it may be left of calls that have ended. The first
 * `leaf_words` of the words are the leaf's end of the stack, the others the root's. 1, or 0: there
 * is none. */
int fp_serving_find(struct fp_serving_sites *sites, const uint64_t *word, uint32_t words,
                    uint32_t leaf_words, struct fp_serving *serving);

/* Addresses of the terms that fp_serving_read() walks on first: how many. */
#define FP_SERVING_TERMS 2u
uint32_t fp_serving_terms(const struct fp_serving *serving, uint64_t address[FP_SERVING_TERMS]);

/* Reads that one message may cost. */
#define FP_SERVING_READS 8u
/* Begins a walk with these. */
void fp_serving_walk(const struct fp_serving_sites *sites, struct fp_walk *walk,
                     const struct fp_memory *memory, const struct fp_layout *layout);

/* The message, which may have a tag that could not be read. 1, or 0: nothing is known. */
int fp_serving_message(struct fp_walk *walk, const struct fp_serving *serving,
                       struct fp_message *message);
/* The word of the callback module; 0: not known. */
uint64_t fp_serving_module(const struct fp_serving *serving);
/* Sets kind, message, serves, served_ref of *work, which are 0. 1, or 0: nothing is known. */
int fp_serving_read(struct fp_walk *walk, const struct fp_serving *serving, struct fp_work *work);
