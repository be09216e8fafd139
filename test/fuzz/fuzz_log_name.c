/* fuzz_log_name.c - any text as the name of a profile file. */
#include "fuzz.h"

#include "store/log_name.h"

void fuzz_log_name(const uint8_t *bytes, size_t size)
{
    struct fp_log_name name, again;
    char *text = malloc(size + 1), printed[FP_LOG_NAME_ROOM];
    char key[FP_LOG_KEY_ROOM];

    FUZZ_CHECK(text != NULL);
    if (size > 0)
        memcpy(text, bytes, size);
    text[size] = '\0';
    if (fp_log_name_parse(&name, text)) {
        fp_log_name_print(&name, printed);
        FUZZ_CHECK(strcmp(printed, text) == 0);
        memcpy(key, name.key, sizeof key);
        fp_log_key_increase(name.key);
        FUZZ_CHECK(strcmp(key, name.key) < 0 || strlen(key) + 4 >= FP_LOG_KEY_ROOM);
        fp_log_name_print(&name, printed);
        FUZZ_CHECK(fp_log_name_parse(&again, printed));
        FUZZ_CHECK(strcmp(name.key, again.key) == 0);
    }
    free(text);
}
