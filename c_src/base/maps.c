#include "base/maps.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

/* One line of a maps file. */
struct line {
    struct fp_range at;
    char perms[5];
    uint64_t offset, device_major, device_minor, inode;
    const char *name; /* in the text, not terminated */
    size_t name_size;
};

/* "start-end perms offset major:minor inode   name". sscanf() measures its whole
 * text first, so it gets a copy of the fields alone. */
static int parse_line(const char *line, size_t size, struct line *map)
{
    int name_at = 0;
    char copy[128];
    size_t n = size < sizeof copy - 1 ? size : sizeof copy - 1;

    memcpy(copy, line, n);
    copy[n] = '\0';
    if (sscanf(copy,
               "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx64 ":%" SCNx64 " %" SCNu64 "%n",
               &map->at.start, &map->at.end, map->perms, &map->offset, &map->device_major,
               &map->device_minor, &map->inode, &name_at) < 7 ||
        name_at == 0 || strlen(map->perms) < 4 || map->at.start >= map->at.end)
        return 0;
    while ((size_t)name_at < size && line[name_at] == ' ')
        name_at++;
    map->name = line + name_at;
    map->name_size = size - (size_t)name_at;
    return 1;
}

/* The next well-formed line: 1, and *text is behind it; 0 at the end. */
static int next_line(const char **text, struct line *map)
{
    while (**text != '\0') {
        const char *line = *text;
        size_t size = strcspn(line, "\n");

        *text += size + (line[size] == '\n');
        if (parse_line(line, size, map))
            return 1;
    }
    return 0;
}

static int name_starts(const struct line *map, const char *prefix)
{
    size_t n = strlen(prefix);

    return map->name_size >= n && memcmp(map->name, prefix, n) == 0;
}

static int name_is(const struct line *map, const char *name)
{
    return map->name_size == strlen(name) && name_starts(map, name);
}

/* ------------------------------------------------------- code and data -- */

static int is_vm_memfd(const struct line *map)
{
    return name_starts(map, "/memfd:vmem");
}

static int is_executable(const struct line *map)
{
    return map->perms[0] == 'r' && map->perms[2] == 'x';
}

/* What can be merged into the range before it is. */
static int is_merged(struct fp_range *last, const struct fp_range *next)
{
    if (next->start != last->end)
        return 0;
    last->end = next->end;
    return 1;
}

static int add(struct fp_ranges *ranges, const struct fp_range *at)
{
    struct fp_range *last = ranges->count > 0 ? &ranges->range[ranges->count - 1] : NULL;

    /* The kernel lists mappings in order; of two that overlap one is wrong. */
    if (last != NULL && (at->start < last->end || is_merged(last, at)))
        return 0;
    if (ranges->count == FP_RANGES_MAX)
        return FP_EFULL;
    ranges->range[ranges->count++] = *at;
    return 0;
}

static int add_accepted(struct fp_ranges *ranges, const struct fp_maps_filter *filter,
                        const struct fp_range *at)
{
    if (at->end == at->start || (filter != NULL && !filter->accepts(filter->arg, at)))
        return 0;
    return add(ranges, at);
}

static int parse_anonymous(const char *text, const struct fp_maps_filter *filter,
                           struct fp_ranges *ranges)
{
    struct fp_range run = {0, 0}; /* neighbours so far */
    struct line map;

    while (next_line(&text, &map)) {
        if (!is_executable(&map) || map.name_size > 0 || map.at.start < run.end ||
            is_merged(&run, &map.at))
            continue;
        if (add_accepted(ranges, filter, &run) != 0)
            return FP_EFULL;
        run = map.at;
    }
    return add_accepted(ranges, filter, &run);
}

int fp_maps_parse_code(const char *text, const struct fp_maps_filter *filter,
                       struct fp_ranges *ranges)
{
    const char *rest = text;
    struct line map;
    int err = 0;

    ranges->count = 0;
    while (err == 0 && next_line(&rest, &map))
        if (is_executable(&map) && is_vm_memfd(&map))
            err = add(ranges, &map.at);
    if (ranges->count == 0)
        err = parse_anonymous(text, filter, ranges);
    return ranges->count > 0 ? err : FP_ENOENT;
}

int fp_maps_parse_data(const char *text, const char *exe, struct fp_ranges *ranges)
{
    uint64_t end = 0; /* of the executable's last data mapping */
    struct line map;
    int err = 0;

    ranges->count = 0;
    while (err == 0 && next_line(&text, &map)) {
        int is_bss = map.name_size == 0 && map.at.start == end;

        if (map.perms[0] != 'r' || map.perms[1] != 'w' || !(is_bss || name_is(&map, exe)))
            continue;
        end = map.at.end;
        err = add(ranges, &map.at);
    }
    return ranges->count > 0 ? err : FP_ENOENT;
}

/* For free(); NULL: unreadable, or no memory. */
static char *read_text(void)
{
    size_t size = 0, room = 1u << 16;
    char *text = malloc(room);
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
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

int fp_maps_code(const struct fp_maps_filter *filter, struct fp_ranges *ranges)
{
    char *text = read_text();
    int err = text == NULL ? FP_EIO : fp_maps_parse_code(text, filter, ranges);

    free(text);
    return err;
}

int fp_maps_code_is_memfd(void)
{
    char *text = read_text();
    const char *rest = text == NULL ? "" : text;
    struct line map;
    int found = 0;

    while (!found && next_line(&rest, &map))
        found = is_executable(&map) && is_vm_memfd(&map);
    free(text);
    return found;
}

int fp_maps_data(struct fp_ranges *ranges)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    char *text = n > 0 ? read_text() : NULL;
    int err;

    if (text == NULL)
        return FP_EIO;
    exe[n] = '\0';
    err = fp_maps_parse_data(text, exe, ranges);
    free(text);
    return err;
}

/* ---------------------------------------------------- code out of files -- */

static int is_library(const struct line *map)
{
    if (name_is(map, "[vdso]"))
        return 1;
    return name_starts(map, "/") && !name_starts(map, "/memfd:") && !name_starts(map, "/dev/") &&
           !name_starts(map, "/SYSV") && !name_starts(map, "/anon_hugepage");
}

static void cut_deleted(struct line *map)
{
    static const char deleted[] = " (deleted)";
    size_t tail = sizeof deleted - 1;

    if (map->name_size > tail && memcmp(map->name + map->name_size - tail, deleted, tail) == 0)
        map->name_size -= tail;
}

static int add_file(struct fp_mapped_files *files, const struct line *map)
{
    if ((files->count & (files->count - 1)) == 0) { /* full: 0, 1, 2, 4... */
        size_t room = files->count == 0 ? 1 : 2 * files->count;
        struct fp_mapped_file *more = realloc(files->of, room * sizeof *files->of);

        if (more == NULL)
            return FP_ENOMEM;
        files->of = more;
    }
    files->of[files->count++] =
        (struct fp_mapped_file){map->at.start,     map->at.end, map->offset, map->device_major,
                                map->device_minor, map->inode,  map->name};
    return 0;
}

int fp_mapped_files_parse(struct fp_mapped_files *files, char *text)
{
    const char *rest = text;
    struct line map;

    *files = (struct fp_mapped_files){.text = text};
    while (next_line(&rest, &map)) {
        /* The kernel lists mappings in order; one that is out of order would break the search by
         * address. */
        if (map.perms[2] != 'x' || !is_library(&map) ||
            (files->count > 0 && map.at.start < files->of[files->count - 1].end))
            continue;
        cut_deleted(&map);
        if (add_file(files, &map) != 0) {
            fp_mapped_files_free(files);
            return FP_ENOMEM;
        }
        text[map.name - text + (ptrdiff_t)map.name_size] = '\0';
    }
    return 0;
}

int fp_mapped_files_read(struct fp_mapped_files *files)
{
    char *text = read_text();

    *files = (struct fp_mapped_files){0};
    return text == NULL ? FP_EIO : fp_mapped_files_parse(files, text);
}

void fp_mapped_files_free(struct fp_mapped_files *files)
{
    free(files->of);
    free(files->text);
    *files = (struct fp_mapped_files){0};
}

/* --------------------------------------------------- ranges that grow -- */

static int is_covered(const struct fp_live_ranges *live, uint32_t count, struct fp_range *rest)
{
    /* A known range grows at an end when the JIT maps more: the new entry is the part beyond. */
    for (uint32_t i = 0; i < count; i++) {
        const struct fp_range *known = &live->range[i];

        if (rest->start >= known->start && rest->start < known->end)
            rest->start = known->end;
        if (rest->end > known->start && rest->end <= known->end)
            rest->end = known->start;
    }
    return rest->start >= rest->end;
}

int fp_live_ranges_update(struct fp_live_ranges *live, const struct fp_ranges *now)
{
    uint32_t count = atomic_load_explicit(&live->count, memory_order_relaxed);
    uint32_t before = count, left_out = 0;

    for (uint32_t i = 0; i < now->count; i++) {
        struct fp_range rest = now->range[i];

        if (is_covered(live, count, &rest))
            continue;
        if (count == FP_RANGES_MAX)
            left_out++;
        else
            live->range[count++] = rest;
    }
    atomic_store_explicit(&live->left_out, left_out, memory_order_relaxed);
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
