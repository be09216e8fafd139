/* What perf script prints of other programs, in the forms that its options make: real lines. */
#include <string.h>

#include "profile_text.h"
#include "test.h"

#define SYMBOL "%28anonymous%20namespace%29::box%3Cint%3E::operator%28%29"

static void check_text(const char *text, const char *expected)
{
    struct fp_profile *profile = profile_of(text, strlen(text));

    check_profile(profile, expected);
    CHECK_INT(profile->warning_count, 0);
    CHECK_INT(profile->file->dialect, FP_PERF);
    fp_profile_destroy(profile);
}

/* perf aligns the commands at the right then, and an address may be a command's name. */
TEST(without_call_chains)
{
    check_text("   wor ker:1 [x] 23773 57841.112449:    3333333 cpu-clock:      5594a18343c1 "
               "(anonymous namespace)::box<int>::operator()+0x3b (/tmp/a.out)\n"
               "         beef 12 23774 57841.115780:    3333333 cpu-clock:      5594a18343a4 "
               "work+0x1e (/tmp/a.out)\n"
               "            cafe 23775 [001] 57841.119942:          1      page-faults:  "
               "ffffffff821fb643 schedule+0x23 ([kernel.kallsyms])\n"
               "a.out-with-16-bytes 23776 57841.119943: cycles:      5594a18343a4 f (a)\n",
               "57841112449 wor ker:1 [x] 23773 [] 3333333 " SYMBOL "@/tmp/a.out\n"
               "57841115780 beef 12 23774 [] 3333333 work@/tmp/a.out\n"
               "57841119942 cafe 23775 [] 1 schedule@[kernel.kallsyms]\n"
               "57841119943 a.out-with-16-bytes 23776 [] 1 f@a\n");
}

TEST(with_lines_of_the_source)
{
    check_text("cafe 23794 57843.352816:    3333333 cpu-clock: \n"
               "\t            13c1 (anonymous namespace)::box<int>::operator()+0x3b (/tmp/a.out)\n"
               "  w.cpp:6\n"
               "\t           891f5 start_thread+0x305 (/usr/lib/libc.so.6)\n"
               "  pthread_create.c:442\n\n"
               "cafe 23794 57843.356149:    3333333 cpu-clock: \n"
               "\t           891f5 start_thread+0x305 (/usr/lib/libc.so.6)\n"
               "  pthread_create.c:442\n\n",
               "57843352816 cafe 23794 [] 3333333 " SYMBOL "@/tmp/a.out"
               " start_thread@/usr/lib/libc.so.6\n"
               "57843356149 cafe 23794 [] 3333333 start_thread@/usr/lib/libc.so.6\n");
    check_text("   wor ker:1 [x] 23773 57841.112449:    3333333 cpu-clock:      5594a18343c1 "
               "work+0x3b (/tmp/a.out)\n  w.cpp:6\n"
               "            cafe 23775 57841.119942:    3333333 cpu-clock:      5594a18343a4 "
               "work+0x1e (/tmp/a.out)\n  w.cpp:6\n",
               "57841112449 wor ker:1 [x] 23773 [] 3333333 work@/tmp/a.out\n"
               "57841119942 cafe 23775 [] 3333333 work@/tmp/a.out\n");
}

TEST(without_event_or_library)
{
    check_text("cafe 23794 57843.352816: \n"
               "\t            13c1 (anonymous namespace)::box<int>::operator()\n"
               "\t           891f5 start_thread\n\n",
               "57843352816 cafe 23794 [] 1 " SYMBOL "@[unknown] start_thread@[unknown]\n");
    check_text("            cafe 23775 57841.119942:      5594a18343a4 work (/tmp/a.out)\n"
               "            cafe 23775 57841.119943:      559401834374 work\n"
               "            cafe 23775 57841.119944:         77      5594a18343a4 work\n",
               "57841119942 cafe 23775 [] 1 work@/tmp/a.out\n"
               "57841119943 cafe 23775 [] 1 work@[unknown]\n"
               "57841119944 cafe 23775 [] 77 work@[unknown]\n");
}

TEST(with_ends_of_lines_of_windows)
{
    check_text("cafe 23794 57843.352816:    3333333 cpu-clock: \r\n"
               "\t            13c1 work+0x3b (/tmp/a.out)\r\n\r\n"
               "cafe 23794 57843.356149:    3333333 cpu-clock: \r\n"
               "\t            13c1 work+0x3b (/tmp/a.out)\r\n\r\n",
               "57843352816 cafe 23794 [] 3333333 work@/tmp/a.out\n"
               "57843356149 cafe 23794 [] 3333333 work@/tmp/a.out\n");
}

/* What cannot be read is refused by name, and for each sample. */
TEST(other_fields_are_refused_by_name)
{
    static const struct {
        const char *text, *what;
    } refused[] = {
        {"cafe 23794 cpu-clock: \n\t 13c1 f+0x3b (/tmp/a.out)\n\n", "no time in the header"},
        {"cafe 57843.352816: cpu-clock: \n\t 13c1 f (a)\n\n", "no process and thread number"},
        {"23794 57843.352816: cpu-clock: \n\t 13c1 f (a)\n\n", "no command name"},
        {"cafe 23794 57843.352816: cpu-clock: \n\t 13c1\n\n", "a frame without an address"},
        {"   cafe 23794 57843.352816: cpu-clock: \n", "no frames"},
        {"cafe 23794 57843.352816: cycl\n\t 13c1 f (a)\n\n", "no event name"},
        {"cafe 23794 57843.352816: e: \n\t 13c1 f+0x3b (/tmp/a.o\n\n", "a frame without a (dso)"},
    };

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct fp_profile *profile = profile_of(refused[i].text, strlen(refused[i].text));

        CHECK_INT(profile->rows.count, 0);
        CHECK_INT(profile->file->bad, 1);
        CHECK_TEXT(profile->warning[0].what, refused[i].what);
        fp_profile_destroy(profile);
    }
}

/* A header of a session that a changed byte makes one of another program's. */
TEST(damaged_headers_of_sessions_are_no_others)
{
    static const struct {
        const char *header, *what;
    } damaged[] = {{"beam 1/2\tx [000] 2.000002: e:", "no process and thread number"},
                   {"beam 1/2 2.000002: e:", "a damaged header"},
                   {"beam 1/2 [000] 2.000002: e: ", "a damaged header"},
                   {" beam 1/2 2.000002: e:", "a damaged header"}};

    for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
        char text[400];
        int size = snprintf(text, sizeof(text),
                            "beam 1/2 [000] 1.000001: e:\n\tff a:a/0 (a)\n\tff waiting (status)\n\n"
                            "%s\n\tff a:a/0 (a)\n\tff waiting (status)\n\n",
                            damaged[i].header);
        struct fp_profile *profile = profile_of(text, (size_t)size);

        CHECK_INT(profile->rows.count, 1);
        CHECK_INT(profile->file->bad, 1);
        CHECK_TEXT(profile->warning[0].what, damaged[i].what);
        fp_profile_destroy(profile);
    }
}
