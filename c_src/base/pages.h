/* pages.h - memory by whole pages, from the kernel and back to it.
 *
 * For what is large or belongs to one session. Freeing large chunks to malloc teaches glibc to keep
 * more of every thread's memory (its thresholds follow the largest), in all of the VM. ANY THREAD.
 */
#pragma once

#include <stddef.h>

#define FP_PAGE ((size_t)4096)

/* All 0; NULL: no memory. `bytes` is not 0. */
void *fp_pages_alloc(size_t bytes);
/* The same, of which a page takes memory once it is written: MAP_NORESERVE leaves the rest out of
 * what the kernel promises, unless vm.overcommit_memory is 2. */
void *fp_pages_reserve(size_t bytes);
/* As realloc: the same bytes, wherever they are now. NULL: nothing changed. */
void *fp_pages_resize(void *pages, size_t bytes, size_t new_bytes);
/* `bytes` as they were taken. NULL is nothing. */
void fp_pages_free(void *pages, size_t bytes);
