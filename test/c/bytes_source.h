/* bytes_source.h - bytes of a test as a file to read. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store/source.h"

/* 0, FP_ENOMEM or FP_EIO. */
static inline int bytes_source(struct fp_source **source, const void *bytes, size_t size)
{
    int file = memfd_create("bytes", MFD_CLOEXEC), err;
    char path[32], why[256];

    if (file < 0 || write(file, bytes, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    err = fp_source_open(source, path, why, sizeof(why));
    close(file);
    return err;
}
