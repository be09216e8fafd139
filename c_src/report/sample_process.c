/* sample_process.c - processes by thread and Erlang pid; of each the words of its last whole
 * sample. */
#include "report/sample_process.h"

/* The words of a line that the profile keeps on their own. */
enum word { ERL_PID, NAME, LABEL, INITIAL_CALL, PROC_LIB_INITIAL_CALL, WORDS };

/* NULL, or why the text is damaged. Other words are kept as part of the whole. */
static const char *read_words(struct fp_slice text, struct fp_slice words[WORDS])
{
    static const struct fp_slice known[WORDS] = {{"erl_pid", 7},
                                                 {"name", 4},
                                                 {"label", 5},
                                                 {"initial_call", 12},
                                                 {"proc_lib_initial_call", 21}};
    const char *at = text.at, *end = at + text.size;
    struct fp_slice key, word;

    memset(words, 0, WORDS * sizeof(*words));
    while (at < end && fp_parse_word(&at, end, &key, &word)) {
        for (int w = 0; w < WORDS; w++) {
            if (fp_slice_is(key, known[w]))
                words[w] = word;
        }
    }
    return fp_check_words(text);
}

/* The first process of the OS process; `id`, which is new, where there is none. */
static int node_of(struct fp_profile *profile, uint64_t pid, uint32_t id, uint32_t *node)
{
    uint64_t hash = fp_hash_two(pid, UINT64_MAX);
    struct fp_table_at at;

    fp_table_seek(&profile->processes, hash, &at);
    while (fp_table_next(&profile->processes, &at, node)) {
        if (*node < id && profile->process[*node].pid == pid) {
            *node = profile->process[*node].node;
            return 0;
        }
    }
    *node = id;
    return fp_table_put(&profile->processes, &profile->budget, hash, id);
}

static int new_process(struct fp_profile *profile, const struct fp_sample *sample, uint32_t thread,
                       uint32_t erl_pid, uint64_t hash, uint32_t *id)
{
    const struct fp_header *header = &sample->header;
    struct fp_process *process;
    uint32_t comm, node;
    int err = fp_strings_intern(&profile->strings, &profile->budget, header->comm, &comm);

    if (err == 0)
        err = FP_GROW(&profile->budget, &profile->process, &profile->process_room,
                      profile->process_count + 1);
    *id = (uint32_t)profile->process_count;
    if (err == 0)
        err = node_of(profile, header->pid, *id, &node);
    /* Last: what is in the table is in process[], too. */
    if (err == 0)
        err = fp_table_put(&profile->processes, &profile->budget, hash, *id);
    if (err != 0)
        return err;
    process = &profile->process[profile->process_count++];
    *process = (struct fp_process){.thread = thread,
                                   .comm = comm,
                                   .pid = header->pid,
                                   .tid = header->tid,
                                   .erl_pid = erl_pid,
                                   .file = profile->row.file,
                                   .node = node,
                                   .is_own = fp_sample_is_own(sample),
                                   .first_us = header->time_us,
                                   .last_us = header->time_us};
    return 0;
}

/* Two processes can share a tid (doc/format.md): their pids differ. */
static int find_process(struct fp_profile *profile, const struct fp_sample *sample, uint32_t thread,
                        uint32_t erl_pid, uint32_t *id)
{
    uint64_t hash = fp_hash_two(thread, erl_pid);
    struct fp_table_at at;

    fp_table_seek(&profile->processes, hash, &at);
    while (fp_table_next(&profile->processes, &at, id)) {
        if (profile->process[*id].thread == thread && profile->process[*id].erl_pid == erl_pid)
            return 0;
    }
    return new_process(profile, sample, thread, erl_pid, hash, id);
}

static int update_words(struct fp_profile *profile, struct fp_process *process,
                        const struct fp_slice words[WORDS])
{
    uint32_t *const member[WORDS] = {[NAME] = &process->name,
                                     [LABEL] = &process->label,
                                     [INITIAL_CALL] = &process->initial_call,
                                     [PROC_LIB_INITIAL_CALL] = &process->proc_lib_initial_call};
    int err = 0;

    process->words = profile->fields.words;
    for (int w = NAME; w < WORDS && err == 0; w++) {
        if (words[w].size > 0)
            err = fp_strings_intern(&profile->strings, &profile->budget, words[w], member[w]);
    }
    return err;
}

/* The original has the pid without < > where the others have the name of the thread. */
static int original_pid(struct fp_profile *profile, struct fp_slice thread, uint32_t *id)
{
    char text[66];

    if (thread.size > sizeof(text) - 2)
        thread.size = sizeof(text) - 2;
    text[0] = '<';
    memcpy(text + 1, thread.at, thread.size);
    text[thread.size + 1] = '>';
    return fp_strings_intern(&profile->strings, &profile->budget,
                             (struct fp_slice){text, thread.size + 2}, id);
}

/* A process whose whole sample was lost, and now comes with its pid. */
static int name_process(struct fp_profile *profile, uint32_t thread, uint32_t erl_pid, uint32_t id)
{
    profile->process[id].erl_pid = erl_pid;
    return fp_table_put(&profile->processes, &profile->budget, fp_hash_two(thread, erl_pid), id);
}

static int process_of_words(struct fp_profile *profile, const struct fp_sample *sample,
                            uint32_t thread, struct fp_slice text, uint32_t *id)
{
    uint32_t last = profile->last[thread], erl_pid;
    struct fp_slice words[WORDS];
    int err;

    profile->bad = read_words(text, words);
    if (profile->bad != NULL)
        return FP_EINVAL;
    err = sample->dialect == FP_ORIGINAL
              ? original_pid(profile, sample->header.thread, &erl_pid)
              : fp_strings_intern(&profile->strings, &profile->budget, words[ERL_PID], &erl_pid);
    if (err == 0 && sample->is_carried && last != 0 && profile->process[last - 1].words == 0)
        err = name_process(profile, thread, erl_pid, *id);
    else if (err == 0)
        err = find_process(profile, sample, thread, erl_pid, id);
    if (err != 0)
        return err;
    profile->last[thread] = *id + 1;
    return update_words(profile, &profile->process[*id], words);
}

int fp_profile_process(struct fp_profile *profile, const struct fp_sample *sample, uint32_t *id)
{
    uint32_t thread, last, words = profile->fields.words;
    struct fp_slice text;
    char *copy;
    int err =
        fp_strings_intern(&profile->strings, &profile->budget, sample->header.thread, &thread);

    if (err == 0)
        err = FP_GROW_ZEROS(&profile->budget, &profile->last, &profile->last_room, thread + 1u);
    if (err != 0)
        return err;
    last = profile->last[thread];
    *id = last - 1;
    if (last != 0 && (profile->process[*id].words == words || (words == 0 && sample->is_carried)))
        return 0;
    /* The table of texts moves when one is added. */
    text = fp_profile_text(profile, words);
    copy = malloc(text.size + 1);
    if (copy == NULL)
        return FP_ENOMEM;
    memcpy(copy, text.at, text.size);
    err = process_of_words(profile, sample, thread, (struct fp_slice){copy, text.size}, id);
    free(copy);
    return err;
}
