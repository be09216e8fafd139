#include "base/maps.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_text.h"

/* "start-end perms offset major:minor inode   name". sscanf() measures its whole
 * text first, so it gets a copy of the fields alone. */
int fp_map_line_parse(const char *line, size_t size, struct fp_map_line *map)
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

/* The next well-formed line: 1, and *text then points behind the line; 0 at the end. */
static int next_line(const char **text, struct fp_map_line *map)
{
    while (**text != '\0') {
        const char *line = *text;
        size_t size = strcspn(line, "\n");

        *text += size + (line[size] == '\n');
        if (fp_map_line_parse(line, size, map))
            return 1;
    }
    return 0;
}

static int name_starts(const struct fp_map_line *map, const char *prefix)
{
    size_t n = strlen(prefix);

    return map->name_size >= n && memcmp(map->name, prefix, n) == 0;
}

static int name_is(const struct fp_map_line *map, const char *name)
{
    return map->name_size == strlen(name) && name_starts(map, name);
}

/* ------------------------------------------------------- code and data -- */

enum kind { VM_MEMFD, ANONYMOUS_CODE, EXE_DATA };

/* `run`: what was selected before, neighbours merged. */
static int is_selected(const struct fp_map_line *map, enum kind kind, const char *exe,
                       const struct fp_range *run)
{
    int is_code = map->perms[0] == 'r' && map->perms[2] == 'x';

    if (map->at.start < run->end) /* the kernel lists mappings in order: this one is wrong */
        return 0;
    if (kind == VM_MEMFD)
        return is_code && name_starts(map, "/memfd:vmem");
    if (kind == ANONYMOUS_CODE)
        return is_code && map->name_size == 0;
    return map->perms[0] == 'r' && map->perms[1] == 'w' &&
           (name_is(map, exe) || (map->name_size == 0 && map->at.start == run->end));
}

static int add(struct fp_ranges *ranges, const struct fp_maps_filter *filter,
               const struct fp_range *run)
{
    if (run->end == run->start || (filter != NULL && !filter->accepts(filter->arg, run)))
        return 0;
    if (ranges->count == FP_RANGES_MAX)
        return FP_EFULL;
    ranges->range[ranges->count++] = *run;
    return 0;
}

/* 0, FP_ENOENT or FP_EFULL. */
static int parse(const char *text, enum kind kind, const char *exe,
                 const struct fp_maps_filter *filter, struct fp_ranges *ranges)
{
    struct fp_range run = {0, 0};
    struct fp_map_line map;
    int err;

    ranges->count = 0;
    while (next_line(&text, &map)) {
        if (!is_selected(&map, kind, exe, &run))
            continue;
        if (map.at.start != run.end) {
            err = add(ranges, filter, &run);
            if (err != 0)
                return err;
            run.start = map.at.start;
        }
        run.end = map.at.end;
    }
    err = add(ranges, filter, &run);
    return err == 0 && ranges->count == 0 ? FP_ENOENT : err;
}

int fp_maps_parse_code(const char *text, const struct fp_maps_filter *filter,
                       struct fp_ranges *ranges)
{
    int err = parse(text, VM_MEMFD, NULL, NULL, ranges);

    return err == FP_ENOENT ? parse(text, ANONYMOUS_CODE, NULL, filter, ranges) : err;
}

int fp_maps_parse_data(const char *text, const char *exe, struct fp_ranges *ranges)
{
    return parse(text, EXE_DATA, exe, NULL, ranges);
}

int fp_maps_code(const struct fp_maps_filter *filter, struct fp_ranges *ranges)
{
    char *text = fp_file_text("/proc/self/maps");
    int err = text == NULL ? FP_EIO : fp_maps_parse_code(text, filter, ranges);

    free(text);
    return err;
}

int fp_maps_code_is_memfd(void)
{
    char *text = fp_file_text("/proc/self/maps");
    struct fp_ranges ranges;
    int found = text != NULL && parse(text, VM_MEMFD, NULL, NULL, &ranges) != FP_ENOENT;

    free(text);
    return found;
}

int fp_maps_data(struct fp_ranges *ranges)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    char *text = n > 0 ? fp_file_text("/proc/self/maps") : NULL;
    int err;

    if (text == NULL)
        return FP_EIO;
    exe[n] = '\0';
    err = fp_maps_parse_data(text, exe, ranges);
    free(text);
    return err;
}

/* ---------------------------------------------------- code out of files -- */

static int is_library(const struct fp_map_line *map)
{
    if (name_is(map, "[vdso]"))
        return 1;
    return name_starts(map, "/") && !name_starts(map, "/memfd:") && !name_starts(map, "/dev/") &&
           !name_starts(map, "/SYSV") && !name_starts(map, "/anon_hugepage");
}

static void cut_deleted(struct fp_map_line *map)
{
    static const char deleted[] = " (deleted)";
    size_t tail = sizeof deleted - 1;

    if (map->name_size > tail && memcmp(map->name + map->name_size - tail, deleted, tail) == 0)
        map->name_size -= tail;
}

static size_t count_lines(const char *text)
{
    size_t lines = 1;

    while ((text = strchr(text, '\n')) != NULL) {
        text++;
        lines++;
    }
    return lines;
}

int fp_mapped_files_parse(struct fp_mapped_files *files, char *text)
{
    const char *rest = text;
    struct fp_map_line map;

    *files = (struct fp_mapped_files){.text = text};
    files->of = malloc(count_lines(text) * sizeof *files->of);
    if (files->of == NULL) {
        fp_mapped_files_free(files);
        return FP_ENOMEM;
    }
    while (next_line(&rest, &map)) {
        /* The search by address needs the kernel's order. */
        if (map.perms[2] != 'x' || !is_library(&map) ||
            (files->count > 0 && map.at.start < files->of[files->count - 1].end))
            continue;
        cut_deleted(&map);
        files->of[files->count++] =
            (struct fp_mapped_file){map.at.start,     map.at.end, map.offset, map.device_major,
                                    map.device_minor, map.inode,  map.name};
        text[map.name - text + (ptrdiff_t)map.name_size] = '\0';
    }
    return 0;
}

int fp_mapped_files_read(struct fp_mapped_files *files)
{
    char *text = fp_file_text("/proc/self/maps");

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

/* Cuts what is known from *rest. A known range grows at an end when the JIT maps more: the new
 * entry is the part beyond. */
static int is_covered(const struct fp_live_ranges *live, uint32_t count, struct fp_range *rest)
{
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
