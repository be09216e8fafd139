/* test_check.c - a broken invariant is counted, and the place of the first one kept. */
#include <pthread.h>

#include "test.h"

static int hooked_line;

static void hook(const char *file, int line, const char *condition)
{
    (void)file, (void)condition;
    hooked_line = line;
}

static void as_in_the_product(void)
{
    fp_check_hook = NULL;
    fp_check_forget();
}

static void as_in_tests(void)
{
    fp_check_hook = run_broken;
}

#define CHECK_TEST(test) TEST_BETWEEN(test, as_in_the_product(), as_in_tests())

static const char *first(void)
{
    static char text[FP_CHECK_ROOM];

    fp_check_print(text);
    return text;
}

CHECK_TEST(what_holds_is_not_counted)
{
    uint64_t before = fp_check_count();
    int n = 1;

    CHECK(FP_CHECK(n == 1));
    CHECK_INT(fp_check_count(), before);
    CHECK_TEXT(first(), "");
}

CHECK_TEST(what_does_not_hold_is_false_and_counted)
{
    uint64_t before = fp_check_count();
    int n = 1;

    CHECK(!FP_CHECK(n == 2));
    CHECK(!FP_CHECK(n == 3));
    CHECK_INT(fp_check_count(), before + 2);
    CHECK(strstr(first(), "test_check.c:") != NULL);
    CHECK(strstr(first(), ": n == 2") != NULL);
}

CHECK_TEST(the_first_place_stays_until_it_is_forgotten)
{
    uint64_t before = fp_check_count();

    (void)fp_check_broken("c_src/base/ring.c", 7, "a < b");
    (void)fp_check_broken("/some/checkout/c_src/store/sink.c", 8, "b < c");
    CHECK_TEXT(first(), "base/ring.c:7: a < b");
    fp_check_forget();
    CHECK_TEXT(first(), "");
    (void)fp_check_broken("/some/checkout/c_src/store/sink.c", 8, "b < c");
    CHECK_TEXT(first(), "store/sink.c:8: b < c");
    CHECK_INT(fp_check_count(), before + 3);
}

CHECK_TEST(a_hook_has_each_of_them)
{
    fp_check_hook = hook;
    (void)fp_check_broken("ring.c", 7, "a < b");
    CHECK_INT(hooked_line, 7);
    (void)fp_check_broken("ring.c", 9, "a < b");
    CHECK_INT(hooked_line, 9);
}

CHECK_TEST(a_condition_that_is_longer_than_its_room_is_cut)
{
    char condition[2 * FP_CHECK_ROOM];

    memset(condition, 'x', sizeof condition - 1);
    condition[sizeof condition - 1] = '\0';
    (void)fp_check_broken("ring.c", 7, condition);
    CHECK_INT(strlen(first()), FP_CHECK_ROOM - 1);
}

static void *break_many(void *arg)
{
    for (int i = 0; i < 10000; i++)
        (void)fp_check_broken("ring.c", 7, "a < b");
    return arg;
}

CHECK_TEST(those_of_two_threads_are_all_counted)
{
    uint64_t before = fp_check_count();
    pthread_t thread[2];

    for (int i = 0; i < 2; i++)
        CHECK_INT(pthread_create(&thread[i], NULL, break_many, NULL), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    CHECK_INT(fp_check_count(), before + 20000);
    CHECK_TEXT(first(), "ring.c:7: a < b");
}
