#include "base/smaps.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define LINE_BYTES (PATH_MAX + 256)

/* "start-end perms offset major:minor inode   name" */
static int parse_header(const char *line, struct fp_smap *map, char *name)
{
    char *at;

    memset(map, 0, sizeof *map);
    map->start = strtoull(line, &at, 16);
    if (at == line || *at != '-')
        return 0;
    map->end = strtoull(at + 1, &at, 16);
    if (*at != ' ' || map->end <= map->start || strcspn(at + 1, " ") != 4)
        return 0;
    memcpy(map->perms, at + 1, 4);
    at += 5;
    for (int field = 0; field < 3; field++) {
        at += strspn(at, " ");
        at += strcspn(at, " \n");
    }
    at += strspn(at, " ");
    memcpy(name, at, strlen(at) + 1);
    name[strcspn(name, "\n")] = '\0';
    map->name = name;
    return 1;
}

void fp_smaps_parse(FILE *file, void (*visit)(void *arg, const struct fp_smap *map), void *arg)
{
    static const char rss[] = "Rss:";
    char line[LINE_BYTES], name[LINE_BYTES], next_name[LINE_BYTES];
    struct fp_smap map = {0}, next;

    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, rss, sizeof rss - 1) == 0) {
            map.rss = 1024 * strtoull(line + sizeof rss - 1, NULL, 10);
        } else if (parse_header(line, &next, next_name)) {
            if (map.end != 0)
                visit(arg, &map);
            memcpy(name, next_name, sizeof name);
            map = next;
            map.name = name;
        }
    }
    if (map.end != 0)
        visit(arg, &map);
}

int fp_smaps_each(void (*visit)(void *arg, const struct fp_smap *map), void *arg)
{
    FILE *file = fopen("/proc/self/smaps", "re");

    if (file == NULL)
        return FP_EIO;
    fp_smaps_parse(file, visit, arg);
    fclose(file);
    return 0;
}
