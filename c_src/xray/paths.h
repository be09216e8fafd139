/* paths.h - how much each way from a root of a process leads to.
 *
 *      stack slot 2 of f/3: #state{}
 *        element 4: map                 one node for each step and what it arrives at
 *          key sessions: map
 *            values: {session,_,_}      of all values of the map that are such tuples together
 *
 * A node counts what was found there first: an object that is reached twice is in one place. Below
 * a tuple, a fun or a record of the same shape as one of its containers the nodes of that one count
 * on, so a tree of any depth is one node for each of its elements. Where there is no more room (of
 * nodes, of steps below a node, in depth), what lies below counts at the last node.
 *
 * One thread. No allocation after creation. */
#pragma once

#include <stdint.h>

enum fp_xray_step {
    FP_XRAY_NOWHERE,    /* node 0: the process */
    FP_XRAY_STACK,      /* value: slot << 48 | return address, or where the process continues */
    FP_XRAY_REGISTER,   /* value: its number */
    FP_XRAY_DICTIONARY, /* value: the key's atom; 0: other keys, and what holds the entries */
    FP_XRAY_MESSAGE,
    FP_XRAY_OWN,     /* of the process structure: group leader, reason, trace token */
    FP_XRAY_ELEMENT, /* value: of a tuple or record, from 1; 0: behind the last one that is told */
    FP_XRAY_MEMBER,  /* of a list */
    FP_XRAY_TAIL,    /* of an improper one */
    FP_XRAY_KEYS,    /* of a map */
    FP_XRAY_VALUE,   /* value: the key's atom; 0: other keys */
    FP_XRAY_VARIABLE /* of a fun; value: from 1 */
};

enum fp_xray_form {
    FP_XRAY_FORM_NONE, /* node 0 */
    FP_XRAY_FORM_TUPLE,
    FP_XRAY_FORM_RECORD,
    FP_XRAY_FORM_LIST,
    FP_XRAY_FORM_MAP,
    FP_XRAY_FORM_FUN,
    FP_XRAY_FORM_BINARY, /* refc, and sub-binaries of it */
    FP_XRAY_FORM_HEAP_BINARY,
    FP_XRAY_FORM_NUMBER,
    FP_XRAY_FORM_IDENTIFIER
};

struct fp_xray_shape {
    enum fp_xray_form form;
    uint32_t arity; /* of a tuple, record */
    uint64_t tag;   /* of a tuple: the atom that it begins with, or 0 */
};

struct fp_xray_node {
    uint32_t parent, depth, below; /* `below`: nodes whose parent it is */
    uint32_t same;                 /* next of the same hash; 0: none */
    enum fp_xray_step step;
    uint64_t value;
    struct fp_xray_shape shape;
    uint64_t words, objects;
    uint64_t binaries, binary_bytes; /* refc binaries that were found here, and their sizes */
    uint64_t seen_bytes;             /* of them, what the terms of this process show */
};

struct fp_xray_paths {
    struct fp_xray_node *node; /* a parent is before its children; node 0 is the process */
    uint32_t nodes, room;
    uint32_t *first; /* of each hash */
    uint32_t hashes;
};

/* `room` nodes. 0 or FP_ENOMEM. */
int fp_xray_paths_create(struct fp_xray_paths *paths, uint32_t room);
void fp_xray_paths_destroy(struct fp_xray_paths *paths);
void fp_xray_paths_clear(struct fp_xray_paths *paths);
uint64_t fp_xray_paths_bytes(uint32_t room);

/* The node that a step leads to. */
uint32_t fp_xray_path(struct fp_xray_paths *paths, uint32_t from, enum fp_xray_step step,
                      uint64_t value, const struct fp_xray_shape *shape);

/* Adds to each node what is below it: then a node has all that it leads to. Once. */
void fp_xray_paths_sum(struct fp_xray_paths *paths);
