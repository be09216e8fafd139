/*
 * sink.c - which file, when, and what to do when there is none.
 *
 *                    write_out()
 *      blocks ------------------------> file.size bytes, all of them whole
 *        ^                                |
 *        |  the block stays               | flushes, bytes: finish_file()
 *        +------------ fail() <-----------+ any error
 *
 * write_out() is the one place where samples leave this process. A file takes
 * a block wholly or is cut back to where it was; a file that can not even be
 * cut keeps its `.part`, and is finished by the next session that begins here.
 */
#include "store/sink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/error.h"
#include "store/blocks.h"
#include "store/directory.h"
#include "store/fs.h"
#include "store/zstd_frame.h"

#define PATH_MOST 4400
#define TEXT_ROOM 4600 /* a path, and what went wrong with it */
#define RETRY_FIRST_MS 1000u
#define RETRY_MOST_MS 32000u
/* What is held is forgotten in so many pieces. */
#define HELD_PIECES 8u

struct file {
    int descriptor; /* -1: there is none */
    struct fp_log_name name;
    uint64_t size; /* of whole blocks */
    uint32_t flushes;
    struct fp_zstd_table table;
};

struct fp_sink {
    struct fp_sink_options options;
    void (*notify)(void *arg, enum fp_sink_event event, const char *text);
    void *arg;
    struct fp_directory_limits limits;
    struct fp_blocks *blocks;
    char *directory;
    int folder; /* -1: it has to be opened again */
    struct file file;
    struct fp_directory_keys keys;
    struct fp_directory_kept kept; /* finished files at the last retain() */
    bool is_holding, is_failing;
    uint64_t retry_ms, retry_at_ms;
    struct fp_sink_figures figures;
    char error[TEXT_ROOM], path[TEXT_ROOM], text[TEXT_ROOM];
};

/* ---- saying things ---------------------------------------------------- */

static void tell(struct fp_sink *sink, enum fp_sink_event event,
                 const char *text)
{
    if (sink->notify != NULL)
        sink->notify(sink->arg, event, text);
}

static void set_path(struct fp_sink *sink)
{
    char name[FP_LOG_NAME_ROOM];

    fp_log_name_print(&sink->file.name, name);
    snprintf(sink->path, sizeof(sink->path), "%s/%s", sink->directory, name);
}

static void on_removed(void *arg, const char *name)
{
    struct fp_sink *sink = arg;

    sink->figures.removed++;
    snprintf(sink->text, sizeof(sink->text), "%s/%s", sink->directory, name);
    tell(sink, FP_SINK_REMOVED, sink->text);
}

static void note_error(struct fp_sink *sink, const char *path,
                       const char *reason)
{
    sink->figures.errors++;
    snprintf(sink->error, sizeof(sink->error), "%.*s: %s", PATH_MOST, path,
             reason);
}

/* ---- the folder ------------------------------------------------------- */

/* As many and as large as may be, with what is open now. */
static void retain(struct fp_sink *sink)
{
    int err;

    if (sink->folder < 0 ||
        (sink->limits.files == 0 && sink->limits.bytes == 0))
        return;
    err = fp_directory_retain(sink->folder, &sink->limits, &sink->keys,
                              time(NULL), sink->file.descriptor >= 0,
                              sink->file.size, on_removed, sink, &sink->kept);
    if (err != 0)
        note_error(sink, sink->directory, fp_fs_reason(err));
}

static bool has_outgrown(const struct fp_sink *sink)
{
    return sink->limits.bytes != 0 && sink->kept.files > 0 &&
           sink->kept.bytes + sink->file.size > sink->limits.bytes;
}

static int open_folder(struct fp_sink *sink)
{
    if (sink->folder < 0)
        sink->folder = fp_fs_open_folder(sink->directory);
    return sink->folder < 0 ? sink->folder : 0;
}

static void close_folder(struct fp_sink *sink)
{
    if (sink->folder >= 0)
        fp_fs_close(sink->folder);
    sink->folder = -1;
}

/* ---- one file --------------------------------------------------------- */

/* A negative system error, or 0. */
static int begin_file(struct fp_sink *sink, time_t begun)
{
    int file, err = open_folder(sink);

    if (err != 0)
        return err;
    file = fp_directory_create(sink->folder, begun, sink->options.is_zst,
                               &sink->file.name);
    if (file < 0) {
        /* It may have gone: the next try looks where it is then. */
        close_folder(sink);
        return file;
    }
    sink->file.descriptor = file;
    sink->file.size = 0;
    sink->file.flushes = 0;
    fp_directory_note_key(&sink->keys, sink->file.name.key);
    sink->figures.files++;
    set_path(sink);
    if (sink->options.sync == FP_SYNC_FLUSH)
        err = fp_fs_sync_folder(sink->folder);
    tell(sink, FP_SINK_BEGUN, sink->path);
    retain(sink);
    return err;
}

static void forget_file(struct fp_sink *sink)
{
    fp_fs_close(sink->file.descriptor);
    sink->file.descriptor = -1;
    fp_zstd_table_free(&sink->file.table);
}

/* Without its table it is a good file as well. */
static int write_table(struct fp_sink *sink)
{
    size_t size;
    char *bytes;
    int err;

    if (!sink->options.is_zst)
        return 0;
    bytes = fp_zstd_table_print(&sink->file.table, &size);
    if (bytes == NULL)
        return 0;
    err = fp_fs_write(sink->file.descriptor, bytes, size);
    free(bytes);
    if (err == 0)
        sink->figures.bytes += size;
    else if (fp_fs_cut(sink->file.descriptor, sink->file.size) == 0)
        err = fp_fs_is_full(err) ? 0 : err;
    return err;
}

/* The name of a finished file, on the disk. */
static int name_finished(struct fp_sink *sink)
{
    int err = 0;

    if (sink->options.sync != FP_SYNC_NONE)
        err = fp_fs_sync(sink->file.descriptor);
    if (err == 0)
        err = fp_directory_finish(sink->folder, &sink->file.name);
    fp_directory_note_key(&sink->keys, sink->file.name.key);
    set_path(sink);
    if (err == 0 && sink->options.sync != FP_SYNC_NONE)
        err = fp_fs_sync_folder(sink->folder);
    return err;
}

/* The file is left, whatever happens; a file without samples is removed. */
static void finish_file(struct fp_sink *sink)
{
    char name[FP_LOG_NAME_ROOM];
    int err;

    if (sink->file.size == 0) {
        fp_log_name_print(&sink->file.name, name);
        err = fp_fs_remove(sink->folder, name);
        if (err == 0)
            tell(sink, FP_SINK_REMOVED, sink->path);
    } else {
        err = write_table(sink);
        if (err == 0)
            err = name_finished(sink);
        if (err == 0)
            tell(sink, FP_SINK_FINISHED, sink->path);
    }
    if (err != 0) {
        note_error(sink, sink->path, fp_fs_reason(err));
        if (!sink->is_failing)
            tell(sink, FP_SINK_FAILED, sink->error);
    }
    forget_file(sink);
    retain(sink);
}

/* ---- failing and healing ---------------------------------------------- */

/* Somebody has to be told, and the next try be put off. */
static int fail(struct fp_sink *sink, const char *path, const char *reason)
{
    note_error(sink, path, reason);
    if (!sink->is_failing)
        tell(sink, FP_SINK_FAILED, sink->error);
    sink->retry_ms = !sink->is_failing                    ? RETRY_FIRST_MS
                     : sink->retry_ms * 2 > RETRY_MOST_MS ? RETRY_MOST_MS
                                                          : sink->retry_ms * 2;
    sink->retry_at_ms = fp_monotonic_ms() + sink->retry_ms;
    sink->is_failing = true;
    return FP_EIO;
}

static void heal(struct fp_sink *sink)
{
    if (!sink->is_failing)
        return;
    sink->is_failing = false;
    tell(sink, FP_SINK_HEALED, sink->path);
}

/* What an error of the open file makes of it. */
static int fail_file(struct fp_sink *sink, int err)
{
    char path[TEXT_ROOM];
    bool is_whole = fp_fs_cut(sink->file.descriptor, sink->file.size) == 0;

    memcpy(path, sink->path, sizeof(path)); /* of the name that it had */
    if (!is_whole)
        forget_file(sink);
    else if (!fp_fs_is_full(err))
        finish_file(sink);
    return fail(sink, path, fp_fs_reason(err));
}

/* ---- out -------------------------------------------------------------- */

static bool is_large(const struct fp_sink *sink)
{
    uint64_t most = sink->options.file_max_bytes;
    /* Much has to be left when the oldest goes. */
    uint64_t quarter = sink->options.total_max_bytes / 4;

    return (most != 0 && sink->file.size >= most) ||
           (quarter != 0 && sink->file.size >= quarter) ||
           sink->file.table.n >= FP_ZST_TABLE_MAX;
}

static int write_block(struct fp_sink *sink, const struct fp_block *block,
                       const char *bytes)
{
    int err = 0;

    if (sink->file.descriptor < 0) {
        err = begin_file(sink, block->begun);
        if (err != 0)
            return sink->file.descriptor >= 0
                       ? fail_file(sink, err)
                       : fail(sink, sink->directory, fp_fs_reason(err));
    }
    err = fp_fs_write(sink->file.descriptor, bytes, block->bytes);
    if (err != 0)
        return fail_file(sink, err);
    sink->file.size += block->bytes;
    sink->figures.bytes += block->bytes;
    if (sink->options.is_zst)
        fp_zstd_table_add(&sink->file.table, block->bytes, block->text);
    heal(sink);
    return 0;
}

/* Every closed block to a file, in order. What no file takes stays. */
static int write_out(struct fp_sink *sink)
{
    const char *bytes;
    const struct fp_block *block = fp_blocks_first(sink->blocks, &bytes);
    uint64_t before;
    int err = 0;

    if (block == NULL)
        return 0; /* as after most samples: the clock would cost the most */
    before = fp_thread_cpu_ns();
    for (; block != NULL; block = fp_blocks_first(sink->blocks, &bytes)) {
        err = write_block(sink, block, bytes);
        if (err != 0)
            break;
        fp_blocks_drop_first(sink->blocks);
        if (is_large(sink))
            finish_file(sink);
        else if (has_outgrown(sink))
            retain(sink);
    }
    sink->figures.file_ns += fp_thread_cpu_ns() - before;
    return err;
}

/* ---- holding ---------------------------------------------------------- */

/* The oldest closed block; false: there is none. */
static bool forget_first(struct fp_sink *sink)
{
    const char *bytes;
    const struct fp_block *block = fp_blocks_first(sink->blocks, &bytes);

    if (block == NULL)
        return false;
    sink->figures.expired += block->looks;
    fp_blocks_drop_first(sink->blocks);
    return true;
}

static int hold(struct fp_sink *sink, const char *text, size_t size,
                uint64_t looks)
{
    int err;

    do
        err = fp_blocks_put(sink->blocks, text, size, looks);
    while (err == FP_EFULL && forget_first(sink));
    return err;
}

/* A block is forgotten when all of it is old enough. */
static void forget_old(struct fp_sink *sink)
{
    const struct fp_block *open = fp_blocks_open(sink->blocks), *first;
    uint64_t now = fp_monotonic_ms(), hold_ms = sink->options.hold_ms;
    const char *bytes;

    if (open->text > 0 && now - open->begun_ms >= hold_ms / HELD_PIECES)
        fp_blocks_end(sink->blocks); /* when it can not, it grows */
    while ((first = fp_blocks_first(sink->blocks, &bytes)) != NULL &&
           now - first->ended_ms > hold_ms)
        forget_first(sink);
}

static void forget_all(struct fp_sink *sink)
{
    uint64_t text, looks;

    fp_blocks_waiting(sink->blocks, &text, &looks);
    sink->figures.expired += looks;
    fp_blocks_clear(sink->blocks);
}

bool fp_sink_is_holding(const struct fp_sink *sink)
{
    return sink->is_holding;
}

void fp_sink_commit(struct fp_sink *sink, uint64_t *text, uint64_t *looks)
{
    *text = *looks = 0;
    if (!sink->is_holding)
        return;
    forget_old(sink);
    sink->is_holding = false;
    fp_blocks_waiting(sink->blocks, text, looks);
    write_out(sink); /* or waits, as any block that could not be written */
}

/* ---- taking ----------------------------------------------------------- */

int fp_sink_write(struct fp_sink *sink, const char *text, size_t size,
                  uint64_t looks)
{
    int err;

    if (sink->is_holding)
        return hold(sink, text, size, looks);
    err = fp_blocks_put(sink->blocks, text, size, looks);

    /* What was taken is the next flush's to report. */
    if (err == 0 && !sink->is_failing)
        write_out(sink);
    return err;
}

/* ---- flush ------------------------------------------------------------ */

/* Whether the file and its folder are still where they are said to be. Files
 * are moved away and folders deleted by people who want their disk back. */
static int look_after(struct fp_sink *sink)
{
    char name[FP_LOG_NAME_ROOM];

    if (sink->file.descriptor < 0)
        return 0;
    fp_log_name_print(&sink->file.name, name);
    if (!fp_fs_is_named(sink->folder, name, sink->file.descriptor)) {
        fail(sink, sink->path, "was removed or replaced by somebody else");
        forget_file(sink);
    } else if (!fp_fs_is_folder(sink->folder, sink->directory)) {
        fail(sink, sink->directory, "was removed or replaced by somebody else");
        finish_file(sink);
    }
    if (sink->file.descriptor < 0) {
        close_folder(sink);
        sink->retry_at_ms = fp_monotonic_ms();
    }
    return 0;
}

static int flush_file(struct fp_sink *sink)
{
    int err = 0;

    if (sink->file.descriptor < 0)
        return 0; /* it was just finished */
    sink->file.flushes++;
    if (sink->options.sync == FP_SYNC_FLUSH)
        err = fp_fs_sync(sink->file.descriptor);
    if (err != 0)
        return fail_file(sink, err);
    if (sink->options.flush_close_max != 0 &&
        sink->file.flushes >= sink->options.flush_close_max &&
        sink->file.size > 0)
        finish_file(sink);
    return 0;
}

static int flush(struct fp_sink *sink)
{
    uint64_t before = fp_thread_cpu_ns();
    int err = look_after(sink);

    sink->figures.file_ns += fp_thread_cpu_ns() - before;
    /* The blocks that wait first: there may be no room to close another. */
    if (err == 0)
        err = write_out(sink);
    if (err == 0 && fp_blocks_end(sink->blocks) != 0)
        err = fail(sink, sink->path, fp_err_text(FP_ENOMEM));
    if (err == 0)
        err = write_out(sink);
    if (err != 0)
        return err;
    before = fp_thread_cpu_ns();
    err = flush_file(sink);
    sink->figures.file_ns += fp_thread_cpu_ns() - before;
    return err;
}

static bool is_due(const struct fp_sink *sink)
{
    return !sink->is_failing || fp_monotonic_ms() >= sink->retry_at_ms;
}

int fp_sink_flush(struct fp_sink *sink, bool is_asked)
{
    if (sink->is_holding)
        return 0;
    return is_asked || is_due(sink) ? flush(sink) : FP_EIO;
}

void fp_sink_tend(struct fp_sink *sink)
{
    if (sink->is_holding)
        forget_old(sink);
    else if (sink->is_failing && is_due(sink))
        write_out(sink);
}

/* ---- open and close --------------------------------------------------- */

static int refuse(char *why, size_t why_size, const char *path, int err)
{
    snprintf(why, why_size, "%s: %s", path, fp_fs_reason(err));
    return err == -ENOMEM ? FP_ENOMEM : FP_EIO;
}

static int begin(struct fp_sink *sink, char *why, size_t why_size)
{
    int recovered, err = open_folder(sink);

    if (err == 0) {
        recovered = fp_directory_recover(sink->folder);
        sink->figures.recovered = recovered < 0 ? 0 : (uint64_t)recovered;
        if (!sink->is_holding)
            err = begin_file(sink, time(NULL));
    }
    if (err == 0)
        return 0;
    if (sink->file.descriptor >= 0)
        finish_file(sink);
    return refuse(why, why_size, sink->directory, err);
}

static void sink_free(struct fp_sink *sink)
{
    close_folder(sink);
    fp_blocks_destroy(sink->blocks);
    free(sink->directory);
    free(sink);
}

/* Without the slashes at its end, which would follow a link. */
static char *copy_directory(const char *directory)
{
    size_t size = strlen(directory);

    while (size > 1 && directory[size - 1] == '/')
        size--;
    return strndup(directory, size);
}

int fp_sink_open(struct fp_sink **sink, const struct fp_sink_options *options,
                 char *why, size_t why_size)
{
    struct fp_sink *made = calloc(1, sizeof(*made));
    int err = FP_ENOMEM;

    snprintf(why, why_size, "%s", fp_err_text(FP_ENOMEM));
    if (made == NULL)
        return err;
    made->options = *options;
    made->is_holding = options->hold_ms > 0;
    made->limits = (struct fp_directory_limits){options->files_max,
                                                options->total_max_bytes};
    made->folder = made->file.descriptor = -1;
    made->directory = copy_directory(options->directory);
    if (made->directory != NULL)
        err = fp_blocks_create(&made->blocks, options->is_zst);
    if (err == 0)
        err = begin(made, why, why_size);
    if (err != 0)
        sink_free(made);
    else
        *sink = made;
    return err;
}

int fp_sink_close(struct fp_sink *sink, struct fp_sink_end *end)
{
    int err;

    if (sink->is_holding)
        forget_all(sink);
    err = flush(sink);
    if (sink->file.descriptor >= 0)
        finish_file(sink);
    fp_blocks_waiting(sink->blocks, &end->lost_text, &end->lost_looks);
    end->figures = fp_sink_figures(sink);
    sink_free(sink);
    return err;
}

void fp_sink_listen(struct fp_sink *sink,
                    void (*notify)(void *arg, enum fp_sink_event event,
                                   const char *text),
                    void *arg)
{
    sink->notify = notify;
    sink->arg = arg;
}

/* ---- questions -------------------------------------------------------- */

const char *fp_sink_path(const struct fp_sink *sink)
{
    return sink->path;
}

const char *fp_sink_error(const struct fp_sink *sink)
{
    return sink->error;
}

struct fp_sink_figures fp_sink_figures(const struct fp_sink *sink)
{
    struct fp_sink_figures figures = sink->figures;

    figures.compress_ns = fp_blocks_cpu_ns(sink->blocks);
    return figures;
}

size_t fp_sink_memory(const struct fp_sink *sink)
{
    return sizeof(*sink) + fp_blocks_memory(sink->blocks) +
           FP_ZST_TABLE_MAX * sizeof(struct fp_zstd_entry);
}
