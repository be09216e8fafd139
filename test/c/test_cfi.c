/* test_cfi.c - rows out of programs written by hand, and out of real libraries, where readelf says
 * what they are. */
#include <dlfcn.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/error.h"
#include "cstack/image.h"
#include "test.h"

/* ---- by hand ---------------------------------------------------------- */

#define BYTES(...)                                                                                 \
    (const unsigned char[]){__VA_ARGS__}, sizeof((const unsigned char[]){__VA_ARGS__})

#define START 0x1000u
#define SIZE 0x100000u

struct made {
    unsigned char bytes[512 << 10];
    size_t size;
    struct fp_cfi_function function;
    struct fp_cfi_rows rows;
};

static void put(struct made *made, const void *bytes, size_t size)
{
    CHECK(made->size + size <= sizeof made->bytes);
    memcpy(made->bytes + made->size, bytes, size);
    made->size += size;
}

static void put_u32(struct made *made, uint32_t value)
{
    put(made, &value, sizeof value);
}

/* "zR", code alignment 1, data alignment -8, return address in 16, addresses of four plain bytes;
 * rsp+8, and the return address at CFA-8. */
static const unsigned char cie[] = {1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x03, 0x0c, 7, 8, 0x90, 1};

static void make(struct made *made, const unsigned char *program, size_t size)
{
    struct fp_cfi cfi;

    fp_cfi_rows_unload(&made->rows);
    memset(made, 0, sizeof *made);
    put_u32(made, 4 + sizeof cie);
    put_u32(made, 0);
    put(made, cie, sizeof cie);
    made->function = (struct fp_cfi_function){START, SIZE, (uint32_t)made->size};
    put_u32(made, (uint32_t)(4 + 4 + 4 + 1 + size));
    put_u32(made, (uint32_t)made->size); /* back to the CIE, which is at 0 */
    put_u32(made, START);
    put_u32(made, SIZE);
    put(made, "", 1); /* no augmentation data */
    put(made, program, size);
    cfi = (struct fp_cfi){made->bytes, made->size, 0x500000, &made->function, 1};
    CHECK_INT(fp_cfi_rows_load(&made->rows, &cfi), 0);
}

static struct made *create(void)
{
    struct made *made = calloc(1, sizeof *made);

    CHECK(made != NULL);
    return made;
}

static void destroy(struct made *made)
{
    fp_cfi_rows_unload(&made->rows);
    free(made);
}

#define ROWS_TEST(test) TEST_ON(test, struct made *, made, create(), destroy)

static const struct fp_cfi_row *row_at(struct made *made, uint64_t address)
{
    const struct fp_cfi_row *row = fp_cfi_rows_find(&made->rows, address);

    if (row == NULL)
        RUN_FAIL("no row at %#" PRIx64, address);
    return row;
}

static void expect_none(struct made *made, uint64_t address)
{
    CHECK(fp_cfi_rows_find(&made->rows, address) == NULL);
}

static void expect_cfa(const struct fp_cfi_row *row, int reg, int offset)
{
    CHECK_INT(row->cfa_kind, FP_CFA_REGISTER);
    CHECK_INT(row->cfa_register, reg);
    CHECK_INT(row->cfa_offset, offset);
}

static void expect(const struct fp_cfi_row *row, int reg, enum fp_cfi_kind kind, int value)
{
    CHECK_INT(row->rule[reg].kind, kind);
    CHECK_INT(row->rule[reg].value, value);
}

ROWS_TEST(a_function_begins_as_its_cie_says)
{
    const struct fp_cfi_row *row;

    make(made, BYTES(0));
    row = row_at(made, START);
    expect_cfa(row, 7, 8);
    expect(row, 16, FP_CFI_SAVED, -8);
    expect(row, 3, FP_CFI_SAME, 0);
    CHECK(!row->is_signal);
    expect_none(made, START - 1);
    expect_none(made, START + SIZE);
    expect_none(made, 0);
    expect_none(made, UINT64_MAX);
    row_at(made, START + SIZE - 1);
}

ROWS_TEST(each_advance_moves_the_row)
{
    /* def_cfa_offset 16, 24.. after 1, then 0x80, 0x1234, 0x11223, set_loc */
    make(made, BYTES(0x41, 0x0e, 16, 0x02, 0x80, 0x0e, 24, 0x03, 0x34, 0x12, 0x0e, 32, 0x04, 0x23,
                     0x12, 0x01, 0, 0x0e, 40, 0x01, 0, 0, 0x10, 0, 0x0e, 48));
    static const struct {
        uint64_t at;
        int offset;
    } rows[] = {{0, 8},        {1, 16},       {0x80, 16},    {0x81, 24},
                {0x12b4, 24},  {0x12b5, 32},  {0x124d7, 32}, {0x124d8, 40},
                {0xfefff, 40}, {0xff000, 48}, {SIZE - 1, 48}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect_cfa(row_at(made, START + rows[i].at), 7, rows[i].offset);
    }
}

/* Numbers of rows are 16 bits wide: no library has nearly as many distinct ones. What has is
 * without the rows that come too late, and no other row takes their place. */
ROWS_TEST(distinct_rows_are_numbered_up_to_a_limit)
{
    enum { ROWS = 70000, KEPT = 65534 };
    static unsigned char program[5 * ROWS];

    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t offset = 16 + i;
        const unsigned char row[] = {
            0x41, 0x0e, offset | 0x80, (offset >> 7) | 0x80, offset >> 14,
        };

        memcpy(program + 5 * i, row, sizeof row);
    }
    make(made, program, sizeof program);
    CHECK_INT(made->rows.distinct_count, KEPT + 1);
    for (uint32_t i = 0; i < KEPT; i++) {
        expect_cfa(row_at(made, START + i), 7, i == 0 ? 8 : 15 + (int)i);
    }
    expect_none(made, START + KEPT);
    expect_none(made, START + SIZE - 1);
}

ROWS_TEST(each_definition_of_the_cfa)
{
    make(made, BYTES(0x0c, 6, 16)); /* def_cfa */
    expect_cfa(row_at(made, START), 6, 16);
    make(made, BYTES(0x12, 6, 0x7e)); /* def_cfa_sf, -2 */
    expect_cfa(row_at(made, START), 6, 16);
    make(made, BYTES(0x0d, 10)); /* def_cfa_register */
    expect_cfa(row_at(made, START), 10, 8);
    make(made, BYTES(0x13, 0x7d)); /* def_cfa_offset_sf, -3 */
    expect_cfa(row_at(made, START), 7, 24);
    make(made, BYTES(0x0f, 3, 0x77, 8, 0x06, 0x0d, 6)); /* memory; a register */
    expect_none(made, START);
    make(made, BYTES(0x0f, 2, 0x7a, 8)); /* expression: r10 + 8 */
    expect_cfa(row_at(made, START), 10, 8);
}

ROWS_TEST(each_rule_of_a_register)
{
    const struct fp_cfi_row *row;

    make(made, BYTES(0x83, 2,             /* offset rbx 2 */
                     0x05, 6, 3,          /* offset_extended rbp 3 */
                     0x11, 12, 0x7f,      /* offset_extended_sf r12 -1 */
                     0x14, 14, 4,         /* val_offset */
                     0x15, 15, 0x7e,      /* val_offset_sf */
                     0x09, 0, 1,          /* register rax in rdx */
                     0x07, 2,             /* undefined */
                     0x10, 4, 2, 0x77, 8, /* expression: rsp + 8 */
                     0x16, 5, 2, 0x77, 0, /* val_expression */
                     0x10, 8, 1, 0x30,    /* expression: lit0 */
                     0x2e, 32,            /* GNU_args_size */
                     0x05, 33, 9,         /* a register that is not ours */
                     0x07, 16));
    row = row_at(made, START);
    expect(row, 3, FP_CFI_SAVED, -16);
    expect(row, 6, FP_CFI_SAVED, -24);
    expect(row, 12, FP_CFI_SAVED, 8);
    expect(row, 14, FP_CFI_VALUE, -32);
    expect(row, 15, FP_CFI_VALUE, 16);
    expect(row, 0, FP_CFI_REGISTER, 0);
    CHECK_INT(row->rule[0].base, 1);
    expect(row, 2, FP_CFI_UNDEFINED, 0);
    expect(row, 4, FP_CFI_SAVED_AT, 8);
    CHECK_INT(row->rule[4].base, 7);
    expect(row, 5, FP_CFI_UNKNOWN, 0);
    expect(row, 8, FP_CFI_UNKNOWN, 0);
    expect(row, 16, FP_CFI_UNDEFINED, 0);
    expect_cfa(row, 7, 8);
}

ROWS_TEST(rules_are_restored_and_states_remembered)
{
    const struct fp_cfi_row *row;

    make(made, BYTES(0x83, 2, 0x0a, 0x0e, 64, 0x83, 9, 0x90, 4, /* at 0 */
                     0x41, 0xd0,                                /* at 1 */
                     0x41, 0x06, 3,                             /* at 2 */
                     0x41, 0x0b,                                /* at 3 */
                     0x41, 0x08, 3));                           /* at 4 */
    row = row_at(made, START);
    expect_cfa(row, 7, 64);
    expect(row, 3, FP_CFI_SAVED, -72);
    expect(row, 16, FP_CFI_SAVED, -32);
    expect(row_at(made, START + 1), 16, FP_CFI_SAVED, -8); /* as in the CIE */
    row = row_at(made, START + 2);
    expect(row, 3, FP_CFI_SAME, 0);
    expect_cfa(row, 7, 64);
    row = row_at(made, START + 3);
    expect_cfa(row, 7, 8);
    expect(row, 3, FP_CFI_SAVED, -16);
    expect(row_at(made, START + 4), 3, FP_CFI_SAME, 0);
}

ROWS_TEST(what_is_no_program_is_refused)
{
    static const struct {
        unsigned char bytes[12];
        size_t size;
    } bad[] = {
        {{0x1f}, 1},                         /* not known */
        {{0x0b}, 1},                         /* nothing remembered */
        {{0x0a, 0x0a, 0x0a, 0x0a, 0x0a}, 5}, /* too much remembered */
        {{0x0c, 7}, 2},                      /* ends in between */
        {{0x0c, 60, 8}, 3},                  /* no such register */
        {{0x0f, 40, 0x77}, 3},               /* longer than there are bytes */
        {{0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, 11},
        {{0x05, 3, 0xff, 0xff, 0xff, 0xff, 0x7f}, 7}, /* beyond 32 bits */
        {{0x05, 3, 0x81, 0x20}, 4},                   /* beyond 16 bits */
        {{0x2f, 3, 1}, 3},                            /* GNU_negative_offset_extended: of old gcc */
        /* the least number, which has no negative */
        {{0x11, 3, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}, 12},
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        make(made, bad[i].bytes, bad[i].size);
        expect_none(made, START);
    }
}

/* The rows before it are true, those behind it are not there. */
ROWS_TEST(a_program_is_good_up_to_what_is_not_known)
{
    /* offset 16 at 0, 24 at 2 and on; at 6 something unknown */
    make(made, BYTES(0x0e, 16, 0x42, 0x0e, 24, 0x44, 0x0e, 32, 0x1f));
    expect_cfa(row_at(made, START + 1), 7, 16);
    expect_cfa(row_at(made, START + 5), 7, 24);
    expect_none(made, START + 6);
    expect_none(made, START + SIZE - 1);
    make(made, BYTES(0x44, 0x0e, 16, 0x01, 0, 0x10, 0, 0)); /* goes back */
    row_at(made, START + 3);
    expect_none(made, START + 4);
}

/* Without a return address or a stack pointer there is no caller. */
ROWS_TEST(a_row_without_a_caller_is_none)
{
    static const struct {
        unsigned char bytes[12];
        size_t size;
    } none[] = {
        {{0x08, 16}, 2},             /* same_value of the return address */
        {{0x16, 16, 2, 0x77, 0}, 5}, /* val_expression */
        {{0x10, 16, 1, 0x30}, 4},    /* an expression of another form */
        {{0x07, 7}, 2},              /* rsp is lost */
        {{0x0f, 1, 0x30}, 3},        /* the CFA is lit0 */
    };

    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        make(made, none[i].bytes, none[i].size);
        expect_none(made, START);
        expect_none(made, START + SIZE - 1);
    }
}

/* ---- expressions ------------------------------------------------------ */

/* Each form that is known, by what DWARF's stack machine makes of it. */
ROWS_TEST(each_form_of_an_expression_is_known)
{
    const struct fp_cfi_row *row;

    /* .plt: rsp + 8 + ((rip & 15) >= 11) << 3 */
    make(made, BYTES(0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22));
    row = row_at(made, START);
    CHECK_INT(row->cfa_kind, FP_CFA_PLT);
    CHECK_INT(row->cfa_offset, 11);
    /* a signal frame: *(rsp + 160) */
    make(made, BYTES(0x0f, 4, 0x77, 0xa0, 1, 0x06));
    row = row_at(made, START);
    CHECK_INT(row->cfa_kind, FP_CFA_MEMORY);
    CHECK_INT(row->cfa_register, 7);
    CHECK_INT(row->cfa_offset, 160);
    CHECK_INT(row->cfa_added, 0);
    CHECK_INT(row->cfa_index, 0);
    /* libcrypto: *(rbp - 16) + 8 */
    make(made, BYTES(0x0f, 5, 0x76, 0x70, 0x06, 0x23, 8));
    row = row_at(made, START);
    CHECK_INT(row->cfa_kind, FP_CFA_MEMORY);
    CHECK_INT(row->cfa_register, 6);
    CHECK_INT(row->cfa_offset, -16);
    CHECK_INT(row->cfa_added, 8);
    /* libcrypto: *(rsp + 8 + 8 * r9) + 8 */
    make(made, BYTES(0x0f, 10, 0x77, 8, 0x79, 0, 0x38, 0x1e, 0x22, 0x06, 0x23, 8));
    row = row_at(made, START);
    CHECK_INT(row->cfa_kind, FP_CFA_MEMORY);
    CHECK_INT(row->cfa_index, 9 + 1);
    CHECK_INT(row->cfa_offset, 8);
    CHECK_INT(row->cfa_added, 8);
}

ROWS_TEST(expressions_of_other_forms_have_no_row)
{
    static const struct {
        unsigned char bytes[14];
        size_t size;
    } other[] = {
        {{0x0f, 0}, 2},                                     /* nothing */
        {{0x0f, 1, 0x77}, 3},                               /* no offset */
        {{0x0f, 3, 0x82, 1, 0}, 5},                         /* breg18, not a register */
        {{0x0f, 3, 0x77, 8, 0x96}, 5},                      /* nop */
        {{0x0f, 4, 0x77, 8, 0x06, 0x06}, 6},                /* twice */
        {{0x0f, 4, 0x77, 8, 0x06, 0x23}, 6},                /* nothing to add */
        {{0x0f, 6, 0x77, 8, 0x06, 0x23, 8, 8}, 8},          /* and more */
        {{0x0f, 7, 0x77, 8, 0x79, 0, 0x38, 0x1e, 0x22}, 9}, /* no deref */
        /* the PLT's, but for one byte: lit16, rbp, of 31 */
        {{0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x40, 0x2a, 0x33, 0x24, 0x22}, 13},
        {{0x0f, 11, 0x76, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22}, 13},
        {{0x0f, 11, 0x77, 8, 0x80, 0, 0x4f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22}, 13},
    };

    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        make(made, other[i].bytes, other[i].size);
        if (fp_cfi_rows_find(&made->rows, START) != NULL)
            RUN_FAIL("expression %zu has a row", i);
    }
}

/* ---- readelf's opinion of real libraries ------------------------------ */

static int read_fd(void *self, uint64_t offset, void *into, size_t size)
{
    return pread(*(int *)self, into, size, (off_t)offset) == (ssize_t)size ? 0 : FP_EIO;
}

static void load(struct fp_image *image, const char *path)
{
    int fd = open(path, O_RDONLY);
    struct fp_elf_source source = {read_fd, &fd};

    CHECK(fd >= 0);
    CHECK_INT(fp_image_load(image, &source, SIZE_MAX), 0);
    close(fd);
}

static const char *const names[FP_CFI_REGISTERS] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi",
                                                    "rbp", "rsp", "r8",  "r9",  "r10", "r11",
                                                    "r12", "r13", "r14", "r15", "ra"};

static int number_of(const char *name)
{
    for (int i = 0; i < (int)FP_CFI_REGISTERS; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

/* As `readelf --debug-dump=frames-interp` has it. */
static void print_cfa(const struct fp_cfi_row *row, char text[32])
{
    if (row->cfa_kind != FP_CFA_REGISTER)
        strcpy(text, "exp");
    else
        snprintf(text, 32, "%s%+d", names[row->cfa_register], row->cfa_offset);
}

static void print_rule(const struct fp_cfi_rule *rule, char text[32])
{
    if (rule->kind == FP_CFI_SAVED)
        snprintf(text, 32, "c%+d", rule->value);
    else if (rule->kind == FP_CFI_VALUE)
        snprintf(text, 32, "v%+d", rule->value);
    else if (rule->kind == FP_CFI_REGISTER)
        snprintf(text, 32, "(%s)", names[rule->base]);
    else
        strcpy(text, rule->kind == FP_CFI_SAVED_AT ? "exp" : "u");
}

struct columns {
    int count, reg[40];
};

static void read_columns(struct columns *columns, char *line)
{
    char *rest;

    columns->count = 0;
    strtok_r(line, " \n", &rest); /* LOC */
    strtok_r(NULL, " \n", &rest); /* CFA */
    for (char *name; (name = strtok_r(NULL, " \n", &rest)) != NULL;)
        columns->reg[columns->count++] = number_of(name);
}

static void compare_row(const struct fp_cfi_rows *rows, const struct columns *columns, char *line)
{
    char *rest, *word = strtok_r(line, " \n", &rest), text[32];
    uint64_t address = strtoull(word, NULL, 16);
    const struct fp_cfi_row *row = fp_cfi_rows_find(rows, address);

    if (row == NULL)
        RUN_FAIL("no row at %#" PRIx64, address);
    print_cfa(row, text);
    word = strtok_r(NULL, " \n", &rest);
    CHECK(word != NULL);
    CHECK_TEXT(text, word);
    for (int i = 0; i < columns->count; i++) {
        word = strtok_r(NULL, " \n", &rest);
        CHECK(word != NULL);
        if (word[0] == 'r') /* "r1 (rdx)" */
            word = strtok_r(NULL, " \n", &rest);
        if (columns->reg[i] < 0)
            continue; /* of floating point */
        print_rule(&row->rule[columns->reg[i]], text);
        if (strcmp(word, "s") == 0)
            word = "u"; /* for readelf what is not said is undefined */
        if (strcmp(text, word) != 0)
            RUN_FAIL("at %#" PRIx64 " %s is %s, readelf has %s", address, names[columns->reg[i]],
                     text, word);
    }
}

static size_t compare_with_readelf(const char *path)
{
    char command[512], line[512];
    struct columns columns = {0};
    struct fp_image image;
    int in_function = 0, is_eh_frame = 0;
    size_t rows = 0;
    FILE *output;

    load(&image, path);
    snprintf(command, sizeof command, "readelf -wF %s 2>/dev/null", path);
    output = popen(command, "r");
    CHECK(output != NULL);
    while (fgets(line, sizeof line, output) != NULL) {
        /* A debugger's .debug_frame is not mapped. */
        if (strncmp(line, "Contents of the ", 16) == 0)
            is_eh_frame = strstr(line, ".eh_frame") != NULL;
        if (!is_eh_frame) {
            in_function = 0;
        } else if (strstr(line, " CIE ") != NULL || strstr(line, " FDE ") != NULL) {
            uint64_t start = 0, end = 0;
            char *at = strstr(line, " pc=");

            in_function = at != NULL &&
                          sscanf(at, " pc=%" SCNx64 "..%" SCNx64, &start, &end) == 2 && end > start;
        } else if (strstr(line, "LOC") != NULL) {
            read_columns(&columns, line);
        } else if (in_function && strlen(line) > 17 && line[16] == ' ') {
            compare_row(&image.rows, &columns, line);
            rows++;
        }
    }
    pclose(output); /* a warning about debug files is a failure to it */
    printf("# %s: %zu rows of readelf's, %u of ours, %u distinct ones\n", path, rows,
           image.rows.count, image.rows.distinct_count);
    fp_image_unload(&image);
    return rows;
}

TEST(real_libraries_rows_are_readelf_s)
{
    const void *known[] = {(const void *)(uintptr_t)load,                 /* this program */
                           (const void *)(uintptr_t)gnu_get_libc_version, /* libc */
                           (const void *)(uintptr_t)getauxval(AT_BASE)};  /* dynamic linker */
    const char *others = getenv("NATIVE_FILES");                          /* for a look by hand */
    char copy[2048];

    for (size_t i = 0; i < 3; i++) {
        Dl_info info;

        CHECK(dladdr(known[i], &info) != 0);
        CHECK(compare_with_readelf(info.dli_fname) > 0);
    }
    snprintf(copy, sizeof copy, "%s", others == NULL ? "" : others);
    for (char *path = strtok(copy, " \n"); path != NULL; path = strtok(NULL, " \n"))
        compare_with_readelf(path);
}
