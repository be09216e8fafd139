/* logs.h - the files of a folder, as a reader finds them: plain or zstd, by their content, and by
 * nothing but libzstd's simplest calls. */
#pragma once

#include <dirent.h>
#include <zstd.h>

#include "temporary.h"

/* Whole frames only: RUN_FAIL at anything else. free() it. */
static inline char *logs_unzst(const char *bytes, size_t size, size_t *text)
{
    char *all = NULL;

    *text = 0;
    while (size > 0) {
        size_t frame = ZSTD_findFrameCompressedSize(bytes, size), room, got;

        CHECK(!ZSTD_isError(frame));
        room = (size_t)ZSTD_getFrameContentSize(bytes, frame);
        all = realloc(all, *text + room + 1);
        CHECK(all != NULL);
        got = ZSTD_decompress(all + *text, room, bytes, frame);
        if (ZSTD_isError(got))
            RUN_FAIL("zstd: %s", ZSTD_getErrorName(got));
        *text += got;
        bytes += frame;
        size -= frame;
    }
    return all != NULL ? all : calloc(1, 1);
}

static inline char *logs_read(const char *path, size_t *size)
{
    char *bytes = temporary_read(path, size), *text;

    if (strstr(path, ".zst") == NULL)
        return bytes;
    text = logs_unzst(bytes, *size, size);
    free(bytes);
    return text;
}

struct logs {
    char name[64][256]; /* in the order of strcmp() */
    int n;
};

static inline int logs_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static inline struct logs logs_list(const char *directory)
{
    struct dirent *entry;
    struct logs logs = {.n = 0};
    DIR *list = opendir(directory);

    CHECK(list != NULL);
    while ((entry = readdir(list)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        CHECK(logs.n < 64);
        snprintf(logs.name[logs.n++], 256, "%s", entry->d_name);
    }
    closedir(list);
    qsort(logs.name, (size_t)logs.n, sizeof(logs.name[0]), logs_compare);
    return logs;
}

/* All of them one after the other; free() it. */
static inline char *logs_read_all(const char *directory, size_t *size)
{
    struct logs logs = logs_list(directory);
    char *all = calloc(1, 1);

    *size = 0;
    for (int i = 0; i < logs.n; i++) {
        char path[512], *text;
        size_t more;

        snprintf(path, sizeof(path), "%s/%s", directory, logs.name[i]);
        text = logs_read(path, &more);
        all = realloc(all, *size + more + 1);
        CHECK(all != NULL);
        memcpy(all + *size, text, more);
        *size += more;
        free(text);
    }
    return all;
}
