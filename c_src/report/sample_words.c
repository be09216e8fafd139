/* sample_words.c - few combinations of texts, and references as numbers: each call has one of its
 * own. */
#include "report/sample_words.h"

#include <stdio.h>

/* Of two atoms, as Node/Name: 255 characters of three bytes each, each byte as %HH. */
#define TEXT_MOST (2 * 255 * 9 + 64)

/* A colon is encoded in a file. Between the kind and the tag of a message stands a `/` there. */
static int intern(struct fp_profile *profile, struct fp_slice text, bool is_message, uint32_t *id)
{
    char plain[TEXT_MOST];
    size_t size = 0;
    bool has_kind = !is_message;

    if (text.size > sizeof(plain))
        text.size = sizeof(plain);
    for (size_t i = 0; i < text.size; i++) {
        bool is_colon = text.size - i >= 3 && memcmp(text.at + i, "%3A", 3) == 0;
        bool is_kind = !has_kind && text.at[i] == '/';

        plain[size++] = is_colon || is_kind ? ':' : text.at[i];
        i += is_colon ? 2 : 0;
        has_kind |= is_kind;
    }
    return fp_strings_intern(&profile->strings, &profile->budget, (struct fp_slice){plain, size},
                             id);
}

int fp_profile_word(struct fp_profile *profile, struct fp_slice text, uint32_t *id)
{
    return intern(profile, text, false, id);
}

/* For snprintf(), of a number or a word. */
#define FP_MOST(text) (int)((text).size > 24 ? 24 : (text).size), (text).size > 0 ? (text).at : ""

static int intern_words(struct fp_profile *profile, const struct fp_words *words, uint32_t *id)
{
    uint64_t hash = fp_hash(words, sizeof(*words));
    struct fp_table_at at;
    int err;

    fp_table_seek(&profile->words_table, hash, &at);
    while (fp_table_next(&profile->words_table, &at, id)) {
        if (memcmp(&profile->words[*id], words, sizeof(*words)) == 0)
            return 0;
    }
    if (profile->words_count == 0)
        profile->words_count = 1; /* number 0 */
    err = FP_GROW_ZEROS(&profile->budget, &profile->words, &profile->words_room,
                        profile->words_count + 1);
    *id = (uint32_t)profile->words_count;
    if (err == 0)
        err = fp_table_put(&profile->words_table, &profile->budget, hash, *id);
    if (err == 0)
        profile->words[profile->words_count++] = *words;
    return err;
}

/* Long collections are few: a text each. */
static int intern_collection(struct fp_profile *profile, const struct fp_slice *text, uint32_t *id)
{
    char room[128];
    int size;

    if (text[FP_WORD_collection_us].size == 0)
        return 0;
    size = snprintf(room, sizeof(room), "%.*s %.*s %.*s", FP_MOST(text[FP_WORD_collection_us]),
                    FP_MOST(text[FP_WORD_collection]), FP_MOST(text[FP_WORD_cause]));
    return fp_strings_intern(&profile->strings, &profile->budget,
                             (struct fp_slice){room, (size_t)size}, id);
}

int fp_profile_words(struct fp_profile *profile, struct fp_row *row)
{
    struct fp_slice text[FP_SAMPLE_WORDS];
    struct fp_words words = {0};
    int err = 0;

    row->words = 0;
    row->serves = row->call = (struct fp_reference){0};
    if (profile->fields.of_sample.size == 0)
        return 0;
    fp_sample_words(profile->fields.of_sample, text);
    if (fp_parse_reference(text[FP_WORD_serves], &row->serves))
        words.references |= FP_WORDS_SERVES;
    if (fp_parse_reference(text[FP_WORD_call], &row->call))
        words.references |= FP_WORDS_CALL;
    err = intern(profile, text[FP_WORD_message], true, &words.message);
    if (err == 0)
        err = intern(profile, text[FP_WORD_waits_for], false, &words.waits_for);
    if (err == 0)
        err = intern(profile, text[FP_WORD_request], false, &words.request);
    if (err == 0)
        err = intern(profile, text[FP_WORD_trace], false, &words.trace);
    if (err == 0)
        err = intern(profile, text[FP_WORD_span], false, &words.span);
    if (err == 0)
        err = intern_collection(profile, text, &words.collection);
    return err != 0 ? err : intern_words(profile, &words, &row->words);
}
