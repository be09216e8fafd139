/* chains.h - samples of processes that wait, each with the stack of the one it waits for below its
 * own, and so on: a flame graph of waiting that ends with what was worked on.
 *
 *      my_api:get/1 > gen:do_call/4 > waits for my_cache <0.71.0> > my_cache:handle_call/3 > ...
 *
 * A frame of the library `waits_for` names each process. A chain ends with a process that does not
 * wait, with a port or another thing that has no stack, or with a frame `not_sampled` (the process
 * has no sample at this tick; a sample that was captured late stands in the next one), `cycle` (it
 * is in the chain already) or `truncated`. Samples without the word `waits_for` are left out. A
 * chain goes on in the files of another node: other_nodes.h. */
#pragma once

#include "report/aggregate.h"

#define FP_CHAIN_LINKS_MOST 64

/* Of each sample of the query that waits, in the order of the rows: `node` is the end of its chain,
 * in the tree of the aggregate. 0, or an error, with which all ends. */
typedef int fp_chain_each(void *arg, const struct fp_row *row, int64_t weight, uint32_t node);

/* `sums` has its tree: fp_aggregate_open(). A chain has at most so many frames, FP_FRAMES_MOST or
 * less. 0, FP_EFULL or FP_ENOMEM; FP_EINVAL where `sums` has no tree of its own: of a query without
 * stacks. */
int fp_chains_each(struct fp_aggregate *sums, const struct fp_query *query, unsigned frames_most,
                   fp_chain_each *each, void *arg);
