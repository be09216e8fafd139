#include "looks_nif/calibrate.h"

#include <string.h>

#include "erts/atom.h"
#include "erts/term/walk.h"
#include "terms/terms.h"

#define READS 4096u

/* External formats of at most 255 + 2 bytes of a node's name:
 *   131, 88, node, u32 number, serial, creation           NEW_PID_EXT
 *   131, 90, u16 3, node, u32 creation, 3 x u32 numbers   NEWER_REFERENCE_EXT */
#define EXTERNAL_MAX 300u
#define NEW_PID_EXT 88u
#define NEWER_REFERENCE_EXT 90u
#define NUMBER 0x0234567u
#define SERIAL 0x123u

struct external {
    unsigned char bytes[EXTERNAL_MAX];
    size_t size;
};

static uint32_t u32_at(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void put_u32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (24 - 8 * i));
}

static int get_external(ErlNifEnv *env, ERL_NIF_TERM term, unsigned tag, struct external *external)
{
    ErlNifBinary binary;
    int fits;

    if (!enif_term_to_binary(env, term, &binary))
        return 0;
    fits = binary.size > 20 && binary.size <= EXTERNAL_MAX && binary.data[1] == tag;
    if (fits) {
        memcpy(external->bytes, binary.data, binary.size);
        external->size = binary.size;
    }
    enif_release_binary(&binary);
    return fits;
}

/* Of a term that was made since: nothing of before is at hand. */
static void walk_new(struct fp_walk *walk, uint64_t word, struct fp_term *term)
{
    fp_walk_again(walk, READS);
    fp_walk_term(walk, word, term);
}

/* Is it of a node whose name is in `external`, with this creation? */
static int is_of_node(const struct fp_walk *walk, const struct fp_remote *remote,
                      const struct external *external, uint32_t creation)
{
    char name[FP_ATOM_TEXT_MAX];
    int size = fp_atom_text(walk->layout, walk->memory, remote->node, name);

    return size > 0 && remote->creation == creation &&
           memmem(external->bytes, external->size, name, (size_t)size) != NULL;
}

static int is_ref_right(struct fp_walk *walk, uint64_t word, const struct external *external)
{
    const unsigned char *numbers = external->bytes + external->size - 12;
    struct fp_term term;

    walk_new(walk, word, &term);
    return (term.kind == FP_TERM_REF || term.kind == FP_TERM_REMOTE_REF) &&
           memcmp(term.kind == FP_TERM_REF ? &term.ref : &term.remote.ref,
                  (const uint32_t[]){u32_at(numbers), u32_at(numbers + 4), u32_at(numbers + 8)},
                  sizeof term.ref) == 0;
}

/* {Ref, []}, [Ref | Atom] */
static int are_terms_right(ErlNifEnv *env, struct fp_walk *walk, ERL_NIF_TERM ref,
                           const struct external *external)
{
    ERL_NIF_TERM atom = fp_atom(env, "alias"), nil = enif_make_list(env, 0);
    struct fp_term tuple, cell, second, tail;

    walk_new(walk, enif_make_tuple2(env, ref, nil), &tuple);
    fp_walk_element(walk, &tuple, 1, &second);
    walk_new(walk, enif_make_list_cell(env, ref, atom), &cell);
    fp_walk_element(walk, &cell, 1, &tail);
    return tuple.kind == FP_TERM_TUPLE && tuple.arity == 2 && second.kind == FP_TERM_NIL &&
           cell.kind == FP_TERM_LIST && tail.kind == FP_TERM_ATOM && tail.word == atom &&
           is_ref_right(walk, ref, external);
}

/* Pids and references of this node before a restart: its name, another creation. */
static int are_remote_terms_right(ErlNifEnv *env, struct fp_walk *walk, struct external *ref)
{
    unsigned char *creation = ref->bytes + ref->size - 16, *end;
    uint32_t other = u32_at(creation) ^ 0x5a5a5a5au;
    ERL_NIF_TERM word;
    struct external pid;
    struct fp_term term;
    ErlNifPid self;

    put_u32(creation, other);
    if (!enif_binary_to_term(env, ref->bytes, ref->size, &word, 0) ||
        !is_ref_right(walk, word, ref))
        return 0;
    walk_new(walk, word, &term);
    if (term.kind != FP_TERM_REMOTE_REF || !is_of_node(walk, &term.remote, ref, other) ||
        enif_self(env, &self) == NULL ||
        !get_external(env, enif_make_pid(env, &self), NEW_PID_EXT, &pid))
        return 0;
    end = pid.bytes + pid.size;
    put_u32(end - 12, NUMBER);
    put_u32(end - 8, SERIAL);
    put_u32(end - 4, other);
    if (!enif_binary_to_term(env, pid.bytes, pid.size, &word, 0))
        return 0;
    walk_new(walk, word, &term);
    return term.kind == FP_TERM_REMOTE_PID && term.remote.number == NUMBER &&
           term.remote.serial == SERIAL && is_of_node(walk, &term.remote, &pid, other);
}

void fp_terms_verify(ErlNifEnv *env, const struct fp_memory *memory, struct fp_layout *layout)
{
    ERL_NIF_TERM ref = enif_make_ref(env);
    struct external external;
    struct fp_walk walk;

    layout->terms = layout->remote_terms = 1;
    fp_walk_start(&walk, memory, layout, READS);
    layout->terms = get_external(env, ref, NEWER_REFERENCE_EXT, &external) &&
                    are_terms_right(env, &walk, ref, &external);
    layout->remote_terms = layout->terms && are_remote_terms_right(env, &walk, &external);
}
