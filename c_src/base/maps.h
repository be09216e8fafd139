/* maps.h - the only parser of /proc/self/maps, and of the lines that smaps shares with it.
 *
 * Writer thread, or a dirty scheduler: it does I/O. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct fp_range {
    uint64_t start, end; /* [start, end) */
};

/* JIT code lies in few mappings: one with the default dual mapping, several with
 * +JMsingle or +JPperf. */
#define FP_RANGES_MAX 64u

struct fp_ranges {
    uint32_t count;
    struct fp_range range[FP_RANGES_MAX]; /* sorted, disjoint, with gaps */
};

static inline int fp_ranges_contain(const struct fp_ranges *ranges, uint64_t address)
{
    for (uint32_t i = 0; i < ranges->count; i++)
        if (address - ranges->range[i].start < ranges->range[i].end - ranges->range[i].start)
            return 1;
    return 0;
}

/* Code ranges that grow while the sampler reads them: entries are written before the count that
 * includes them (release), and never change. */
struct fp_live_ranges {
    _Atomic uint32_t count;
    _Atomic uint32_t stale; /* 1: an address outside of them was met */
    /* Ranges that had no room at the last update: frames there have no name. */
    _Atomic uint32_t left_out;
    struct fp_range range[FP_RANGES_MAX];
};

/* One thread (start, then the writer): add what is mapped now. Entries of mappings that are gone
 * stay: an address in them is unreadable. 1 when something was added. */
int fp_live_ranges_update(struct fp_live_ranges *live, const struct fp_ranges *now);
/* Any thread: a copy, made only when it has grown. */
void fp_live_ranges_copy(struct fp_live_ranges *live, struct fp_ranges *copy);

/* Says whether an anonymous executable range holds the JIT's code. */
struct fp_maps_filter {
    int (*accepts)(void *arg, const struct fp_range *range);
    void *arg;
};

/* The JIT's code: the executable mappings of the VM's memfd; where there is none, the anonymous
 * executable ones that `filter` accepts (NULL: all), neighbours merged first. PCRE2, LuaJIT,
 * wasm runtimes and libffi have such mappings, too. 0, FP_EIO, FP_EFULL; FP_ENOENT when there
 * are none. */
int fp_maps_code(const struct fp_maps_filter *filter, struct fp_ranges *ranges);

/* The VM executable's writable data, with the bss that follows it. The same results. */
int fp_maps_data(struct fp_ranges *ranges);

/* 1: the VM's memfd holds the code, mapped twice; 0: anonymous memory does. */
int fp_maps_code_is_memfd(void);

/* One line of a maps file, or a mapping's header in smaps. */
struct fp_map_line {
    struct fp_range at;
    char perms[5];
    uint64_t offset, device_major, device_minor, inode;
    const char *name; /* in the text, not terminated */
    size_t name_size;
};

/* Of `size` bytes without the newline. 1; 0: it is no such line. */
int fp_map_line_parse(const char *line, size_t size, struct fp_map_line *map);

/* An executable mapping of a file, or the vDSO's. */
struct fp_mapped_file {
    uint64_t start, end, offset; /* `offset`: of `start`, in the file */
    uint64_t device_major, device_minor, inode;
    const char *path; /* without " (deleted)"; "[vdso]" */
};

struct fp_mapped_files {
    struct fp_mapped_file *of; /* by address */
    size_t count;
    char *text; /* holds the paths */
};

/* 0, FP_EIO or FP_ENOMEM. */
int fp_mapped_files_read(struct fp_mapped_files *files);
void fp_mapped_files_free(struct fp_mapped_files *files);

/* The parsers behind fp_maps_code() and fp_maps_data(), over the text of a maps file. */
/* For tests. */
int fp_maps_parse_code(const char *text, const struct fp_maps_filter *filter,
                       struct fp_ranges *ranges);
/* For tests. */
int fp_maps_parse_data(const char *text, const char *exe, struct fp_ranges *ranges);

/* The parser behind fp_mapped_files_read(): owns `text` from then on, and changes it. Leaves out
 * memfds (the JIT's code), devices and shared memory. 0 or FP_ENOMEM. */
/* For tests. */
int fp_mapped_files_parse(struct fp_mapped_files *files, char *text);
