/*
 * stack_table.h - which stacks the writer already knows, by their content.
 *
 * A set-associative table of FP_STACK_SLOTS entries; each holds a 128-bit hash of the frame words,
 * nothing else. A slot that is given to another stack is defined anew through the ring (record.h),
 * so the two sides never disagree. Used by the engine's thread only. No allocation after creation.
 */
#ifndef FP_SESSION_STACK_TABLE_H
#define FP_SESSION_STACK_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct fp_stack_table;

/* 0 or FP_ENOMEM. */
int fp_stack_table_create(struct fp_stack_table **table);
void fp_stack_table_destroy(struct fp_stack_table *table);

/* The slot of this stack in *slot. Returns 1 when it is known; 0 when the slot was (re)assigned and
 * the caller must now define it through the ring - or call fp_stack_table_forget(slot) when the
 * ring is full. */
int fp_stack_table_intern(struct fp_stack_table *table, const uint64_t *frame, size_t count,
                          uint32_t *slot);

/* What tells later whether a slot still holds the stack that it holds now. */
uint64_t fp_stack_table_token(const struct fp_stack_table *table, uint32_t slot);
/* 1 when it does; counts as a use. */
int fp_stack_table_holds(struct fp_stack_table *table, uint32_t slot, uint64_t token);

void fp_stack_table_forget(struct fp_stack_table *table, uint32_t slot);

#endif
