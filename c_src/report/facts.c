/* facts.c - two passes over the rows: sums and ranges, then the parts of those that need them. */
#include "report/facts.h"

/* From here on numbers over time are kept. */
#define QUEUE_LEAST 100
#define MEMORY_LEAST (1 << 20)
#define BIN_VHEAP_LEAST (MEMORY_LEAST / 8)
#define STAY_SAMPLES 3

/* Metrics beside those of enum fp_facts_number: what is added to two of these, and one alone. */
enum { OLD_VHEAP = FP_FACTS_NUMBERS, OLD_HEAP, REDUCTIONS, METRICS };

struct pass {
    struct fp_facts *facts;
    struct fp_profile *profile;
    enum fp_facts_status *status; /* by text */
    uint32_t *frame;              /* by node: what the process is in */
    struct stay_state *state;     /* by process */
    int metric[METRICS];          /* of the profile */
};

/* The stay that a process is in. */
struct stay_state {
    struct fp_stay stay;
    enum fp_facts_status status;
    int64_t reductions, first_reductions;
    bool has_reductions; /* a sample had them */
};

FP_INTERN_PAIR(intern_text, struct fp_facts, struct fp_facts_text, text, texts, first, second)

/* ---- frames and statuses ------------------------------------------------ */

/* Does the symbol end in /arity or /arity:line? */
static bool is_function(struct fp_slice symbol)
{
    size_t end = symbol.size, at = end;

    while (at > 0 && symbol.at[at - 1] >= '0' && symbol.at[at - 1] <= '9')
        at--;
    if (at > 0 && at < end && symbol.at[at - 1] == ':') {
        end = --at;
        while (at > 0 && symbol.at[at - 1] >= '0' && symbol.at[at - 1] <= '9')
            at--;
    }
    return at > 1 && at < end && symbol.at[at - 1] == '/';
}

/* C functions stand above what called them. A parent has a lower number. */
static int find_frames(struct pass *pass)
{
    const struct fp_tree *tree = &pass->profile->tree;
    int err = FP_ZEROS(&pass->profile->budget, &pass->frame, tree->node_count);

    if (err == 0)
        pass->frame[0] = FP_FACTS_NO_FRAME;
    for (size_t n = 1; n < tree->node_count && err == 0; n++) {
        const struct fp_node *node = &tree->node[n];

        pass->frame[n] =
            is_function(fp_profile_text(pass->profile, tree->frame[node->frame].symbol))
                ? node->frame
                : pass->frame[node->parent];
    }
    return err;
}

static bool is_native(const struct pass *pass, uint32_t frame)
{
    struct fp_slice dso = {0};

    if (frame != FP_FACTS_NO_FRAME)
        dso = fp_profile_text(pass->profile, pass->profile->tree.frame[frame].dso);
    return fp_slice_is(dso, FP_SLICE("bif")) || fp_slice_is(dso, FP_SLICE("nif"));
}

static bool is_text(const struct fp_profile *profile, uint32_t text, const char *name)
{
    return fp_slice_is(fp_profile_text(profile, text), (struct fp_slice){name, strlen(name)});
}

/* Samples of perf have no status: they are of what runs. */
static int find_statuses(struct pass *pass)
{
    static const char *const names[FP_FACTS_OTHER] = {"running", "runnable", "waiting",
                                                      "garbage_collecting"};
    struct fp_profile *profile = pass->profile;
    int err = FP_ZEROS(&profile->budget, &pass->status, profile->tree.stack_count);

    for (size_t i = 0; i < profile->tree.stack_count && err == 0; i++) {
        uint32_t text = profile->tree.stack[i].status;
        unsigned status = 0;

        while (text != 0 && status < FP_FACTS_OTHER && !is_text(profile, text, names[status]))
            status++;
        pass->status[i] = (enum fp_facts_status)status;
    }
    return err;
}

static void find_metrics(struct pass *pass)
{
    static const char *const names[METRICS] = {
        "message_queue_len",  "memory",        "bin_vheap_size", "recent_size",
        "bin_old_vheap_size", "old_heap_size", "reductions"};

    for (size_t i = 0; i < METRICS; i++)
        pass->metric[i] =
            fp_profile_metric(pass->profile, (struct fp_slice){names[i], strlen(names[i])});
}

/* ---- a row -------------------------------------------------------------- */

/* False: the sample does not have it. */
static bool value_of(const struct pass *pass, const struct fp_row *row, int metric, int64_t *value)
{
    int place =
        pass->metric[metric] < 0 ? -1 : fp_profile_place(pass->profile, row, pass->metric[metric]);

    *value = place < 0 ? 0 : row->value[place];
    return place >= 0;
}

/* A damaged file may hold any numbers. */
static void add(const struct pass *pass, const struct fp_row *row, int metric, int64_t *number)
{
    int64_t value;

    value_of(pass, row, metric, &value);
    *number = (int64_t)((uint64_t)*number + (uint64_t)value);
}

/* False: the sample has none of them. */
static bool numbers_of(const struct pass *pass, const struct fp_row *row, int64_t *number)
{
    bool has_some = false;

    for (int i = 0; i < FP_FACTS_NUMBERS; i++)
        has_some |= value_of(pass, row, i, &number[i]);
    add(pass, row, OLD_VHEAP, &number[FP_FACTS_BIN_VHEAP]);
    add(pass, row, OLD_HEAP, &number[FP_FACTS_SURVIVED]);
    return has_some;
}

static void widen(struct fp_facts_range *range, int64_t value, bool is_first)
{
    if (is_first)
        *range = (struct fp_facts_range){value, value, value, value};
    range->last = value;
    if (value < range->min)
        range->min = value;
    if (value > range->max)
        range->max = value;
}

static int64_t between(int64_t from, int64_t to)
{
    return (int64_t)((uint64_t)to - (uint64_t)from);
}

static void end_stay(struct fp_process_facts *facts, const struct stay_state *state)
{
    struct fp_stays *stays = state->status == FP_FACTS_GC ? &facts->collections : &facts->native;
    int64_t us = between(state->stay.since_us, state->stay.until_us);

    if (state->stay.samples < STAY_SAMPLES || us <= 0)
        return;
    if (us > between(stays->longest.since_us, stays->longest.until_us))
        stays->longest = state->stay;
    if (us >= FP_FACTS_LONG_US) {
        stays->count++;
        stays->us = fp_sum(stays->us, (uint64_t)us);
    }
}

/* Those on a dirty scheduler have the number 0, and keep no one waiting. */
static void follow_stay(struct pass *pass, const struct fp_row *row, enum fp_facts_status status)
{
    struct stay_state *state = &pass->state[row->process];
    struct fp_process_facts *facts = &pass->facts->process[row->process];
    uint32_t frame = pass->frame[pass->profile->tree.stack[row->stack].node];
    uint32_t scheduler = status == FP_FACTS_RUNNING ? row->scheduler : 0;
    bool is_stay = status == FP_FACTS_GC || scheduler != 0;
    int64_t reductions;

    if (!value_of(pass, row, REDUCTIONS, &reductions))
        return;
    if (!state->has_reductions)
        state->first_reductions = reductions;
    state->has_reductions = true;
    facts->reductions = between(state->first_reductions, reductions);
    if (!is_stay || state->stay.samples == 0 || state->status != status ||
        state->reductions != reductions || state->stay.scheduler != scheduler ||
        row->time_us < state->stay.until_us) {
        end_stay(facts, state);
        *state = (struct stay_state){.stay = {row->time_us, row->time_us, frame, scheduler, 0},
                                     .status = status,
                                     .reductions = reductions,
                                     .first_reductions = state->first_reductions,
                                     .has_reductions = true};
    }
    if (!is_stay)
        return;
    state->stay.until_us = row->time_us;
    state->stay.samples++;
    if (is_native(pass, frame) && !is_native(pass, state->stay.frame))
        state->stay.frame = frame;
}

static int count_text(struct pass *pass, const struct fp_row *row, uint32_t text, uint32_t serves,
                      int64_t count)
{
    struct fp_facts_text pair = {row->process, 2 * text + serves, 0};
    uint32_t id;
    int err = text == 0 ? 0 : intern_text(pass->facts, &pass->profile->budget, pair, &id);

    if (err == 0 && text != 0)
        pass->facts->text[id].observations =
            fp_sum(pass->facts->text[id].observations, (uint64_t)count);
    return err;
}

static int add_row(struct pass *pass, const struct fp_row *row)
{
    struct fp_process_facts *facts = &pass->facts->process[row->process];
    const struct fp_words *words = fp_row_words(pass->profile, row);
    enum fp_facts_status status = pass->status[row->stack];
    int64_t count = fp_row_count(pass->profile, row), number[FP_FACTS_NUMBERS];
    int err;

    facts->observations[status] = fp_sum(facts->observations[status], (uint64_t)count);
    follow_stay(pass, row, status);
    if (numbers_of(pass, row, number)) {
        for (int i = 0; i < FP_FACTS_NUMBERS; i++)
            widen(&facts->range[i], number[i], facts->seen == 0);
        facts->seen++;
    }
    err = count_text(pass, row, words->waits_for, 0, count);
    return err != 0 ? err : count_text(pass, row, words->message, 1, count);
}

/* ---- parts -------------------------------------------------------------- */

static bool is_large(const struct fp_process_facts *facts)
{
    return facts->range[FP_FACTS_QUEUE].max >= QUEUE_LEAST ||
           facts->range[FP_FACTS_MEMORY].max >= MEMORY_LEAST ||
           facts->range[FP_FACTS_BIN_VHEAP].max >= BIN_VHEAP_LEAST;
}

static int make_parts(struct pass *pass)
{
    int err = 0;

    for (size_t i = 0; i < pass->facts->process_count && err == 0; i++) {
        end_stay(&pass->facts->process[i], &pass->state[i]);
        if (pass->profile->process[i].is_own || !is_large(&pass->facts->process[i]))
            continue;
        err = FP_ZEROS(&pass->profile->budget, &pass->facts->process[i].part, FP_FACTS_PARTS);
        pass->facts->parts += err == 0;
    }
    return err;
}

static void add_to_part(struct pass *pass, const struct fp_row *row)
{
    const struct fp_process *process = &pass->profile->process[row->process];
    struct fp_facts_part *part = pass->facts->process[row->process].part;
    __int128 passed = (__int128)row->time_us - process->first_us;
    __int128 span = (__int128)process->last_us - process->first_us + 1;
    int64_t number[FP_FACTS_NUMBERS];

    if (part == NULL || passed < 0 || passed >= span)
        return;
    part += FP_FACTS_PARTS * passed / span;
    if (!numbers_of(pass, row, number))
        return;
    for (int i = 0; i < FP_FACTS_NUMBERS; i++)
        widen(&part->of[i], number[i], part->time_us == 0);
    if (part->time_us == 0)
        part->time_us = row->time_us;
}

/* ---- all ---------------------------------------------------------------- */

static int each_row(struct pass *pass, bool is_first)
{
    struct fp_profile *profile = pass->profile;
    struct fp_cursor cursor;
    struct fp_row row;
    int more = 0, err = 0;

    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    while (err == 0 && (more = fp_cursor_next(&cursor, &row)) > 0) {
        if (profile->process[row.process].is_own)
            continue;
        if (is_first)
            err = add_row(pass, &row);
        else
            add_to_part(pass, &row);
    }
    fp_cursor_close(&cursor);
    return err != 0 ? err : more;
}

static void find_own(struct fp_facts *facts, const struct fp_profile *profile)
{
    facts->own = UINT32_MAX;
    for (size_t i = 0; i < profile->process_count; i++) {
        if (profile->process[i].is_own &&
            (facts->own == UINT32_MAX ||
             profile->process[i].samples > profile->process[facts->own].samples))
            facts->own = (uint32_t)i;
    }
}

int fp_facts_make(struct fp_facts *facts, struct fp_profile *profile)
{
    struct pass pass = {.facts = facts, .profile = profile};
    struct fp_budget *budget = &profile->budget;
    int err;

    *facts = (struct fp_facts){.process_count = profile->process_count};
    find_own(facts, profile);
    find_metrics(&pass);
    err = FP_ZEROS(budget, &facts->process, facts->process_count);
    if (err == 0)
        err = FP_ZEROS(budget, &pass.state, facts->process_count);
    if (err == 0)
        err = find_statuses(&pass);
    if (err == 0)
        err = find_frames(&pass);
    if (err == 0)
        err = each_row(&pass, true);
    if (err == 0)
        err = make_parts(&pass);
    if (err == 0 && facts->parts > 0)
        err = each_row(&pass, false);
    FP_FREE(budget, pass.state, facts->process_count);
    FP_FREE(budget, pass.status, profile->tree.stack_count);
    FP_FREE(budget, pass.frame, profile->tree.node_count);
    return err;
}

void fp_facts_free(struct fp_facts *facts, struct fp_budget *budget)
{
    for (size_t i = 0; i < facts->process_count && facts->process != NULL; i++)
        FP_FREE(budget, facts->process[i].part, FP_FACTS_PARTS);
    FP_FREE(budget, facts->process, facts->process_count);
    FP_FREE(budget, facts->text, facts->text_room);
    fp_table_free(&facts->texts, budget);
}
