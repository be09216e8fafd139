/* calibrate_nif.c - calibration: each probe process reports its address by calibration_probe/1,
 * calibration_solve/2 gets the VM's public facts of the probes, and layout_solve.c compares. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "erts/code_scan.h"
#include "erts/layout_solve.h"
#include "erts/process.h"
#include "looks_nif/calibrate.h"
#include "looks_nif/looks.h"
#include "terms/term_words.h"
#include "terms/terms.h"

/* proc_lib:set_label/1 */
#define FIRST_OTP_WITH_LABELS 27u

struct calibration {
    _Atomic unsigned probes; /* reported, by any scheduler; those past FP_PROBES_MAX are refused */
    struct fp_probe probe[FP_PROBES_MAX];
};

ERL_NIF_TERM fp_nif_calibration_open(FP_NIF_ARGS)
{
    struct fp_looks *library = fp_looks(env);
    struct calibration *calibration =
        enif_alloc_resource(library->calibration_type, sizeof *calibration);
    ERL_NIF_TERM ref = enif_make_resource(env, calibration);

    (void)fp_vm_open_memory(&library->vm); /* calibration_probe/1 returns its error */
    memset(calibration, 0, sizeof *calibration);
    enif_release_resource(calibration);
    return ref;
}

ERL_NIF_TERM fp_nif_calibration_probe(FP_NIF_ARGS)
{
    struct fp_looks *library = fp_looks(env);
    struct calibration *calibration;
    ErlNifPid self;
    uint64_t address;
    unsigned at;

    if (!enif_get_resource(env, argv[0], library->calibration_type, (void **)&calibration))
        return enif_make_badarg(env);
    if (library->vm.memory_err != 0)
        return fp_result(env, library->vm.memory_err);
    enif_self(env, &self);
    address = fp_own_process(env, &library->vm.memory);
    if (address == 0)
        return fp_result(env, FP_ELAYOUT);
    at = atomic_fetch_add(&calibration->probes, 1);
    if (at >= FP_PROBES_MAX)
        return fp_result(env, FP_EFULL);
    calibration->probe[at].address = address;
    calibration->probe[at].id = enif_make_pid(env, &self);
    return fp_atom(env, "ok");
}

/* The flags of a process's state word. In `known`: priority in bits 0..1, suspended in bit 2,
 * message_queue_data off_heap in bit 3. */
static int64_t state_of(int64_t known)
{
    return (int64_t)(FP_PSFLG_PRIORITIES(known & 3) | (known & 4 ? FP_PSFLG_SUSPENDED : 0u) |
                     (known & 8 ? FP_PSFLG_OFF_HEAP_MSGQ : 0u));
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

static struct fp_probe *find_probe(const struct fp_solve_input *input, uint64_t id)
{
    for (size_t i = 0; i < input->probes; i++)
        if (input->probe[i].id == id)
            return &input->probe[i];
    return NULL;
}

/* #{pid, number, serial, parent, [registered], initial_call, [current_function], answers} */
static int get_probe(ErlNifEnv *env, ERL_NIF_TERM map, const struct fp_solve_input *input)
{
    ERL_NIF_TERM pid, term;
    struct fp_probe *probe;

    if (!fp_map_get(env, map, "pid", &pid) || (probe = find_probe(input, pid)) == NULL ||
        !fp_map_get_u32(env, map, "number", &probe->pid_number) ||
        !fp_map_get_u32(env, map, "serial", &probe->pid_serial) ||
        !fp_map_get(env, map, "initial_call", &term) ||
        !fp_get_mfa(env, term, probe->initial_call) || !fp_map_get(env, map, "parent", &term))
        return 0;
    probe->parent = term;
    if (fp_map_get(env, map, "registered", &term))
        probe->registered = term;
    if ((fp_map_get(env, map, "current_function", &term) &&
         !fp_get_mfa(env, term, probe->current_function)) ||
        !fp_map_get(env, map, "answers", &term))
        return 0;
    get_facts(env, term, probe);
    return 1;
}

#define ATOMS_MAX 8u

struct known_atoms {
    struct fp_known_atom atom[ATOMS_MAX];
    char text[ATOMS_MAX][256];
};

static int get_atoms(ErlNifEnv *env, ERL_NIF_TERM list, struct known_atoms *known, size_t *n)
{
    ERL_NIF_TERM head;
    int size;

    for (*n = 0; enif_get_list_cell(env, list, &head, &list); ++*n) {
        if (*n == ATOMS_MAX ||
            (size = enif_get_atom(env, head, known->text[*n], 256, ERL_NIF_LATIN1)) <= 0)
            return 0;
        known->atom[*n] = (struct fp_known_atom){head, known->text[*n], (uint32_t)size - 1};
    }
    return 1;
}

static int get_input(ErlNifEnv *env, ERL_NIF_TERM map, struct calibration *calibration,
                     struct fp_solve_input *input, struct known_atoms *known)
{
    ERL_NIF_TERM unlisted, list, head;

    memset(input, 0, sizeof *input);
    input->probe = calibration->probe;
    input->probes = atomic_load(&calibration->probes);
    if (input->probes > FP_PROBES_MAX)
        input->probes = FP_PROBES_MAX;
    if (!fp_map_get_u32(env, map, "otp", &input->otp) ||
        !fp_map_get_u32(env, map, "process_limit", &input->process_limit) ||
        !fp_map_get_u32(env, map, "port_limit", &input->port_limit) ||
        !fp_map_get_u32(env, map, "atom_limit", &input->atom_limit) ||
        !fp_map_get_u32(env, map, "process_size", &input->process_size) ||
        !fp_map_get(env, map, "allow_unlisted", &unlisted) ||
        !fp_map_get(env, map, "atoms", &list) || !get_atoms(env, list, known, &input->atoms) ||
        !fp_map_get(env, map, "probes", &list))
        return 0;
    while (enif_get_list_cell(env, list, &head, &list))
        if (!get_probe(env, head, input))
            return 0;
    input->allow_unlisted = fp_is_atom(env, unlisted, "true");
    input->atom = known->atom;
    return 1;
}

/* {error, {Error, Field, Why}} */
static ERL_NIF_TERM refusal_term(ErlNifEnv *env, int err, const char *field, const char *why)
{
    return fp_error(env, enif_make_tuple3(env, fp_atom(env, fp_err_name(err)), fp_atom(env, field),
                                          fp_text(env, why)));
}

ERL_NIF_TERM fp_nif_calibration_solve(FP_NIF_ARGS)
{
    struct fp_looks *library = fp_looks(env);
    struct calibration *calibration;
    struct fp_solve_input input;
    struct known_atoms known;
    struct fp_layout layout, *copy;
    struct fp_refusal refusal;
    int err;

    if (!enif_get_resource(env, argv[0], library->calibration_type, (void **)&calibration) ||
        !get_input(env, argv[1], calibration, &input, &known))
        return enif_make_badarg(env);
    err = fp_code_ranges(&library->vm.memory, &input.code);
    if (err != 0)
        return refusal_term(env, err, "code", fp_code_ranges_why(err));
    err = fp_maps_data(&input.data);
    if (err != 0)
        return refusal_term(env, err, "data", "/proc/self/maps has no data of the executable");
    if (fp_layout_solve(&layout, &library->vm.memory, &input, &refusal) != 0)
        return refusal_term(env, refusal.err, refusal.field, refusal.why);
    layout.term = (struct fp_known_terms){
        .initial_call = fp_atom(env, "$initial_call"),
        .process_label = input.otp < FIRST_OTP_WITH_LABELS ? 0 : fp_atom(env, "$process_label"),
        .erlang = fp_atom(env, "erlang"),
        .hibernate = fp_atom(env, "hibernate"),
    };
#define MAKE_ENVELOPE(name, text) layout.envelope.name = fp_atom(env, text);
    FP_ENVELOPE_MAP(MAKE_ENVELOPE)
    fp_terms_verify(env, &library->vm.memory, &layout);
    fp_otel_verify(env, &library->vm.memory, &layout);
    copy = malloc(sizeof *copy);
    if (copy != NULL)
        *copy = layout;
    if (fp_vm_keep(&library->vm, FP_VALUE_LAYOUT, copy) != 0)
        return refusal_term(env, FP_ENOMEM, "layout", fp_err_text(FP_ENOMEM));
    return fp_ok(env, fp_value_make(env, FP_VALUE_LAYOUT, &layout, sizeof layout));
}
