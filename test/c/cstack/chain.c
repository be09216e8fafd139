/* chain.c - functions of every shape of frame, calling each other.
 *
 * A library that test_native_*.c builds with the system's compilers, without sanitizers, and loads.
 * Never linked into a test. */
#include <alloca.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SHAPE __attribute__((noinline, noclone))
#ifdef __clang__
#undef SHAPE
#define SHAPE __attribute__((noinline))
#endif

typedef void probe(void *);

volatile uint64_t chain_sink;

/* So that no call below is the last thing that a function does. */
static inline void keep(uint64_t value)
{
    chain_sink += value;
}

SHAPE uint64_t chain_leaf(uint64_t n)
{
    return n * 3 + chain_sink;
}

/* Not exported: what strip takes the name of. */
SHAPE static uint64_t chain_hidden(probe *call, void *with, uint64_t n)
{
    call(with);
    keep(n);
    return n + 1;
}

SHAPE uint64_t chain_call_hidden(probe *call, void *with)
{
    uint64_t n = chain_hidden(call, with, chain_sink);

    keep(n);
    return n;
}

SHAPE uint64_t chain_many_registers(probe *call, void *with, uint64_t a, uint64_t b, uint64_t c,
                                    uint64_t d)
{
    uint64_t e = chain_leaf(a), f = chain_leaf(b), g = chain_leaf(c);

    call(with);
    for (uint64_t i = 0; i < 3; i++)
        keep(e * f + g * a + chain_leaf(b + c + d + i));
    return a + b + c + d + e + f + g;
}

SHAPE uint64_t chain_large_frame(probe *call, void *with, int n)
{
    char text[20000];

    snprintf(text, sizeof text, "%d %s %g", n, "large", (double)n / 3);
    call(with);
    keep(strlen(text));
    return (uint64_t)text[0];
}

SHAPE uint64_t chain_alloca(probe *call, void *with, size_t size)
{
    char *room = alloca(size);

    memset(room, 1, size);
    call(with);
    keep((uint64_t)room[size / 2]);
    return size;
}

/* The stack pointer is rounded, and found again by an expression. */
SHAPE uint64_t chain_aligned(probe *call, void *with, uint64_t n)
{
    uint64_t lane[16] __attribute__((aligned(128)));

    for (uint64_t i = 0; i < 16; i++)
        lane[i] = chain_leaf(n + i);
    call(with);
    for (uint64_t i = 0; i < 16; i++)
        keep(lane[i]);
    return lane[n % 16];
}

SHAPE uint64_t chain_aligned_alloca(probe *call, void *with, size_t size)
{
    uint64_t lane[8] __attribute__((aligned(64)));
    char *room = alloca(size);

    memset(room, 2, size);
    for (uint64_t i = 0; i < 8; i++)
        lane[i] = chain_leaf(i);
    call(with);
    keep(lane[size % 8] + (uint64_t)room[0]);
    return size;
}

SHAPE uint64_t chain_variadic(probe *call, void *with, int n, ...)
{
    uint64_t sum = 0;
    va_list list;

    va_start(list, n);
    for (int i = 0; i < n; i++)
        sum += va_arg(list, uint64_t);
    va_end(list);
    call(with);
    keep(sum);
    return sum;
}

SHAPE uint64_t chain_early_return(probe *call, void *with, uint64_t n)
{
    if (n % 3 == 0)
        return chain_leaf(n);
    if (n % 3 == 1) {
        keep(chain_leaf(n) + chain_leaf(n + 1));
        return n;
    }
    call(with);
    keep(n);
    return chain_leaf(n) + 1;
}

static probe *sort_call;
static void *sort_with;

static int chain_compare(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;

    sort_call(sort_with);
    keep(*left);
    return *left < *right ? -1 : *left > *right;
}

SHAPE uint64_t chain_sort(probe *call, void *with)
{
    uint64_t number[6] = {5, 2, 9, 1, 7, 3};

    sort_call = call;
    sort_with = with;
    qsort(number, 6, sizeof number[0], chain_compare);
    keep(number[0]);
    return number[5];
}

/* All of the above, nested. */
struct link {
    uint64_t depth;
    probe *call;
    void *with;
};

SHAPE static void chain_link(void *self)
{
    struct link *link = self;
    struct link next = {link->depth - 1, link->call, link->with};
    probe *call = next.depth == 0 ? link->call : chain_link;
    void *with = next.depth == 0 ? link->with : &next;

    switch (link->depth % 8) {
    case 0:
        keep(chain_many_registers(call, with, 1, 2, 3, 4));
        break;
    case 1:
        keep(chain_large_frame(call, with, 7));
        break;
    case 2:
        keep(chain_alloca(call, with, 100 + link->depth));
        break;
    case 3:
        keep(chain_aligned(call, with, link->depth));
        break;
    case 4:
        keep(chain_variadic(call, with, 3, (uint64_t)1, (uint64_t)2, (uint64_t)3));
        break;
    case 5:
        keep(chain_early_return(call, with, 2));
        break;
    case 6:
        keep(chain_aligned_alloca(call, with, 64));
        break;
    default:
        keep(chain_hidden(call, with, link->depth));
    }
}

uint64_t chain_run(uint64_t depth, probe *call, void *with)
{
    struct link first = {depth, call, with};

    chain_link(&first);
    keep(depth);
    return chain_sink;
}

/* As libcrypto's assembly: a frame described by a register that only the functions which it calls
 * are known to preserve. */
__asm__(".text\n.type chain_by_r11, @function\nchain_by_r11:\n"
        ".cfi_startproc\n"
        "mov %rsp, %r11\n.cfi_def_cfa_register %r11\n"
        "sub $40, %rsp\nand $-64, %rsp\n"
        "call chain_below_r11\n"
        "mov %r11, %rsp\n.cfi_def_cfa_register %rsp\n"
        "ret\n.cfi_endproc\n.size chain_by_r11, . - chain_by_r11\n"
        ".type chain_below_r11, @function\nchain_below_r11:\n"
        ".cfi_startproc\nnop\nnop\nret\n.cfi_endproc\n"
        ".size chain_below_r11, . - chain_below_r11\n");

void chain_by_r11(void) __attribute__((visibility("hidden")));

static void nothing(void *unused)
{
    (void)unused;
    keep(1);
}

/* Something to step through, the C library's functions among it. */
uint64_t chain_work(void)
{
    char *text = malloc(100);
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now); /* through the vDSO */
    keep((uint64_t)now.tv_nsec);
    keep(chain_run(16, nothing, NULL));
    keep(chain_sort(nothing, NULL));
    chain_by_r11();
    keep(chain_early_return(nothing, NULL, 3));
    keep(chain_early_return(nothing, NULL, 4));
    snprintf(text, 100, "%s-%08x-%.3f", "work", 77, 2.5);
    keep(strtoul(text + 5, NULL, 16));
    keep((uint64_t)(strchr(text, '-') - text));
    free(text);
    return chain_sink;
}
