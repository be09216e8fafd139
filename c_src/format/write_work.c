#include "format/write_work.h"

#include "base/hash.h"
#include "format/encode.h"
#include "format/write_process.h"

/* Elements that a tag shows one by one. */
#define TAG_ELEMENTS 6u

/* ---- atoms -------------------------------------------------------------- */

/* Characters that could be mistaken for the punctuation of a tag, in addition to those that every
 * word encodes. */
static char *put_tag_atom(char *out, struct fp_slice text)
{
    char *end = fp_put_word(out, text);

    for (char *at = out; at < end; at++) {
        if (*at == '{' || *at == '}' || *at == ',' || (at == out && *at == '_')) {
            end = fp_encode_in_place(at, 1, end);
            at += 2;
        }
    }
    return end;
}

/* NULL: the atom is not known. */
static char *render_atom(char *out, const struct fp_symbolizer *symbolizer, uint64_t atom)
{
    char text[FP_ATOM_BYTES_MAX];
    int size = symbolizer == NULL ? -1 : symbolizer->atom(symbolizer->self, atom, text);

    if (size <= 0 || size > FP_ATOM_BYTES_MAX)
        return NULL;
    return put_tag_atom(out, (struct fp_slice){text, (size_t)size});
}

static char *put_atom(char *out, struct fp_work_atoms *atoms,
                      const struct fp_symbolizer *symbolizer, uint64_t atom)
{
    size_t slot = fp_hash_two(atom, 0) % FP_WORK_ATOMS;
    char *end;

    if (atom != 0 && atoms->known[slot].atom == atom)
        return fp_put(out, atoms->known[slot].text, atoms->known[slot].size);
    end = render_atom(out, symbolizer, atom);
    if (end != NULL && (size_t)(end - out) <= FP_WORK_ATOM_BYTES) {
        atoms->known[slot].atom = atom;
        atoms->known[slot].size = (uint32_t)(end - out);
        memcpy(atoms->known[slot].text, out, (size_t)(end - out));
    }
    return end;
}

/* ---- words -------------------------------------------------------------- */

static char *put_tag(char *out, struct fp_work_atoms *atoms, const struct fp_symbolizer *symbolizer,
                     const struct fp_tag *tag)
{
    if (tag->shape == FP_SHAPE_OTHER)
        return FP_PUT_LITERAL(out, "_");
    if (tag->shape == FP_SHAPE_ATOM)
        return put_atom(out, atoms, symbolizer, tag->atom);
    *out++ = '{';
    out = put_atom(out, atoms, symbolizer, tag->atom);
    if (out == NULL)
        return NULL;
    if (tag->arity > TAG_ELEMENTS)
        return FP_PUT_LITERAL(out, ",_,...}");
    for (uint32_t i = 1; i < tag->arity; i++)
        out = FP_PUT_LITERAL(out, ",_");
    *out++ = '}';
    return out;
}

static char *put_ref(char *out, const uint32_t ref[3])
{
    for (int i = 2; i >= 0; i--) {
        out = fp_put_u64(out, ref[i]);
        *out++ = i > 0 ? '.' : ' ';
    }
    return out;
}

static char *put_pid(char *out, const uint32_t pid[2])
{
    out = fp_put_u64(FP_PUT_LITERAL(out, "<0."), pid[0]);
    *out++ = '.';
    out = fp_put_u64(out, pid[1]);
    *out++ = '>';
    return out;
}

static char *put_target(char *out, struct fp_work_atoms *atoms,
                        const struct fp_symbolizer *symbolizer, const struct fp_work *work)
{
    switch (work->waits) {
    case FP_WORK_PROCESS:
        return put_pid(out, work->target.pid);
    case FP_WORK_PORT:
        out = fp_put_u64(FP_PUT_LITERAL(out, "#Port<0."), work->target.word);
        *out++ = '>';
        return out;
    case FP_WORK_REMOTE_PROCESS:
    case FP_WORK_REMOTE_NAME:
        out = put_atom(out, atoms, symbolizer, work->node);
        if (out == NULL)
            return NULL;
        *out++ = '/';
        return work->waits == FP_WORK_REMOTE_PROCESS
                   ? put_pid(out, work->target.pid)
                   : put_atom(out, atoms, symbolizer, work->target.word);
    case FP_WORK_LOCK:
        return FP_PUT_LITERAL(out, "lock");
    case FP_WORK_SOCKET:
        return FP_PUT_LITERAL(out, "socket");
    default:
        return NULL;
    }
}

/* With its blank; without a text, nothing. */
static char *end_word(char *begin, char *end)
{
    if (end == NULL)
        return begin;
    *end++ = ' ';
    return end;
}

static char *put_message(char *out, struct fp_work_atoms *atoms,
                         const struct fp_symbolizer *symbolizer, const struct fp_work *work)
{
    static const struct fp_slice kind[] = {
#define KIND_SLICE(name) {#name "/", sizeof(#name)},
        FP_MESSAGE_KIND_MAP(KIND_SLICE)
#undef KIND_SLICE
    };
    char *begin = out;

    if (work->kind == FP_MESSAGE_unknown || work->kind >= FP_MESSAGE_KIND_COUNT ||
        work->message.shape == FP_SHAPE_UNKNOWN)
        return out;
    out = FP_PUT_LITERAL(out, "message=");
    out = fp_put(out, kind[work->kind].at, kind[work->kind].size);
    return end_word(begin, put_tag(out, atoms, symbolizer, &work->message));
}

static char *put_hex(char *out, uint64_t number)
{
    for (int shift = 60; shift >= 0; shift -= 4)
        *out++ = "0123456789abcdef"[number >> shift & 15];
    return out;
}

static char *put_trace(char *out, const struct fp_trace *trace)
{
    out = put_hex(put_hex(FP_PUT_LITERAL(out, "trace="), trace->id[0]), trace->id[1]);
    out = put_hex(FP_PUT_LITERAL(out, " span="), trace->span);
    *out++ = ' ';
    return out;
}

char *fp_put_work(char *out, struct fp_work_atoms *atoms, const struct fp_symbolizer *symbolizer,
                  const struct fp_work *work)
{
    out = put_message(out, atoms, symbolizer, work);
    if (work->serves)
        out = put_ref(FP_PUT_LITERAL(out, "serves="), work->served_ref);
    if (work->waits != FP_WORK_NO_TARGET)
        out = end_word(out, put_target(FP_PUT_LITERAL(out, "waits_for="), atoms, symbolizer, work));
    if (work->calls)
        out = put_ref(FP_PUT_LITERAL(out, "call="), work->called_ref);
    if (work->request.shape != FP_SHAPE_UNKNOWN)
        out = end_word(out,
                       put_tag(FP_PUT_LITERAL(out, "request="), atoms, symbolizer, &work->request));
    if (work->trace.span != 0)
        out = put_trace(out, &work->trace);
    return out;
}
