/* Each field is the one offset at which the structures of all probes hold what Erlang says of them.
 * A field that is at no offset, at two, or elsewhere than the release's table says refuses the
 * native engine. flame_prof_calibration.erl makes the probes, and their facts differ. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "erts/atom.h"
#include "erts/code_index.h"
#include "erts/code_scan.h"
#include "erts/layout_solve.h"
#include "erts/message_queue.h"
#include "erts/process.h"
#include "erts/process_table.h"

const char *fp_fact_name(int fact)
{
#define FP_FACT_NAME(name) #name,
    static const char *const names[] = {FP_FACT_MAP(FP_FACT_NAME)};
#undef FP_FACT_NAME

    return fact >= 0 && fact < FP_FACT_COUNT ? names[fact] : NULL;
}

const char *fp_field_name(enum fp_field field)
{
#define FP_FIELD_NAME(name, width) #name,
    static const char *const names[] = {FP_FIELD_MAP(FP_FIELD_NAME)};
#undef FP_FIELD_NAME

    return field < FP_FIELD_COUNT ? names[field] : NULL;
}

/* ProcDict.numElements (erl_process_dict.h); the same in all listed releases. */
#define ELEMENTS_IN_DICTIONARY 16u

/* Fewer values than this cannot tell one field from another. */
#define DISTINCT_MIN 3u

struct solver {
    struct fp_layout *layout;
    const struct fp_memory *memory;
    struct fp_solve_input *input;
    struct fp_refusal *refusal;
    int listed;
    /* The present unknown: a field's fact and width in bytes, or a table. */
    enum fp_fact fact;
    uint32_t width;
    size_t member, member_size; /* of struct fp_probe, for fits_member() */
};

/* Can the field be at this offset, by what the probe's facts say? */
typedef int fits_fn(const struct solver *s, const struct fp_probe *probe, uint32_t at);

static uint64_t word_at(const struct fp_probe *probe, uint32_t offset, uint32_t width)
{
    uint64_t word = 0;

    memcpy(&word, probe->window + offset, width);
    return word;
}

static int knows(const struct fp_probe *probe, enum fp_fact fact)
{
    return (probe->known >> fact & 1) != 0;
}

/* Makes `fact` the one that is being solved when its values differ enough. */
static int select_fact(struct solver *s, enum fp_fact fact, enum fp_field field)
{
    const struct fp_probe *probe = s->input->probe;
    uint32_t distinct = 0;

    for (size_t i = 0; i < s->input->probes; i++) {
        size_t k = 0;

        if (!knows(&probe[i], fact) || probe[i].fact[fact] == 0)
            continue;
        while (k < i && !(knows(&probe[k], fact) && probe[k].fact[fact] == probe[i].fact[fact]))
            k++;
        distinct += k == i;
    }
    s->fact = fact;
    if (distinct >= DISTINCT_MIN)
        return 0;
    return fp_refuse(s->refusal, FP_ELAYOUT, fp_field_name(field),
                     "the probes did not give three different answers");
}

/* ----------------------------------------------------- one field's place -- */

static int all_fit(const struct solver *s, fits_fn *fits, uint32_t offset)
{
    for (size_t i = 0; i < s->input->probes; i++) {
        const struct fp_probe *probe = &s->input->probe[i];

        if (offset + s->width > probe->window_size || !fits(s, probe, offset))
            return 0;
    }
    return 1;
}

static int accept(struct solver *s, enum fp_field field, uint32_t found, uint32_t candidates)
{
    uint16_t *expected = &s->layout->release.offset[field];

    if (candidates == 0)
        return fp_refuse(s->refusal, FP_ENOENT, fp_field_name(field),
                         "no place in the process structure holds the answers");
    if (candidates > 1)
        return fp_refuse(s->refusal, FP_EAMBIGUOUS, fp_field_name(field),
                         "%u places hold the answers", candidates);
    if (s->listed && *expected != found)
        return fp_refuse(s->refusal, FP_ELAYOUT, fp_field_name(field),
                         "found at offset %u, but the table for OTP %u says %u", found,
                         s->input->otp, *expected);
    *expected = (uint16_t)found;
    return 0;
}

static int solve_field(struct solver *s, enum fp_field field, fits_fn *fits)
{
    uint32_t found = 0, candidates = 0;

    s->width = fp_field_width(field);
    for (uint32_t at = 0; at + s->width <= s->input->process_size; at += s->width)
        if (all_fit(s, fits, at)) {
            found = at;
            candidates++;
        }
    return accept(s, field, found, candidates);
}

static int fits_member(const struct solver *s, const struct fp_probe *probe, uint32_t at)
{
    return at + s->member_size <= probe->window_size &&
           memcmp(probe->window + at, (const char *)probe + s->member, s->member_size) == 0;
}

/* The word at `at` is a pointer, and `value` stands `offset` bytes behind that address. */
static int points_to(const struct solver *s, const struct fp_probe *probe, uint32_t at,
                     uint32_t offset, uint64_t value)
{
    uint64_t to = word_at(probe, at, s->width), word;

    return to != 0 && (to & 7) == 0 && fp_safe_read_word(s->memory, to + offset, &word) == 0 &&
           word == value;
}

static int fits_registered(const struct solver *s, const struct fp_probe *probe, uint32_t at)
{
    return probe->registered == 0 ||
           points_to(s, probe, at, FP_NAME_IN_REGISTRATION, probe->registered);
}

/* A waiting process continues in its process_info(Pid, current_function). */
static int fits_i(const struct solver *s, const struct fp_probe *probe, uint32_t at)
{
    uint64_t mfa[3], mfa_at, pc = word_at(probe, at, s->width);

    if (probe->current_function[0] == 0)
        return 1;
    return fp_ranges_contain(&s->input->code, pc) &&
           fp_code_nearest(s->memory, &s->input->code, pc, mfa, &mfa_at) == 0 &&
           memcmp(mfa, probe->current_function, sizeof mfa) == 0;
}

static int fits_dictionary(const struct solver *s, const struct fp_probe *probe, uint32_t at)
{
    return !knows(probe, FP_FACT_dictionary_len) ||
           points_to(s, probe, at, ELEMENTS_IN_DICTIONARY,
                     (uint64_t)probe->fact[FP_FACT_dictionary_len]);
}

static int fits_fact(const struct solver *s, const struct fp_probe *probe, uint32_t at)
{
    return !knows(probe, s->fact) || word_at(probe, at, s->width) == (uint64_t)probe->fact[s->fact];
}

/* On a busy node a probe that waits is still in the queue for a turn that it no longer needs. */
static int fits_state(const struct solver *s, const struct fp_probe *probe, uint32_t at)
{
    uint64_t differs = word_at(probe, at, s->width) ^ (uint64_t)probe->fact[FP_FACT_state];

    return !knows(probe, FP_FACT_state) || (differs & ~(uint64_t)FP_PSFLG_QUEUES) == 0;
}

/* ------------------------------------------- two pointers and a distance -- */

static int distance_fits(const struct solver *s, uint32_t low, uint32_t high)
{
    for (size_t i = 0; i < s->input->probes; i++) {
        const struct fp_probe *probe = &s->input->probe[i];
        uint64_t from = word_at(probe, low, 8), to = word_at(probe, high, 8);

        if (!knows(probe, s->fact))
            continue;
        if (from == 0 && to == 0 && probe->fact[s->fact] == 0)
            continue; /* no old heap at all */
        if (from == 0 || to < from || (to - from) / 8 != (uint64_t)probe->fact[s->fact])
            return 0;
    }
    return 1;
}

/* Two pointers, `fact` words apart. */
struct distance {
    enum fp_fact fact;
    enum fp_field low, high;
    int low_is_known, high_is_known; /* solved by a distance before */
};

static int solve_distance(struct solver *s, const struct distance *d)
{
    const uint16_t *offset = s->layout->release.offset;
    uint32_t candidates = 0, low = 0, high = 0, size = s->input->process_size;
    int err = select_fact(s, d->fact, d->low_is_known ? d->high : d->low);

    if (err != 0)
        return err;
    for (uint32_t a = 0; a + 8 <= size; a += 8) {
        if (d->low_is_known && a != offset[d->low])
            continue;
        for (uint32_t b = 0; b + 8 <= size; b += 8) {
            if (b == a || (d->high_is_known && b != offset[d->high]) || !distance_fits(s, a, b))
                continue;
            candidates++;
            low = a;
            high = b;
        }
    }
    if (!d->low_is_known)
        err = accept(s, d->low, low, candidates);
    if (err == 0 && !d->high_is_known)
        err = accept(s, d->high, high, candidates);
    return err;
}

/* ------------------------------------------------------ tables of the VM -- */

#define TABLE_BYTES 32u /* of a table's head, as far as its check reads */

/* A power of two. Of the largest, system_info(process_limit) is one less (erl_ptab.h
 * erts_ptab_max). */
static uint32_t table_length(uint32_t limit)
{
    uint32_t length = 1;

    while (length < limit && length < UINT32_C(1) << 31)
        length *= 2;
    return length;
}

/* ErtsPTab's read-only part: 0 table, 8 free ids, 16 u32 its length (erl_ptab.h). Every probe is in
 * its slot. */
static int fits_process_table(void *arg, uint64_t at, const unsigned char *bytes)
{
    struct solver *s = arg;
    struct fp_layout try = *s->layout;
    uint32_t limit;

    (void)at;
    memcpy(&limit, bytes + 16, 4);
    memcpy(&try.process_table, bytes, 8);
    if (limit != s->layout->process_limit || try.process_table == 0 ||
        (try.process_table & 7) != 0 || try.process_table == s->layout->process_table)
        return 0;
    for (size_t i = 0; i < s->input->probes; i++) {
        uint64_t address;

        if (fp_process_table_lookup(&try, s->memory, s->input->probe[i].id, &address) != 0 ||
            address != s->input->probe[i].address)
            return 0;
    }
    s->layout->process_table = try.process_table;
    return 1;
}

/* IndexTable's end: int limit, int entries, segment table (index.h), at +4,
 * +8 and +16 of the 8-aligned {int size, int limit, int entries, pad, ptr}. */
static int fits_atom_table(void *arg, uint64_t at, const unsigned char *bytes)
{
    struct solver *s = arg;
    struct fp_layout try = *s->layout;
    uint32_t limit, entries;

    for (uint32_t skew = 0; skew <= 4; skew += 4) {
        char text[FP_ATOM_TEXT_MAX];
        size_t i = 0;

        memcpy(&limit, bytes + skew, 4);
        memcpy(&entries, bytes + skew + 4, 4);
        memcpy(&try.atom_segments, bytes + 8 + skew * 2, 8);
        try.atom_entries = at + skew + 4;
        if (limit != s->input->atom_limit || entries > limit || try.atom_segments == 0 ||
            (try.atom_segments & 7) != 0)
            continue;
        for (; i < s->input->atoms; i++) {
            const struct fp_known_atom *atom = &s->input->atom[i];

            if (fp_atom_text(&try, s->memory, atom->term, text) != (int)atom->len ||
                memcmp(text, atom->text, atom->len) != 0)
                break;
        }
        if (i == s->input->atoms && i > 0 && s->layout->atom_segments != try.atom_segments) {
            s->layout->atom_segments = try.atom_segments;
            s->layout->atom_entries = try.atom_entries;
            return 1;
        }
    }
    return 0;
}

static int solve_table(struct solver *s, const char *name,
                       int (*fits)(void *, uint64_t, const unsigned char *))
{
    uint64_t found;
    int err = fp_scan(s->memory, &s->input->data, TABLE_BYTES, fits, s, &found);

    return err == 0 ? 0
                    : fp_refuse(s->refusal, err, name, "%s",
                                err == FP_ENOENT       ? "nothing in the VM's data is such a table"
                                : err == FP_EAMBIGUOUS ? "more than one place in the VM's data fits"
                                                       : fp_err_text(err));
}

/* ---------------------------------------------------------- the sequence -- */

static int read_probes(struct solver *s)
{
    for (size_t i = 0; i < s->input->probes; i++) {
        struct fp_probe *probe = &s->input->probe[i];

        /* No further: the next structure may be that of another probe. */
        probe->window_size = s->input->process_size;
        if (probe->window_size > FP_PROBE_WINDOW ||
            fp_safe_read(s->memory, probe->address, probe->window, probe->window_size) != 0)
            return fp_refuse(s->refusal, FP_EFAULT, "id", "a probe could not be read");
    }
    return 0;
}

#define MEMBER(name)                                                                               \
    fits_member, FP_FACT_COUNT, offsetof(struct fp_probe, name), sizeof((struct fp_probe *)0)->name

static int solve_fields(struct solver *s)
{
    static const struct {
        enum fp_field field;
        fits_fn *fits;
        enum fp_fact fact;          /* FP_FACT_COUNT: by no fact */
        size_t member, member_size; /* for fits_member() */
    } row[] = {
        {FP_FIELD_id, MEMBER(id)},
        {FP_FIELD_parent, MEMBER(parent)},
        {FP_FIELD_registered, fits_registered, FP_FACT_COUNT, 0, 0},
        {FP_FIELD_initial_call, MEMBER(initial_call)},
        {FP_FIELD_i, fits_i, FP_FACT_COUNT, 0, 0},
        {FP_FIELD_reds, fits_fact, FP_FACT_reductions, 0, 0},
        {FP_FIELD_inner_len, fits_fact, FP_FACT_inner_len, 0, 0},
        {FP_FIELD_outer_len, fits_fact, FP_FACT_outer_len, 0, 0},
        {FP_FIELD_dictionary, fits_dictionary, FP_FACT_dictionary_len, 0, 0},
        {FP_FIELD_gen_gcs, fits_fact, FP_FACT_minor_gcs, 0, 0},
        {FP_FIELD_bin_vheap, fits_fact, FP_FACT_bin_vheap_size, 0, 0},
        {FP_FIELD_bin_vheap_block, fits_fact, FP_FACT_bin_vheap_block_size, 0, 0},
        {FP_FIELD_bin_old_vheap, fits_fact, FP_FACT_bin_old_vheap_size, 0, 0},
        {FP_FIELD_bin_old_vheap_block, fits_fact, FP_FACT_bin_old_vheap_block_size, 0, 0},
        {FP_FIELD_mbuf_size, fits_fact, FP_FACT_mbuf_size, 0, 0},
        {FP_FIELD_state, fits_state, FP_FACT_state, 0, 0},
    };
    int err = 0;

    for (size_t i = 0; err == 0 && i < sizeof row / sizeof *row; i++) {
        s->member = row[i].member;
        s->member_size = row[i].member_size;
        if (row[i].fact != FP_FACT_COUNT)
            err = select_fact(s, row[i].fact, row[i].field);
        if (err == 0)
            err = solve_field(s, row[i].field, row[i].fits);
    }
    return err;
}

static int solve_heaps(struct solver *s)
{
    static const struct distance row[] = {
        {FP_FACT_heap_block_size, FP_FIELD_heap, FP_FIELD_hend, 0, 0},
        {FP_FACT_heap_size, FP_FIELD_heap, FP_FIELD_htop, 1, 0},
        {FP_FACT_stack_size, FP_FIELD_stop, FP_FIELD_hend, 0, 1},
        {FP_FACT_recent_size, FP_FIELD_heap, FP_FIELD_high_water, 1, 0},
        {FP_FACT_old_heap_block_size, FP_FIELD_old_heap, FP_FIELD_old_hend, 0, 0},
        {FP_FACT_old_heap_size, FP_FIELD_old_heap, FP_FIELD_old_htop, 1, 0},
    };
    int err = 0;

    for (size_t i = 0; err == 0 && i < sizeof row / sizeof *row; i++)
        err = solve_distance(s, &row[i]);
    return err;
}

static int check_pids(struct solver *s)
{
    for (size_t i = 0; i < s->input->probes; i++) {
        const struct fp_probe *probe = &s->input->probe[i];
        uint32_t number, serial;

        fp_pid_numbers(s->layout, probe->id, &number, &serial);
        if (number != probe->pid_number || serial != probe->pid_serial)
            return fp_refuse(s->refusal, FP_ELAYOUT, "pid",
                             "a pid's number is not coded as expected");
    }
    return 0;
}

/* The module header, with the line table, is where the release's table says: the function of every
 * probe has a line. */
static int check_lines(struct solver *s)
{
    struct fp_code_index *code = NULL;
    int err = fp_code_index_create(&code, s->layout, s->memory, &s->input->code);

    for (size_t i = 0; err == 0 && i < s->input->probes; i++) {
        const struct fp_probe *probe = &s->input->probe[i];
        struct fp_location location;

        if (probe->current_function[0] == 0)
            continue;
        err = fp_code_index_resolve(code, word_at(probe, s->layout->release.offset[FP_FIELD_i], 8),
                                    &location);
        if (err == 0 && (memcmp(location.mfa, probe->current_function, sizeof location.mfa) != 0 ||
                         location.line == 0))
            err = FP_ELAYOUT;
    }
    fp_code_index_destroy(code);
    if (err != 0)
        return fp_refuse(s->refusal, err, "line_table", "a known function's line was not found");
    return 0;
}

/* An unlisted release starts from the nearest listed one. Fields that the probes cannot solve come
 * from that layout, and are checked (pids, atoms, lines). */
static int choose_release(struct solver *s)
{
    const struct fp_release *release = fp_release_find(s->input->otp);

    s->listed = release != NULL;
    if (!s->listed && !s->input->allow_unlisted)
        return fp_refuse(s->refusal, FP_EUNSUPPORTED, "release",
                         "OTP %u is not in the layout table; engine => native tries it",
                         s->input->otp);
    for (unsigned otp = s->input->otp; release == NULL && otp > 0; otp--)
        release = fp_release_find(otp);
    for (unsigned otp = s->input->otp; release == NULL; otp++)
        release = fp_release_find(otp);
    memset(s->layout, 0, sizeof *s->layout);
    s->layout->release = *release;
    s->layout->release.otp = (uint16_t)s->input->otp;
    s->layout->release.tested = s->listed && release->tested;
    s->layout->process_limit = table_length(s->input->process_limit);
    if (s->input->port_limit > 0)
        s->layout->port_limit = table_length(s->input->port_limit);
    if (s->listed && release->process_size != s->input->process_size)
        return fp_refuse(s->refusal, FP_ELAYOUT, "process_size",
                         "is %u, but the table for OTP %u says %u", s->input->process_size,
                         s->input->otp, release->process_size);
    s->layout->release.process_size = (uint16_t)s->input->process_size;
    return 0;
}

static int solve_tables(struct solver *s)
{
    int err = solve_table(s, "process_table", fits_process_table);

    return err != 0 ? err : solve_table(s, "atom_table", fits_atom_table);
}

static int measure_snapshot(struct solver *s)
{
    uint32_t size = 0;

    for (enum fp_field field = 0; field < FP_FIELD_COUNT; field++) {
        uint32_t width = field == FP_FIELD_initial_call ? 24 : fp_field_width(field);
        uint32_t end = s->layout->release.offset[field] + width;

        if (end > size)
            size = end;
    }
    s->layout->snapshot_size = (uint16_t)((size + 7) & ~7u);
    return 0;
}

/* Refuses mailboxes, never the engine. */
static int check_queues(struct solver *s)
{
    const char *why = fp_queues_check(s->layout, s->memory, s->input);
    snprintf(s->layout->queue_refusal, sizeof s->layout->queue_refusal, "%s",
             why == NULL ? "" : why);
    return 0;
}

int fp_layout_solve(struct fp_layout *layout, const struct fp_memory *memory,
                    struct fp_solve_input *input, struct fp_refusal *refusal)
{
    struct solver s = {.layout = layout, .memory = memory, .input = input, .refusal = refusal};
    int (*const steps[])(struct solver *) = {
        choose_release, read_probes, solve_fields,     solve_heaps,  check_pids,
        solve_tables,   check_lines, measure_snapshot, check_queues,
    };
    int err = 0;

    memset(refusal, 0, sizeof *refusal);
    for (size_t i = 0; err == 0 && i < sizeof steps / sizeof *steps; i++)
        err = steps[i](&s);
    return err;
}
