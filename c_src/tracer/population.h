/* population.h - which processes have the flag that tells their collections.
 *
 * The flag of a process costs each time that it is scheduled in or out, and at each collection. Of
 * few processes all have it. Of many, those that do much of the work have it, and those with large
 * heaps, so that no long collection is missed; the rest is divided into 2^k groups of some 128
 * processes, one of which is current, has the flag, and stands for all: the words of its processes
 * have the weight 2^k. After some half a second the next group is current. A look at the table of
 * processes, before, tells who is new, who does much of the work, and how many there are.
 *
 *      look | flags of the next group are set | current ........ | look | ...
 *
 * WHAT IS RIGHT. When a process belongs to which group is told from the number of its pid, the
 * number of the look and a random number: nothing that it does. So it is in the current group at a
 * moment with the chance 2^-k, and its words of that moment, with the weight 2^k, have the
 * expectation that they should have. Who does much of the work is told from what it did before. A
 * process has the weight of such a one only from when its flag is set. One that has been born since
 * the last look has the flag and the weight that births.h tells.
 *
 * WHAT IS CHANCE. Numbers follow each other, and processes of one kind are often born side by side,
 * or every other one is. The group is the leading k bits of the number times the golden ratio: its
 * multiples are spread evenly, those of every second or third number, too, and each group has as
 * many of each kind, but for one or two. After 2^k looks each process has been current once. What
 * is left is that a process does more in one group's time than in another's:
 * fp_population_variance().
 * What is told of a single process of such a group is 2^k times what it has done, or nothing. Much
 * of the work is a 256th of the reductions of all, and at most a 16th of 2^-k: so one that goes on
 * as before does not seem to do more, by its weight, than a 16th of what all do in that time.
 *
 * WHAT GOES WRONG. A flag that another tracer takes, for a process that has it all the time. One
 * that the VM takes when keeps() has said so, in the moment in which the look decides otherwise,
 * comes back with the next look.
 *
 * THREADS  weight, keeps: any. The others: one at a time. */
#pragma once

#include <stdint.h>

#include "erts/layout.h"
#include "tracer/births.h"
#include "tracer/turns.h"

struct fp_population;

/* 0 or FP_ENOMEM. What they point to must outlive it. */
int fp_population_create(struct fp_population **population, const struct fp_layout *layout,
                         const struct fp_memory *memory, uint64_t seed, int64_t now_ns,
                         const struct fp_births_count *births);
void fp_population_destroy(struct fp_population *population);

/* Of a collection of this process that begins now. 0: others stand for it. */
double fp_population_weight(const struct fp_population *population, uint64_t pid);
/* It is scheduled in. 0: its flag is to go. */
int fp_population_keeps(struct fp_population *population, uint64_t pid);

/* A look at all processes is due? The first one is. */
int fp_population_wants_look(const struct fp_population *population, int64_t now_ns);
/* Processes in turns are left to these. Milliseconds after which another look is needed before
 * anything can begin, 0, FP_ENOMEM or FP_EFAULT. A dirty scheduler's work: some 15 ms for 100,000
 * processes, and so seldom that it takes a half percent of a CPU. New processes have the flag from
 * before the first look on, until fp_population_switch() says otherwise. */
int fp_population_look(struct fp_population *population, struct fp_turns *turns, int64_t now_ns,
                       const struct fp_births_count *count);
/* Until now: the words of all processes with a weight of more than 1, with it. */
struct fp_population_seen {
    double words;
    struct fp_births_count births;
};
/* The processes whose flags are to be set, at most so many. Those of the last call have them when
 * it is called again; when there are no more, what the look has said begins. */
uint32_t fp_population_due(struct fp_population *population, int64_t now_ns,
                           const struct fp_population_seen *seen, uint64_t *pids, uint32_t most);
/* What is to be done with the flag of new processes before anything else is asked (births.h). */
enum fp_births_switch fp_population_switch(struct fp_population *population, int64_t now_ns,
                                           const struct fp_population_seen *seen, uint32_t *ask_ms);
/* Of the sum of these words: by the differences from group to group, which what changes with time
 * makes larger. */
double fp_population_variance(const struct fp_population *population);
