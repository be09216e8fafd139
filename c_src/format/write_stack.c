#include "format/write_stack.h"

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/pages.h"
#include "format/write_frame.h"

/* The bound for all texts when the options have none: 8192 ordinary stacks have about 10 MiB. FRAME
 * records get at most half of it, because they do not come again: the frames of one that finds no
 * room count as unresolved. */
#define TEXT_BYTES ((size_t)32 << 20)

/* A stack that lacks frames is rendered again after so many samples of it, and again after 16 and
 * 256 times as many. */
#define FIRST_TRY_USES 16u
#define TRIES_MAX 3u

/* One FRAME record, rendered. */
struct text_frame {
    struct fp_kept line; /* size 0: not defined */
    uint64_t function;
};

/* Frame words that a stack has in one part: pages of later parts have memory once a stack is as
 * deep. */
#define PART 32u
#define PARTS ((FP_STACK_FRAMES_MAX + PART - 1) / PART)

/* The line of a code address, rendered: most frames of a new stack were in others. */
#define CODE_LINES_SHIFT 12
#define CODE_LINES (1u << CODE_LINES_SHIFT)

struct code_line {
    uint64_t word; /* 0: none */
    uint64_t function;
    struct fp_kept text;
};

struct stack {
    struct fp_kept text;
    uint16_t count; /* of its frame words */
    uint64_t last_function;
    bool is_defined, is_rendered;
    bool has_code; /* some words are code addresses */
    bool lacks;    /* frames that could not be resolved are not in the text */
    uint8_t tries; /* to render it again for that */
    uint16_t uses; /* since the last */
};

struct fp_stacks {
    const struct fp_perf_script_options *options;
    size_t text_bytes_max;
    struct stack stack[FP_STACK_SLOTS];
    uint64_t words[PARTS][FP_STACK_SLOTS][PART];
    struct text_frame text_frame[FP_FRAME_TEXT_MAX];
    struct fp_mfa_words named[FP_NAMED_SLOTS]; /* module 0: not defined */
    struct code_line code_line[CODE_LINES];    /* by a hash of the word */
    struct fp_arena texts;                     /* of both: freed when it is full */
    struct fp_arena lines;                     /* of text_frame[] */
    struct fp_buffer scratch;                  /* what is being rendered */
    struct fp_symbol symbol;
};

int fp_stacks_create(struct fp_stacks **stacks, const struct fp_perf_script_options *options)
{
    struct fp_stacks *made = fp_pages_alloc(sizeof(*made));

    if (made == NULL)
        return FP_ENOMEM;
    made->options = options;
    made->text_bytes_max = options->text_bytes > 0 ? options->text_bytes : TEXT_BYTES;
    made->lines.most = (made->text_bytes_max + 1) / 2; /* 0 is no bound */
    *stacks = made;
    return 0;
}

void fp_stacks_destroy(struct fp_stacks *stacks)
{
    if (stacks == NULL)
        return;
    fp_arena_free(&stacks->texts);
    fp_arena_free(&stacks->lines);
    fp_buffer_free(&stacks->scratch);
    fp_pages_free(stacks, sizeof(*stacks));
}

/* ---- definitions ------------------------------------------------------ */

static void forget_texts(struct fp_stacks *stacks)
{
    for (size_t i = 0; i < FP_STACK_SLOTS; i++) {
        stacks->stack[i].text = (struct fp_kept){NULL, 0, 0};
        stacks->stack[i].is_rendered = false;
    }
    memset(stacks->code_line, 0, sizeof(stacks->code_line));
    fp_arena_free(&stacks->texts);
}

int fp_stacks_define_frame(struct fp_stacks *stacks, const struct fp_record_frame *record)
{
    const char *text = record->text;
    struct fp_frame frame = {
        .module = {text, record->module_len},
        .function = {text + record->module_len, record->function_len},
        .file = {text + record->module_len + record->function_len, record->file_len},
        .arity = record->arity,
        .line = record->line,
    };
    uint64_t id = record->id ^ FP_FRAME_TEXT;
    struct fp_buffer *scratch = &stacks->scratch;
    struct text_frame *slot;

    if (id >= FP_FRAME_TEXT_MAX || frame.module.size + frame.function.size + frame.file.size >
                                       record->head.size - offsetof(struct fp_record_frame, text))
        return FP_EINVAL;
    slot = &stacks->text_frame[id];
    slot->line.size = 0;
    slot->function = fp_frame_function(&frame);
    scratch->size = 0;
    if (fp_buffer_reserve(scratch, fp_frame_room(&frame)) != 0)
        return FP_ENOMEM;
    fp_buffer_end(scratch, fp_put_frame(scratch->bytes, &frame));
    if (fp_arena_keep(&stacks->lines, &slot->line, scratch->bytes, scratch->size) == 0 &&
        stacks->lines.mapped + stacks->texts.mapped > stacks->text_bytes_max)
        forget_texts(stacks);
    return 0;
}

int fp_stacks_define_name(struct fp_stacks *stacks, const struct fp_record_name *record)
{
    if (record->slot >= FP_NAMED_SLOTS)
        return FP_EINVAL;
    stacks->named[record->slot] = record->mfa;
    return 0;
}

void fp_stacks_recode(struct fp_stacks *stacks)
{
    for (size_t i = 0; i < FP_STACK_SLOTS; i++)
        stacks->stack[i].is_rendered &= !stacks->stack[i].has_code;
    for (size_t i = 0; i < CODE_LINES; i++)
        stacks->code_line[i].word = 0;
}

static bool is_code(uint64_t word)
{
    return word >= FP_FRAME_SPECIAL_END && (word & FP_FRAME_TEXT) == 0;
}

static uint64_t *word_at(struct fp_stacks *stacks, uint32_t slot, uint16_t i)
{
    return &stacks->words[i / PART][slot][i % PART];
}

int fp_stacks_define(struct fp_stacks *stacks, const struct fp_record_stack *record)
{
    uint16_t count = record->head.count;
    struct stack *stack;

    if (record->slot >= FP_STACK_SLOTS)
        return FP_EINVAL;
    /* From here on the slot's old stack is gone, even when the new one is refused: a sample never
     * shows a stack that it did not have. */
    stack = &stacks->stack[record->slot];
    *stack = (struct stack){.text = stack->text};
    if (count > FP_STACK_FRAMES_MAX ||
        record->head.size < sizeof(*record) + count * sizeof(*record->frame))
        return FP_EINVAL;
    for (uint16_t i = 0; i < count; i++) {
        *word_at(stacks, record->slot, i) = record->frame[i];
        stack->has_code |= is_code(record->frame[i]);
    }
    stack->count = count;
    stack->is_defined = true;
    return 0;
}

/* ---- rendering -------------------------------------------------------- */

/* The put_*_frame functions append one line to the scratch text. `last` is the function of the line
 * before, 0 at first; they set it to their own. FP_ENOENT: nothing is known of the frame. */

static int put_special_frame(struct fp_buffer *scratch, uint64_t word, uint64_t *last)
{
    static const char *const lines[FP_FRAME_SPECIAL_END] = {
        [FP_FRAME_TRUNCATED] = FP_FRAME_ADDRESS "truncated (flame_prof)\n",
        [FP_FRAME_RUNNING] = FP_FRAME_ADDRESS "running_stack_not_sampled (flame_prof)\n",
        [FP_FRAME_GC] = FP_FRAME_ADDRESS "[gc] (flame_prof)\n",
        [FP_FRAME_UNREADABLE] = FP_FRAME_ADDRESS "stack_unreadable (flame_prof)\n",
        [FP_FRAME_AMBIGUOUS] = FP_FRAME_ADDRESS "ambiguous (flame_prof)\n",
        [FP_FRAME_IDLE] = FP_FRAME_ADDRESS "[idle] (flame_prof)\n",
    };

    if (lines[word] == NULL)
        return FP_ENOENT;
    *last = 0;
    return fp_buffer_append(scratch, lines[word], strlen(lines[word]));
}

static int put_text(struct fp_stacks *stacks, const struct fp_kept *text, uint64_t function,
                    uint64_t *last)
{
    if (stacks->options->collapse_recursion && function == *last)
        return 0;
    *last = function;
    return fp_buffer_append(&stacks->scratch, text->bytes, text->size);
}

static int put_text_frame(struct fp_stacks *stacks, uint64_t word, uint64_t *last)
{
    uint64_t id = word ^ FP_FRAME_TEXT;
    const struct text_frame *frame;

    if (id >= FP_FRAME_TEXT_MAX || stacks->text_frame[id].line.size == 0)
        return FP_ENOENT;
    frame = &stacks->text_frame[id];
    return put_text(stacks, &frame->line, frame->function, last);
}

/* A NIF of a NAME record: there is no code to resolve. */
static int resolve_name(struct fp_stacks *stacks, uint64_t slot)
{
    const struct fp_symbolizer *symbolizer = stacks->options->symbolizer;
    struct fp_symbol *symbol = &stacks->symbol;
    const struct fp_mfa_words *mfa;
    int module, function;

    if (slot >= FP_NAMED_SLOTS || stacks->named[slot].module == 0)
        return FP_ENOENT;
    mfa = &stacks->named[slot];
    module = symbolizer->atom(symbolizer->self, mfa->module, symbol->module);
    function = symbolizer->atom(symbolizer->self, mfa->function, symbol->function);
    if (module < 0 || function < 0)
        return FP_ENOENT;
    symbol->kind = FP_SYMBOL_NIF;
    symbol->module_len = (uint32_t)module;
    symbol->function_len = (uint32_t)function;
    symbol->arity = (uint32_t)mfa->arity;
    symbol->line = 0;
    return 0;
}

static int resolve(struct fp_stacks *stacks, uint64_t word)
{
    const struct fp_symbolizer *symbolizer = stacks->options->symbolizer;

    if (symbolizer == NULL)
        return FP_ENOENT;
    if ((word & FP_FRAME_NIF) != 0 && (word & FP_FRAME_SLOT) != 0)
        return resolve_name(stacks, word & (FP_FRAME_SLOT - 1));
    return symbolizer->resolve(symbolizer->self, word, &stacks->symbol);
}

static struct fp_slice at_most(const char *text, size_t size, size_t limit)
{
    return (struct fp_slice){text, size < limit ? size : limit};
}

static struct fp_frame frame_of(const struct fp_symbol *symbol)
{
    struct fp_frame frame = {
        .module = at_most(symbol->module, symbol->module_len, sizeof(symbol->module)),
        .function = at_most(symbol->function, symbol->function_len, sizeof(symbol->function)),
        .arity = symbol->arity,
        .line = symbol->line,
    };

    if (symbol->kind == FP_SYMBOL_BIF)
        frame.file = FP_SLICE("bif");
    else if (symbol->kind == FP_SYMBOL_NIF)
        frame.file = FP_SLICE("nif");
    else
        frame.file = at_most(symbol->file, symbol->file_len, sizeof(symbol->file));
    if (symbol->kind == FP_SYMBOL_NATIVE) {
        frame.is_c = true;
        frame.line = 0;
        frame.module = frame.file; /* functions of one name in two libraries differ */
    }
    return frame;
}

/* Without room it is rendered again the next time. A NAME record may define its slot anew. */
static void keep_line(struct fp_stacks *stacks, struct code_line *line, uint64_t word,
                      uint64_t function, struct fp_slice text)
{
    if ((word & FP_FRAME_NIF) != 0 && (word & FP_FRAME_SLOT) != 0)
        return;
    line->word = 0;
    line->function = function;
    stacks->texts.most = stacks->text_bytes_max - stacks->lines.mapped;
    if (fp_arena_keep(&stacks->texts, &line->text, text.at, text.size) == 0)
        line->word = word;
}

static int put_code_frame(struct fp_stacks *stacks, uint64_t word, uint64_t *last)
{
    struct code_line *line =
        &stacks->code_line[(word * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - CODE_LINES_SHIFT)];
    struct fp_buffer *scratch = &stacks->scratch;
    struct fp_frame frame;
    uint64_t function;
    char *begin;

    if (line->word == word)
        return put_text(stacks, &line->text, line->function, last);
    if (resolve(stacks, word) != 0)
        return FP_ENOENT;
    if (stacks->symbol.kind == FP_SYMBOL_NONE)
        return 0;
    frame = frame_of(&stacks->symbol);
    function = fp_frame_function(&frame);
    if (stacks->options->collapse_recursion && function == *last)
        return 0;
    if (fp_buffer_reserve(scratch, fp_frame_room(&frame)) != 0)
        return FP_ENOMEM;
    begin = fp_buffer_at(scratch);
    fp_buffer_end(scratch, fp_put_frame(begin, &frame));
    keep_line(stacks, line, word, function,
              (struct fp_slice){begin, (size_t)((char *)fp_buffer_at(scratch) - begin)});
    *last = function;
    return 0;
}

/* Functions of a module jump to code at its end, for example to yield. It is in no function: which
 * function jumped is unknown, and the frame below is not the leaf. */
static bool is_leaf_without_function(const struct stack *stack, uint16_t i, uint64_t word)
{
    return i == 0 && stack->count > 1 && is_code(word) &&
           (word & (FP_FRAME_BIF | FP_FRAME_NIF)) == 0;
}

/* To the scratch text. A frame of which nothing is known is left out and counted. */
static int render(struct fp_stacks *stacks, uint32_t slot)
{
    struct stack *stack = &stacks->stack[slot];
    uint64_t last = 0;

    stacks->scratch.size = 0;
    stack->lacks = false;
    for (uint16_t i = 0; i < stack->count; i++) {
        uint64_t word = *word_at(stacks, slot, i);
        int err;

        if (word < FP_FRAME_SPECIAL_END)
            err = put_special_frame(&stacks->scratch, word, &last);
        else if (is_code(word))
            err = put_code_frame(stacks, word, &last);
        else
            err = put_text_frame(stacks, word, &last);
        if (err == FP_ENOENT) {
            fp_counters_add(stacks->options->stats, FP_COUNTER_unresolved, 1);
            stack->lacks = true;
            err = is_leaf_without_function(stack, i, word)
                      ? put_special_frame(&stacks->scratch, FP_FRAME_AMBIGUOUS, &last)
                      : 0;
        }
        if (err != 0)
            return err;
    }
    stack->last_function = last;
    return 0;
}

/* If the other texts leave no room, all of them are dropped. A text that still has none is not
 * kept. */
static void keep_text(struct fp_stacks *stacks, struct stack *stack)
{
    const struct fp_buffer *scratch = &stacks->scratch;

    stacks->texts.most = stacks->text_bytes_max - stacks->lines.mapped;
    for (int i = 0; i < 2 && !stack->is_rendered; i++) {
        if (i > 0)
            forget_texts(stacks);
        stack->is_rendered =
            fp_arena_keep(&stacks->texts, &stack->text, scratch->bytes, scratch->size) == 0;
    }
}

/* An unresolved address may be known later: its code was swapped out, or just being loaded. */
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

    if (slot >= FP_STACK_SLOTS || !stacks->stack[slot].is_defined)
        return FP_EINVAL;
    stack = &stacks->stack[slot];
    if (stack->lacks && is_worth_a_try(stack))
        stack->is_rendered = false;
    if (!stack->is_rendered) {
        err = render(stacks, slot);
        if (err != 0)
            return err;
        keep_text(stacks, stack);
    }
    text->last_function = stack->last_function;
    text->lines = (struct fp_slice){stacks->scratch.bytes, stacks->scratch.size};
    if (stack->is_rendered)
        text->lines = (struct fp_slice){stack->text.bytes, stack->text.size};
    return 0;
}
