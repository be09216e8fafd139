#include "erts/code_scan.h"

#include "base/error.h"
#include "base/pages.h"
#include "erts/resident.h"

/* The words read from an MFA on: the MFA and the first word of the code. */
#define MFA_AND_ENTRY 32u
/* Bytes before a page that an info with its MFA on that page may begin with. */
#define KEEP (FP_MFA_IN_INFO + MFA_AND_ENTRY)

/* The lowest address from `low` on whose pages are all resident up to `top`. */
static uint64_t resident_from(uint64_t low, uint64_t top)
{
    uint64_t from = low;
    int resident;

    for (uint64_t at = low; at < top;) {
        at = fp_resident_until(at, top, &resident);
        if (!resident)
            from = at;
    }
    return from;
}

void fp_code_walk_start(struct fp_code_walk *walk, const struct fp_memory *memory, uint64_t floor,
                        uint64_t from)
{
    walk->memory = memory;
    walk->floor = from > floor && from - floor > FP_CODE_BACK_MAX ? from - FP_CODE_BACK_MAX : floor;
    walk->at = from + 8;
    walk->low = from; /* the first step loads */
}

static int read_block(struct fp_code_walk *walk, uint64_t low, uint64_t top)
{
    walk->low = low;
    return fp_safe_read(walk->memory, low, walk->byte, (size_t)(top - low)) == 0;
}

int fp_code_walk_load(struct fp_code_walk *walk)
{
    uint64_t top = walk->at + MFA_AND_ENTRY, first = walk->at - FP_MFA_IN_INFO, low, page;

    if (walk->at < walk->floor + FP_MFA_IN_INFO)
        return 0;
    low = top - walk->floor > FP_CODE_BLOCK ? top - FP_CODE_BLOCK : walk->floor;
    low = resident_from(low, top);
    page = first & ~(uint64_t)(FP_PAGE - 1);
    /* A hole further down is whole pages. */
    return low <= first &&
           (read_block(walk, low, top) || (page > low && read_block(walk, page, top)));
}

int fp_code_scan(const struct fp_memory *memory, uint64_t from, uint64_t to, int passes_holes,
                 fp_code_found *found, void *arg)
{
    unsigned char byte[KEEP + FP_PAGE];
    uint64_t low = from, top = from; /* [low, top) is in `byte` */
    uint64_t at = ((from + 7) & ~UINT64_C(7)) + FP_MFA_IN_INFO, run = from;
    int resident = 0, err;

    while (top < to) {
        uint64_t size = FP_PAGE - (top & (FP_PAGE - 1));

        if (top == run)
            run = fp_resident_until(top, to, &resident);
        if (!resident || size > run - top)
            size = run - top;
        if (!resident || fp_safe_read(memory, top, byte + (top - low), (size_t)size) != 0) {
            if (!passes_holes)
                return FP_ENOENT;
            low = top = top + size;
            at = ((top + 7) & ~UINT64_C(7)) + FP_MFA_IN_INFO;
            continue;
        }
        for (top += size; at + MFA_AND_ENTRY <= top; at += 8) {
            const unsigned char *mfa = byte + (at - low);

            if (fp_is_code_info(mfa) && (err = found(arg, at, mfa)) != 0)
                return err;
        }
        if (top - low > KEEP) {
            memmove(byte, byte + (top - KEEP - low), KEEP);
            low = top - KEEP;
        }
    }
    return 0;
}

const struct fp_range *fp_range_of(const struct fp_ranges *ranges, uint64_t pc)
{
    for (uint32_t i = 0; i < ranges->count; i++)
        if (pc >= ranges->range[i].start && pc < ranges->range[i].end)
            return &ranges->range[i];
    return NULL;
}

int fp_code_nearest(const struct fp_memory *memory, const struct fp_ranges *ranges, uint64_t pc,
                    uint64_t mfa[3], uint64_t *mfa_at)
{
    const struct fp_range *range = fp_range_of(ranges, pc);
    struct fp_code_walk walk;

    if (range == NULL || pc - range->start < FP_MFA_IN_INFO + FP_MFA_SIZE)
        return FP_ENOENT;
    /* The last place of an MFA whose code has begun at `pc`. */
    fp_code_walk_start(&walk, memory, range->start, (pc - FP_MFA_SIZE) & ~UINT64_C(7));
    while (fp_code_walk_next(&walk))
        if (fp_is_code_info(fp_code_walk_bytes(&walk))) {
            memcpy(mfa, fp_code_walk_bytes(&walk), FP_MFA_SIZE);
            *mfa_at = walk.at;
            return 0;
        }
    return FP_ENOENT;
}

static int note_first(void *first, uint64_t mfa_at, const unsigned char *mfa)
{
    (void)mfa;
    *(uint64_t *)first = mfa_at - FP_MFA_IN_INFO;
    return 1;
}

int fp_code_first(const struct fp_memory *memory, const struct fp_range *range, uint64_t from,
                  uint64_t *info)
{
    uint64_t to = range->end;

    if (from < range->start || from >= to)
        return FP_ENOENT;
    if (to - from > FP_CODE_BACK_MAX)
        to = from + FP_CODE_BACK_MAX;
    return fp_code_scan(memory, from, to, 0, note_first, info) == 1 ? 0 : FP_ENOENT;
}

static int has_info(void *memory, const struct fp_range *range)
{
    uint64_t info;

    return fp_code_first(memory, range, range->start, &info) == 0;
}

int fp_code_ranges(const struct fp_memory *memory, struct fp_ranges *ranges)
{
    struct fp_maps_filter filter = {has_info, (void *)memory};

    return fp_maps_code(&filter, ranges);
}

const char *fp_code_ranges_why(int err)
{
    switch (err) {
    case FP_EFULL:
        return "the JIT's code lies in more than 64 separate mappings";
    case FP_ENOENT:
        return "no executable mapping in /proc/self/maps holds Erlang code";
    case FP_EIO:
        return "/proc/self/maps cannot be read";
    default:
        return fp_err_text(err);
    }
}
