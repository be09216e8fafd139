/* message_kinds.h - the kinds of messages and the shapes of their tags, as terms, records and files
 * number them. */
#pragma once

#include <stdint.h>

/* X(kind): in the order of the words of a file; never renumbered. */
#define FP_MESSAGE_KIND_MAP(X)                                                                     \
    X(unknown) X(call) X(cast) X(event) X(system) X(io) X(down) X(exit) X(timer) X(reply) X(info)

enum fp_message_kind {
#define FP_MESSAGE_KIND_ENUM(name) FP_MESSAGE_##name,
    FP_MESSAGE_KIND_MAP(FP_MESSAGE_KIND_ENUM)
#undef FP_MESSAGE_KIND_ENUM
        FP_MESSAGE_KIND_COUNT
};

enum fp_shape {
    FP_SHAPE_UNKNOWN, /* could not be read */
    FP_SHAPE_OTHER,   /* a term without a tag: a list, a map, a binary, {1, 2} ... */
    FP_SHAPE_ATOM,
    FP_SHAPE_TUPLE /* {atom, _ ...} of `arity` */
};

struct fp_tag {
    uint64_t atom; /* word of the VM */
    uint32_t arity;
    enum fp_shape shape;
};
