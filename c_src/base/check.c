#include "base/check.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

void (*fp_check_hook)(const char *file, int line, const char *condition);

static _Atomic uint64_t count;

/* The thread that takes `is_taken` writes the others, `first_file` last (release). */
static _Atomic int is_taken, first_line;
static _Atomic(const char *) first_file, first_condition;

bool fp_check_broken(const char *file, int line, const char *condition)
{
    if (!atomic_exchange(&is_taken, 1)) {
        atomic_store_explicit(&first_line, line, memory_order_relaxed);
        atomic_store_explicit(&first_condition, condition, memory_order_relaxed);
        atomic_store_explicit(&first_file, file, memory_order_release);
    }
    atomic_fetch_add_explicit(&count, 1, memory_order_release);
    if (fp_check_hook != NULL)
        fp_check_hook(file, line, condition);
    return false;
}

uint64_t fp_check_count(void)
{
    return atomic_load_explicit(&count, memory_order_acquire);
}

void fp_check_print(char text[FP_CHECK_ROOM])
{
    const char *file = atomic_load_explicit(&first_file, memory_order_acquire);
    const char *top = file == NULL ? NULL : strstr(file, "c_src/");

    text[0] = '\0';
    if (file != NULL)
        snprintf(text, FP_CHECK_ROOM, "%s:%d: %s", top == NULL ? file : top + 6,
                 atomic_load_explicit(&first_line, memory_order_relaxed),
                 atomic_load_explicit(&first_condition, memory_order_relaxed));
}

void fp_check_forget(void)
{
    atomic_store(&first_file, NULL);
    atomic_store(&is_taken, 0);
}
