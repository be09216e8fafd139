#include "fake_terms.h"

#include <assert.h>
#include <string.h>

static uint64_t put(struct fake_terms *heap, const uint64_t *word, size_t n)
{
    uint64_t at = heap->at;

    fake_put(heap->memory, at, word, 8 * n);
    heap->at += 8 * n;
    return at;
}

uint64_t fake_boxed(struct fake_terms *heap, uint64_t header, const uint64_t *word, size_t n)
{
    uint64_t at = put(heap, &header, 1);

    put(heap, word, n);
    return at | 2;
}

uint64_t fake_tuple(struct fake_terms *heap, const uint64_t *word, size_t n)
{
    return fake_boxed(heap, n << 6, word, n);
}

uint64_t fake_cons(struct fake_terms *heap, uint64_t head, uint64_t tail)
{
    return put(heap, (const uint64_t[]){head, tail}, 2) | 1;
}

/* The words behind the header: 0xffffffff, n[0], n[1], n[2], of 32 bits. */
uint64_t fake_ref(struct fake_terms *heap, const struct fp_ref *ref)
{
    const uint64_t word[] = {(uint64_t)ref->n[0] << 32 | 0xffffffff,
                             (uint64_t)ref->n[2] << 32 | ref->n[1]};

    return fake_boxed(heap, 2 << 6 | 0x10, word, 2);
}

uint64_t fake_pid_ref(struct fake_terms *heap, const struct fp_ref *ref, uint64_t pid)
{
    const uint64_t word[] = {(uint64_t)ref->n[0] << 32 | 0xffffffff,
                             (uint64_t)ref->n[2] << 32 | ref->n[1], pid};

    return fake_boxed(heap, 3 << 6 | 0x10, word, 3);
}

uint64_t fake_magic_ref(struct fake_terms *heap)
{
    const uint64_t word[] = {FAKE_BASE + 0x1238, 0};

    return fake_boxed(heap, 2 << 6 | 0x10, word, 2);
}

uint64_t fake_node(struct fake_terms *heap, uint64_t name, uint32_t creation)
{
    /* bucket, references, name, creation */
    const uint64_t word[] = {0, 0x1234, 1, name, (uint64_t)0xa5a5 << 32 | creation, 0};

    return put(heap, word, 6);
}

uint64_t fake_remote_pid(struct fake_terms *heap, uint64_t node, uint32_t number, uint32_t serial)
{
    const uint64_t word[] = {node, 0, (uint64_t)serial << 32 | number};

    return fake_boxed(heap, 3 << 6 | 0x30, word, 3);
}

uint64_t fake_remote_port(struct fake_terms *heap, uint64_t node, uint64_t number)
{
    const uint64_t word[] = {node, 0, number};

    return fake_boxed(heap, 3 << 6 | 0x34, word, 3);
}

uint64_t fake_remote_ref(struct fake_terms *heap, uint64_t node, const struct fp_ref *ref,
                         uint32_t n)
{
    uint32_t data[6] = {n, ref->n[0], ref->n[1], ref->n[2], 77, 78};
    uint64_t word[5] = {node, 0};
    size_t words = (n + 2) / 2;

    assert(n >= 1 && n <= 5);
    memcpy(word + 2, data, 8 * words);
    return fake_boxed(heap, (2 + words) << 6 | 0x38, word, 2 + words);
}
