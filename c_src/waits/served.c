/* What a server has in work: the message in a slot of the frame that called its callback. */
#include <string.h>

#include "base/error.h"
#include "erts/frames.h"
#include "erts/process.h"
#include "erts/process_table.h"
#include "waits/moment.h"
#include "waits/waits.h"

/* Reads of the walk of one process. */
#define BUDGET 64u

struct server_stack {
    const struct fp_waits_options *options;
    const uint8_t *is_valid;
    const uint64_t *word;
    uint32_t words;
};

/* The slot of the role in the frame nearest to the leaf that has it; 0: none. */
static uint64_t slot_of(const struct server_stack *stack, enum fp_site_role role)
{
    for (uint32_t k = 0; k < stack->words; k++) {
        const struct fp_site *site;
        struct fp_stack_frame frame;
        int at;

        if ((stack->word[k] & 3) != 0)
            continue;
        at = fp_sites_find(stack->options->sites, stack->word[k]);
        if (at < 0 || !stack->is_valid[at])
            continue;
        site = fp_sites_at(stack->options->sites, (uint32_t)at);
        if (!fp_site_has(site, role))
            continue;
        fp_frames_read(&frame, 1, stack->options->code, stack->word[k], stack->word + k + 1,
                       stack->words - k - 1);
        return fp_frame_slot(&frame, stack->word + k + 1, site->slot[role]);
    }
    return 0;
}

/* {call, From}, cast, info, timeout, {timeout, Name} ... */
static void read_event_type(const struct server_stack *stack, struct fp_walk *walk, uint64_t word,
                            struct fp_message *message)
{
    const struct fp_event_types *type = stack->options->event_type;
    struct fp_term term, element;

    fp_walk_term(walk, word, &term);
    if (term.kind == FP_TERM_ATOM) {
        message->kind = word == type->cast                                     ? FP_MESSAGE_cast
                        : word == type->info                                   ? FP_MESSAGE_info
                        : word == type->timeout || word == type->state_timeout ? FP_MESSAGE_timer
                                                                               : FP_MESSAGE_event;
        return;
    }
    if (term.kind != FP_TERM_TUPLE || term.arity != 2)
        return;
    fp_walk_element(walk, &term, 0, &element);
    message->kind = element.word == type->timeout ? FP_MESSAGE_timer : FP_MESSAGE_event;
    if (element.word != type->call)
        return;
    message->kind = FP_MESSAGE_call;
    fp_walk_element(walk, &term, 1, &element);
    (void)fp_from_read(walk, &walk->layout->envelope, element.word, message);
}

/* gen_statem's events. */
static void read_queue(const struct server_stack *stack, struct fp_walk *walk, uint64_t word,
                       struct fp_message *message)
{
    struct fp_term queue, event, type, content;

    fp_walk_term(walk, word, &queue);
    if (queue.kind != FP_TERM_LIST)
        return;
    fp_walk_element(walk, &queue, 0, &event);
    if (event.kind != FP_TERM_TUPLE || event.arity != 2)
        return;
    fp_walk_element(walk, &event, 0, &type);
    fp_walk_element(walk, &event, 1, &content);
    read_event_type(stack, walk, type.word, message);
    fp_tag_read(walk, content.word, &message->tag);
}

static int read_message(const struct server_stack *stack, struct fp_walk *walk,
                        struct fp_message *message)
{
    uint64_t word;

    memset(message, 0, sizeof *message);
    if ((word = slot_of(stack, FP_SITE_serves)) != 0) {
        message->kind = FP_MESSAGE_call;
        fp_tag_read(walk, word, &message->tag);
        if ((word = slot_of(stack, FP_SITE_from)) != 0)
            (void)fp_from_read(walk, &walk->layout->envelope, word, message);
    } else if ((word = slot_of(stack, FP_SITE_cast)) != 0) {
        message->kind = FP_MESSAGE_cast;
        fp_tag_read(walk, word, &message->tag);
    } else if ((word = slot_of(stack, FP_SITE_event)) != 0) {
        message->kind = FP_MESSAGE_event;
        fp_tag_read(walk, word, &message->tag);
    } else if ((word = slot_of(stack, FP_SITE_queue)) != 0) {
        read_queue(stack, walk, word, message);
    } else if ((word = slot_of(stack, FP_SITE_message)) != 0) {
        fp_message_read(walk, &walk->layout->envelope, word, message);
    }
    return message->kind == FP_MESSAGE_unknown ? FP_ENOENT : 0;
}

static int read_moment(const struct fp_waits_options *options, uint64_t address,
                       struct fp_moment *now)
{
    unsigned char bytes[FP_PROBE_WINDOW];

    if (fp_safe_read(options->memory, address, bytes, fp_moment_bytes(options->layout)) != 0)
        return FP_EGONE;
    fp_moment_decode(options->layout, bytes, now);
    return 0;
}

static int is_at_rest(const struct fp_moment *now)
{
    return (now->state & (FP_PSFLG_RUNNING | FP_PSFLG_RUNNING_SYS | FP_PSFLG_GC | FP_PSFLG_EXITING |
                          FP_PSFLG_FREE)) == 0 &&
           fp_moment_has_stack(now);
}

int fp_waits_served(const struct fp_waits_options *options, uint64_t pid, uint64_t *word,
                    struct fp_served *served)
{
    uint8_t is_valid[FP_SITES_MAX];
    struct server_stack stack = {options, is_valid, word, 0};
    struct fp_moment before, after;
    struct fp_walk walk;
    struct fp_term module;
    uint64_t address, words;
    int err = fp_process_table_lookup(options->layout, options->memory, pid, &address);

    memset(served, 0, sizeof *served);
    if (err == 0)
        err = read_moment(options, address, &before);
    if (err != 0 || before.id != pid)
        return FP_EGONE;
    if (!is_at_rest(&before))
        return FP_ETORN;
    words = (before.hend - before.stop) / 8;
    stack.words = words < FP_SERVED_WORDS ? (uint32_t)words : FP_SERVED_WORDS;
    if (fp_safe_read(options->memory, before.hend - 8ull * stack.words, word, 8ull * stack.words))
        return FP_ETORN;
    fp_sites_check(options->sites, options->memory, is_valid);
    fp_walk_start(&walk, options->memory, options->layout, BUDGET);
    err = read_message(&stack, &walk, &served->message);
    fp_walk_term(&walk, slot_of(&stack, FP_SITE_module), &module);
    served->module = module.kind == FP_TERM_ATOM ? module.word : 0;
    if (read_moment(options, address, &after) != 0 || !fp_moment_is_same(&before, &after))
        return FP_ETORN;
    return err;
}
