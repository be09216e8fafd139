/*
 * mapped_files.h - the lines of /proc/self/maps that are code out of files.
 */
#ifndef FP_CSTACK_MAPPED_FILES_H
#define FP_CSTACK_MAPPED_FILES_H

#include <stddef.h>
#include <stdint.h>

struct fp_mapped_file {
    uint64_t start, end, offset; /* `offset`: of `start`, in the file */
    uint64_t device_major, device_minor, inode;
    const char *path; /* without " (deleted)"; "[vdso]" */
};

struct fp_mapped_files {
    struct fp_mapped_file *of; /* by address */
    size_t count;
    char *text; /* what the paths are in */
};

/* 0, FP_EIO or FP_ENOMEM. A thread that may block. */
int fp_mapped_files_read(struct fp_mapped_files *files);
void fp_mapped_files_free(struct fp_mapped_files *files);

/* The parser behind it: takes over `text`, which it changes; free it by
 * fp_mapped_files_free(). Executable mappings of files, and the vDSO's. Not
 * those of memfds, where the JIT has its code, of devices, and of shared
 * memory. 0 or FP_ENOMEM. */
int fp_mapped_files_parse(struct fp_mapped_files *files, char *text);

#endif
