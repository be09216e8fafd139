#include "erts/sites.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "erts/code_scan.h"

/* A power of two, four times the addresses: nearly every search ends at its first look. */
#define BUCKETS (4 * FP_SITES_MAX)

struct fp_sites {
    _Atomic uint32_t users;
    uint32_t count;
    struct fp_site *site;
    uint16_t bucket[BUCKETS]; /* 1 + the place; 0: none */
};

static uint32_t first_bucket(uint64_t address)
{
    return (uint32_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 52) % BUCKETS;
}

int fp_sites_find(const struct fp_sites *sites, uint64_t address)
{
    for (uint32_t at = first_bucket(address);; at = (at + 1) % BUCKETS) {
        uint16_t place = sites->bucket[at];

        if (place == 0)
            return -1;
        if (sites->site[place - 1].address == address)
            return place - 1;
    }
}

static int read_code(const struct fp_memory *memory, const struct fp_site *site,
                     unsigned char code[FP_SITE_BYTES])
{
    return fp_safe_read(memory, site->address - FP_SITE_BYTES_BEFORE, code, FP_SITE_BYTES);
}

/* The place of the row's address, which is made when it is new. Below 0: an error. */
static int place_of(struct fp_sites *sites, const struct fp_memory *memory,
                    const struct fp_ranges *code, uint64_t address)
{
    int place = fp_sites_find(sites, address);
    struct fp_site *site;
    uint32_t at;

    if (place >= 0)
        return place;
    if (sites->count == FP_SITES_MAX)
        return FP_EINVAL;
    site = &sites->site[sites->count];
    memset(site, 0, sizeof *site);
    site->address = address;
    if (!fp_ranges_contain(code, address) || read_code(memory, site, site->code) != 0)
        return FP_EFAULT;
    /* A return address may be the end of its function. */
    if (fp_code_nearest(memory, code, address - 1, site->mfa, &site->mfa_at) != 0)
        site->mfa_at = 0;
    for (at = first_bucket(address); sites->bucket[at] != 0;)
        at = (at + 1) % BUCKETS;
    sites->bucket[at] = (uint16_t)++sites->count;
    return (int)sites->count - 1;
}

static int add_rows(struct fp_sites *sites, const struct fp_memory *memory,
                    const struct fp_ranges *code, const struct fp_site_row *row, size_t rows)
{
    for (size_t i = 0; i < rows; i++) {
        int place;

        if (row[i].role >= FP_SITE_ROLES || row[i].slot >= FP_SITE_SLOTS_MAX)
            return FP_EINVAL;
        place = place_of(sites, memory, code, row[i].address);
        if (place < 0)
            return place;
        sites->site[place].roles |= 1u << row[i].role;
        sites->site[place].slot[row[i].role] = (uint8_t)row[i].slot;
    }
    return 0;
}

int fp_sites_create(struct fp_sites **out, const struct fp_memory *memory,
                    const struct fp_ranges *code, const struct fp_site_row *row, size_t rows)
{
    struct fp_sites *sites = calloc(1, sizeof *sites);
    int err;

    if (sites == NULL)
        return FP_ENOMEM;
    sites->users = 1;
    sites->site = calloc(rows < FP_SITES_MAX ? rows + 1 : FP_SITES_MAX, sizeof *sites->site);
    err = sites->site == NULL ? FP_ENOMEM : add_rows(sites, memory, code, row, rows);
    if (err == 0)
        *out = sites;
    else
        fp_sites_release(sites);
    return err;
}

void fp_sites_retain(struct fp_sites *sites)
{
    if (sites != NULL)
        atomic_fetch_add(&sites->users, 1);
}

void fp_sites_release(struct fp_sites *sites)
{
    if (sites == NULL || atomic_fetch_sub(&sites->users, 1) != 1)
        return;
    free(sites->site);
    free(sites);
}

uint32_t fp_sites_count(const struct fp_sites *sites)
{
    return sites->count;
}

const struct fp_site *fp_sites_at(const struct fp_sites *sites, uint32_t at)
{
    return &sites->site[at];
}

void fp_site_spans(const struct fp_site *site, struct fp_site_code *now,
                   struct fp_safe_read_span span[2])
{
    memset(now->mfa, 0, sizeof now->mfa);
    span[0] =
        (struct fp_safe_read_span){site->mfa_at, now->mfa, site->mfa_at == 0 ? 0 : FP_MFA_SIZE, 0};
    span[1] = (struct fp_safe_read_span){site->address - FP_SITE_BYTES_BEFORE, now->byte,
                                         FP_SITE_BYTES, 0};
}

int fp_site_has_stayed(const struct fp_site *site, const struct fp_site_code *now,
                       const struct fp_safe_read_span span[2])
{
    return span[0].result == 0 && span[1].result == 0 &&
           memcmp(now->mfa, site->mfa, FP_MFA_SIZE) == 0 &&
           memcmp(now->byte, site->code, FP_SITE_BYTES) == 0;
}

int fp_sites_is_valid(const struct fp_site *site, const struct fp_memory *memory)
{
    struct fp_safe_read_span span[2];
    struct fp_site_code now;

    fp_site_spans(site, &now, span);
    fp_safe_read_batch(memory, span, 2);
    return fp_site_has_stayed(site, &now, span);
}

uint32_t fp_sites_check(const struct fp_sites *sites, const struct fp_memory *memory,
                        uint8_t *is_valid)
{
    enum { BATCH = 128 };
    struct fp_safe_read_span span[2 * BATCH];
    struct fp_site_code now[BATCH];
    uint32_t valid = 0;

    for (uint32_t from = 0; from < sites->count; from += BATCH) {
        const struct fp_site *site = sites->site + from;
        uint32_t n = sites->count - from < BATCH ? sites->count - from : BATCH;

        for (uint32_t i = 0; i < n; i++)
            fp_site_spans(&site[i], &now[i], &span[(size_t)2 * i]);
        fp_safe_read_batch(memory, span, 2 * (size_t)n);
        for (uint32_t i = 0; i < n; i++) {
            is_valid[from + i] =
                (uint8_t)fp_site_has_stayed(&site[i], &now[i], &span[(size_t)2 * i]);
            valid += is_valid[from + i];
        }
    }
    return valid;
}
