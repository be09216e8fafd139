/* parse_words.c - the words of a process and of a sample. */
#include "format/parse_text.h"

#define WORDS_MOST 32

static const struct fp_slice sample_keys[] = {
#define KEY(name) [FP_WORD_##name] = FP_SLICE(#name),
    FP_SAMPLE_WORD_MAP(KEY)
#undef KEY
};

static int sample_word_of(struct fp_slice key)
{
    int word = 0;

    while (word < FP_SAMPLE_WORDS && !fp_slice_is(key, sample_keys[word]))
        word++;
    return word < FP_SAMPLE_WORDS ? word : -1;
}

bool fp_is_word_key(struct fp_slice key)
{
    static const struct fp_slice keys[] = {
        {"erl_pid", 7}, {"name", 4},      {"label", 5},
        {"node", 4},    {"scheduler", 9}, {"initial_call", 12},
        {"format", 6},  {"otp", 3},       {"proc_lib_initial_call", 21},
        {"version", 7},
    };

    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        if (fp_slice_is(key, keys[i]))
            return true;
    }
    return sample_word_of(key) >= 0;
}

/* A whole sample's first word tells whose it is. */
static bool is_first_key(const struct fp_sample *sample, struct fp_slice key)
{
    if (fp_sample_is_own(sample))
        return fp_slice_is(key, FP_SLICE("name"));
    return fp_slice_is(key, FP_SLICE("erl_pid")) || fp_slice_is(key, FP_SLICE("scheduler"));
}

int fp_parse_word(const char **at, const char *end, struct fp_slice *key, struct fp_slice *text)
{
    const char *stop = memchr(*at, ' ', (size_t)(end - *at));
    const char *p = take_key(*at, end, FP_SLICE(""), key);

    if (stop == NULL)
        stop = end;
    if (p == NULL || !take_literal(&p, stop, "=", 1))
        return 0;
    /* A number stands before the words, or is damaged. */
    if (p < stop && (is_digit(*p) || *p == '-') && !fp_is_word_key(*key))
        return 0;
    *text = between(p, stop);
    *at = stop < end ? stop + 1 : stop;
    return 1;
}

const char *fp_parse_words(const struct fp_sample *sample, struct fp_slice words)
{
    const char *at = words.at;
    struct fp_slice key, text;

    if (words.size == 0)
        return NULL;
    if (!fp_parse_word(&at, words.at + words.size, &key, &text) ||
        (sample->is_carried && !is_first_key(sample, key)))
        return "a metric or word that makes no sense";
    return NULL;
}

const char *fp_check_words(struct fp_slice words)
{
    const char *at = words.at, *end = at + words.size;
    struct fp_slice key[WORDS_MOST], text;

    for (int count = 0; at < end; count++) {
        if (count == WORDS_MOST)
            return "too many words";
        if (!fp_parse_word(&at, end, &key[count], &text))
            return "a metric or word that makes no sense";
        for (int i = 0; i < count; i++) {
            if (fp_slice_is(key[i], key[count]))
                return "a word twice in one line";
        }
    }
    return NULL;
}

/* ---- words of a sample -------------------------------------------------- */

int fp_parse_reference(struct fp_slice text, struct fp_reference *reference)
{
    const char *at = text.at, *end;
    uint64_t n[3];

    if (text.size == 0)
        return 0;
    end = at + text.size;
    for (int i = 0; i < 3; i++) {
        if ((i > 0 && !take_literal(&at, end, ".", 1)) || !take_digits(&at, end, &n[i]) ||
            n[i] > UINT32_MAX)
            return 0;
    }
    *reference = (struct fp_reference){n[0] << 32 | n[1], (uint32_t)n[2]};
    return at == end;
}

static bool is_number(struct fp_slice text)
{
    const char *at = text.at;
    uint64_t number;

    return take_digits(&at, text.at + text.size, &number) && at == text.at + text.size &&
           number <= INT64_MAX;
}

/* Each word once, with a text; nothing else behind the first one. */
static const char *check_sample_words(struct fp_slice of_sample)
{
    const char *at = of_sample.at, *end = at + of_sample.size;
    struct fp_slice key, text;
    struct fp_reference reference;
    unsigned seen = 0;

    while (at < end) {
        int word = fp_parse_word(&at, end, &key, &text) ? sample_word_of(key) : -1;

        if (word < 0 || text.size == 0)
            return "a metric or word that makes no sense";
        if (seen >> word & 1)
            return "a word twice in one line";
        if (word == FP_WORD_collection_us && !is_number(text))
            return "a length that makes no sense";
        if ((word == FP_WORD_serves || word == FP_WORD_call) &&
            !fp_parse_reference(text, &reference))
            return "a reference that makes no sense";
        seen |= 1u << word;
    }
    return NULL;
}

const char *fp_split_words(const struct fp_sample *sample, struct fp_slice *words,
                           struct fp_slice *of_sample)
{
    const char *at = words->at, *end = at + words->size, *begin = at;
    struct fp_slice key, text;

    *of_sample = between(end, end);
    /* Lines of metrics have none, but for those of allocations. */
    if ((!sample->is_carried && !fp_is_allocation(sample->header.event)) ||
        fp_sample_is_own(sample))
        return NULL;
    while (at < end && fp_parse_word(&at, end, &key, &text)) {
        if (sample_word_of(key) >= 0) {
            *of_sample = between(begin, end);
            *words = between(words->at, begin > words->at ? begin - 1 : begin);
            return check_sample_words(*of_sample);
        }
        begin = at;
    }
    return NULL;
}

void fp_sample_words(struct fp_slice of_sample, struct fp_slice text[FP_SAMPLE_WORDS])
{
    const char *at = of_sample.at, *end = at + of_sample.size;
    struct fp_slice key, one;

    memset(text, 0, FP_SAMPLE_WORDS * sizeof(*text));
    while (at < end && fp_parse_word(&at, end, &key, &one)) {
        int word = sample_word_of(key);

        if (word >= 0)
            text[word] = one;
    }
}
