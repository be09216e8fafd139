/* test.h - a program of tests that run in the order in which they are written.
 *
 *      TEST(a_full_ring_refuses)
 *      {
 *          CHECK(...);
 *      }
 *
 *      TEST_WITH(a_ring_that_is_created_empty, create(4096))
 *      {
 *          CHECK(f->...);                   the struct fixture of create(), which destroy() ends
 *      }
 *      TEST_WITH_EACH(every_release_has_one, create, 25, 26, 27) { ... }       so many times
 *      TEST_ON(a_ring_is_empty, struct fp_ring *, ring, create(8), fp_ring_destroy) { ... }
 *      TEST_BETWEEN(what_is_between, create(27), destroy()) { ... }        of what is global
 *
 * It has the program's main(): one file includes it. */
#pragma once

#include "run.h"

static struct {
    const char *name;
    void (*run)(void);
} test_all[100];
static unsigned test_count;

#define TEST(test)                                                                                 \
    static void test(void);                                                                        \
    __attribute__((constructor)) static void test##_is_a_test(void)                                \
    {                                                                                              \
        CHECK(test_count < sizeof(test_all) / sizeof(*test_all));                                  \
        test_all[test_count].name = #test;                                                         \
        test_all[test_count++].run = test;                                                         \
    }                                                                                              \
    static void test(void)

#define TEST_BETWEEN(test, before, behind)                                                         \
    static void test##_between(void);                                                              \
    TEST(test)                                                                                     \
    {                                                                                              \
        before;                                                                                    \
        test##_between();                                                                          \
        behind;                                                                                    \
    }                                                                                              \
    static void test##_between(void)

#define TEST_ON(test, type, name, created, end)                                                    \
    static void test##_on(type name);                                                              \
    TEST(test)                                                                                     \
    {                                                                                              \
        type made = created;                                                                       \
                                                                                                   \
        test##_on(made);                                                                           \
        end(made);                                                                                 \
    }                                                                                              \
    static void test##_on(type name)

#define TEST_WITH(test, created) TEST_ON(test, struct fixture *, f, created, destroy)

#define TEST_WITH_EACH(test, create, ...)                                                          \
    static void test##_with(struct fixture *f);                                                    \
    TEST(test)                                                                                     \
    {                                                                                              \
        const unsigned each[] = {__VA_ARGS__};                                                     \
        static char name[200];                                                                     \
                                                                                                   \
        for (size_t i = 0; i < sizeof each / sizeof *each; i++) {                                  \
            struct fixture *f = create(each[i]);                                                   \
                                                                                                   \
            snprintf(name, sizeof name, "%s, %u", #test, each[i]);                                 \
            run_name = name;                                                                       \
            test##_with(f);                                                                        \
            destroy(f);                                                                            \
        }                                                                                          \
    }                                                                                              \
    static void test##_with(struct fixture *f)

int main(int argc, char **argv)
{
    RUN_START(argc, argv);
    for (unsigned i = 0; i < test_count; i++) {
        run_name = test_all[i].name;
        if (run_only != NULL && strstr(run_name, run_only) == NULL)
            continue;
        test_all[i].run();
        printf("ok %d - %s\n", ++run_count, test_all[i].name);
        fflush(stdout);
    }
    return RUN_END();
}
