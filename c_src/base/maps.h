/*
 * maps.h - which parts of our own address space are what.
 *
 * Read from /proc/self/maps. Writer thread, or a dirty scheduler: it does I/O.
 */
#ifndef FP_BASE_MAPS_H
#define FP_BASE_MAPS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct fp_range {
    uint64_t start, end; /* [start, end) */
};

/* JIT code lies in few mappings (one with the default dual mapping, several
 * with +JMsingle or +JPperf). More than this and the native engine refuses. */
#define FP_RANGES_MAX 64u

struct fp_ranges {
    uint32_t count;
    struct fp_range range[FP_RANGES_MAX]; /* sorted, disjoint */
};

static inline int fp_ranges_contain(const struct fp_ranges *ranges,
                                    uint64_t address)
{
    for (uint32_t i = 0; i < ranges->count; i++)
        if (address - ranges->range[i].start <
            ranges->range[i].end - ranges->range[i].start)
            return 1;
    return 0;
}

/* Code ranges that grow while the sampler reads them: entries are written
 * before the count that includes them (release), and never change. */
struct fp_live_ranges {
    _Atomic uint32_t count;
    _Atomic uint32_t stale; /* set by who met an address outside of them */
    struct fp_range range[FP_RANGES_MAX];
};

/* One thread (start, then the writer): take in what is mapped now. Entries of
 * mappings that are gone stay: an address in them is simply unreadable. 1 when
 * something was added. */
int fp_live_ranges_update(struct fp_live_ranges *live,
                          const struct fp_ranges *now);
/* Any thread: a copy, made only when it has grown. */
void fp_live_ranges_copy(struct fp_live_ranges *live, struct fp_ranges *copy);

/* Where the JIT's code may be: executable mappings of the VM's memfd, and
 * anonymous executable ones. 0, FP_EIO, FP_EFULL; FP_ENOENT when none. */
int fp_maps_code(struct fp_ranges *ranges);

/* The VM executable's writable data, with the bss that follows it. The same
 * results. */
int fp_maps_data(struct fp_ranges *ranges);

/* Is code in the VM's memfd, mapped twice? 1, or 0: then it is anonymous. */
int fp_maps_code_is_memfd(void);

/* The parser behind them, over the text of a maps file. `want` is 'c' or 'd', or
 * 'm' for code in the memfd alone. */
int fp_maps_parse(const char *text, const char *exe, int want,
                  struct fp_ranges *ranges);

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

/* The parser behind it: owns `text` from then on, and changes it. Leaves out
 * memfds (the JIT's code), devices and shared memory. 0 or FP_ENOMEM. */
int fp_mapped_files_parse(struct fp_mapped_files *files, char *text);

/* One line of a maps file. */
struct fp_maps_line {
    struct fp_range at;
    char perms[5];
    uint64_t offset, device_major, device_minor, inode;
    const char *name; /* in the text, not terminated */
    size_t name_size;
};

/* The next well-formed line: 1, and *text is behind it; 0 at the end. */
int fp_maps_next(const char **text, struct fp_maps_line *map);

/* The text of /proc/self/maps, for free(); NULL: unreadable, or no memory. */
char *fp_maps_read(void);

#endif
