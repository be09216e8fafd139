#include "store/directory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "store/fs.h"
#include "store/recover.h"

/* Names that other processes create meanwhile are skipped, up to so many. */
#define ATTEMPTS 1000

/* The greatest key of one second, at first the one without a suffix. */
struct second {
    char key[FP_LOG_KEY_ROOM];
    const char *node;
    enum fp_log_kind kind;
    bool is_taken;
};

static void take_key(void *arg, const char *text)
{
    struct second *second = arg;
    struct fp_log_name name;

    if (!fp_log_name_parse(&name, text) || strcmp(name.node, second->node) != 0 ||
        name.kind != second->kind || fp_log_key_compare_seconds(name.key, second->key) != 0)
        return;
    second->is_taken = true;
    if (strcmp(name.key, second->key) > 0)
        strcpy(second->key, name.key);
}

/* The first free key of the second `begun`. Keys of later seconds are no obstacle: a clock that was
 * wrong once must not name the files that follow. */
int fp_directory_create(int folder, time_t begun, struct fp_log_name *name)
{
    struct second second = {.node = name->node, .kind = name->kind};
    char text[FP_LOG_NAME_ROOM];
    int file = -EEXIST, err;

    fp_log_key_of(second.key, begun);
    err = fp_fs_list(folder, take_key, &second);
    if (err != 0)
        return err;
    if (second.is_taken)
        fp_log_key_increase(second.key);
    name->is_part = true;
    strcpy(name->key, second.key);
    for (int i = 0; file == -EEXIST && i < ATTEMPTS; i++) {
        fp_log_name_print(name, text);
        file = fp_fs_create(folder, text);
        if (file == -EEXIST)
            fp_log_key_increase(name->key);
    }
    return file;
}

int fp_directory_finish(int folder, struct fp_log_name *name)
{
    char part[FP_LOG_NAME_ROOM], text[FP_LOG_NAME_ROOM];
    struct fp_log_name finished = *name;
    int err = -EEXIST;

    fp_log_name_print(name, part);
    finished.is_part = false;
    for (int i = 0; err == -EEXIST && i < ATTEMPTS; i++) {
        fp_log_name_print(&finished, text);
        err = fp_fs_rename(folder, part, text);
        if (err == -EEXIST)
            fp_log_key_increase(finished.key);
    }
    if (err == 0)
        *name = finished;
    return err;
}

struct found {
    struct fp_log_name name;
    uint64_t size;
    int rank; /* files of a smaller rank are older */
};

struct list {
    struct found *found; /* in `buffer` */
    size_t n;
    struct fp_buffer buffer;
    bool is_part; /* of the files to list */
    /* The node and kind of which they are; NULL: of any. */
    const struct fp_directory_keys *of;
    int err;
};

static void add_log(void *arg, const char *text)
{
    struct list *list = arg;
    struct found found = {.rank = 0};

    if (fp_log_name_parse(&found.name, text) && found.name.is_part == list->is_part &&
        (list->of == NULL ||
         (found.name.kind == list->of->kind && strcmp(found.name.node, list->of->node) == 0)) &&
        fp_buffer_append(&list->buffer, (const char *)&found, sizeof(found)) != 0)
        list->err = -ENOMEM;
}

/* The files in progress or the finished ones; fp_buffer_free(&list->buffer) in any case. */
static int list_logs(struct list *list, int folder, bool is_part,
                     const struct fp_directory_keys *of)
{
    int err;

    *list = (struct list){.is_part = is_part, .of = of};
    err = fp_fs_list(folder, add_log, list);
    list->found = (void *)list->buffer.bytes;
    list->n = list->buffer.size / sizeof(*list->found);
    return err != 0 ? err : list->err;
}

void fp_directory_note_key(struct fp_directory_keys *keys, const char *key)
{
    if (strcmp(key, keys->last) < 0 || keys->since[0] == '\0')
        strcpy(keys->since, key);
    strcpy(keys->last, key);
    if (strcmp(key, keys->greatest) > 0)
        strcpy(keys->greatest, key);
}

/* Names order files by age unless the clock was set back: then earlier files have names of the
 * future, and are older than all others (those of another session) or than those begun since. */
static int rank_of(const char *key, const struct fp_directory_keys *keys, const char *now)
{
    if (fp_log_key_compare_seconds(key, now) > 0)
        return strcmp(key, keys->greatest) > 0 ? 0 : 2;
    return strcmp(key, keys->since) < 0 ? 1 : 3;
}

static int by_age(const void *a, const void *b)
{
    const struct found *left = a, *right = b;

    return left->rank != right->rank ? left->rank - right->rank
                                     : strcmp(left->name.key, right->name.key);
}

static bool is_within(const struct fp_directory_sum *limits, struct fp_directory_sum kept,
                      struct fp_directory_sum more)
{
    return (limits->files == 0 || kept.files + more.files <= limits->files) &&
           (limits->bytes == 0 || kept.bytes + more.bytes <= limits->bytes);
}

/* Only regular files stay in the list. */
static struct fp_directory_sum count_files(int folder, struct list *list)
{
    struct fp_directory_sum kept = {0, 0};
    char text[FP_LOG_NAME_ROOM];

    for (size_t i = 0; i < list->n; i++) {
        struct found *found = &list->found[i];
        int64_t size;

        fp_log_name_print(&found->name, text);
        size = fp_fs_size_of(folder, text);
        if (size < 0)
            continue;
        found->size = (uint64_t)size;
        kept.bytes += found->size;
        list->found[kept.files++] = *found;
    }
    list->n = kept.files;
    return kept;
}

int fp_directory_retain(int folder, const struct fp_directory_sum *limits,
                        const struct fp_directory_keys *keys, time_t now,
                        struct fp_directory_sum more, void (*removed)(void *arg, const char *name),
                        void *arg, struct fp_directory_sum *kept)
{
    char text[FP_LOG_NAME_ROOM], now_key[FP_LOG_KEY_ROOM];
    struct list list;
    int err = list_logs(&list, folder, false, keys);

    *kept = count_files(folder, &list);
    fp_log_key_of(now_key, now);
    for (size_t i = 0; i < list.n; i++)
        list.found[i].rank = rank_of(list.found[i].name.key, keys, now_key);
    if (list.n > 0)
        qsort(list.found, list.n, sizeof(*list.found), by_age);
    for (size_t i = 0; i < list.n && !is_within(limits, *kept, more); i++) {
        int one;

        fp_log_name_print(&list.found[i].name, text);
        one = fp_fs_remove(folder, text);
        if (one == 0)
            removed(arg, text);
        else
            err = one;
        if (one == 0 || one == -ENOENT) {
            kept->files--;
            kept->bytes -= list.found[i].size;
        }
    }
    fp_buffer_free(&list.buffer);
    return err;
}

/* False: another process writes it, or it is no file of this user alone. */
static bool recover_one(int folder, struct fp_log_name *name)
{
    char text[FP_LOG_NAME_ROOM];
    int64_t good;
    int file;

    fp_log_name_print(name, text);
    file = fp_fs_size_of(folder, text) < 0 ? -1 : fp_fs_adopt(folder, text);
    if (file < 0)
        return false;
    good = fp_recover(file, name->is_zst);
    if (good == 0)
        fp_fs_remove(folder, text);
    else if (good > 0)
        fp_directory_finish(folder, name);
    fp_fs_close(file);
    return true;
}

int fp_directory_recover(int folder)
{
    struct list list;
    int err = list_logs(&list, folder, true, NULL);
    int recovered = 0;

    for (size_t i = 0; err == 0 && i < list.n; i++)
        recovered += recover_one(folder, &list.found[i].name);
    fp_buffer_free(&list.buffer);
    return err != 0 ? err : recovered;
}
