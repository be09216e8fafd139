#include "fake_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fake_region *region_of(struct fake_memory *memory, uint64_t address)
{
    for (size_t i = 0; i < memory->regions; i++)
        if (address - memory->region[i].address < memory->region[i].size)
            return &memory->region[i];
    return NULL;
}

static int64_t fake_readv(void *self, const struct iovec *local, const struct iovec *remote,
                          size_t n)
{
    struct fake_memory *memory = self;
    int64_t total = 0;

    memory->calls++;
    if (n > 1024)
        return -1; /* as the kernel: EINVAL above IOV_MAX */
    for (size_t i = 0; i < n; i++) {
        uint64_t address = (uint64_t)(uintptr_t)remote[i].iov_base;
        size_t size = remote[i].iov_len, done = 0;

        memory->entries++;
        if (memory->before_read != NULL)
            memory->before_read(memory, memory->arg, address, size);
        while (done < size) {
            const struct fake_region *region = region_of(memory, address + done);
            size_t left, piece;

            if (region == NULL)
                return total > 0 ? total : -1;
            left = region->size - (size_t)(address + done - region->address);
            piece = size - done < left ? size - done : left;
            memcpy((char *)local[i].iov_base + done,
                   region->bytes + (address + done - region->address), piece);
            done += piece;
            total += (int64_t)piece;
        }
    }
    return total;
}

void fake_memory_create(struct fake_memory *memory)
{
    memset(memory, 0, sizeof *memory);
    memory->reader.readv = fake_readv;
    memory->reader.self = memory;
    memory->reader.fd = -1;
}

void fake_memory_destroy(struct fake_memory *memory)
{
    for (size_t i = 0; i < memory->regions; i++)
        free(memory->region[i].bytes);
    memory->regions = 0;
}

static void wrong_test(const char *what, uint64_t address)
{
    printf("# fake memory: %s at %#llx\n", what, (unsigned long long)address);
    fflush(stdout);
    abort();
}

unsigned char *fake_map(struct fake_memory *memory, uint64_t address, size_t size)
{
    struct fake_region *region = &memory->region[memory->regions];

    if (memory->regions == FAKE_REGIONS_MAX || region_of(memory, address) != NULL)
        wrong_test("cannot map", address);
    region->address = address;
    region->size = size;
    region->bytes = calloc(1, size);
    if (region->bytes == NULL)
        wrong_test("no memory", address);
    memory->regions++;
    return region->bytes;
}

void fake_unmap(struct fake_memory *memory, uint64_t address)
{
    struct fake_region *region = region_of(memory, address);

    if (region == NULL || region->address != address)
        wrong_test("cannot unmap", address);
    free(region->bytes);
    *region = memory->region[--memory->regions];
}

unsigned char *fake_at(struct fake_memory *memory, uint64_t address, size_t size)
{
    struct fake_region *region = region_of(memory, address);

    if (region == NULL || region->size - (address - region->address) < size)
        return NULL;
    return region->bytes + (address - region->address);
}

void fake_put(struct fake_memory *memory, uint64_t address, const void *bytes, size_t size)
{
    unsigned char *at = fake_at(memory, address, size);

    if (at == NULL)
        wrong_test("nothing to write to", address);
    else if (size > 0)
        memcpy(at, bytes, size);
}

void fake_put_word(struct fake_memory *memory, uint64_t address, uint64_t word)
{
    fake_put(memory, address, &word, sizeof word);
}

uint64_t fake_word(struct fake_memory *memory, uint64_t address)
{
    const unsigned char *at = fake_at(memory, address, 8);
    uint64_t word = 0;

    if (at == NULL)
        wrong_test("nothing to read", address);
    else
        memcpy(&word, at, sizeof word);
    return word;
}
