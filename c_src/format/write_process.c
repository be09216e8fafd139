#include "format/write_process.h"

#include "base/error.h"
#include "format/encode.h"
#include "format/write_frame.h"

/* In the order of a record's text. */
enum name {
    REGISTERED,
    LABEL,
    INITIAL_MODULE,
    INITIAL_FUNCTION,
    PROC_LIB_MODULE,
    PROC_LIB_FUNCTION,
    NAMES
};

/* at NULL: the process has none. */
struct names {
    struct fp_slice name[NAMES];
    char atom[NAMES][FP_ATOM_BYTES_MAX];
};

static struct fp_slice atom_text(const struct fp_symbolizer *symbolizer, uint64_t atom,
                                 char text[FP_ATOM_BYTES_MAX])
{
    int size = FP_ENOENT;

    if (atom != 0 && symbolizer != NULL)
        size = symbolizer->atom(symbolizer->self, atom, text);
    if (size < 0 || size > FP_ATOM_BYTES_MAX)
        return (struct fp_slice){NULL, 0};
    return (struct fp_slice){text, (size_t)size};
}

/* A function may be called ''. */
static bool is_function(int name)
{
    return name == INITIAL_FUNCTION || name == PROC_LIB_FUNCTION;
}

static int read_names(struct names *names, const struct fp_symbolizer *symbolizer,
                      const struct fp_record_process *record)
{
    const uint64_t word[NAMES] = {
        record->registered_name,
        record->label,
        record->initial_call.module,
        record->initial_call.function,
        record->proc_lib_initial_call.module,
        record->proc_lib_initial_call.function,
    };
    const char *text = record->text;
    size_t left = record->head.size - offsetof(struct fp_record_process, text);
    bool is_none;

    for (int i = 0; i < NAMES; i++) {
        if (!record->is_text) {
            names->name[i] = atom_text(symbolizer, word[i], names->atom[i]);
            continue;
        }
        if (word[i] > left || word[i] > FP_ATOM_BYTES_MAX)
            return FP_EINVAL;
        is_none = word[i] == 0 && (!is_function(i) || names->name[i - 1].at == NULL);
        names->name[i] = (struct fp_slice){is_none ? NULL : text, (size_t)word[i]};
        text += word[i];
        left -= (size_t)word[i];
    }
    return 0;
}

/* The tid tells the processes of one file apart and fits an int32, in which some readers keep it.
 * In OTP 25 number and serial together have 28 bits. From 26 on the number alone has 28 and is
 * unique among the living; the serial's low three bits tell those apart that had it one after the
 * other. Schedulers count down from the highest. */
static uint32_t tid_of(uint32_t number_bits, const struct fp_record_process *record)
{
    if (record->is_scheduler)
        return 0x7fffffffu - record->number;
    return (record->number | record->serial << number_bits) & 0x7fffffffu;
}

char *fp_put_thread(char *out, uint32_t os_pid, uint32_t tid)
{
    out = fp_put_u64(out, os_pid);
    *out++ = '/';
    return FP_PUT_LITERAL(fp_put_u64(out, tid), " [000] ");
}

char *fp_put_scheduler(char *out, uint16_t scheduler)
{
    out -= strlen("000] ");
    out += scheduler < 100;
    out += scheduler < 10;
    return FP_PUT_LITERAL(fp_put_u64(out, scheduler), "] ");
}

char *fp_put_time(char *out, int64_t time_us)
{
    char micros[FP_U64_DIGITS];

    out = fp_put_i64(out, time_us / 1000000);
    /* 1000000 + x has seven digits: the first one makes the zeros. */
    fp_put_i64(micros, 1000000 + time_us % 1000000);
    micros[0] = '.';
    return fp_put(out, micros, 7);
}

static char *encode_colons(char *at, char *end)
{
    while ((at = memchr(at, ':', (size_t)(end - at))) != NULL)
        end = fp_encode_in_place(at, 1, end);
    return end;
}

char *fp_put_word(char *out, struct fp_slice text)
{
    return encode_colons(out, fp_put_encoded(out, text));
}

char *fp_put_about(char *out, const char *about)
{
    for (const char *end = about + strlen(about); about < end;) {
        size_t size = strcspn(about, " "), key = strcspn(about, "= ");

        if (key + 1 < size) {
            *out++ = ' ';
            out = fp_put(out, about, key + 1);
            out = fp_put_word(out, (struct fp_slice){about + key + 1, size - key - 1});
        }
        about += size + (about[size] == ' ');
    }
    return out;
}

static bool is_known(const struct fp_frame *call)
{
    return call->module.at != NULL && call->function.at != NULL;
}

/* ---- the command -------------------------------------------------------- */

#define COMM_MOST 31

static bool is_comm_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '@' ||
           c == '-';
}

/* Of any name. FlameScope ends a command at its first digit. */
static char *put_comm_part(char *out, const char *end, struct fp_slice name)
{
    for (size_t i = 0; i < name.size && out < end; i++) {
        if (is_comm_character(name.at[i]))
            *out++ = name.at[i];
        else if (out[-1] != '_')
            *out++ = '_';
    }
    return out;
}

/* Other readers have rules of their own for these two. */
static bool is_taken(const char *comm, size_t size)
{
    return (size >= 4 && memcmp(comm, "java", 4) == 0) || memmem(comm, size, "swapper", 7) != NULL;
}

/* The name of a process, or its label or initial call, with a blank. */
static char *put_comm(char *out, const struct names *names, const struct fp_frame call[2],
                      const struct fp_record_process *record)
{
    /* A byte before it for out[-1]. */
    char comm[1 + COMM_MOST], *begin = comm + 1, *at = begin;
    const char *end = comm + sizeof(comm);
    const struct fp_frame *first = is_known(&call[1]) ? &call[1] : &call[0];

    comm[0] = '\0';
    if (record->is_scheduler)
        at = put_comm_part(at, end, FP_SLICE("scheduler"));
    else if (names->name[REGISTERED].size != 0)
        at = put_comm_part(at, end, names->name[REGISTERED]);
    else if (names->name[LABEL].size != 0)
        at = put_comm_part(at, end, names->name[LABEL]);
    else if (is_known(first))
        at = put_comm_part(put_comm_part(put_comm_part(at, end, first->module), end, FP_SLICE(".")),
                           end, first->function);
    while (at > begin && at[-1] == '_')
        at--;
    if (at - begin < 2 || *begin == '.' || *begin == '@' || *begin == '-' ||
        is_taken(begin, (size_t)(at - begin)))
        return FP_PUT_LITERAL(out, "beam ");
    out = fp_put(out, begin, (size_t)(at - begin));
    *out++ = ' ';
    return out;
}

/* ---- words -------------------------------------------------------------- */

static char *put_call(char *out, const struct fp_frame *call)
{
    char *begin = out;

    return encode_colons(begin, fp_put_function(out, call));
}

/* Each word with a blank behind it. */
static char *put_words(char *out, const struct names *names, const struct fp_frame call[2],
                       const struct fp_record_process *record)
{
    if (record->is_scheduler) {
        out = fp_put_u64(FP_PUT_LITERAL(out, "scheduler="), record->number);
        *out++ = ' ';
        return out;
    }
    out = FP_PUT_LITERAL(out, "erl_pid=<0.");
    out = fp_put_u64(out, record->number);
    *out++ = '.';
    out = fp_put_u64(out, record->serial);
    *out++ = '>';
    if (names->name[REGISTERED].size != 0)
        out = fp_put_word(FP_PUT_LITERAL(out, " name="), names->name[REGISTERED]);
    if (names->name[LABEL].size != 0)
        out = fp_put_word(FP_PUT_LITERAL(out, " label="), names->name[LABEL]);
    if (is_known(&call[0]))
        out = put_call(FP_PUT_LITERAL(out, " initial_call="), &call[0]);
    if (is_known(&call[1]))
        out = put_call(FP_PUT_LITERAL(out, " proc_lib_initial_call="), &call[1]);
    *out++ = ' ';
    return out;
}

/* The bytes from *at to `end`, which *at moves to. */
static struct fp_slice take(char **at, char *end)
{
    struct fp_slice part = {*at, (size_t)(end - *at)};

    *at = end;
    return part;
}

/* Bytes beside names and calls. */
#define FIXED_BYTES_MAX 256

int fp_process_text_render(struct fp_process_text *rendered, struct fp_buffer *scratch,
                           const struct fp_perf_script_options *options,
                           const struct fp_record_process *record)
{
    struct fp_frame call[] = {{.arity = record->initial_call.arity},
                              {.arity = record->proc_lib_initial_call.arity}};
    struct names names;
    char *out, *at;
    int err = read_names(&names, options->symbolizer, record);

    if (err != 0)
        return err;
    for (int i = 0; i < 2; i++) {
        call[i].module = names.name[INITIAL_MODULE + 2 * i];
        call[i].function = names.name[INITIAL_FUNCTION + 2 * i];
        rendered->root[i].function = fp_frame_function(&call[i]);
    }
    scratch->size = 0;
    err = fp_buffer_reserve(
        scratch, FIXED_BYTES_MAX + 3 * (names.name[REGISTERED].size + names.name[LABEL].size) +
                     2 * (fp_frame_room(&call[0]) + fp_frame_room(&call[1])));
    if (err != 0)
        return err;
    at = scratch->bytes;
    out = put_comm(at, &names, call, record);
    out = fp_put_thread(out, options->os_pid, tid_of(options->pid_number_bits, record));
    rendered->begin = take(&at, out);
    rendered->words = take(&at, put_words(out, &names, call, record));
    for (int i = 0; i < 2; i++)
        rendered->root[i].line = take(&at, is_known(&call[i]) ? fp_put_frame(at, &call[i]) : at);
    rendered->text =
        (struct fp_kept){.bytes = scratch->bytes, .size = (uint32_t)(at - scratch->bytes)};
    return 0;
}

bool fp_process_text_equals(const struct fp_process_text *a, const struct fp_process_text *b)
{
    return a->text.size == b->text.size && memcmp(a->text.bytes, b->text.bytes, a->text.size) == 0;
}

int fp_process_text_keep(struct fp_process_text *process, struct fp_arena *arena,
                         const struct fp_process_text *rendered)
{
    struct fp_slice *const part[] = {&process->begin, &process->words, &process->root[0].line,
                                     &process->root[1].line};
    struct fp_kept text = process->text;
    int err = fp_arena_keep(arena, &text, rendered->text.bytes, rendered->text.size);
    const char *at = text.bytes;

    *process = *rendered;
    process->text = text;
    for (int i = 0; i < 4 && err == 0; i++) {
        part[i]->at = at;
        at += part[i]->size;
    }
    return err;
}

char *fp_put_roots(char *out, const struct fp_process_text *process, uint64_t last_function)
{
    for (int i = 0; i < 2; i++) {
        const struct fp_root *root = &process->root[i];

        if (root->line.size == 0 || root->function == last_function)
            continue;
        out = fp_put(out, root->line.at, root->line.size);
        last_function = root->function;
    }
    return out;
}
