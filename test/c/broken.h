/* broken.h - what the product does when an invariant is broken: the test breaks it by hand.
 *
 *      CHECK_BROKEN("base/ring.c", CHECK(fp_ring_reserve(ring, 7) == NULL));
 *
 * In the statement a broken invariant is counted, and ends nothing. It must be one of this file. */
#pragma once

#include "run.h"

static void broken_is_in(const char *file)
{
    char place[FP_CHECK_ROOM];
    size_t size = strlen(file);

    fp_check_print(place);
    if (strncmp(place, file, size) != 0 || place[size] != ':')
        RUN_FAIL("expected a broken invariant of %s, not \"%s\"", file, place);
}

#define CHECK_BROKEN(file, statement)                                                              \
    do {                                                                                           \
        fp_check_forget();                                                                         \
        fp_check_hook = NULL;                                                                      \
        statement;                                                                                 \
        fp_check_hook = run_broken;                                                                \
        broken_is_in(file);                                                                        \
    } while (0)
