/* Calibration from Erlang's side: each probe process tells where it is by calling a NIF itself,
 * then flame_prof_calibration hands over what the VM says about them in public, and layout_solve.c
 * compares. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent_nif/library.h"
#include "base/error.h"
#include "erts/code_scan.h"
#include "erts/process.h"
#include "terms/terms.h"

struct calibration {
    struct fp_probe *probe;
    _Atomic unsigned probes; /* reported, from any scheduler: FP_PROBES_MAX have a place */
};

void fp_calibration_destroy(ErlNifEnv *env, void *object)
{
    struct calibration *calibration = object;

    (void)env;
    enif_free(calibration->probe);
}

FP_NIF(calibration_open)
{
    struct fp_library *library = fp_library(env);
    struct calibration *calibration =
        enif_alloc_resource(library->calibration_type, sizeof *calibration);
    size_t bytes = FP_PROBES_MAX * sizeof *calibration->probe;
    ERL_NIF_TERM ref;

    (void)fp_library_open_memory(library); /* the probes meet its error */
    atomic_init(&calibration->probes, 0);
    calibration->probe = enif_alloc(bytes);
    if (calibration->probe != NULL)
        memset(calibration->probe, 0, bytes);
    ref = enif_make_resource(env, calibration);
    enif_release_resource(calibration);
    return calibration->probe != NULL ? ref : fp_result(env, FP_ENOMEM);
}

FP_NIF(calibration_probe)
{
    struct fp_library *library = fp_library(env);
    struct calibration *calibration;
    ErlNifPid self;
    uint64_t address;
    unsigned at;

    if (!enif_get_resource(env, argv[0], library->calibration_type, (void **)&calibration))
        return enif_make_badarg(env);
    if (library->peek_err != 0)
        return fp_result(env, library->peek_err);
    enif_self(env, &self);
    address = fp_own_process(env, &library->memory);
    if (address == 0)
        return fp_result(env, FP_ELAYOUT);
    at = atomic_fetch_add(&calibration->probes, 1);
    if (at >= FP_PROBES_MAX)
        return fp_result(env, FP_EFULL);
    calibration->probe[at].address = address;
    calibration->probe[at].id = enif_make_pid(env, &self);
    return fp_atom(env, "ok");
}

/* The flags that a process shows of which is known: priority in bits 0..1, suspended in bit 2,
 * message_queue_data off_heap in bit 3. */
static int64_t state_of(int64_t known)
{
    uint32_t state = FP_PSFLG_PRIORITIES(known & 3);

    if (known & 4)
        state |= FP_PSFLG_SUSPENDED;
    if (known & 8)
        state |= FP_PSFLG_OFF_HEAP_MSGQ;
    return (int64_t)state;
}

static void get_facts(ErlNifEnv *env, ERL_NIF_TERM map, struct fp_probe *probe)
{
    for (int fact = 0; fact < FP_FACT_COUNT; fact++) {
        ERL_NIF_TERM term;
        ErlNifSInt64 value;

        if (!fp_map_get(env, map, fp_fact_name(fact), &term) || !enif_get_int64(env, term, &value))
            continue;
        probe->fact[fact] = fact == FP_FACT_state ? state_of(value) : value;
        probe->known |= 1u << fact;
    }
}

static unsigned probe_count(struct calibration *calibration)
{
    unsigned n = atomic_load(&calibration->probes);

    return n < FP_PROBES_MAX ? n : FP_PROBES_MAX;
}

static struct fp_probe *find_probe(struct calibration *calibration, uint64_t id)
{
    for (unsigned i = 0; i < probe_count(calibration); i++)
        if (calibration->probe[i].id == id)
            return &calibration->probe[i];
    return NULL;
}

/* #{pid, number, serial, parent, [registered], initial_call,
 *   [current_function], answers} */
static int get_probe(ErlNifEnv *env, ERL_NIF_TERM map, struct calibration *calibration)
{
    ERL_NIF_TERM pid, term;
    struct fp_probe *probe;

    if (!fp_map_get(env, map, "pid", &pid) || (probe = find_probe(calibration, pid)) == NULL ||
        !fp_map_get_u32(env, map, "number", &probe->pid_number) ||
        !fp_map_get_u32(env, map, "serial", &probe->pid_serial) ||
        !fp_map_get(env, map, "initial_call", &term) ||
        !fp_get_mfa(env, term, probe->initial_call) || !fp_map_get(env, map, "parent", &term))
        return 0;
    probe->parent = term;
    if (fp_map_get(env, map, "registered", &term))
        probe->registered = term;
    if (fp_map_get(env, map, "current_function", &term) &&
        !fp_get_mfa(env, term, probe->current_function))
        return 0;
    if (!fp_map_get(env, map, "answers", &term))
        return 0;
    get_facts(env, term, probe);
    return 1;
}

#define ATOMS_MAX 8u

static int get_atoms(ErlNifEnv *env, ERL_NIF_TERM list, struct fp_known_atom *atom,
                     char (*text)[256], size_t *n)
{
    ERL_NIF_TERM head;

    for (*n = 0; enif_get_list_cell(env, list, &head, &list); ++*n) {
        int size;

        if (*n == ATOMS_MAX)
            return 0;
        size = enif_get_atom(env, head, text[*n], 256, ERL_NIF_LATIN1);
        if (size <= 0)
            return 0;
        atom[*n] = (struct fp_known_atom){head, text[*n], (uint32_t)size - 1};
    }
    return 1;
}

static int get_input(ErlNifEnv *env, ERL_NIF_TERM map, struct calibration *calibration,
                     struct fp_solve_input *input, struct fp_known_atom *atom, char (*text)[256])
{
    ERL_NIF_TERM list, head;

    memset(input, 0, sizeof *input);
    if (!fp_map_get_u32(env, map, "otp", &input->otp) ||
        !fp_map_get_u32(env, map, "process_limit", &input->process_limit) ||
        !fp_map_get_u32(env, map, "atom_limit", &input->atom_limit) ||
        !fp_map_get_u32(env, map, "process_size", &input->process_size) ||
        !fp_map_get_bool(env, map, "allow_unlisted", &input->allow_unlisted) ||
        !fp_map_get(env, map, "atoms", &list) || !get_atoms(env, list, atom, text, &input->atoms) ||
        !fp_map_get(env, map, "probes", &list))
        return 0;
    while (enif_get_list_cell(env, list, &head, &list))
        if (!get_probe(env, head, calibration))
            return 0;
    input->atom = atom;
    input->probe = calibration->probe;
    input->probes = probe_count(calibration);
    return 1;
}

static ERL_NIF_TERM refusal_term(ErlNifEnv *env, const struct fp_refusal *refusal)
{
    return fp_error(env,
                    enif_make_tuple3(env, fp_atom(env, fp_err_name(refusal->err)),
                                     fp_atom(env, refusal->field), fp_text(env, refusal->why)));
}

static ERL_NIF_TERM no_code_term(ErlNifEnv *env, int err)
{
    struct fp_refusal refusal = {err, "code", ""};

    snprintf(refusal.why, sizeof refusal.why, "%s", fp_code_ranges_why(err));
    return refusal_term(env, &refusal);
}

static ERL_NIF_TERM offsets_term(ErlNifEnv *env, const struct fp_layout *layout)
{
    ERL_NIF_TERM offsets = enif_make_new_map(env);

    for (enum fp_field field = 0; field < FP_FIELD_COUNT; field++)
        fp_map_put(env, &offsets, fp_field_name(field),
                   enif_make_uint(env, layout->release.offset[field]));
    return offsets;
}

static ERL_NIF_TERM layout_term(ErlNifEnv *env, const struct fp_layout *layout)
{
    const struct fp_release *listed = fp_release_find(layout->release.otp);
    ERL_NIF_TERM map = enif_make_new_map(env);

    fp_map_put(env, &map, "otp", enif_make_uint(env, layout->release.otp));
    fp_map_put(env, &map, "tested",
               fp_atom(env, listed == NULL           ? "unlisted"
                            : layout->release.tested ? "tested"
                                                     : "untested"));
    fp_map_put_text(env, &map, "reads", fp_safe_read_method(&fp_library(env)->memory));
    fp_map_put(env, &map, "process_size", enif_make_uint(env, layout->release.process_size));
    fp_map_put(env, &map, "offsets", offsets_term(env, layout));
    return map;
}

/* Keep the first layout found: sessions may be using it. */
static void keep_layout(struct fp_library *library, const struct fp_layout *layout)
{
    enif_mutex_lock(library->lock);
    if (library->layout == NULL) {
        library->layout = enif_alloc(sizeof *layout);
        if (library->layout != NULL)
            *library->layout = *layout;
    }
    enif_mutex_unlock(library->lock);
}

FP_NIF(calibration_solve)
{
    struct fp_library *library = fp_library(env);
    struct calibration *calibration;
    struct fp_solve_input input;
    struct fp_known_atom atom[ATOMS_MAX];
    char text[ATOMS_MAX][256];
    struct fp_layout layout;
    struct fp_refusal refusal;
    int err;

    if (!enif_get_resource(env, argv[0], library->calibration_type, (void **)&calibration) ||
        !get_input(env, argv[1], calibration, &input, atom, text))
        return enif_make_badarg(env);
    err = fp_code_ranges(&library->memory, &input.code);
    if (err != 0)
        return no_code_term(env, err);
    err = fp_maps_data(&input.data);
    if (err != 0) {
        refusal = (struct fp_refusal){err, "data", "/proc/self/maps has no data of the executable"};
        return refusal_term(env, &refusal);
    }
    if (fp_layout_solve(&layout, &library->memory, &input, &refusal) != 0)
        return refusal_term(env, &refusal);
    layout.term = (struct fp_known_terms){
        .initial_call = fp_atom(env, "$initial_call"),
        .process_label = fp_atom(env, "$process_label"),
        .erlang = fp_atom(env, "erlang"),
        .hibernate = fp_atom(env, "hibernate"),
    };
    keep_layout(library, &layout);
    return fp_ok(env, layout_term(env, &layout));
}

FP_NIF(layout_info)
{
    struct fp_library *library = fp_library(env);
    struct fp_layout *layout = fp_library_layout(library);
    struct fp_ranges ranges;
    int err;

    if (layout == NULL)
        return fp_atom(env, "undefined");
    /* The layout stays; mappings of code come and go. */
    err = fp_code_ranges(&library->memory, &ranges);
    return err == 0 ? layout_term(env, layout) : no_code_term(env, err);
}
