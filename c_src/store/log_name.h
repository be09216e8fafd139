/* log_name.h - the names of a session's files.
 *
 *      2026-11-21@0154.07.shop@host.erl_perf.log.zst         finished
 *      2026-11-21@0154.07_001.shop@host.erl_perf.log.zst     the next of that second
 *      2026-11-21@0155.12.shop@host.erl_perf.log.zst.part    being written
 *      2026-11-21@0154.07.erl_perf.log                       of a node without a name
 *      2026-11-21@0154.07.shop@host.erl_alloc.log.zst        of allocations
 *      |---- key --------|
 *
 * Keys sort by strcmp() in the order of the times at which the files were begun, and those of one
 * second and node in the order of creation. src/util/flame_prof_log_name.erl has the same grammar.
 * No I/O. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#define FP_LOG_NAME_ROOM 256
#define FP_LOG_KEY_ROOM 64
#define FP_LOG_NODE_ROOM 160

/* The kinds of a file. */
enum fp_log_kind { FP_LOG_SAMPLES, FP_LOG_ALLOCATIONS };

struct fp_log_name {
    enum fp_log_kind kind;
    char key[FP_LOG_KEY_ROOM];
    char node[FP_LOG_NODE_ROOM]; /* "": none */
    bool is_zst, is_part;
};

/* A node's name that can be part of a file's: `name@host` without slashes, spaces and control
 * characters. */
bool fp_log_is_node(const char *text);

/* False: the name has another form. */
bool fp_log_name_parse(struct fp_log_name *name, const char *text);
void fp_log_name_print(const struct fp_log_name *name, char text[FP_LOG_NAME_ROOM]);

/* In local time. */
void fp_log_key_of(char key[FP_LOG_KEY_ROOM], time_t time);
/* As strcmp(), of the seconds alone. */
int fp_log_key_compare_seconds(const char *a, const char *b);
/* The least greater key of the same second. */
void fp_log_key_increase(char key[FP_LOG_KEY_ROOM]);
