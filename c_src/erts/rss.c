#include "erts/rss.h"

#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/pages.h"
#include "base/search.h"
#include "base/seccomp.h"
#include "base/smaps.h"

#define PAGE UINT64_C(4096)
/* Pages of one mincore(2): 256 MB. */
#define WINDOW_PAGES 65536u
/* A larger mapping is a sanitizer's: its pages are not looked at. */
#define LARGEST (UINT64_C(1) << 40)
/* glibc's heaps of a thread's arena (arena.c, HEAP_MAX_SIZE). */
#define ARENA_BYTES (UINT64_C(64) << 20)

struct explainer {
    const struct fp_memory *memory;
    const struct fp_allocators *allocators;
    const struct fp_carriers *carriers; /* NULL: none are known */
    struct fp_rss *rss;
    unsigned char *resident; /* of WINDOW_PAGES; NULL: mincore(2) is not allowed */
    char executable[PATH_MAX];
    /* The mapping before this one: a guard page, half of an arena, data with its bss behind it. */
    struct fp_smap before;
    enum fp_rss_kind before_kind;
    uint64_t held;      /* bytes of `before` that may be an arena's, still counted as other */
    uint64_t known_end; /* of what was recognized by its head, in the mapping in work */
    enum fp_rss_kind known;
};

/* ------------------------------------------------------------------ pages -- */

/* NULL, or the carrier that the byte lies in. */
static const struct fp_range *carrier_of(const struct explainer *e, uint64_t address)
{
    const struct fp_carriers *carriers = e->carriers;
    size_t n = fp_search(carriers->range, carriers->count, sizeof *carriers->range, 8, address);

    return n > 0 && address < carriers->range[n - 1].end ? &carriers->range[n - 1] : NULL;
}

static int is_instance(const struct explainer *e, uint64_t address)
{
    for (uint32_t i = 0; i < e->allocators->count; i++)
        if (e->allocators->instance[i].address == address)
            return 1;
    return 0;
}

/* The bytes of what begins with this page, and its kind; 0: it is not known.
 *
 * malloc_chunk (glibc): the size of what is before, which is 0 here, then its own with the flag
 * IS_MMAPPED alone. Carrier_t: its size, two neighbours, its allocator; flags in the low bits. */
static uint64_t head_at(const struct explainer *e, uint64_t page, uint64_t end,
                        enum fp_rss_kind *kind)
{
    uint64_t head[4], size;

    if (fp_safe_read(e->memory, page, head, sizeof head) != 0)
        return 0;
    *kind = FP_RSS_malloc;
    size = head[0] == 0 && (head[1] & 7) == 2 ? head[1] & ~UINT64_C(7) : 0;
    if (size % PAGE == PAGE - 16) /* glibc 2.42 and later: less the head itself */
        size += 16;
    /* If a list was not walked, this may be a carrier of it, and not a free one. */
    if (size == 0 && e->carriers->bytes == e->carriers->counted &&
        is_instance(e, head[3] & ~UINT64_C(7))) {
        *kind = FP_RSS_cached;
        size = head[0] & ~UINT64_C(7);
    }
    return size % PAGE == 0 && size <= end - page ? size : 0;
}

/* Resident pages of a mapping by kind; those of no kind are `seen` only. */
struct split {
    uint64_t pages[FP_RSS_COUNT], seen;
};

static void count_page(struct explainer *e, uint64_t page, uint64_t end, struct split *split)
{
    uint64_t size;

    split->seen++;
    if (carrier_of(e, page) != NULL || carrier_of(e, page + PAGE - 1) != NULL) {
        split->pages[FP_RSS_carriers]++;
        return;
    }
    if (page >= e->known_end) {
        size = head_at(e, page, end, &e->known);
        e->known_end = size > 0 ? page + size : 0;
    }
    if (page < e->known_end)
        split->pages[e->known]++;
}

static int overlaps_carriers(const struct explainer *e, const struct fp_smap *map)
{
    const struct fp_carriers *carriers = e->carriers;
    size_t n =
        fp_search(carriers->range, carriers->count, sizeof *carriers->range, 8, map->end - 1);

    return n > 0 && carriers->range[n - 1].end > map->start;
}

/* A page may have come since smaps was written: never more than was there. */
static void move(struct explainer *e, enum fp_rss_kind from, enum fp_rss_kind to, uint64_t pages,
                 uint64_t *left)
{
    uint64_t bytes = pages * PAGE < *left ? pages * PAGE : *left;

    *left -= bytes;
    e->rss->bytes[from] -= bytes;
    e->rss->bytes[to] += bytes;
}

/* Moves what belongs to another kind out of `from`; what is left there. */
static uint64_t split_mapping(struct explainer *e, const struct fp_smap *map, enum fp_rss_kind from)
{
    struct split split = {{0}};
    uint64_t left = map->rss;

    e->known_end = 0;
    if (map->end - map->start > LARGEST || sysconf(_SC_PAGESIZE) != PAGE)
        return left;
    for (uint64_t at = map->start; at < map->end && split.seen * PAGE < map->rss;
         at += WINDOW_PAGES * PAGE) {
        uint64_t end = map->end - at < WINDOW_PAGES * PAGE ? map->end : at + WINDOW_PAGES * PAGE;

        if (mincore((void *)(uintptr_t)at, (size_t)(end - at), e->resident) != 0)
            return left; /* it is gone */
        for (uint64_t page = at; page < end; page += PAGE)
            if (e->resident[(page - at) / PAGE] & 1)
                count_page(e, page, map->end, &split);
    }
    move(e, from, FP_RSS_carriers, split.pages[FP_RSS_carriers], &left);
    if (from == FP_RSS_other) {
        move(e, from, FP_RSS_cached, split.pages[FP_RSS_cached], &left);
        move(e, from, FP_RSS_malloc, split.pages[FP_RSS_malloc], &left);
    }
    return left;
}

/* --------------------------------------------------------------- mappings -- */

static int is_guard(const struct fp_smap *map)
{
    return memcmp(map->perms, "---", 3) == 0 && map->end - map->start <= 16 * PAGE;
}

static int is_anonymous(const struct fp_smap *map)
{
    return map->name[0] == '\0' || strncmp(map->name, "[anon", 5) == 0;
}

static int is_writable(const struct fp_smap *map)
{
    return map->perms[1] == 'w' && map->name[0] != '/';
}

static enum fp_rss_kind kind_of(const struct explainer *e, const struct fp_smap *map)
{
    if (strncmp(map->name, "/memfd:vmem", 11) == 0)
        return FP_RSS_code;
    if (map->name[0] == '/')
        return strcmp(map->name, e->executable) == 0 ? FP_RSS_executable : FP_RSS_files;
    if (strncmp(map->name, "[heap]", 6) == 0)
        return FP_RSS_malloc;
    if (strncmp(map->name, "[stack", 6) == 0)
        return FP_RSS_stacks;
    if (!is_anonymous(map))
        return FP_RSS_files; /* [vdso], [vvar] */
    if (map->perms[2] == 'x')
        return FP_RSS_code;
    if (map->start == e->before.end && e->before.name[0] == '/' &&
        memcmp(e->before.perms, "rw", 2) == 0)
        return e->before_kind;
    if (e->before.end == map->start && is_guard(&e->before))
        return FP_RSS_stacks;
    return FP_RSS_other;
}

/* An arena is what is writable of 64 MB, then the rest of them, which is not. */
static int ends_arena(const struct explainer *e, const struct fp_smap *map)
{
    return memcmp(map->perms, "---", 3) == 0 && e->before.end == map->start &&
           map->end % ARENA_BYTES == 0 && map->end - ARENA_BYTES >= e->before.start &&
           map->end - map->start < ARENA_BYTES;
}

static void visit(void *arg, const struct fp_smap *map)
{
    struct explainer *e = arg;
    enum fp_rss_kind kind = kind_of(e, map);

    if (e->held > 0 && ends_arena(e, map)) {
        e->rss->bytes[FP_RSS_other] -= e->held;
        e->rss->bytes[FP_RSS_malloc] += e->held;
    }
    e->held = 0;
    e->rss->bytes[kind] += map->rss;
    if (map->rss > 0 && e->carriers != NULL && is_anonymous(map) && kind == FP_RSS_other)
        e->held = split_mapping(e, map, kind);
    else if (map->rss > 0 && e->carriers != NULL && is_writable(map) && overlaps_carriers(e, map))
        (void)split_mapping(e, map, kind);
    e->before = *map;
    e->before.name = map->name[0] == '/' ? "/" : "";
    e->before_kind = kind;
}

int fp_rss_read(const struct fp_memory *memory, const struct fp_allocators *allocators,
                const struct fp_carriers *carriers, struct fp_rss *rss)
{
    struct explainer e = {
        .memory = memory, .allocators = allocators, .rss = rss, .before.name = ""};
    ssize_t n = readlink("/proc/self/exe", e.executable, sizeof e.executable - 1);
    int err;

    memset(rss, 0, sizeof *rss);
    if (n <= 0)
        return FP_EIO;
    if (carriers != NULL && fp_seccomp_allows(FP_CALL_MINCORE)) {
        e.resident = fp_pages_alloc(WINDOW_PAGES);
        if (e.resident == NULL)
            return FP_ENOMEM;
        e.carriers = carriers;
        rss->has_carriers = 1;
    }
    err = fp_smaps_each(visit, &e);
    fp_pages_free(e.resident, WINDOW_PAGES);
    return err;
}
