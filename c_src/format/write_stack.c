/*
 * stack_text.c - frame words to lines, once for each stack.
 *
 * Frames that neighbour each other can be merged when they are of one function; frames of which
 * nothing is known are left out and counted.
 */
#include "format/write_stack.h"

#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/pages.h"
#include "base/pool.h"
#include "format/write_frame.h"

/* Of all texts together, when nobody says; 8192 ordinary rendered stacks take about 10 MiB. FRAME
 * records have half of it: they cannot be asked for again, so what comes beyond is refused and its
 * frames count as unresolved. It is a bound for what their pools map, so that what lies waste in
 * these is in it. */
#define TEXT_BYTES ((size_t)32 << 20)

/* A stack that lacks frames is rendered again after so many samples of it, and again after 16 and
 * 256 times as many. */
#define FIRST_TRY_USES 16u
#define TRIES_MAX 3u

/* One FRAME record, rendered. */
struct text_frame {
    char *line; /* NULL: not defined */
    uint32_t size;
    uint64_t function;
};

struct stack {
    uint64_t *word;
    char *text; /* NULL: not rendered */
    uint64_t last_function;
    uint32_t text_size;
    uint16_t count, room; /* of `word` */
    bool defined;
    bool has_code; /* some words are code addresses */
    bool lacks;    /* the text lacks frames that could not be resolved */
    uint8_t tries; /* to render it again for that */
    uint16_t uses; /* since the last */
};

struct fp_stacks {
    const struct fp_symbolizer *symbolizer;
    struct fp_counters *stats;
    int flatten_recursive;
    struct stack stack[FP_STACK_SLOTS];
    struct text_frame text_frame[FP_FRAME_TEXT_MAX];
    struct fp_mfa_words named[FP_NAMED_SLOTS]; /* module 0: not defined */
    size_t text_bytes_max;
    struct fp_pool texts;     /* of stacks: emptied when it is full */
    struct fp_pool lines;     /* of text_frame[] */
    struct fp_pool words;     /* of stacks */
    struct fp_buffer scratch; /* what is being rendered */
    struct fp_symbol symbol;
};

int fp_stacks_create(struct fp_stacks **stacks, const struct fp_symbolizer *symbolizer,
                     int flatten_recursive, size_t text_bytes, struct fp_counters *stats)
{
    struct fp_stacks *made = fp_pages_alloc(sizeof(*made));

    if (made == NULL)
        return FP_ENOMEM;
    made->symbolizer = symbolizer;
    made->stats = stats;
    made->flatten_recursive = flatten_recursive;
    made->text_bytes_max = text_bytes > 0 ? text_bytes : TEXT_BYTES;
    made->lines.most = (made->text_bytes_max + 1) / 2; /* 0 is no bound */
    *stacks = made;
    return 0;
}

void fp_stacks_destroy(struct fp_stacks *stacks)
{
    if (stacks == NULL)
        return;
    fp_pool_destroy(&stacks->texts);
    fp_pool_destroy(&stacks->lines);
    fp_pool_destroy(&stacks->words);
    fp_buffer_free(&stacks->scratch);
    fp_pages_free(stacks, sizeof(*stacks));
}

/* ---- forgetting ------------------------------------------------------- */

static void forget_text(struct fp_stacks *stacks, struct stack *stack)
{
    if (stack->text == NULL)
        return;
    fp_pool_free(&stacks->texts, stack->text, stack->text_size);
    stack->text = NULL;
    stack->text_size = 0;
}

static void forget_all(struct fp_stacks *stacks)
{
    for (size_t i = 0; i < FP_STACK_SLOTS; i++) {
        stacks->stack[i].text = NULL;
        stacks->stack[i].text_size = 0;
    }
    fp_pool_empty(&stacks->texts);
}

/* ---- definitions ------------------------------------------------------ */

int fp_stacks_define_frame(struct fp_stacks *stacks, const struct fp_record_frame *record)
{
    struct fp_buffer *scratch = &stacks->scratch;
    struct fp_frame frame = {.arity = record->arity, .line = record->line};
    const char *text = record->text;
    uint64_t id = record->id ^ FP_FRAME_TEXT;
    struct text_frame *slot;
    size_t room;
    char *line;
    int err;

    if (record->head.size < offsetof(struct fp_record_frame, text) || id >= FP_FRAME_TEXT_MAX)
        return FP_EINVAL;
    room = record->head.size - offsetof(struct fp_record_frame, text);
    if ((size_t)record->module_len + record->function_len + record->file_len > room)
        return FP_EINVAL;
    frame.module = (struct fp_piece){text, record->module_len};
    text += record->module_len;
    frame.function = (struct fp_piece){text, record->function_len};
    text += record->function_len;
    frame.file = (struct fp_piece){text, record->file_len};

    slot = &stacks->text_frame[id];
    fp_pool_free(&stacks->lines, slot->line, slot->size);
    *slot = (struct text_frame){NULL, 0, 0};

    scratch->size = 0;
    err = fp_frame_put(scratch, &frame);
    if (err != 0)
        return err;
    line = fp_buffer_copy(scratch, &stacks->lines);
    if (line == NULL)
        return 0;
    if (stacks->lines.mapped + stacks->texts.mapped > stacks->text_bytes_max) {
        forget_all(stacks);
        fp_pool_destroy(&stacks->texts);
    }
    *slot = (struct text_frame){line, (uint32_t)scratch->size, fp_frame_function(&frame)};
    return 0;
}

int fp_stacks_define_name(struct fp_stacks *stacks, const struct fp_record_name *record)
{
    if (record->head.size < sizeof(*record) || record->slot >= FP_NAMED_SLOTS)
        return FP_EINVAL;
    stacks->named[record->slot] = record->mfa;
    return 0;
}

void fp_stacks_recode(struct fp_stacks *stacks)
{
    for (size_t i = 0; i < FP_STACK_SLOTS; i++) {
        if (stacks->stack[i].has_code)
            forget_text(stacks, &stacks->stack[i]);
    }
}

static bool is_code(uint64_t word)
{
    return word >= FP_FRAME_SPECIAL_END && (word & FP_FRAME_TEXT) == 0;
}

int fp_stacks_define(struct fp_stacks *stacks, const struct fp_record_stack *record)
{
    const size_t fixed = offsetof(struct fp_record_stack, frame);
    uint16_t count = record->head.count;
    struct stack *stack;

    if (record->head.size < fixed || record->slot >= FP_STACK_SLOTS)
        return FP_EINVAL;
    /* From here on the slot's old stack is gone, even when the new one is refused: a sample must
     * never show a stack that it did not have. */
    stack = &stacks->stack[record->slot];
    forget_text(stacks, stack);
    stack->defined = false;
    if (count > FP_STACK_FRAMES_MAX || record->head.size < fixed + count * sizeof(uint64_t))
        return FP_EINVAL;
    if (count > stack->room) {
        uint64_t *room = fp_pool_alloc(&stacks->words, count * sizeof(*room));

        if (room == NULL)
            return FP_ENOMEM;
        fp_pool_free(&stacks->words, stack->word, stack->room * sizeof(*room));
        stack->word = room;
        stack->room = count;
    }
    stack->count = count;
    stack->lacks = false;
    stack->tries = 0;
    stack->uses = 0;
    stack->has_code = false;
    for (uint16_t i = 0; i < count; i++) {
        stack->word[i] = record->frame[i];
        stack->has_code |= is_code(record->frame[i]);
    }
    stack->defined = true;
    return 0;
}

/* ---- rendering -------------------------------------------------------- */

/* The put_*_frame functions append one line to the scratch text. `last` is the function of the line
 * before, 0 at first; they set it to their own. */

static int put_special_frame(struct fp_buffer *scratch, uint64_t word, uint64_t *last)
{
    static const struct fp_piece lines[FP_FRAME_SPECIAL_END] = {
        [FP_FRAME_TRUNCATED] = FP_PIECE(FP_FRAME_ADDRESS "truncated (flame_prof)\n"),
        [FP_FRAME_RUNNING] = FP_PIECE(FP_FRAME_ADDRESS "running_stack_not_sampled (flame_prof)\n"),
        [FP_FRAME_GC] = FP_PIECE(FP_FRAME_ADDRESS "[gc] (flame_prof)\n"),
        [FP_FRAME_UNREADABLE] = FP_PIECE(FP_FRAME_ADDRESS "stack_unreadable (flame_prof)\n"),
        [FP_FRAME_AMBIGUOUS] = FP_PIECE(FP_FRAME_ADDRESS "ambiguous (flame_prof)\n"),
        [FP_FRAME_IDLE] = FP_PIECE(FP_FRAME_ADDRESS "[idle] (flame_prof)\n"),
    };
    const struct fp_piece *line = &lines[word];

    if (line->size == 0)
        return FP_ENOENT;
    *last = 0;
    return fp_buffer_append(scratch, line->text, line->size);
}

static int put_text_frame(struct fp_stacks *stacks, uint64_t word, uint64_t *last)
{
    uint64_t id = word ^ FP_FRAME_TEXT;
    const struct text_frame *frame;

    if (id >= FP_FRAME_TEXT_MAX || stacks->text_frame[id].line == NULL)
        return FP_ENOENT;
    frame = &stacks->text_frame[id];
    if (stacks->flatten_recursive && frame->function == *last)
        return 0;
    *last = frame->function;
    return fp_buffer_append(&stacks->scratch, frame->line, frame->size);
}

static size_t at_most(size_t size, size_t limit)
{
    return size < limit ? size : limit;
}

/* A NIF of a NAME record: there is no code to be looked at. */
static int resolve_slot(struct fp_stacks *stacks, uint64_t word, struct fp_symbol *symbol)
{
    const struct fp_symbolizer *symbolizer = stacks->symbolizer;
    uint64_t slot = word & (FP_FRAME_SLOT - 1);
    int module, function;

    if (slot >= FP_NAMED_SLOTS || stacks->named[slot].module == 0)
        return FP_ENOENT;
    module = symbolizer->atom(symbolizer->self, stacks->named[slot].module, symbol->module);
    function = symbolizer->atom(symbolizer->self, stacks->named[slot].function, symbol->function);
    if (module < 0 || function < 0)
        return FP_ENOENT;
    symbol->kind = FP_SYMBOL_NIF;
    symbol->module_len = (uint32_t)module;
    symbol->function_len = (uint32_t)function;
    symbol->arity = (uint32_t)stacks->named[slot].arity;
    symbol->line = 0;
    symbol->file_len = 0;
    return 0;
}

static int resolve(struct fp_stacks *stacks, uint64_t word)
{
    const struct fp_symbolizer *symbolizer = stacks->symbolizer;

    if (symbolizer == NULL)
        return FP_ENOENT;
    if ((word & FP_FRAME_NIF) != 0 && (word & FP_FRAME_SLOT) != 0)
        return resolve_slot(stacks, word, &stacks->symbol);
    return symbolizer->resolve(symbolizer->self, word, &stacks->symbol);
}

static struct fp_frame frame_of(const struct fp_symbol *symbol)
{
    struct fp_frame frame = {
        .module = {symbol->module, at_most(symbol->module_len, sizeof(symbol->module))},
        .function = {symbol->function, at_most(symbol->function_len, sizeof(symbol->function))},
        .file = {symbol->file, at_most(symbol->file_len, sizeof(symbol->file))},
        .arity = symbol->arity,
        .line = symbol->line,
    };

    /* No file, but what they are. */
    if (symbol->kind == FP_SYMBOL_BIF)
        frame.file = (struct fp_piece)FP_PIECE("bif");
    else if (symbol->kind == FP_SYMBOL_NIF)
        frame.file = (struct fp_piece)FP_PIECE("nif");
    else if (symbol->kind == FP_SYMBOL_NATIVE)
        /* A function of the library: told from those of others. */
        frame.module = frame.file;
    return frame;
}

static int put_code_frame(struct fp_stacks *stacks, uint64_t word, uint64_t *last)
{
    struct fp_symbol *symbol = &stacks->symbol;
    struct fp_frame frame;
    uint64_t function;
    int err;

    if (resolve(stacks, word) != 0)
        return FP_ENOENT;
    if (symbol->kind == FP_SYMBOL_NONE)
        return 0;
    frame = frame_of(symbol);
    function = fp_frame_function(&frame);
    if (stacks->flatten_recursive && function == *last)
        return 0;
    err = symbol->kind == FP_SYMBOL_NATIVE
              ? fp_frame_put_native(&stacks->scratch, frame.function, frame.file)
              : fp_frame_put(&stacks->scratch, &frame);
    if (err == 0)
        *last = function;
    return err;
}

/* A frame of which nothing is known is left out and counted. */
static int put_frames(struct fp_stacks *stacks, struct stack *stack, uint64_t *last)
{
    for (uint16_t i = 0; i < stack->count; i++) {
        uint64_t word = stack->word[i];
        int err;

        if (word < FP_FRAME_SPECIAL_END)
            err = put_special_frame(&stacks->scratch, word, last);
        else if (is_code(word))
            err = put_code_frame(stacks, word, last);
        else
            err = put_text_frame(stacks, word, last);
        if (err == FP_ENOENT) {
            fp_counters_add(stacks->stats, FP_COUNTER_unresolved, 1);
            stack->lacks = true;
        } else if (err != 0) {
            return err;
        }
    }
    return 0;
}

/* To the scratch text. */
static int render_stack(struct fp_stacks *stacks, struct stack *stack)
{
    uint64_t last = 0;
    int err;

    stacks->scratch.size = 0;
    stack->lacks = false;
    err = put_frames(stacks, stack, &last);
    if (err != 0)
        return err;
    stack->last_function = last;
    return 0;
}

/* When there is no room but for all others, these go. When there is none even then, it is not
 * kept. */
static void keep_text(struct fp_stacks *stacks, struct stack *stack)
{
    stacks->texts.most = stacks->text_bytes_max - stacks->lines.mapped;
    stack->text = fp_buffer_copy(&stacks->scratch, &stacks->texts);
    if (stack->text == NULL) {
        forget_all(stacks);
        stack->text = fp_buffer_copy(&stacks->scratch, &stacks->texts);
    }
    if (stack->text != NULL)
        stack->text_size = (uint32_t)stacks->scratch.size;
}

/* What could not be resolved may be known later: its code was swapped out, or just being loaded. */
static bool is_worth_a_try(struct stack *stack)
{
    if (stack->tries == TRIES_MAX || ++stack->uses < FIRST_TRY_USES << (4 * stack->tries))
        return false;
    stack->uses = 0;
    stack->tries++;
    return true;
}

int fp_stacks_text(struct fp_stacks *stacks, uint32_t slot, struct fp_stack_text *text)
{
    struct stack *stack;
    int err;

    if (slot >= FP_STACK_SLOTS || !stacks->stack[slot].defined)
        return FP_EINVAL;
    stack = &stacks->stack[slot];
    if (stack->lacks && is_worth_a_try(stack))
        forget_text(stacks, stack);
    if (stack->text == NULL) {
        err = render_stack(stacks, stack);
        if (err != 0)
            return err;
        keep_text(stacks, stack);
    }
    text->last_function = stack->last_function;
    text->lines = stack->text;
    text->size = stack->text_size;
    if (stack->text == NULL) { /* not kept */
        text->lines = stacks->scratch.bytes;
        text->size = stacks->scratch.size;
    }
    return 0;
}
