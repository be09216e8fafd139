#include "waits/edge.h"

#include <string.h>

#include "base/error.h"
#include "erts/monitors.h"
#include "erts/term.h"

static int has(const struct fp_top *top, enum fp_site_role role)
{
    return top->site != NULL && fp_site_has(top->site, role);
}

/* A receive that may be written by hand, and wait for one of its monitors. */
static int is_by_hand(const struct fp_top *top)
{
    return (top->site == NULL || has(top, FP_SITE_some)) && top->monitors != 0;
}

/* A receive whose code says that the stack tells nothing. */
static int takes_any(const struct fp_top *top)
{
    return has(top, FP_SITE_read) && !has(top, FP_SITE_only) && !has(top, FP_SITE_some);
}

struct fp_top_plan fp_top_plan(const struct fp_top *top)
{
    return (struct fp_top_plan){
        .has_words =
            top->site == NULL ? top->monitors != 0 : !has(top, FP_SITE_socket) && !takes_any(top),
        .has_heap = has(top, FP_SITE_call) || has(top, FP_SITE_only) || is_by_hand(top),
    };
}

void fp_top_set_tail(struct fp_top *top, uint64_t heap, uint64_t htop)
{
    uint64_t words = htop > heap ? (htop - heap) / 8 : 0;

    if (((heap | htop) & 7) != 0)
        words = 0;
    top->tail_words = words < FP_TOP_TAIL_WORDS ? (uint32_t)words : FP_TOP_TAIL_WORDS;
    top->tail_at = htop - 8ull * top->tail_words;
}

static void find_lower(struct fp_top *top, const struct fp_sites *sites, const uint8_t *is_valid,
                       enum fp_site_role role)
{
    for (uint32_t i = 1; i < top->frames && top->lower == NULL; i++) {
        int at = fp_sites_find(sites, top->frame[i].address);
        const struct fp_site *site =
            at >= 0 && is_valid[at] ? fp_sites_at(sites, (uint32_t)at) : NULL;

        if (site == NULL || !fp_site_has(site, role))
            continue;
        top->lower = site;
        top->lower_slot = fp_frame_slot(&top->frame[i], top->word, site->slot[role]);
    }
}

void fp_top_frames(struct fp_top *top, const struct fp_ranges *code, const struct fp_sites *sites,
                   const uint8_t *is_valid)
{
    int is_call = has(top, FP_SITE_call), has_lower = is_call || has(top, FP_SITE_timer);

    /* Of a receive by hand the frame behind the top says that the top is whole. */
    top->frames = fp_frames_read(top->frame, has_lower ? FP_TOP_FRAMES : 2, code, top->i, top->word,
                                 top->words);
    top->lower = NULL;
    top->lower_slot = 0;
    if (has_lower)
        find_lower(top, sites, is_valid, is_call ? FP_SITE_request : FP_SITE_lock);
}

static uint64_t slot_of(const struct fp_top *top, enum fp_site_role role)
{
    return fp_frame_slot(&top->frame[0], top->word, top->site->slot[role]);
}

/* A frame that the copy ends in may have more references. */
static int may_be_by_hand(const struct fp_top *top)
{
    return is_by_hand(top) && !(top->frames == 1 && top->is_cut);
}

static void want(struct fp_top *top, uint64_t word)
{
    uint64_t address = fp_term_address(word);

    if (top->terms == FP_TOP_TERMS || (!fp_term_is_boxed(word) && !fp_term_is_list(word)))
        return;
    if ((address - top->tail_at) / 8 + 2 <= top->tail_words && address >= top->tail_at)
        return;
    top->term[top->terms++].address = address;
}

void fp_top_wanted(struct fp_top *top)
{
    top->terms = 0;
    if (has(top, FP_SITE_call)) {
        want(top, slot_of(top, FP_SITE_call));
        want(top, top->lower_slot);
    }
    if (has(top, FP_SITE_only))
        want(top, slot_of(top, FP_SITE_only));
    for (uint32_t i = 0; may_be_by_hand(top) && i < top->frame[0].slots; i++)
        if (fp_term_is_boxed(top->word[top->frame[0].first + i]))
            want(top, top->word[top->frame[0].first + i]);
}

_Static_assert(2 + FP_TOP_TERMS <= FP_WALK_COPIES, "the walk takes every copy of lend()");

/* What was read before, if it was. */
static void lend(const struct fp_top *top, struct fp_walk *walk)
{
    if (top->tail_words > 0)
        fp_walk_copy(walk, top->tail_at, top->tail, top->tail_words);
    if (top->root_words > 0)
        fp_walk_copy(walk, top->monitors, top->root, top->root_words);
    for (uint32_t i = 0; i < top->terms; i++)
        if (top->term[i].words > 0)
            fp_walk_copy(walk, top->term[i].address, top->term[i].word, top->term[i].words);
}

/* -------------------------------------------------------------- monitors -- */

static int has_a_target(const struct fp_monitor *monitor)
{
    return monitor->is_origin &&
           (monitor->type == FP_MONITOR_process || monitor->type == FP_MONITOR_port ||
            monitor->type == FP_MONITOR_dist_process);
}

static void set_target(struct fp_wait *wait, const struct fp_monitor *monitor)
{
    wait->target = monitor->target;
    /* A local one is told by its pid. */
    wait->name = monitor->type == FP_MONITOR_dist_process ? monitor->name : 0;
    if (monitor->target.kind == FP_TERM_ATOM && wait->name == 0)
        wait->target.kind = FP_TERM_OTHER;
}

static void call_edge(const struct fp_top *top, struct fp_walk *walk, uint64_t word,
                      struct fp_wait *wait)
{
    struct fp_monitor monitor;

    if (fp_ref_read(walk, &walk->layout->envelope, word, &wait->ref) != 0)
        return;
    wait->how = FP_WAIT_call;
    wait->has_ref = 1;
    if (fp_monitors_find(walk, top->monitors, &wait->ref, &monitor) == 0 && has_a_target(&monitor))
        set_target(wait, &monitor);
}

/* Exactly one: two references of two monitors tell nothing. */
static void hand_written_edge(const struct fp_top *top, struct fp_walk *walk, struct fp_wait *wait)
{
    const struct fp_stack_frame *frame = &top->frame[0];
    struct fp_monitor monitor, found;
    int n = 0;

    for (uint32_t i = 0; i < frame->slots; i++) {
        struct fp_term term;
        int err;

        if (!fp_term_is_boxed(top->word[frame->first + i]))
            continue;
        fp_walk_term(walk, top->word[frame->first + i], &term);
        if (term.kind == FP_TERM_UNREADABLE)
            return;
        if (term.kind != FP_TERM_REF || (n > 0 && fp_ref_is_equal(&term.ref, &found.ref)))
            continue;
        err = fp_monitors_find(walk, top->monitors, &term.ref, &monitor);
        if (err == FP_ETORN || (err == 0 && n > 0))
            return;
        if (err != 0)
            continue;
        found = monitor;
        n = 1;
    }
    if (n == 0 || !has_a_target(&found))
        return;
    wait->how = FP_WAIT_monitor;
    wait->has_ref = 1;
    wait->ref = found.ref;
    set_target(wait, &found);
}

/* Any other term has no target: its holder is unknown. */
static void only_edge(const struct fp_top *top, struct fp_walk *walk, uint64_t word,
                      struct fp_wait *wait)
{
    struct fp_monitor monitor;
    struct fp_term term;

    fp_walk_term(walk, word, &term);
    if (term.kind == FP_TERM_PORT) {
        wait->how = FP_WAIT_port;
        wait->target = term;
    } else if (term.kind == FP_TERM_PID || term.kind == FP_TERM_REMOTE_PID) {
        wait->how = FP_WAIT_named;
        wait->target = term;
    } else if (term.kind == FP_TERM_REF && top->monitors != 0 &&
               fp_monitors_find(walk, top->monitors, &term.ref, &monitor) == 0 &&
               has_a_target(&monitor)) {
        wait->how = FP_WAIT_monitor_only;
        wait->has_ref = 1;
        wait->ref = term.ref;
        set_target(wait, &monitor);
    }
}

/* ----------------------------------------------------------------- edges -- */

static void term_edge(struct fp_walk *walk, uint64_t word, enum fp_wait_how how,
                      struct fp_wait *wait)
{
    fp_walk_term(walk, word, &wait->target);
    if (wait->target.kind == FP_TERM_PID || wait->target.kind == FP_TERM_PORT ||
        wait->target.kind == FP_TERM_REMOTE_PID)
        wait->how = how;
}

/* A process that sleeps before it tries again to get a lock of global's. */
static void timer_edge(const struct fp_top *top, struct fp_walk *walk, struct fp_wait *wait)
{
    struct fp_term id;

    wait->how = FP_WAIT_timer;
    if (top->lower_slot == 0)
        return;
    wait->how = FP_WAIT_lock;
    fp_walk_term(walk, top->lower_slot, &id); /* {ResourceId, LockRequesterId} */
    fp_walk_element(walk, &id, 0, &wait->target);
    if (wait->target.kind != FP_TERM_ATOM)
        wait->target.kind = FP_TERM_OTHER;
}

void fp_top_edge(const struct fp_top *top, struct fp_walk *walk, struct fp_wait *wait)
{
    memset(wait, 0, sizeof *wait);
    wait->target.kind = FP_TERM_OTHER;
    wait->i = top->i;
    fp_walk_again(walk, FP_TOP_READS);
    lend(top, walk);
    if (may_be_by_hand(top)) {
        hand_written_edge(top, walk, wait);
    } else if (top->site == NULL) {
        return;
    } else if (has(top, FP_SITE_only)) {
        only_edge(top, walk, slot_of(top, FP_SITE_only), wait);
    } else if (has(top, FP_SITE_call)) {
        call_edge(top, walk, slot_of(top, FP_SITE_call), wait);
        if (wait->how == FP_WAIT_call && top->lower_slot != 0)
            fp_tag_read(walk, top->lower_slot, &wait->tag);
    } else if (has(top, FP_SITE_start)) {
        term_edge(walk, slot_of(top, FP_SITE_start), FP_WAIT_start, wait);
    } else if (has(top, FP_SITE_port)) {
        term_edge(walk, slot_of(top, FP_SITE_port), FP_WAIT_port, wait);
    } else if (has(top, FP_SITE_socket)) {
        wait->how = FP_WAIT_socket;
    } else if (has(top, FP_SITE_timer)) {
        timer_edge(top, walk, wait);
    }
}
