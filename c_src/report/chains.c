/* chains.c - one pass over the ticks. A link of a chain costs one look into a table. */
#include "report/chains.h"

#include "base/error.h"
#include "format/encode.h"
#include "report/other_nodes.h"
#include "report/tick.h"

/* A stack below a node of the aggregate's tree. */
struct graft {
    uint32_t base, stack;
    uint32_t node;
};

struct chains {
    struct fp_aggregate *sums;
    const struct fp_query *query;
    struct fp_profile *profile;
    unsigned frames_most;
    struct fp_tick tick;
    struct fp_other_nodes others;
    uint32_t *name_of_process, *name_of_words; /* frames: the process waits for this */
    size_t process_room, words_room;
    uint32_t not_sampled, cycle, truncated; /* frames */
    uint16_t *depth;                        /* by node of the profile */
    size_t depth_room;
    uint32_t *walk; /* by process: the walk that it was met on last */
    size_t walk_room;
    uint32_t walks;
    struct graft *graft;
    size_t graft_count, graft_room;
    struct fp_table grafts;
    char *text;
    size_t text_room;
};

/* ---- frames ------------------------------------------------------------- */

/* `waits for LABEL PID`; the label is encoded already, a pid is not. */
static int name_of(struct chains *chains, uint32_t label, uint32_t pid, uint32_t *name)
{
    struct fp_budget *budget = &chains->profile->budget;
    struct fp_slice begin = FP_SLICE("waits%20for%20"), first, last;
    char *at;
    int err;

    first = fp_profile_text(chains->profile, label);
    last = fp_profile_text(chains->profile, label == pid ? 0 : pid);
    err = FP_GROW(budget, &chains->text, &chains->text_room,
                  begin.size + 3 * (first.size + last.size + 1));
    if (err != 0)
        return err;
    memcpy(chains->text, begin.at, begin.size);
    at = chains->text + begin.size;
    if (label == pid) {
        at = fp_put_encoded(at, first);
    } else {
        memcpy(at, first.at, first.size);
        at = fp_put_encoded(at + first.size, FP_SLICE(" "));
        at = fp_put_encoded(at, last);
    }
    return fp_aggregate_name(chains->sums,
                             (struct fp_slice){chains->text, (size_t)(at - chains->text)},
                             FP_SLICE("waits_for"), name);
}

/* All names before the first sample, so that frames have the same numbers in each query. */
static int make_names(struct chains *chains)
{
    struct fp_profile *profile = chains->profile;
    struct fp_budget *budget = &profile->budget;
    struct fp_slice dso = FP_SLICE("flame_prof");
    uint8_t *is_pid;
    size_t count = profile->strings.count;
    int err = FP_ZEROS(budget, &is_pid, count);

    if (err != 0)
        return err;
    err = FP_GROW_ZEROS(budget, &chains->name_of_process, &chains->process_room,
                        profile->process_count);
    if (err == 0)
        err = FP_GROW_ZEROS(budget, &chains->name_of_words, &chains->words_room,
                            profile->words_count);
    for (size_t i = 1; i < profile->words_count && err == 0; i++) {
        uint32_t waits_for = profile->words[i].waits_for;

        is_pid[waits_for] = 1;
        if (waits_for != 0)
            err = name_of(chains, waits_for, waits_for, &chains->name_of_words[i]);
    }
    for (size_t i = 0; i < profile->process_count && err == 0; i++) {
        const struct fp_process *process = &profile->process[i];

        if (process->erl_pid != 0 && is_pid[process->erl_pid])
            err = name_of(chains, fp_process_label(process), process->erl_pid,
                          &chains->name_of_process[i]);
    }
    FP_FREE(budget, is_pid, count);
    if (err == 0)
        err = fp_aggregate_name(chains->sums, FP_SLICE("not_sampled"), dso, &chains->not_sampled);
    if (err == 0)
        err = fp_aggregate_name(chains->sums, FP_SLICE("cycle"), dso, &chains->cycle);
    if (err == 0)
        err = fp_aggregate_name(chains->sums, FP_SLICE("truncated"), dso, &chains->truncated);
    return err;
}

static int make_depths(struct chains *chains)
{
    const struct fp_tree *tree = &chains->profile->tree;
    int err = FP_GROW_ZEROS(&chains->profile->budget, &chains->depth, &chains->depth_room,
                            tree->node_count);

    for (size_t n = 1; n < tree->node_count && err == 0; n++)
        chains->depth[n] = (uint16_t)(chains->depth[tree->node[n].parent] + 1);
    return err;
}

/* ---- a chain ------------------------------------------------------------ */

/* *node becomes the leaf of this stack of the profile below it. */
static int graft(struct chains *chains, uint32_t stack, uint32_t *node)
{
    const struct fp_tree *tree = &chains->profile->tree;
    struct fp_budget *budget = &chains->profile->budget;
    uint32_t frames[FP_FRAMES_MOST], id;
    struct graft made = {*node, stack, *node};
    uint64_t hash = fp_hash_two(*node, stack);
    struct fp_table_at at;
    size_t count = 0;
    int err;

    fp_table_seek(&chains->grafts, hash, &at);
    while (fp_table_next(&chains->grafts, &at, &id)) {
        if (chains->graft[id].base == *node && chains->graft[id].stack == stack) {
            *node = chains->graft[id].node;
            return 0;
        }
    }
    for (uint32_t n = stack; n != 0 && count < FP_FRAMES_MOST; n = tree->node[n].parent)
        frames[count++] = chains->sums->node[chains->sums->map[n]].frame;
    err = FP_GROW(budget, &chains->graft, &chains->graft_room, chains->graft_count + 1);
    while (count > 0 && err == 0)
        err = fp_aggregate_child(chains->sums, made.node, frames[--count], &made.node);
    if (err == 0)
        err = fp_table_put(&chains->grafts, budget, hash, (uint32_t)chains->graft_count);
    if (err == 0)
        chains->graft[chains->graft_count++] = made;
    *node = made.node;
    return err;
}

/* A sample of a chain: `tick` is its tick at another node, or NULL: this one. */
struct link {
    const struct fp_node_tick *tick;
    uint32_t process, stack, words;
};

static uint32_t waits_for(const struct chains *chains, uint32_t words)
{
    return words == 0 ? 0 : chains->profile->words[words].waits_for;
}

/* Is the text one of a local process? */
static bool is_process(const struct chains *chains, uint32_t text)
{
    struct fp_slice pid = fp_profile_text(chains->profile, text);

    return pid.size > 0 && pid.at[0] == '<';
}

/* Sets the link to the sample of a process at its tick; false: it has none. */
static bool find_sample(const struct chains *chains, struct link *link, uint32_t process)
{
    const struct fp_tick_sample *here;
    const struct fp_node_sample *there;

    if (link->tick == NULL) {
        here = fp_tick_sample_of(&chains->tick, process);
        if (here != NULL)
            *link = (struct link){NULL, process, here->stack, here->words};
        return here != NULL;
    }
    there = fp_other_nodes_sample(&chains->others, link->tick, process);
    if (there != NULL)
        *link = (struct link){link->tick, process, there->stack, there->words};
    return there != NULL;
}

/* From a sample to the one of what it waits for, at another node. */
static bool find_elsewhere(const struct chains *chains, struct link *link)
{
    const struct fp_node_target *target = &chains->others.target[link->words];

    link->tick = fp_other_nodes_tick(&chains->others, target->node, chains->tick.time_us);
    for (uint32_t i = 0; i < target->count && link->tick != NULL; i++) {
        if (find_sample(chains, link, chains->others.process[target->first + i]))
            return true;
    }
    return false;
}

/* From a sample to the one of what it waits for. *name is its frame. 0, or how the chain ends:
 * UINT32_MAX: with the name. */
static uint32_t follow(const struct chains *chains, struct link *link, uint32_t *name)
{
    uint32_t text = waits_for(chains, link->words), target;

    *name = chains->name_of_words[link->words];
    if (chains->others.target[link->words].node != 0)
        return find_elsewhere(chains, link) ? 0 : chains->not_sampled;
    if (!is_process(chains, text))
        return UINT32_MAX;
    target = fp_tick_target(&chains->tick, link->process, text);
    if (target == UINT32_MAX)
        return chains->not_sampled;
    *name = chains->name_of_process[target];
    return find_sample(chains, link, target) ? 0 : chains->not_sampled;
}

static int make_chain(struct chains *chains, const struct fp_tick_sample *sample, uint32_t *node)
{
    const struct fp_tree *tree = &chains->profile->tree;
    struct link link = {NULL, sample->process, sample->stack, sample->words};
    uint32_t stack = tree->stack[sample->stack].node, name, end = 0;
    unsigned depth = chains->depth[stack], links = 0;
    int err = 0;

    *node = chains->sums->map[stack];
    /* Two more frames have to find room: a name, and how the chain ends. */
    if (depth + 2 > chains->frames_most)
        return depth < chains->frames_most
                   ? fp_aggregate_child(chains->sums, *node, chains->truncated, node)
                   : 0;
    chains->walks++;
    while (err == 0 && end == 0 && waits_for(chains, link.words) != 0) {
        chains->walk[link.process] = chains->walks;
        end = follow(chains, &link, &name);
        err = fp_aggregate_child(chains->sums, *node, name, node);
        if (end != 0)
            break;
        stack = tree->stack[link.stack].node;
        depth += 1u + chains->depth[stack];
        if (chains->walk[link.process] == chains->walks)
            end = chains->cycle;
        else if (++links == FP_CHAIN_LINKS_MOST || depth + 2 > chains->frames_most)
            end = chains->truncated;
        else if (err == 0)
            err = graft(chains, stack, node);
    }
    if (err != 0 || end == 0 || end == UINT32_MAX)
        return err;
    return fp_aggregate_child(chains->sums, *node, end, node);
}

/* The rows of the tick again, as their own samples. */
static int each_of_tick(struct chains *chains, struct fp_cursor *rows, fp_chain_each *each,
                        void *arg)
{
    const struct fp_tick_sample *samples = chains->tick.sample;
    uint32_t node;
    struct fp_row row;
    int err = 0;

    for (size_t i = 0; i < chains->tick.count && err == 0;) {
        int64_t weight;

        err = fp_cursor_next(rows, &row);
        if (err <= 0)
            break;
        err = 0;
        if (chains->profile->process[row.process].is_own)
            continue;
        if (waits_for(chains, row.words) != 0 &&
            fp_row_weight(chains->profile, chains->query, &row, &weight) && weight != 0) {
            err = make_chain(chains, &samples[i], &node);
            if (err == 0)
                err = each(arg, &row, weight, node);
        }
        i++;
    }
    return err;
}

static int each_tick(struct chains *chains, fp_chain_each *each, void *arg)
{
    struct fp_profile *profile = chains->profile;
    struct fp_cursor rows;
    int more, err = 0;

    fp_cursor_open(&rows, &profile->rows, profile->schema, &profile->budget);
    while (err == 0 && (more = fp_tick_next(&chains->tick)) != 0)
        err = more < 0 ? more : each_of_tick(chains, &rows, each, arg);
    fp_cursor_close(&rows);
    return err;
}

static void free_chains(struct chains *chains)
{
    struct fp_budget *budget = &chains->profile->budget;

    fp_tick_close(&chains->tick);
    fp_other_nodes_close(&chains->others);
    FP_FREE(budget, chains->name_of_process, chains->process_room);
    FP_FREE(budget, chains->name_of_words, chains->words_room);
    FP_FREE(budget, chains->depth, chains->depth_room);
    FP_FREE(budget, chains->walk, chains->walk_room);
    FP_FREE(budget, chains->graft, chains->graft_room);
    FP_FREE(budget, chains->text, chains->text_room);
    fp_table_free(&chains->grafts, budget);
}

int fp_chains_each(struct fp_aggregate *sums, const struct fp_query *query, unsigned frames_most,
                   fp_chain_each *each, void *arg)
{
    struct chains chains = {
        .sums = sums, .query = query, .profile = sums->profile, .frames_most = frames_most};
    int err, others;

    if (sums->map == NULL)
        return FP_EINVAL;
    err = fp_tick_open(&chains.tick, sums->profile);
    others = fp_other_nodes_open(&chains.others, sums->profile);
    if (err == 0)
        err = others;
    if (err == 0)
        err = FP_GROW_ZEROS(&chains.profile->budget, &chains.walk, &chains.walk_room,
                            chains.profile->process_count);
    if (err == 0)
        err = make_depths(&chains);
    if (err == 0)
        err = make_names(&chains);
    if (err == 0)
        err = each_tick(&chains, each, arg);
    free_chains(&chains);
    return err;
}
