/* temporary.h - a directory for one test, and what its files hold. */
#pragma once

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run.h"

struct temporary {
    char path[200];
};

static inline void temporary_make(struct temporary *t)
{
    const char *root = getenv("TMPDIR");

    snprintf(t->path, sizeof(t->path), "%s/flame_prof_test.XXXXXX", root == NULL ? "/tmp" : root);
    CHECK(mkdtemp(t->path) != NULL);
}

/* "path/name", in one of a few static buffers. */
static inline const char *temporary_at(const struct temporary *t, const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof(paths[0]), "%s/%s", t->path, name);
    return path;
}

static inline int temporary_remove_one(const char *path, const struct stat *info, int type,
                                       struct FTW *place)
{
    (void)info, (void)type, (void)place;
    return remove(path);
}

static inline void temporary_remove(struct temporary *t)
{
    CHECK(nftw(t->path, temporary_remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
}

static inline int temporary_exists(const char *path)
{
    struct stat info;

    return lstat(path, &info) == 0;
}

/* The whole file; free() it. */
static inline char *temporary_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    struct stat info;
    char *bytes;

    CHECK(file != NULL);
    CHECK(fstat(fileno(file), &info) == 0);
    *size = (size_t)info.st_size;
    bytes = malloc(*size + 1);
    CHECK(bytes != NULL);
    CHECK(fread(bytes, 1, *size, file) == *size);
    bytes[*size] = '\0';
    fclose(file);
    return bytes;
}
