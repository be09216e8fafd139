#include "base/maps.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

struct mapping {
    struct fp_range at;
    char perms[5];
    const char *name; /* up to the end of the line */
    size_t name_len;
};

/* "start-end perms offset dev inode   name" */
static int parse_line(const char *line, size_t len, struct mapping *map)
{
    int name_at = 0;
    char copy[128];
    size_t n = len < sizeof copy - 1 ? len : sizeof copy - 1;

    memcpy(copy, line, n);
    copy[n] = '\0';
    if (sscanf(copy, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s%n",
               &map->at.start, &map->at.end, map->perms, &name_at) < 3 ||
        name_at == 0 || strlen(map->perms) < 4 || map->at.start >= map->at.end)
        return FP_EINVAL;
    map->name = line + name_at;
    map->name_len = len - (size_t)name_at;
    while (map->name_len > 0 && *map->name == ' ') {
        map->name++;
        map->name_len--;
    }
    return 0;
}

static int name_starts(const struct mapping *map, const char *prefix)
{
    size_t n = strlen(prefix);

    return map->name_len >= n && memcmp(map->name, prefix, n) == 0;
}

static int is_code(const struct mapping *map)
{
    if (map->perms[0] != 'r' || map->perms[2] != 'x')
        return 0;
    return map->name_len == 0 || name_starts(map, "/memfd:vmem");
}

static int add(struct fp_ranges *ranges, const struct fp_range *at)
{
    struct fp_range *last =
        ranges->count > 0 ? &ranges->range[ranges->count - 1] : NULL;

    /* The kernel tells them in order; two that overlap are not both true. */
    if (last != NULL && at->start < last->end)
        return 0;
    if (last != NULL && last->end == at->start) {
        last->end = at->end;
        return 0;
    }
    if (ranges->count == FP_RANGES_MAX)
        return FP_EFULL;
    ranges->range[ranges->count++] = *at;
    return 0;
}

int fp_maps_parse(const char *text, const char *exe, int want,
                  struct fp_ranges *ranges)
{
    uint64_t data_end = 0; /* where the executable's last data mapping ended */

    ranges->count = 0;
    for (const char *line = text; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        struct mapping map;
        int take = 0;

        if (parse_line(line, len, &map) == 0) {
            if (want == 'c') {
                take = is_code(&map);
            } else if (want == 'm') {
                take = is_code(&map) && map.name_len > 0;
            } else if (map.perms[0] == 'r' && map.perms[1] == 'w') {
                int ours = map.name_len == strlen(exe) &&
                           memcmp(map.name, exe, map.name_len) == 0;
                int bss = map.name_len == 0 && map.at.start == data_end;

                take = ours || bss;
                if (take)
                    data_end = map.at.end;
            }
        }
        if (take && add(ranges, &map.at) != 0)
            return FP_EFULL;
        line += len + (line[len] == '\n');
    }
    return ranges->count > 0 ? 0 : FP_ENOENT;
}

static char *slurp(const char *path)
{
    size_t size = 0, room = 1u << 16;
    char *text = malloc(room);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = -1;

    while (fd >= 0 && text != NULL) {
        got = read(fd, text + size, room - size - 1);
        if (got <= 0)
            break;
        size += (size_t)got;
        if (room - size < 4096) {
            char *more = realloc(text, room *= 2);

            if (more == NULL) {
                got = -1;
                break;
            }
            text = more;
        }
    }
    if (fd >= 0)
        close(fd);
    if (got != 0) {
        free(text);
        return NULL;
    }
    text[size] = '\0';
    return text;
}

static int from_proc(int want, struct fp_ranges *ranges)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    char *text = n > 0 ? slurp("/proc/self/maps") : NULL;
    int err;

    if (text == NULL)
        return FP_EIO;
    exe[n] = '\0';
    err = fp_maps_parse(text, exe, want, ranges);
    free(text);
    return err;
}

int fp_maps_code(struct fp_ranges *ranges)
{
    return from_proc('c', ranges);
}

int fp_maps_code_is_memfd(void)
{
    struct fp_ranges ranges;

    return from_proc('m', &ranges) == 0;
}

int fp_maps_data(struct fp_ranges *ranges)
{
    return from_proc('d', ranges);
}

static int is_covered(const struct fp_live_ranges *live, uint32_t count,
                      struct fp_range *rest)
{
    /* What is known grows at its end when the JIT maps more: the new entry is
     * the part beyond. */
    for (uint32_t i = 0; i < count; i++) {
        const struct fp_range *known = &live->range[i];

        if (rest->start >= known->start && rest->start < known->end)
            rest->start = known->end;
        if (rest->end > known->start && rest->end <= known->end)
            rest->end = known->start;
    }
    return rest->start >= rest->end;
}

int fp_live_ranges_update(struct fp_live_ranges *live,
                          const struct fp_ranges *now)
{
    uint32_t count = atomic_load_explicit(&live->count, memory_order_relaxed);
    uint32_t before = count;

    for (uint32_t i = 0; i < now->count && count < FP_RANGES_MAX; i++) {
        struct fp_range rest = now->range[i];

        if (!is_covered(live, count, &rest))
            live->range[count++] = rest;
    }
    atomic_store_explicit(&live->count, count, memory_order_release);
    return count > before;
}

void fp_live_ranges_copy(struct fp_live_ranges *live, struct fp_ranges *copy)
{
    uint32_t count = atomic_load_explicit(&live->count, memory_order_acquire);

    while (copy->count < count) {
        copy->range[copy->count] = live->range[copy->count];
        copy->count++;
    }
}
