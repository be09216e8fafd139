/* export_firefox.c - the processed profile of the Firefox Profiler, as CHANGELOG-formats.md and
 * src/types/profile.ts of github.com/firefox-devtools/profiler have it.
 *
 * An Erlang process is a thread. The status of a sample is the root frame of its stack, and the
 * category of all frames above it, so that time in which a process waits is drawn as idle. Rows are
 * in the order of time and samples in that of threads: one pass counts the samples of each process,
 * the next one puts them into their places. Tables that threads share come last. */
#include <stdbool.h>

#include "report/export.h"
#include "report/interval.h"
#include "report/text.h"

#define VERSION "70"
/* Tracks that are shown at first: the busiest ones. */
#define TRACKS 40

/* Number 0 is that of samples without a status. Transparent is idle. */
#define CATEGORY_MAP(X)                                                                            \
    X(Other, "grey")                                                                               \
    X(running, "green")                                                                            \
    X(garbage_collecting, "orange")                                                                \
    X(runnable, "yellow")                                                                          \
    X(waiting, "transparent")                                                                      \
    X(suspended, "transparent")                                                                    \
    X(exiting, "brown")
#define CATEGORY_NAME(name, color) {#name, sizeof(#name) - 1},
#define CATEGORY_NUMBER(name, color) CATEGORY_##name,
#define CATEGORY_JSON(name, color)                                                                 \
    ",{\"name\":\"" #name "\",\"color\":\"" color "\",\"subcategories\":[\"Other\"]}"
enum category { CATEGORY_MAP(CATEGORY_NUMBER) CATEGORIES };
static const struct fp_slice categories[] = {CATEGORY_MAP(CATEGORY_NAME)};
static const char categories_json[] = CATEGORY_MAP(CATEGORY_JSON);

static const char markers_json[] =
    "[{\"name\":\"flame_prof_status\",\"tooltipLabel\":\"{marker.name}\","
    "\"tableLabel\":\"{marker.name}\",\"chartLabel\":\"{marker.name}\","
    "\"display\":[\"marker-chart\",\"marker-table\"],\"fields\":[],"
    "\"description\":\"The status of the process, from the first sample that has it to the first "
    "sample that has another one, or for a tick where samples are of schedulers\"},"
    "{\"name\":\"flame_prof_gc\",\"tooltipLabel\":\"GC\",\"tableLabel\":\"GC\","
    "\"chartLabel\":\"GC\",\"display\":[\"marker-chart\",\"marker-table\",\"timeline-overview\"],"
    "\"fields\":[{\"key\":\"minor_gcs\",\"label\":\"Minor collections\",\"format\":\"integer\"}],"
    "\"description\":\"Garbage collections between this sample of the process and the one "
    "before\"}]";

struct firefox_sample {
    int64_t time_us, weight, minor_gcs;
    uint32_t stack; /* of the file, plus 1; 0: none */
};

/* A node of the profile's tree below a status; node 0 is the status itself. */
struct firefox_stack {
    uint32_t category, node;
};

struct firefox_function {
    uint32_t name, dso; /* texts of the file */
};

struct firefox_marker {
    int64_t start_us, end_us, minor_gcs; /* 0: a status */
    uint32_t category;
};

struct firefox_thread {
    uint32_t process;
    uint64_t busy; /* samples */
    size_t begin, end;
};

struct firefox_writing {
    struct fp_profile *profile;
    struct fp_budget *budget;
    const struct fp_query *query;
    struct fp_output *output;
    struct fp_strings strings;     /* the file's */
    char *room;                    /* for decoding */
    struct firefox_thread *thread; /* by process; then in the order of the file */
    struct firefox_sample *sample;
    uint32_t *stack_of, *function_of, *line_of; /* by stack and frame of the profile */
    struct firefox_stack *stack;
    size_t stack_count, stack_room;
    struct fp_table stacks;
    struct firefox_function *function;
    size_t function_count, function_room;
    struct fp_table functions;
    struct firefox_marker *marker; /* of one thread */
    int64_t tick_us; /* mode => schedulers: what a sample tells of; else a process has one a tick */
    uint32_t category_text[CATEGORIES], gc_text;
    size_t thread_count, sample_count, marker_count, marker_room;
    int err; /* the first one */
};

FP_INTERN_PAIR(intern_stack, struct firefox_writing, struct firefox_stack, stack, stacks, category,
               node)
FP_INTERN_PAIR(intern_function, struct firefox_writing, struct firefox_function, function,
               functions, name, dso)

static int note(struct firefox_writing *w, int err)
{
    if (w->err == 0)
        w->err = err;
    return w->err;
}

static uint32_t shown_text(struct firefox_writing *w, struct fp_slice text)
{
    uint32_t id = 0;

    note(w, fp_strings_intern(&w->strings, w->budget, text, &id));
    return id;
}

static uint32_t text_of(struct firefox_writing *w, struct fp_slice text)
{
    return shown_text(w, fp_text_decode(text, w->room));
}

/* ------------------------------------------------------------------- tables -- */

static uint32_t category_of(const struct firefox_writing *w, uint32_t status)
{
    uint32_t category = CATEGORIES;

    while (--category > 0 &&
           !fp_slice_is(fp_profile_text(w->profile, status), categories[category]))
        ;
    return category;
}

/* Callers come before the functions that they called. */
static void add_stack(struct firefox_writing *w, size_t s)
{
    const struct fp_tree *tree = &w->profile->tree;
    uint32_t category = category_of(w, tree->stack[s].status), nodes[FP_FRAMES_MOST + 1], id = 0;
    size_t count = 0;

    for (uint32_t n = tree->stack[s].node; n != 0; n = tree->node[n].parent)
        nodes[count++] = n;
    if (category != 0)
        nodes[count++] = 0;
    while (count-- > 0 && w->err == 0) {
        note(w, intern_stack(w, w->budget, (struct firefox_stack){category, nodes[count]}, &id));
        w->stack_of[s] = id + 1;
    }
}

static void add_function(struct firefox_writing *w, size_t frame, struct fp_slice symbol,
                         struct fp_slice dso)
{
    struct firefox_function function = {shown_text(w, fp_text_symbol(symbol, w->room)),
                                        text_of(w, dso)};

    note(w, intern_function(w, w->budget, function, &w->function_of[frame]));
}

/* The frames of categories are behind those of the profile. */
static size_t frame_count(const struct firefox_writing *w)
{
    return w->profile->tree.frame_count + CATEGORIES;
}

static void make_tables(struct firefox_writing *w)
{
    const struct fp_profile *profile = w->profile;
    const struct fp_tree *tree = &profile->tree;
    size_t f = 0;

    w->gc_text = text_of(w, FP_SLICE("GC"));
    note(w, FP_ZEROS(w->budget, &w->stack_of, tree->stack_count));
    note(w, FP_ZEROS(w->budget, &w->function_of, frame_count(w)));
    note(w, FP_ZEROS(w->budget, &w->line_of, frame_count(w)));
    for (size_t s = 0; s < tree->stack_count && w->err == 0; s++)
        add_stack(w, s);
    for (; f < tree->frame_count && w->err == 0; f++)
        add_function(
            w, f,
            fp_text_without_line(fp_profile_text(profile, tree->frame[f].symbol), &w->line_of[f]),
            fp_profile_text(profile, tree->frame[f].dso));
    for (size_t c = 0; c < CATEGORIES && w->err == 0; c++) {
        w->category_text[c] = text_of(w, categories[c]);
        add_function(w, f + c, categories[c], FP_SLICE("status"));
    }
}

/* ------------------------------------------------------------------ samples -- */

static uint32_t category_at(const struct firefox_writing *w, uint32_t stack)
{
    return stack == 0 ? CATEGORY_Other : w->stack[stack - 1].category;
}

static bool is_busy(uint32_t category)
{
    return category != CATEGORY_waiting && category != CATEGORY_suspended;
}

/* Counts the samples of each thread, or puts them into their places. */
static void read_rows(struct firefox_writing *w, bool is_counted)
{
    const struct fp_profile *profile = w->profile;
    int metric = fp_profile_metric(profile, FP_SLICE("minor_gcs"));
    struct fp_cursor cursor;
    struct fp_row row;
    int more = 0;

    fp_cursor_open(&cursor, &profile->rows, profile->schema, w->budget);
    while (w->err == 0 && (more = fp_cursor_next(&cursor, &row)) > 0) {
        struct firefox_thread *thread = &w->thread[row.process];
        int place = metric < 0 ? -1 : fp_profile_place(profile, &row, metric);
        struct firefox_sample sample = {row.time_us, 0, place < 0 ? 0 : row.delta[place],
                                        w->stack_of[row.stack]};

        if (!fp_row_weight(profile, w->query, &row, &sample.weight) || sample.weight == 0)
            continue;
        if (is_counted)
            w->sample[thread->end] = sample;
        else
            thread->busy += is_busy(category_at(w, sample.stack));
        thread->end++;
    }
    fp_cursor_close(&cursor);
    if (more < 0)
        note(w, more);
}

static int by_time(const void *a, const void *b)
{
    int64_t x = ((const struct firefox_sample *)a)->time_us,
            y = ((const struct firefox_sample *)b)->time_us;

    return (x > y) - (x < y);
}

/* The busiest first. */
static int by_work(const void *a, const void *b)
{
    const struct firefox_thread *x = a, *y = b;

    if (x->busy != y->busy)
        return x->busy > y->busy ? -1 : 1;
    return (x->process > y->process) - (x->process < y->process);
}

static void make_threads(struct firefox_writing *w)
{
    size_t processes = w->profile->process_count;

    if (note(w, FP_ZEROS(w->budget, &w->thread, processes)) != 0)
        return;
    read_rows(w, false);
    for (size_t p = 0; p < processes; p++) {
        struct firefox_thread *thread = &w->thread[p];
        size_t count = thread->end;

        thread->process = (uint32_t)p;
        thread->begin = thread->end = w->sample_count;
        w->sample_count += count;
        w->thread_count += count > 0;
    }
    if (note(w, FP_ZEROS(w->budget, &w->sample, w->sample_count)) != 0)
        return;
    read_rows(w, true);
    for (size_t p = 0; p < processes; p++) {
        struct firefox_thread *thread = &w->thread[p];

        /* Files that overlap. */
        if (!w->profile->is_ordered)
            qsort(w->sample + thread->begin, thread->end - thread->begin, sizeof(*w->sample),
                  by_time);
        /* Last those without samples. */
        thread->busy += thread->end > thread->begin;
    }
    qsort(w->thread, processes, sizeof(*w->thread), by_work);
    if (fp_is_of_schedulers(w->profile))
        note(w, fp_tick_length(w->profile, &w->tick_us));
}

/* ------------------------------------------------------------------ columns -- */

static void put_or_null(struct firefox_writing *w, bool is_null, int64_t number)
{
    if (is_null)
        fp_json_plain(w->output, NULL, "null");
    else
        fp_json_number(w->output, NULL, number);
}

/* A value for each `i`, which the statement puts. */
#define COLUMN(key, count, statement)                                                              \
    do {                                                                                           \
        fp_json_begin(w->output, (key), "[");                                                      \
        for (size_t i = 0; i < (count); i++)                                                       \
            statement;                                                                             \
        fp_json_end(w->output, "]");                                                               \
    } while (0)
#define SAME(key, plain, count) COLUMN(key, count, fp_json_plain(w->output, NULL, (plain)))
#define NUMBERS(key, count, number) COLUMN(key, count, fp_json_number(w->output, NULL, (number)))
#define TIMES(key, count, us)                                                                      \
    COLUMN(key, count, fp_json_millis(w->output, NULL, (us)-w->profile->first_us))

/* ------------------------------------------------------------------ threads -- */

static void put_samples(struct firefox_writing *w, const struct firefox_sample *samples,
                        size_t count)
{
    int64_t bytes = fp_by_bytes(w->profile, &w->query->by);

    fp_json_begin(w->output, "samples", "{");
    COLUMN("stack", count, put_or_null(w, samples[i].stack == 0, (int64_t)samples[i].stack - 1));
    TIMES("time", count, samples[i].time_us);
    NUMBERS("weight", count, fp_times(samples[i].weight, bytes > 0 ? bytes : 1));
    fp_json_word(w->output, "weightType", bytes > 0 ? "bytes" : "samples");
    fp_json_number(w->output, "length", (int64_t)count);
    fp_json_end(w->output, "}");
}

static void add_marker(struct firefox_writing *w, struct firefox_marker marker)
{
    if (note(w, FP_GROW(w->budget, &w->marker, &w->marker_room, w->marker_count + 1)) == 0)
        w->marker[w->marker_count++] = marker;
}

/* The end of the status of samples[i]: a process that no scheduler runs has no sample. */
static int64_t end_of_status(const struct firefox_writing *w, const struct firefox_sample *samples,
                             size_t i, size_t count)
{
    int64_t next_us = samples[i + (i + 1 < count)].time_us;

    return w->tick_us > 0 && (i + 1 == count || next_us - samples[i].time_us > 3 * w->tick_us / 2)
               ? samples[i].time_us + w->tick_us
               : next_us;
}

static void make_markers(struct firefox_writing *w, const struct firefox_sample *samples,
                         size_t count)
{
    w->marker_count = 0;
    for (size_t i = 0, begin = 0; i < count; i++) {
        uint32_t category = category_at(w, samples[begin].stack);
        int64_t end_us = end_of_status(w, samples, i, count);

        if (samples[i].minor_gcs > 0)
            add_marker(w,
                       (struct firefox_marker){samples[i].time_us, samples[i].time_us,
                                               samples[i].minor_gcs, CATEGORY_garbage_collecting});
        if (i + 1 < count && end_us == samples[i + 1].time_us &&
            category_at(w, samples[i + 1].stack) == category)
            continue;
        if (category != CATEGORY_Other)
            add_marker(w, (struct firefox_marker){samples[begin].time_us, end_us, 0, category});
        begin = i + 1;
    }
}

static void put_marker_data(struct firefox_writing *w, int64_t minor_gcs)
{
    fp_json_begin(w->output, NULL, "{");
    fp_json_word(w->output, "type", minor_gcs > 0 ? "flame_prof_gc" : "flame_prof_status");
    if (minor_gcs > 0)
        fp_json_number(w->output, "minor_gcs", minor_gcs);
    fp_json_end(w->output, "}");
}

static void put_markers(struct firefox_writing *w)
{
    const struct firefox_marker *markers = w->marker;
    size_t count = w->marker_count;

    fp_json_begin(w->output, "markers", "{");
    COLUMN("data", count, put_marker_data(w, markers[i].minor_gcs));
    NUMBERS("name", count,
            markers[i].minor_gcs > 0 ? w->gc_text : w->category_text[markers[i].category]);
    TIMES("startTime", count, markers[i].start_us);
    TIMES("endTime", count, markers[i].end_us);
    NUMBERS("phase", count, markers[i].minor_gcs == 0);
    NUMBERS("category", count, markers[i].category);
    fp_json_number(w->output, "length", (int64_t)count);
    fp_json_end(w->output, "}");
}

static void put_dimension(struct firefox_writing *w, const char *key, enum fp_dimension dimension,
                          uint32_t code)
{
    char small[FP_DIMENSION_BYTES];
    struct fp_slice text = fp_dimension_text(w->profile, dimension, code, small);

    fp_json_text(w->output, key, fp_text_decode(text, w->room));
}

static void put_thread(struct firefox_writing *w, const struct firefox_thread *thread)
{
    const struct firefox_sample *samples = w->sample + thread->begin;
    size_t count = thread->end - thread->begin;
    const struct fp_process *process = &w->profile->process[thread->process];
    struct fp_output *output = w->output;

    make_markers(w, samples, count);
    fp_json_begin(output, NULL, "{");
    put_dimension(w, "name", FP_DIMENSION_process, fp_process_label(process));
    put_dimension(w, "tid", FP_DIMENSION_pid, thread->process);
    put_dimension(w, "pid", FP_DIMENSION_node, process->node);
    put_dimension(w, "processName", FP_DIMENSION_node, process->node);
    fp_json_plain(output, NULL,
                  "\"processType\":\"default\",\"processStartupTime\":0,\"registerTime\":0,"
                  "\"processShutdownTime\":null,\"unregisterTime\":null,\"pausedRanges\":[],"
                  "\"isMainThread\":false,\"showMarkersInTimeline\":true");
    put_samples(w, samples, count);
    put_markers(w);
    fp_json_end(output, "}");
}

/* ------------------------------------------------------------- shared tables -- */

/* The caller is known. */
static int64_t prefix_offset(struct firefox_writing *w, const struct firefox_stack *stack)
{
    uint32_t parent = stack->node == 0 ? 0 : w->profile->tree.node[stack->node].parent;

    if (stack->node == 0 || (parent == 0 && stack->category == 0))
        return 0;
    note(w, intern_stack(w, w->budget, (struct firefox_stack){stack->category, parent}, &parent));
    return stack - w->stack - (int64_t)parent;
}

static int64_t frame_of(const struct firefox_writing *w, const struct firefox_stack *stack)
{
    const struct fp_tree *tree = &w->profile->tree;

    return stack->node != 0 ? tree->node[stack->node].frame
                            : (int64_t)tree->frame_count + stack->category;
}

static void put_frames(struct firefox_writing *w)
{
    size_t functions = w->profile->tree.frame_count, count = frame_count(w);

    fp_json_begin(w->output, "frameTable", "{");
    SAME("address", "-1", count);
    SAME("lib", "-1", count);
    SAME("inlineDepth", "0", count);
    SAME("subcategory", "0", count);
    SAME("nativeSymbol", "null", count);
    SAME("innerWindowID", "null", count);
    SAME("column", "null", count);
    SAME("originalLocation", "null", count);
    NUMBERS("func", count, w->function_of[i]);
    /* That of a function is its caller's. */
    COLUMN("category", count, put_or_null(w, i < functions, (int64_t)(i - functions)));
    COLUMN("line", count,
           put_or_null(w, w->line_of[i] == 0 || w->query->without_lines, w->line_of[i]));
    fp_json_number(w->output, "length", (int64_t)count);
    fp_json_end(w->output, "}");
}

static void put_functions(struct firefox_writing *w)
{
    size_t count = w->function_count;

    fp_json_begin(w->output, "funcTable", "{");
    NUMBERS("name", count, w->function[i].name);
    NUMBERS("source", count, w->function[i].dso);
    SAME("isJS", "false", count);
    SAME("relevantForJS", "false", count);
    SAME("resource", "-1", count);
    SAME("lineNumber", "null", count);
    SAME("columnNumber", "null", count);
    SAME("originalLocation", "null", count);
    fp_json_number(w->output, "length", (int64_t)count);
    fp_json_end(w->output, "}");
}

/* Each text is a source, too, so that this has its number. */
static void put_texts(struct firefox_writing *w)
{
    size_t count = w->strings.count;

    fp_json_begin(w->output, "sources", "{");
    NUMBERS("filename", count, (int64_t)i);
    SAME("id", "null", count);
    SAME("startLine", "1", count);
    SAME("startColumn", "1", count);
    SAME("sourceMapURL", "null", count);
    SAME("content", "null", count);
    fp_json_number(w->output, "length", (int64_t)count);
    fp_json_end(w->output, "}");
    COLUMN("stringArray", count,
           fp_json_text(w->output, NULL, fp_strings_at(&w->strings, (uint32_t)i)));
}

static void put_shared(struct firefox_writing *w)
{
    fp_json_begin(w->output, "shared", "{");
    fp_json_begin(w->output, "stackTable", "{");
    NUMBERS("frame", w->stack_count, frame_of(w, &w->stack[i]));
    NUMBERS("prefixOffset", w->stack_count, prefix_offset(w, &w->stack[i]));
    fp_json_number(w->output, "length", (int64_t)w->stack_count);
    fp_json_end(w->output, "}");
    put_frames(w);
    put_functions(w);
    put_texts(w);
    fp_json_plain(
        w->output, NULL,
        "\"nativeSymbols\":{\"libIndex\":[],\"address\":[],\"name\":[],\"functionSize\":[],"
        "\"length\":0},\"resourceTable\":{\"length\":0,\"name\":[],\"host\":[],\"type\":[]},"
        "\"sourceLocationTable\":{\"source\":[],\"line\":[],\"column\":[],\"length\":0}");
    fp_json_end(w->output, "}");
}

/* --------------------------------------------------------------------- whole -- */

static void put_meta(struct firefox_writing *w)
{
    const struct fp_profile *profile = w->profile;
    struct fp_output *output = w->output;
    const struct fp_filter *filter = &w->query->filter;
    int64_t first = profile->first_us, last = profile->last_us;
    int64_t from = filter->from_us > first ? filter->from_us : first;
    int64_t to = filter->to_us < last ? filter->to_us : last;

    fp_json_begin(output, "meta", "{");
    fp_json_plain(output, NULL,
                  "\"product\":\"flame_prof\",\"importedFrom\":\"flame_prof\",\"version\":36,"
                  "\"preprocessedProfileVersion\":" VERSION ",\"processType\":0,\"stackwalk\":1,"
                  "\"symbolicated\":true,\"usesOnlyOneStackType\":true,"
                  "\"sourceCodeIsNotOnSearchfox\":true,\"keepProfileThreadOrder\":true");
    fp_json_millis(output, "interval", fp_interval_us(profile));
    fp_json_millis(output, "startTime", first);
    fp_json_millis(output, "profilingStartTime", from - first);
    fp_json_millis(output, "profilingEndTime", to - first);
    NUMBERS("initialVisibleThreads", w->thread_count < TRACKS ? w->thread_count : TRACKS,
            (int64_t)i);
    SAME("initialSelectedThreads", "0", w->thread_count > 0);
    fp_json_begin(output, "categories", "[");
    fp_json_plain(output, NULL, categories_json + 1);
    fp_json_end(output, "]");
    fp_json_plain(output, "markerSchema", markers_json);
    fp_json_end(output, "}");
}

static void put_whole(struct firefox_writing *w)
{
    make_tables(w);
    if (w->err == 0)
        make_threads(w);
    if (w->err != 0)
        return;
    fp_json_begin(w->output, NULL, "{");
    put_meta(w);
    fp_json_plain(w->output, "libs", "[]");
    fp_json_begin(w->output, "threads", "[");
    for (size_t i = 0; i < w->thread_count && w->err == 0; i++)
        put_thread(w, &w->thread[i]);
    fp_json_end(w->output, "]");
    if (w->err == 0)
        put_shared(w);
    fp_json_end(w->output, "}");
}

int fp_export_firefox(struct fp_profile *profile, const struct fp_query *query,
                      struct fp_output *output)
{
    struct firefox_writing w = {
        .profile = profile, .budget = &profile->budget, .query = query, .output = output};

    w.room = malloc(FP_TEXT_ROOM(profile->strings.size));
    if (w.room == NULL)
        return FP_ENOMEM;
    put_whole(&w);
    FP_FREE(w.budget, w.thread, profile->process_count);
    FP_FREE(w.budget, w.sample, w.sample_count);
    FP_FREE(w.budget, w.stack_of, profile->tree.stack_count);
    FP_FREE(w.budget, w.function_of, frame_count(&w));
    FP_FREE(w.budget, w.line_of, frame_count(&w));
    FP_FREE(w.budget, w.stack, w.stack_room);
    FP_FREE(w.budget, w.function, w.function_room);
    FP_FREE(w.budget, w.marker, w.marker_room);
    fp_table_free(&w.stacks, w.budget);
    fp_table_free(&w.functions, w.budget);
    fp_strings_free(&w.strings, w.budget);
    free(w.room);
    return w.err;
}
