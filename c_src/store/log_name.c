#include "store/log_name.h"

#include <stdio.h>
#include <string.h>

static const char *const kinds[] = {
    [FP_LOG_SAMPLES] = ".erl_perf.log", [FP_LOG_ALLOCATIONS] = ".erl_alloc.log"};

/* '0' stands for any digit. */
static const char second_shape[] = "0000-00-00@0000.00";
static const char suffix_shape[] = "_000";
#define SECOND_SIZE (sizeof(second_shape) - 1)
#define SUFFIX_SIZE (sizeof(suffix_shape) - 1)

static bool has_shape(const char *text, const char *shape)
{
    for (; *shape != '\0'; shape++, text++) {
        bool is_digit = *text >= '0' && *text <= '9';

        if (*shape == '0' ? !is_digit : *text != *shape)
            return false;
    }
    return true;
}

/* Takes `word` off the end of the text of *size bytes where it ends with that. */
static bool cut(const char *text, size_t *size, const char *word)
{
    size_t word_size = strlen(word);

    if (*size < word_size || memcmp(text + *size - word_size, word, word_size) != 0)
        return false;
    *size -= word_size;
    return true;
}

bool fp_log_is_node(const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c <= ' ' || *c == '/' || *c == 0x7f)
            return false;
    return strchr(text, '@') != NULL && strlen(text) < FP_LOG_NODE_ROOM;
}

/* The text behind the key: nothing, or a point and the node. */
static bool read_node(struct fp_log_name *name, const char *text, size_t size)
{
    name->node[0] = '\0';
    if (size == 0)
        return true;
    if (text[0] != '.' || size > sizeof(name->node))
        return false;
    snprintf(name->node, sizeof(name->node), "%.*s", (int)(size - 1), text + 1);
    return fp_log_is_node(name->node);
}

bool fp_log_name_parse(struct fp_log_name *name, const char *text)
{
    size_t size = strlen(text), key = SECOND_SIZE;

    if (!has_shape(text, second_shape))
        return false;
    while (has_shape(text + key, suffix_shape))
        key += SUFFIX_SIZE;
    if (key >= sizeof(name->key))
        return false;
    snprintf(name->key, sizeof(name->key), "%.*s", (int)key, text);
    name->is_part = cut(text, &size, ".part");
    name->is_zst = cut(text, &size, ".zst");
    if (cut(text, &size, kinds[FP_LOG_SAMPLES]))
        name->kind = FP_LOG_SAMPLES;
    else if (cut(text, &size, kinds[FP_LOG_ALLOCATIONS]))
        name->kind = FP_LOG_ALLOCATIONS;
    else
        return false;
    return size >= key && read_node(name, text + key, size - key);
}

void fp_log_name_print(const struct fp_log_name *name, char text[FP_LOG_NAME_ROOM])
{
    snprintf(text, FP_LOG_NAME_ROOM, "%s%s%s%s%s%s", name->key, name->node[0] != '\0' ? "." : "",
             name->node, kinds[name->kind], name->is_zst ? ".zst" : "",
             name->is_part ? ".part" : "");
}

void fp_log_key_of(char key[FP_LOG_KEY_ROOM], time_t time)
{
    struct tm local;

    /* A year of five digits breaks the order of keys. */
    if (localtime_r(&time, &local) == NULL || local.tm_year < 0 || local.tm_year > 8099 ||
        strftime(key, FP_LOG_KEY_ROOM, "%Y-%m-%d@%H%M.%S", &local) != SECOND_SIZE)
        snprintf(key, FP_LOG_KEY_ROOM, "1970-01-01@0000.00");
}

int fp_log_key_compare_seconds(const char *a, const char *b)
{
    return strncmp(a, b, SECOND_SIZE);
}

/* '_' is greater than the '.' behind a key, so `07_001` follows `07`; behind `07_999` comes
 * `07_999_001`. */
void fp_log_key_increase(char key[FP_LOG_KEY_ROOM])
{
    size_t size = strlen(key);

    if (size > SECOND_SIZE && strcmp(key + size - 3, "999") != 0) {
        char *digit = key + size - 1;

        for (; *digit == '9'; digit--)
            *digit = '0';
        (*digit)++;
    } else if (size + SUFFIX_SIZE < FP_LOG_KEY_ROOM) {
        strcpy(key + size, "_001");
    }
}
