#include "fake_vm.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ATOM_TAG 0x0bu
#define PID_TAG 0x03u
#define NIL UINT64_C(0x3b)

void fake_vm_create(struct fake_vm *vm, unsigned otp, uint32_t limit, uint32_t processes)
{
    memset(vm, 0, sizeof *vm);
    fake_memory_create(&vm->memory);
    vm->layout.release = *fp_release_find(otp);
    vm->layout.snapshot_size = vm->layout.release.process_size;
    vm->layout.process_table = FAKE_TABLE;
    vm->layout.process_limit = limit;
    vm->layout.terms = vm->layout.remote_terms = 1;
    vm->processes = processes;
    fake_map(&vm->memory, FAKE_TABLE, 8u * (size_t)limit);
    if (processes > 0) {
        fake_map(&vm->memory, FAKE_PROCESSES, (size_t)FAKE_PROCESS_STRIDE * processes);
        fake_map(&vm->memory, FAKE_HEAPS, 8u * (size_t)FAKE_HEAP_WORDS * processes);
    }
    vm->code.count = 1;
    vm->code.range[0] = (struct fp_range){FAKE_JIT, FAKE_JIT + FAKE_JIT_SIZE};
    fp_live_ranges_update(&vm->live_code, &vm->code);
}

void fake_vm_add_jit(struct fake_vm *vm)
{
    unsigned char *jit = fake_map(&vm->memory, FAKE_JIT, FAKE_JIT_SIZE);

    memset(jit, 0xcc, FAKE_JIT_SIZE);
    fake_map(&vm->memory, FAKE_LINES, 4u << 20);
    vm->jit_at = FAKE_JIT + 4096; /* before it: fragments that all share */
    vm->lines_at = FAKE_LINES;
}

/* FAKE_ATOMS: the segment table, two segments, the entries, the texts. */
#define SEGMENTS FAKE_ATOMS
#define SEGMENT(n) (FAKE_ATOMS + 4096 + 8192u * (n))
#define ENTRY(n) (FAKE_ATOMS + 32768 + 64u * (uint64_t)(n))
#define TEXTS (FAKE_ATOMS + 32768 + 64u * FAKE_ATOMS_MAX)
#define TEXTS_SIZE (512u << 10)
/* Two words of the VM's data: limit and entries, then the segment table. */
#define ATOM_TABLE (FAKE_DATA + 4096)

void fake_vm_add_atoms(struct fake_vm *vm)
{
    static const char *const first[] = {"false", "true", "nil"};
    uint32_t limit = 1048576;

    fake_map(&vm->memory, FAKE_ATOMS, (size_t)(TEXTS - FAKE_ATOMS) + TEXTS_SIZE);
    fake_map(&vm->memory, FAKE_DATA, 1u << 17);
    for (uint32_t n = 0; n < FAKE_ATOMS_MAX / 1024; n++)
        fake_put_word(&vm->memory, SEGMENTS + 8 * n, SEGMENT(n));
    fake_put(&vm->memory, ATOM_TABLE, &limit, 4);
    fake_put_word(&vm->memory, ATOM_TABLE + 8, SEGMENTS);
    vm->layout.atom_segments = SEGMENTS;
    vm->layout.atom_entries = ATOM_TABLE + 4;
    vm->text_at = TEXTS;
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        fake_atom_term(vm, first[i], strlen(first[i]));
}

void fake_vm_destroy(struct fake_vm *vm)
{
    fake_memory_destroy(&vm->memory);
}

/* ------------------------------------------------------------ processes -- */

/* erl_ptab.c: consecutive counter values go to different cache lines. */
uint32_t fake_slot(const struct fp_layout *layout, uint64_t data)
{
    uint32_t lines = layout->process_limit / 8;

    return (uint32_t)(data % lines * 8 + data / lines % 8);
}

uint64_t fake_pid(const struct fp_layout *layout, uint64_t data)
{
    uint64_t slot = fake_slot(layout, data), limit = layout->process_limit;

    if (layout->release.pid_form == FP_PID_SLOT_HIGH)
        return slot << 32 | (data & 0xfffffff) << 4 | PID_TAG;
    return (data / limit * limit + slot) << 4 | PID_TAG;
}

uint64_t fake_process_at(uint32_t n)
{
    return FAKE_PROCESSES + (uint64_t)FAKE_PROCESS_STRIDE * n;
}

uint64_t fake_heap_at(uint32_t n)
{
    return FAKE_HEAPS + 8u * (uint64_t)FAKE_HEAP_WORDS * n;
}

void fake_set_torn(struct fake_vm *vm, uint32_t n, enum fp_field field, uint64_t value)
{
    fake_put(&vm->memory, fake_process_at(n) + vm->layout.release.offset[field], &value,
             fp_field_width(field));
}

void fake_set(struct fake_vm *vm, uint32_t n, enum fp_field field, uint64_t value)
{
    fake_set_torn(vm, n, field, value);
    if (field == FP_FIELD_heap || field == FP_FIELD_hend)
        fake_set_heap_size(vm, n,
                           (fake_get(vm, n, FP_FIELD_hend) - fake_get(vm, n, FP_FIELD_heap)) / 8);
}

void fake_set_heap_size(struct fake_vm *vm, uint32_t n, uint64_t words)
{
    fake_put_word(
        &vm->memory,
        fake_process_at(n) + vm->layout.release.offset[FP_FIELD_hend] + FP_SIZE_BEHIND_HEND, words);
}

void fake_set_abandoned(struct fake_vm *vm, uint32_t n, uint64_t heap)
{
    fake_put_word(&vm->memory,
                  fake_process_at(n) + vm->layout.release.offset[FP_FIELD_hend] +
                      FP_ABANDONED_BEHIND_HEND,
                  heap);
}

uint64_t fake_get(struct fake_vm *vm, uint32_t n, enum fp_field field)
{
    const unsigned char *at =
        fake_at(&vm->memory, fake_process_at(n) + vm->layout.release.offset[field], 8);
    uint64_t value = 0;

    memcpy(&value, at, fp_field_width(field));
    return value;
}

uint64_t fake_spawn(struct fake_vm *vm, uint32_t n, uint64_t i)
{
    uint64_t pid = fake_pid(&vm->layout, n), heap = fake_heap_at(n);
    uint64_t hend = heap + 8 * FAKE_HEAP_WORDS;

    assert(n < vm->processes);
    memset(fake_at(&vm->memory, fake_process_at(n), FAKE_PROCESS_STRIDE), 0, FAKE_PROCESS_STRIDE);
    fake_set(vm, n, FP_FIELD_id, pid);
    fake_set(vm, n, FP_FIELD_heap, heap);
    fake_set(vm, n, FP_FIELD_htop, heap + 8 * 10);
    fake_set(vm, n, FP_FIELD_high_water, heap + 8 * 5);
    fake_set(vm, n, FP_FIELD_hend, hend);
    fake_set(vm, n, FP_FIELD_stop, hend);
    fake_set(vm, n, FP_FIELD_i, i);
    fake_set(vm, n, FP_FIELD_state, 0x2a);
    fake_put_word(&vm->memory, FAKE_TABLE + 8u * fake_slot(&vm->layout, n), fake_process_at(n));
    return pid;
}

void fake_exit(struct fake_vm *vm, uint32_t n)
{
    fake_put_word(&vm->memory, FAKE_TABLE + 8u * fake_slot(&vm->layout, n), 0);
    fake_set(vm, n, FP_FIELD_state, FP_PSFLG_FREE | FP_PSFLG_EXITING);
}

void fake_fill(struct fake_vm *vm, uint32_t n)
{
    uint64_t heap = fake_heap_at(n), old = n == 0 ? 0 : FAKE_MISC * 2 + 65536u * n;

    fake_set(vm, n, FP_FIELD_heap, heap);
    fake_set(vm, n, FP_FIELD_htop, heap + 8 * (50 + 3 * n));
    fake_set(vm, n, FP_FIELD_high_water, heap + 8 * (20 + 2 * n));
    fake_set(vm, n, FP_FIELD_hend, heap + 8 * (200 + 13 * n));
    fake_set(vm, n, FP_FIELD_stop, heap + 8 * (200 + 13 * n - 5 - n));
    fake_set(vm, n, FP_FIELD_old_heap, old);
    fake_set(vm, n, FP_FIELD_old_htop, n == 0 ? 0 : old + 8 * (40 + n));
    fake_set(vm, n, FP_FIELD_old_hend, n == 0 ? 0 : old + 8 * (300 + 17 * n));
    fake_set(vm, n, FP_FIELD_parent, fake_pid(&vm->layout, 100 + n));
    fake_set(vm, n, FP_FIELD_reds, 5000 + 77 * n);
    fake_set(vm, n, FP_FIELD_inner_len, 3 * n);
    fake_set(vm, n, FP_FIELD_outer_len, 7 + n);
    fake_set(vm, n, FP_FIELD_gen_gcs, 11 + n);
    fake_set(vm, n, FP_FIELD_bin_vheap, 1000 + n);
    fake_set(vm, n, FP_FIELD_bin_vheap_block, 2000 + n);
    fake_set(vm, n, FP_FIELD_bin_old_vheap, 3000 + n);
    fake_set(vm, n, FP_FIELD_bin_old_vheap_block, 4000 + n);
    fake_set(vm, n, FP_FIELD_mbuf_size, 600 + n);
    fake_set(vm, n, FP_FIELD_state, 0x2a + (1 << (10 + n)));
}

static int64_t distance(struct fake_vm *vm, uint32_t n, enum fp_field low, enum fp_field high)
{
    return (int64_t)(fake_get(vm, n, high) - fake_get(vm, n, low)) / 8;
}

int64_t fake_fact(struct fake_vm *vm, uint32_t n, enum fp_fact which)
{
    static const enum fp_field field[FP_FACT_COUNT] = {
        [FP_FACT_mbuf_size] = FP_FIELD_mbuf_size,
        [FP_FACT_bin_vheap_size] = FP_FIELD_bin_vheap,
        [FP_FACT_bin_vheap_block_size] = FP_FIELD_bin_vheap_block,
        [FP_FACT_bin_old_vheap_size] = FP_FIELD_bin_old_vheap,
        [FP_FACT_bin_old_vheap_block_size] = FP_FIELD_bin_old_vheap_block,
        [FP_FACT_minor_gcs] = FP_FIELD_gen_gcs,
        [FP_FACT_reductions] = FP_FIELD_reds,
        [FP_FACT_inner_len] = FP_FIELD_inner_len,
        [FP_FACT_outer_len] = FP_FIELD_outer_len,
        [FP_FACT_state] = FP_FIELD_state,
    };

    switch (which) {
    case FP_FACT_heap_size:
        return distance(vm, n, FP_FIELD_heap, FP_FIELD_htop);
    case FP_FACT_heap_block_size:
        return distance(vm, n, FP_FIELD_heap, FP_FIELD_hend);
    case FP_FACT_stack_size:
        return distance(vm, n, FP_FIELD_stop, FP_FIELD_hend);
    case FP_FACT_recent_size:
        return distance(vm, n, FP_FIELD_heap, FP_FIELD_high_water);
    case FP_FACT_old_heap_size:
        return distance(vm, n, FP_FIELD_old_heap, FP_FIELD_old_htop);
    case FP_FACT_old_heap_block_size:
        return distance(vm, n, FP_FIELD_old_heap, FP_FIELD_old_hend);
    case FP_FACT_dictionary_len:
        return (int64_t)fake_word(&vm->memory, fake_get(vm, n, FP_FIELD_dictionary) + 16);
    default:
        return (int64_t)fake_get(vm, n, field[which]);
    }
}

void fake_set_stack(struct fake_vm *vm, uint32_t n, const uint64_t *word, size_t words)
{
    uint64_t hend = fake_heap_at(n) + 8 * FAKE_HEAP_WORDS;

    assert(words < FAKE_HEAP_WORDS - 16);
    fake_put(&vm->memory, hend - 8 * words, word, 8 * words);
    fake_set(vm, n, FP_FIELD_stop, hend - 8 * words);
}

/* ---------------------------------------------------------------- atoms -- */

uint64_t fake_atom_term(struct fake_vm *vm, const char *text, size_t len)
{
    uint32_t index = vm->atoms++;
    uint64_t name = vm->text_at;
    struct {
        uint64_t bucket[2];
        int32_t index, padding;
        int16_t len, latin1_chars;
        int32_t ord0;
        uint64_t name;
    } entry = {{0, 0}, (int32_t)index, 0, (int16_t)len, 0, 0, 0};

    assert(index < FAKE_ATOMS_MAX && name + len + 64 < TEXTS + TEXTS_SIZE);
    if (vm->layout.release.atom_form == FP_ATOM_NAME_BINARY) {
        if (len <= 64) { /* ErlHeapBits: thing word, size in bits, bytes */
            fake_put_word(&vm->memory, name, (2 + len / 8) << 6 | 0x20);
            fake_put_word(&vm->memory, name + 8, 8 * len);
            fake_put(&vm->memory, name + 16, text, len);
        } else { /* ErlSubBits: thing word, base and flags, start, end, ... */
            fake_put_word(&vm->memory, name, 5u << 6 | 0x24);
            fake_put_word(&vm->memory, name + 8, (name + 40) | 1);
            fake_put_word(&vm->memory, name + 16, 8 * 3);
            fake_put_word(&vm->memory, name + 24, 8 * (3 + len));
            fake_put(&vm->memory, name + 40 + 3, text, len);
        }
        entry.name = name | 2; /* boxed */
    } else {
        fake_put(&vm->memory, name, text, len);
        entry.name = name;
    }
    vm->text_at += (len + 64 + 7) & ~UINT64_C(7);
    fake_put(&vm->memory, ENTRY(index), &entry, sizeof entry);
    fake_put_word(&vm->memory, SEGMENT(index / 1024) + 8 * (index % 1024), ENTRY(index));
    fake_put(&vm->memory, ATOM_TABLE + 4, &vm->atoms, 4);
    return (uint64_t)index << 6 | ATOM_TAG;
}

uint64_t fake_text_atom(struct fake_vm *vm, const char *text)
{
    return fake_atom_term(vm, text, strlen(text));
}

void fake_vm_add_envelopes(struct fake_vm *vm)
{
#define ADD(name, text) vm->layout.envelope.name = fake_text_atom(vm, text);
    FP_ENVELOPE_MAP(ADD)
}

/* ------------------------------------------------------------------ code -- */

uint64_t fake_string(struct fake_vm *vm, const uint32_t *character, size_t n)
{
    uint64_t term = n > 0 ? vm->lines_at | 1 : NIL;

    for (size_t i = 0; i < n; i++) {
        fake_put_word(&vm->memory, vm->lines_at, (uint64_t)character[i] << 4 | 0x0f);
        fake_put_word(&vm->memory, vm->lines_at + 8, i + 1 < n ? (vm->lines_at + 16) | 1 : NIL);
        vm->lines_at += 16;
    }
    return term;
}

uint32_t fake_line(const struct fake_module *module, uint32_t f, uint64_t pc,
                   const struct fake_module_options *options)
{
    return 100 * f + 1 + (uint32_t)((pc - module->code[f]) / options->line_step);
}

static void put_lines(struct fake_vm *vm, struct fake_module *module, const struct fake_body *body,
                      const struct fake_module_options *options)
{
    uint64_t table = vm->lines_at, count = module->count;
    uint64_t fname = table + 24 + 8 * (count + 1);
    uint64_t line = fname + 16, first = line, loc_tab;
    uint32_t n = 0;

    for (uint32_t f = 0; f < count; f++)
        n += (body[f].size + options->line_step - 1) / options->line_step;
    loc_tab = line + 8 * ((uint64_t)n + 1);
    fake_put_word(&vm->memory, table, fname);
    fake_put(&vm->memory, table + 8, &options->loc_size, 4);
    fake_put_word(&vm->memory, table + 16, loc_tab);
    fake_put_word(&vm->memory, fname, options->own_file);
    fake_put_word(&vm->memory, fname + 8, options->file);
    for (uint32_t f = 0; f < count; f++) {
        fake_put_word(&vm->memory, table + 24 + 8 * f, line);
        for (uint32_t at = 0; at < body[f].size; at += options->line_step) {
            uint64_t pc = module->code[f] + at;
            uint32_t loc = fake_line(module, f, pc, options);

            if (options->file != 0 && loc % 2 == 1)
                loc |= 1u << 24;
            fake_put(&vm->memory, loc_tab + (line - first) / 8 * options->loc_size, &loc,
                     options->loc_size);
            fake_put_word(&vm->memory, line, pc);
            line += 8;
        }
    }
    fake_put_word(&vm->memory, table + 24 + 8 * count, line);
    fake_put_word(&vm->memory, line, module->end);
    vm->lines_at = (loc_tab + 8 * ((uint64_t)n + 1) + 7) & ~UINT64_C(7);
}

void fake_load(struct fake_vm *vm, struct fake_module *module, uint64_t name,
               const struct fake_body *body, uint32_t count,
               const struct fake_module_options *options)
{
    const struct fp_release *release = &vm->layout.release;
    uint64_t at = options->at != 0 ? options->at : vm->jit_at;

    assert(count < FAKE_FUNCTIONS_MAX);
    module->name = name;
    module->count = count;
    module->header = at;
    module->functions = at + 8u * release->functions_to_num_functions;
    for (uint64_t word = at; word < module->functions; word += 8)
        fake_put_word(&vm->memory, word, FAKE_LINES + word * 16);
    fake_put_word(&vm->memory, at, count);
    at = (module->functions + 8 * (count + 1ull) + 63) & ~UINT64_C(63);
    for (uint32_t f = 0; f < count; f++) {
        unsigned char *code;

        module->info[f] = at;
        module->code[f] = at + 40;
        fake_put_word(&vm->memory, module->functions + 8 * f, at);
        fake_put_word(&vm->memory, at, UINT64_C(0x90909000123456e8));
        fake_put_word(&vm->memory, at + 8, FAKE_JIT + 64);
        fake_put_word(&vm->memory, at + 16, name);
        fake_put_word(&vm->memory, at + 24, body[f].function);
        fake_put_word(&vm->memory, at + 32, body[f].arity);
        code = fake_at(&vm->memory, at + 40, body[f].size);
        memset(code, 0x90, body[f].size);
        memcpy(code, "\xeb\x06\x90\xe8\x00\x00\x00\x00", 8);
        at += 40 + body[f].size;
    }
    module->end = at;
    fake_put_word(&vm->memory, module->functions + 8 * (uint64_t)count, at);
    fake_put_word(&vm->memory, module->functions - 8u * release->functions_to_line_table,
                  options->loc_size != 0 ? vm->lines_at : 0);
    if (options->loc_size != 0)
        put_lines(vm, module, body, options);
    if (options->at == 0)
        vm->jit_at = (at + 255) & ~UINT64_C(255);
}
