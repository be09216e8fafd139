/* profile.c - a sample is parsed whole before it is kept: a damaged one leaves a warning and at
 * most some unused texts. */
#include "report/profile.h"

#include "report/other_nodes.h"
#include "report/sample_process.h"
#include "report/sample_words.h"

int fp_profile_create(struct fp_profile **profile, size_t limit)
{
    struct fp_profile *made = calloc(1, sizeof(*made));
    int err;

    if (made == NULL)
        return FP_ENOMEM;
    made->budget.limit = limit;
    made->is_ordered = 1;
    made->period_max = made->period_min = 1;
    made->process_us = INT64_MAX;
    made->period_seen = -1;
    err = fp_tree_create(&made->tree, &made->strings, &made->budget);
    if (err != 0) {
        fp_profile_destroy(made);
        return err;
    }
    *profile = made;
    return 0;
}

static void close_file(struct fp_profile *profile)
{
    const struct fp_source_state *before = &profile->before;
    struct fp_source_state *state;

    if (profile->source == NULL)
        return;
    state = &profile->file[profile->file_count - 1].source;
    *state = *fp_source_state(profile->source);
    state->kind = state->text == 0 && before->text > 0 ? before->kind : state->kind;
    state->text += before->text;
    state->damaged += before->damaged;
    state->lost_text += before->lost_text;
    profile->next_line = profile->scan.line;
    fp_scan_close(&profile->scan);
    if (profile->is_followed) {
        fp_source_close(profile->resting);
        fp_source_rest(profile->source);
        profile->resting = profile->source;
    } else {
        fp_source_close(profile->source);
    }
    profile->source = NULL;
}

void fp_profile_destroy(struct fp_profile *profile)
{
    struct fp_budget *budget;

    if (profile == NULL)
        return;
    budget = &profile->budget;
    close_file(profile);
    fp_source_close(profile->resting);
    if (profile->indexed.is_set)
        fp_cursor_close(&profile->indexed.cursor);
    fp_rows_free(&profile->rows, budget);
    fp_tree_free(&profile->tree);
    fp_strings_free(&profile->strings, budget);
    fp_table_free(&profile->processes, budget);
    fp_table_free(&profile->words_table, budget);
    FP_FREE(budget, profile->words, profile->words_room);
    fp_carry_free(&profile->carry, budget);
    free(profile->fine);
    free(profile->process);
    free(profile->last);
    free(profile->event);
    free(profile->file);
    free(profile);
}

static int intern(struct fp_profile *profile, struct fp_slice text, uint32_t *id)
{
    return fp_strings_intern(&profile->strings, &profile->budget, text, id);
}

int fp_profile_choose_event(struct fp_profile *profile, enum fp_choice choice, struct fp_slice name)
{
    profile->choice = choice;
    return choice == FP_ONE_EVENT ? intern(profile, name, &profile->selected) : 0;
}

static struct fp_file *current_file(struct fp_profile *profile)
{
    return &profile->file[profile->file_count - 1];
}

/* FP_EINVAL where a parser says that the sample is damaged, and why. */
static int check(struct fp_profile *profile, const char *bad)
{
    profile->bad = bad;
    return bad == NULL ? 0 : FP_EINVAL;
}

int fp_profile_metric(const struct fp_profile *profile, struct fp_slice name)
{
    for (uint32_t i = 0; i < profile->metric_count; i++) {
        if (fp_slice_is(fp_profile_text(profile, profile->metric[i].name), name))
            return (int)i;
    }
    return -1;
}

int fp_profile_place(const struct fp_profile *profile, const struct fp_row *row, int metric)
{
    const struct fp_schema *schema = &profile->schema[row->schema];

    /* Mostly the metric's own number. */
    if ((uint32_t)metric < schema->count && schema->metric[metric] == metric)
        return metric;
    for (uint32_t i = 0; i < schema->count; i++) {
        if (schema->metric[i] == metric)
            return (int)i;
    }
    return -1;
}

/* A weighted export has one metric. Without any the period counts, too: an export by samples has
 * none, and neither has a sample behind damage. */
int64_t fp_row_count(const struct fp_profile *profile, const struct fp_row *row)
{
    if (row->period == 1 || profile->file[row->file].dialect != FP_FLAME_PROF ||
        profile->schema[row->schema].count == 1 || fp_profile_is_of_allocations(profile))
        return 1;
    return row->period;
}

/* ---------------------------------------------------------------- metrics -- */

/* 0, *metric is -1 when there is no more room. */
static int intern_metric(struct fp_profile *profile, uint32_t name, int *metric)
{
    for (uint32_t i = 0; i < profile->metric_count; i++) {
        *metric = (int)i;
        if (profile->metric[i].name == name)
            return 0;
    }
    *metric = -1;
    if (profile->metric_count < FP_METRICS_MOST) {
        *metric = (int)profile->metric_count++;
        profile->metric[*metric] = (struct fp_metric_facts){.name = name};
    }
    return 0;
}

static bool same_schema(const struct fp_schema *a, const struct fp_schema *b)
{
    return a->count == b->count && memcmp(a->metric, b->metric, a->count) == 0;
}

static int intern_schema(struct fp_profile *profile, const struct fp_schema *schema, uint32_t *id)
{
    for (*id = 0; *id < profile->schema_count; ++*id) {
        if (same_schema(&profile->schema[*id], schema))
            return 0;
    }
    if (profile->schema_count == FP_SCHEMAS_MOST)
        return check(profile, "too many different sets of metrics");
    profile->schema[profile->schema_count++] = *schema;
    return 0;
}

/* The numbers of profile->fields, as the row's. */
static int read_numbers(struct fp_profile *profile)
{
    const struct fp_fields *fields = &profile->fields;
    const struct fp_schema *likely = &profile->schema[profile->last_schema];
    struct fp_schema schema = {.count = fields->count};
    struct fp_row *row = &profile->row;
    fp_metric_set seen = {{0}};
    int err = 0, metric;

    for (uint32_t n = 0; n < fields->count; n++) {
        metric = n < likely->count ? likely->metric[n] : -1;
        if (metric < 0 || profile->metric[metric].name != fields->key[n])
            err = intern_metric(profile, fields->key[n], &metric);
        if (err != 0)
            return err;
        if (metric < 0)
            return check(profile, "too many different metrics");
        if (fp_metric_has(&seen, (unsigned)metric))
            return check(profile, "a metric twice in one line");
        fp_metric_add(&seen, (unsigned)metric);
        row->value[n] = fields->value[n];
        row->delta[n] = fields->delta[n];
        schema.metric[n] = (uint8_t)metric;
    }
    row->schema = profile->last_schema;
    if (profile->schema_count == 0 || !same_schema(likely, &schema))
        err = intern_schema(profile, &schema, &row->schema);
    if (err == 0)
        profile->last_schema = row->schema;
    return err;
}

static void widen(int64_t *min, int64_t *max, int64_t number)
{
    if (number < *min)
        *min = number;
    if (number > *max)
        *max = number;
}

static void note_metrics(struct fp_profile *profile, const struct fp_row *row, bool is_own)
{
    const struct fp_schema *schema = &profile->schema[row->schema];
    fp_metric_set rest;
    unsigned n;

    for (uint32_t i = 0; i < schema->count; i++) {
        struct fp_metric_facts *facts = &profile->metric[schema->metric[i]];

        facts->rows++;
        facts->samples += !is_own;
    }
    /* Other values were noted before, or are 0; their deltas are 0. */
    for (rest = fp_metric_either(&row->changed, &row->odd); fp_metric_take(&rest, &n);) {
        struct fp_metric_facts *facts = &profile->metric[schema->metric[n]];

        widen(&facts->value_min, &facts->value_max, row->value[n]);
        widen(&facts->delta_min, &facts->delta_max, row->delta[n]);
        facts->odd += (uint64_t)fp_metric_has(&row->odd, n);
    }
}

/* ---------------------------------------------------------------- samples -- */

static int intern_event(struct fp_profile *profile, struct fp_slice name, uint32_t *event)
{
    uint32_t text;
    int err;

    for (*event = 0; *event < profile->event_count; ++*event) {
        if (fp_slice_is(fp_profile_text(profile, profile->event[*event]), name))
            return 0;
    }
    /* Within a file it is damage. */
    if (*event > 0 && fp_is_allocation(name) != fp_profile_is_of_allocations(profile))
        return current_file(profile)->dialect == FP_NO_DIALECT
                   ? FP_EMIXED
                   : check(profile, "an event that this file's samples do not have");
    if (*event == FP_EVENTS_MOST)
        return check(profile, "too many different events");
    err = intern(profile, name, &text);
    if (err == 0)
        err = FP_GROW(&profile->budget, &profile->event, &profile->event_room, *event + 1u);
    if (err == 0)
        profile->event[profile->event_count++] = text;
    return err;
}

/* Samples of two events count different things. A file of a session has one event: that of one
 * sample alone is damage to its name. */
static bool is_left_out(struct fp_profile *profile, const struct fp_sample *sample, uint32_t event)
{
    const struct fp_file *file = current_file(profile);

    if (fp_sample_is_own(sample))
        return false;
    if (sample->dialect != FP_PERF && file->dialect != FP_NO_DIALECT)
        event = file->event;
    profile->event_samples[event]++;
    return profile->choice == FP_FIRST_EVENT  ? event != 0
           : profile->choice == FP_ALL_EVENTS ? false
                                              : profile->event[event] != profile->selected;
}

/* One text is another stack with another status, or in another dialect. */
static int stack_of(struct fp_profile *profile, const struct fp_sample *sample, uint32_t *id)
{
    uint64_t hash = fp_hash(sample->stack.at, sample->stack.size);
    uint32_t status = 0;
    int err = 0;

    if (sample->dialect == FP_ORIGINAL)
        err = intern(profile, sample->header.status, &status);
    hash = fp_hash_two(hash ^ status, (uint64_t)sample->dialect);
    if (err == 0 && !fp_tree_find(&profile->tree, hash, sample->dialect, status, sample->stack, id))
        err = fp_tree_add(&profile->tree, sample->dialect, hash, sample->stack, status, id,
                          &profile->bad);
    if (err == 0)
        current_file(profile)->shortened += profile->tree.is_shortened;
    return err;
}

static void note_time(struct fp_profile *profile, struct fp_process *process)
{
    struct fp_file *file = current_file(profile);
    int64_t now = profile->row.time_us;

    if (profile->rows.count == 0)
        profile->first_us = profile->last_us = now;
    if (now < profile->rows.time_us)
        profile->is_ordered = 0;
    if (profile->rows.count == 0 || now != profile->rows.time_us)
        profile->time_runs++;
    if (file->samples == 0 && file->own == 0)
        file->first_us = file->last_us = now;
    widen(&profile->first_us, &profile->last_us, now);
    widen(&file->first_us, &file->last_us, now);
    widen(&process->first_us, &process->last_us, now);
}

int fp_profile_keep_row(struct fp_profile *profile, struct fp_rows *rows, struct fp_row *row)
{
    struct fp_process *process = &profile->process[row->process];
    int err;

    if (rows->count == 0 || row->time_us != rows->time_us)
        profile->time_runs++;
    if (row->period > profile->period_max)
        profile->period_max = row->period;
    err = fp_rows_add(rows, &profile->budget, profile->schema, row);
    if (err != 0)
        return err;
    note_metrics(profile, row, process->is_own);
    process->samples++;
    profile->own_count += process->is_own != 0;
    return 0;
}

static void warn(struct fp_profile *profile, uint64_t line, const char *what)
{
    if (profile->warning_count < FP_WARNINGS_MOST)
        profile->warning[profile->warning_count] =
            (struct fp_warning){(uint32_t)(profile->file_count - 1), line, what};
    profile->warning_count++;
}

static void judge_text(struct fp_profile *profile, enum fp_dialect dialect)
{
    struct fp_file *file = current_file(profile);
    uint64_t bad = fp_messages_judge(&file->messages, dialect);

    file->bad += bad;
    if (bad > 0)
        warn(profile, file->messages.line, "no time in the header");
}

/* The first good sample of a file decides what the file is. */
static void note_dialect(struct fp_profile *profile, const struct fp_sample *sample)
{
    struct fp_file *file = current_file(profile);

    if (file->dialect != FP_NO_DIALECT)
        return;
    judge_text(profile, sample->dialect);
    file->dialect = sample->dialect;
    file->event = profile->row.event;
}

static void note_sample(struct fp_profile *profile, const struct fp_row *row)
{
    int64_t seen = profile->period_seen;

    if (row->time_us < profile->process_us)
        profile->process_us = row->time_us;
    if (row->period != 1 && fp_row_count(profile, row) == row->period)
        return;
    profile->period_seen = row->period;
    profile->has_periods |= seen >= 0 && seen != row->period;
}

static int keep(struct fp_profile *profile, const struct fp_sample *sample)
{
    struct fp_file *file = current_file(profile);
    struct fp_row *row = &profile->row;
    struct fp_process *process = &profile->process[row->process];
    int err;

    note_dialect(profile, sample);
    note_time(profile, process);
    if (row->period > profile->period_max)
        profile->period_max = row->period;
    if (row->period < profile->period_min)
        profile->period_min = row->period;
    if (row->scheduler > profile->scheduler_max)
        profile->scheduler_max = row->scheduler;
    err = fp_rows_add(&profile->rows, &profile->budget, profile->schema, row);
    if (err != 0)
        return err;
    note_metrics(profile, row, process->is_own);
    process->samples++;
    profile->message_rows += fp_row_words(profile, row)->message != 0;
    profile->call_rows += fp_row_words(profile, row)->references != 0;
    profile->wait_rows += fp_row_words(profile, row)->waits_for != 0;
    profile->trace_rows += fp_row_words(profile, row)->trace != 0;
    profile->collection_rows += fp_row_words(profile, row)->collection != 0;
    if (!process->is_own) {
        file->samples++;
        file->observations = fp_sum(file->observations, (uint64_t)fp_row_count(profile, row));
        note_sample(profile, row);
        return 0;
    }
    profile->own_count++;
    err = intern(profile, sample->fields, &file->own);
    return err != 0 ? err : fp_file_note_node(profile, file, process);
}

/* The sample as profile->row. */
static int understand(struct fp_profile *profile, const struct fp_sample *sample)
{
    struct fp_row *row = &profile->row;
    int err = fp_carry_read(&profile->carry, &profile->strings, &profile->budget, sample,
                            &profile->fields, &profile->bad);

    if (err != 0 || profile->fields.is_begun)
        return err;
    err = read_numbers(profile);
    if (err == 0)
        err = fp_profile_words(profile, row);
    row->time_us = sample->header.time_us;
    row->period = sample->header.period;
    row->scheduler = sample->header.scheduler;
    row->file = (uint32_t)(profile->file_count - 1);
    if (err == 0)
        err = stack_of(profile, sample, &row->stack);
    return err != 0 ? err : intern_event(profile, sample->header.event, &row->event);
}

static int add(struct fp_profile *profile, const struct fp_scan_piece *piece)
{
    struct fp_file *file = current_file(profile);
    struct fp_sample sample;
    int err = check(profile, fp_sample_read(piece, file->dialect, &sample));

    if (fp_messages_take(&file->messages, &sample, piece->line))
        return 0;
    if (err == 0)
        err = check(profile, fp_check_format(&sample, &file->formats));
    if (fp_format_is_newer(&file->formats, false))
        return FP_ENEWER;
    if (err == 0)
        err = understand(profile, &sample);
    if (err == 0 && profile->fields.is_begun)
        return 0;
    if (err == 0 && is_left_out(profile, &sample, profile->row.event)) {
        note_dialect(profile, &sample);
        file->left_out++;
        return 0;
    }
    if (err == 0)
        err = fp_profile_process(profile, &sample, &profile->row.process);
    if (err == 0)
        return keep(profile, &sample);
    if (err != FP_EINVAL)
        return err;
    file->bad++;
    fp_carry_damage(&profile->carry);
    warn(profile, piece->line, profile->bad);
    return 0;
}

/* ------------------------------------------------------------------ files -- */

int fp_profile_begin(struct fp_profile *profile, struct fp_source *source, struct fp_slice path)
{
    struct fp_file file = {0};
    int err = profile->source != NULL || profile->coarse_us != 0 ? FP_ESTATE : 0;

    if (err == 0 && profile->file_count == FP_FILES_MOST)
        err = FP_EFULL;
    if (err == 0)
        err =
            FP_GROW(&profile->budget, &profile->file, &profile->file_room, profile->file_count + 1);
    if (err == 0)
        err = intern(profile, path, &file.path);
    if (err == 0)
        err = fp_scan_open(&profile->scan, fp_source_read, source);
    if (err != 0) {
        fp_source_close(source);
        return err;
    }
    profile->file[profile->file_count++] = file;
    profile->source = source;
    profile->before = (struct fp_source_state){0};
    /* Its processes may be others, of another node. */
    fp_carry_damage(&profile->carry);
    return 0;
}

struct fp_source *fp_profile_take_source(struct fp_profile *profile)
{
    struct fp_source *resting = profile->resting;

    profile->resting = NULL;
    return resting;
}

int fp_profile_continue(struct fp_profile *profile, struct fp_source *source, struct fp_slice path)
{
    int err = profile->source != NULL || profile->file_count == 0 || profile->coarse_us != 0
                  ? FP_ESTATE
                  : intern(profile, path, &current_file(profile)->path);

    if (err == 0)
        err = fp_scan_open(&profile->scan, fp_source_read, source);
    if (err != 0) {
        fp_source_close(source);
        return err;
    }
    profile->source = source;
    profile->is_followed = true;
    profile->before = current_file(profile)->source;
    profile->scan.line = profile->next_line;
    return 0;
}

/* Losses of the file as a whole. */
static void warn_of_file(struct fp_profile *profile)
{
    const struct fp_source_state *state = fp_source_state(profile->source);

    if (state->is_cut_off)
        warn(profile, 0, "the compressed file is cut off: its end is missing");
    if (state->damaged > 0)
        warn(profile, 0, "the compressed file is damaged: text is missing");
    if (current_file(profile)->shortened > 0)
        warn(profile, 0, "samples have more frames than any stack has: they are shortened");
    if (current_file(profile)->left_out > 0)
        warn(profile, 0, "it has samples of several events, of which those of one are read");
    if (!fp_file_is_told_apart(profile))
        warn(profile, 0,
             "its node and another one have equal numbers of their OS processes: "
             "processes of both are mixed up");
}

int fp_profile_step(struct fp_profile *profile, uint64_t bytes)
{
    const struct fp_source_state *state;
    uint64_t until;
    int more = 1;

    if (profile->source == NULL)
        return 0;
    state = fp_source_state(profile->source);
    until = state->text + bytes;
    while (more > 0 && state->text < until) {
        struct fp_scan_piece piece;

        more = fp_scan_next(&profile->scan, &piece);
        if (more == FP_SCAN_PIECE) {
            int err = add(profile, &piece);

            more = err != 0 ? err : more;
        }
    }
    if (more == 0 && fp_format_is_newer(&current_file(profile)->formats, true))
        more = FP_ENEWER;
    if (more == 0) {
        judge_text(profile, current_file(profile)->dialect);
        warn_of_file(profile);
    }
    if (more <= 0)
        close_file(profile);
    return more > 0 ? 1 : more;
}
