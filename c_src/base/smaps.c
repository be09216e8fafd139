#include "base/smaps.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/maps.h"

#define LINE_BYTES (PATH_MAX + 256)

/* `name` has room for the line. */
static int parse_header(const char *line, struct fp_smap *map, char *name)
{
    struct fp_map_line header;

    if (!fp_map_line_parse(line, strcspn(line, "\n"), &header))
        return 0;
    memcpy(name, header.name, header.name_size);
    name[header.name_size] = '\0';
    *map = (struct fp_smap){.start = header.at.start, .end = header.at.end, .name = name};
    memcpy(map->perms, header.perms, sizeof map->perms);
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
