/* sites.h - code addresses at which is known what a process waits for, or works on.
 *
 * flame_prof_wait_sites finds them with probes, in the modules that are loaded: at one address the
 * compiler has put the same thing into the same slot in every process. A table is immutable once
 * made; threads share it. Each has to compare the code at the addresses with what it was then:
 * modules are loaded anew, and code memory is used again. fp_sites_check() compares all of them,
 * before the first use and now and then; who uses one compares that one again with the terms
 * (fp_sites_is_valid(), fp_site_spans()). The signal handler does not: between two checks of the
 * sampler, for half a second, it may take a word of a stack for a site that is no more. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/maps.h"
#include "base/safe_read.h"

/* X(role). Of a top frame: where the process waits. Of a return address: in a frame below.
 *
 *   call        top; slot: the reference of the call, or [alias|Reference]
 *   request     return address; slot: the request of the call that it waits for
 *   loop        top: the main receive of a server, which waits for any message
 *   timer       top: timer:sleep/1
 *   start       top; slot: the child's pid
 *   port        top; slot: the port
 *   socket      top: a wait for a socket of the module `socket`
 *   lock        return address; slot: the id of the resource that global locks
 *   message     return address; slot: the message in work, with its envelope
 *   serves      return address; slot: the request of the call in work, without its envelope
 *   cast        return address; slot: the request of the cast in work, likewise
 *   event       return address; slot: the event in work, likewise
 *   queue       return address; slot: gen_statem's [{Type, Content} | _], the event in work first
 *   from        return address; slot: From of the call in work
 *   module      return address; slot: the callback module
 *
 * By the compiled code of a receive (flame_prof_wait_learn), all of the top, and of looks only:
 *
 *   read        the receive is known; without one of the others it takes other messages than those
 *               with a term of its frame
 *   only        slot: each message that it takes has the term there: a reference, a port
 *   some        some messages that it takes have a term of the frame */
/* clang-format off */
#define FP_SITE_ROLE_MAP(X) \
    X(call) \
    X(request) \
    X(loop) \
    X(timer) \
    X(start) \
    X(port) \
    X(socket) \
    X(lock) \
    X(message) \
    X(serves) \
    X(cast) \
    X(event) \
    X(queue) \
    X(from) \
    X(module) \
    X(read) \
    X(only) \
    X(some)
/* clang-format on */

enum fp_site_role {
#define FP_SITE_ROLE_ENUM(name) FP_SITE_##name,
    FP_SITE_ROLE_MAP(FP_SITE_ROLE_ENUM)
#undef FP_SITE_ROLE_ENUM
        FP_SITE_ROLES
};

/* What a probe has found. */
struct fp_site_row {
    uint64_t address;
    enum fp_site_role role;
    uint32_t slot; /* of a role without slot: 0 */
};

/* Bytes of code that are compared: before an address, and from it on. */
#define FP_SITE_BYTES_BEFORE 32u
#define FP_SITE_BYTES 48u

struct fp_site {
    uint64_t address;
    uint32_t roles; /* bit for each role */
    uint8_t slot[FP_SITE_ROLES];
    uint64_t mfa_at, mfa[3]; /* 0: in a fragment of the VM that is in no function */
    unsigned char code[FP_SITE_BYTES];
};

#define FP_SITES_MAX 1024u    /* addresses */
#define FP_SITE_SLOTS_MAX 64u /* a slot is below */

struct fp_sites;

/* With one user. 0; FP_EINVAL: a slot, a role or too many; FP_EFAULT: an address is no code;
 * FP_ENOMEM. */
int fp_sites_create(struct fp_sites **sites, const struct fp_memory *memory,
                    const struct fp_ranges *code, const struct fp_site_row *row, size_t rows);
/* One user more, and one less: the last one's release frees it. NULL is nothing. Any thread. */
void fp_sites_retain(struct fp_sites *sites);
void fp_sites_release(struct fp_sites *sites);

uint32_t fp_sites_count(const struct fp_sites *sites);
const struct fp_site *fp_sites_at(const struct fp_sites *sites, uint32_t at);

/* is_valid[0 .. fp_sites_count()): 1 where the code is what it was. How many are valid. Two reads a
 * site, in batches. */
uint32_t fp_sites_check(const struct fp_sites *sites, const struct fp_memory *memory,
                        uint8_t *is_valid);

/* 1: the code of this one is what it was. Two reads, as one batch. */
int fp_sites_is_valid(const struct fp_site *site, const struct fp_memory *memory);

/* The same as part of a caller's batch: what is to be read, and whether it is what it was. */
struct fp_site_code {
    uint64_t mfa[3];
    unsigned char byte[FP_SITE_BYTES];
};
void fp_site_spans(const struct fp_site *site, struct fp_site_code *now,
                   struct fp_safe_read_span span[2]);
int fp_site_has_stayed(const struct fp_site *site, const struct fp_site_code *now,
                       const struct fp_safe_read_span span[2]);

/* The place of an address in the table, or -1. Some nanoseconds. */
int fp_sites_find(const struct fp_sites *sites, uint64_t address);

static inline int fp_site_has(const struct fp_site *site, enum fp_site_role role)
{
    return (site->roles >> role & 1) != 0;
}
