/* tree.c - a text is read leaf first, and put into the tree root first. */
#include "report/tree.h"

/* Nearly each text of perf is new, because it holds addresses: the cache does not grow with the
 * file. */
#define RAW_MOST ((size_t)64 << 20)
#define ROOT_FRAMES 49 /* of a stack that is shortened, as doc/format.md says */

int fp_tree_create(struct fp_tree *tree, struct fp_strings *strings, struct fp_budget *budget)
{
    *tree = (struct fp_tree){.strings = strings, .budget = budget};
    tree->encoded = malloc(FP_ENCODED_BYTES);
    if (tree->encoded == NULL)
        return FP_ENOMEM;
    tree->node_count = 1; /* the root, which is zeros */
    return FP_GROW_ZEROS(budget, &tree->node, &tree->node_room, 1);
}

void fp_tree_free(struct fp_tree *tree)
{
    struct fp_budget *budget = tree->budget;

    FP_FREE(budget, tree->frame, tree->frame_room);
    FP_FREE(budget, tree->node, tree->node_room);
    FP_FREE(budget, tree->stack, tree->stack_room);
    FP_FREE(budget, tree->raw, tree->raw_room);
    FP_FREE(budget, tree->raw_stack, tree->raw_stack_room);
    fp_table_free(&tree->frames, budget);
    fp_table_free(&tree->nodes, budget);
    fp_table_free(&tree->stacks, budget);
    fp_table_free(&tree->raws, budget);
    free(tree->encoded);
    free(tree->line);
}

/* -------------------------------------------------------------- raw texts -- */

int fp_tree_find(struct fp_tree *tree, uint64_t hash, enum fp_dialect dialect, uint32_t status,
                 struct fp_slice text, uint32_t *id)
{
    struct fp_table_at at;
    uint32_t n;

    fp_table_seek(&tree->raws, hash, &at);
    while (fp_table_next(&tree->raws, &at, &n)) {
        const struct fp_raw_stack *raw = &tree->raw_stack[n];

        if (raw->size == text.size && raw->dialect == dialect && raw->status == status &&
            (text.size == 0 || memcmp(tree->raw + raw->at, text.at, text.size) == 0)) {
            *id = raw->stack;
            tree->is_shortened = raw->is_shortened;
            return 1;
        }
    }
    return 0;
}

static int keep_raw(struct fp_tree *tree, uint64_t hash, struct fp_slice text,
                    struct fp_raw_stack raw)
{
    int err;

    if (text.size > RAW_MOST / 16)
        return 0;
    if (tree->raw_size + text.size > RAW_MOST) {
        tree->raw_size = tree->raw_count = 0;
        fp_table_clear(&tree->raws);
    }
    err = FP_GROW(tree->budget, &tree->raw, &tree->raw_room, tree->raw_size + text.size);
    if (err == 0)
        err = FP_GROW(tree->budget, &tree->raw_stack, &tree->raw_stack_room, tree->raw_count + 1);
    if (err == 0)
        err = fp_table_put(&tree->raws, tree->budget, hash, (uint32_t)tree->raw_count);
    if (err != 0)
        return err;
    raw.at = tree->raw_size;
    raw.size = (uint32_t)text.size;
    tree->raw_stack[tree->raw_count++] = raw;
    if (text.size > 0)
        memcpy(tree->raw + tree->raw_size, text.at, text.size);
    tree->raw_size += text.size;
    return 0;
}

/* ----------------------------------------------------- frames, nodes, ids -- */

FP_INTERN_PAIR(intern_frame, struct fp_tree, struct fp_frame_ids, frame, frames, symbol, dso)
FP_INTERN_PAIR(intern_node, struct fp_tree, struct fp_node, node, nodes, parent, frame)
FP_INTERN_PAIR(intern_stack, struct fp_tree, struct fp_stack_ids, stack, stacks, node, status)

struct frames {
    uint32_t id[FP_FRAMES_MOST];
    size_t count;
};

/* The place of this line in the cache; NULL: it has none. */
static struct fp_known_line *known_line(struct fp_tree *tree, enum fp_dialect dialect,
                                        struct fp_slice line)
{
    if (dialect == FP_FLAME_PROF || line.size == 0 || line.size > FP_LINE_BYTES)
        return NULL;
    if (tree->line == NULL)
        tree->line = calloc(FP_LINES, sizeof(*tree->line));
    if (tree->line == NULL)
        return NULL;
    return &tree->line[fp_hash(line.at, line.size) % FP_LINES];
}

/* The frame at *at, which moves to the next line. *is_status: it is a session's status frame, and
 * *id is its text. */
static int read_frame(struct fp_tree *tree, enum fp_dialect dialect, const char **at,
                      const char *end, uint32_t *id, int *is_status, const char **bad)
{
    const char *begin = *at, *stop = memchr(begin, '\n', (size_t)(end - begin));
    struct fp_slice line = {begin, (size_t)((stop == NULL ? end : stop) - begin)};
    struct fp_known_line *known = known_line(tree, dialect, line);
    struct fp_frame_text frame;
    struct fp_frame_ids pair;
    int err;

    if (known != NULL && known->dialect == dialect &&
        fp_slice_is(line, (struct fp_slice){known->text, known->size})) {
        *at = stop == NULL ? end : stop + 1;
        *id = known->frame;
        return 0;
    }
    *bad = fp_parse_frame(dialect, at, end, tree->encoded, &frame);
    if (*bad != NULL)
        return FP_EINVAL;
    *is_status = dialect == FP_FLAME_PROF && *at == end && fp_is_status(&frame);
    if (*is_status)
        return fp_strings_intern(tree->strings, tree->budget, frame.symbol, id);
    err = fp_strings_intern(tree->strings, tree->budget, frame.symbol, &pair.symbol);
    if (err == 0)
        err = fp_strings_intern(tree->strings, tree->budget, frame.dso, &pair.dso);
    if (err == 0)
        err = intern_frame(tree, tree->budget, pair, id);
    if (err == 0 && known != NULL) {
        *known = (struct fp_known_line){*id, (uint16_t)line.size, (uint8_t)dialect, ""};
        memcpy(known->text, line.at, line.size);
    }
    return err;
}

/* Behind the frames of the leaf, the last ones of the root are in a ring, whose oldest is number
 * `oldest`. */
static int shorten(struct fp_tree *tree, struct frames *frames, size_t oldest)
{
    uint32_t *root = frames->id + FP_FRAMES_MOST - ROOT_FRAMES, ring[ROOT_FRAMES];
    struct fp_frame_ids pair;
    int err = fp_strings_intern(tree->strings, tree->budget, FP_SLICE("truncated"), &pair.symbol);

    memcpy(ring, root, sizeof(ring));
    for (size_t i = 0; i < ROOT_FRAMES; i++)
        root[i] = ring[(oldest + i) % ROOT_FRAMES];
    if (err == 0)
        err = fp_strings_intern(tree->strings, tree->budget, FP_SLICE("flame_prof"), &pair.dso);
    return err != 0 ? err : intern_frame(tree, tree->budget, pair, root - 1);
}

/* Frames are interned as they are read: their encoded texts are gone after that. *status is the
 * root frame's when that is one. */
static int read_frames(struct fp_tree *tree, enum fp_dialect dialect, struct fp_slice text,
                       struct frames *frames, uint32_t *status, const char **bad)
{
    const char *at = text.at, *end = text.at + text.size;
    size_t more = 0;
    int is_status = 0;

    *bad = NULL;
    frames->count = 0;
    while (at < end && !is_status && *bad == NULL) {
        uint32_t id;
        int err = read_frame(tree, dialect, &at, end, &id, &is_status, bad);

        if (err != 0)
            return err;
        fp_skip_source_line(dialect, &at, end);
        if (is_status)
            *status = id;
        else if (frames->count < FP_FRAMES_MOST)
            frames->id[frames->count++] = id;
        else
            frames->id[FP_FRAMES_MOST - ROOT_FRAMES + more++ % ROOT_FRAMES] = id;
    }
    if (*bad == NULL && dialect == FP_FLAME_PROF && !is_status)
        *bad = "no status frame at the root";
    if (*bad != NULL)
        return FP_EINVAL;
    tree->is_shortened = more > 0;
    return more > 0 ? shorten(tree, frames, more) : 0;
}

int fp_tree_add(struct fp_tree *tree, enum fp_dialect dialect, uint64_t hash, struct fp_slice text,
                uint32_t status, uint32_t *id, const char **bad)
{
    struct frames frames;
    struct fp_raw_stack raw = {.status = status, .dialect = dialect}; /* as it is looked for */
    uint32_t node = 0;
    int err = read_frames(tree, dialect, text, &frames, &status, bad);

    for (size_t i = frames.count; err == 0 && i-- > 0;)
        err = intern_node(tree, tree->budget, (struct fp_node){node, frames.id[i]}, &node);
    if (err == 0)
        err = intern_stack(tree, tree->budget, (struct fp_stack_ids){node, status}, id);
    if (err != 0)
        return err;
    raw.stack = *id;
    raw.is_shortened = tree->is_shortened;
    return keep_raw(tree, hash, text, raw);
}
