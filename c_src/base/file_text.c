#include "base/file_text.h"

#include <stdio.h>
#include <stdlib.h>

char *fp_file_text(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t room = 0;

    if (file == NULL)
        return NULL;
    if (getdelim(&text, &room, '\0', file) < 0 || ferror(file)) {
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}
