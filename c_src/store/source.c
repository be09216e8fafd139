#include "store/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>
#include <zstd.h>

#include "base/error.h"
#include "store/zstd_frame.h"

#define INPUT_BYTES ((size_t)2 << 20)
/* At a frame's begin; libzstd decompresses a whole frame faster than pieces of one. */
#define FRAME_BYTES (INPUT_BYTES / 2)
#define MAGIC_BYTES 4
/* The text of a whole frame or member waits until its checksum is right. A longer one, which
 * flame_prof does not write, is read as it comes. */
#define HELD_BYTES FP_ZST_FRAME_MAX
/* The work on lost frames, in bytes, is at most this and 64 times the file: hostile bytes can have
 * a frame begin at each fourth byte. */
#define LOST_MOST ((uint64_t)256 << 20)

struct fp_source {
    int file;
    uint64_t file_size, until; /* no byte from `until` on is read */
    bool is_part;
    char *input;
    size_t begin, end; /* of what is in `input` and was not used */
    bool is_at_end;    /* of the file's bytes */
    bool is_inside;    /* of a gzip member or a zstd frame */
    bool is_lost;      /* behind damage: the next zstd frame is searched */
    struct fp_source_state state;
    z_stream gzip;
    ZSTD_DCtx *zstd;
    char *held;          /* text of the frame, HELD_BYTES of room */
    size_t text;         /* bytes of it that are decompressed */
    size_t given, ready; /* bytes that were read, and that may be */
    uint64_t frame_at;   /* where it begins in the file */
    uint64_t frame_text; /* its text's size; 0: not known */
    bool is_begun;       /* some of its text was read, before its end was there */
    uint64_t lost;       /* work on lost frames */
    bool has_rest;       /* the end of the file cuts a frame off, which begins at `rest_at` */
    bool is_rest;        /* that frame is being read, behind all others */
    uint64_t rest_at;
};

static int read_file(struct fp_source *source, char *to, size_t room, size_t *size)
{
    ssize_t got = 0;

    if (room > source->until - source->state.bytes_in)
        room = (size_t)(source->until - source->state.bytes_in);
    if (!source->is_at_end)
        do
            got = read(source->file, to, room);
        while (got < 0 && errno == EINTR);
    if (got < 0)
        return FP_EIO;
    source->is_at_end = got == 0;
    source->state.bytes_in += (size_t)got;
    *size = (size_t)got;
    return 0;
}

/* At least `want` bytes to `input`, where the file has them. */
static int fill(struct fp_source *source, size_t want)
{
    while (source->end - source->begin < want && !source->is_at_end) {
        size_t got;
        int err;

        if (source->begin > 0)
            memmove(source->input, source->input + source->begin, source->end - source->begin);
        source->end -= source->begin;
        source->begin = 0;
        err = read_file(source, source->input + source->end, INPUT_BYTES - source->end, &got);
        if (err != 0)
            return err;
        source->end += got;
    }
    return 0;
}

static int read_plain(struct fp_source *source, char *to, size_t room, size_t *size)
{
    size_t left = source->end - source->begin; /* of the bytes that the kind was found by */

    if (left == 0)
        return read_file(source, to, room, size);
    *size = left < room ? left : room;
    memcpy(to, source->input + source->begin, *size);
    source->begin += *size;
    return 0;
}

/* ------------------------------------------------------------------- gzip -- */

static void give_up(struct fp_source *source)
{
    source->begin = source->end = 0;
    source->is_at_end = true;
    source->is_inside = false;
}

static bool is_gzip(const char *bytes)
{
    return memcmp(bytes, "\x1f\x8b", 2) == 0;
}

/* Inflates some of a member to `held`; otherwise as decode_zstd(). gzip has no mark to find behind
 * damage: the rest is lost. A member with an error has no text; one that is cut off has. */
static int decode_gzip(struct fp_source *source)
{
    z_stream *gzip = &source->gzip;
    int err = fill(source, source->is_inside ? 1 : 2), got;

    if (err != 0 || (source->begin == source->end && !source->is_inside))
        return err;
    if (!source->is_inside &&
        (source->end - source->begin < 2 || !is_gzip(source->input + source->begin))) {
        /* Zeros behind the last member are a tape's padding. */
        source->state.damaged += source->input[source->begin] != 0;
        give_up(source);
        return 0;
    }
    source->is_inside = true;
    gzip->next_in = (unsigned char *)source->input + source->begin;
    gzip->avail_in = (unsigned)(source->end - source->begin);
    gzip->next_out = (unsigned char *)source->held + source->text;
    gzip->avail_out = (unsigned)(HELD_BYTES - source->text);
    got = inflate(gzip, Z_NO_FLUSH);
    source->begin = source->end - gzip->avail_in;
    source->text = HELD_BYTES - gzip->avail_out;
    if (got == Z_STREAM_END) {
        /* Behind a member comes another one, padding, or nothing. */
        source->is_inside = false;
        inflateReset(gzip);
    } else if (got == Z_BUF_ERROR && source->is_at_end) {
        source->state.is_cut_off = 1;
        give_up(source);
    } else if (got != Z_OK && got != Z_BUF_ERROR) {
        source->state.damaged++;
        source->text = 0;
        give_up(source);
    }
    if (!source->is_inside || source->text == HELD_BYTES)
        source->ready = source->text;
    return 1;
}

/* ------------------------------------------------------------------- zstd -- */

static bool is_zstd(const char *bytes)
{
    return memcmp(bytes, "\x28\xb5\x2f\xfd", 4) == 0;
}

/* Frames that carry no text, such as a table for seeking. */
static bool is_skippable(const char *bytes)
{
    return (bytes[0] & 0xf0) == 0x50 && memcmp(bytes + 1, "\x2a\x4d\x18", 3) == 0;
}

/* To the next magic number. Other bytes that equal one are found to be damaged in their turn. */
static int find_frame(struct fp_source *source)
{
    int err;

    while ((err = fill(source, MAGIC_BYTES)) == 0 && source->end - source->begin >= MAGIC_BYTES) {
        const char *bytes = source->input + source->begin;

        source->is_lost = !is_zstd(bytes) && !is_skippable(bytes);
        if (!source->is_lost)
            return 0;
        source->begin++;
    }
    if (err == 0)
        give_up(source);
    return err;
}

/* Drops what a damaged frame has given so far. The search for the next frame begins behind this
 * one's first byte, because a damaged size takes later frames for a part of this one. */
static int lose_frame(struct fp_source *source)
{
    uint64_t input_at = source->state.bytes_in - source->end;

    source->lost += input_at + source->begin - source->frame_at + source->frame_text + source->text;
    source->state.lost_text += source->frame_text;
    source->text = 0;
    source->is_lost = true;
    source->is_inside = false;
    ZSTD_DCtx_reset(source->zstd, ZSTD_reset_session_only);
    if (source->lost > LOST_MOST + 64 * source->file_size) {
        give_up(source);
    } else if (source->frame_at >= input_at) {
        source->begin = (size_t)(source->frame_at + 1 - input_at);
    } else {
        if (lseek(source->file, (off_t)source->frame_at + 1, SEEK_SET) < 0)
            return FP_EIO;
        source->state.bytes_in = source->frame_at + 1;
        source->begin = source->end = 0;
        source->is_at_end = false;
    }
    return 0;
}

static void begin_frame(struct fp_source *source)
{
    unsigned long long text =
        ZSTD_getFrameContentSize(source->input + source->begin, source->end - source->begin);

    source->frame_at = source->state.bytes_in - (source->end - source->begin);
    source->frame_text = text > HELD_BYTES ? 0 : text; /* unknown sizes are large */
    source->is_begun = false;
}

/* The frame at the end of a file that is being written: its rest may come. */
static void leave_frame(struct fp_source *source)
{
    source->text = 0;
    source->state.bytes_in = source->frame_at;
    give_up(source);
}

/* The end of the file is missing. If a whole frame follows the beginning of this one, its size was
 * damaged; otherwise the part that exists is read at the end. */
static int leave_rest(struct fp_source *source)
{
    source->state.is_cut_off = 1;
    if (source->is_begun && source->text > 0) {
        source->ready = source->text;
        return 0;
    }
    if (!source->is_begun && !source->has_rest) {
        source->has_rest = true;
        source->rest_at = source->frame_at;
    }
    return lose_frame(source);
}

/* 1: there is one; 0; FP_EIO. */
static int begin_rest(struct fp_source *source)
{
    if (!source->has_rest || source->is_rest)
        return 0;
    if (lseek(source->file, (off_t)source->rest_at, SEEK_SET) < 0)
        return FP_EIO;
    ZSTD_DCtx_reset(source->zstd, ZSTD_reset_session_only);
    source->state.bytes_in = source->rest_at;
    source->begin = source->end = 0;
    source->is_at_end = source->is_lost = source->is_inside = false;
    source->is_rest = true;
    return 1;
}

static void end_rest(struct fp_source *source)
{
    if (source->frame_text >= source->text)
        source->state.lost_text -= source->text; /* lose_frame() has added all of it */
    source->ready = source->text;
    give_up(source);
}

/* Decompresses some of a frame to `held`. 1: there is more in the file; 0; FP_EIO. */
static int decode_zstd(struct fp_source *source)
{
    int err = source->is_lost ? find_frame(source) : 0;
    ZSTD_outBuffer out = {source->held, HELD_BYTES, source->text};
    ZSTD_inBuffer in;
    size_t left;

    if (err == 0)
        err = fill(source, source->is_inside ? 1 : FRAME_BYTES);
    /* A frame may still have text behind its last byte. */
    if (err == 0 && source->begin == source->end && !source->is_inside)
        return begin_rest(source);
    if (err != 0)
        return err;
    if (!source->is_inside)
        begin_frame(source);
    in = (ZSTD_inBuffer){source->input + source->begin, source->end - source->begin, 0};
    left = ZSTD_decompressStream(source->zstd, &out, &in);
    if (ZSTD_isError(left)) {
        source->state.damaged++;
        source->has_rest &= !source->is_rest;
        err = lose_frame(source);
        return err != 0 ? err : 1;
    }
    if (in.size == 0 && out.pos == source->text && source->is_part && !source->is_begun) {
        leave_frame(source);
        return 0;
    }
    if (in.size == 0 && out.pos == source->text && source->is_rest) {
        end_rest(source);
        return 1;
    }
    if (in.size == 0 && out.pos == source->text) {
        err = leave_rest(source);
        return err != 0 ? err : 1;
    }
    source->begin += in.pos;
    source->is_inside = left != 0;
    source->text = out.pos;
    if (left == 0 || out.pos == HELD_BYTES)
        source->ready = out.pos;
    source->is_begun |= left != 0 && out.pos == HELD_BYTES;
    /* A frame that seemed to end behind the file had a damaged size. */
    if (left == 0 && source->state.is_cut_off) {
        source->state.is_cut_off = 0;
        source->state.damaged += !source->is_rest; /* if so, the file has grown */
        source->has_rest = false;
    }
    return 1;
}

static int read_held(struct fp_source *source, int (*decode)(struct fp_source *), char *to,
                     size_t room, size_t *size)
{
    int more = 1;

    if (source->given == source->ready) {
        source->given = source->ready = source->text = 0;
        while (source->ready == 0 && more > 0)
            more = decode(source);
    }
    if (more < 0)
        return more;
    *size = source->ready - source->given;
    if (*size > room)
        *size = room;
    memcpy(to, source->held + source->given, *size);
    source->given += *size;
    return 0;
}

/* The bytes that are there belong to the previous file. */
static int make_room(struct fp_source *source)
{
    if (source->held == NULL)
        source->held = malloc(HELD_BYTES);
    return source->held == NULL ? FP_ENOMEM : 0;
}

static int begin_reading(struct fp_source *source)
{
    int err = source->input == NULL ? FP_ENOMEM : fill(source, MAGIC_BYTES);
    size_t size = source->end - source->begin;

    if (err != 0)
        return err;
    if (size >= 2 && is_gzip(source->input)) {
        /* 16: the gzip format; 15: any window. */
        if (inflateInit2(&source->gzip, 16 + 15) != Z_OK)
            return FP_ENOMEM;
        source->state.kind = FP_SOURCE_GZIP;
        err = make_room(source);
    } else if (size >= MAGIC_BYTES && (is_zstd(source->input) || is_skippable(source->input))) {
        if (source->zstd == NULL)
            source->zstd = ZSTD_createDCtx();
        if (source->zstd == NULL)
            return FP_ENOMEM;
        source->state.kind = FP_SOURCE_ZSTD;
        err = make_room(source);
    }
    return err;
}

/* Sets `until` behind the last empty line: what follows it may be a piece of a sample. */
static int find_whole(struct fp_source *source)
{
    char piece[4096];
    uint64_t from = source->state.bytes_in - source->end, end = source->file_size;

    source->until = from;
    while (end > from + 1) {
        uint64_t begin = end - from > sizeof(piece) ? end - sizeof(piece) : from;
        ssize_t got = pread(source->file, piece, (size_t)(end - begin), (off_t)begin);

        if (got < 0)
            return FP_EIO;
        while (got > 1 && (piece[got - 1] != '\n' || piece[got - 2] != '\n'))
            got--;
        if (got > 1)
            source->until = begin + (uint64_t)got;
        if (got > 1 || begin == from)
            break;
        end = begin + 1; /* an empty line is two bytes */
    }
    if (source->until < source->state.bytes_in) {
        source->end = (size_t)(source->until - from);
        source->state.bytes_in = source->until;
    }
    return 0;
}

/* A sample begins at `at`, or nothing of one is there. */
static int is_between_samples(const struct fp_source *source, uint64_t at)
{
    char before[2];

    return at == 0 || source->state.bytes_in == at ||
           (pread(source->file, before, 2, (off_t)at - 2) == 2 && before[0] == '\n' &&
            before[1] == '\n');
}

static int refuse(char *why, size_t why_size, const char *reason)
{
    snprintf(why, why_size, "%s", reason);
    return FP_EIO;
}

int fp_source_open(struct fp_source **source, const char *path, char *why, size_t why_size)
{
    return fp_source_open_at(source, path, 0, 0, why, why_size);
}

static int open_file(struct fp_source *source, const char *path, char *why, size_t why_size)
{
    struct stat info;

    /* NONBLOCK: opening a pipe would wait for its writer. */
    source->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (source->file < 0)
        return refuse(why, why_size, strerror(errno));
    if (fstat(source->file, &info) != 0 || !S_ISREG(info.st_mode))
        return refuse(why, why_size, "not a regular file");
    source->file_size = (uint64_t)info.st_size;
    return 0;
}

/* `source` is empty, or has memory of before. */
static int start(struct fp_source *source, const char *path, uint64_t from, char *why,
                 size_t why_size)
{
    int err = open_file(source, path, why, why_size);

    if (err != 0)
        return err;
    source->until = UINT64_MAX;
    source->state.bytes_in = from;
    if (source->input == NULL)
        source->input = malloc(INPUT_BYTES);
    err = from > source->file_size                         ? FP_ESTATE
          : lseek(source->file, (off_t)from, SEEK_SET) < 0 ? FP_EIO
                                                           : begin_reading(source);
    if (err == 0 && source->is_part && source->state.kind == FP_SOURCE_PLAIN)
        err = find_whole(source);
    if (err == 0 && source->state.kind == FP_SOURCE_PLAIN && !is_between_samples(source, from))
        err = FP_ESTATE;
    if (err == FP_EIO)
        refuse(why, why_size, "it cannot be read");
    return err;
}

int fp_source_open_at(struct fp_source **source, const char *path, uint64_t from, int is_part,
                      char *why, size_t why_size)
{
    struct fp_source *made = calloc(1, sizeof(*made));
    int err;

    if (made == NULL)
        return FP_ENOMEM;
    made->is_part = is_part;
    err = start(made, path, from, why, why_size);
    if (err != 0)
        fp_source_close(made);
    else
        *source = made;
    return err;
}

void fp_source_rest(struct fp_source *source)
{
    if (source->file >= 0)
        close(source->file);
    if (source->state.kind == FP_SOURCE_GZIP)
        inflateEnd(&source->gzip);
    if (source->zstd != NULL)
        ZSTD_DCtx_reset(source->zstd, ZSTD_reset_session_only);
    *source = (struct fp_source){
        .file = -1, .input = source->input, .held = source->held, .zstd = source->zstd};
}

int fp_source_reopen(struct fp_source *source, const char *path, uint64_t from, int is_part,
                     char *why, size_t why_size)
{
    int err;

    fp_source_rest(source);
    source->is_part = is_part;
    err = start(source, path, from, why, why_size);
    if (err != 0)
        fp_source_close(source);
    return err;
}

void fp_source_close(struct fp_source *source)
{
    if (source == NULL)
        return;
    fp_source_rest(source);
    ZSTD_freeDCtx(source->zstd);
    free(source->input);
    free(source->held);
    free(source);
}

int fp_source_read(void *arg, char *to, size_t room, size_t *size)
{
    struct fp_source *source = arg;
    enum fp_source_kind kind = source->state.kind;
    int err = kind == FP_SOURCE_GZIP   ? read_held(source, decode_gzip, to, room, size)
              : kind == FP_SOURCE_ZSTD ? read_held(source, decode_zstd, to, room, size)
                                       : read_plain(source, to, room, size);

    if (err == 0)
        source->state.text += *size;
    return err;
}

const struct fp_source_state *fp_source_state(const struct fp_source *source)
{
    return &source->state;
}

uint64_t fp_source_size(const struct fp_source *source)
{
    return source->file_size;
}

const char *fp_source_kind_name(enum fp_source_kind kind)
{
    static const char *const name[] = {"plain", "gzip", "zstd"};

    return name[kind];
}
