/* ets_solve.c - where a table has what: by tables that were made for it. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "erts/ets_internal.h"
#include "erts/term.h"

/* ERTS_MAGIC_REF_THING_HEADER: two words behind it, the binary's address first. */
#define MAGIC_REF_HEADER (UINT64_C(2) << 6 | 0x10)
#define PLAIN_REF_MARK UINT64_C(0xffffffff)

/* Of the binary: its head, numbers and data. */
#define BINARY_BYTES 128u
/* Two cache lines and the array's head are not slots (erl_flxctr.c). */
#define ARRAY_HEAD_BYTES (16u + 64u)
#define SLOT_BYTES 64u
/* ErtsSchedulerData holds a cache of 2,048 atoms, of 16 bytes each. */
#define DATA_BYTES (96u << 10)
#define PART_BYTES 4096u

uint64_t fp_ets_binary(const struct fp_memory *memory, uint64_t term)
{
    uint64_t word[2];

    return fp_term_is_boxed(term) &&
                   fp_safe_read(memory, fp_term_address(term), word, sizeof word) == 0 &&
                   word[0] == MAGIC_REF_HEADER && (word[1] & PLAIN_REF_MARK) != PLAIN_REF_MARK &&
                   word[1] % 8 == 0
               ? word[1]
               : 0;
}

struct work {
    struct fp_ets *tables;
    const struct fp_memory *memory;
    const struct fp_ets_fact *fact;
    uint32_t facts;
    uint64_t address[FP_ETS_FACTS_MAX];
    unsigned char binary[FP_ETS_FACTS_MAX][BINARY_BYTES];
    struct fp_ets_copy copy[FP_ETS_FACTS_MAX];
    struct fp_refusal *refusal;
};

static int refuse(const struct work *work, int err, const char *what, const char *why)
{
    return fp_refuse(work->refusal, err, "tables", "%s: %s", what, why);
}

/* 0 where exactly one place fits. */
static int judge(const struct work *work, uint32_t candidates, const char *what)
{
    int err = fp_scan_judge(candidates);

    return err == 0 ? 0
                    : refuse(work, err, what,
                             err == FP_ENOENT
                                 ? "no place in the structure of a table holds what Erlang says"
                                 : "more than one place fits");
}

static uint64_t binary_word(const struct work *work, uint32_t fact, uint32_t at)
{
    uint64_t word;

    memcpy(&word, work->binary[fact] + at, sizeof word);
    return word;
}

typedef int (*has_fn)(const struct work *work, uint32_t fact, uint32_t at);

/* The places, of so many bytes, at which all tables have it; *found: the last one. */
static uint32_t places(const struct work *work, uint32_t step, uint32_t bytes, has_fn has,
                       uint16_t *found)
{
    uint32_t candidates = 0;

    for (uint32_t at = 0; at + 8 <= bytes; at += step) {
        uint32_t agree = 0;

        while (agree < work->facts && has(work, agree, at))
            agree++;
        if (agree == work->facts) {
            *found = (uint16_t)at;
            candidates++;
        }
    }
    return candidates;
}

/* ------------------------------------------------------ binaries and tables -- */

static int has_numbers(const struct work *work, uint32_t fact, uint32_t at)
{
    return at + 12 <= BINARY_BYTES &&
           memcmp(work->binary[fact] + at, work->fact[fact].number, 12) == 0;
}

static int has_binary(const struct work *work, uint32_t fact, uint32_t at)
{
    return fp_ets_word(&work->copy[fact], at) == work->fact[fact].binary;
}

static int read_binaries(struct work *work)
{
    for (uint32_t i = 0; i < work->facts; i++)
        if (fp_safe_read(work->memory, work->fact[i].binary, work->binary[i], BINARY_BYTES) != 0)
            return refuse(work, FP_EFAULT, "binary", "a reference's binary is not readable");
    return judge(work, places(work, 4, BINARY_BYTES, has_numbers, &work->tables->numbers),
                 "numbers of the reference");
}

/* Do the binaries' words there point to structures that hold their addresses at one place? */
static uint32_t binaries_of(struct work *work, uint32_t indirection, uint16_t *found)
{
    for (uint32_t i = 0; i < work->facts; i++) {
        uint64_t address = binary_word(work, i, indirection);

        if (address == 0 || address % 8 != 0 ||
            fp_safe_read(work->memory, address, &work->copy[i], FP_ETS_WINDOW) != 0)
            return 0;
        work->address[i] = address;
    }
    return places(work, 8, FP_ETS_WINDOW, has_binary, found);
}

static int find_tables(struct work *work)
{
    uint16_t *found = &work->tables->at[FP_ETS_FIELD_binary];
    uint32_t candidates = 0;

    for (uint32_t at = 0; at + 8 <= BINARY_BYTES; at += 8) {
        uint32_t here = binaries_of(work, at, found);

        if (here > 0)
            work->tables->indirection = (uint16_t)at;
        candidates += here;
    }
    if (judge(work, candidates, "binary") != 0)
        return work->refusal->err;
    (void)binaries_of(work, work->tables->indirection, found); /* its copies */
    return 0;
}

/* ------------------------------------------------------------------ fields -- */

static int has_owner(const struct work *work, uint32_t fact, uint32_t at)
{
    return fp_ets_word(&work->copy[fact], at) == work->fact[fact].owner;
}

static int has_heir(const struct work *work, uint32_t fact, uint32_t at)
{
    return fp_ets_word(&work->copy[fact], at) == work->fact[fact].heir;
}

static int has_name(const struct work *work, uint32_t fact, uint32_t at)
{
    return fp_ets_word(&work->copy[fact], at) == work->fact[fact].name;
}

/* The status, then the place of the key, then whether it is compressed: an int, or a byte. The
 * status that the table began with stands before its owner. */
static int has_status(const struct work *work, uint32_t fact, uint32_t at)
{
    uint64_t word = fp_ets_word(&work->copy[fact], at);

    return (word & FP_ETS_STATUS) == work->fact[fact].status &&
           word >> 32 == work->fact[fact].keypos && at + 9 <= FP_ETS_WINDOW &&
           (work->copy[fact].byte[at + 8] != 0) == work->fact[fact].is_compressed;
}

/* How many counters there are, and whether they are decentralized: an int, or a byte. */
static int has_counters(const struct work *work, uint32_t fact, uint32_t at)
{
    const struct fp_ets_copy *copy = &work->copy[fact];

    if (at + 24 > FP_ETS_WINDOW || (fp_ets_word(copy, at) & UINT32_MAX) != 2 ||
        copy->byte[at + 4] != work->fact[fact].is_decentralized)
        return 0;
    return work->fact[fact].is_decentralized ||
           (fp_ets_word(copy, at + 8) == work->fact[fact].objects &&
            (fp_ets_word(copy, at + 16) + 7) / 8 == work->fact[fact].words);
}

/* ---------------------------------------------------------------- counters -- */

static int is_summed(const struct work *work, uint32_t fact)
{
    struct fp_ets_table table = {.address = work->address[fact], .is_decentralized = 1};

    return fp_ets_sum(work->tables, work->memory, &table) == 0 &&
           (uint64_t)table.objects == work->fact[fact].objects &&
           ((uint64_t)table.bytes + 7) / 8 == work->fact[fact].words;
}

/* The array's part of a table's memory shows how many slots it has. */
static int check_slots(struct work *work, uint32_t array_bytes)
{
    uint32_t tried = 0;

    if (array_bytes == 0 && work->tables->schedulers == 1)
        return 0;
    if (array_bytes < ARRAY_HEAD_BYTES + SLOT_BYTES ||
        (array_bytes - ARRAY_HEAD_BYTES) % SLOT_BYTES != 0 ||
        (array_bytes - ARRAY_HEAD_BYTES) / SLOT_BYTES > FP_ETS_SLOTS_MAX)
        return refuse(work, FP_ELAYOUT, "decentralized counters", "their size is another one");
    work->tables->slots = (array_bytes - ARRAY_HEAD_BYTES) / SLOT_BYTES;
    for (uint32_t i = 0; i < work->facts; i++) {
        if (!work->fact[i].is_decentralized)
            continue;
        if (!is_summed(work, i))
            return refuse(work, FP_ENOENT, "decentralized counters",
                          "their sums are not what Erlang says");
        tried++;
    }
    return tried >= 2 ? 0 : refuse(work, FP_EINVAL, "decentralized counters", "too few tables");
}

/* ------------------------------------------------------------- list of all -- */

/* The tables of the ring through `at`, from the first fact's on. The ring that is looked for has
 * those of all owners; another one has those of one owner. */
static int ring_of(struct work *work, uint32_t at, struct fp_ets_list *list)
{
    struct fp_ets_copy copy;
    uint64_t address = work->address[0];
    uint32_t owners = 0;

    list->count = 0;
    do {
        if (list->count == list->room || address % 8 != 0 ||
            fp_safe_read(work->memory, address, &copy, FP_ETS_WINDOW) != 0)
            return 0;
        for (uint32_t i = 0; i < work->facts; i++)
            if (address == work->address[i] && work->fact[i].owner != work->fact[0].owner)
                owners++;
        list->table[list->count++].address = address;
        address = fp_ets_word(&copy, at);
        if (fp_safe_read(work->memory, address, &copy, FP_ETS_WINDOW) != 0 ||
            fp_ets_word(&copy, at + 8) != list->table[list->count - 1].address)
            return 0;
    } while (address != work->address[0]);
    return owners > 0;
}

static int is_in(const struct fp_ets_list *list, uint64_t address)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->table[i].address == address)
            return 1;
    return 0;
}

/* Places in a scheduler's data that hold how many are in the ring and one of them. */
static uint32_t heads(const struct work *work, uint64_t data, const struct fp_ets_list *list,
                      uint64_t *found)
{
    uint64_t word[PART_BYTES / 8 + 1];
    uint32_t candidates = 0;

    for (uint32_t from = 0; from < DATA_BYTES; from += PART_BYTES) {
        if (fp_safe_read(work->memory, data + from, word, sizeof word) != 0)
            break;
        for (uint32_t i = 0; i < PART_BYTES / 8; i++)
            if (word[i] == list->count && is_in(list, word[i + 1])) {
                *found = data + from + 8 * (uint64_t)i;
                candidates++;
            }
    }
    return candidates;
}

static int find_list(struct work *work, uint64_t data, uint64_t *head)
{
    struct fp_ets_list list = {.room = FP_ETS_MAX / 16};
    size_t bytes = list.room * sizeof *list.table;
    uint32_t candidates = 0;

    list.table = fp_pages_alloc(bytes);
    if (list.table == NULL)
        return refuse(work, FP_ENOMEM, "list", fp_err_text(FP_ENOMEM));
    for (uint32_t at = 0; at + 16 <= FP_ETS_WINDOW; at += 8) {
        uint32_t here = ring_of(work, at, &list) ? heads(work, data, &list, head) : 0;

        if (here > 0)
            work->tables->at[FP_ETS_FIELD_all] = (uint16_t)at;
        candidates += here;
    }
    fp_pages_free(list.table, bytes);
    return judge(work, candidates, "list of a scheduler");
}

/* -------------------------------------------------------------- schedulers -- */

/* In ErtsSchedulerData: two pointers that each scheduler has, and about its number the kind of
 * scheduler, an int, and 0. */
struct scheduler {
    uint64_t pointer[2];
    uint64_t kind, number, dirty;
};

static int read_scheduler(const struct work *work, uint64_t data, uint16_t number_at,
                          struct scheduler *scheduler)
{
    int err = fp_safe_read(work->memory, data, scheduler->pointer, sizeof scheduler->pointer);

    return err != 0 ? err
                    : fp_safe_read(work->memory, data + number_at - 8, &scheduler->kind,
                                   sizeof *scheduler - offsetof(struct scheduler, kind));
}

static int is_pointer(const struct work *work, uint64_t word)
{
    uint64_t there;

    return word != 0 && word % 8 == 0 && fp_safe_read_word(work->memory, word, &there) == 0;
}

static int is_alike(const struct work *work, uint64_t data, uint16_t number_at,
                    const struct scheduler *known, uint64_t number)
{
    struct scheduler here;

    return read_scheduler(work, data, number_at, &here) == 0 && here.number == number &&
           (uint32_t)here.kind == (uint32_t)known->kind && here.dirty == 0 &&
           is_pointer(work, here.pointer[0]) && is_pointer(work, here.pointer[1]);
}

static int is_list(const struct work *work, uint64_t head)
{
    const struct fp_ets *tables = work->tables;
    uint64_t word[2], binary, back;

    if (fp_safe_read(work->memory, head, word, sizeof word) != 0 ||
        (word[0] == 0) != (word[1] == 0))
        return 0;
    return word[1] == 0 ||
           (fp_safe_read_word(work->memory, word[1] + tables->at[FP_ETS_FIELD_binary], &binary) ==
                0 &&
            fp_safe_read_word(work->memory, binary + tables->indirection, &back) == 0 &&
            (back == word[1] || back == 0));
}

/* They stand in one block, at equal distances. */
static int find_schedulers(struct work *work, uint64_t data, uint64_t head, uint16_t number_at)
{
    struct fp_ets *tables = work->tables;
    struct scheduler known;
    uint32_t candidates = 0;

    if (read_scheduler(work, data, number_at, &known) != 0 || known.number == 0 ||
        known.number > tables->schedulers || !is_alike(work, data, number_at, &known, known.number))
        return refuse(work, FP_ELAYOUT, "schedulers", "a scheduler has another number");
    if (tables->schedulers == 1) {
        tables->lists = head;
        return 0;
    }
    for (uint32_t stride = 64; stride <= 2 * DATA_BYTES; stride += 64) {
        uint64_t back = (known.number - 1) * stride;
        uint32_t k = 0;

        for (; k < tables->schedulers; k++) {
            uint64_t on = (uint64_t)k * stride - back;

            if (!is_alike(work, data + on, number_at, &known, k + 1) || !is_list(work, head + on))
                break;
        }
        if (k < tables->schedulers)
            continue;
        tables->stride = stride;
        tables->lists = head - back;
        candidates++;
    }
    return judge(work, candidates, "schedulers");
}

static int solve(struct work *work, const struct fp_layout *layout, uint64_t data,
                 uint32_t array_bytes)
{
    static const struct {
        enum fp_ets_field field;
        const char *name;
        has_fn has;
    } field[] = {
        {FP_ETS_FIELD_owner, "owner", has_owner},
        {FP_ETS_FIELD_heir, "heir", has_heir},
        {FP_ETS_FIELD_name, "name", has_name},
        {FP_ETS_FIELD_status, "status", has_status},
        {FP_ETS_FIELD_counters, "counters", has_counters},
    };
    struct fp_ets *tables = work->tables;
    uint64_t head;
    int err = read_binaries(work);

    if (err == 0)
        err = find_tables(work);
    for (size_t k = 0; err == 0 && k < sizeof field / sizeof *field; k++)
        err = judge(work, places(work, 8, FP_ETS_WINDOW, field[k].has, &tables->at[field[k].field]),
                    field[k].name);
    if (err == 0)
        err = check_slots(work, array_bytes);
    if (err == 0)
        err = find_list(work, data, &head);
    return err == 0 ? find_schedulers(work, data, head, layout->release.running.number) : err;
}

int fp_ets_solve(struct fp_ets *tables, const struct fp_memory *memory,
                 const struct fp_layout *layout, const struct fp_ets_input *input,
                 struct fp_refusal *refusal)
{
    struct work *work = fp_pages_alloc(sizeof *work);
    int err;

    *refusal = (struct fp_refusal){0};
    if (work == NULL) {
        *refusal = (struct fp_refusal){.err = FP_ENOMEM, .why = "no memory"};
        return FP_ENOMEM;
    }
    *tables = (struct fp_ets){.schedulers = input->schedulers};
    *work = (struct work){.tables = tables,
                          .memory = memory,
                          .fact = input->fact,
                          .facts = input->facts,
                          .refusal = refusal};
    err = layout->release.running.number == 0 || input->facts < 2
              ? refuse(work, FP_EUNSUPPORTED, "schedulers", "where their numbers are is not known")
              : solve(work, layout, input->data, input->array_bytes);
    fp_pages_free(work, sizeof *work);
    return err;
}
