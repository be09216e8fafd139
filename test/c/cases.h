/* cases.h - tests of run.h that no main has to list: they run in the order of the file.
 *
 *      TEST(a_full_ring_refuses)
 *      {
 *          CHECK(...);
 *      }
 *      RUN_MAIN()
 */
#pragma once

#include "run.h"

struct run_case {
    const char *name;
    void (*run)(void);
    struct run_case *next;
};

static struct run_case *run_first, **run_last = &run_first;

#define TEST(test)                                                                                 \
    static void test(void);                                                                        \
    __attribute__((constructor)) static void test##_is_a_case(void)                                \
    {                                                                                              \
        static struct run_case of = {#test, test, NULL};                                           \
                                                                                                   \
        *run_last = &of;                                                                           \
        run_last = &of.next;                                                                       \
    }                                                                                              \
    static void test(void)

/* One with a `variable` of its own, which is made before it and destroyed after it. */
#define TEST_WITH(test, type, variable, create, destroy)                                           \
    static void test##_with(type *variable);                                                       \
    TEST(test)                                                                                     \
    {                                                                                              \
        type *variable = create;                                                                   \
                                                                                                   \
        test##_with(variable);                                                                     \
        destroy(variable);                                                                         \
    }                                                                                              \
    static void test##_with(type *variable)

static inline int run_all(int argc, char **argv)
{
    RUN_START(argc, argv);
    for (const struct run_case *of = run_first; of != NULL; of = of->next) {
        if (run_only != NULL && strstr(of->name, run_only) == NULL)
            continue;
        run_name = of->name;
        of->run();
        printf("ok %d - %s\n", ++run_count, of->name);
        fflush(stdout);
    }
    return RUN_END();
}

#define RUN_MAIN()                                                                                 \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        return run_all(argc, argv);                                                                \
    }
