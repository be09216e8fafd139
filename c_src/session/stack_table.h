/* stack_table.h - the stacks that the writer has, by their content.
 *
 * A set-associative table of FP_STACK_SLOTS entries, each a 128-bit hash of the frame words and
 * nothing else. A slot that changes to another stack is defined anew through the ring (record.h),
 * so the two sides never disagree. The engine's thread only. No allocation after creation. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct fp_stack_table;

/* 0 or FP_ENOMEM. */
int fp_stack_table_create(struct fp_stack_table **table);
void fp_stack_table_destroy(struct fp_stack_table *table);

/* The slot of this stack in *slot. 1: the writer has it. 0: the slot is new, and the caller defines
 * it through the ring, or calls fp_stack_table_forget(slot) when the ring is full. */
int fp_stack_table_intern(struct fp_stack_table *table, const uint64_t *frame, size_t count,
                          uint32_t *slot);

/* Identifies the stack that a slot holds now. */
uint64_t fp_stack_table_token(const struct fp_stack_table *table, uint32_t slot);
/* 1 when the slot still holds the stack of that token; counts as a use. */
int fp_stack_table_holds(struct fp_stack_table *table, uint32_t slot, uint64_t token);

void fp_stack_table_forget(struct fp_stack_table *table, uint32_t slot);
