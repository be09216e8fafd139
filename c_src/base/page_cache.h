/* page_cache.h - copies of pages of the VM's memory, for a walk along pointers.
 *
 * One read of a small node costs a system call; the nodes of a long list mostly lie beside each
 * other, some thirty to a page. So a page is copied whole, and what lies on it costs no more calls.
 *
 * A copy is as old as the last fp_page_cache_forget(): the user says what may have changed since.
 * One thread. No allocation after creation. */
#pragma once

#include "base/safe_read.h"

struct fp_page_cache;

/* 0 or FP_ENOMEM; 2 MB. `memory` must outlive it. */
int fp_page_cache_create(struct fp_page_cache **cache, const struct fp_memory *memory);
void fp_page_cache_destroy(struct fp_page_cache *cache);

/* Nothing has been read. */
void fp_page_cache_forget(struct fp_page_cache *cache);

/* As fp_safe_read(). */
int fp_page_cache_read(struct fp_page_cache *cache, uint64_t address, void *into, size_t size);

/* The same as a memory, for functions that take one. */
const struct fp_memory *fp_page_cache_memory(const struct fp_page_cache *cache);
