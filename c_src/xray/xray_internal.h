/* xray_internal.h - what the files of a look share.
 *
 *   begin.c   where the memory of a process is; a copy of it, where that fits into the limit
 *   xray.c    the roots, the proof, the answer */
#pragma once

#include "base/attempt.h"
#include "base/page_cache.h"
#include "erts/dictionary.h"
#include "erts/message_queue.h"
#include "erts/process_terms.h"
#include "erts/term/object.h"
#include "xray/walker.h"
#include "xray/xray.h"

/* Heap fragments of one process; a collection comes long before. */
#define FP_XRAY_FRAGMENTS_MAX 65536u
/* Messages that are copied with the heap. */
#define FP_XRAY_MESSAGES_MAX 4096u
/* Of a binary that garbage refers to. */
#define FP_XRAY_GARBAGE UINT32_MAX
/* More nodes or objects than this are a circle. */
#define FP_XRAY_NODES_MAX (UINT64_C(1) << 32)

enum fp_xray_phase { BEGIN, STACK, REGISTERS, DICTIONARY, MESSAGES, OWN, OFF_HEAP, CONFIRM };

struct fp_xray_fragment {
    uint64_t start, words, off_heap;
};

struct fp_xray {
    const struct fp_layout *layout;
    const struct fp_memory *memory;
    const struct fp_ranges *code;
    struct fp_xray_limits limits;
    struct fp_page_cache *cache;
    uint64_t pid, address;
    struct fp_attempts attempts;
    int is_done;
    enum fp_xray_phase phase;
    struct fp_process_terms view;
    struct fp_xray_walker walker;
    struct fp_xray_fragment *fragment; /* FP_XRAY_FRAGMENTS_MAX */
    uint32_t fragments;
    /* All that the walk reads is here, of a moment that is proved: the process may go on. */
    int is_copied;
    uint64_t *message; /* FP_XRAY_MESSAGES_MAX terms, whose fragments are among `fragment` */
    uint32_t messages;
    int is_gathered; /* `message` has all of them */
    /* Where the roots are. */
    uint64_t at;              /* word of the stack, slot of the dictionary, off-heap object */
    uint64_t address_of_code; /* that the slots of the stack belong to */
    uint32_t slot;
    uint64_t dictionary, dictionary_words; /* its slots in use */
    struct fp_queues queues;
    uint32_t chain;
    uint64_t node, nodes; /* of the chain; how many of all were read */
    struct fp_xray_answer answer;
};

/* A quarter for the table of binaries, an eighth for the walker's stack; the rest is the heap's. */
struct fp_xray_walker_limits fp_xray_walker_limits_of(const struct fp_xray_limits *limits);

/* An attempt: the regions of the heap, with their copies where there is room. 0 or an error. */
int fp_xray_begin(struct fp_xray *x);

/* 1: the structure is not as it was when the attempt began. */
int fp_xray_has_moved(const struct fp_xray *x);

/* The object at an address of the off-heap list; *next: the one behind it. 0 or an error. */
int fp_xray_off_heap_object(struct fp_xray *x, uint64_t at, struct fp_object *object,
                            uint64_t *next);

/* Counts a node of the queues that is a message. */
void fp_xray_count_message(struct fp_xray *x, const struct fp_queue_node *node);
