/* seeds.c - write the inputs that fuzzing begins with, one folder a target: what the fake VM's own
 * builders make, in the form that fuzz.h describes.
 *
 *      seeds FOLDER */
#include <sys/stat.h>
#include <zstd.h>

#include "../c/fake_terms.h"
#include "base/metric.h"
#include "base/registers.h"
#include "fuzz.h"

#define ATOM(n) ((uint64_t)(n) << 6 | 0x0b)
#define PAGE 4096u
#define PROCESSES 5u

/* ---- files ------------------------------------------------------------ */

static const char *folder;
static FILE *file;

static void begin(const char *target, const char *name, unsigned variant)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", folder, target);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s_%u", folder, target, name, variant);
    file = fopen(path, "wb");
    FUZZ_CHECK(file != NULL);
}

static void end(void)
{
    FUZZ_CHECK(fclose(file) == 0);
}

static void put(const void *bytes, size_t size)
{
    FUZZ_CHECK(fwrite(bytes, 1, size, file) == size);
}

static void u8(unsigned value)
{
    put(&value, 1);
}

static void u16(unsigned value)
{
    put(&value, 2);
}

static void u32(uint64_t value)
{
    put(&value, 4);
}

static void u64(uint64_t value)
{
    put(&value, 8);
}

static void address(uint64_t at)
{
    u32(fuzz_relocatable(at));
}

/* The JIT's region, whole pages of it. */
static void ranges(unsigned first, unsigned pages)
{
    u8(1);
    u8(first);
    u8(pages - 1);
}

/* ---- memory ----------------------------------------------------------- */

static int is_default(uint64_t word)
{
    return word == 0 || word == UINT64_C(0xcccccccccccccccc);
}

static int is_raw(uint64_t word)
{
    return fuzz_relocated(fuzz_relocatable(word)) != word;
}

/* How many words from `at` on make a piece: of one kind, no two in a row that are there anyway. */
static unsigned piece_at(const uint64_t *word, size_t left, int raw)
{
    unsigned n = 0;

    while (n < left && n < 255 &&
           !(is_default(word[n]) && (n + 1 == left || is_default(word[n + 1]))) &&
           is_raw(word[n]) == raw)
        n++;
    return n;
}

static void put_piece(unsigned flags, unsigned region, size_t at, const uint64_t *word, unsigned n)
{
    u8(flags | region);
    u16((unsigned)at);
    u8(n);
    for (unsigned i = 0; i < n; i++)
        u64((flags & FUZZ_RAW) != 0 ? word[i] : fuzz_relocatable(word[i]));
}

static void put_region(const struct fake_region *part)
{
    const uint64_t *word = (const void *)part->bytes;
    uint64_t region = (part->address - FAKE_BASE) >> 32;
    size_t offset = (uint32_t)part->address / 8, words = part->size / 8;

    if (region >= FUZZ_REGIONS)
        return;
    for (size_t at = 0; at < words && offset + at < FUZZ_REGION_BYTES / 8;) {
        unsigned n = 1, raw = (unsigned)is_raw(word[at]);

        if (!is_default(word[at])) {
            n = piece_at(word + at, words - at, (int)raw);
            n += n == 0;
            put_piece(raw ? FUZZ_RAW : 0, (unsigned)region, offset + at, word + at, n);
        }
        at += n;
    }
}

static void put_memory(const struct fake_memory *memory)
{
    for (size_t i = 0; i < memory->regions; i++)
        put_region(&memory->region[i]);
}

/* ---- a VM ------------------------------------------------------------- */

static const unsigned releases[] = {25, 26, 27, 28, 29};

struct world {
    struct fake_vm vm;
    unsigned release; /* the place in releases[] */
    struct fake_module module;
    uint64_t atom[6];
};

static const struct fake_module_options lines = {4, 32, 0, 0, 0};

static void load(struct world *w)
{
    static const uint32_t name[] = {'a', 0xe4, 0x20ac, 0x1f600, '.', 'e'};
    struct fake_module_options options = lines;
    struct fake_body body[PROCESSES];

    options.own_file = options.file = fake_string(&w->vm, name, 6);
    for (uint32_t n = 0; n < PROCESSES; n++)
        body[n] = (struct fake_body){w->atom[1 + n % 2], n, 64};
    fake_load(&w->vm, &w->module, w->atom[0], body, PROCESSES, &options);
}

/* {'$initial_call', {M, F, A}} in a list in a slot of a dictionary. */
static void add_dictionary(struct world *w, uint32_t n, uint64_t at)
{
    uint64_t key = w->atom[3], slot = at + 24 + 8 * (key >> 6 & 7);
    const uint32_t head[] = {7, 8, 8, 8};
    const uint64_t words[] = {(at + 0x80) | 2, ~UINT64_C(0) << 6 | 0x3b,
                              2 << 6,          key,
                              (at + 0xa0) | 2, 0,
                              3 << 6,          w->atom[0],
                              w->atom[1],      n << 4 | 0xf};

    fake_put(&w->vm.memory, at, head, sizeof head);
    fake_put_word(&w->vm.memory, at + 16, 3 + n);
    fake_put_word(&w->vm.memory, slot, (at + 0x70) | 1);
    fake_put(&w->vm.memory, at + 0x70, words, sizeof words);
    fake_set(&w->vm, n, FP_FIELD_dictionary, at);
}

static void add_process(struct world *w, uint32_t n)
{
    const struct fp_release *release = &w->vm.layout.release;
    uint64_t at = FAKE_MISC + 0x200u * n;
    const uint64_t call[] = {w->atom[0], w->atom[1], n};

    fake_spawn(&w->vm, n, w->module.code[n] + 4);
    fake_fill(&w->vm, n);
    for (uint64_t k = 0; k < 3; k++)
        fake_put_word(&w->vm.memory, fake_get(&w->vm, n, FP_FIELD_stop) + 8 * k,
                      k == 1 ? 0x1b : w->module.code[(n + k) % 5] + 8);
    fake_put(&w->vm.memory, fake_process_at(n) + release->offset[FP_FIELD_initial_call], call,
             sizeof call);
    add_dictionary(w, n, at + 0x80);
    if (n % 2 == 1) {
        fake_put_word(&w->vm.memory, at + 32, w->atom[4]);
        fake_set(&w->vm, n, FP_FIELD_registered, at);
    }
}

static void create(struct world *w, unsigned release, uint32_t limit)
{
    static const char *const names[] = {"alpha", "go", "x", "$initial_call", "registered"};
    char longest[100];

    memset(w, 0, sizeof *w);
    memset(longest, 'a', sizeof longest);
    w->release = release;
    fake_vm_create(&w->vm, releases[release], limit, PROCESSES);
    fake_vm_add_atoms(&w->vm);
    fake_vm_add_jit(&w->vm);
    fake_map(&w->vm.memory, FAKE_MISC, 65536);
    for (size_t i = 0; i < 5; i++)
        w->atom[i] = fake_atom_term(&w->vm, names[i], strlen(names[i]));
    w->atom[5] = fake_atom_term(&w->vm, longest, sizeof longest);
    load(w);
    for (uint32_t n = 0; n < PROCESSES; n++)
        add_process(w, n);
}

static void forget(struct fake_vm *vm, uint64_t region)
{
    if (fake_at(&vm->memory, region, 8) != NULL)
        fake_unmap(&vm->memory, region);
}

/* What a seed leaves out of a world. */
#define TABLE_AND_PROCESSES FAKE_TABLE, FAKE_PROCESSES
#define PROCESSES_AND_TERMS TABLE_AND_PROCESSES, FAKE_HEAPS, FAKE_MISC
#define CODE_AND_ATOMS FAKE_JIT, FAKE_LINES, FAKE_ATOMS, FAKE_DATA
#define FORGET(vm, ...)                                                                            \
    do {                                                                                           \
        const uint64_t regions[] = {__VA_ARGS__};                                                  \
        for (size_t r = 0; r < sizeof regions / sizeof *regions; r++)                              \
            forget(vm, regions[r]);                                                                \
    } while (0)

static void begin_seed(struct world *w, const char *target, const char *name)
{
    begin(target, name, releases[w->release]);
    u8(w->release);
}

static void end_seed(struct world *w)
{
    put_memory(&w->vm.memory);
    end();
    fake_vm_destroy(&w->vm);
}

static void put_atom_table(const struct world *w)
{
    address(w->vm.layout.atom_segments);
    address(w->vm.layout.atom_entries);
}

/* ---- one target each -------------------------------------------------- */

static void atom(unsigned release)
{
    struct world w;

    create(&w, release, 64);
    FORGET(&w.vm, PROCESSES_AND_TERMS, FAKE_JIT, FAKE_LINES);
    begin_seed(&w, "atom", "otp");
    put_atom_table(&w);
    u32(ATOM(99));
    u32(0x0f);
    for (int i = 0; i < 6; i++)
        u32(w.atom[i]);
    u64(0);
    end_seed(&w);
}

/* Four messages: a call with an alias, an event of another node's gen_event, a tuple of all kinds
 * of terms, a reply. */
static void terms(unsigned release)
{
    struct fake_vm vm;
    struct fake_terms heap = {&vm.memory, FAKE_HEAPS};
    const struct fp_ref ref = {{1, 2, 3}};
    uint64_t first, pid, node, from, tag, word[4];

    fake_vm_create(&vm, releases[release], 64, 0);
    fake_vm_add_atoms(&vm);
    fake_map(&vm.memory, FAKE_HEAPS, PAGE);
    first = vm.atoms;
    fake_vm_add_envelopes(&vm);
    pid = fake_pid(&vm.layout, 33);
    node = fake_node(&heap, ATOM(1), 7);
    tag = fake_cons(&heap, vm.layout.envelope.alias, fake_pid_ref(&heap, &ref, pid));
    from = FAKE_TUPLE(&heap, pid, tag);
    word[0] = FAKE_TUPLE(&heap, vm.layout.envelope.gen_call, from, FAKE_TUPLE(&heap, ATOM(2), pid));
    pid = fake_remote_pid(&heap, node, 8, 1);
    from = FAKE_TUPLE(&heap, pid, fake_remote_ref(&heap, node, &ref, 5));
    word[1] = FAKE_TUPLE(&heap, vm.layout.envelope.sync_notify, ATOM(2));
    word[1] = FAKE_TUPLE(&heap, fake_remote_pid(&heap, node, 8, 1), from, word[1]);
    word[2] = FAKE_TUPLE(&heap, pid, FAKE_NIL, FAKE_PORT(1), fake_magic_ref(&heap), FAKE_SMALL(7),
                         fake_remote_port(&heap, node, 1), tag, from);
    word[3] = FAKE_TUPLE(&heap, fake_ref(&heap, &ref), ATOM(2));
    begin("term", "messages", releases[release]);
    u8(release);
    address(vm.layout.atom_entries);
#define SEED_INDEX(name, text) u8((unsigned)first++);
    FP_ENVELOPE_MAP(SEED_INDEX)
    u8(64);
    u16(16);
    put("\1\1\0\1\2\2\6\1\0\3\4\5\6\7\7\1", 16);
    u8(0);
    u32(0);
    for (int i = 0; i < 4; i++)
        u64(fuzz_relocatable(word[i]));
    forget(&vm, FAKE_ATOMS);
    put_memory(&vm.memory);
    end();
    fake_vm_destroy(&vm);
}

/* The first page of the range may be one that nobody has touched. */
static void code(unsigned release, int is_away)
{
    struct world w;

    create(&w, release, 64);
    FORGET(&w.vm, PROCESSES_AND_TERMS);
    begin_seed(&w, "code", is_away ? "away" : "otp");
    put_atom_table(&w);
    ranges(is_away ? 0 : 1, is_away ? 3 : 2);
    for (int i = 0; i < 3; i++) {
        address(w.module.code[i] + 20);
        u8(0);
    }
    address(w.module.code[1] - 24); /* where an MFA stands */
    u8(2);
    address(w.module.end + 8);
    u8(0);
    address(FAKE_JIT + PAGE + 48); /* in front of them all */
    u8(0);
    if (is_away) {
        u8(FUZZ_AWAY | 3);
        u16(0);
        u8(1);
    }
    end_seed(&w);
}

static void functions(unsigned release)
{
    struct world w;

    create(&w, release, 64);
    FORGET(&w.vm, PROCESSES_AND_TERMS, FAKE_LINES);
    begin_seed(&w, "functions", "otp");
    put_atom_table(&w);
    ranges(1, 2);
    u16(4);
    u32(0x80806000);
    end_seed(&w);
}

static void process(unsigned release)
{
    struct world w;

    create(&w, release, 64);
    FORGET(&w.vm, CODE_AND_ATOMS);
    for (uint32_t n = 0; n < 2; n++) {
        const uint64_t *word = (const void *)fake_at(&w.vm.memory, fake_process_at(n), 8);
        unsigned size = w.vm.layout.snapshot_size;

        begin("process", n == 0 ? "plain" : "named", releases[release]);
        u8(release);
        u32(w.atom[3]);
        u16(size);
        for (unsigned i = 0; i < size / 8; i++)
            u64(fuzz_relocatable(word[i]));
        if (n == 1) {
            FORGET(&w.vm, TABLE_AND_PROCESSES, FAKE_HEAPS);
            put_memory(&w.vm.memory);
        }
        end();
    }
    fake_vm_destroy(&w.vm);
}

static void table(unsigned release)
{
    struct world w;

    create(&w, release, 8);
    FORGET(&w.vm, CODE_AND_ATOMS, FAKE_HEAPS, FAKE_MISC);
    begin_seed(&w, "table", "otp");
    u8(0);
    u8(2);
    u32(FP_METRIC_reductions | 1 << 8 | 3 << 16);
    u32(FP_METRIC_memory | 0 << 8 | 2 << 16 | 1 << 24);
    for (uint32_t n = 0; n < 4; n++)
        u64(fake_pid(&w.vm.layout, n));
    end_seed(&w);
}

/* The first one's stack, later. */
static void put_change(struct world *w, uint32_t n, enum fp_field field, uint64_t word,
                       unsigned after)
{
    uint64_t at = fake_process_at(n) + w->vm.layout.release.offset[field];

    u8(FUZZ_LATER | (unsigned)((at - FAKE_BASE) >> 32));
    u16((uint32_t)at / 8);
    u8(1);
    u8(after);
    u64(fuzz_relocatable(word));
}

/* One runs, one collects, one is in a dirty NIF: its `i` is in no code, but behind three words that
 * name it. */
static void put_states(struct world *w)
{
    const uint64_t mfa[] = {w->atom[0], w->atom[2], 1};

    fake_set(&w->vm, 2, FP_FIELD_state, FP_PSFLG_RUNNING);
    fake_set(&w->vm, 3, FP_FIELD_state, FP_PSFLG_DIRTY_RUNNING);
    fake_put(&w->vm.memory, FAKE_MISC + 0x1000, mfa, sizeof mfa);
    fake_set(&w->vm, 3, FP_FIELD_i, FAKE_MISC + 0x1000 + sizeof mfa);
    fake_set(&w->vm, 4, FP_FIELD_state, FP_PSFLG_RUNNING | FP_PSFLG_GC);
}

static void sampler(unsigned release)
{
    struct world w;

    create(&w, release, 8);
    FORGET(&w.vm, CODE_AND_ATOMS);
    if (release % 2 == 0)
        put_states(&w);
    begin_seed(&w, "sampler", "otp");
    ranges(1, 2);
    u8(FP_METRIC_reductions);
    u8(1);
    u8(0);
    u32(w.atom[3]);
    put_memory(&w.vm.memory);
    put_change(&w, 1, FP_FIELD_reds, 9000, 20);
    put_change(&w, 2, FP_FIELD_stop, fake_heap_at(2) + 8 * 100, 3);
    end();
    fake_vm_destroy(&w.vm);
}

/* ---- the calibration -------------------------------------------------- */

static void put_probe(struct world *w, uint32_t n)
{
    uint64_t mfa = w->module.code[n] - 24;

    address(fake_process_at(n));
    u64(fake_pid(&w->vm.layout, n));
    u64(fake_pid(&w->vm.layout, 100 + n));
    u32(n % 2 == 1 ? w->atom[4] : 0);
    u32(w->atom[0]);
    u32(w->atom[1]);
    u32(n);
    for (int i = 0; i < 3; i++)
        u32(fake_word(&w->vm.memory, mfa + 8u * (unsigned)i));
    u32((1u << FP_FACT_COUNT) - 1);
    u32(n);
    u32(0);
    for (int which = 0; which < FP_FACT_COUNT; which++)
        u16((unsigned)fake_fact(&w->vm, n, (enum fp_fact)which));
}

static void layout(unsigned release)
{
    struct world w;
    uint32_t limit = 64;

    create(&w, release, limit);
    fake_put_word(&w.vm.memory, FAKE_DATA + 512, FAKE_TABLE);
    fake_put(&w.vm.memory, FAKE_DATA + 512 + 16, &limit, 4);
    forget(&w.vm, FAKE_HEAPS);
    begin("layout", "otp", releases[release]);
    u8(releases[release]);
    u8(0);
    u32(limit);
    u32(1048576); /* fake_vm.c */
    u16(w.vm.layout.release.process_size);
    u8(PROCESSES);
    for (uint32_t n = 0; n < PROCESSES; n++)
        put_probe(&w, n);
    u8(2);
    u32(w.atom[0]);
    u8(5);
    put("alpha", 5);
    u32(w.atom[4]);
    u8(10);
    put("registered", 10);
    ranges(1, 2);
    u8(2);
    end_seed(&w);
}

/* ---- a process that runs ---------------------------------------------- */

#define BASE (FUZZ_NATIVE + 0x1000)
#define SCHEDULER (FAKE_DATA + 0x1000)
#define SHARED_STOP (FAKE_JIT + 0x100)
#define SHARED_RBP (FAKE_JIT + 0x200)
#define SHARED_NIF (FAKE_JIT + 0x300)
#define SHARED_SCHEDULE (FAKE_JIT + 0x400)
#define SHARED_HEAVY (FAKE_JIT + 0x500)
#define SHARED_RAISE (FAKE_JIT + 0x600)
#define SHARED_BREAKPOINT (FAKE_JIT + 0x700)
#define FRAGMENTS_END (FAKE_JIT + 0x800)
#define FUNCTION (FAKE_JIT + 0x900)
#define FIRST (FAKE_JIT + 0xa08)
#define SECOND (FAKE_JIT + 0xb08)
#define LIGHT (FAKE_JIT + 0xc40)
#define HEAVY_MFA (FAKE_JIT + 0xd00)
#define EXPORT FAKE_MISC
#define HEAP fake_heap_at(0)
#define HEND (HEAP + 8 * FAKE_HEAP_WORDS)

struct bench {
    struct fake_vm vm;
    unsigned release;
    struct fp_registers registers;
    uint64_t bottom;
};

static void put_code(struct bench *b, uint64_t at, const char *bytes, size_t size)
{
    fake_put(&b->vm.memory, at, bytes, size);
}
#define CODE(b, at, bytes) put_code(b, at, bytes, sizeof(bytes) - 1)

static void put_call(struct bench *b, uint64_t at, uint64_t target)
{
    int32_t by = (int32_t)(target - at);

    CODE(b, at - 5, "\xe8");
    fake_put(&b->vm.memory, at - 4, &by, 4);
}

static void put_mfa(struct bench *b, uint64_t at)
{
    const uint64_t mfa[] = {ATOM(70), ATOM(71), 2};

    fake_put(&b->vm.memory, at, mfa, sizeof mfa);
}

static void put_shared_code(struct bench *b)
{
    char leave[] = "\x49\x8b\x65\x58";

    leave[3] = (char)b->vm.layout.release.offset[FP_FIELD_stop];
    put_code(b, SHARED_STOP, leave, 4);
    put_code(b, SHARED_NIF + 40, leave, 4);
    put_code(b, SHARED_HEAVY + 64, leave, 4);
    put_code(b, SHARED_RAISE + 40, leave, 4);
    put_code(b, SHARED_BREAKPOINT, leave, 4);
    CODE(b, SHARED_RBP, "\x48\x89\xec");
    CODE(b, SHARED_SCHEDULE, "\x49\x89\xc5");
    CODE(b, SHARED_RAISE + 8, "\x48\x85\xc0\x74\x02\xff\xe0");
    CODE(b, SHARED_BREAKPOINT + 16, "\xff\x73\xf0\xff\x73\xf8\xc3");
}

static void put_functions(struct bench *b)
{
    int32_t jump = (int32_t)(SHARED_HEAVY - (HEAVY_MFA + 24 + 37));
    uint64_t export = EXPORT;

    put_call(b, FIRST, FUNCTION);
    put_call(b, SECOND, FUNCTION);
    CODE(b, LIGHT - 36, "\x48\xb9");
    fake_put(&b->vm.memory, LIGHT - 34, &export, 8);
    CODE(b, LIGHT - 26, "\x48\xb8");
    CODE(b, LIGHT - 16, "\x48\x8d\x15\xe5\xff\xff\xff\x0f\x1f\x00\x40");
    put_call(b, LIGHT, SHARED_STOP - 0x80);
    put_mfa(b, EXPORT + 56);
    put_mfa(b, HEAVY_MFA);
    CODE(b, HEAVY_MFA + 24 + 32, "\xe9");
    fake_put(&b->vm.memory, HEAVY_MFA + 24 + 33, &jump, 4);
}

static void bench_create(struct bench *b, unsigned release)
{
    const uint64_t words[] = {FIRST, 0x1b, LIGHT, SECOND, 0x3b};

    memset(b, 0, sizeof *b);
    b->release = release;
    fake_vm_create(&b->vm, releases[release], 8, 1);
    fake_map(&b->vm.memory, FAKE_JIT, PAGE);
    fake_map(&b->vm.memory, FUZZ_NATIVE, 2 * PAGE);
    fake_map(&b->vm.memory, FAKE_DATA, 2 * PAGE);
    fake_map(&b->vm.memory, FAKE_MISC, PAGE);
    fake_spawn(&b->vm, 0, FUNCTION);
    fake_set(&b->vm, 0, FP_FIELD_state, FP_PSFLG_ACTIVE | FP_PSFLG_RUNNING);
    fake_set(&b->vm, 0, FP_FIELD_reds, 100000);
    fake_set_stack(&b->vm, 0, words, 5);
    fake_put_word(&b->vm.memory, SCHEDULER + b->vm.layout.release.running.current_process,
                  fake_process_at(0));
    put_shared_code(b);
    put_functions(b);
    b->registers.rip = FUNCTION + 32;
    b->registers.rsp = HEND - 40;
    b->bottom = 0x3b;
}

static void enter_c(struct bench *b, uint64_t returns_to)
{
    b->registers.rip = 0x5555;
    b->registers.rsp = BASE - 0x200;
    fake_put_word(&b->vm.memory, BASE - 8, returns_to);
}

static void write_bench(struct bench *b, const char *name)
{
    begin("running", name, releases[b->release]);
    u8(b->release);
    address(SCHEDULER);
    address(BASE);
    u32(b->bottom);
    address(b->registers.rip);
    address(b->registers.rsp);
    address(b->registers.rbp);
    address(b->registers.r15);
    u32(3000);
    ranges(0, 1);
    address(FAKE_JIT);
    u16(FRAGMENTS_END - FAKE_JIT);
    address(SHARED_NIF);
    u8(1);
    u8(3);
    u8(1);
    address(HEND - 40);
    forget(&b->vm, FAKE_TABLE);
    put_memory(&b->vm.memory);
    end();
    fake_vm_destroy(&b->vm);
}

static void running(unsigned release)
{
    static const struct {
        const char *name;
        uint64_t returns_to;
    } calls[] = {
        {"stop", SHARED_STOP},
        {"rbp", SHARED_RBP},
        {"nif", SHARED_NIF},
        {"schedule", SHARED_SCHEDULE},
        {"heavy", SHARED_HEAVY + 64},
        {"raise", SHARED_RAISE},
        {"breakpoint", SHARED_BREAKPOINT},
    };
    struct bench b;
    uint64_t current = HEAVY_MFA;

    bench_create(&b, release);
    write_bench(&b, "erlang");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        bench_create(&b, release);
        enter_c(&b, calls[i].returns_to);
        fake_put_word(&b.vm.memory, BASE - 0x80, HEND - 40);
        fake_put_word(&b.vm.memory, BASE, HEAVY_MFA + 24 + 8);
        fake_put(&b.vm.memory, fake_process_at(0) + b.vm.layout.release.running.current, &current,
                 8);
        write_bench(&b, calls[i].name);
    }
    bench_create(&b, release); /* its stack is in a new heap already */
    enter_c(&b, SHARED_STOP);
    fake_set(&b.vm, 0, FP_FIELD_heap, FAKE_HEAPS + 0x10000);
    fake_set(&b.vm, 0, FP_FIELD_hend, FAKE_HEAPS + 0x11000);
    fake_set(&b.vm, 0, FP_FIELD_state, FP_PSFLG_RUNNING | FP_PSFLG_GC);
    write_bench(&b, "moved");
}

static void bif(unsigned release)
{
    static const uint64_t places[] = {
        LIGHT, FIRST, HEAVY_MFA, SHARED_HEAVY + 64, SHARED_RAISE, HEAVY_MFA + 24 + 8};
    struct bench b;

    bench_create(&b, release);
    FORGET(&b.vm, TABLE_AND_PROCESSES, FAKE_HEAPS);
    begin("bif", "otp", releases[release]);
    for (int i = 0; i < 6; i++)
        address(places[i]);
    put_memory(&b.vm.memory);
    end();
    fake_vm_destroy(&b.vm);
}

static void stack(unsigned times)
{
    begin("stack", "times", times);
    ranges(1, 4);
    address(FAKE_JIT + 0x1100);
    u16(times == 64 ? 500 : 9999);
    u8(times);
    u8(times - 1);
    for (unsigned i = 0; i < 40; i++)
        u64(fuzz_relocatable(i % 3 == 0 ? 0x1b + i : FAKE_JIT + 0x1200 + 16 * i));
    end();
}

/* ---- without a VM ----------------------------------------------------- */

static void text(const char *target, const char *name, const char *bytes, size_t size)
{
    begin(target, name, 0);
    put(bytes, size);
    end();
}

static void maps(void)
{
    static const char before[] =
        "00400000-00800000 r-xp 00000000 08:01 123   /beam.smp\n"
        "00a00000-00a20000 rw-p 00400000 08:01 123   /beam.smp\n"
        "00a20000-00b20000 rw-p 00000000 00:00 0 \n"
        "7f0000000000-7f0000100000 rwxp 00000000 00:00 0 \n"
        "7f0010000000-7f0010100000 r-xs 00000000 00:01 5   /memfd:vmem "
        "(deleted)\n"
        "7f0020000000-7f0020100000 r-xp 00001000 08:01 6   /lib/libc.so.6\n"
        "7ffe00000000-7ffe00001000 r-xp 00000000 00:00 0   [vdso]\n";
    static const char now[] =
        "7f0010000000-7f0010200000 r-xs 00000000 00:01 5   /memfd:vmem "
        "(deleted)\n"
        "7f0020000000-7f0020100000 r-xp 00001000 08:01 6   /lib/l (deleted)\n";

    begin("maps", "grown", 0);
    u16(sizeof before - 1);
    put(before, sizeof before - 1);
    put(now, sizeof now - 1);
    end();
}

static void names(void)
{
    static const char *const list[] = {"2026-11-21@0154.07.erl_perf.log.zst",
                                       "2026-11-21@0154.07_001.shop@host.erl_perf.log",
                                       "2026-11-21@0154.59_999_999.erl_perf.log.zst.part"};

    for (unsigned i = 0; i < 3; i++) {
        begin("log_name", "name", i);
        put(list[i], strlen(list[i]));
        end();
    }
}

static size_t compress(const char *from, size_t size, char *into, size_t room)
{
    ZSTD_CCtx *context = ZSTD_createCCtx();
    size_t n;

    FUZZ_CHECK(context != NULL);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    n = ZSTD_compress2(context, into, room, from, size);
    FUZZ_CHECK(!ZSTD_isError(n));
    ZSTD_freeCCtx(context);
    return n;
}

static void frames(void)
{
    static const char sample[] = "beam 4242/71 [000] 12.000001: "
                                 "cpu-clock:\n\tffffffff m:f/1:12 (m.erl)\n"
                                 "\tffffffff waiting (status)\n\n";
    char frame[512];
    size_t n = compress(sample, sizeof sample - 1, frame, sizeof frame);

    begin("recover", "frames", 0);
    u8(1);
    put(frame, n);
    put(frame, n);
    put(frame, n / 2);
    end();
    begin("recover", "text", 0);
    u8(0);
    put(sample, sizeof sample - 1);
    put(sample, 20);
    end();
}

static void cfi(void)
{
    /* rsp + 8, return address at CFA - 8; pushes rbp at once. */
    static const unsigned char cie[] = {1, 'z', 'R', 0, 1, 0x78, 16, 1, 3, 0x0c, 7, 8, 0x90, 1};
    static const unsigned char fde[] = {0,    0x41, 0x0e, 16, 0x86, 2,    0x43, 0x0d, 6,
                                        0x0a, 0x0c, 7,    8,  0x0b, 0x16, 3,    2,    0x77,
                                        8,    0x10, 12,   2,  0x77, 0,    0x2f, 3,    1};
    /* The PLT's CFA, and one in memory. */
    static const unsigned char other[] = {0,    0x0f, 11,   0x77, 8,    0x80, 0,    0x3f, 0x1a,
                                          0x3b, 0x2a, 0x33, 0x24, 0x22, 0x44, 0x0f, 10,   0x77,
                                          8,    0x79, 0,    0x38, 0x1e, 0x22, 0x06, 0x23, 8,
                                          0x44, 0x0f, 4,    0x77, 0xa0, 1,    0x06};

    begin("cfi", "frames", 0);
    for (uint32_t i = 0; i < 17; i++)
        u16(i == 7 ? 64 : i == 6 ? 80 : i == 16 ? 0x14 : 8 * i);
    u16(64);
    for (unsigned i = 0; i < 32; i++)
        u16(i % 2 == 1 ? 0x21 | i << 4 : (80 + 16 * i) << 1);
    u32(4 + sizeof cie);
    u32(0);
    put(cie, sizeof cie);
    for (unsigned i = 0; i < 2; i++) {
        u32(12 + sizeof fde);
        u32(i == 0 ? 8 + sizeof cie + 4 : 8 + sizeof cie + 4 + 16 + sizeof fde);
        u32(0x400000 + 0x100 * i);
        u32(0x100);
        put(fde, sizeof fde);
    }
    u32(12 + sizeof other);
    u32(8 + sizeof cie + 4 + 2 * (16 + sizeof fde));
    u32(0x400200);
    u32(0x100);
    put(other, sizeof other);
    end();
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    folder = argv[1];
    for (unsigned release = 0; release < 5; release++) {
        atom(release);
        code(release, 0);
        functions(release);
        process(release);
        table(release);
        sampler(release);
        layout(release);
        terms(release);
    }
    code(2, 1);
    running(0);
    running(2);
    bif(2);
    stack(1);
    stack(64);
    maps();
    names();
    frames();
    cfi();
    text("elf", "empty",
         "\x7f"
         "ELF",
         4);
    return 0;
}
