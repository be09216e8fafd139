#include "waits/edge.h"

#include <string.h>

#include "base/error.h"
#include "erts/monitors.h"
#include "erts/term.h"

/* Reads of one walk, beside what was copied before. */
#define BUDGET 200u

static int valid_site(const struct fp_sites *sites, const uint8_t *is_valid, uint64_t address)
{
    int at = fp_sites_find(sites, address);

    return at >= 0 && is_valid[at] ? at : -1;
}

void fp_top_frames(struct fp_top *top, const struct fp_ranges *code, const struct fp_sites *sites,
                   const uint8_t *is_valid)
{
    top->site = valid_site(sites, is_valid, top->i);
    top->frames = fp_frames_read(top->frame, FP_TOP_FRAMES, code, top->i, top->word, top->words);
}

static const struct fp_site *site_of(const struct fp_top *top, const struct fp_sites *sites)
{
    return top->site < 0 ? NULL : fp_sites_at(sites, (uint32_t)top->site);
}

/* What the slot of the role holds in the nearest frame below the top whose return address has it;
 * 0: none has. */
static uint64_t below(const struct fp_top *top, const struct fp_sites *sites,
                      const uint8_t *is_valid, enum fp_site_role role)
{
    for (uint32_t i = 1; i < top->frames; i++) {
        int at = valid_site(sites, is_valid, top->frame[i].address);
        const struct fp_site *site = at < 0 ? NULL : fp_sites_at(sites, (uint32_t)at);

        if (site != NULL && fp_site_has(site, role))
            return fp_frame_slot(&top->frame[i], top->word, site->slot[role]);
    }
    return 0;
}

static uint64_t slot_of(const struct fp_top *top, const struct fp_site *site,
                        enum fp_site_role role)
{
    return fp_frame_slot(&top->frame[0], top->word, site->slot[role]);
}

static int is_on_heap(uint64_t word)
{
    return fp_term_is_boxed(word) || fp_term_is_list(word);
}

/* A frame that the copy ends in may have more references. */
static int may_be_by_hand(const struct fp_top *top)
{
    return top->site < 0 && top->monitors != 0 && !(top->frames == 1 && top->is_cut);
}

static void want(struct fp_top *top, uint64_t word)
{
    if (top->terms < FP_TOP_TERMS && is_on_heap(word))
        top->term[top->terms++].address = fp_term_address(word);
}

void fp_top_wanted(struct fp_top *top, const struct fp_sites *sites, const uint8_t *is_valid)
{
    const struct fp_site *site = site_of(top, sites);

    top->terms = 0;
    if (site != NULL && fp_site_has(site, FP_SITE_call)) {
        want(top, slot_of(top, site, FP_SITE_call));
        want(top, below(top, sites, is_valid, FP_SITE_request));
    }
    for (uint32_t i = 0; may_be_by_hand(top) && i < top->frame[0].slots; i++)
        if (fp_term_is_boxed(top->word[top->frame[0].first + i]))
            want(top, top->word[top->frame[0].first + i]);
}

/* From what was read before, if it was. */
static void lend_term(const struct fp_top *top, struct fp_walk *walk, uint64_t word)
{
    for (uint32_t i = 0; i < top->terms; i++)
        if (top->term[i].address == fp_term_address(word))
            fp_walk_copy(walk, top->term[i].address, top->term[i].word, top->term[i].words);
}

static int find_monitor(const struct fp_top *top, struct fp_walk *walk, const struct fp_ref *ref,
                        struct fp_monitor *monitor)
{
    fp_walk_copy(walk, top->monitors, top->root, top->root_words);
    return fp_monitors_find(walk, top->monitors, ref, monitor);
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

    lend_term(top, walk, word);
    if (fp_ref_read(walk, &walk->layout->envelope, word, &wait->ref) != 0)
        return;
    wait->how = FP_WAIT_call;
    wait->has_ref = 1;
    if (find_monitor(top, walk, &wait->ref, &monitor) == 0 && has_a_target(&monitor))
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
        lend_term(top, walk, top->word[frame->first + i]);
        fp_walk_term(walk, top->word[frame->first + i], &term);
        if (term.kind == FP_TERM_UNREADABLE)
            return;
        if (term.kind != FP_TERM_REF || (n > 0 && fp_ref_is_equal(&term.ref, &found.ref)))
            continue;
        err = find_monitor(top, walk, &term.ref, &monitor);
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
static void timer_edge(const struct fp_top *top, const struct fp_sites *sites,
                       const uint8_t *is_valid, struct fp_walk *walk, struct fp_wait *wait)
{
    uint64_t lock = below(top, sites, is_valid, FP_SITE_lock);
    struct fp_term id;

    wait->how = FP_WAIT_timer;
    if (lock == 0)
        return;
    wait->how = FP_WAIT_lock;
    fp_walk_term(walk, lock, &id); /* {ResourceId, LockRequesterId} */
    fp_walk_element(walk, &id, 0, &wait->target);
    if (wait->target.kind != FP_TERM_ATOM)
        wait->target.kind = FP_TERM_OTHER;
}

void fp_top_edge(const struct fp_top *top, const struct fp_sites *sites, const uint8_t *is_valid,
                 struct fp_walk *walk, struct fp_wait *wait)
{
    const struct fp_site *site = site_of(top, sites);
    uint64_t request;

    memset(wait, 0, sizeof *wait);
    wait->target.kind = FP_TERM_OTHER;
    wait->i = top->i;
    fp_walk_again(walk, BUDGET);
    if (site == NULL) {
        if (may_be_by_hand(top))
            hand_written_edge(top, walk, wait);
        return;
    }
    if (fp_site_has(site, FP_SITE_call)) {
        call_edge(top, walk, slot_of(top, site, FP_SITE_call), wait);
        request = below(top, sites, is_valid, FP_SITE_request);
        if (wait->how == FP_WAIT_call && request != 0) {
            lend_term(top, walk, request);
            fp_tag_read(walk, request, &wait->tag);
        }
    } else if (fp_site_has(site, FP_SITE_start)) {
        term_edge(walk, slot_of(top, site, FP_SITE_start), FP_WAIT_start, wait);
    } else if (fp_site_has(site, FP_SITE_port)) {
        term_edge(walk, slot_of(top, site, FP_SITE_port), FP_WAIT_port, wait);
    } else if (fp_site_has(site, FP_SITE_socket)) {
        wait->how = FP_WAIT_socket;
    } else if (fp_site_has(site, FP_SITE_timer)) {
        timer_edge(top, sites, is_valid, walk, wait);
    }
}
