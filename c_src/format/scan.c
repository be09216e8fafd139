/* scan.c - where a sample ends: at a line end that is followed by anything but a frame. */
#include "format/scan.h"

#include <stdlib.h>

#include "base/error.h"
#include "format/parse_text.h"

/* It stays in the cache of a core; a larger one costs a page fault each 4 KiB. */
#define WINDOW_BYTES ((size_t)64 << 10)

int fp_scan_time_of(struct fp_slice line, int digits, struct fp_scan_time *time)
{
    const char *end = line.at + line.size, *at = line.at;

    while ((at = memchr(at, ':', (size_t)(end - at))) != NULL) {
        const char *micros = digits_before(line.at, at);

        if (at - micros >= digits && micros > line.at && micros[-1] == '.') {
            const char *seconds = digits_before(line.at, micros - 1);

            if (seconds < micros - 1 && seconds > line.at && is_blank(seconds[-1])) {
                *time = (struct fp_scan_time){seconds, micros - 1, at};
                return 1;
            }
        }
        at++;
    }
    return 0;
}

int fp_scan_time(struct fp_slice line, struct fp_scan_time *time)
{
    return fp_scan_time_of(line, 6, time);
}

/* `at` is the begin of a line. A frame of flame_prof's begins with a TAB. */
static bool is_frame(const char *at, const char *end)
{
    const char *stop = *at == ' ' ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    struct fp_slice line = {at, (size_t)((stop == NULL ? end : stop) - at)};
    struct fp_scan_time time;

    return *at == '\t' || (*at == ' ' && !fp_scan_time(line, &time));
}

/* The line end behind the last frame, or NULL: not before `end`. *lines grows by the line ends up
 * to it, that one included (or by all of them). */
static const char *end_of_frames(const char *at, const char *end, uint64_t *lines)
{
    while ((at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        ++*lines;
        at++;
        if (at < end && !is_frame(at, end))
            return at - 1;
    }
    return NULL;
}

/* The size that is left of `size` new bytes without their CRs, where the first line ends with one:
 * perf script prints none. */
static size_t without_returns(struct fp_scan *scan, char *at, size_t size)
{
    const char *line_end = scan->is_crlf == 0 ? memchr(at, '\n', size) : NULL;
    size_t kept = 0;

    if (line_end != NULL)
        scan->is_crlf = line_end > at && line_end[-1] == '\r' ? 1 : -1;
    if (scan->is_crlf != 1)
        return size;
    for (size_t i = 0; i < size; i++) {
        if (at[i] != '\r')
            at[kept++] = at[i];
    }
    return kept;
}

/* Move the text to the beginning of the window and read until that is full. */
static int refill(struct fp_scan *scan)
{
    size_t kept = scan->end - scan->begin, got;
    char *grown;
    int err;

    if (scan->begin > 0)
        memmove(scan->window, scan->window + scan->begin, kept);
    scan->begin = 0;
    scan->end = kept;
    if (kept == scan->room) {
        grown = realloc(scan->window, scan->room * 2);
        if (grown == NULL)
            return FP_ENOMEM;
        scan->window = grown;
        scan->room *= 2;
    }
    while (scan->end < scan->room) {
        err = scan->read(scan->arg, scan->window + scan->end, scan->room - scan->end, &got);
        if (err != 0)
            return err;
        scan->end += without_returns(scan, scan->window + scan->end, got);
        if (got == 0) {
            scan->is_at_end = 1;
            break;
        }
    }
    return 0;
}

int fp_scan_open(struct fp_scan *scan, fp_scan_read *read, void *arg)
{
    *scan = (struct fp_scan){.read = read, .arg = arg, .room = WINDOW_BYTES, .line = 1};
    scan->window = malloc(WINDOW_BYTES);
    return scan->window == NULL ? FP_ENOMEM : 0;
}

void fp_scan_close(struct fp_scan *scan)
{
    free(scan->window);
    scan->window = NULL;
}

/* A line from `at`: the place behind its end, or NULL: its end is not read yet. The last line of a
 * file may have none. */
static const char *line_from(const struct fp_scan *scan, const char *at, struct fp_slice *line)
{
    const char *end = scan->window + scan->end;
    const char *stop = memchr(at, '\n', (size_t)(end - at));

    if (stop == NULL && !scan->is_at_end)
        return NULL;
    line->at = at;
    line->size = (size_t)((stop == NULL ? end : stop) - at);
    return stop == NULL ? end : stop + 1;
}

/* The frames from `at`, and the empty line behind them. */
static const char *frames_from(const struct fp_scan *scan, const char *at,
                               struct fp_scan_piece *piece, uint64_t *lines)
{
    const char *end = scan->window + scan->end, *stop;

    piece->stack = (struct fp_slice){at, 0};
    if (at == end)
        return scan->is_at_end ? at : NULL;
    if (is_frame(at, end)) {
        stop = end_of_frames(at, end, lines);
        if (stop == NULL && !scan->is_at_end)
            return NULL;
        piece->stack.size = (size_t)((stop == NULL ? end : stop + 1) - at);
        piece->is_last = stop == NULL;
        if (stop == NULL)
            return end;
        at = stop + 1;
    }
    if (*at == '\n') {
        piece->is_ended = 1;
        ++*lines;
        at++;
    }
    return at;
}

static void skip_empty_lines(struct fp_scan *scan)
{
    while (scan->begin < scan->end && scan->window[scan->begin] == '\n') {
        scan->begin++;
        scan->line++;
    }
}

/* NOTHING: text that is no piece was skipped. */
enum step { MORE, PIECE, NOTHING };

/* To the end of a piece that is longer than any sample. */
static enum step skip(struct fp_scan *scan)
{
    const char *at = scan->window + scan->begin;
    const char *stop = end_of_frames(at, scan->window + scan->end, &scan->line);

    if (stop == NULL) {
        /* The last byte may be the line end that ends the piece. */
        if (scan->end > scan->begin) {
            scan->begin = scan->end - 1;
            scan->line -= scan->window[scan->begin] == '\n';
        }
        return MORE;
    }
    scan->begin = (size_t)(stop + 1 - scan->window);
    scan->is_skipping = 0;
    return NOTHING;
}

static enum step next_piece(struct fp_scan *scan, struct fp_scan_piece *piece)
{
    const char *at;
    uint64_t lines = 0;

    if (scan->is_skipping)
        return skip(scan);
    skip_empty_lines(scan);
    if (scan->begin == scan->end)
        return MORE;
    *piece = (struct fp_scan_piece){.line = scan->line};
    at = scan->window + scan->begin;
    if (is_frame(at, scan->window + scan->end)) {
        piece->bad = "frames without a header";
    } else {
        at = line_from(scan, at, &piece->header);
        if (at != NULL && at[-1] != '\n')
            piece->bad = "cut off: no line end";
        lines++;
        if (at == NULL || (at == scan->window + scan->end && !scan->is_at_end))
            return MORE;
        if (piece->header.at[0] != '#' && at < scan->window + scan->end && *at == '#') {
            at = line_from(scan, at, &piece->metrics);
            lines++;
        }
    }
    if (at != NULL && (piece->header.size == 0 || piece->header.at[0] != '#'))
        at = frames_from(scan, at, piece, &lines);
    if (at == NULL)
        return MORE;
    scan->begin = (size_t)(at - scan->window);
    scan->line += lines;
    /* Comments, as perf script has them on top, are no pieces. */
    return piece->header.size > 0 && piece->header.at[0] == '#' ? NOTHING : PIECE;
}

int fp_scan_next(struct fp_scan *scan, struct fp_scan_piece *piece)
{
    enum step step;
    int err;

    do {
        step = next_piece(scan, piece);
    } while (step == NOTHING);
    if (step == PIECE)
        return FP_SCAN_PIECE;
    if (scan->is_at_end)
        return 0;
    if (scan->end - scan->begin >= FP_SCAN_SAMPLE_MOST) {
        *piece = (struct fp_scan_piece){.line = scan->line, .bad = "longer than any sample"};
        scan->is_skipping = 1;
        return FP_SCAN_PIECE;
    }
    err = refill(scan);
    return err != 0 ? err : FP_SCAN_MORE;
}
