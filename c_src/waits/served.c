/* What a server has in work: the message in a slot of the frame that called its callback. */
#include <string.h>

#include "base/error.h"
#include "erts/process.h"
#include "erts/process_table.h"
#include "erts/stamp.h"
#include "waits/waits.h"

/* Reads of the walk of one process. */
#define BUDGET 64u

static int is_at_rest(const struct fp_stamp *now)
{
    return (now->state &
            (FP_PSFLG_RUNNING | FP_PSFLG_RUNNING_SYS | FP_PSFLG_DIRTY_RUNNING |
             FP_PSFLG_DIRTY_RUNNING_SYS | FP_PSFLG_GC | FP_PSFLG_EXITING | FP_PSFLG_FREE)) == 0 &&
           fp_stamp_has_stack(now);
}

int fp_waits_served(const struct fp_waits_options *options, struct fp_serving_sites *sites,
                    uint64_t pid, uint64_t *word, struct fp_served *served)
{
    struct fp_stamp before, after;
    struct fp_serving serving;
    struct fp_walk walk;
    struct fp_term module;
    uint64_t address, stack_words;
    uint32_t words;
    int err = fp_process_table_lookup(options->layout, options->memory, pid, &address);

    memset(served, 0, sizeof *served);
    if (err == 0)
        err = fp_stamp_read(options->layout, options->memory, address, &before);
    if (err != 0 || before.id != pid)
        return FP_EGONE;
    if (!is_at_rest(&before))
        return FP_ETORN;
    stack_words = (before.hend - before.stop) / 8;
    words = stack_words < FP_SERVED_WORDS ? (uint32_t)stack_words : FP_SERVED_WORDS;
    if (fp_safe_read(options->memory, before.hend - 8ull * words, word, 8ull * words))
        return FP_ETORN;
    if (!fp_serving_find(sites, word, words, words, &serving))
        return FP_ENOENT;
    fp_walk_start(&walk, options->memory, options->layout, BUDGET);
    if (!fp_serving_message(&walk, &serving, &served->message))
        err = FP_ENOENT;
    fp_walk_term(&walk, fp_serving_module(&serving), &module);
    served->module = module.kind == FP_TERM_ATOM ? module.word : 0;
    if (!fp_sites_is_valid(serving.site, options->memory) ||
        fp_stamp_read(options->layout, options->memory, address, &after) != 0 ||
        !fp_stamp_is_same(&before, &after))
        return FP_ETORN;
    return err;
}
