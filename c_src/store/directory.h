/* directory.h - the files of flame_prof in one folder: how the next one is named, which are too
 * old, and which a dead session left unfinished.
 *
 * The names of log_name.h, of regular files, and no others. A finished file is never written to. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/log_name.h"

/* Creates a file in progress with the first free name of the second `begun`, of the kind, node and
 * compression that *name has. A descriptor, or a negative system error. */
int fp_directory_create(int folder, time_t begun, struct fp_log_name *name);

/* Gives a file in progress its finished name, the next free one where that exists. 0, or a negative
 * system error and the old name. */
int fp_directory_finish(int folder, struct fp_log_name *name);

struct fp_directory_sum {
    uint64_t files, bytes;
};

/* The node and the kind of files of one session, and the keys that it gave its files. All "": none
 * yet. */
struct fp_directory_keys {
    enum fp_log_kind kind;
    char node[FP_LOG_NODE_ROOM];
    char last[FP_LOG_KEY_ROOM];
    char since[FP_LOG_KEY_ROOM]; /* the first after the clock was set back */
    char greatest[FP_LOG_KEY_ROOM];
};

/* `key` is the session's newest. */
void fp_directory_note_key(struct fp_directory_keys *keys, const char *key);

/* Removes the oldest finished files of the node and kind, until those that are left (*kept) and
 * `more` are within the limits (0: any). Files of other nodes and kinds neither go nor count.
 * `removed` gets each name. Files with names later than `now` are older than those that `keys` are
 * of. 0, or the last negative system error. */
int fp_directory_retain(int folder, const struct fp_directory_sum *limits,
                        const struct fp_directory_keys *keys, time_t now,
                        struct fp_directory_sum more, void (*removed)(void *arg, const char *name),
                        void *arg, struct fp_directory_sum *kept);

/* Finishes the files in progress that no process has locked: cut to the last good block and given a
 * finished name, or removed when no block is good. How many there were, or a negative system error.
 * May block. */
int fp_directory_recover(int folder);
