/* A slot holds NULL, a process, or a marker that looks like one: a word is a process when the id in
 * its structure names the slot. */
#include "erts/process_table.h"

#include <stdlib.h>

#include "base/error.h"
#include "erts/process.h"

/* Pointers per cache line: consecutive pids go to different lines (erts_ptab_init_table in
 * erl_ptab.c, all listed releases). */
#define SLOTS_PER_LINE_SHIFT 3u

uint32_t fp_pid_slot(const struct fp_layout *layout, uint64_t pid)
{
    if (layout->release.pid_form == FP_PID_SLOT_HIGH)
        return (uint32_t)(pid >> 32);
    return (uint32_t)(pid >> 4) & (layout->process_limit - 1);
}

/* The counter value that the id of a process or port was made from; `limit`: the table's length. */
static uint64_t id_data(const struct fp_layout *layout, uint64_t id, uint32_t limit)
{
    uint64_t mask = limit - 1, word = id >> 4;
    uint64_t lines = limit >> SLOTS_PER_LINE_SHIFT; /* a power of two */

    if (layout->release.pid_form == FP_PID_SLOT_HIGH)
        return (uint32_t)id >> 4;
    return (word & ~mask) | ((word >> SLOTS_PER_LINE_SHIFT) & (lines - 1)) |
           (word & ((1u << SLOTS_PER_LINE_SHIFT) - 1)) * lines;
}

void fp_pid_numbers(const struct fp_layout *layout, uint64_t pid, uint32_t *number,
                    uint32_t *serial)
{
    uint64_t data = id_data(layout, pid, layout->process_limit);
    unsigned bits = layout->release.pid_number_bits;

    *number = (uint32_t)(data & ((UINT64_C(1) << bits) - 1));
    *serial = (uint32_t)(data >> bits);
}

int fp_port_number(const struct fp_layout *layout, uint64_t port, uint64_t *number)
{
    if (layout->port_limit == 0 && layout->release.pid_form != FP_PID_SLOT_HIGH)
        return FP_ENOENT;
    *number = id_data(layout, port, layout->port_limit);
    return 0;
}

int fp_process_is_of_slot(const struct fp_layout *layout, uint64_t id, uint32_t state,
                          uint32_t slot)
{
    /* All ones: the marker of a slot that is being filled or emptied (erl_ptab.h
     * ERTS_PTAB_INVALID_ID). */
    return fp_term_is_pid(id) && (id | 15) != UINT64_MAX && fp_pid_slot(layout, id) == slot &&
           (state & FP_PSFLG_FREE) == 0;
}

int fp_process_table_lookup(const struct fp_layout *layout, const struct fp_memory *memory,
                            uint64_t pid, uint64_t *address)
{
    uint32_t slot = fp_pid_slot(layout, pid);
    uint64_t id = 0;

    if (slot >= layout->process_limit)
        return FP_EGONE;
    if (fp_safe_read_word(memory, layout->process_table + 8u * (uint64_t)slot, address) != 0)
        return FP_EFAULT;
    if (*address == 0 ||
        fp_safe_read_word(memory, *address + layout->release.offset[FP_FIELD_id], &id) != 0 ||
        id != pid)
        return FP_EGONE;
    return 0;
}

/* Most lines of a table are empty. */
static int is_empty(const uint64_t *line)
{
    uint64_t any = 0;

    for (size_t i = 0; i < 1u << SLOTS_PER_LINE_SHIFT; i++)
        any |= line[i];
    return any == 0;
}

int fp_process_table_read(const struct fp_layout *layout, const struct fp_memory *memory,
                          uint32_t slot, uint32_t n, uint64_t *address, uint32_t *slots,
                          uint32_t *used)
{
    const uint32_t line = 1u << SLOTS_PER_LINE_SHIFT;
    struct fp_safe_read_span span = {layout->process_table + 8u * (uint64_t)slot, address, 8u * n,
                                     0};
    const uint64_t *word;

    *used = 0;
    if (fp_safe_read_view(memory, &span, 1) != 1)
        return FP_EFAULT;
    word = span.into;
    for (uint32_t i = 0; i < n; i++) {
        if (i % line == 0 && n - i >= line && is_empty(word + i)) {
            i += line - 1;
            continue;
        }
        if (word[i] == 0 || (word[i] & 7) != 0)
            continue;
        if (slots != NULL)
            slots[*used] = slot + i;
        address[(*used)++] = word[i];
    }
    return 0;
}

/* Slots of one read of the table; structures of one read. */
#define SLOTS 512u
#define STRUCTURES 64u

struct each {
    const struct fp_layout *layout;
    const struct fp_memory *memory;
    int (*each)(void *arg, uint64_t address, const unsigned char *structure);
    void *arg;
    uint64_t address[SLOTS];
    uint32_t slot[SLOTS];
    struct fp_safe_read_span span[STRUCTURES];
    unsigned char structures[]; /* STRUCTURES x process_size */
};

static int each_structure(struct each *e, uint32_t from, uint32_t n)
{
    const struct fp_layout *layout = e->layout;
    uint32_t size = layout->release.process_size;
    int err = 0;

    for (uint32_t k = 0; k < n; k++)
        e->span[k] = (struct fp_safe_read_span){e->address[from + k],
                                                e->structures + (size_t)k * size, size, 0};
    fp_safe_read_batch(e->memory, e->span, n);
    for (uint32_t k = 0; err == 0 && k < n; k++) {
        const unsigned char *bytes = e->span[k].into;

        if (e->span[k].result == 0 &&
            fp_process_is_of_slot(layout, fp_process_field(layout, bytes, FP_FIELD_id),
                                  (uint32_t)fp_process_field(layout, bytes, FP_FIELD_state),
                                  e->slot[from + k]))
            err = e->each(e->arg, e->address[from + k], bytes);
    }
    return err;
}

int fp_processes_each(const struct fp_layout *layout, const struct fp_memory *memory,
                      int (*each)(void *arg, uint64_t address, const unsigned char *structure),
                      void *arg)
{
    uint32_t limit = layout->process_limit, used;
    struct each *e = malloc(sizeof *e + (size_t)STRUCTURES * layout->release.process_size);
    int err = 0;

    if (e == NULL)
        return FP_ENOMEM;
    *e = (struct each){.layout = layout, .memory = memory, .each = each, .arg = arg};
    for (uint32_t slot = 0; err == 0 && slot < limit; slot += SLOTS) {
        err =
            fp_process_table_read(layout, memory, slot, limit - slot < SLOTS ? limit - slot : SLOTS,
                                  e->address, e->slot, &used);
        for (uint32_t k = 0; err == 0 && k < used; k += STRUCTURES)
            err = each_structure(e, k, used - k < STRUCTURES ? used - k : STRUCTURES);
    }
    free(e);
    return err;
}
