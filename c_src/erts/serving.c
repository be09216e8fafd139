#include "erts/serving.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "erts/term.h"

static _Atomic(struct fp_serving_sites *) published;
static _Atomic uint32_t tables, captures;

/* ---------------------------------------------------------------- the sites -- */

#define ROLE(name) (1u << FP_SITE_##name)
#define SERVER_ROLES (ROLE(message) | ROLE(serves) | ROLE(cast) | ROLE(event) | ROLE(queue))

static int is_server(const struct fp_site *site)
{
    return (site->roles & SERVER_ROLES) != 0;
}

void fp_serving_prepare(struct fp_serving_sites *serving, struct fp_sites *sites)
{
    uint64_t low = UINT64_MAX, high = 0;

    for (uint32_t i = 0; i < fp_sites_count(sites); i++) {
        const struct fp_site *site = fp_sites_at(sites, i);

        if (!is_server(site))
            continue;
        low = site->address < low ? site->address : low;
        high = site->address >= high ? site->address + 1 : high;
    }
    serving->sites = sites;
    serving->low = low;
    serving->span = high > low ? high - low : 0;
}

static int is_equal(const struct fp_site *a, const struct fp_site *b)
{
    return a->roles == b->roles && memcmp(a->slot, b->slot, sizeof a->slot) == 0 &&
           a->mfa_at == b->mfa_at && memcmp(a->mfa, b->mfa, sizeof a->mfa) == 0 &&
           memcmp(a->code, b->code, sizeof a->code) == 0;
}

static int are_equal(const struct fp_sites *a, const struct fp_sites *b)
{
    if (fp_sites_count(a) != fp_sites_count(b))
        return 0;
    for (uint32_t i = 0; i < fp_sites_count(a); i++) {
        const struct fp_site *site = fp_sites_at(a, i);
        int at = fp_sites_find(b, site->address);

        if (at < 0 || !is_equal(site, fp_sites_at(b, (uint32_t)at)))
            return 0;
    }
    return 1;
}

int fp_serving_publish(struct fp_sites *sites)
{
    struct fp_serving_sites *before = fp_serving_published();
    struct fp_serving_sites *made;

    if (before != NULL && are_equal(before->sites, sites))
        return 0;
    if (atomic_load(&tables) == FP_SERVING_TABLES_MAX)
        return FP_EFULL;
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return FP_ENOMEM;
    atomic_fetch_add(&tables, 1);
    fp_sites_retain(sites);
    made->before = before;
    fp_serving_prepare(made, sites);
    /* release: partner is the acquire in fp_serving_published(). */
    atomic_store_explicit(&published, made, memory_order_release);
    return 0;
}

struct fp_serving_sites *fp_serving_published(void)
{
    return atomic_load_explicit(&published, memory_order_acquire);
}

void fp_serving_forget(void)
{
    struct fp_serving_sites *sites = atomic_exchange(&published, NULL);

    while (sites != NULL) {
        struct fp_serving_sites *before = sites->before;

        fp_sites_release(sites->sites);
        free(sites);
        sites = before;
    }
    atomic_store(&tables, 0);
}

void fp_serving_check(struct fp_serving_sites *sites, const struct fp_memory *memory,
                      const struct fp_layout *layout)
{
    uint8_t is_valid[FP_SITES_MAX];
    struct fp_walk walk;

    fp_walk_start(&walk, memory, layout, 0);
    atomic_store_explicit(&sites->atoms, walk.atoms, memory_order_relaxed);

    fp_sites_check(sites->sites, memory, is_valid);
    for (uint32_t i = 0; i < fp_sites_count(sites->sites); i++)
        atomic_store_explicit(&sites->is_valid[i], is_valid[i], memory_order_relaxed);
}

void fp_serving_captures_begin(void)
{
    atomic_fetch_add(&captures, 1);
}

void fp_serving_captures_end(void)
{
    atomic_fetch_sub(&captures, 1);
}

int fp_serving_is_captured(void)
{
    return atomic_load_explicit(&captures, memory_order_relaxed) > 0;
}

/* ---------------------------------------------------------------- the stack -- */

/* NULL: a word of a stack that is no such address. */
static const struct fp_site *server_at(struct fp_serving_sites *sites, uint64_t word)
{
    int at = fp_sites_find(sites->sites, word);
    const struct fp_site *site = at < 0 ? NULL : fp_sites_at(sites->sites, (uint32_t)at);

    return site != NULL && is_server(site) &&
                   atomic_load_explicit(&sites->is_valid[at], memory_order_relaxed)
               ? site
               : NULL;
}

int fp_serving_find(struct fp_serving_sites *sites, const uint64_t *word, uint32_t words,
                    uint32_t leaf_words, struct fp_serving *serving)
{
    for (uint32_t k = words; k-- > 0;) {
        if (word[k] - sites->low >= sites->span)
            continue;
        serving->site = server_at(sites, word[k]);
        if (serving->site == NULL)
            continue;
        serving->at = k;
        serving->slot = word + k + 1;
        serving->slots = (k < leaf_words ? leaf_words : words) - k - 1;
        return 1;
    }
    return 0;
}

/* 0, which is no term, where the site does not have the role. */
static uint64_t slot_of(const struct fp_serving *serving, enum fp_site_role role)
{
    const struct fp_site *site = serving->site;

    return fp_site_has(site, role) && site->slot[role] < serving->slots
               ? serving->slot[site->slot[role]]
               : 0;
}

/* ---------------------------------------------------------------- the terms -- */

uint32_t fp_serving_terms(const struct fp_serving *serving, uint64_t address[FP_SERVING_TERMS])
{
    static const enum fp_site_role roles[] = {FP_SITE_message, FP_SITE_queue, FP_SITE_serves,
                                              FP_SITE_cast,    FP_SITE_event, FP_SITE_from};
    uint32_t n = 0;

    for (size_t i = 0; i < sizeof roles / sizeof *roles && n < FP_SERVING_TERMS; i++) {
        uint64_t word = slot_of(serving, roles[i]);

        if (fp_term_is_boxed(word) || fp_term_is_list(word))
            address[n++] = fp_term_address(word);
    }
    return n;
}

void fp_serving_walk(const struct fp_serving_sites *sites, struct fp_walk *walk,
                     const struct fp_memory *memory, const struct fp_layout *layout)
{
    walk->memory = memory;
    walk->layout = layout;
    walk->atoms = atomic_load_explicit(&sites->atoms, memory_order_relaxed);
    fp_walk_again(walk, FP_SERVING_READS);
}

static void read_from(struct fp_walk *walk, uint64_t from, struct fp_message *message)
{
    if (from != 0)
        (void)fp_from_read(walk, &walk->layout->envelope, from, message);
}

/* {call, From}, cast, info, or a time-out's. */
static void read_typed(struct fp_walk *walk, uint64_t type, uint64_t content,
                       struct fp_message *message)
{
    const struct fp_envelopes *envelope = &walk->layout->envelope;
    uint64_t pair[2] = {type, 0};
    struct fp_term term;

    fp_walk_term(walk, type, &term);
    if (term.kind == FP_TERM_TUPLE &&
        (term.arity != 2 || fp_walk_elements(walk, &term, 0, 2, pair) != 0))
        return;
    if (pair[0] == 0 || !fp_term_is_atom(pair[0]))
        return;
    if (term.kind == FP_TERM_ATOM && type == envelope->info) {
        fp_message_read(walk, envelope, content, message);
        return;
    }
    if (term.kind == FP_TERM_TUPLE && pair[0] == envelope->call) {
        message->kind = FP_MESSAGE_call;
        read_from(walk, pair[1], message);
    } else if (term.kind == FP_TERM_ATOM && type == envelope->cast) {
        message->kind = FP_MESSAGE_cast;
    } else if (pair[0] == envelope->timeout || pair[0] == envelope->state_timeout) {
        message->kind = FP_MESSAGE_timer;
    }
    if (message->kind != FP_MESSAGE_unknown)
        fp_tag_read(walk, content, &message->tag);
}

/* gen_statem's: [{Type, Content} | _], the event in work first. */
static void read_queue(struct fp_walk *walk, uint64_t queue, struct fp_message *message)
{
    struct fp_term cell, event;
    uint64_t part[2];

    fp_walk_term(walk, queue, &cell);
    if (cell.kind != FP_TERM_LIST)
        return;
    fp_walk_element(walk, &cell, 0, &event);
    if (event.kind == FP_TERM_TUPLE && event.arity == 2 &&
        fp_walk_elements(walk, &event, 0, 2, part) == 0)
        read_typed(walk, part[0], part[1], message);
}

static void read_message(struct fp_walk *walk, const struct fp_serving *serving,
                         struct fp_message *message)
{
    static const struct {
        enum fp_site_role role;
        enum fp_message_kind kind;
    } plain[] = {
        {FP_SITE_serves, FP_MESSAGE_call},
        {FP_SITE_cast, FP_MESSAGE_cast},
        {FP_SITE_event, FP_MESSAGE_event},
    };

    if (fp_site_has(serving->site, FP_SITE_message)) {
        fp_message_read(walk, &walk->layout->envelope, slot_of(serving, FP_SITE_message), message);
        return;
    }
    if (fp_site_has(serving->site, FP_SITE_queue)) {
        read_queue(walk, slot_of(serving, FP_SITE_queue), message);
        return;
    }
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        uint64_t request = slot_of(serving, plain[i].role);

        if (request == 0)
            continue;
        message->kind = plain[i].kind;
        fp_tag_read(walk, request, &message->tag);
        if (message->kind == FP_MESSAGE_call)
            read_from(walk, slot_of(serving, FP_SITE_from), message);
        return;
    }
}

int fp_serving_message(struct fp_walk *walk, const struct fp_serving *serving,
                       struct fp_message *message)
{
    memset(message, 0, sizeof *message);
    read_message(walk, serving, message);
    return message->kind != FP_MESSAGE_unknown;
}

uint64_t fp_serving_module(const struct fp_serving *serving)
{
    return slot_of(serving, FP_SITE_module);
}

int fp_serving_read(struct fp_walk *walk, const struct fp_serving *serving, struct fp_work *work)
{
    struct fp_message message;

    if (!fp_serving_message(walk, serving, &message) || message.tag.shape == FP_SHAPE_UNKNOWN)
        return 0;
    work->kind = (uint8_t)message.kind;
    work->message = message.tag;
    /* The reference of a reply is of a call that the server has made. */
    if (message.has_ref && message.kind != FP_MESSAGE_reply) {
        work->serves = 1;
        memcpy(work->served_ref, message.ref.n, sizeof work->served_ref);
    }
    return 1;
}
