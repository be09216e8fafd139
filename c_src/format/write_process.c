/*
 * process_text.c - a PROCESS record, whose names are atom words or text, to the pieces that
 * perf_script.c copies into each sample.
 */
#include "format/write_process.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "format/perf_script.h"

/* ---- the names -------------------------------------------------------- */

/* The names of a PROCESS record as text, wherever they came from. */
struct names {
    struct fp_piece registered, label;
    struct fp_frame initial, proc_lib; /* module.text == NULL: there is none */
    char atom[6][FP_ATOM_BYTES_MAX];
};

/* The next `size` bytes of a record's text; false when there are not so many. text == NULL in the
 * piece means that there is nothing. */
static bool take_text(struct fp_piece *piece, const char **text, size_t *left, uint64_t size)
{
    if (size > *left || size > FP_ATOM_BYTES_MAX)
        return false;
    *piece = (struct fp_piece){size == 0 ? NULL : *text, (size_t)size};
    *text += size;
    *left -= (size_t)size;
    return true;
}

static bool names_from_text(struct names *names, const struct fp_record_process *record)
{
    const char *text = record->text;
    size_t left = record->head.size - offsetof(struct fp_record_process, text);

    return take_text(&names->registered, &text, &left, record->registered_name) &&
           take_text(&names->label, &text, &left, record->label) &&
           take_text(&names->initial.module, &text, &left, record->initial_call.module) &&
           take_text(&names->initial.function, &text, &left, record->initial_call.function) &&
           take_text(&names->proc_lib.module, &text, &left, record->proc_lib_initial_call.module) &&
           take_text(&names->proc_lib.function, &text, &left,
                     record->proc_lib_initial_call.function);
}

static struct fp_piece atom_text(const struct fp_symbolizer *symbolizer, uint64_t atom,
                                 char text[FP_ATOM_BYTES_MAX])
{
    int size;

    if (atom == 0 || symbolizer == NULL)
        return (struct fp_piece){NULL, 0};
    size = symbolizer->atom(symbolizer->self, atom, text);
    if (size < 0 || size > FP_ATOM_BYTES_MAX)
        return (struct fp_piece){NULL, 0};
    return (struct fp_piece){text, (size_t)size};
}

static void names_from_atoms(struct names *names, const struct fp_symbolizer *symbolizer,
                             const struct fp_record_process *record)
{
    const struct fp_mfa_words *initial = &record->initial_call;
    const struct fp_mfa_words *proc_lib = &record->proc_lib_initial_call;

    names->registered = atom_text(symbolizer, record->registered_name, names->atom[0]);
    names->label = atom_text(symbolizer, record->label, names->atom[5]);
    names->initial.module = atom_text(symbolizer, initial->module, names->atom[1]);
    names->initial.function = atom_text(symbolizer, initial->function, names->atom[2]);
    names->proc_lib.module = atom_text(symbolizer, proc_lib->module, names->atom[3]);
    names->proc_lib.function = atom_text(symbolizer, proc_lib->function, names->atom[4]);
}

/* ---- the pieces ------------------------------------------------------- */

static bool is_known(const struct fp_frame *call)
{
    return call->module.text != NULL && call->function.text != NULL;
}

/* The tid tells the processes of one file apart and fits an int32, which some readers keep it in.
 * In OTP 25 number and serial together have 28 bits; from 26 on the number alone has, and is unique
 * among the living, and the serial's low three bits tell those apart that had it one after the
 * other. Schedulers count down from the highest. */
static uint32_t tid_of(uint32_t number_bits, const struct fp_record_process *record)
{
    if (record->is_scheduler)
        return 0x7fffffffu - record->number;
    return (record->number | record->serial << number_bits) & 0x7fffffffu;
}

/* `beam 4242/71 [000] ` */
static int put_begin(struct fp_buffer *buffer, uint32_t os_pid, uint32_t number_bits,
                     const struct fp_record_process *record)
{
    uint32_t tid = tid_of(number_bits, record);
    char *out;
    int err = fp_buffer_reserve(buffer, 64);

    if (err != 0)
        return err;
    out = FP_PUT_LITERAL(fp_buffer_at(buffer), "beam ");
    out = fp_put_u64(out, os_pid);
    *out++ = '/';
    out = fp_put_u64(out, tid);
    fp_buffer_end(buffer, FP_PUT_LITERAL(out, " [000] "));
    return 0;
}

static int put_call_word(struct fp_buffer *buffer, const char *key, const struct fp_frame *call)
{
    size_t size = strlen(key);
    int err;

    if (!is_known(call))
        return 0;
    err = fp_buffer_reserve(buffer, size);
    if (err != 0)
        return err;
    fp_buffer_end(buffer, fp_put(fp_buffer_at(buffer), key, size));
    return fp_frame_put_word(buffer, call);
}

/* The end of the metrics line, from the blank before `erl_pid` on. */
static int put_words(struct fp_buffer *buffer, const struct names *names,
                     const struct fp_record_process *record)
{
    char *out;
    int err = fp_buffer_reserve(buffer, 64 + 3 * (names->registered.size + names->label.size));

    if (err != 0)
        return err;
    if (record->is_scheduler) {
        out = FP_PUT_LITERAL(fp_buffer_at(buffer), " scheduler=");
        out = fp_put_u64(out, record->number);
        fp_buffer_end(buffer, FP_PUT_LITERAL(out, " (metrics)\n"));
        return 0;
    }
    out = FP_PUT_LITERAL(fp_buffer_at(buffer), " erl_pid=<0.");
    out = fp_put_u64(out, record->number);
    *out++ = '.';
    out = fp_put_u64(out, record->serial);
    *out++ = '>';
    if (names->registered.size != 0) {
        out = FP_PUT_LITERAL(out, " name=");
        out += fp_perf_script_encode(names->registered.text, names->registered.size, out);
    }
    if (names->label.size != 0) {
        out = FP_PUT_LITERAL(out, " label=");
        out += fp_perf_script_encode(names->label.text, names->label.size, out);
    }
    fp_buffer_end(buffer, out);
    err = put_call_word(buffer, " initial_call=", &names->initial);
    if (err == 0)
        err = put_call_word(buffer, " proc_lib_initial_call=", &names->proc_lib);
    if (err == 0)
        err = fp_buffer_reserve(buffer, 16);
    if (err == 0)
        fp_buffer_end(buffer, FP_PUT_LITERAL(fp_buffer_at(buffer), " (metrics)\n"));
    return err;
}

static int put_root(struct fp_buffer *buffer, const struct fp_frame *call)
{
    return is_known(call) ? fp_frame_put(buffer, call) : 0;
}

/* The piece of `*at` that ends where the buffer was when it had `end` bytes. */
static struct fp_piece piece_until(const char **at, const char *bytes, size_t end)
{
    struct fp_piece piece = {*at, (size_t)(bytes + end - *at)};

    *at = bytes + end;
    return piece;
}

static struct fp_root root_of(struct fp_piece line, const struct fp_frame *call)
{
    return (struct fp_root){line, line.size == 0 ? 0 : fp_frame_function(call)};
}

static int render(struct fp_process_text *text, struct fp_pool *pool, struct fp_buffer *scratch,
                  uint32_t os_pid, uint32_t number_bits, const struct names *names,
                  const struct fp_record_process *record)
{
    size_t begin_end, words_end, initial_end;
    const char *at;
    int err;

    scratch->size = 0;
    err = put_begin(scratch, os_pid, number_bits, record);
    if (err != 0)
        return err;
    begin_end = scratch->size;
    err = put_words(scratch, names, record);
    if (err != 0)
        return err;
    words_end = scratch->size;
    err = put_root(scratch, &names->initial);
    if (err != 0)
        return err;
    initial_end = scratch->size;
    err = put_root(scratch, &names->proc_lib);
    if (err != 0)
        return err;

    text->bytes = fp_buffer_copy(scratch, pool);
    if (text->bytes == NULL)
        return FP_ENOMEM;
    text->size = scratch->size;
    at = text->bytes;
    text->begin = piece_until(&at, text->bytes, begin_end);
    text->words = piece_until(&at, text->bytes, words_end);
    text->initial = root_of(piece_until(&at, text->bytes, initial_end), &names->initial);
    text->proc_lib = root_of(piece_until(&at, text->bytes, scratch->size), &names->proc_lib);
    return 0;
}

int fp_process_text_render(struct fp_process_text *text, struct fp_pool *pool,
                           struct fp_buffer *scratch, uint32_t os_pid, uint32_t number_bits,
                           const struct fp_symbolizer *symbolizer,
                           const struct fp_record_process *record)
{
    struct names names;

    if (record->head.size < offsetof(struct fp_record_process, text))
        return FP_EINVAL;
    memset(&names.initial, 0, sizeof(names.initial));
    memset(&names.proc_lib, 0, sizeof(names.proc_lib));
    if (record->is_text == 0)
        names_from_atoms(&names, symbolizer, record);
    else if (!names_from_text(&names, record))
        return FP_EINVAL;
    names.initial.arity = record->initial_call.arity;
    names.proc_lib.arity = record->proc_lib_initial_call.arity;
    return render(text, pool, scratch, os_pid, number_bits, &names, record);
}

void fp_process_text_free(struct fp_process_text *text, struct fp_pool *pool)
{
    fp_pool_free(pool, text->bytes, text->size);
    memset(text, 0, sizeof(*text));
}
