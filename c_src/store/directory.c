#include "store/directory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/fs.h"
#include "store/recover.h"

/* ---- lists ------------------------------------------------------------ */

struct found {
    struct fp_log_name name;
    uint64_t size;
};

struct list {
    struct found *found;
    size_t n, room;
    int err;
};

static void add_ours(void *arg, const char *text, uint64_t size)
{
    struct list *list = arg;
    struct fp_log_name name;

    if (!fp_log_name_parse(&name, text))
        return;
    if (list->n == list->room) {
        size_t room = list->room == 0 ? 64 : 2 * list->room;
        struct found *grown = realloc(list->found, room * sizeof(*grown));

        if (grown == NULL) {
            list->err = -ENOMEM;
            return;
        }
        list->found = grown;
        list->room = room;
    }
    list->found[list->n++] = (struct found){name, size};
}

static int by_key(const void *a, const void *b)
{
    const struct found *left = a, *right = b;

    return strcmp(left->name.key, right->name.key);
}

/* All of ours, the oldest first; list_free() in any case. */
static int list_ours(struct list *list, int folder)
{
    int err;

    *list = (struct list){NULL, 0, 0, 0};
    err = fp_fs_list(folder, add_ours, list);
    if (list->n > 0)
        qsort(list->found, list->n, sizeof(*list->found), by_key);
    return err != 0 ? err : list->err;
}

static void list_free(struct list *list)
{
    free(list->found);
}

/* ---- begin and finish ------------------------------------------------- */

/* How often somebody else may take a name before us. */
#define ATTEMPTS 1000

/* The first key of the second `begun` that is behind every key that is
 * there: the clock may have been set back, or that second have a file. */
static int choose_key(int folder, time_t begun, char key[FP_LOG_KEY_ROOM])
{
    struct list list;
    int err = list_ours(&list, folder);

    fp_log_key_of(key, begun);
    if (err == 0 && list.n > 0 &&
        strcmp(list.found[list.n - 1].name.key, key) >= 0) {
        strcpy(key, list.found[list.n - 1].name.key);
        fp_log_key_increase(key);
    }
    list_free(&list);
    return err;
}

int fp_directory_create(int folder, time_t begun, bool is_zst,
                        struct fp_log_name *name)
{
    char text[FP_LOG_NAME_ROOM];
    int file = -EEXIST;
    int err = choose_key(folder, begun, name->key);

    name->is_zst = is_zst;
    name->is_part = true;
    for (int i = 0; err == 0 && file == -EEXIST && i < ATTEMPTS; i++) {
        fp_log_name_print(name, text);
        file = fp_fs_create(folder, text);
        if (file == -EEXIST)
            fp_log_key_increase(name->key);
    }
    return err != 0 ? err : file;
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

/* ---- retain ----------------------------------------------------------- */

static bool is_within(const struct fp_directory_limits *limits, uint64_t files,
                      uint64_t bytes)
{
    return (limits->files == 0 || files <= limits->files) &&
           (limits->bytes == 0 || bytes <= limits->bytes);
}

static struct fp_directory_kept count_finished(const struct list *list)
{
    struct fp_directory_kept kept = {0, 0};

    for (size_t i = 0; i < list->n; i++) {
        if (list->found[i].name.is_part)
            continue;
        kept.files++;
        kept.bytes += list->found[i].size;
    }
    return kept;
}

int fp_directory_retain(int folder, const struct fp_directory_limits *limits,
                        uint64_t files_more, uint64_t bytes_more,
                        void (*removed)(void *arg, const char *name), void *arg,
                        struct fp_directory_kept *kept)
{
    char text[FP_LOG_NAME_ROOM];
    struct list list;
    int err = list_ours(&list, folder);

    *kept = count_finished(&list);
    for (size_t i = 0; i < list.n; i++) {
        int one;

        if (is_within(limits, kept->files + files_more,
                      kept->bytes + bytes_more))
            break;
        if (list.found[i].name.is_part)
            continue;
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
    list_free(&list);
    return err;
}

/* ---- recover ---------------------------------------------------------- */

/* Whether it was a leftover. */
static bool recover_one(int folder, struct fp_log_name *name)
{
    char text[FP_LOG_NAME_ROOM];
    int64_t good;
    int file;

    fp_log_name_print(name, text);
    file = fp_fs_adopt(folder, text);
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
    int err = list_ours(&list, folder);
    int recovered = 0;

    for (size_t i = 0; err == 0 && i < list.n; i++) {
        if (list.found[i].name.is_part)
            recovered += recover_one(folder, &list.found[i].name);
    }
    list_free(&list);
    return err != 0 ? err : recovered;
}
