/* range_coder.h - numbers in as few bits as they are surprising, for a report.
 *
 * Each decision has a context: a number that stands for all that is known by then. A context learns
 * how often its decision is 1, and a decision costs little where that is nearly always or nearly
 * never so. doc/viewer_index.md is what a reader does. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "report/budget.h"

struct fp_range_coder {
    void (*put)(void *to, uint8_t byte);
    void *to;
    uint64_t low, held; /* `held`: bytes that may get a carry */
    uint32_t range;
    uint8_t first; /* of those held */
    uint16_t *chance;
    uint8_t *uses;
    double *guess;
    uint8_t *hits;
};

/* What is known, as one number; `kind` is the decision's. */
uint32_t fp_context(uint32_t kind, uint32_t a, uint32_t b, uint32_t c, uint32_t d);
/* The same for numbers of any size: the low 32 bits, and how large it is. */
uint32_t fp_context_low(double number);
uint32_t fp_context_size(double number);

/* 0, FP_EFULL or FP_ENOMEM; is to be closed in any case. */
int fp_range_open(struct fp_range_coder *coder, struct fp_budget *budget);
void fp_range_finish(struct fp_range_coder *coder);
void fp_range_close(struct fp_range_coder *coder, struct fp_budget *budget);

void fp_range_decide(struct fp_range_coder *coder, uint32_t context, bool decision);
/* Integers, in as many decisions as they have bits; contexts tell numbers apart by their first
 * `depth` bits behind the highest. */
void fp_range_put(struct fp_range_coder *coder, uint32_t context, double number, int depth);
void fp_range_put_signed(struct fp_range_coder *coder, uint32_t context, double number, int depth);

#define FP_GUESSES 3
/* Is the number what it was after one of these keys? `not`: what it cannot be. False: it is still
 * to be put. */
bool fp_range_guess(struct fp_range_coder *coder, uint32_t context, const uint32_t key[FP_GUESSES],
                    double number, double not );
