/* test_waits.c - a look at processes in fake memory: callers, servers, receives by hand, and all
 * that moves or contradicts itself meanwhile. */
#include "waits/waits.c"

#include "broken.h"
#include "erts/monitors.h"
#include "fake_monitors.h"
#include "fake_vm.h"
#include "test.h"

#define TERMS FAKE_MISC
#define TERMS_BYTES (1u << 16)
#define PROCESSES 64u

enum { CALL, LOOP, SLEEP, CALLER, SERVER, BY_HAND, READ, ONLY, SOME, FUNCTIONS };

struct bench {
    struct fake_vm vm;
    struct fake_terms heap;
    struct fake_module module;
    struct fp_sites *sites;
    struct fp_waits_options options;
    struct fp_waits_counts counts;
    struct fp_serving_sites serving;
    struct fp_wait wait[PROCESSES];
    uint32_t waits;
    uint64_t pid[PROCESSES];
    uint64_t get;
    uint64_t hook_at; /* reading this changes `hook_field` of process `hook_n`, once */
    uint32_t hook_n;
    enum fp_field hook_field;
};

static struct bench b;

static uint64_t at(int function)
{
    return b.module.code[function] + 48;
}

static void keep(void *arg, const struct fp_wait *wait)
{
    (void)arg;
    CHECK(b.waits < PROCESSES);
    b.wait[b.waits++] = *wait;
}

static const struct fp_wait *wait_of(uint32_t n)
{
    for (uint32_t i = 0; i < b.waits; i++)
        if (b.wait[i].pid == b.pid[n])
            return &b.wait[i];
    return NULL;
}

static int look(void)
{
    b.waits = 0;
    return fp_waits_look(&b.options, &b.counts);
}

static int served_by(uint64_t pid, struct fp_served *served)
{
    uint64_t word[FP_SERVED_WORDS];

    fp_serving_prepare(&b.serving, b.sites);
    fp_serving_check(&b.serving, &b.vm.memory.reader, &b.vm.layout);
    return fp_waits_served(&b.options, &b.serving, pid, word, served);
}

static void create(unsigned otp)
{
    struct fake_body body[FUNCTIONS];
    const struct fake_module_options options = {.loc_size = 0};

    memset(&b, 0, sizeof b);
    fake_vm_create(&b.vm, otp, 128, PROCESSES);
    fake_vm_add_jit(&b.vm);
    fake_vm_add_atoms(&b.vm);
    fake_map(&b.vm.memory, TERMS, TERMS_BYTES);
    b.heap = (struct fake_terms){&b.vm.memory, TERMS};
    fake_vm_add_envelopes(&b.vm);
    b.get = fake_atom_term(&b.vm, "get", 3);
    for (int f = 0; f < FUNCTIONS; f++)
        body[f] = (struct fake_body){fake_atom_term(&b.vm, "f", 1), 1, 128};
    fake_load(&b.vm, &b.module, fake_atom_term(&b.vm, "gen", 3), body, FUNCTIONS, &options);
    {
        const struct fp_site_row row[] = {
            {at(CALL), FP_SITE_call, 1},     {at(LOOP), FP_SITE_loop, 0},
            {at(SLEEP), FP_SITE_timer, 0},   {at(CALLER), FP_SITE_request, 2},
            {at(SERVER), FP_SITE_serves, 0}, {at(SERVER), FP_SITE_from, 1},
            {at(SERVER), FP_SITE_module, 2}, {at(READ), FP_SITE_read, 0},
            {at(ONLY), FP_SITE_read, 0},     {at(ONLY), FP_SITE_only, 1},
            {at(SOME), FP_SITE_read, 0},     {at(SOME), FP_SITE_some, 0},
        };

        CHECK_INT(fp_sites_create(&b.sites, &b.vm.memory.reader, &b.vm.code, row,
                                  sizeof row / sizeof *row),
                  0);
    }
    b.options = (struct fp_waits_options){.layout = &b.vm.layout,
                                          .memory = &b.vm.memory.reader,
                                          .code = &b.vm.code,
                                          .sites = b.sites,
                                          .each = keep};
}

static void destroy(void)
{
    fp_sites_release(b.sites);
    fake_vm_destroy(&b.vm);
}

static void set_monitors(uint32_t n, uint64_t root)
{
    fake_put_word(&b.vm.memory, fake_process_at(n) + fp_monitors_offset(&b.vm.layout), root);
}

static struct fp_ref ref_of(uint32_t n)
{
    return (struct fp_ref){{1000 + n, 7, 9}};
}

static uint64_t monitor_of(uint32_t n, uint32_t callee)
{
    return fake_monitor(&b.heap, b.vm.layout.release.otp,
                        &(struct fake_monitor){.ref = ref_of(n),
                                               .type = FP_MONITOR_process,
                                               .item = fake_pid(&b.vm.layout, callee)});
}

#define SET_STACK(n, ...)                                                                          \
    fake_set_stack(&b.vm, n, (const uint64_t[]){__VA_ARGS__},                                      \
                   sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* Process n calls `callee` with {get, 7}. */
static void spawn_caller(uint32_t n, uint32_t callee)
{
    struct fp_ref ref = ref_of(n);

    b.pid[n] = fake_spawn(&b.vm, n, at(CALL));
    SET_STACK(n, FAKE_NIL, fake_ref(&b.heap, &ref), FAKE_SMALL(5000) /* of CALL */, at(CALLER),
              FAKE_NIL, FAKE_NIL, FAKE_TUPLE(&b.heap, b.get, FAKE_SMALL(7)), at(BY_HAND));
    set_monitors(n, monitor_of(n, callee));
}

static void spawn_at(uint32_t n, int function)
{
    b.pid[n] = fake_spawn(&b.vm, n, at(function));
}

static void callers_are_told(void)
{
    for (uint32_t n = 0; n < 20; n++)
        spawn_at(n, LOOP);
    for (uint32_t n = 20; n < PROCESSES; n++)
        spawn_caller(n, n - 20);
    CHECK_INT(look(), 0);
    CHECK_INT(b.counts.processes, PROCESSES);
    CHECK_INT(b.counts.waiting, PROCESSES);
    CHECK_INT(b.counts.idle, 20);
    CHECK_INT(b.counts.moved + b.counts.unknown + b.counts.unreadable, 0);
    CHECK_INT(b.waits, PROCESSES - 20);
    for (uint32_t n = 20; n < PROCESSES; n++) {
        const struct fp_wait *wait = wait_of(n);
        struct fp_ref ref = ref_of(n);

        CHECK(wait != NULL);
        CHECK_INT(wait->how, FP_WAIT_call);
        CHECK_INT(wait->target.kind, FP_TERM_PID);
        CHECK(wait->target.word == b.pid[n - 20]);
        CHECK(wait->has_ref && fp_ref_is_equal(&wait->ref, &ref));
        CHECK_INT(wait->tag.shape, FP_SHAPE_TUPLE);
        CHECK(wait->tag.atom == b.get && wait->tag.arity == 2);
        CHECK(wait->i == at(CALL));
    }
    b.options.excluded[b.options.excluded_n++] = b.pid[30];
    CHECK_INT(look(), 0);
    CHECK(wait_of(30) == NULL && wait_of(31) != NULL);
}

TEST(callers_are_told_and_servers_are_counted)
{
    for (unsigned otp = 25; otp <= 29; otp += 2) {
        create(otp);
        callers_are_told();
        destroy();
    }
}

TEST_BETWEEN(who_does_not_wait_is_no_source, create(27), destroy())
{
    spawn_at(1, LOOP);
    spawn_caller(2, 1);
    spawn_caller(3, 1);
    spawn_caller(4, 1);
    fake_set(&b.vm, 2, FP_FIELD_state, 0x2a | FP_PSFLG_ACTIVE);
    fake_set(&b.vm, 3, FP_FIELD_state, 0x2a | FP_PSFLG_RUNNING);
    fake_set(&b.vm, 4, FP_FIELD_state, 0x2a | FP_PSFLG_EXITING);
    CHECK_INT(look(), 0);
    CHECK_INT(b.counts.waiting, 1);
    CHECK_INT(b.waits, 0);
}

/* Until it has a heap, its structure holds what is left of a process that has ended. */
TEST_BETWEEN(who_is_being_spawned_waits_for_nobody, create(29), destroy())
{
    struct fp_served served;

    spawn_caller(2, 1);
    spawn_caller(3, 1);
    fake_set(&b.vm, 3, FP_FIELD_heap, 0);
    CHECK_INT(look(), 0);
    CHECK(wait_of(2) != NULL && wait_of(3) == NULL);
    CHECK_INT(b.counts.moved, 1);
    CHECK_INT(served_by(b.pid[3], &served), FP_ETORN);
}

/* The monitor is gone: its message is on its way. */
TEST_BETWEEN(a_call_without_its_monitor_has_no_target, create(29), destroy())
{
    spawn_caller(2, 1);
    set_monitors(2, 0);
    CHECK_INT(look(), 0);
    CHECK_INT(wait_of(2)->how, FP_WAIT_call);
    CHECK_INT(wait_of(2)->target.kind, FP_TERM_OTHER);
    set_monitors(2, monitor_of(3, 1));
    CHECK_INT(look(), 0);
    CHECK_INT(wait_of(2)->target.kind, FP_TERM_OTHER);
}

TEST_BETWEEN(a_receive_by_hand_needs_exactly_one_monitor, create(25), destroy())
{
    struct fp_ref one = ref_of(2), two = ref_of(3), other = ref_of(4);
    uint64_t stack[6], halves[2];
    struct fp_ref refs[2] = {one, two};

    spawn_at(2, BY_HAND);
    stack[0] = FAKE_TUPLE(&b.heap, b.get, FAKE_NIL);
    stack[1] = fake_ref(&b.heap, &other);
    stack[2] = fake_ref(&b.heap, &one);
    stack[3] = fake_ref(&b.heap, &one);
    stack[4] = FAKE_SMALL(4);
    stack[5] = at(CALLER);
    fake_set_stack(&b.vm, 2, stack, 6);
    CHECK_INT(look(), 0);
    CHECK_INT(wait_of(2)->how, FP_WAIT_unknown);
    halves[0] = monitor_of(2, 7);
    halves[1] = monitor_of(3, 8);
    set_monitors(2, fake_monitor_tree(&b.vm.memory, halves, refs, 2));
    CHECK_INT(look(), 0);
    CHECK_INT(wait_of(2)->how, FP_WAIT_monitor);
    CHECK(wait_of(2)->target.word == fake_pid(&b.vm.layout, 7));
    CHECK(fp_ref_is_equal(&wait_of(2)->ref, &one));
    stack[1] = fake_ref(&b.heap, &two);
    fake_set_stack(&b.vm, 2, stack, 6);
    CHECK_INT(look(), 0);
    CHECK_INT(wait_of(2)->how, FP_WAIT_unknown);
    CHECK_INT(b.counts.unknown, 1);
}

static enum fp_wait_how how_at(uint32_t n, int function, uint64_t second_slot)
{
    spawn_at(n, function);
    SET_STACK(n, FAKE_NIL, second_slot, FAKE_SMALL(4), at(CALLER));
    set_monitors(n, monitor_of(n, 7));
    CHECK_INT(look(), 0);
    return wait_of(n)->how;
}

TEST_BETWEEN(a_receive_that_was_read_tells_by_its_slot, create(25), destroy())
{
    struct fp_ref own = ref_of(2), other = ref_of(9);
    const struct fp_wait *wait;

    CHECK_INT(how_at(2, ONLY, fake_ref(&b.heap, &own)), FP_WAIT_monitor_only);
    wait = wait_of(2);
    CHECK(wait->target.word == fake_pid(&b.vm.layout, 7));
    CHECK(wait->has_ref && fp_ref_is_equal(&wait->ref, &own));
    /* No monitor, and no term that somebody has. */
    CHECK_INT(how_at(3, ONLY, fake_ref(&b.heap, &other)), FP_WAIT_unknown);
    CHECK_INT(how_at(4, ONLY, FAKE_SMALL(7)), FP_WAIT_unknown);
    CHECK_INT(how_at(5, ONLY, fake_pid(&b.vm.layout, 7)), FP_WAIT_named);
    CHECK(wait_of(5)->target.word == fake_pid(&b.vm.layout, 7) && !wait_of(5)->has_ref);
    spawn_at(6, ONLY);
    CHECK_INT(how_at(6, ONLY, b.pid[6]), FP_WAIT_unknown);
    CHECK_INT(how_at(7, ONLY, FAKE_PORT(3)), FP_WAIT_port);
    CHECK(wait_of(7)->target.word == FAKE_PORT(3));
}

/* The same frame, with a live monitor in it: what the code says decides. */
TEST_BETWEEN(a_receive_that_compares_no_slot_has_no_monitor, create(29), destroy())
{
    struct fp_ref ref[3] = {ref_of(2), ref_of(3), ref_of(4)};

    CHECK_INT(how_at(2, BY_HAND, fake_ref(&b.heap, &ref[0])), FP_WAIT_monitor);
    CHECK_INT(how_at(3, READ, fake_ref(&b.heap, &ref[1])), FP_WAIT_unknown);
    CHECK_INT(how_at(4, SOME, fake_ref(&b.heap, &ref[2])), FP_WAIT_monitor);
}

static void change(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    (void)memory;
    (void)arg;
    if (b.hook_at == 0 || b.hook_at - address >= size)
        return;
    b.hook_at = 0;
    fake_set(&b.vm, b.hook_n, b.hook_field, fake_get(&b.vm, b.hook_n, b.hook_field) + 8);
}

TEST(who_moves_meanwhile_is_left_out)
{
    static const enum fp_field field[] = {FP_FIELD_id,      FP_FIELD_i,    FP_FIELD_stop,
                                          FP_FIELD_hend,    FP_FIELD_heap, FP_FIELD_reds,
                                          FP_FIELD_gen_gcs, FP_FIELD_state};

    for (size_t k = 0; k < sizeof field / sizeof *field; k++) {
        create(k & 1 ? 25 : 29);
        spawn_caller(2, 1);
        spawn_caller(3, 1);
        b.vm.memory.before_read = change;
        b.hook_n = 3;
        b.hook_field = field[k];
        b.hook_at = fake_get(&b.vm, 3, FP_FIELD_stop); /* its stack */
        CHECK_INT(look(), 0);
        CHECK(b.hook_at == 0);
        CHECK_INT(b.counts.moved, 1);
        CHECK(wait_of(3) == NULL && wait_of(2) != NULL);
        destroy();
    }
}

TEST_BETWEEN(other_code_at_a_site_is_no_site, create(27), destroy())
{
    spawn_caller(2, 1);
    fake_put_word(&b.vm.memory, at(CALL) + 8, 0x1234);
    set_monitors(2, 0);
    CHECK_INT(look(), 0);
    CHECK_INT(wait_of(2)->how, FP_WAIT_unknown);
}

TEST_BETWEEN(a_site_of_a_function_of_another_name_is_no_site, create(27), destroy())
{
    spawn_caller(2, 1);
    fake_put_word(&b.vm.memory, b.module.code[CALLER] - 16, b.get);
    CHECK_INT(look(), 0);
    CHECK_INT(wait_of(2)->how, FP_WAIT_call);
    CHECK_INT(wait_of(2)->tag.shape, FP_SHAPE_UNKNOWN);
}

static void load(struct fake_memory *memory, void *arg, uint64_t address, size_t size)
{
    (void)arg;
    if (b.hook_at - address < size)
        fake_put_word(memory, at(CALL) + 8, 0x1234);
}

TEST_BETWEEN(code_that_is_loaded_meanwhile_is_told, create(27), destroy())
{
    spawn_caller(2, 1);
    b.vm.memory.before_read = load;
    b.hook_at = fake_get(&b.vm, 2, FP_FIELD_stop);
    CHECK_INT(look(), FP_ETORN);
}

TEST_BETWEEN(a_server_at_work_tells_its_call, create(29), destroy())
{
    uint64_t from, module;
    struct fp_ref ref = ref_of(9);
    struct fp_served served;

    b.pid[9] = fake_pid(&b.vm.layout, 9);
    module = fake_atom_term(&b.vm, "my_server", 9);
    from = FAKE_TUPLE(&b.heap, b.pid[9],
                      fake_cons(&b.heap, b.vm.layout.envelope.alias, fake_ref(&b.heap, &ref)));
    spawn_at(1, SLEEP);
    SET_STACK(1, FAKE_NIL, at(BY_HAND), FAKE_SMALL(1), at(SERVER),
              FAKE_TUPLE(&b.heap, b.get, FAKE_NIL, FAKE_NIL), from, module, at(LOOP));
    CHECK_INT(served_by(b.pid[1], &served), 0);
    CHECK_INT(served.message.kind, FP_MESSAGE_call);
    CHECK(served.message.tag.atom == b.get && served.message.tag.arity == 3);
    CHECK(served.message.from == b.pid[9]);
    CHECK(served.message.has_ref && fp_ref_is_equal(&served.message.ref, &ref));
    CHECK(served.module == module);
    fake_set(&b.vm, 1, FP_FIELD_state, 0x2a | FP_PSFLG_RUNNING);
    CHECK_INT(served_by(b.pid[1], &served), FP_ETORN);
    CHECK_INT(served_by(b.pid[9], &served), FP_EGONE);
    spawn_caller(3, 1);
    CHECK_INT(served_by(b.pid[3], &served), FP_ENOENT);
}

/* In the frames of two servers, that of the root counts, with all that is told. */
TEST_BETWEEN(of_two_servers_on_a_stack_the_outer_one_is_told, create(27), destroy())
{
    struct fp_served served;
    uint64_t outer, inner;

    outer = fake_atom_term(&b.vm, "outer", 5);
    inner = fake_atom_term(&b.vm, "inner", 5);
    spawn_at(1, SLEEP);
    SET_STACK(1, FAKE_NIL, at(SERVER), inner, FAKE_NIL, inner, at(SERVER), b.get, FAKE_NIL, outer,
              at(LOOP));
    b.pid[1] = fake_pid(&b.vm.layout, 1);
    CHECK_INT(served_by(b.pid[1], &served), 0);
    CHECK(served.message.tag.atom == b.get);
    CHECK(served.module == outer);
    fake_set(&b.vm, 1, FP_FIELD_state, 0x2a | FP_PSFLG_DIRTY_RUNNING);
    CHECK_INT(served_by(b.pid[1], &served), FP_ETORN);
}

/* Any words in structures, stacks, terms and trees: every look ends, and tells no more processes
 * than there are. */
TEST(any_memory_is_survived)
{
    uint64_t random = 11;

    for (int round = 0; round < 400; round++) {
        create(round & 1 ? 25 : 27);
        for (uint32_t n = 1; n < 40; n++)
            spawn_caller(n, n - 1);
        for (int k = 0; k < 60; k++) {
            uint32_t n = 1 + (uint32_t)(run_random(&random) % 39);
            uint64_t value = run_random(&random);
            static const uint64_t low[] = {0, 1, 2, 3};
            uint64_t place;

            switch (run_random(&random) % 3) {
            case 0:
                place = fake_process_at(n) + 8 * (1 + run_random(&random) % 90);
                break;
            case 1:
                place = fake_heap_at(n) + 8 * (FAKE_HEAP_WORDS - 1 - run_random(&random) % 10);
                break;
            default:
                place = TERMS + 8 * (run_random(&random) % (b.heap.at - TERMS) / 8);
            }
            if (run_random(&random) & 1)
                value = ((TERMS + value % TERMS_BYTES) & ~UINT64_C(7)) | low[value >> 60 & 3];
            fake_put_word(&b.vm.memory, place & ~UINT64_C(7), value);
        }
        CHECK_INT(look(), 0);
        CHECK(b.waits + b.counts.moved + b.counts.idle <= b.counts.waiting);
        for (uint32_t n = 1; n < 40; n++) {
            struct fp_served served;

            (void)served_by(b.pid[n], &served);
        }
        destroy();
    }
}

TEST(no_more_processes_are_kept_than_a_batch_has)
{
    unsigned char bytes[FP_PROBE_WINDOW];
    struct fp_waits_counts counts = {0};
    struct look *look = calloc(1, sizeof *look);
    struct fp_stamp now;

    create(25);
    spawn_caller(2, 1);
    CHECK_INT(
        fp_safe_read(&b.vm.memory.reader, fake_process_at(2), bytes, fp_stamp_bytes(&b.vm.layout)),
        0);
    fp_stamp_decode(&b.vm.layout, bytes, &now);
    look->options = &b.options;
    look->counts = &counts;
    look->candidates = BATCH;
    CHECK_BROKEN("waits/waits.c",
                 add_process(look, fake_process_at(2), fake_slot(&b.vm.layout, 2), &now));
    CHECK_INT(look->candidates, BATCH);
    free(look);
    destroy();
}
