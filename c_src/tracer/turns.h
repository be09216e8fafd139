/* turns.h - processes that are collected often are traced in turns, by their work.
 *
 * The flag of a process costs at each collection, and each time that it is scheduled. A process
 * with many small collections has it for a turn of some reductions, then not for a gap of some 31
 * times as many. The reductions of a process are counted by the VM, flag or not, and are the
 * measure of what a turn stands for: its words have the weight
 *
 *      m = (D + R + G / 2) / R          R: reductions that the turn shall have
 *                                       G: reductions of the gap after it, drawn before it
 *                                       D: the debt: reductions that no turn stands for yet
 *
 *      D | gap | turn |     gap     | turn |    gap      ...
 *        ^---->|<-----|------>
 *
 * A turn has Rt reductions in fact. After it the debt is D + Rt - m Rt, and grows with the gap: all
 * reductions of a process but the debt have been stood for, whatever Rt was.
 *
 * WHAT IS RIGHT. Let f be the words that a process allocates with a reduction. m is set when the
 * turn begins. Where f is the same all the time, the words of the turns, with their weights, are f
 * times the reductions stood for. The debt is between -G / 2 and G / 2, and 0 in the mean at a
 * moment that knows nothing of the turns: the end of the measurement, or the process's. A program
 * that does less while it is traced has fewer reductions then, too, and the same f. (By time its
 * words would be too few: it waits longer for each of them.)
 *
 * WHAT IS NOT. Where f changes, a turn's f stands for what is around it. A gap ends after so many
 * reductions, drawn from G / 2 to 3 G / 2, so that a program that does the same again and again is
 * met at all of its places: the error is chance. It is a bias where f changes with the turns: where
 * other processes, whose turn it is, change what this one does with a reduction; and in step, where
 * less than 20 ms, which is how often it is looked whether a gap is over, make a difference.
 *
 * WHAT GOES WRONG. Until the first turn begins, words stand for themselves. A flag that another has
 * taken in a turn: after a second the poll has it set again; a turn with many more reductions than
 * planned has done as many as its words tell, the others are debt. One that was due and is not
 * begun is told once a second. A process that exits leaves its debt, 0 in the mean; a pid that is
 * in use again is told, has its flag, and none of the old debt.
 *
 * THREADS  A process is on one scheduler at a time: weight, count and keeps are of that one. poll:
 *          one at a time, any thread. */
#pragma once

#include <stdint.h>

#include "erts/layout.h"
#include "tracer/share.h"

struct fp_turns;
struct fp_turn;

/* mean_words: no window, with its weight, shall have more words than a sample. */
int fp_turns_create(struct fp_turns **turns, const struct fp_layout *layout,
                    const struct fp_memory *memory, uint64_t mean_words, uint64_t seed);
void fp_turns_destroy(struct fp_turns *turns);

/* NULL: it takes none. */
struct fp_turn *fp_turns_find(struct fp_turns *turns, uint64_t pid);
/* It takes turns from now on, if there is room. */
void fp_turns_join(struct fp_turns *turns, uint64_t pid);
/* By its process: it is not of the share any more. */
void fp_turn_leave(struct fp_turn *turn);
/* Of a collection that begins now; 0: it is not its turn; 1 until the first one. */
double fp_turn_weight(const struct fp_turn *turn);
/* Words of a collection that had a weight. */
void fp_turn_count(struct fp_turn *turn, double words);
/* It is scheduled in. 0: its turn is over. `variance` grows by that of the words of this turn, and
 * `words` by those of the debt, when it is known to have large windows: then it leaves. */
int fp_turn_keeps(struct fp_turns *turns, struct fp_turn *turn, double *words, double *variance);

/* The processes whose turns are due, at most so many. A process in a gap that does not belong to
 * the share leaves. */
uint32_t fp_turns_poll(struct fp_turns *turns, const struct fp_share *share, uint64_t *pids,
                       uint32_t most);
/* Words of the debts with the weights of the share, as of the last poll. */
double fp_turns_debt(const struct fp_turns *turns);
