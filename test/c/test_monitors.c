/* test_monitors.c - monitor trees in fake memory: each reference is found with what it monitors, no
 * other is, and what is no tree ends. */
#include "erts/monitors.h"

#include "base/error.h"
#include "fake_monitors.h"
#include "fake_vm.h"
#include "test.h"

#define HEAP FAKE_HEAPS
#define HEAP_BYTES (1u << 20)
#define MOST 1000u

struct bench {
    struct fake_vm vm;
    struct fake_terms heap;
    struct fp_walk walk;
    struct fp_ref ref[MOST];
    uint64_t half[MOST];
    uint64_t root;
    uint32_t n;
};

static struct bench b;

static uint64_t pid_of(uint32_t k)
{
    return (uint64_t)k << 8 | 3;
}

static void create(unsigned otp, uint32_t n, uint64_t seed)
{
    fake_vm_create(&b.vm, otp, 64, 0);
    fake_vm_add_atoms(&b.vm);
    fake_map(&b.vm.memory, HEAP, HEAP_BYTES);
    b.heap = (struct fake_terms){&b.vm.memory, HEAP};
    b.n = n;
    for (uint32_t i = 0; i < n; i++) {
        b.ref[i] = (struct fp_ref){{(uint32_t)(run_random(&seed) & 0x3ffff),
                                    (uint32_t)run_random(&seed), (uint32_t)run_random(&seed)}};
        if (i % 5 == 4) /* differs in the last number only */
            b.ref[i] = (struct fp_ref){{b.ref[i - 1].n[0], b.ref[i - 1].n[1], i}};
        b.half[i] = fake_monitor(&b.heap, otp,
                                 &(struct fake_monitor){.ref = b.ref[i],
                                                        .type = FP_MONITOR_process,
                                                        .item = pid_of(i),
                                                        .has_alias = i % 3 == 0});
    }
    b.root = fake_monitor_tree(&b.vm.memory, b.half, b.ref, n);
    fp_walk_start(&b.walk, &b.vm.memory.reader, &b.vm.layout, 200);
}

static void destroy(void)
{
    fake_vm_destroy(&b.vm);
}

static int find(const struct fp_ref *ref, struct fp_monitor *monitor)
{
    fp_walk_again(&b.walk, 200);
    return fp_monitors_find(&b.walk, b.root, ref, monitor);
}

TEST(every_reference_of_a_tree_is_found_and_no_other)
{
    static const unsigned releases[] = {25, 27, 29};
    static const uint32_t sizes[] = {1, 2, 3, 10, 333, MOST};

    for (size_t r = 0; r < 3; r++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            struct fp_monitor monitor;

            create(releases[r], sizes[s], 5 + s);
            for (uint32_t i = 0; i < b.n; i++) {
                struct fp_ref other = b.ref[i];

                CHECK_INT(find(&b.ref[i], &monitor), 0);
                CHECK_INT(monitor.type, FP_MONITOR_process);
                CHECK(monitor.is_origin);
                CHECK_INT(monitor.target.kind, FP_TERM_PID);
                CHECK(monitor.target.word == pid_of(i));
                other.n[1] ^= 0x40000;
                CHECK_INT(find(&other, &monitor), FP_ENOENT);
            }
            destroy();
        }
}

TEST_BETWEEN(an_empty_tree_has_no_reference, create(27, 0, 1), destroy())
{
    struct fp_monitor monitor;

    b.root = 0;
    CHECK_INT(find(&b.ref[0], &monitor), FP_ENOENT);
}

TEST(names_types_and_halves_are_told)
{
    static const unsigned releases[] = {25, 27, 28, 29};

    for (size_t r = 0; r < 4; r++) {
        struct fp_ref ref = {{1, 2, 3}};
        struct fp_monitor monitor;
        uint64_t name, node;

        create(releases[r], 0, 1);
        name = fake_atom_term(&b.vm, "a_server", 8);
        node = fake_atom_term(&b.vm, "other@host", 10);
        fp_walk_start(&b.walk, &b.vm.memory.reader, &b.vm.layout, 200);
        b.root = fake_monitor(
            &b.heap, releases[r],
            &(struct fake_monitor){
                .ref = ref, .type = FP_MONITOR_dist_process, .item = node, .name = name});
        CHECK_INT(find(&ref, &monitor), 0);
        CHECK_INT(monitor.type, FP_MONITOR_dist_process);
        CHECK(monitor.name == name);
        CHECK_INT(monitor.target.kind, FP_TERM_ATOM);
        CHECK(monitor.target.word == node);
        b.root = fake_monitor(
            &b.heap, releases[r],
            &(struct fake_monitor){
                .ref = ref, .type = FP_MONITOR_port, .item = FAKE_PORT(5), .is_target = 1});
        CHECK_INT(find(&ref, &monitor), 0);
        CHECK_INT(monitor.type, FP_MONITOR_port);
        CHECK(!monitor.is_origin);
        CHECK(monitor.name == 0);
        CHECK_INT(monitor.target.kind, FP_TERM_PORT);
        destroy();
    }
}

/* Keys that are no references: those of nodes, before them in the order. */
TEST_BETWEEN(other_keys_lead_to_the_references, create(27, 0, 1), destroy())
{
    uint64_t halves[3];
    struct fp_monitor monitor;
    const struct fp_ref ref = {{7, 7, 7}}, none = {{7, 7, 8}};

    for (int i = 0; i < 2; i++) {
        halves[i] = b.heap.at;
        b.heap.at += 112;
        fake_put_word(&b.vm.memory, halves[i] + 32, fake_atom_term(&b.vm, i ? "b" : "a", 1));
        fake_put_word(&b.vm.memory, halves[i] + 40,
                      UINT64_C(32) << 16 | (uint64_t)FP_MONITOR_node << 48);
    }
    fp_walk_start(&b.walk, &b.vm.memory.reader, &b.vm.layout, 200);
    halves[2] = fake_monitor(&b.heap, 27, &(struct fake_monitor){.ref = ref, .item = pid_of(1)});
    fake_put_word(&b.vm.memory, halves[0] + 8, halves[1]);
    fake_put_word(&b.vm.memory, halves[1] + 8, halves[2]);
    b.root = halves[0];
    CHECK_INT(find(&ref, &monitor), 0);
    CHECK(monitor.target.word == pid_of(1));
    CHECK_INT(find(&none, &monitor), FP_ENOENT);
}

static void count(void *arg, const struct fp_monitor *monitor)
{
    uint32_t *seen = arg;

    seen[monitor->target.word >> 8]++;
}

TEST_BETWEEN(each_monitor_is_met_once, create(29, 200, 9), destroy())
{
    static uint32_t seen[MOST];

    memset(seen, 0, sizeof seen);
    fp_walk_again(&b.walk, 2000);
    CHECK_INT(fp_monitors_each(&b.walk, b.root, MOST, count, seen), 200);
    for (uint32_t i = 0; i < 200; i++)
        CHECK_INT(seen[i], 1);
    fp_walk_again(&b.walk, 2000);
    CHECK_INT(fp_monitors_each(&b.walk, b.root, 199, count, seen), FP_EFULL);
}

static void meet(void *arg, const struct fp_monitor *monitor)
{
    (void)monitor;
    ++*(uint32_t *)arg;
}

TEST(what_is_no_tree_ends)
{
    uint64_t random = 3;

    for (int round = 0; round < 3000; round++) {
        struct fp_monitor monitor;
        uint32_t victim, met;
        int err;

        create(round & 1 ? 25 : 29, 20, (uint64_t)round);
        for (int k = 0; k < 3; k++) {
            uint64_t word = run_random(&random);

            victim = (uint32_t)(run_random(&random) % b.n);
            switch (run_random(&random) % 4) {
            case 0: /* a ring */
                word = b.half[run_random(&random) % b.n];
                break;
            case 1: /* nowhere */
                word = FAKE_BASE - (word & 0xffff);
                break;
            case 2:
                word = b.half[victim] + (word & 0xff);
                break;
            }
            fake_put_word(&b.vm.memory, b.half[victim] + 8 * (run_random(&random) % 12), word);
        }
        for (uint32_t i = 0; i < b.n; i++) {
            err = find(&b.ref[i], &monitor);
            CHECK(err == 0 || err == FP_ENOENT || err == FP_ETORN);
            CHECK(err != 0 || fp_ref_is_equal(&monitor.ref, &b.ref[i]));
        }
        fp_walk_again(&b.walk, 2000);
        met = 0;
        err = fp_monitors_each(&b.walk, b.root, 500, meet, &met);
        CHECK(err == FP_ETORN || err == FP_EFULL || err == (int)met);
        CHECK(met <= 500);
        destroy();
    }
}
