#include "xray/heap.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"

#define NO_BLOCK UINT32_MAX
/* Of pushed regions: the fragments of one message. */
#define PUSHED_MAX 66u
/* A larger region is none. */
#define WORDS_MAX (UINT64_C(1) << 40)

struct fp_xray_slot {
    uint32_t block; /* NO_BLOCK: free */
    uint8_t is_used;
};

struct fp_xray_heap {
    const struct fp_memory *memory;
    struct fp_xray_region *region; /* those that stay, by address, then those that were pushed */
    uint32_t regions, room, pushed;
    uint64_t words;
    uint64_t bits, bits_room; /* words of `bit` in use, and taken */
    uint64_t *bit;
    uint32_t blocks, blocks_room;
    uint32_t *slot_of; /* of each block, NO_BLOCK: not here */
    uint64_t kept_bits;
    uint32_t kept_blocks;
    unsigned char *copy; /* FP_XRAY_BLOCK for each slot */
    struct fp_xray_slot *slot;
    uint32_t slots, hand;
    struct fp_xray_region last; /* found last */
    uint64_t near;              /* the block read last: where it begins */
    uint64_t near_bytes;
    const unsigned char *near_copy;
};

static uint64_t bits_of(uint64_t words)
{
    return (words + 63) / 64;
}

static uint32_t blocks_of(uint64_t words)
{
    return (uint32_t)((words + FP_XRAY_BLOCK_WORDS - 1) / FP_XRAY_BLOCK_WORDS);
}

/* A region begins a word of bits and a block of its own. */
static uint64_t tables_bytes(uint64_t words, uint32_t regions)
{
    return 8 * (bits_of(words) + regions) + 4 * ((uint64_t)blocks_of(words) + regions) +
           (regions + PUSHED_MAX) * sizeof(struct fp_xray_region);
}

uint64_t fp_xray_heap_bytes(uint64_t words, uint32_t regions)
{
    return tables_bytes(words, regions) +
           FP_XRAY_BLOCKS_MIN * (FP_XRAY_BLOCK + sizeof(struct fp_xray_slot));
}

static int allocate(struct fp_xray_heap *heap, const struct fp_xray_heap_limits *limits)
{
    uint64_t tables = tables_bytes(limits->words, limits->regions);
    uint64_t all = blocks_of(limits->words) + (uint64_t)limits->regions + PUSHED_MAX;
    uint64_t slots = (limits->bytes - tables) / (FP_XRAY_BLOCK + sizeof(struct fp_xray_slot));

    heap->slots = (uint32_t)(slots < all ? slots : all);
    if (heap->slots < FP_XRAY_BLOCKS_MIN)
        heap->slots = FP_XRAY_BLOCKS_MIN;
    heap->room = limits->regions;
    heap->bits_room = bits_of(limits->words) + limits->regions + 1;
    heap->blocks_room = blocks_of(limits->words) + limits->regions + 1;
    heap->region = fp_pages_reserve((limits->regions + (size_t)PUSHED_MAX) * sizeof *heap->region);
    heap->bit = fp_pages_reserve(8 * heap->bits_room);
    heap->slot_of = fp_pages_reserve(4 * (size_t)heap->blocks_room);
    heap->copy = fp_pages_reserve(FP_XRAY_BLOCK * (size_t)heap->slots);
    heap->slot = fp_pages_reserve(heap->slots * sizeof *heap->slot);
    if (heap->region == NULL || heap->bit == NULL || heap->slot_of == NULL || heap->copy == NULL ||
        heap->slot == NULL)
        return FP_ENOMEM;
    return 0;
}

static void clear(struct fp_xray_heap *heap)
{
    for (uint32_t k = 0; k < heap->slots; k++)
        heap->slot[k] = (struct fp_xray_slot){NO_BLOCK, 0};
    heap->regions = heap->pushed = heap->blocks = heap->kept_blocks = heap->hand = 0;
    heap->words = heap->bits = heap->kept_bits = heap->near_bytes = 0;
    heap->last = (struct fp_xray_region){0};
}

int fp_xray_heap_reuse(struct fp_xray_heap *heap, uint64_t words, uint32_t regions)
{
    if (words > WORDS_MAX || regions > heap->room || bits_of(words) + regions >= heap->bits_room ||
        blocks_of(words) + (uint64_t)regions >= heap->blocks_room)
        return 0;
    clear(heap);
    return 1;
}

int fp_xray_heap_create(struct fp_xray_heap **heap, const struct fp_memory *memory,
                        const struct fp_xray_heap_limits *limits)
{
    struct fp_xray_heap *new;
    int err;

    *heap = NULL;
    if (limits->words > WORDS_MAX ||
        fp_xray_heap_bytes(limits->words, limits->regions) > limits->bytes)
        return FP_EFULL;
    new = calloc(1, sizeof *new);
    if (new == NULL)
        return FP_ENOMEM;
    new->memory = memory;
    err = allocate(new, limits);
    if (err != 0) {
        fp_xray_heap_destroy(new);
        return err;
    }
    clear(new);
    *heap = new;
    return 0;
}

void fp_xray_heap_destroy(struct fp_xray_heap *heap)
{
    if (heap == NULL)
        return;
    fp_pages_free(heap->region, (heap->room + (size_t)PUSHED_MAX) * sizeof *heap->region);
    fp_pages_free(heap->bit, 8 * heap->bits_room);
    fp_pages_free(heap->slot_of, 4 * (size_t)heap->blocks_room);
    fp_pages_free(heap->copy, FP_XRAY_BLOCK * (size_t)heap->slots);
    fp_pages_free(heap->slot, heap->slots * sizeof *heap->slot);
    free(heap);
}

/* ---------------------------------------------------------------- regions -- */

static int is_possible(uint64_t start, uint64_t words)
{
    return (start & 7) == 0 && start != 0 && words <= WORDS_MAX && start <= UINT64_MAX - 8 * words;
}

/* Behind all others; its tables are cleared. */
static int append(struct fp_xray_heap *heap, uint64_t start, uint64_t words)
{
    uint64_t bits = bits_of(words);
    uint32_t blocks = blocks_of(words), at = heap->regions + heap->pushed;

    if (heap->bits + bits > heap->bits_room || blocks > heap->blocks_room - heap->blocks)
        return FP_EFULL;
    heap->region[at] =
        (struct fp_xray_region){start, start + 8 * words, 64 * heap->bits, heap->blocks};
    memset(heap->bit + heap->bits, 0, 8 * bits);
    memset(heap->slot_of + heap->blocks, 0xff, 4 * (size_t)blocks);
    heap->bits += bits;
    heap->blocks += blocks;
    heap->words += words;
    return 0;
}

int fp_xray_heap_add(struct fp_xray_heap *heap, uint64_t start, uint64_t words)
{
    int err;

    if (words == 0)
        return 0;
    if (!is_possible(start, words))
        return FP_ETORN;
    if (heap->regions == heap->room)
        return FP_EFULL;
    err = append(heap, start, words);
    heap->regions += err == 0;
    return err;
}

static int by_start(const void *a, const void *b)
{
    const struct fp_xray_region *left = a, *right = b;

    return (left->start > right->start) - (left->start < right->start);
}

int fp_xray_heap_sort(struct fp_xray_heap *heap)
{
    qsort(heap->region, heap->regions, sizeof *heap->region, by_start);
    for (uint32_t k = 1; k < heap->regions; k++)
        if (heap->region[k].start < heap->region[k - 1].end)
            return FP_ETORN;
    heap->kept_bits = heap->bits;
    heap->kept_blocks = heap->blocks;
    return 0;
}

/* Makes room in the tables for a pushed region. */
static int grow(struct fp_xray_heap *heap, uint64_t bits, uint32_t blocks)
{
    if (heap->bits + bits > heap->bits_room) {
        uint64_t room = 2 * (heap->bits + bits);
        uint64_t *more = fp_pages_resize(heap->bit, 8 * heap->bits_room, 8 * room);

        if (more == NULL)
            return FP_ENOMEM;
        heap->bit = more;
        heap->bits_room = room;
    }
    if (blocks > heap->blocks_room - heap->blocks) {
        uint32_t room = 2 * (heap->blocks + blocks);
        uint32_t *more =
            fp_pages_resize(heap->slot_of, 4 * (size_t)heap->blocks_room, 4 * (size_t)room);

        if (more == NULL)
            return FP_ENOMEM;
        heap->slot_of = more;
        heap->blocks_room = room;
    }
    return 0;
}

int fp_xray_heap_push(struct fp_xray_heap *heap, uint64_t start, uint64_t words)
{
    struct fp_xray_region region;
    int err;

    if (words == 0)
        return 0;
    if (!is_possible(start, words) || fp_xray_find(heap, start, &region) == 0)
        return FP_ETORN;
    if (heap->pushed == PUSHED_MAX)
        return FP_EFULL;
    err = grow(heap, bits_of(words), blocks_of(words));
    if (err == 0)
        err = append(heap, start, words);
    heap->pushed += err == 0;
    return err;
}

void fp_xray_heap_forget(struct fp_xray_heap *heap)
{
    for (uint32_t block = heap->kept_blocks; block < heap->blocks; block++)
        if (heap->slot_of[block] != NO_BLOCK)
            heap->slot[heap->slot_of[block]] = (struct fp_xray_slot){NO_BLOCK, 0};
    heap->pushed = 0;
    heap->bits = heap->kept_bits;
    heap->blocks = heap->kept_blocks;
    heap->last = (struct fp_xray_region){0};
    heap->near_bytes = 0;
}

uint64_t fp_xray_heap_words(const struct fp_xray_heap *heap)
{
    return heap->words;
}

static int contains(const struct fp_xray_region *region, uint64_t address)
{
    return address - region->start < region->end - region->start;
}

static const struct fp_xray_region *find(const struct fp_xray_heap *heap, uint64_t address)
{
    uint32_t low = 0, high = heap->regions;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (address >= heap->region[middle].end)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < heap->regions && contains(&heap->region[low], address))
        return &heap->region[low];
    for (uint32_t k = heap->regions; k < heap->regions + heap->pushed; k++)
        if (contains(&heap->region[k], address))
            return &heap->region[k];
    return NULL;
}

int fp_xray_find(struct fp_xray_heap *heap, uint64_t address, struct fp_xray_region *region)
{
    if (!contains(&heap->last, address)) {
        const struct fp_xray_region *found = find(heap, address);

        if (found == NULL)
            return FP_ENOENT;
        heap->last = *found;
    }
    *region = heap->last;
    return 0;
}

/* ----------------------------------------------------------------- blocks -- */

/* A slot whose block was not used since the hand came by. */
static uint32_t free_slot(struct fp_xray_heap *heap)
{
    for (;;) {
        struct fp_xray_slot *slot = &heap->slot[heap->hand];
        uint32_t at = heap->hand;

        heap->hand = at + 1 == heap->slots ? 0 : at + 1;
        if (slot->block == NO_BLOCK)
            return at;
        if (!slot->is_used) {
            heap->slot_of[slot->block] = NO_BLOCK;
            slot->block = NO_BLOCK;
            return at;
        }
        slot->is_used = 0;
    }
}

/* Makes the block of `address` the near one. */
static int come_near(struct fp_xray_heap *heap, uint64_t address)
{
    struct fp_xray_region region;
    uint64_t in_region, start, bytes;
    uint32_t block, at;

    if (fp_xray_find(heap, address, &region) != 0)
        return FP_ENOENT;
    in_region = (address - region.start) / FP_XRAY_BLOCK;
    start = region.start + in_region * FP_XRAY_BLOCK;
    bytes = region.end - start < FP_XRAY_BLOCK ? region.end - start : FP_XRAY_BLOCK;
    block = region.first_block + (uint32_t)in_region;
    at = heap->slot_of[block];
    heap->near_bytes = 0;
    if (at == NO_BLOCK) {
        at = free_slot(heap);
        if (fp_safe_read(heap->memory, start, heap->copy + FP_XRAY_BLOCK * (size_t)at,
                         (size_t)bytes) != 0)
            return FP_EFAULT;
        heap->slot[at].block = block;
        heap->slot_of[block] = at;
    }
    heap->slot[at].is_used = 1;
    heap->near = start;
    heap->near_bytes = bytes;
    heap->near_copy = heap->copy + FP_XRAY_BLOCK * (size_t)at;
    return 0;
}

int fp_xray_heap_load(struct fp_xray_heap *heap)
{
    int err = heap->blocks > heap->slots ? FP_EFULL : 0;

    for (uint32_t k = 0; err == 0 && k < heap->regions + heap->pushed; k++)
        for (uint64_t at = heap->region[k].start; err == 0 && at < heap->region[k].end;
             at += FP_XRAY_BLOCK)
            err = come_near(heap, at);
    return err;
}

int fp_xray_word(struct fp_xray_heap *heap, uint64_t address, uint64_t *word)
{
    int err = 0;

    if ((address & 7) != 0)
        return FP_ENOENT;
    if (address - heap->near >= heap->near_bytes)
        err = come_near(heap, address);
    if (err == 0)
        memcpy(word, heap->near_copy + (address - heap->near), 8);
    return err;
}

/* ------------------------------------------------------------------- bits -- */

static uint64_t bit_at(const struct fp_xray_region *region, uint64_t address)
{
    return region->first_bit + (address - region->start) / 8;
}

int fp_xray_visit(struct fp_xray_heap *heap, const struct fp_xray_region *region, uint64_t address)
{
    uint64_t at = bit_at(region, address), bit = UINT64_C(1) << (at % 64);
    int is_first = (heap->bit[at / 64] & bit) == 0;

    heap->bit[at / 64] |= bit;
    return is_first;
}
