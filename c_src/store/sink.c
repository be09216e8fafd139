/* sink.c - which file, when, and what happens while no file takes bytes.
 *
 *                    write_out()
 *      blocks ------------------------> file.size bytes, whole blocks
 *        ^                                |
 *        |  the block stays               | flushes, bytes: finish_file()
 *        +------------ fail() <-----------+ any error
 *
 * write_out() is the one place where samples leave this process. A file takes a block wholly or is
 * cut back to where it was; a file that cannot be cut keeps its `.part`, and the next session in
 * the directory finishes it. */
#include "store/sink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "store/blocks.h"
#include "store/directory.h"
#include "store/fs.h"
#include "store/log_file.h"

#define PATH_MOST 4400
#define TEXT_ROOM FP_SINK_WHY_ROOM
#define RETRY_FIRST_MS 1000
#define RETRY_MOST_MS 32000
/* The buffer is dropped in this many pieces. */
#define BUFFER_PIECES 8u
#define SECOND_NS INT64_C(1000000000)

struct fp_sink {
    struct fp_sink_options options;
    void (*notify)(void *arg, enum fp_sink_event event, const char *text);
    void *arg;
    struct fp_directory_sum limits;
    struct fp_blocks *blocks;
    char *directory;
    int folder; /* -1: not open */
    struct fp_log_file file;
    struct fp_directory_keys keys;
    struct fp_directory_sum kept; /* finished files at the last retain() */
    bool is_buffering, is_failing;
    int finish_err;    /* of the files that were finished since the last flush */
    int64_t offset_ns; /* of the text that comes */
    int64_t retry_ms, retry_at_ms;
    struct fp_sink_gauges gauges;
    char error[TEXT_ROOM], path[TEXT_ROOM];
};

static void emit(struct fp_sink *sink, enum fp_sink_event event, const char *text)
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
    char path[TEXT_ROOM];

    sink->gauges.removed++;
    snprintf(path, sizeof(path), "%s/%s", sink->directory, name);
    emit(sink, FP_SINK_REMOVED, path);
}

static void note_error(struct fp_sink *sink, const char *path, const char *reason)
{
    sink->gauges.errors++;
    snprintf(sink->error, sizeof(sink->error), "%.*s: %s", PATH_MOST, path, reason);
}

static void emit_failed(struct fp_sink *sink, const char *path, const char *reason)
{
    note_error(sink, path, reason);
    if (!sink->is_failing)
        emit(sink, FP_SINK_FAILED, sink->error);
}

static time_t now(const struct fp_sink *sink)
{
    return (fp_monotonic_ns() + sink->offset_ns) / SECOND_NS;
}

/* The open file counts; one that is finished is among the others. */
static void retain(struct fp_sink *sink)
{
    struct fp_directory_sum open = {0, 0};
    int err;

    if (sink->file.descriptor >= 0)
        open = (struct fp_directory_sum){1, sink->file.size};
    if (sink->folder < 0 || (sink->limits.files == 0 && sink->limits.bytes == 0))
        return;
    err = fp_directory_retain(sink->folder, &sink->limits, &sink->keys, now(sink), open, on_removed,
                              sink, &sink->kept);
    if (err != 0)
        note_error(sink, sink->directory, fp_fs_reason(err));
}

static void close_folder(struct fp_sink *sink)
{
    if (sink->folder >= 0)
        fp_fs_close(sink->folder);
    sink->folder = -1;
}

/* ---- one file --------------------------------------------------------- */

/* 0, or a negative system error. */
static int open_folder(struct fp_sink *sink)
{
    if (sink->folder < 0)
        sink->folder = fp_fs_open_folder(sink->directory);
    return sink->folder < 0 ? sink->folder : 0;
}

static int begin_file(struct fp_sink *sink, time_t begun, int64_t offset_ns)
{
    int err = open_folder(sink);

    if (err == 0)
        err = fp_log_file_begin(&sink->file, sink->folder, begun, sink->options.kind,
                                sink->options.node, sink->options.is_zst, offset_ns);
    if (err != 0) { /* the next try opens the folder that has the path then */
        close_folder(sink);
        return err;
    }
    fp_directory_note_key(&sink->keys, sink->file.name.key);
    sink->gauges.files++;
    set_path(sink);
    if (sink->options.sync == FP_SYNC_FLUSH)
        err = fp_fs_sync_folder(sink->folder);
    emit(sink, FP_SINK_BEGUN, sink->path);
    retain(sink);
    return err;
}

/* Closes the file in any case; a file without samples is removed. The next flush or the close
 * reports an error. */
static void finish_file(struct fp_sink *sink)
{
    int err;

    if (sink->file.size == 0) {
        err = fp_log_file_remove(&sink->file, sink->folder);
        if (err == 0)
            emit(sink, FP_SINK_REMOVED, sink->path);
    } else {
        err = fp_log_file_finish(&sink->file, sink->folder, sink->options.sync != FP_SYNC_NONE,
                                 &sink->gauges.bytes, &sink->gauges.unsaved);
        fp_directory_note_key(&sink->keys, sink->file.name.key);
        set_path(sink);
        if (err == 0)
            emit(sink, FP_SINK_FINISHED, sink->path);
    }
    fp_log_file_close(&sink->file);
    retain(sink);
    if (err == 0)
        return;
    emit_failed(sink, sink->path, fp_fs_reason(err)); /* the last error, whatever retain() found */
    sink->finish_err = FP_EIO;
}

static int take_finish_error(struct fp_sink *sink)
{
    int err = sink->finish_err;

    sink->finish_err = 0;
    return err;
}

/* ---- failure ---------------------------------------------------------- */

/* Notifies once, and sets the time of the next try. */
static int fail(struct fp_sink *sink, const char *path, const char *reason)
{
    emit_failed(sink, path, reason);
    sink->retry_ms = sink->is_failing ? sink->retry_ms * 2 : RETRY_FIRST_MS;
    if (sink->retry_ms > RETRY_MOST_MS)
        sink->retry_ms = RETRY_MOST_MS;
    sink->retry_at_ms = fp_monotonic_ms() + sink->retry_ms;
    sink->is_failing = true;
    return FP_EIO;
}

/* After an error of the open file: cut back, and kept only where the disk was full. */
static int fail_file(struct fp_sink *sink, int err)
{
    char path[TEXT_ROOM];
    bool is_whole = fp_log_file_cut(&sink->file) == 0;

    memcpy(path, sink->path, sizeof(path)); /* finish_file() changes it */
    if (!is_whole)
        fp_log_file_close(&sink->file);
    else if (!fp_fs_is_full(err))
        finish_file(sink);
    return fail(sink, path, fp_fs_reason(err));
}

static bool is_large(const struct fp_sink *sink)
{
    uint64_t most = sink->options.max_file_bytes;
    /* With four files at least, removing the oldest leaves most samples. */
    uint64_t quarter = sink->options.max_total_bytes / 4;

    return (most != 0 && sink->file.size >= most) || (quarter != 0 && sink->file.size >= quarter) ||
           sink->file.table.n >= FP_ZST_TABLE_MAX;
}

static int write_block(struct fp_sink *sink, const struct fp_block *block, const char *bytes)
{
    int err = 0;

    if (!FP_CHECK(!sink->is_buffering))
        return FP_EIO;
    if (sink->file.descriptor >= 0 && sink->file.offset_ns != block->offset_ns)
        finish_file(sink);
    if (sink->file.descriptor < 0)
        err = begin_file(sink, (block->begun_ns + block->offset_ns) / SECOND_NS, block->offset_ns);
    if (err != 0 && sink->file.descriptor < 0)
        return fail(sink, sink->directory, fp_fs_reason(err));
    if (err == 0 && !FP_CHECK(sink->file.offset_ns == block->offset_ns))
        return FP_EIO;
    if (err == 0)
        err = fp_log_file_write(&sink->file, bytes, block->bytes, block->text, block->weight);
    if (err != 0)
        return fail_file(sink, err);
    sink->gauges.bytes += block->bytes;
    (void)FP_CHECK(sink->file.size <= sink->gauges.bytes);
    if (sink->is_failing)
        emit(sink, FP_SINK_HEALED, sink->path);
    sink->is_failing = false;
    return 0;
}

/* Every closed block to a file, in order; after an error the rest stays. */
static int write_out(struct fp_sink *sink)
{
    const char *bytes;
    const struct fp_block *block = fp_blocks_first(sink->blocks, &bytes);
    uint64_t before;
    int err = 0;

    if (block == NULL)
        return 0; /* after most samples; reading a clock costs more */
    before = fp_thread_cpu_ns();
    for (; block != NULL; block = fp_blocks_first(sink->blocks, &bytes)) {
        err = write_block(sink, block, bytes);
        if (err != 0)
            break;
        fp_blocks_drop_first(sink->blocks);
        if (is_large(sink))
            finish_file(sink);
        else if (sink->limits.bytes != 0 && sink->kept.files > 0 &&
                 sink->kept.bytes + sink->file.size > sink->limits.bytes)
            retain(sink);
    }
    sink->gauges.file_ns += fp_thread_cpu_ns() - before;
    return err;
}

/* ---- buffering -------------------------------------------------------- */

/* False: there is no closed block. */
static bool drop_first(struct fp_sink *sink)
{
    const char *bytes;
    const struct fp_block *block = fp_blocks_first(sink->blocks, &bytes);

    if (block == NULL)
        return false;
    sink->gauges.expired += block->weight;
    fp_blocks_drop_first(sink->blocks);
    return true;
}

/* A block is dropped when its last sample is old enough. */
static void drop_old(struct fp_sink *sink)
{
    const struct fp_block *open = fp_blocks_open(sink->blocks), *first;
    int64_t now_ns = fp_monotonic_ns();
    int64_t lookback_ns = INT64_C(1000000) * sink->options.lookback_ms;
    const char *bytes;

    if (open->text > 0 && now_ns - open->begun_ns >= lookback_ns / BUFFER_PIECES)
        fp_blocks_end(sink->blocks); /* on failure the open block grows */
    while ((first = fp_blocks_first(sink->blocks, &bytes)) != NULL &&
           now_ns - first->ended_ns > lookback_ns)
        drop_first(sink);
}

bool fp_sink_is_buffering(const struct fp_sink *sink)
{
    return sink->is_buffering;
}

void fp_sink_trigger(struct fp_sink *sink, uint64_t *text, uint64_t *weight)
{
    *text = *weight = 0;
    if (!sink->is_buffering)
        return;
    drop_old(sink);
    sink->is_buffering = false;
    fp_blocks_waiting(sink->blocks, text, weight);
    write_out(sink); /* the blocks wait where it fails, as any other */
}

int fp_sink_write(struct fp_sink *sink, const char *text, size_t size, uint64_t weight)
{
    int err;

    do
        err = fp_blocks_put(sink->blocks, text, size, weight, sink->offset_ns);
    while (err == FP_EFULL && sink->is_buffering && drop_first(sink));
    /* The next flush reports an error of the file. */
    if (err == 0 && !sink->is_buffering && !sink->is_failing)
        write_out(sink);
    return err;
}

uint64_t fp_sink_block(const struct fp_sink *sink)
{
    return fp_blocks_number(sink->blocks);
}

bool fp_sink_begins_file(const struct fp_sink *sink)
{
    uint64_t text, weight;

    fp_blocks_waiting(sink->blocks, &text, &weight);
    return text == 0 && (sink->file.descriptor < 0 || sink->file.size == 0);
}

int fp_sink_set_offset(struct fp_sink *sink, int64_t offset_ns)
{
    int err = fp_blocks_end(sink->blocks);

    if (err != 0)
        return err;
    /* An empty file stays where its name is still right. */
    if (fp_sink_begins_file(sink) && llabs(offset_ns - sink->file.offset_ns) < SECOND_NS)
        sink->file.offset_ns = offset_ns;
    sink->offset_ns = offset_ns;
    return 0;
}

/* ---- flush ------------------------------------------------------------ */

/* Where another program moved or deleted the file or its folder, the next file is begun in the
 * folder that has the path now. */
static void check_names(struct fp_sink *sink)
{
    static const char reason[] = "was removed or replaced by another program";

    if (sink->file.descriptor < 0)
        return;
    if (!fp_log_file_is_named(&sink->file, sink->folder)) {
        fail(sink, sink->path, reason);
        sink->gauges.unsaved += sink->file.weight;
        fp_log_file_close(&sink->file);
    } else if (!fp_fs_is_folder(sink->folder, sink->directory)) {
        fail(sink, sink->directory, reason);
        finish_file(sink);
    }
    if (sink->file.descriptor < 0) {
        close_folder(sink);
        sink->retry_at_ms = fp_monotonic_ms();
    }
}

static int flush_file(struct fp_sink *sink)
{
    int err = 0;

    if (sink->file.descriptor < 0)
        return 0; /* write_out() has finished it */
    sink->file.flushes++;
    if (sink->options.sync == FP_SYNC_FLUSH)
        err = fp_log_file_sync(&sink->file, &sink->gauges.unsaved);
    if (err != 0)
        return fail_file(sink, err);
    if (sink->options.flushes_per_file != 0 &&
        sink->file.flushes >= sink->options.flushes_per_file && sink->file.size > 0)
        finish_file(sink);
    return 0;
}

/* The open block, too. Closing it needs room: the blocks that wait go first. */
static int write_all(struct fp_sink *sink)
{
    int err = write_out(sink);

    if (err == 0 && fp_blocks_end(sink->blocks) != 0)
        err = fail(sink, sink->path, fp_err_text(FP_ENOMEM));
    return err == 0 ? write_out(sink) : err;
}

static int flush(struct fp_sink *sink)
{
    uint64_t before = fp_thread_cpu_ns();
    int err, finish_err;

    check_names(sink);
    sink->gauges.file_ns += fp_thread_cpu_ns() - before;
    err = write_all(sink);
    before = fp_thread_cpu_ns();
    if (err == 0)
        err = flush_file(sink);
    sink->gauges.file_ns += fp_thread_cpu_ns() - before;
    finish_err = take_finish_error(sink);
    return err != 0 ? err : finish_err;
}

static bool is_due(const struct fp_sink *sink)
{
    return !sink->is_failing || fp_monotonic_ms() >= sink->retry_at_ms;
}

int fp_sink_flush(struct fp_sink *sink, bool is_forced)
{
    if (sink->is_buffering)
        return 0;
    return is_forced || is_due(sink) ? flush(sink) : FP_EIO;
}

void fp_sink_publish(struct fp_sink *sink)
{
    if (!sink->is_buffering && !sink->is_failing)
        write_all(sink);
}

void fp_sink_retry(struct fp_sink *sink)
{
    if (sink->is_buffering)
        drop_old(sink);
    else if (sink->is_failing && is_due(sink))
        write_out(sink);
}

/* ---- open and close --------------------------------------------------- */

/* 0; FP_ENOMEM or FP_EIO with *why. */
static int begin(struct fp_sink *sink, char *why, size_t why_size)
{
    int recovered, err = open_folder(sink);

    if (err == 0) {
        recovered = fp_directory_recover(sink->folder);
        sink->gauges.recovered = recovered < 0 ? 0 : (uint64_t)recovered;
        if (!sink->is_buffering)
            err = begin_file(sink, now(sink), sink->offset_ns);
    }
    if (err == 0)
        return 0;
    if (sink->file.descriptor >= 0)
        finish_file(sink);
    snprintf(why, why_size, "%s: %s", sink->directory, fp_fs_reason(err));
    return err == -ENOMEM ? FP_ENOMEM : FP_EIO;
}

static void sink_free(struct fp_sink *sink)
{
    close_folder(sink);
    fp_blocks_destroy(sink->blocks);
    free(sink->directory);
    free(sink);
}

int fp_sink_open(struct fp_sink **sink, const struct fp_sink_options *options, char *why,
                 size_t why_size)
{
    struct fp_sink *made = calloc(1, sizeof(*made));
    size_t size = strlen(options->directory);
    int err = FP_ENOMEM;

    snprintf(why, why_size, "%s", fp_err_text(FP_ENOMEM));
    if (made == NULL)
        return err;
    made->options = *options;
    made->is_buffering = options->lookback_ms > 0;
    made->offset_ns = fp_clock_offset_ns();
    made->limits = (struct fp_directory_sum){options->max_files, options->max_total_bytes};
    made->keys.kind = options->kind;
    memcpy(made->keys.node, options->node, sizeof(made->keys.node));
    made->folder = made->file.descriptor = -1;
    while (size > 1 && options->directory[size - 1] == '/') /* it would follow a link */
        size--;
    made->directory = strndup(options->directory, size);
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
    int err, finish_err;

    if (sink->is_buffering) {
        fp_blocks_waiting(sink->blocks, &end->lost_text, &end->lost_weight);
        sink->gauges.expired += end->lost_weight;
        fp_blocks_clear(sink->blocks);
    }
    err = flush(sink);
    if (sink->file.descriptor >= 0)
        finish_file(sink);
    finish_err = take_finish_error(sink);
    if (err == 0)
        err = finish_err;
    snprintf(end->why, sizeof(end->why), "%s", err == 0 ? "" : sink->error);
    fp_blocks_waiting(sink->blocks, &end->lost_text, &end->lost_weight);
    end->gauges = fp_sink_gauges(sink);
    sink_free(sink);
    return err;
}

void fp_sink_listen(struct fp_sink *sink,
                    void (*notify)(void *arg, enum fp_sink_event event, const char *text),
                    void *arg)
{
    sink->notify = notify;
    sink->arg = arg;
}

const char *fp_sink_path(const struct fp_sink *sink)
{
    return sink->path;
}

const char *fp_sink_error(const struct fp_sink *sink)
{
    return sink->error;
}

struct fp_sink_gauges fp_sink_gauges(const struct fp_sink *sink)
{
    struct fp_sink_gauges gauges = sink->gauges;

    gauges.compress_ns = fp_blocks_cpu_ns(sink->blocks);
    return gauges;
}
