/* process_table.h - the array of process pointers that erts_proc (erl_ptab.h) points to. Any
 * thread. */
#pragma once

#include "erts/layout.h"

/* Slot of a pid term in the table; its number and serial as printed in <0.Number.Serial>. */
uint32_t fp_pid_slot(const struct fp_layout *layout, uint64_t pid);
void fp_pid_numbers(const struct fp_layout *layout, uint64_t pid, uint32_t *number,
                    uint32_t *serial);

/* The number of a port term as printed in #Port<0.Number>. 0; FP_ENOENT: the table's length is not
 * known. */
int fp_port_number(const struct fp_layout *layout, uint64_t port, uint64_t *number);

/* A slot's word may point to a freed structure, or to the VM's marker: an entry is a process if it
 * is alive and has an id of this slot. `id` and `state` are the structure's. */
int fp_process_is_of_slot(const struct fp_layout *layout, uint64_t id, uint32_t state,
                          uint32_t slot);

/* The address of the process's structure, whose id is compared. 0, FP_EGONE or FP_EFAULT. */
int fp_process_table_lookup(const struct fp_layout *layout, const struct fp_memory *memory,
                            uint64_t pid, uint64_t *address);

/* Where the words of `n` slots from `slot` on point to: address[0..*used), which has room for n,
 * and of each its slot, unless `slots` is NULL. 0 or FP_EFAULT. Reads by fp_safe_read_view(). */
int fp_process_table_read(const struct fp_layout *layout, const struct fp_memory *memory,
                          uint32_t slot, uint32_t n, uint64_t *address, uint32_t *slots,
                          uint32_t *used);

/* Calls `each` with a copy of the structure of every process, and its address, until it returns no
 * 0: that is the answer. FP_ENOMEM; FP_EFAULT: the table could not be read, and not all were told.
 * Structures that cannot be read are passed. */
int fp_processes_each(const struct fp_layout *layout, const struct fp_memory *memory,
                      int (*each)(void *arg, uint64_t address, const unsigned char *structure),
                      void *arg);
