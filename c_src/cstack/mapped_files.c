#include "cstack/mapped_files.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

static int starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static int is_library(const char *path)
{
    if (strcmp(path, "[vdso]") == 0)
        return 1;
    return path[0] == '/' && !starts(path, "/memfd:") &&
           !starts(path, "/dev/") && !starts(path, "/SYSV") &&
           !starts(path, "/anon_hugepage");
}

static void cut_deleted(char *path)
{
    static const char deleted[] = " (deleted)";
    size_t size = strlen(path), tail = sizeof deleted - 1;

    if (size > tail && strcmp(path + size - tail, deleted) == 0)
        path[size - tail] = '\0';
}

/* "start-end perms offset major:minor inode   path" */
static int parse_line(char *line, struct fp_mapped_file *file)
{
    char perms[5];
    int path_at = 0;

    if (sscanf(line,
               "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx64 ":%" SCNx64
               " %" SCNu64 " %n",
               &file->start, &file->end, perms, &file->offset,
               &file->device_major, &file->device_minor, &file->inode,
               &path_at) < 7 ||
        path_at == 0 || strlen(perms) < 4 || perms[2] != 'x' ||
        file->start >= file->end || !is_library(line + path_at))
        return 0;
    cut_deleted(line + path_at);
    file->path = line + path_at;
    return 1;
}

static int add(struct fp_mapped_files *files, const struct fp_mapped_file *file)
{
    if ((files->count & (files->count - 1)) == 0) { /* full: 0, 1, 2, 4... */
        size_t room = files->count == 0 ? 1 : 2 * files->count;
        struct fp_mapped_file *more =
            realloc(files->of, room * sizeof *files->of);

        if (more == NULL)
            return FP_ENOMEM;
        files->of = more;
    }
    files->of[files->count++] = *file;
    return 0;
}

int fp_mapped_files_parse(struct fp_mapped_files *files, char *text)
{
    char *rest;

    memset(files, 0, sizeof *files);
    files->text = text;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        struct fp_mapped_file file;

        /* The kernel tells them in order, and what is not would be found by
         * no search. */
        if (!parse_line(line, &file) ||
            (files->count > 0 && file.start < files->of[files->count - 1].end))
            continue;
        if (add(files, &file) != 0) {
            fp_mapped_files_free(files);
            return FP_ENOMEM;
        }
    }
    return 0;
}

/* All of the file, with a 0 behind it. */
static int slurp(int fd, char **text)
{
    size_t size = 0, room = (size_t)1 << 16;
    char *grown = malloc(room);
    ssize_t got = 1;

    *text = grown;
    while (grown != NULL && got > 0) {
        got = read(fd, *text + size, room - size - 1);
        size += got > 0 ? (size_t)got : 0;
        if (room - size < 4096) {
            grown = realloc(*text, room *= 2);
            if (grown != NULL)
                *text = grown;
        }
    }
    if (grown == NULL || got < 0) {
        free(*text);
        return grown == NULL ? FP_ENOMEM : FP_EIO;
    }
    (*text)[size] = '\0';
    return 0;
}

int fp_mapped_files_read(struct fp_mapped_files *files)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    char *text;
    int err;

    memset(files, 0, sizeof *files);
    if (fd < 0)
        return FP_EIO;
    err = slurp(fd, &text);
    close(fd);
    return err != 0 ? err : fp_mapped_files_parse(files, text);
}

void fp_mapped_files_free(struct fp_mapped_files *files)
{
    free(files->of);
    free(files->text);
    memset(files, 0, sizeof *files);
}
