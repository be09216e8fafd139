/* test_process_table.c - pids to slots and numbers, against the VM's own way forward from its
 * counter (erl_ptab.c), and pids to structures. */
#include "base/error.h"
#include "erts/process_table.h"
#include "fake_vm.h"
#include "test.h"

static struct fp_layout layout_of(unsigned otp, uint32_t limit)
{
    return (struct fp_layout){.release = *fp_release_find(otp), .process_limit = limit};
}

static void expect(const struct fp_layout *layout, uint64_t pid, uint32_t slot, uint32_t number,
                   uint32_t serial)
{
    uint32_t got_number, got_serial;

    CHECK_INT(fp_pid_slot(layout, pid), slot);
    fp_pid_numbers(layout, pid, &got_number, &got_serial);
    CHECK_INT(got_number, number);
    CHECK_INT(got_serial, serial);
}

/* A listening port of a RabbitMQ on 25; the same counter in a table of 65,536 ports of 29, which is
 * of 8,192 lines: 29 is in line 29, its first place. */
TEST(ports_are_told_by_the_number_that_is_printed)
{
    struct fp_layout layout = layout_of(25, 262144);
    uint64_t number = 0;

    CHECK_INT(fp_port_number(&layout, UINT64_C(62277025821) << 4 | 7, &number), 0);
    CHECK_INT(number, 29);
    layout = layout_of(29, 262144);
    CHECK_INT(fp_port_number(&layout, UINT64_C(232) << 4 | 7, &number), FP_ENOENT);
    layout.port_limit = 65536;
    CHECK_INT(fp_port_number(&layout, UINT64_C(232) << 4 | 7, &number), 0);
    CHECK_INT(number, 29);
    CHECK_INT(fp_port_number(&layout, UINT64_C(0x10019) << 4 | 7, &number), 0);
    CHECK_INT(number, 0x10000 + 8192 + 3);
}

/* <0.0.0> is init; 262,144 slots are 32,768 lines of 8. */
TEST(pids_of_default_nodes)
{
    struct fp_layout high = layout_of(25, 262144);
    struct fp_layout low = layout_of(27, 1048576), small = layout_of(27, 262144);

    expect(&high, 0x3, 0, 0, 0);
    expect(&high, (UINT64_C(8) << 32) | 0x13, 8, 1, 0);       /* <0.1.0> */
    expect(&high, (UINT64_C(336) << 32) | 0x2a3, 336, 42, 0); /* <0.42.0> */
    /* Number 32,768 does not fit into 15 bits: <0.0.1>, the next in line 0. */
    expect(&high, (UINT64_C(1) << 32) | 0x80003, 1, 0, 1);
    expect(&low, 0x3, 0, 0, 0);
    expect(&low, 0x83, 8, 1, 0);      /* <0.1.0> */
    expect(&low, 0x1503, 336, 42, 0); /* <0.42.0> */
    expect(&low, 0x13, 1, 131072, 0); /* 1,048,576 slots: 131,072 lines */
    expect(&small, 0x13, 1, 32768, 0);
    /* Once round the table. */
    expect(&small, (UINT64_C(262144) << 4) | 0x3, 0, 262144, 0);
}

TEST(every_pid_of_a_table_agrees_with_its_making)
{
    static const unsigned releases[] = {25, 26, 27, 28, 29};
    static const uint32_t limits[] = {1024, 4096, 32768, 262144, 1u << 20, 1u << 27};
    uint64_t random = 1;

    for (size_t r = 0; r < 5; r++)
        for (size_t l = 0; l < sizeof limits / sizeof *limits; l++) {
            struct fp_layout layout = layout_of(releases[r], limits[l]);
            unsigned bits = layout.release.pid_number_bits;

            for (uint64_t i = 0; i < 20000; i++) {
                /* All of the first, then any. A pid of 25 has 28 bits. */
                uint64_t data = i < 10000 ? i : run_random(&random);

                data &= layout.release.pid_form == FP_PID_SLOT_HIGH ? (1u << 28) - 1
                                                                    : (UINT64_C(1) << 59) - 1;
                expect(&layout, fake_pid(&layout, data), fake_slot(&layout, data),
                       (uint32_t)(data & ((UINT64_C(1) << bits) - 1)), (uint32_t)(data >> bits));
            }
        }
}

TEST(no_two_of_a_table_share_a_slot)
{
    struct fp_layout layout = layout_of(29, 4096);
    unsigned char taken[4096] = {0};

    for (uint64_t data = 1u << 20; data < (1u << 20) + 4096; data++) {
        uint32_t slot = fp_pid_slot(&layout, fake_pid(&layout, data));

        CHECK(slot < 4096);
        CHECK(!taken[slot]);
        taken[slot] = 1;
    }
}

TEST(a_living_process_is_found_and_a_gone_one_is_not)
{
    static const unsigned releases[] = {25, 27};

    for (size_t r = 0; r < 2; r++) {
        struct fake_vm vm;
        uint64_t pid[8], address;

        fake_vm_create(&vm, releases[r], 64, 8);
        for (uint32_t n = 0; n < 8; n++)
            pid[n] = fake_spawn(&vm, n, 0);
        for (uint32_t n = 0; n < 8; n++) {
            CHECK_INT(fp_process_table_lookup(&vm.layout, &vm.memory.reader, pid[n], &address), 0);
            CHECK(address == fake_process_at(n));
        }
        fake_exit(&vm, 3); /* its slot is empty */
        CHECK_INT(fp_process_table_lookup(&vm.layout, &vm.memory.reader, pid[3], &address),
                  FP_EGONE);
        fake_set(&vm, 4, FP_FIELD_id, fake_pid(&vm.layout, 64 + 4)); /* new */
        CHECK_INT(fp_process_table_lookup(&vm.layout, &vm.memory.reader, pid[4], &address),
                  FP_EGONE);
        /* Its structure was given back. */
        fake_put_word(&vm.memory, FAKE_TABLE + 8u * fake_slot(&vm.layout, 5), 0x7000);
        CHECK_INT(fp_process_table_lookup(&vm.layout, &vm.memory.reader, pid[5], &address),
                  FP_EGONE);
        /* A pid of elsewhere, or no pid at all. */
        CHECK_INT(
            fp_process_table_lookup(&vm.layout, &vm.memory.reader, UINT64_MAX << 32 | 3, &address),
            FP_EGONE);
        CHECK_INT(fp_process_table_lookup(&vm.layout, &vm.memory.reader, 0, &address) != 0, 1);
        fake_unmap(&vm.memory, FAKE_TABLE);
        CHECK_INT(fp_process_table_lookup(&vm.layout, &vm.memory.reader, pid[0], &address),
                  FP_EFAULT);
        fake_vm_destroy(&vm);
    }
}

TEST(words_that_are_marked_are_nobody)
{
    struct fake_vm vm;
    uint64_t address[64];
    uint32_t slot[64], used;

    fake_vm_create(&vm, 27, 64, 2);
    fake_put_word(&vm.memory, FAKE_TABLE + 8 * 10, 0x1000);
    for (uint64_t tag = 1; tag < 8; tag++)
        fake_put_word(&vm.memory, FAKE_TABLE + 8 * (10 + tag), 0x1000 | tag);
    CHECK_INT(fp_process_table_read(&vm.layout, &vm.memory.reader, 9, 10, address, slot, &used), 0);
    CHECK_INT(used, 1);
    CHECK_INT(address[0], 0x1000);
    CHECK_INT(slot[0], 10);
    CHECK_INT(fp_process_table_read(&vm.layout, &vm.memory.reader, 1, 64, address, slot, &used),
              FP_EFAULT);
    CHECK_INT(used, 0);
    fake_vm_destroy(&vm);
}

/* Empty lines are passed over eight slots at a time, wherever the reading begins and ends. */
TEST(every_slot_in_use_is_found)
{
    for (uint32_t at = 0; at < 64; at++) {
        for (uint32_t from = 0; from <= at; from += 3) {
            struct fake_vm vm;
            uint64_t address[64];
            uint32_t used;

            fake_vm_create(&vm, 27, 64, 2);
            fake_put_word(&vm.memory, FAKE_TABLE + 8 * at, 0x1000);
            CHECK_INT(fp_process_table_read(&vm.layout, &vm.memory.reader, from, at + 1 - from,
                                            address, NULL, &used),
                      0);
            CHECK_INT(used, 1);
            CHECK_INT(fp_process_table_read(&vm.layout, &vm.memory.reader, from, 64 - from, address,
                                            NULL, &used),
                      0);
            CHECK_INT(used, 1);
            CHECK_INT(address[0], 0x1000);
            fake_vm_destroy(&vm);
        }
    }
}
