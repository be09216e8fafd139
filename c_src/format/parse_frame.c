/* parse_frame.c - a line of a stack, in each dialect. */
#include "format/encode.h"
#include "format/parse_text.h"

/* Of an address in a process or the kernel, where it cannot be taken for a number of an event. */
#define ADDRESS_DIGITS_LEAST 8

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f');
}

/* The place behind the address and its blank; NULL: there is none. simpleperf has a TAB there. */
static const char *behind_address(const char *at, const char *end)
{
    const char *p = at;

    while (p < end && is_hex(*p))
        p++;
    return p > at && p < end && is_blank(*p) ? p + 1 : NULL;
}

/* The bracket that the line's last one closes; NULL: there is none with a blank before it. */
static const char *open_bracket(const char *begin, const char *end)
{
    int depth = 0;

    for (const char *at = end; at > begin; at--) {
        depth += at[-1] == ')';
        depth -= at[-1] == '(';
        if (depth == 0)
            return at - 1 > begin && is_blank(at[-2]) ? at - 1 : NULL;
    }
    return NULL;
}

/* Where a line is cut off in its dso, a bracket is open. */
static bool is_balanced(const char *at, const char *end)
{
    int depth = 0;

    for (; at < end; at++)
        depth += (*at == '(') - (*at == ')');
    return depth == 0;
}

bool fp_is_frame(struct fp_slice line)
{
    const char *end = blanks_before(line.at, line.at + line.size);
    const char *address = line.size == 0 ? NULL : behind_address(line.at, end);

    if (address == NULL || end <= address)
        return false;
    return (end[-1] == ')' && open_bracket(address, end) != NULL) ||
           (address - line.at > ADDRESS_DIGITS_LEAST && is_balanced(address, end));
}

/* TAB addr SP symbol SP (dso): no other blank, so it is split at these two. */
static const char *parse_session_frame(const char *at, const char *end, struct fp_frame_text *frame)
{
    const char *blank;

    if (*at != '\t' || (at = behind_address(at + 1, end)) == NULL || at[-1] != ' ')
        return "a frame without an address";
    blank = memchr(at, ' ', (size_t)(end - at));
    if (blank == NULL || blank == at)
        return "a frame without a symbol";
    if (end - blank < 4 || blank[1] != '(' || end[-1] != ')' ||
        memchr(blank + 2, ' ', (size_t)(end - blank - 2)) != NULL)
        return "a frame without a (dso)";
    frame->symbol = between(at, blank);
    frame->dso = between(blank + 2, end - 1);
    return NULL;
}

/* `sym+0x1f` is in sym, and `libc.so.6+0x1f`, which -F +dsoff prints, in libc.so.6. */
static struct fp_slice without_offset(struct fp_slice symbol)
{
    const char *end = symbol.at + symbol.size, *at = end;

    while (at > symbol.at && is_hex(at[-1]))
        at--;
    if (at == end || at - symbol.at <= 3 || memcmp(at - 3, "+0x", 3) != 0)
        return symbol;
    return between(symbol.at, at - 3);
}

/* The semicolon before the line in `mod:fun/1;123`, or NULL. */
static const char *original_line(struct fp_slice symbol)
{
    const char *end = symbol.at + symbol.size;
    const char *at = digits_before(symbol.at, end);

    return at < end && at - symbol.at > 2 && at[-1] == ';' && is_digit(at[-2]) ? at - 1 : NULL;
}

static struct fp_slice encode(struct fp_slice text, char **encoded)
{
    char *begin = *encoded;

    *encoded = fp_put_encoded(begin, text);
    return between(begin, *encoded);
}

/* The original's `(mod:fun/1)`, an initial call, and `mod:fun/1;123`. */
static struct fp_slice encode_original(struct fp_slice symbol, char **encoded)
{
    char *begin = *encoded;
    const char *line;

    if (symbol.size > 2 && symbol.at[0] == '(' && symbol.at[symbol.size - 1] == ')')
        symbol = (struct fp_slice){symbol.at + 1, symbol.size - 2};
    line = original_line(symbol);
    if (line == NULL)
        return encode(symbol, encoded);
    encode(between(symbol.at, line), encoded);
    *(*encoded)++ = ':';
    encode(between(line + 1, symbol.at + symbol.size), encoded);
    return between(begin, *encoded);
}

void fp_skip_source_line(enum fp_dialect dialect, const char **at, const char *end)
{
    const char *stop;

    if (dialect != FP_PERF || !fp_is_source_line(between(*at, end)))
        return;
    stop = memchr(*at, '\n', (size_t)(end - *at));
    *at = stop == NULL ? end : stop + 1;
}

/* Blanks, an address, a symbol of any bytes, a dso in brackets. */
static const char *parse_other_frame(enum fp_dialect dialect, const char *at, const char *end,
                                     char *encoded, struct fp_frame_text *frame)
{
    const char *address, *open;

    end = blanks_before(at, end);
    address = behind_address(behind_blanks(at, end), end);
    if (address == NULL)
        return "a frame without an address";
    open = end > address && end[-1] == ')' ? open_bracket(address, end) : NULL;
    if (open != NULL) {
        frame->symbol = between(address, blanks_before(address, open - 1));
        frame->dso = without_offset(between(open + 1, end - 1));
    } else if (dialect == FP_PERF && is_balanced(address, end)) {
        frame->symbol = between(address, end);
        frame->dso = FP_SLICE("[unknown]");
    } else {
        return "a frame without a (dso)";
    }
    if (frame->symbol.size == 0)
        return "a frame without a symbol";
    frame->symbol = dialect == FP_ORIGINAL ? encode_original(frame->symbol, &encoded)
                                           : encode(without_offset(frame->symbol), &encoded);
    /* The original's `native ()` is a pseudo frame. */
    frame->dso = frame->dso.size == 0 ? FP_SLICE("flame_prof") : encode(frame->dso, &encoded);
    return NULL;
}

const char *fp_parse_frame(enum fp_dialect dialect, const char **at, const char *end, char *encoded,
                           struct fp_frame_text *frame)
{
    const char *begin = *at;
    const char *stop = memchr(begin, '\n', (size_t)(end - begin));

    if (stop == NULL)
        stop = end;
    *at = stop < end ? stop + 1 : end;
    if (stop - begin > FP_FRAME_BYTES_MOST)
        return "a frame that is too long";
    if (stop == begin)
        return "a frame without an address";
    if (dialect == FP_FLAME_PROF)
        return parse_session_frame(begin, stop, frame);
    return parse_other_frame(dialect, begin, stop, encoded, frame);
}
